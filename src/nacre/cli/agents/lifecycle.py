"""`nacre agents run` and `stop`: run a member of a team in this process, or ask an agent to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from nacre.cli.agents.mail import team_option
from nacre.cli.memory.open import run
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, printable
from nacre.cli.signals import run_to_end
from nacre.errors import MailError

if TYPE_CHECKING:
    from nacre.agents.directory import ListedAgent, MailTarget
    from nacre.agents.registry import AgentState
    from nacre.layers.l7_mail.letter import Letter


@click.command("run", short_help="Run a member of a team in this terminal.")
@click.argument("name")
@team_option
@click.option("--type", "kind", metavar="TYPE", default="general", show_default=True, help="Agent type.")
@click.option("--model", metavar="MODEL", default="", help="Overrides the model of its type.")
@click.option("--prompt", metavar="TEXT", default="", help="First prompt; without it, waits for messages.")
@click.pass_obj
def run_member(options: RunOptions, /, name: str, *, team: str, kind: str, model: str, prompt: str) -> int:
    """Run NAME, a member of a team, in this directory: one turn per message, with reports to the lead.

    If a process with this name was killed, its work continues. It ends on `nacre agents stop` or Ctrl-C.
    """
    if not team:
        raise click.UsageError("a teammate belongs to a team; name it with --team")
    return run_to_end(_run(options, name, team, kind=kind, model=model, prompt=prompt))


async def _run(options: RunOptions, name: str, team: str, *, kind: str, model: str, prompt: str) -> int:
    from nacre.agents.directory import team_of
    from nacre.app.teammate import open_teammate
    from nacre.messages.events import Event, Notice, Reply

    settings = load_settings(options)

    def hear(event: Event) -> None:
        match event:
            case Reply() if event.message.text.strip():
                print(printable(event.message.text.strip()), flush=True)
            case Notice(text):
                print_error(text)
            case _:
                pass

    settings = replace(settings, is_interactive=False)
    async with open_teammate(settings, name, team, kind=kind, model=model) as mate:
        for notice in (*(problem.line for problem in settings.problems), *mate.ready.notices):
            print_error(notice)
        mate.hear = hear
        roster = team_of(settings.home, team)
        lead = roster.member(roster.lead())
        if lead is None or not roster.is_alive(lead):
            print_error(f"{team} has no lead now; reports of {mate.name} wait until a chat leads it")
        print(f"{printable(mate.name)} of team {printable(team)} waits for messages", flush=True)
        await mate.serve(prompt)
    print(f"{printable(mate.name)} has ended", flush=True)
    return 0


ASK_SECONDS = 10.0
"""How long to wait for an answer: messages are read between two steps of the work."""
GOODBYE_SECONDS = 5.0
"""Time to save its state after it agreed or received a signal."""
POLL_SECONDS = 0.1
WORDS = "The person asks you to stop: finish or put down what you are at."


@click.command(short_help="Ask an agent to shut down.")
@click.argument("name")
@team_option
@click.option("--now", "at_once", is_flag=True, help="End the process of a teammate that runs in its own.")
@click.pass_obj
def stop(options: RunOptions, /, name: str, *, team: str, at_once: bool) -> int:
    """Ask NAME to shut down, wait, and report the result; exit code 1 if it keeps running."""
    from nacre.agents.directory import find
    from nacre.layers.l7_mail.letter import MAIN

    settings = load_settings(options)
    target = find(settings.home, settings.cwd, name, team=team)
    if target.name == MAIN:
        raise MailError(
            f"{target.where}: main is a session, not an agent; leave it with Ctrl-D in its terminal"
        )
    if not target.is_running:
        print(f"{printable(target.name)} is not running")
        return 0
    said = run(_killed(target) if at_once else _asked(target))
    if _is_there(target):
        print_error(said)
        return 1
    print(f"{printable(target.name)} has stopped")
    return 0


async def _asked(target: MailTarget) -> str:
    """Send a stop request to this process and return why it keeps running, if it does."""
    from nacre.layers.l7_mail.mailbox import Mailbox
    from nacre.layers.l7_mail.post import Post
    from nacre.layers.l7_mail.uds import serve

    answers: asyncio.Queue[Letter] = asyncio.Queue()
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        address = f"{folder}/answer"
        async with serve(address, answers.put):
            post = Post(
                f"uds:{address}", find=lambda _: Mailbox(target.inbox), everyone=lambda: [target.name]
            )
            await post.send(target.name, WORDS, summary="asked to stop", kind="shutdown_request")
            return await _outcome(target, answers)


async def _outcome(target: MailTarget, answers: asyncio.Queue[Letter]) -> str:
    waiting = asyncio.create_task(answers.get(), name="answer")
    try:
        gone = asyncio.create_task(_gone(target, ASK_SECONDS), name="end")
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not waiting.done():
            return f"{target.name} has not answered yet; it reads letters between two steps of its work"
        letter = waiting.result()
        if letter.approves is False:
            return f"{target.name} goes on: {letter.text.strip() or letter.summary}"
        await _gone(target, GOODBYE_SECONDS)
        return f"{target.name} said that it would stop, and has not yet"
    finally:
        waiting.cancel()


async def _killed(target: MailTarget) -> str:
    """Send SIGTERM, then SIGKILL, to this very process and no later one with its number."""
    process = _own_process(target)
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(process, number)
            if await _gone(target, GOODBYE_SECONDS):
                break
    except ProcessLookupError:
        pass
    finally:
        os.close(process)
    return f"{target.name} cannot be ended; see `ps {target.member.pid if target.member else ''}`"


def _own_process(target: MailTarget) -> int:
    """Open the teammate's process; refused for agents that share a process with others."""
    from nacre.process import start_time

    member = target.member
    roster = target.roster
    if member is None or roster is None:
        raise MailError(
            f"{target.name} runs inside its session; stop it there with /agents stop, or ask it without --now"
        )
    if member.host != socket.gethostname():
        raise MailError(f"{target.name} runs on {member.host}; end it there")
    shared = [each.name for each in roster.members() if each.pid == member.pid and each.name != member.name]
    if shared or member.name == roster.lead():
        others = ", ".join(shared) or "the person's own session"
        raise MailError(f"{target.name} shares its process with {others}; ask it to stop instead")
    if not member.start:
        raise MailError(
            f"this system cannot tell process {member.pid} from another one; ask it to stop instead"
        )
    try:
        process = os.pidfd_open(member.pid)
    except OSError as error:
        raise MailError(f"{target.name} cannot be ended: {error.strerror}") from error
    # Opened first and checked then, so that the number cannot be reused in between.
    if start_time(member.pid) != member.start:
        os.close(process)
        raise MailError(f"process {member.pid} is no longer {target.name}; nothing was stopped")
    return process


async def _gone(target: MailTarget, seconds: float) -> bool:
    """Wait at most this long; returns whether the process has ended."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while _is_there(target):
        if loop.time() >= until:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def _is_there(target: MailTarget) -> bool:
    from nacre.agents.registry import read_states, with_process_status

    roster = target.roster
    member = target.member
    seen = target.seen
    if roster is not None and member is not None:
        now = roster.member(member.name)
        return now is not None and now.identity == member.identity and roster.is_alive(member)
    states = read_states(seen.folder) if seen is not None else ()
    return any(with_process_status(each).status in {"running", "idle"} for each in states if _is(each, seen))


def _is(state: AgentState, seen: ListedAgent | None) -> bool:
    return seen is not None and state.id == seen.state.id
