"""The full-screen chat: transcript, input and status lines; the terminal is restored however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from nacre.app.endings import Leave, Reopen, Rewound
from nacre.errors import NacreError
from nacre.formatting import printable
from nacre.store.input_history import read_typed, remember_command, write_typed
from nacre.tui.commands import KEY_BINDINGS, LEAVES, OPENS_AT_ONCE, OWN_COMMANDS, OWN_HELP
from nacre.tui.dialogs import (
    SETTLE_SECONDS,
    ClosingScreen,
    Dock,
    Editor,
    OutputDialog,
    PlanDialog,
    QuestionDialog,
    WorkDialog,
)
from nacre.tui.meter import StatusLines, pill_words
from nacre.tui.pickers import RewindPicker, session_picker, typed_picker
from nacre.tui.pieces import NoticeLine, Piece
from nacre.tui.prompt import ChatScreen, Prompt
from nacre.tui.start import Start
from nacre.tui.start_panel import ActivityLine, StartPanel
from nacre.tui.terminal_title import TerminalTitle
from nacre.tui.themes import NAMES, ThemedApp, keep_theme, theme_line
from nacre.tui.transcript import TranscriptPane

if TYPE_CHECKING:
    from nacre.agents.toolset import PermissionMode
    from nacre.app.open_agent import OpenedAgent
    from nacre.session.session import Session
    from nacre.tools.guard import PermissionAnswer, PermissionQuestion
    from nacre.tui.talk import Talk

TICK_SECONDS = 0.5
"""Seconds between two updates of background work."""
STOP_SECONDS = 10.0
"""How long a turn may take to stop its tools when the program ends."""
DIALOG_COLUMNS = 100
"""Below this width a dialog uses all columns."""
LOW_ROWS = 18
"""Below this height the menu of completions shows three rows."""
HOW_TO_LEAVE = "Ctrl-C again, Ctrl-D or /exit leaves"
LONG_TURN_SECONDS = 10.0
"""The end of a turn that took longer rings the bell."""
AGAIN_SECONDS = 3.0
"""A second Ctrl-C within this time leaves."""


class ChatApp(ThemedApp):
    """The Textual app of the chat."""

    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "nacre"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (DIALOG_COLUMNS, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (LOW_ROWS, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = KEY_BINDINGS

    def __init__(self, start: Start, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        super().__init__()
        self.crash: BaseException | None = None
        """The error that ended the app, if any."""
        self.last_words: list[str] = []
        """Lines to print after the screen is closed."""
        self.meter = StatusLines()
        home = start.settings.home
        typed = read_typed(home) if start.keeps else []
        has_vim_keys = start.settings.terminal.vim
        self.prompt = Prompt(OWN_COMMANDS, typed, start.settings.cwd, has_vim_keys=has_vim_keys)
        self.transcript = TranscriptPane(self.prompt.take)
        self.panel = StartPanel(start.settings.cwd)
        self.activity = ActivityLine()
        self._title = TerminalTitle(printable(start.settings.cwd.name), self._write)
        self._talk: Talk | None = None
        """The conversation; loaded after the screen is there."""
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
        self._own_commands = {
            "/memories": self.action_memories,
            "/work": self.action_work,
            "/resume": self.action_sessions,
            "/rewind": self.action_rewind,
            "/model": self.action_model,
            "/think": self.action_think,
        }
        self._queue: list[str] = []
        """Messages typed meanwhile, to be sent next."""
        self._countdown = ""
        self._hinted_at: float | None = None
        """When the hint on how to leave was last shown."""
        self._hint = ""
        self._hint_timer: Timer | None = None
        self._when_open: list[Callable[[], None]] = []
        """Actions of keys that were pressed before a session was open."""

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.activity
        yield self.prompt
        yield self.meter

    @property
    def talk(self) -> Talk:
        assert self._talk is not None, "the conversation is loaded right after the start"
        return self._talk

    @property
    def farewell(self) -> str:
        return self._talk.farewell if self._talk else ""

    @property
    def ready(self) -> OpenedAgent | None:
        """The open session, if any."""
        return self._talk.ready if self._talk else None

    def on_mount(self) -> None:
        self.transcript.mount(self.panel)
        # First the screen, then what opens a session: that takes longer to import.
        self.call_after_refresh(self._begin, self._open)
        self.set_interval(TICK_SECONDS, self._refresh)

    async def _open(self) -> None:
        # In a thread, so that keys are taken meanwhile.
        await asyncio.to_thread(import_module, "nacre.tui.talk")
        from nacre.tui.talk import ScreenCallbacks, Talk

        try:
            self._talk = Talk(
                self._start,
                ScreenCallbacks(
                    show=self.transcript.add,
                    later=self._later,
                    show_earlier=self.transcript.show_earlier,
                    show_command=self.transcript.show_command,
                    finish=self.transcript.finish,
                    clear=self.transcript.clear,
                    meter=self.meter.show,
                    settle=self._settle,
                    ask=self._ask,
                    countdown=self._count_down,
                    panel=self._show_panel,
                ),
            )
            self.prompt.offer({**self.talk.slash.commands, **OWN_COMMANDS})
            await self.talk.open()
            self.prompt.is_early = False
            for act in self._when_open:
                act()
        except NacreError as error:
            self.crash = error
            self.exit(1)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is running that the user waits for."""
        return self._work is None and not self._queue

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        text = event.text.strip()
        is_turn = self._work is not None and not self.prompt.is_early
        if is_turn and self._runs_at_once(text):
            self.run_worker(self._answer(text), group="at once", exit_on_error=True)
            return
        self._run_next(event.text)

    def _runs_at_once(self, text: str) -> bool:
        name = text[1:].partition(" ")[0]
        return text.startswith("/") and (text in OPENS_AT_ONCE or name in self.talk.slash.at_once)

    async def _answer(self, text: str) -> None:
        """Run a command while a turn works; its output is a dialog, because the turn writes below."""
        if text in OPENS_AT_ONCE:
            self._own_commands[text]()
        elif text in LEAVES:
            self.action_leave()
        else:
            notices = [*await self.talk.answer(text), *([OWN_HELP] if text == "/help" else [])]
            self.push_screen(OutputDialog(text, notices))

    def _next(self) -> None:
        is_free = self._work is None and self._leave_work is None and self.ready is not None
        if is_free and self._queue:
            self._begin(partial(self._hear, self._queue.pop(0)))
        self._refresh()

    async def _hear(self, text: str) -> None:
        if self.panel.is_attached:
            await self.panel.remove()
        text = remember_command(text) or text
        if text.startswith("!") and text[1:].strip():
            await self.talk.run_shell(text[1:].strip())
            return
        if not text.startswith("/"):
            await self.talk.play(text, self.prompt.pictures_in(text))
            self._announce_end()
            self._offer_plan()
            return
        if (act := self._own_commands.get(text.strip())) is not None:
            act()
        elif text.split()[0] == "/theme":
            self._set_theme(text.partition("/theme")[2].strip())
        elif text.split() == ["/plan", "edit"]:
            await self._edit_plan()
        else:
            await self._obey(text)
            self._show_mode()

    @property
    def _dock(self) -> Dock:
        below = self.prompt.outer_size.height + self.meter.outer_size.height
        return Dock(self._settle_seconds, below, self.transcript.leave_rows)

    def _offer_plan(self) -> None:
        """Ask whether the plan that the model proposes in plan mode is to be carried out."""
        assert self.ready is not None, "a turn has just ended in it"
        if not (plan := self.talk.proposed_plan()):
            return

        def settle(mode: PermissionMode | None) -> None:
            if mode is not None:
                self._begin(partial(self._carry_out, plan, mode))

        self.push_screen(PlanDialog(self._dock), settle)

    async def _carry_out(self, plan: str, mode: PermissionMode) -> None:
        assert self.ready is not None, "a plan is that of a session"
        from nacre.agents.toolset import GO

        await self.ready.modes.accept(plan, mode)
        self._show_mode()
        self._run_next(GO)

    def _set_theme(self, name: str) -> None:
        if name not in NAMES:
            self._later(NoticeLine(theme_line(self.theme), "plain"))
            return
        self.theme = NAMES[name]
        if self._start.keeps:
            keep_theme(name, self._start.settings.home)
        self._show_hint(f"theme {name}")

    def _announce_end(self) -> None:
        """Ring and notify after a long turn."""
        if self._start.clock.seconds() - self._since >= LONG_TURN_SECONDS:
            self.bell()
            self._title.notify("nacre waits for you")

    def _write(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def action_next_mode(self) -> None:
        """Change what the model may do without a question, until the session ends."""
        if self.ready is None or len(self.screen_stack) > 1:
            return
        self.ready.modes.next()
        self._show_mode()

    def _show_mode(self) -> None:
        mode = self.ready.modes.mode if self.ready is not None else "ask"
        self.prompt.border_subtitle = "" if mode == "ask" else f"{mode} (Shift+Tab)"

    def action_search_typed(self) -> None:
        """Choose an earlier input by a part of it."""
        if len(self.screen_stack) == 1:
            self.push_screen(typed_picker(self.prompt.past.typed, self.prompt.text), self.prompt.replace)

    def on_prompt_refused(self, event: Prompt.Refused) -> None:
        self._show_hint(printable(event.reason))

    async def action_edit_prompt(self) -> None:
        """Edit the input in the user's own editor."""
        from nacre.tui.own_editor import edited_elsewhere

        try:
            self.prompt.text = edited_elsewhere(self, "message.md", self.prompt.text).rstrip("\n")
        except NacreError as error:
            self._show_hint(str(error))

    async def _obey(self, text: str) -> None:
        ending = await self.talk.obey(text)
        if isinstance(ending, Leave):
            self.call_later(self.action_leave)
        elif isinstance(ending, Rewound) and not self.prompt.text.strip():
            self.prompt.text = ending.text
        elif text.strip() == "/help":
            await self.transcript.add(OWN_HELP)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._is_stopped = False
        self._hinted_at = None
        self._since = self._start.clock.seconds()
        if self.ready is not None:
            self._title.show("working")

        async def worked() -> None:
            self._task = asyncio.current_task()
            try:
                await work()
            finally:
                self._work = None
                self._title.show()
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
            if not self._is_stopped and not (self._talk and self._talk.stop()):
                self._work.cancel()
            self._is_stopped = True
        elif (selected := self.screen.get_selected_text()) is not None:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self._show_hint(f"copied {len(selected):,} characters")
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
        self._show_hint(f"Ctrl+Z brings it back; {HOW_TO_LEAVE}" if has_dropped else HOW_TO_LEAVE)

    def _show_hint(self, text: str) -> None:
        """Show a line at the bottom for a moment."""
        self._hint = text
        if self._hint_timer is not None:
            self._hint_timer.stop()
        if text:
            self._hint_timer = self.set_timer(AGAIN_SECONDS, partial(self._show_hint, ""))
        self._refresh()

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
            self.last_words = await self._talk.leave() if self._talk else []
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
        self._run_next("/confirm")

    def action_work(self) -> None:
        if self.ready is None:
            self._when_open.append(self.action_work)
            return
        self.push_screen(WorkDialog(self.ready, self._start.clock))

    def action_rewind(self) -> None:
        """Choose the message to return to."""
        assert self.ready is not None, "a command is run in a session"
        points = self.ready.rewind.points()
        self.push_screen(RewindPicker(points, self._start.clock), self._run_next)

    def action_model(self) -> None:
        """Choose the model that answers from now on."""
        self.push_screen(self.talk.model_picker(), self._run_next)

    def action_think(self) -> None:
        """Choose how much the model thinks."""
        picker = self.talk.level_picker()
        if picker.is_empty:
            self._show_hint("this model has no levels of thinking")
        else:
            self.push_screen(picker, self._run_next)

    def _run_next(self, command: str | None) -> None:
        """Run a command that was chosen from a list, after what runs now."""
        if command is not None:
            self._queue.append(command)
            self._next()

    def action_sessions(self) -> None:
        if self.ready is None:
            self._when_open.append(self.action_sessions)
            return
        try:
            found = self.talk.other_sessions()
        except NacreError as error:
            self._later(NoticeLine(printable(str(error)), "error"))
            return
        self.push_screen(session_picker(found, self._start.clock), self._chosen)

    def _chosen(self, session: str | None) -> None:
        if session is None:
            return
        if self._work is None:
            self._begin(partial(self.talk.switch_session, Reopen(session)))
        else:
            self._later(NoticeLine("a turn is under way: Ctrl-C stops it, then F3 goes elsewhere", "warning"))

    def action_memories(self) -> None:
        ready = self.ready
        if ready is None:
            self._when_open.append(self.action_memories)
            return
        from nacre.tui.memory import MemoryBrowser, SessionMemories

        if isinstance(self.screen, MemoryBrowser):
            return
        if not ready.memories:
            self._later(NoticeLine("this session has no memory; `nacre doctor` says why", "warning"))
            return
        session = ready.agent.session
        memories = SessionMemories(ready.memories, self.talk.settings.home, session.id, self._start.clock)
        self.push_screen(MemoryBrowser(memories))

    async def _edit_plan(self) -> None:
        """Edit on the screen instead of in an editor, which would need the terminal."""
        assert self.ready is not None, "a plan is that of a session"

        async def keep(text: str) -> None:
            self._run_next(f"/plan {text}" if text.strip() else "/plan clear")

        try:
            now = await self.ready.plan.read()
        except NacreError as error:
            self._later(NoticeLine(printable(str(error)), "error"))
            return
        self.push_screen(Editor("The plan of this session", now, keep))

    def on_unmount(self) -> None:
        self._title.restore()

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
        if self._talk is not None:
            await self._talk.abandon()

    async def _ask(self, question: PermissionQuestion) -> PermissionAnswer:
        from nacre.session.background import IN_BACKGROUND

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

        dialog = QuestionDialog(question, self._dock)
        self.push_screen(dialog, settle)
        self._title.show("waits for you")
        self._refresh()
        try:
            return await answered
        finally:
            self._title.show("working" if self._work is not None else "")
            if not answered.done() or answered.cancelled():
                dialog.withdraw()

    async def _show_panel(self, model: str, remembered: str) -> bool:
        """Show what a session starts with, if it is empty; returns False if it is not shown."""
        self._show_mode()
        if not remembered:
            await self.panel.remove()
            return False
        if not self.panel.is_attached:
            self.panel = StartPanel(self._start.settings.cwd)
            await self.transcript.mount(self.panel, before=0)
        self.panel.tell(model, remembered)
        return True

    def get_default_screen(self) -> ChatScreen:
        return ChatScreen(id="_default")

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
        beside = [
            *([self._countdown] if self._countdown else []),
            *(self._talk.background() if self._talk else ()),
        ]
        self.meter.show(pill=self._hint or pill_words(beside, self._turn_status()))
        is_working = self._work is not None and self.ready is not None
        self.activity.show(self.transcript.activity if is_working else "")

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
