"""One user in one session after another, without a screen: turns, commands and switches as display items."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import aclosing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from nacre.agents.registry import AgentState
from nacre.app.chat_session import Ending, OpenedChat, Reopen, open_chat, other_sessions, switch_session
from nacre.app.open_agent import OpenedAgent
from nacre.app.session_text import ended_line, failed_line, stopped_line
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError
from nacre.formatting import printable
from nacre.inspect.context_usage import Contents, contents_of
from nacre.inspect.savings import booked
from nacre.messages.events import Notice, Reply, TurnDone
from nacre.messages.records import Record, Said
from nacre.providers.choose import preload
from nacre.session.log_writer import SessionLogWriter
from nacre.session.session import Session
from nacre.settings import Settings
from nacre.store.summaries import SessionSummary
from nacre.tools.guard import Ask
from nacre.tui.pieces import Level, NoticeLine, Piece, UserText, piece_of, pieces_of

T = TypeVar("T")
ERROR_BEGINS = "nacre: "
"""Prefix of errors on the command line, which is redundant on the screen."""
Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
RunSlash: TypeAlias = Callable[[str, OpenedAgent, Run, Callable[[OpenedAgent], None]], Ending]
"""Runs a line: the session, a function that runs a coroutine there, a function that continues the turn."""


@dataclass(frozen=True, slots=True)
class SlashCommands:
    """The available commands and the function that runs them."""

    commands: Mapping[str, str]
    """Each with its help line."""
    run: RunSlash


NOT_BEGUN = "stopped before anything was sent; ↑ brings your words back"
SHOWN_OF_THE_PAST = 40
"""Messages shown of a resumed session."""


class OpenChat(Protocol):
    """Opens a session."""

    def __call__(
        self, settings: Settings, session: str | None, *, ask: Ask | None, on_countdown: Callable[[str], None]
    ) -> Awaitable[OpenedChat]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start options of the chat."""

    settings: Settings
    session: str | None
    slash: SlashCommands
    keeps: bool = True
    """Whether the input history may be stored."""
    open_chat: OpenChat = open_chat
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenCallbacks:
    """What a conversation needs of its screen."""

    show: Callable[[Piece], Awaitable[None]]
    later: Callable[[Piece], None]
    """The same, without waiting."""
    show_earlier: Callable[[Sequence[Piece]], Awaitable[None]]
    """Show earlier messages."""
    finish: Callable[[], Awaitable[None]]
    """The stream has ended."""
    clear: Callable[[], Awaitable[None]]
    meter: Callable[[Contents], None]
    settle: Callable[[Session], None]
    """Results may have been offloaded meanwhile."""
    ask: Ask
    countdown: Callable[[str], None]


class Talk:
    """The current session and its events."""

    def __init__(self, start: Start, screen: ScreenCallbacks) -> None:
        self.settings = replace(start.settings, is_interactive=True)
        self._start = start
        self._screen = screen
        self._under_way: Future[Any] | None = None
        """What a slash command waits for."""
        self._place: OpenedChat | None = None
        self._past: list[Record] = []
        """Records of the log that the session does not hold, and the number of records when it was opened."""
        self._known = 0
        self._running: set[str] = set()
        self._loading: asyncio.Task[None] | None = None
        """Loads the vendor's package, which takes a second, while the user may type."""

    @property
    def ready(self) -> OpenedAgent | None:
        """The open session, if any."""
        return self._place.ready if self._place else None

    async def open(self) -> None:
        """Open the first session; raises if that fails."""
        self._place = await self._enter(self._start.session)
        await self._greet()
        choice = self._place.ready.choice
        if choice is not None:
            self._loading = asyncio.create_task(asyncio.to_thread(preload, choice))

    async def play(self, text: str | None) -> None:
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
            await self._events(ready, text)
        except asyncio.CancelledError:
            await self._tell(stopped_line(ready) if is_begun else NOT_BEGUN, "warning")
        except NacreError as error:
            await self._tell(failed_line(error))
        await self._screen.finish()
        self.measure()

    async def obey(self, line: str) -> Ending:
        """Run a slash command; it may switch sessions."""
        assert self._place is not None, "a session is open before anything is said"
        await self._screen.show(UserText(line))
        loop = asyncio.get_running_loop()
        ready = self._place.ready
        again: list[OpenedAgent] = []
        out = io.StringIO()
        err = io.StringIO()

        def run(work: Coroutine[Any, Any, T]) -> T:
            self._under_way = under_way = asyncio.run_coroutine_threadsafe(work, loop)
            try:
                return under_way.result()
            except CancelledError:
                raise KeyboardInterrupt from None  # as commands know it from a terminal
            finally:
                self._under_way = None

        def act() -> Ending:
            with redirect_stdout(out), redirect_stderr(err):
                try:
                    return self._start.slash.run(line, ready, run, again.append)
                except KeyboardInterrupt:
                    print("stopped")  # noqa: T201 - into the conversation, as all that commands say
                    return None

        try:
            # In a thread, because commands wait for the session's event loop.
            ending = await asyncio.to_thread(act)
        except NacreError as error:
            await self._tell(str(error))
            return None
        if isinstance(ending, Reopen):
            await self.switch_session(ending)
        if text := out.getvalue().rstrip():
            await self._screen.show(NoticeLine(text, "plain"))
        for error_line in err.getvalue().rstrip().splitlines():
            await self._screen.show(NoticeLine(error_line.removeprefix(ERROR_BEGINS), "error"))
        if again:
            await self.play(None)
        self.measure()
        return None if isinstance(ending, Reopen) else ending

    async def switch_session(self, to: Reopen) -> None:
        """Go on with another session; where that fails, the person stays."""
        assert self._place is not None, "a session is open before it is left"
        is_again = to.session == self._place.ready.agent.session.id
        try:
            self._place = await switch_session(self._place, to, self._enter, self._let_go)
        except NacreError as error:
            if is_again:
                raise
            await self._tell(str(error))
            return
        await self._screen.clear()
        await self._greet()

    def stop(self) -> bool:
        """Stop what a command waits for; returns False if nothing runs."""
        return self._under_way is not None and self._under_way.cancel()

    async def leave(self) -> list[str]:
        """Close the session and wait for its background work; returns lines to print."""
        place = self._place
        self._place = None
        if place is None:
            return []
        place.set_end_reason("prompt_input_exit")
        await place.held.aclose()
        return [one.text for one in place.ready.agent.session.notices()]

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

    def measure(self) -> None:
        """Return the context usage."""
        if self._place is not None:
            session = self._place.ready.agent.session
            booking = [*self._past, *session.transcript.records[self._known :]]
            self._screen.meter(contents_of(session, booking))
            self._screen.settle(session)

    async def _enter(self, session: str | None) -> OpenedChat:
        return await self._start.open_chat(
            self.settings, session, ask=self._screen.ask, on_countdown=self._screen.countdown
        )

    async def _let_go(self, place: OpenedChat) -> None:
        await place.held.aclose()
        for one in place.ready.agent.session.notices():
            await self._tell(one.text)

    async def _events(self, ready: OpenedAgent, text: str | None) -> None:
        async with aclosing(ready.agent.stream(text)) as events:
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
        if ready.choice is not None:
            await self._tell(ready.choice.reason, "bold")
            if ready.choice.offer:
                await self._tell(ready.choice.offer, "info")
        said = [one for one in session.transcript.records if isinstance(one, Said) and not one.aside]
        await self._screen.show_earlier(
            [piece for one in said[-SHOWN_OF_THE_PAST:] for piece in pieces_of(one)]
        )
        if ready.team is not None:
            self._running = {each.name for each in ready.team.states() if each.is_running}
            ready.team.shared.registry.on_change.append(self._changed)
        self.measure()

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
