"""The full-screen chat: transcript, input and status lines; the terminal is restored however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from nacre.app.chat_session import Leave, Reopen
from nacre.app.session_text import working
from nacre.errors import NacreError
from nacre.formatting import printable
from nacre.session.background import IN_BACKGROUND
from nacre.session.session import Session
from nacre.store.input_history import read_typed, write_typed
from nacre.tools.guard import PermissionAnswer, PermissionQuestion
from nacre.tui.dialogs import SETTLE_SECONDS, Editor, QuestionDialog, SessionPicker, WorkDialog
from nacre.tui.memory import MemoryBrowser, SessionMemories
from nacre.tui.meter import StatusLines, pill_words
from nacre.tui.pieces import NoticeLine, Piece
from nacre.tui.prompt import Prompt
from nacre.tui.talk import ScreenCallbacks, Start, Talk
from nacre.tui.transcript import TranscriptPane

ENDING = (signal.SIGTERM, signal.SIGHUP)
LIGHT_BACKGROUNDS = frozenset({"7", "15"})
"""White and bright white in COLORFGBG."""
SIGNALLED = 128
"""Exit codes above this name a signal."""
TICK_SECONDS = 0.5
"""Seconds between two updates of background work."""
STOP_SECONDS = 10.0
"""How long a turn may take to stop its tools when the program ends."""
DIALOG_COLUMNS = 100
"""Below this width a dialog uses all columns."""
HOW_TO_LEAVE = "Ctrl-C again, Ctrl-D or /exit leaves"
AGAIN_SECONDS = 3.0
"""A second Ctrl-C within this time leaves."""
OWN_COMMANDS = {
    "memories": "look through memory: read, edit, history, undo, review (F2)",
    "work": "what goes on in the background: watch it, end it (F4)",
}
"""Commands that only the full screen has."""
KEYS = """\
Ctrl+J begins a new line, ↑ and ↓ bring back what was typed before, Tab completes.
Ctrl+O opens the newest call; Shift+Tab goes to the calls above, Enter opens one.
PgUp PgDn scroll, F2 memory, F3 sessions, F4 background, F5 confirms an unverified memory.
Ctrl-C stops, Ctrl-D leaves."""


class ChatApp(App[int]):
    """The Textual app of the chat."""

    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "nacre"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (DIALOG_COLUMNS, "-wide")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "stop", "stop", show=False, priority=True),
        Binding("ctrl+d", "leave_or_delete", "leave", show=False, priority=True),
        Binding("ctrl+q", "leave", "leave", show=False, priority=True),
        Binding("ctrl+o", "toggle_last", "open the newest call", show=False, priority=True),
        Binding("f2", "memories", "memory", show=False),
        Binding("f3", "sessions", "sessions", show=False),
        Binding("f4", "work", "background", show=False),
        Binding("f5", "confirm", "confirm what was saved last", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]

    def __init__(self, start: Start, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        super().__init__(ansi_color=True)  # else NO_COLOR means black on black
        self.crash: BaseException | None = None
        """The error that ended the app, if any."""
        self.last_words: list[str] = []
        """Lines to print after the screen is closed."""
        self.meter = StatusLines()
        home = start.settings.home
        commands = {**start.slash.commands, **OWN_COMMANDS}
        self.prompt = Prompt(commands, read_typed(home) if start.keeps else [])
        self.transcript = TranscriptPane(self.prompt.take)
        self.talk = Talk(
            start,
            ScreenCallbacks(
                show=self.transcript.add,
                later=self._later,
                show_earlier=self.transcript.show_earlier,
                finish=self.transcript.finish,
                clear=self.transcript.clear,
                meter=self.meter.show,
                settle=self._settle,
                ask=self._ask,
                countdown=self._count_down,
            ),
        )
        self._start = start
        self._settle_seconds = settle_seconds
        self._leaving = ClosingScreen()
        self._work: Worker[None] | None = None
        """The running turn, command or session switch."""
        self._task: asyncio.Task[Any] | None = None
        """The same as a task, which may outlive the screen."""
        self._leave_work: Worker[None] | None = None
        self._since = 0.0
        """When it started."""
        self._is_stopped = False
        self._queue: list[str] = []
        """Messages typed meanwhile, to be sent next."""
        self._countdown = ""
        self._hinted_at: float | None = None
        """When the hint on how to leave was last shown."""

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.prompt
        yield self.meter

    def on_mount(self) -> None:
        self._begin(self._open)
        self.set_interval(TICK_SECONDS, self._refresh)

    async def _open(self) -> None:
        try:
            await self.talk.open()
            self.prompt.is_early = False
        except NacreError as error:
            self.crash = error
            self.exit(1)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is running that the user waits for."""
        return self._work is None and not self._queue

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        self._queue.append(event.text)
        self._next()

    def _next(self) -> None:
        if self._work is None and self._leave_work is None and self._queue:
            self._begin(partial(self._hear, self._queue.pop(0)))
        self._refresh()

    async def _hear(self, text: str) -> None:
        if not text.startswith("/"):
            await self.talk.play(text)
            return
        own = {"/memories": self.action_memories, "/work": self.action_work, "/resume": self.action_sessions}
        if (act := own.get(text.strip())) is not None:
            act()
        elif text.split() == ["/plan", "edit"]:
            await self._edit_plan()
        elif isinstance(await self.talk.obey(text), Leave):
            self.call_later(self.action_leave)
        elif text.strip() == "/help":
            own_help = "\n".join(f"/{name:<9} {says}" for name, says in OWN_COMMANDS.items())
            await self.transcript.add(NoticeLine(f"{own_help}\n{KEYS}", "plain"))

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._is_stopped = False
        self._hinted_at = None
        self._since = self._start.clock.seconds()

        async def worked() -> None:
            self._task = asyncio.current_task()
            try:
                await work()
            finally:
                self._work = None
            self.call_later(self._next)

        self._work = self.run_worker(worked, group="conversation", exit_on_error=True)

    def action_stop(self) -> None:
        """Ctrl-C: stop what is running, once; otherwise close a dialog or empty the input."""
        if self._leave_work is not None:
            self._leave_work.cancel()
        elif isinstance(self.screen, QuestionDialog) and self._work is None:
            self.screen.dismiss("no")
        elif self._work is not None:
            self._put_back()
            if not self._is_stopped and not self.talk.stop():
                self._work.cancel()
            self._is_stopped = True
        elif (selected := self.screen.get_selected_text()) is not None:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        elif len(self.screen_stack) > 1:
            self.simulate_key("escape")
        else:
            self._leave_if_again(has_dropped=self.prompt.drop())

    def _leave_if_again(self, *, has_dropped: bool) -> None:
        """Ctrl-C with nothing to stop: the second in a row leaves."""
        now = self._start.clock.seconds()
        before = self._hinted_at
        if not has_dropped and before is not None and now - before < AGAIN_SECONDS:
            self.action_leave()
            return
        self._hinted_at = now
        self._later(NoticeLine(f"Ctrl+Z brings it back; {HOW_TO_LEAVE}" if has_dropped else HOW_TO_LEAVE))

    def _put_back(self) -> None:
        """Move queued messages back to the input: the turn they were meant to follow was stopped."""
        if self._queue:
            self.prompt.text = "\n".join([*self._queue, *([self.prompt.text] if self.prompt.text else [])])
            self._queue.clear()

    def action_leave_or_delete(self) -> None:
        """Ctrl-D: delete the character behind the cursor, or leave if the input is empty, as in a shell."""

        def act() -> None:
            if isinstance(self.screen, Editor):
                self.screen.delete_right()  # the input below the editor keeps its text
            elif self.prompt.text and len(self.screen_stack) == 1:
                self.prompt.delete_right()
            else:
                self.action_leave()

        # After the keys that were pressed before, which the input may not have processed yet.
        self.prompt.after_keys(act)

    def action_leave(self) -> None:
        """Leave in order: stop what is running and wait for work that must finish."""
        if self._leave_work is not None:
            return
        self._queue.clear()
        self.push_screen(self._leaving)
        self._leave_work = self.run_worker(self._leave, group="leaving", exit_on_error=True)

    async def _leave(self) -> None:
        try:
            await self._rest()
            self.last_words = await self.talk.leave()
        except asyncio.CancelledError:
            pass  # they have waited long enough
        self.exit(0)

    async def _rest(self) -> None:
        """Wait until running work has stopped."""
        work = self._work
        if work is not None:
            if not self._is_stopped:
                work.cancel()
            with suppress(WorkerFailed, WorkerCancelled):
                await work.wait()

    def action_toggle_last(self) -> None:
        self.transcript.toggle_last()

    def action_page(self, pages: int) -> None:
        self.transcript.scroll_relative(y=pages * max(1, self.transcript.size.height - 1), animate=False)

    def action_confirm(self) -> None:
        """Confirm the unverified memory that was saved last."""
        self._queue.append("/confirm")
        self._next()

    def action_work(self) -> None:
        if self.talk.ready is not None:
            self.push_screen(WorkDialog(self.talk.ready, self._start.clock))

    def action_sessions(self) -> None:
        if self.talk.ready is None:
            return
        try:
            found = self.talk.other_sessions()
        except NacreError as error:
            self._later(NoticeLine(printable(str(error)), "error"))
            return
        self.push_screen(SessionPicker(found, self._start.clock), self._chosen)

    def _chosen(self, session: str | None) -> None:
        if session is None:
            return
        if self._work is None:
            self._begin(partial(self.talk.switch_session, Reopen(session)))
        else:
            self._later(NoticeLine("a turn is under way: Ctrl-C stops it, then F3 goes elsewhere", "warning"))

    def action_memories(self) -> None:
        ready = self.talk.ready
        if ready is None or isinstance(self.screen, MemoryBrowser):
            return
        if not ready.memories:
            self._later(NoticeLine("this session has no memory; `nacre doctor` says why", "warning"))
            return
        session = ready.agent.session
        memories = SessionMemories(ready.memories, self.talk.settings.home, session.id, self._start.clock)
        self.push_screen(MemoryBrowser(memories))

    async def _edit_plan(self) -> None:
        """Edit on the screen instead of in an editor, which would need the terminal."""
        assert self.talk.ready is not None, "a plan is that of a session"

        async def keep(text: str) -> None:
            self._queue.append(f"/plan {text}" if text.strip() else "/plan clear")
            self._next()

        try:
            now = await self.talk.ready.plan.read()
        except NacreError as error:
            self._later(NoticeLine(printable(str(error)), "error"))
            return
        self.push_screen(Editor("The plan of this session", now, keep))

    def end_by(self, code: int) -> None:
        """End at once but in order, on a signal."""
        self.exit(code, return_code=code)

    async def abandon(self) -> None:
        """The screen is gone: save the input, stop everything, wait for nothing."""
        if self._start.keeps:
            with suppress(OSError):
                write_typed(self._start.settings.home, self.prompt.past.typed)
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        await self.talk.abandon()

    async def _ask(self, question: PermissionQuestion) -> PermissionAnswer:
        if IN_BACKGROUND.get() and self.prompt.text.strip():
            # Keys for the message being typed must not answer the question.
            self._later(
                NoticeLine(printable(f"{question.reason}; you are asked once your line is sent or empty"))
            )
            await self.prompt.quiet.wait()
        answered: asyncio.Future[PermissionAnswer] = asyncio.get_running_loop().create_future()

        def settle(answer: PermissionAnswer | None) -> None:
            if not answered.done():
                answered.set_result(answer or "no")

        dialog = QuestionDialog(question, settle_seconds=self._settle_seconds)
        self.push_screen(dialog, settle)
        self._refresh()
        try:
            return await answered
        finally:
            if not answered.done() or answered.cancelled():
                dialog.withdraw()

    def _later(self, piece: Piece) -> None:
        self.call_later(self.transcript.add, piece)

    def _settle(self, session: Session) -> None:
        self.transcript.settle(session.view)

    def _count_down(self, line: str) -> None:
        self._countdown = line
        self._leaving.tell(line)
        self._refresh()

    def _refresh(self) -> None:
        """Update background work and queued messages."""
        ready = self.talk.ready
        works, agents = working(ready) if ready is not None else ([], [])
        beside = [*([self._countdown] if self._countdown else []), *works, *agents]
        self.meter.show(pill=pill_words(beside, self._turn_status()))

    def _turn_status(self) -> str:
        """Return the duration of the running turn, or that it waits for the user."""
        if self._work is None:
            return ""
        if any(isinstance(screen, QuestionDialog) for screen in self.screen_stack):
            return "waits for you"
        seconds = int(self._start.clock.seconds() - self._since)
        to_come = f", {len(self._queue)} to come" if self._queue else ""
        return "working" + f" {seconds} s" * (seconds > 0) + to_come

    def _fatal_error(self) -> None:
        """Keep the error for the caller, who reports it in one line."""
        error = self._exception
        self.crash = error.error if isinstance(error, WorkerFailed) else error
        self._close_messages_no_wait()


class ClosingScreen(ModalScreen[None]):
    """Shown until everything is closed."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("closing the session", id="countdown", markup=False)
            yield Static(Content.styled("Ctrl-C leaves at once", "dim"))

    def tell(self, line: str) -> None:
        if self.is_mounted:
            self.query_one("#countdown", Static).update(printable(line) or "closing the session")


@dataclass(frozen=True, slots=True)
class ChatResult:
    """How the chat ended."""

    code: int
    last_words: tuple[str, ...] = ()
    """Results that were not shown."""


def run_tui(start: Start) -> ChatResult:
    """Run the chat until the user leaves; raises an error that it could not handle."""
    app = ChatApp(start)
    app.theme = theme_for(os.environ)
    return asyncio.run(_held(app))


def theme_for(environ: Mapping[str, str]) -> str:
    """Return the theme for the terminal's background."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "ansi-light" if background in LIGHT_BACKGROUNDS else "ansi-dark"


async def _held(app: ChatApp) -> ChatResult:
    loop = asyncio.get_running_loop()
    for number in ENDING:
        # An ignored signal, as with `nohup`, stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, app.end_by, SIGNALLED + number)
    loop.add_signal_handler(signal.SIGINT, app.action_stop)
    try:
        await app.run_async()
    finally:
        await app.abandon()
    if app.crash is not None:
        raise app.crash
    return ChatResult(app.return_code or 0, tuple(app.last_words))
