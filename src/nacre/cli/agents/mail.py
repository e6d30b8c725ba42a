"""`nacre agents send` and `inbox`: write to agents of other processes and show their pending mail."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import json_option, run
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_age, print_error, print_json, printable
from nacre.clock import SYSTEM_CLOCK
from nacre.formatting import counted
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.agents.directory import MailTarget
    from nacre.layers.l7_mail.letter import Letter
    from nacre.layers.l7_mail.post import SentLetters

MAX_STDIN_CHARS = 200_000
"""Twice the size limit of a message: enough to refuse it with the reason, whatever is piped in."""
SHOWN_SENDER = 30
"""Columns of a sender."""

team_option = click.option("--team", metavar="TEAM", default="", help="The team.")


@click.command(short_help="Write to an agent or a team.")
@click.argument("to")
@click.argument("message")
@team_option
@click.option("--summary", metavar="LINE", default="", help="One line for display; else the first line.")
@click.option("--from", "sender", metavar="NAME", default="", help="The sender, for answers.")
@click.pass_obj
def send(options: RunOptions, /, to: str, message: str, *, team: str, summary: str, sender: str) -> None:
    """Write MESSAGE (`-` reads stdin) to TO: an agent, `*` for a whole team, or `uds:PATH`.

    The receiver reads it between two steps of its work. If it is not running, the message waits.
    """
    text = sys.stdin.read(MAX_STDIN_CHARS) if message == "-" else message
    if not text.strip():
        raise click.UsageError("the message is empty; give MESSAGE, or pipe it in with -")
    if to == "*" and not team:
        raise click.UsageError("`*` writes to a whole team; name it with --team")
    sent, target = run(_sent(options, to, text, team=team, summary=summary, sender=sender))
    where = f" ({target.where})" if target else f" (team {team})" if team else ""
    print(f"sent to {printable(', '.join(sent.to))}{printable(where)}")
    for note in sent.notes:
        print_error(note)
    if target is not None and target.is_gone:
        print_error(f"{target.name} is not running; the message waits in its mailbox")


async def _sent(
    options: RunOptions, to: str, text: str, *, team: str, summary: str, sender: str
) -> tuple[SentLetters, MailTarget | None]:
    from nacre.agents.directory import find, post_of, team_of
    from nacre.layers.l7_mail.letter import TERMINAL, check_name
    from nacre.layers.l7_mail.policy import AgentAddress, address

    settings = load_settings(options)
    # A session is named by the beginning of its id, which is a name to look up, not an address.
    is_name = isinstance(address(to), AgentAddress)
    target = find(settings.home, settings.cwd, to, team=team) if is_name else None
    roster = team_of(settings.home, team) if team else None
    post = post_of(check_name(sender) if sender else TERMINAL, target, roster)
    return await post.send(target.name if target else to, text, summary=summary), target


@click.command(short_help="Show the pending messages of an agent.")
@click.argument("name")
@team_option
@click.option("--all", "with_received", is_flag=True, help="Include received ones.")
@json_option
@click.pass_obj
def inbox(options: RunOptions, /, name: str, *, team: str, with_received: bool, as_json: bool) -> None:
    """Show the messages that wait for NAME; they stay in its mailbox."""
    from nacre.agents.directory import find
    from nacre.layers.l7_mail.mailbox import peek

    settings = load_settings(options)
    target = find(settings.home, settings.cwd, name, team=team)
    found = peek(target.inbox)
    received = found.received if with_received else ()
    if as_json:
        rows = [_as_json(each, waits=False) for each in received]
        print_json([*rows, *(_as_json(each, waits=True) for each in found.waiting)])
        return
    for each in received:
        _print_letter(each, "received")
    for each in found.waiting:
        _print_letter(each, "waiting")
    if not received and not found.waiting:
        hint = "" if with_received else "; --all shows what it has received"
        print(f"No message waits for {printable(target.name)} ({printable(target.where)}){hint}.")
    if found.unreadable:
        print_error(f"{counted(found.unreadable, 'line')} of {target.inbox} cannot be read as letters")


def _as_json(letter: Letter, *, waits: bool) -> JsonObject:
    return {
        "id": letter.id,
        "from": letter.sender,
        "to": letter.to,
        "kind": letter.kind,
        "summary": letter.summary,
        "message": letter.text,
        "approve": letter.approves,
        "answers": letter.answers or None,
        "at": letter.at.isoformat(),
        "waiting": waits,
    }


def _print_letter(letter: Letter, state: str) -> None:
    age = human_age(letter.at, SYSTEM_CLOCK.now())
    kind = "" if letter.kind == "text" else f" {letter.kind}"
    yes = "" if letter.approves is None else " yes" if letter.approves else " no"
    head = f"{state} · {letter.sender[:SHOWN_SENDER]} · {age}{kind}{yes}: {letter.summary}"
    print(printable(head))
    if letter.text.strip() and letter.text.strip() != letter.summary:
        for line in letter.text.strip().splitlines():
            print(f"  {printable(line)}")
