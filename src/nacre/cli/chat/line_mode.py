"""The chat line by line: for pipes, dumb terminals and `--line`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from nacre.agents.registry import AgentState
from nacre.agents.toolset import GO, PermissionMode
from nacre.app.chat_session import OpenedChat, open_chat, switch_session
from nacre.app.endings import Leave, Reopen, Rewound
from nacre.app.model_switch import settings_for
from nacre.app.open_agent import OpenedAgent
from nacre.app.pictures import named_pictures
from nacre.app.session_text import (
    ended_line,
    failed_line,
    farewell_line,
    resumed_lines,
    stopped_line,
    waiting_line,
    working,
)
from nacre.cli.chat.answers import read_word
from nacre.cli.chat.loop_thread import LoopThread
from nacre.cli.chat.slash import SlashContext, run_slash
from nacre.cli.chat.terminal import InputHistory, TurnPrinter, status_line, styled, turn_line
from nacre.cli.output import countdown, has_colour, is_terminal, print_error, printable
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.plan import proposed_plan
from nacre.errors import NacreError
from nacre.messages.blocks import Image
from nacre.messages.events import Notice
from nacre.messages.media import as_image
from nacre.session.background import IN_BACKGROUND
from nacre.settings import Settings
from nacre.store.input_history import remember_command
from nacre.tools.guard import PermissionAnswer, PermissionQuestion, Refusal


def run_line_chat(settings: Settings, session: str | None, *, keeps: bool) -> None:
    """Run a conversation until the user leaves; `keeps` says whether input may be stored."""
    with LoopThread() as loop, InputHistory(settings.home, keeps=keeps) as history:
        _Conversation(settings, loop, history).hold(session)


class _Conversation:
    """The user at the terminal, in one session after another."""

    def __init__(self, settings: Settings, loop: LoopThread, history: InputHistory) -> None:
        self._settings = replace(settings, is_interactive=True)
        self._loop = loop
        self._history = history
        self._is_person = is_terminal(sys.stdin) and is_terminal()
        self._colour = has_colour()
        self._is_read_aloud = settings.terminal.screen_reader
        self._printer = TurnPrinter(in_words=self._is_read_aloud)
        """One for all turns: a question can be asked in one turn and answered in another."""
        self._agents = AgentNotices(tuple, self._history.above)
        """Receives changes of the agents of the current session."""

    @property
    def _prompt(self) -> str:
        return "" if not self._is_person else "You: " if self._is_read_aloud else "> "

    def hold(self, session: str | None) -> None:
        place = self._loop.call(self._enter(session))
        self._greet(place.ready)
        self._report_agents(place.ready)
        try:
            while isinstance(ending := self._listen(place.ready), Reopen):
                place = self._move(place, ending)
            place.set_end_reason("prompt_input_exit")
        finally:
            self._loop.call(place.held.aclose())
            self._print_last_lines(place.ready)
        if self._is_person and (line := farewell_line(place.ready.agent.session)):
            print(styled(printable(line), "dim", colour=self._colour))

    def _print_last_lines(self, ready: OpenedAgent) -> None:
        for line in (*self._agents.untold(), *(one.text for one in ready.agent.session.notices())):
            print_error(line)

    async def _enter(self, session: str | None) -> OpenedChat:
        return await open_chat(
            self._settings, session, ask=self._ask if self._is_person else None, on_countdown=countdown
        )

    def _report_agents(self, ready: OpenedAgent) -> None:
        self._agents = AgentNotices(ready.team.states if ready.team else tuple, self._history.above)
        if ready.team is not None:
            ready.team.shared.registry.on_change.append(self._agents.changed)

    def _move(self, here: OpenedChat, to: Reopen) -> OpenedChat:
        async def let_go(left: OpenedChat) -> None:
            await left.held.aclose()
            self._print_last_lines(left.ready)

        session = here.ready.agent.session
        is_again = to.session == session.id
        before = self._settings
        self._settings = settings_for(before, session, to)
        try:
            place = self._loop.call(switch_session(here, to, self._enter, let_go))
        except NacreError as error:
            if is_again:
                raise
            self._settings = before
            print_error(str(error))
            return here
        (self._status if is_again and to.model is None else self._greet)(place.ready)
        self._report_agents(place.ready)
        return place

    def _listen(self, ready: OpenedAgent) -> Leave | Reopen:
        context = SlashContext(ready, self._settings, self._loop.call, lambda ready: self._turn(ready, None))
        while True:
            try:
                for line in self._agents.untold():
                    print(styled(f"· {printable(line)}", "dim", colour=self._colour))
                try:
                    text = self._history.ask(self._prompt)
                except EOFError:
                    if self._is_person:
                        print()
                    return Leave()
                if (ending := self._hear(text, context)) is not None:
                    return ending
            except KeyboardInterrupt:
                print("\n(Ctrl-D or /exit leaves)" if self._is_person else "")

    def _hear(self, text: str, context: SlashContext) -> Leave | Reopen | None:
        """Run one line of input; returns how the session ends, if it does."""
        text = remember_command(text) or text
        if not text.startswith("/"):
            if text.strip():
                self._turn(context.ready, text, self._pictures(text))
                self._offer_plan(context.ready)
            return None
        try:
            ending = run_slash(text, context)
        except NacreError as error:
            print_error(str(error))
            return None
        if isinstance(ending, Rewound):
            self._history.type_next(ending.text)
            return None
        return ending

    def _pictures(self, text: str) -> list[Image]:
        """Return the pictures whose paths are in a line; says which are attached."""
        found = []
        for path in named_pictures(text) if self._is_person else ():
            try:
                found.append(as_image(path))
                print(styled(printable(f"· attached {path.name}"), "dim", colour=self._colour))
            except ValueError as error:
                print_error(str(error))
        return found

    def _offer_plan(self, ready: OpenedAgent) -> None:
        """Ask whether the plan that the model proposes in plan mode is to be carried out."""
        reply = ready.agent.session.view.last_reply
        plan = proposed_plan(reply.text) if reply is not None and ready.modes.mode == "plan" else ""
        if plan and self._is_person:
            word = read_word(self._history.answer, "  carry it out? [y]es, [a]ccept edits, [N]o: ")
            if (mode := _PLAN_ANSWERS.get(word)) is not None:
                self._loop.call(ready.modes.accept(plan, mode))
                self._turn(ready, GO)

    async def _ask(self, question: PermissionQuestion) -> PermissionAnswer:
        # A background agent asks while the user types: the input line stays and the question waits.
        is_beside = IN_BACKGROUND.get()
        if is_beside:
            self._history.above(printable(f"· {question.reason}; you are asked with your next message"))
        # The question comes while the reply still streams: finish its line first.
        with self._printer.held():
            return await self._loop.in_main(lambda: self._answer(question, is_beside=is_beside))

    def _answer(self, question: PermissionQuestion, *, is_beside: bool) -> PermissionAnswer:
        try:
            return ask_permission(question, self._history.answer, in_words=self._is_read_aloud)
        except KeyboardInterrupt:
            if not is_beside:
                raise  # and with the question the turn that asked it ends
            # No turn of the user asks this: the caller, and all others behind it, would wait for ever.
            return "no"

    def _turn(self, ready: OpenedAgent, text: str | None, pictures: Sequence[Image] = ()) -> None:
        printer = self._printer
        try:
            self._loop.call(_play(ready, text, printer, self._agents, pictures))
        except KeyboardInterrupt:
            printer.end()
            print_error(stopped_line(ready))
        except NacreError as error:
            printer.end()
            print_error(failed_line(error))
        self._status(ready)

    def _status(self, ready: OpenedAgent) -> None:
        if self._is_person:
            lines = turn_line if self._is_read_aloud else status_line
            line = lines(ready.agent.session, *working(ready))
            print(styled(printable(line), "dim", colour=self._colour))

    def _greet(self, ready: OpenedAgent) -> None:
        for problem in self._settings.problems:
            print_error(problem.line)
        for notice in ready.notices:
            print_error(notice)
        if not self._is_person:
            return
        if ready.choice is not None:
            print(styled(printable(ready.choice.reason), "bold", colour=self._colour))
            if ready.choice.offer:
                print(styled(ready.choice.offer, "dim", colour=self._colour))
        for line in resumed_lines(ready.agent.session):
            print(styled(printable(line), "dim", colour=self._colour))
        print(styled("/help lists commands", "dim", colour=self._colour))


async def _play(
    ready: OpenedAgent,
    text: str | None,
    printer: TurnPrinter,
    agents: AgentNotices,
    pictures: Sequence[Image],
) -> None:
    async with agents.shown(printer), aclosing(ready.agent.stream(text, images=pictures)) as events:
        async for event in events:
            printer.show(event)
        await printer.free()  # a question of a background agent must not consume the answer
    printer.end()


_SPOKEN = {"+": "added: ", "-": "removed: "}
"""What a screen reader says of a changed line instead of its sign."""
_PLAN_ANSWERS: dict[str, PermissionMode] = {"y": "ask", "yes": "ask", "a": "accept edits"}
_ANSWERS: dict[str, PermissionAnswer] = {"y": "once", "yes": "once", "a": "always", "always": "always"}


def ask_permission(
    question: PermissionQuestion, read: Callable[[str], str] = input, *, in_words: bool = False
) -> PermissionAnswer:
    """Show the preview and read the answer; anything but yes or always is no."""
    colour = has_colour()
    mark = "Question:" if in_words else "?"
    heading = f"{mark} {question.tool} needs your permission ({printable(question.reason)})"
    print(styled(heading, "yellow", colour=colour))
    for line in question.preview.splitlines():
        style = {"+": "green", "-": "red"}.get(line[:1], "dim")
        sign = _SPOKEN.get(line[:1], "") if in_words and not line.startswith(("+++", "---")) else ""
        shown = f"{sign}{line[1:]}" if sign else line
        print("    " + styled(printable(shown), style, colour=colour))
    always = f"  always would allow {printable(question.rule.text)} in this project from now on"
    print(styled(always, "dim", colour=colour))
    word = read_word(read, "  go ahead? [y]es, [a]lways, [N]o: ")
    said, _, reason = word.removeprefix("no").removeprefix("n").strip().partition(" ")
    if word.startswith("n") and said in {"because", "-"} and reason:
        return Refusal(reason)
    return _ANSWERS.get(word, "no")


TICK_SECONDS = 1.0
"""Seconds between two updates of the elapsed time."""


class AgentNotices:
    """Receives every change of an agent, in the thread of the session."""

    def __init__(
        self,
        states: Callable[[], Sequence[AgentState]],
        above: Callable[[str], bool],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`above` shows a line above the input line and returns whether it could."""
        self.printer: TurnPrinter | None = None
        """Printer of the current turn; None between turns."""
        self._states = states
        self._above = above
        self._clock = clock
        self._running: set[str] = set()
        self._untold: list[str] = []

    def changed(self, state: AgentState) -> None:
        """Show a temporary line while an agent runs, and a permanent one when it has ended."""
        if state.is_running:
            self._running.add(state.name)
        elif state.name in self._running:
            self._running.discard(state.name)
            if state.background:
                line = ended_line(state)
                if self.printer is not None:
                    self.printer.show(Notice(line))
                elif not self._above(f"· {line}"):
                    self._untold.append(line)
        self._pass_on(self.printer)

    @asynccontextmanager
    async def shown(self, printer: TurnPrinter) -> AsyncIterator[None]:
        """During a turn its printer shows the changes and the waiting time."""
        self.printer = printer
        printer.start()
        ticking = asyncio.create_task(self._tick(printer), name="whom a turn waits for")
        try:
            yield
        finally:
            self.printer = None
            ticking.cancel()
            await asyncio.wait({ticking})

    def untold(self) -> list[str]:
        """Return lines that could not be shown."""
        lines = self._untold
        self._untold = []
        return lines

    async def _tick(self, printer: TurnPrinter) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if any(each.is_running and not each.background for each in self._states()):
                self._pass_on(printer)
            else:
                printer.tick()

    def _pass_on(self, printer: TurnPrinter | None) -> None:
        if printer is not None:
            printer.passing(waiting_line(self._states(), self._clock.now()))
