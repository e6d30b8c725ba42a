"""Dialogs: a permission question, a text editor, the output of a command, background work."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError
from nacre.formatting import human_count, printable, shorten, usd_text
from nacre.tui.commands import key_hints
from nacre.tui.meter import coloured_bars
from nacre.tui.pieces import NoticeLine

if TYPE_CHECKING:
    from nacre.agents.toolset import PermissionMode
    from nacre.app.open_agent import OpenedAgent
    from nacre.tools.guard import PermissionAnswer, PermissionQuestion

SETTLE_SECONDS = 0.4
"""Keys that arrive sooner were meant for the message being typed and must not answer."""
LOW_ROWS = 22
"""Below this height a question covers the input."""
OTHER_LINES = 16
"""Lines besides the preview: heading, explanation, answers, frame, input, status."""
RULE_CHARS = 160
"""Columns of a rule, which may be a whole command."""
_BUTTONS = (
    ("once", "Yes (y)"),
    ("always", "Always (a)"),
    ("no", "No (n)"),
)
BECAUSE = "No, because (b)"


def preview_of(question: PermissionQuestion) -> Content:
    """Return the preview as lines; a diff has line numbers and syntax colours."""
    from nacre.tui.code import coloured, diff_lines

    lines = [printable(line) for line in question.preview.splitlines()]
    if lines[:1] and lines[0].startswith("--- "):
        path = str(question.arguments.get("file_path", ""))
        return Content("\n").join(diff_lines(numbered_hunks(lines[2:]), path))
    if question.tool == "Bash":
        return Content("\n").join(coloured("\n".join(lines), "bash"))
    return Content("\n".join(lines))


def _relative(reason: str) -> str:
    """Return a reason with the paths below this directory relative to it."""
    return reason.replace(f"{Path.cwd()}{os.sep}", "")


def numbered_hunks(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the lines of a unified diff, without its headers, each with its number in the file."""
    old = new = 1
    rows: list[tuple[str, str]] = []
    for line in lines:
        if found := re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)", line):
            old, new = int(found[1]), int(found[2])
            if rows:
                rows.append(("", " ⋮"))
        elif line[:1] not in {"+", "-", " "}:
            rows.append(("", f" {line}"))
        else:
            rows.append((str(old if line[0] == "-" else new), line))
            old += line[0] != "+"
            new += line[0] != "-"
    return rows


@dataclass(frozen=True, slots=True)
class Dock:
    """Where a dialog above the input is, and from when on it takes keys."""

    settle_seconds: float = SETTLE_SECONDS
    below: int = 0
    """Height of the input and the status lines, which stay visible."""
    make_room: Callable[[int], None] = lambda rows: None
    """Keeps rows at the bottom of the conversation free, so that the dialog covers none of it."""


class QuestionDialog(ModalScreen["PermissionAnswer"]):
    """Shows the preview above the input; No is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('once')", "once"),
        Binding("a", "answer('always')", "always"),
        Binding("n,escape", "answer('no')", "no"),
        # With priority: the keys right after it are letters of the reason, not answers.
        Binding("b", "because", "no, because", priority=True),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False, priority=True),
    ]

    def __init__(self, question: PermissionQuestion, dock: Dock) -> None:
        super().__init__()
        self._dock_at = dock
        self._question = question
        self._is_settled = False
        self._is_void = False

    def compose(self) -> ComposeResult:
        question = self._question
        with Vertical(classes="dialog docked"):
            yield Static(
                Content.assemble(
                    (question.tool, "bold"),
                    f" needs your permission ({printable(_relative(question.reason))})",
                ),
                classes="heading",
            )
            with VerticalScroll(classes="preview", can_focus=False):
                yield Static(preview_of(question))
            rule = shorten(printable(question.rule.text), RULE_CHARS)
            always = f"always would allow {rule} in this project from now on"
            yield Static(Content.styled(always, "dim"))
            with Horizontal(classes="buttons"):
                for answer, label in _BUTTONS:
                    yield Button(label, id=answer, compact=True)
                yield Button(BECAUSE, id="because", compact=True)
            with Horizontal(id="because-line"):
                yield Static(Content.styled("because ", "dim"), id="because-sign")
                yield Input(placeholder="what to do instead · Enter sends it", id="reason", compact=True)

    def on_mount(self) -> None:
        self.query_one("#because-line").display = False
        self.query_one("#no", Button).focus()
        seconds = self._dock_at.settle_seconds
        self.set_timer(seconds, self._settle) if seconds else self._settle()

    def on_resize(self, event: Resize) -> None:
        """A preview longer than the screen scrolls; the answers stay visible."""
        width = max(1, event.size.width - 6)
        lines = sum(1 + Content(line).cell_length // width for line in self._question.preview.splitlines())
        is_low = event.size.height < LOW_ROWS  # the question needs the rows of the input
        self.query_one(".dialog").styles.margin = (0, 0, 0 if is_low else self._dock_at.below, 0)
        self.query_one(".dialog").set_class(is_low, "low")
        self.query_one(".dialog").set_class(lines + OTHER_LINES > event.size.height, "tall")
        self.call_after_refresh(lambda: self._dock_at.make_room(self.query_one(".dialog").outer_size.height))

    def on_unmount(self) -> None:
        self._dock_at.make_room(0)

    def _settle(self) -> None:
        self._is_settled = True

    def withdraw(self) -> None:
        """Close without an answer: the request was cancelled."""
        self._is_void = True
        if self.is_current:
            self.dismiss("no")

    def on_screen_resume(self) -> None:
        if self._is_void:
            self.dismiss("no")

    def action_scroll(self, lines: int) -> None:
        self.query_one(".preview").scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        pane = self.query_one(".preview")
        self.action_scroll(pages * max(1, pane.size.height - 1))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a reason is typed, keys are its letters."""
        is_typing = isinstance(self.focused, Input)
        return not (is_typing and (action in {"because", "page"} or parameters in {("once",), ("always",)}))

    def action_answer(self, answer: PermissionAnswer) -> None:
        if self._is_settled:
            self.dismiss(answer)

    def action_because(self) -> None:
        if self._is_settled:
            reason = self.query_one("#reason", Input)
            self.query_one("#because-line").display = True
            self.set_focus(reason)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        from nacre.tools import guard

        self.dismiss(guard.Refusal(event.value.strip()) if event.value.strip() else "no")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "once" | "always" | "no" as answer:
                self.action_answer(answer)
            case "because":
                self.action_because()
            case _:
                pass


class PlanDialog(ModalScreen["PermissionMode | None"]):
    """Asks whether a plan is to be carried out; ends with the mode for that, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('ask')", "yes"),
        Binding("a", "answer('accept edits')", "yes, accept edits"),
        Binding("n,escape", "answer('')", "keep planning"),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]
    _MODES: ClassVar[dict[str, PermissionMode | None]] = {"ask": "ask", "accept edits": "accept edits"}

    def __init__(self, dock: Dock) -> None:
        super().__init__()
        self._dock_at = dock
        self._is_settled = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog docked"):
            yield Static(Content.styled("Carry out this plan?", "bold"), classes="heading")
            with Horizontal(classes="buttons"):
                yield Button("Yes (y)", id="ask", compact=True)
                yield Button("Yes, and accept edits (a)", id="accept", compact=True)
                yield Button("No, keep planning (n)", id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one(".dialog").styles.margin = (0, 0, self._dock_at.below, 0)
        self.query_one("#no", Button).focus()
        seconds = self._dock_at.settle_seconds
        self.set_timer(seconds, self._settle) if seconds else self._settle()
        self.call_after_refresh(lambda: self._dock_at.make_room(self.query_one(".dialog").outer_size.height))

    def on_unmount(self) -> None:
        self._dock_at.make_room(0)

    def _settle(self) -> None:
        self._is_settled = True

    def action_answer(self, answer: str) -> None:
        if self._is_settled:
            self.dismiss(self._MODES.get(answer))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.action_answer({"ask": "ask", "accept": "accept edits"}.get(event.button.id or "", ""))


class Editor(ModalScreen[bool]):
    """Ends with whether the text was saved; stays open with the text if saving failed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "keep", "keep", priority=True),
        Binding("escape", "drop", "leave it as it was", priority=True),
    ]

    def __init__(self, title: str, text: str, keep: Callable[[str], Awaitable[None]]) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._keep = keep
        self._given_up: str | None = None
        """The text when the user first pressed Escape."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(Content.styled(printable(self._title), "bold"), classes="heading")
            yield TextArea(self._text, id="text", compact=True, soft_wrap=True)
            yield Static(key_hints("Ctrl+S save · Esc leave it as it was"), id="status")

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def delete_right(self) -> None:
        self.query_one(TextArea).action_delete_right()

    def action_drop(self) -> None:
        """Discard changes only on the second Escape."""
        text = self.query_one(TextArea).text
        if text in (self._text, self._given_up):
            self.dismiss(False)
            return
        self._given_up = text
        words = "this is not kept yet: Ctrl+S keeps it · Esc once more gives it up"
        self.query_one("#status", Static).update(Content.styled(words, "$warning"))

    async def action_keep(self) -> None:
        text = self.query_one(TextArea).text
        try:
            if text != self._text:
                await self._keep(text)
        except NacreError as error:
            self.query_one("#status", Static).update(Content.styled(printable(str(error)), "$error"))
            return
        self.dismiss(text != self._text)


class OutputDialog(ModalScreen[None]):
    """The output of a command that ran beside a turn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "close"),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
    ]

    def __init__(self, title: str, notices: Sequence[NoticeLine]) -> None:
        super().__init__()
        self._title = title
        self._notices = notices

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content.styled(printable(self._title), "bold"), classes="heading")
            with VerticalScroll(classes="preview output", can_focus=False):
                for one in self._notices:
                    is_error = one.level == "error"
                    yield Static(Content.styled(one.text, "$error") if is_error else coloured_bars(one.text))
            yield Static(key_hints("↑↓ PgUp/PgDn scroll · Esc close"))

    def action_scroll(self, lines: int) -> None:
        self.query_one(".preview").scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_scroll(pages * max(1, self.query_one(".preview").size.height - 1))


TICK_SECONDS = 1.0
"""Seconds between two updates."""
RUNNING = "●"
ENDED_MARK = "○"
"""Prefix of ended work: a dimmed row would be unreadable when selected."""
DOING_CHARS = 40
"""Columns of an activity."""


@dataclass(frozen=True, slots=True)
class WorkRow:
    """Running or ended work."""

    kind: Literal["work", "agent"]
    name: str
    line: str
    detail: str
    is_running: bool

    def is_same(self, other: WorkRow) -> bool:
        """Whether both rows stand for the same work."""
        return (self.kind, self.name) == (other.kind, other.name)


def rows_of(ready: OpenedAgent, clock: Clock = SYSTEM_CLOCK) -> list[WorkRow]:
    """Return running work and agents first, then ended ones, newest first."""
    from nacre.app.session_text import ENDED, PILLS
    from nacre.session.background import AGENT_PURPOSE

    work = [each for each in ready.background.running() if not each.startswith(f"{AGENT_PURPOSE} ")]
    found = [
        WorkRow("work", name, f"{PILLS.get(name.partition(' ')[0], name)}…", "at work", True) for name in work
    ]
    now = clock.now()
    for state in ready.team.states() if ready.team else ():
        seconds = (now - state.started).total_seconds() if state.is_running else state.seconds
        does = state.doing or "at work" if state.is_running else ENDED.get(state.status, state.status)
        spent = f"{seconds:.0f} s, {human_count(state.tokens)} tokens, {usd_text(state.cost_usd)}"
        line = f"{state.name} ({state.type}): {shorten(does, DOING_CHARS)} ({spent})"
        detail = "\n".join(part for part in (state.description, state.doing, state.result) if part)
        found.append(WorkRow("agent", state.name, printable(line), detail, state.is_running))
    ended = [
        WorkRow(
            "work", one.name, printable(f"{one.name} {one.ending} ({one.seconds:.0f} s)"), one.error, False
        )
        for one in reversed(ready.background.outcomes)
        if not one.name.startswith(f"{AGENT_PURPOSE} ")
    ]
    return sorted([*found, *ended], key=lambda row: not row.is_running)


async def end_work(ready: OpenedAgent, row: WorkRow) -> str:
    """Stop the work of a row; returns the message to show."""
    from nacre.app.chat_session import end_agent

    if row.kind == "work":
        is_ended = await ready.background.cancel(row.name)
        return f"{row.name} was stopped" if is_ended else f"{row.name} has ended already"
    assert ready.team is not None, "every listed agent belongs to a team"
    return await end_agent(ready, ready.team.shared.registry.find(row.name))


class WorkDialog(ModalScreen[None]):
    """The list, and details of the highlighted row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k,delete", "kill", "end it"),
        Binding("escape,q,f4", "dismiss", "close"),
        Binding("pagedown,space", "scroll(1)", show=False, priority=True),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
    ]

    def __init__(self, ready: OpenedAgent, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._ready = ready
        self._clock = clock
        self._rows: Sequence[WorkRow] = ()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static(Content.styled("Work in the background", "bold"), classes="heading")
            yield OptionList(id="rows", compact=True, markup=False)
            with VerticalScroll(classes="preview", can_focus=False):
                yield Static(id="detail", markup=False)
            yield Static(key_hints("↑↓ choose · PgUp/PgDn scroll · k stop it · Esc close"), id="status")

    def on_mount(self) -> None:
        self._look()
        self.query_one("#rows").focus()
        self.set_interval(TICK_SECONDS, self._look)

    def _look(self) -> None:
        rows = rows_of(self._ready, self._clock)
        shown = self.query_one("#rows", OptionList)
        self.query_one(".dialog").set_class(not rows, "-empty")
        if not rows:
            self.query_one("#detail", Static).update("nothing is running, and nothing has ended yet")
        if rows == self._rows:
            return
        at = self._place(rows, shown.highlighted or 0)
        self._rows = rows
        shown.set_options(
            Option(Content(f"{RUNNING if row.is_running else ENDED_MARK} {row.line}")) for row in rows
        )
        shown.highlighted = at

    def _place(self, rows: Sequence[WorkRow], at: int) -> int | None:
        """Return the current index of the selected row: `k` must never stop another one because the list
        moved."""
        chosen = self._rows[at] if at < len(self._rows) else None
        found = [place for place, row in enumerate(rows) if chosen is not None and row.is_same(chosen)]
        return found[0] if found else min(at, len(rows) - 1) if rows else None

    def action_scroll(self, pages: int) -> None:
        pane = self.query_one(".preview")
        pane.scroll_relative(y=pages * max(1, pane.size.height - 1), animate=False)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        detail = self._rows[event.option_index].detail
        self.query_one("#detail", Static).update("\n".join(printable(line) for line in detail.splitlines()))

    def action_kill(self) -> None:
        at = self.query_one("#rows", OptionList).highlighted
        if at is not None and at < len(self._rows):
            self.run_worker(self._end(self._rows[at]), name="end", group="end")

    async def _end(self, row: WorkRow) -> None:
        try:
            result = await end_work(self._ready, row)
        except NacreError as error:
            result = str(error)
        self._look()
        self.query_one("#status", Static).update(Content.styled(printable(result), "$warning"))


class ClosingScreen(ModalScreen[None]):
    """Shown until everything is closed."""

    _line = "closing the session"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(id="countdown", markup=False)
            yield Static(Content.styled("Ctrl-C leaves at once", "dim"))

    def on_mount(self) -> None:
        self.query_one("#countdown", Static).update(self._line)

    def tell(self, line: str) -> None:
        self._line = printable(line) or ClosingScreen._line
        if self.is_mounted:
            self.query_one("#countdown", Static).update(self._line)
