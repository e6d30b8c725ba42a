"""`nacre chat`: a conversation in the terminal, line by line; Ctrl-C stops the turn, not the program."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace

import click

from nacre.agents.background import IN_BACKGROUND
from nacre.agents.child import PURPOSE
from nacre.agents.hooks_points import EndReason
from nacre.agents.instruction_places import instruction_paths
from nacre.agents.opening import Ready, open_agent
from nacre.agents.session import Session
from nacre.agents.warming import kept_warm
from nacre.cli.agents_beside import Beside
from nacre.cli.agents_showing import pills
from nacre.cli.asking import ask_outside, ask_permission, ask_trust
from nacre.cli.history import History
from nacre.cli.loop_thread import LoopThread
from nacre.cli.options import RunOptions, load_settings, run_options
from nacre.cli.output import has_colour, is_terminal, print_error, printable
from nacre.cli.progress import countdown
from nacre.cli.render import TurnPrinter, shorten, status_line, styled
from nacre.cli.signals import end_on_signals
from nacre.cli.slash import Leave, Reopen, Scene, obey
from nacre.errors import NacreError, ProviderError
from nacre.memory.instructions import load_instructions
from nacre.messages.records import Said
from nacre.settings import Settings, decline, trust
from nacre.settings.consent import consent
from nacre.tools.guard import Answer, Question

LAST_WORDS_CHARS = 160
"""Of each of the last two messages when a session is resumed: two lines on a narrow terminal."""
_WHO = {"user": "you", "assistant": "agent", "system": "note"}


@click.command()
@run_options
@click.pass_obj
def chat(options: RunOptions, /, **given: str | int | bool | None) -> int:
    """Talk in the terminal. /help lists what can be typed; Ctrl-C stops a turn, Ctrl-D leaves."""
    return run_chat(options.updated(**given))


def run_chat(options: RunOptions) -> int:
    """Hold a conversation until the person leaves."""
    options.check()
    settings = _trusted(options, load_settings(options))
    _consented(options, settings)
    end_on_signals()
    with LoopThread() as loop, History(settings.home, keeps=not options.incognito) as history:
        _Conversation(settings, loop, history).hold(options.session)
    return 0


def _trusted(options: RunOptions, settings: Settings) -> Settings:
    """Ask once, on the first run in a directory that brings settings of its own."""
    is_person = is_terminal(sys.stdin) and is_terminal()
    if not settings.wants_trust or not is_person or options.incognito:
        return settings
    is_yes = ask_trust(settings.project_root, settings.wants_trust)
    (trust if is_yes else decline)(settings.home, settings.project_root)
    return load_settings(options)


def _consented(options: RunOptions, settings: Settings) -> None:
    """Ask about each file outside the project that its instructions include; a yes is remembered (M23)."""
    if options.incognito or not (is_terminal(sys.stdin) and is_terminal()):
        return
    for path in load_instructions(instruction_paths(settings)).outside:
        if ask_outside(settings.project_root, path):
            consent(settings.home, settings.project_root, path)


@dataclass(frozen=True, slots=True)
class _Place:
    """The session the person is in, and what must be let go when they leave it."""

    ready: Ready
    held: AsyncExitStack
    beside: Beside
    """Who is told of its agents."""


class _Conversation:
    """One person at the terminal, in one session after another."""

    def __init__(self, settings: Settings, loop: LoopThread, history: History) -> None:
        self._settings = replace(settings, is_interactive=True)
        self._loop = loop
        self._history = history
        self._is_person = is_terminal(sys.stdin) and is_terminal()
        self._colour = has_colour()
        self._printer = TurnPrinter()
        """One for all turns: a question can be put in one turn and answered in another."""
        self._beside = Beside(tuple, self._history.above)

    def hold(self, session: str) -> None:
        here = self._open(session)
        try:
            while isinstance(ending := self._listen(here), Reopen):
                here = self._move(here, ending)
            _leaves(here, "prompt_input_exit")
        finally:
            self._let_go(here)

    def _let_go(self, here: _Place) -> None:
        """Leave a session; what its work in the background came to meanwhile is still told."""
        self._loop.call(here.held.aclose())
        for line in (*here.beside.untold(), *(one.text for one in here.ready.agent.session.notices())):
            print_error(line)

    def _open(self, session: str, *, is_again: bool = False) -> _Place:
        held = AsyncExitStack()
        ask = self._ask if self._is_person else None
        opening = open_agent(self._settings, session=session, ask=ask)
        ready = self._loop.call(held.enter_async_context(opening))
        ready.background.tell = countdown
        self._loop.call(held.enter_async_context(kept_warm(ready.agent, self._settings)))
        if is_again:
            self._status(ready)
        else:
            self._greet(ready)
        return _Place(ready, held, self._told_of_agents(ready))

    def _told_of_agents(self, ready: Ready) -> Beside:
        if ready.team is None:
            return Beside(tuple, self._history.above)
        beside = Beside(ready.team.states, self._history.above)
        ready.team.house.roll.on_change.append(beside.changed)
        return beside

    def _move(self, here: _Place, to: Reopen) -> _Place:
        """Let a session go only once the other is open: where that fails, the person stays."""
        if to.session == here.ready.agent.session.id:
            # The same one, read again: only one of them can hold it.
            _leaves(here, "resume")
            self._let_go(here)
            return self._open(to.session, is_again=True)
        try:
            there = self._open(to.session)
        except NacreError as error:
            print_error(str(error))
            return here
        if to.is_clear and there.ready.hooks:
            there.ready.hooks.source = "clear"
        _leaves(here, "clear" if to.is_clear else "resume")
        self._let_go(here)
        return there

    def _listen(self, here: _Place) -> Leave | Reopen:
        self._beside = here.beside
        while True:
            try:
                ending = self._hear(here.ready)
            except KeyboardInterrupt:
                print("\n(Ctrl-D or /exit leaves)" if self._is_person else "")
                continue
            if ending is not None:
                return ending

    def _hear(self, ready: Ready) -> Leave | Reopen | None:
        for line in self._beside.untold():
            print(styled(f"· {printable(line)}", "dim", colour=self._colour))
        try:
            text = self._history.ask("> " if self._is_person else "")
        except EOFError:
            if self._is_person:
                print()
            return Leave()
        if text.startswith("/"):
            return self._obey(text, ready)
        if text.strip():
            self._turn(ready, text)
        return None

    def _obey(self, text: str, ready: Ready) -> Leave | Reopen | None:
        try:
            return obey(text, Scene(ready, self._settings, self._loop.call, self._go_on))
        except NacreError as error:
            print_error(str(error))
            return None

    async def _ask(self, question: Question) -> Answer:
        # An agent in the background asks while the person types: their line stays, and the question waits.
        is_beside = IN_BACKGROUND.get()
        if is_beside:
            self._history.above(printable(f"· {question.reason}; you are asked with your next message"))
        # A reader is asked about while the reply still streams: its words must not run into the question.
        with self._printer.held():
            return await self._loop.in_main(lambda: self._answer(question, is_beside=is_beside))

    def _answer(self, question: Question, *, is_beside: bool) -> Answer:
        try:
            return ask_permission(question, self._history.answer)
        except KeyboardInterrupt:
            if not is_beside:
                raise  # and with the question the turn that asked it ends
            # No turn of the person's asks this: whoever does would wait for ever, and all others behind it.
            return "no"

    def _go_on(self, ready: Ready) -> None:
        self._turn(ready, None)

    def _turn(self, ready: Ready, text: str | None) -> None:
        printer = self._printer
        try:
            self._loop.call(_play(ready, text, printer, self._beside))
        except KeyboardInterrupt:
            printer.end()
            print_error(f"stopped; what was said so far is kept{_who_goes_on(ready)}")
        except ProviderError as error:
            printer.end()
            print_error(f"{error} (what you said is kept; /retry asks again)")
        except NacreError as error:
            printer.end()
            print_error(str(error))
        self._status(ready)

    def _status(self, ready: Ready) -> None:
        if self._is_person:
            states = ready.team.states() if ready.team else ()
            # Agents are told of by what they do, and not by the task that runs them.
            working = [each for each in ready.background.running() if not each.startswith(f"{PURPOSE} ")]
            line = status_line(ready.agent.session, working, pills(states))
            print(styled(line, "dim", colour=self._colour))

    def _greet(self, ready: Ready) -> None:
        for problem in self._settings.problems:
            print_error(problem.line)
        for notice in ready.notices:
            print_error(notice)
        if not self._is_person:
            return
        if ready.choice is not None:
            print(styled(ready.choice.reason, "bold", colour=self._colour))
            if ready.choice.offer:
                print(styled(ready.choice.offer, "dim", colour=self._colour))
        for line in _resumed(ready.agent.session):
            print(styled(line, "dim", colour=self._colour))
        print(styled("/help lists commands", "dim", colour=self._colour))


def _leaves(here: _Place, reason: EndReason) -> None:
    """Have the person's commands told why."""
    if here.ready.hooks:
        here.ready.hooks.ending = reason


def _who_goes_on(ready: Ready) -> str:
    """That a stopped turn stops what it waits for, and nobody else."""
    names = [each.name for each in (ready.team.states() if ready.team else ()) if each.is_running]
    if not names:
        return ""
    return f"; {', '.join(names)} go{'es' * (len(names) == 1)} on in the background (/agents stop NAME)"


def _resumed(session: Session) -> list[str]:
    """What was said last, so that the person knows where they are."""
    said = [
        record
        for record in session.transcript.records
        if isinstance(record, Said) and not record.aside and not record.meta and record.message.text.strip()
    ]
    if not said:
        return []
    last = [f"{_WHO[record.role]}: {shorten(record.message.text, LAST_WORDS_CHARS)}" for record in said[-2:]]
    return [f"resumed session {session.id}", *last]


async def _play(ready: Ready, text: str | None, printer: TurnPrinter, beside: Beside) -> None:
    async with beside.shown(printer), aclosing(ready.agent.run(text)) as events:
        async for event in events:
            printer.show(event)
        await printer.free()  # a question of somebody in the background must not swallow the answer
    printer.end()
