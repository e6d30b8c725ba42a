"""One user in one session after another, without a screen: turns, commands and switches as display items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import NamedTuple

from textual.content import Content

from nacre.agents.registry import AgentState
from nacre.app.chat_session import OpenedChat, open_chat, other_sessions, switch_session
from nacre.app.endings import Ending, Reopen, Rewound
from nacre.app.model_switch import AUTO, offered_models, settings_for, switch_note, thinking_note
from nacre.app.open_agent import OpenedAgent
from nacre.app.session_text import ended_line, failed_line, farewell_line, stopped_line, working
from nacre.app.slash_commands import PrintedText, SlashRunner
from nacre.context.plan import proposed_plan
from nacre.errors import NacreError
from nacre.formatting import clean, printable
from nacre.inspect.context_usage import Contents, contents_of
from nacre.inspect.savings import booked
from nacre.messages.blocks import Image, ToolCall
from nacre.messages.events import Notice, Reply, TurnDone
from nacre.messages.records import Record, Said, Undone
from nacre.process import kill_group
from nacre.providers.choose import ModelChoice, preload
from nacre.session.log_writer import SessionLogWriter
from nacre.session.session import Session
from nacre.store.summaries import SessionSummary
from nacre.tools.guard import Ask
from nacre.tui.events import piece_of, pieces_of
from nacre.tui.pickers import Picker, PickerRow
from nacre.tui.pieces import Level, NoticeLine, Piece, UserText
from nacre.tui.start import Start
from nacre.tui.start_panel import remembered_line

ERROR_BEGINS = "nacre: "
"""Prefix of errors on the command line, which is redundant on the screen."""
NOT_BEGUN = "stopped before anything was sent; ↑ brings your words back"
MAX_SHELL_LINES = 200
"""Lines shown of the output of a command of the user."""
SHOWN_OF_THE_PAST = 40
"""Messages shown of a resumed session."""


def _notices(printed: Sequence[PrintedText]) -> Iterator[NoticeLine]:
    """Return what a command printed; each line of an error is a notice."""
    for text, is_error in printed:
        if is_error:
            for line in text.rstrip().splitlines():
                yield NoticeLine(line.removeprefix(ERROR_BEGINS), "error")
        elif text.strip():
            yield NoticeLine(text.rstrip(), "plain")


class CommandResult(NamedTuple):
    """What a command did."""

    ending: Ending
    notices: Sequence[NoticeLine]
    is_again: bool
    """Whether the turn continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenCallbacks:
    """What a conversation needs of its screen."""

    show: Callable[[Piece], Awaitable[None]]
    later: Callable[[Piece], None]
    """The same, without waiting."""
    show_earlier: Callable[[Sequence[Piece]], Awaitable[None]]
    """Show earlier messages."""
    show_command: Callable[[], None]
    """Show the beginning of a command's output that is higher than the screen."""
    finish: Callable[[], Awaitable[None]]
    """The stream has ended."""
    clear: Callable[[], Awaitable[None]]
    meter: Callable[[Contents], None]
    settle: Callable[[Session], None]
    """Results may have been offloaded meanwhile."""
    ask: Ask
    countdown: Callable[[str], None]
    panel: Callable[[str, str], Awaitable[bool]]
    """Shows model and memories of an empty session; no memories mean that it is not empty."""


class Talk:
    """The current session and its events."""

    def __init__(self, start: Start, screen: ScreenCallbacks) -> None:
        self.settings = replace(start.settings, is_interactive=True)
        self.slash = start.slash()
        self._start = start
        self._screen = screen
        self._runner = SlashRunner()
        self._place: OpenedChat | None = None
        self._past: list[Record] = []
        """Records of the log that the session does not hold, and the number of records when it was opened."""
        self._known = 0
        self._running: set[str] = set()
        self.farewell = ""
        """Names the session after it was left."""
        self._loading: asyncio.Task[None] | None = None
        """Loads the vendor's package, which takes a second, while the user may type."""

    @property
    def ready(self) -> OpenedAgent | None:
        """The open session, if any."""
        return self._place.ready if self._place else None

    def background(self) -> list[str]:
        """Return the names of background work and of agents with their activity."""
        return [each for part in working(self._place.ready) for each in part] if self._place else []

    async def open(self) -> None:
        """Open the first session; raises if that fails."""
        self._place = await self._enter(self._start.session)
        await self._greet()
        choice = self._place.ready.choice
        if choice is not None:
            self._loading = asyncio.create_task(self._load(choice))
        else:
            self._start.on_loaded()

    async def _load(self, choice: ModelChoice) -> None:
        await asyncio.to_thread(preload, choice)
        self._start.on_loaded()

    async def play(self, text: str | None, pictures: Sequence[Image] = ()) -> None:
        """Run one turn; cancellation stops it and keeps what was said so far."""
        assert self._place is not None, "a session is open before anything is said"
        ready = self._place.ready
        is_begun = False
        if text is not None:
            await self._screen.show(UserText(text))
        try:
            if self._loading is not None:
                await asyncio.shield(self._loading)
            is_begun = True
            await self._events(ready, text, pictures)
        except asyncio.CancelledError:
            await self._tell(stopped_line(ready) if is_begun else NOT_BEGUN, "warning")
        except NacreError as error:
            await self._tell(failed_line(error))
        await self._screen.finish()
        self.measure()

    def proposed_plan(self) -> str:
        """Return the plan that the last reply proposes in plan mode; empty if there is none."""
        assert self._place is not None, "a plan is that of a session"
        ready = self._place.ready
        reply = ready.agent.session.view.last_reply
        return proposed_plan(reply.text) if reply is not None and ready.modes.mode == "plan" else ""

    async def run_shell(self, command: str) -> None:
        """Run a command of the user and show its output; the model is not told."""
        await self._screen.show(UserText(f"!{command}"))
        process = await asyncio.create_subprocess_shell(
            command,
            cwd=self.settings.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            out, _ = await process.communicate()
        except asyncio.CancelledError:
            kill_group(process.pid)
            await process.wait()
            await self._tell("stopped", "warning")
            return
        lines = clean(out.decode(errors="replace")).rstrip().splitlines()
        left = len(lines) - MAX_SHELL_LINES
        shown = [*([f"… {left:,} lines before"] if left > 0 else []), *lines[-MAX_SHELL_LINES:]]
        if shown:
            await self._screen.show(NoticeLine("\n".join(shown), "plain"))
        if process.returncode:
            await self._tell(f"exit code {process.returncode}", "warning")

    async def obey(self, line: str) -> Ending:
        """Run a slash command and show its output; it may switch sessions."""
        assert self._place is not None, "a session is open before anything is said"
        await self._screen.show(UserText(line))
        ready = self._place.ready
        done = await self._run(line, is_stoppable=True)
        if isinstance(done.ending, Reopen):
            await self.switch_session(done.ending)
        if isinstance(done.ending, Rewound):
            await self._screen.clear()
            await self._show_past(ready)
        for each in done.notices:
            await self._screen.show(each)
        self._screen.show_command()
        if done.is_again:
            await self.play(None)
        self.measure()
        return None if isinstance(done.ending, Reopen) else done.ending

    async def answer(self, line: str) -> Sequence[NoticeLine]:
        """Run a command beside a turn; returns its output."""
        return (await self._run(line, is_stoppable=False)).notices

    async def _run(self, line: str, *, is_stoppable: bool) -> CommandResult:
        assert self._place is not None, "a session is open before anything is said"
        done = await self._runner.run(self.slash, line, self._place.ready, is_stoppable=is_stoppable)
        return CommandResult(done.ending, tuple(_notices(done.printed)), done.is_again)

    async def switch_session(self, to: Reopen) -> None:
        """Go on with another session; where that fails, the person stays."""
        assert self._place is not None, "a session is open before it is left"
        session = self._place.ready.agent.session
        is_again = to.session == session.id
        before = self.settings
        self.settings = settings_for(before, session, to)
        try:
            self._place = await switch_session(self._place, to, self._enter, self._let_go)
        except NacreError as error:
            if is_again:
                raise
            self.settings = before
            await self._tell(str(error))
            return
        await self._screen.clear()
        await self._greet()

    def stop(self) -> bool:
        """Stop what a command waits for; returns False if nothing runs."""
        return self._runner.stop()

    async def leave(self) -> list[str]:
        """Close the session and wait for its background work; returns lines to print."""
        place = self._place
        self._place = None
        if place is None:
            return []
        place.set_end_reason("prompt_input_exit")
        await place.held.aclose()
        session = place.ready.agent.session
        self.farewell = farewell_line(session)
        return [one.text for one in session.notices()]

    async def abandon(self) -> None:
        """Close without waiting for background work."""
        place = self._place
        self._place = None
        if place is not None:
            ended = SystemExit()
            await place.held.__aexit__(SystemExit, ended, None)

    def other_sessions(self) -> list[SessionSummary]:
        """Sessions that could be gone on with; raises where none may be looked at."""
        assert self._place is not None, "a session is open before others are looked for"
        return other_sessions(self._place.ready.agent.session, self.settings)

    def model_picker(self) -> Picker:
        """Return a list of models with what each would cost; it ends with the command that chooses one."""
        assert self._place is not None, "a model is that of a session"
        session = self._place.ready.agent.session
        models = offered_models(session, self.settings.environ)
        rows = [PickerRow(f"/model {one.name}", one.line, one.name == session.base.model) for one in models]

        async def preview(command: str) -> Content:
            return Content(printable(switch_note(session, command.partition(" ")[2])))

        title = "Continue with another model (/model NAME takes any)"
        return Picker(title, rows, preview=preview, is_note=True)

    def level_picker(self) -> Picker:
        """Return a list of levels of thinking with what each would mean; it ends with a command as well."""
        assert self._place is not None, "a level is that of a session"
        session = self._place.ready.agent.session
        levels = session.profile.thinking_levels
        now = session.settings.thinking or AUTO
        rows = [
            PickerRow(f"/think {level}", f"{'●' if level == now else ' '} {level}", level == now)
            for level in (*levels, *((AUTO,) if levels else ()))
        ]

        async def preview(command: str) -> Content:
            return Content(thinking_note(session, command.partition(" ")[2]))

        title = "How much the model thinks, in this chat"
        return Picker(title, rows, preview=preview, is_note=True)

    def measure(self) -> None:
        """Return the context usage."""
        if self._place is not None:
            session = self._place.ready.agent.session
            booking = [*self._past, *session.transcript.records[self._known :]]
            self._screen.meter(contents_of(session, booking))
            self._screen.settle(session)

    async def _enter(self, session: str | None) -> OpenedChat:
        return await (self._start.open_chat or open_chat)(
            self.settings, session, ask=self._screen.ask, on_countdown=self._screen.countdown
        )

    async def _let_go(self, place: OpenedChat) -> None:
        await place.held.aclose()
        for one in place.ready.agent.session.notices():
            await self._tell(one.text)

    async def _events(self, ready: OpenedAgent, text: str | None, pictures: Sequence[Image] = ()) -> None:
        async with aclosing(ready.agent.stream(text, images=pictures)) as events:
            async for event in events:
                if isinstance(event, Notice):
                    self._screen.settle(ready.agent.session)  # it may be told of a call that says so itself
                if (piece := piece_of(event)) is not None:
                    await self._screen.show(piece)
                if isinstance(event, Reply | TurnDone):
                    self.measure()

    async def _greet(self) -> None:
        assert self._place is not None, "greeted in a session"
        ready = self._place.ready
        session = ready.agent.session
        writer = session.writer
        self._known = len(session.transcript.records)
        self._past = []
        if self._known and isinstance(writer, SessionLogWriter) and writer.path.exists():
            self._past = await asyncio.to_thread(booked, writer.path)
        for line in (*(one.line for one in self.settings.problems), *ready.notices):
            await self._tell(line, "warning")
        reason = ready.choice.reason if ready.choice is not None else contents_of(session, []).model
        if not await self._screen.panel(reason, "" if session.view.items else await self._remembered(ready)):
            await self._tell(reason, "bold")
        if ready.choice is not None and ready.choice.offer:
            await self._tell(ready.choice.offer, "info")
        await self._show_past(ready)
        if ready.team is not None:
            self._running = {each.name for each in ready.team.states() if each.is_running}
            ready.team.shared.registry.on_change.append(self._changed)
        self.measure()

    async def _remembered(self, ready: OpenedAgent) -> str:
        if not ready.memories:
            return "memory is off here; `nacre doctor` says why"
        return remembered_line(sum([len((await each.scan()).entries) for each in ready.memories]))

    async def _show_past(self, ready: OpenedAgent) -> None:
        """Show the newest messages that are not undone."""
        records = ready.agent.session.transcript.records
        undone = {one.target for one in records if isinstance(one, Undone)}
        said = [one for one in records if isinstance(one, Said) and not one.aside and one.id not in undone]
        tools = {block.id: block.name for one in said for block in one.blocks if isinstance(block, ToolCall)}
        await self._screen.show_earlier(
            [piece for one in said[-SHOWN_OF_THE_PAST:] for piece in pieces_of(one, tools)]
        )

    def _changed(self, state: AgentState) -> None:
        """Report a background agent that has ended."""
        if state.is_running:
            self._running.add(state.name)
        elif state.name in self._running:
            self._running.discard(state.name)
            if state.background:
                self._screen.later(NoticeLine(printable(ended_line(state))))

    async def _tell(self, line: str, level: Level = "error") -> None:
        await self._screen.show(NoticeLine(printable(line), level))
