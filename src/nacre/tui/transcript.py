"""The conversation on the screen: streamed text, and one line per call that can be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import MountError, Widget
from textual.widgets import Static

from nacre.formatting import counted, human_count, printable
from nacre.tui.meter import coloured_bars
from nacre.tui.pieces import Called, NoticeLine, Piece, ReplyText, Resulted, UserText, Void
from nacre.tui.reply import ReplyPart, ReplyStream

if TYPE_CHECKING:
    from nacre.messages.view import View

DIFF_LINES = 12
"""Lines of a change that are shown before its call is opened."""
NAMED_PARTS = 2
"""Path components shown on one line: a file and its folder."""
TypeText: TypeAlias = Callable[[str], None]
"""Moves the focus back to the input, with the keys typed elsewhere."""


class CallRow(Static, can_focus=True):
    """One tool call; Enter, a click or Ctrl+O opens it; other keys go to the input."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("escape", "type", show=False),
    ]

    @dataclass
    class Pressed(Message):
        """The user opened or closed it."""

        row: CallRow

    def __init__(self, called: Called, type_on: TypeText) -> None:
        super().__init__(classes="call")
        self._type_on = type_on
        self.called = called
        self.resulted: Resulted | None = None
        self.kept = ""
        """The file with the whole result, if it was offloaded."""
        self._kept_out = ""
        """How much of it is not in the window."""
        self.is_open = False
        self._show()

    def answer(self, resulted: Resulted) -> None:
        self.resulted = resulted
        self._show()

    def keep(self, path: str, kept_out: str) -> None:
        self.kept = path
        self._kept_out = kept_out
        self._show()

    def action_open(self) -> None:
        self.post_message(self.Pressed(self))

    def toggle(self) -> None:
        self.is_open = not self.is_open
        self.set_class(self.is_open, "-open")
        self._show()

    def action_type(self) -> None:
        self._type_on("")

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character is not None:
            event.stop()
            self._type_on(event.character)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._type_on(event.text)

    def on_click(self) -> None:
        self.action_open()

    def _show(self) -> None:
        verb, _, rest = self.called.line.partition(" ")
        mark = "$secondary"
        if self.resulted is not None:
            mark = "$error" if self.resulted.is_error else "$success"
        parts: list[Content] = [
            Content.assemble((f"{'▾' if self.is_open else '▸'} ", mark), (verb, "bold"), f" {rest}")
        ]
        if self.is_open and self.called.detail and not self._has_diff:
            parts.append(Content.styled(_indented(self.called.detail), "dim"))
        if self._has_diff:
            parts += self._diff()
        if self.resulted is not None and (self.is_open or not self._has_diff):
            style = "$error" if self.resulted.is_error else "dim"
            text = _indented(self.resulted.detail) if self.is_open else _hung(self.resulted.line)
            parts.append(Content.styled(text, style))
        if self.kept:
            where = self.kept if self.is_open else _end_of(self.kept)
            parts.append(Content.styled(printable(f"  ⇲ {self._kept_out} kept in {where}"), "$secondary"))
        content = Content("\n").join(parts)
        # Textual keeps the height that a widget had before its first idle moment.
        self.styles.height = "auto" if self.is_open else content.plain.count("\n") + 1
        self.update(content)

    @property
    def _has_diff(self) -> bool:
        """Whether the change is shown: a call that failed changed nothing."""
        return bool(self.called.diff) and self.resulted is not None and not self.resulted.is_error

    def _diff(self) -> list[Content]:
        from nacre.app.call_text import first_line_of, numbered
        from nacre.tui.code import diff_lines

        assert self.resulted is not None, "a change is shown with its result"
        rows = numbered(self.called.diff, first_line_of(self.resulted.detail))
        shown = rows if self.is_open else rows[:DIFF_LINES]
        lines = [Content.assemble("  ", line) for line in diff_lines(shown, self.called.path)]
        more = len(rows) - len(shown)
        return [*lines, Content.styled(f"    … {counted(more, 'more line')}", "dim")] if more else lines


def _end_of(path: str) -> str:
    """Return the end of a path, which distinguishes it from others on one line."""
    parts = PurePath(path).parts
    return f"…/{'/'.join(parts[-NAMED_PARTS:])}" if len(parts) > NAMED_PARTS else path


def _hung(text: str) -> str:
    """Return lines below a call."""
    first, *others = text.split("\n")
    return "\n".join([f"  └ {first}", *(f"    {line}" for line in others)])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


KEPT_ON_SCREEN = 200
"""Items that can be scrolled back to: a hundred with tables take 30 MB, and the log has all."""
MOST_LAID_OUT = 80
LEAST_LAID_OUT = 40
"""Items in the layout, which is recomputed with every streamed word; earlier ones return on scrolling up."""
LEAST_ROWS = 3
"""Rows of the conversation above a dialog."""
OFFLOADED = "offload"
THINKING = "dim italic"
_MARKS = {
    "info": ("· ", "dim"),
    "warning": ("! ", "$warning"),
    "waiting": ("", "$warning"),
    "error": ("! ", "$error"),
    "bold": ("", "bold"),
}
"""Mark and style by level."""


class Line(Static):
    """Static text."""

    def __init__(self, content: Content, *, classes: str = "line") -> None:
        super().__init__(content, classes=classes)


class TranscriptPane(VerticalScroll, can_focus=False):
    """Displays items in order and stays at the end unless the user scrolled up."""

    def __init__(self, type_on: TypeText) -> None:
        super().__init__(id="transcript")
        self._type_on = type_on
        self._stream: ReplyStream | None = None
        self._is_thinking = False
        self._calls: dict[str, CallRow] = {}
        self._waiting: list[NoticeLine] = []
        self._asked: Widget | None = None
        """The last input."""
        self._was_at_end = True
        """Scroll state before a call was opened."""
        self._one_at_a_time = asyncio.Lock()

    def on_mount(self) -> None:
        self.anchor()

    @property
    def _is_shown(self) -> bool:
        """Whether the screen still exists; later events are in the log."""
        return self.is_running and self.is_attached

    @property
    def _is_at_end(self) -> bool:
        """Whether the newest item is visible; content shorter than the screen stays at its bottom."""
        return self.is_vertical_scroll_end or self.scroll_offset.y < 0

    @property
    def activity(self) -> str:
        """What happens now: a running call, or what the model is doing."""
        running = [row.called.line for row in self._calls.values() if row.resulted is None]
        if running:
            return running[-1] + (f" and {len(running) - 1} more" if len(running) > 1 else "")
        if self._stream is None:
            return "waiting for the model"
        return "thinking" if self._is_thinking else "writing"

    async def add(self, piece: Piece) -> None:
        """Show an item; a notice that arrives during a stream is shown after it."""
        if not self._is_shown:
            return
        async with self._one_at_a_time:
            if isinstance(piece, NoticeLine) and any(
                row.kept and row.kept in piece.text for row in self._calls.values()
            ):
                return
            if isinstance(piece, NoticeLine) and self._stream is not None:
                self._waiting.append(piece)
            else:
                await self._add(piece)

    def leave_rows(self, rows: int) -> None:
        """Show nothing in that many rows at the bottom, where a dialog is; always leave a few above."""
        if self._is_shown:
            room = self.size.height + self.styles.margin.bottom
            self.styles.margin = (0, 0, max(0, min(rows, room - LEAST_ROWS)), 0)

    def show_command(self) -> None:
        """Scroll to the last input if what follows it is higher than the screen."""
        asked = self._asked
        if asked is not None and asked.is_attached:
            self.call_after_refresh(self._show_command, asked)

    def _show_command(self, asked: Widget) -> None:
        if self._is_shown and self.max_scroll_y > asked.virtual_region.y:
            self.scroll_to_widget(asked, top=True, animate=False)

    async def finish(self) -> None:
        """The stream has ended."""
        if not self._is_shown:
            return
        async with self._one_at_a_time:
            await self._finish()

    async def _add(self, piece: Piece) -> None:
        match piece:
            case ReplyText(text, is_thinking):
                await self._say(text, is_thinking=is_thinking)
            case Void(reason):
                stream = self._stream
                await self._finish()
                if stream is not None:
                    await stream.remove()
                await self._put(Line(Content.styled(f"… starting over: {reason}", "$warning")))
            case Resulted():
                self._widget(piece)
            case NoticeLine(level="waiting") if self._is_waiting:
                await self._finish()
                await self.children[-1].remove()
                await self._put(self._widget(piece))
            case _:
                await self._finish()
                await self._put(self._widget(piece))
                if isinstance(piece, UserText):
                    self.anchor()

    @property
    def _is_waiting(self) -> bool:
        """Whether the last line says that a request is repeated."""
        return bool(self.children) and self.children[-1].has_class("waiting")

    async def show_earlier(self, pieces: Iterable[Piece]) -> None:
        """Show earlier items at once: one by one, everything would be laid out each time."""
        if not self._is_shown:
            return
        async with self._one_at_a_time:
            await self._finish()
            await self._put(*(self._widget(piece) for piece in pieces))

    def _widget(self, piece: Piece) -> Widget | None:
        """Return the widget of a complete item; None for one that belongs to another."""
        match piece:
            case ReplyText(text, is_thinking=True):
                return ReplyPart(text, classes="thought", style=THINKING)
            case ReplyText(text):
                return ReplyPart(text)
            case UserText(text):
                words = Content.assemble(("> ", "bold $accent"), (text, "bold"))
                self._asked = Line(words, classes="asked")
                return self._asked
            case Called(id=call):
                self._calls[call] = CallRow(piece, self._type_on)
                return self._calls[call]
            case Resulted(id=call) if call in self._calls:
                self._calls[call].answer(piece)
            case NoticeLine(text, level):
                if level == "plain":
                    return Line(coloured_bars(text), classes="line plain")
                mark, style = _MARKS[level]
                return Line(Content.styled(f"{mark}{text}", style), classes=f"line {level}")
            case _:
                pass
        return None

    async def _finish(self) -> None:
        stream = self._stream
        self._stream = None
        if stream is not None:
            with suppress(MountError):  # the program was ended while words were on their way
                await stream.finish()
        waiting = self._waiting
        self._waiting = []
        await self._put(*(self._widget(piece) for piece in waiting))

    def settle(self, view: View) -> None:
        """Show at each call where its offloaded result is."""
        for note in view.noted(OFFLOADED):
            row = self._calls.get(str(note.fact("call")))
            if row is not None and not row.kept:
                tokens = note.fact("tokens_kept_out")
                text = f"{human_count(tokens)} tokens" if isinstance(tokens, int) else "the whole of it"
                row.keep(str(note.fact("path")), text)

    def toggle_last(self) -> None:
        """Open or close the newest call."""
        if self._calls:
            self._toggle(list(self._calls.values())[-1])

    def on_call_row_pressed(self, event: CallRow.Pressed) -> None:
        self._toggle(event.row)

    def _toggle(self, row: CallRow) -> None:
        """Scroll to the head of an opened call, and back to the end when it is closed."""
        if not row.is_open:
            self._was_at_end = self._is_at_end
            self.call_after_refresh(self._show_head, row)
        elif self._was_at_end:
            self.anchor()
        row.toggle()

    def _show_head(self, row: CallRow) -> None:
        if row.is_open and row.region.y < self.region.y:
            self.scroll_to_widget(row, top=True, animate=False)

    async def clear(self) -> None:
        await self.finish()
        self._calls.clear()
        await self.remove_children()
        self.anchor()

    async def _say(self, text: str, *, is_thinking: bool) -> None:
        if self._stream is None or self._is_thinking != is_thinking:
            await self._finish()
            if not text.strip():
                return
            self._is_thinking = is_thinking
            classes = "thought" if is_thinking else "reply"
            self._stream = ReplyStream(self, self._put, classes=classes, style=THINKING * is_thinking)
        await self._stream.write(text)

    async def _put(self, *widgets: Widget | None) -> None:
        new = [widget for widget in widgets if widget is not None]
        if not new or not self._is_shown:
            return  # it went while something was waited for
        is_at_end = self._is_at_end
        await self.mount_all(new)
        extra = len(self.children) - KEPT_ON_SCREEN
        if extra > 0:
            gone = set(self.children[:extra])
            self._calls = {call: row for call, row in self._calls.items() if row not in gone}
            await self.remove_children(list(gone))
        if is_at_end:  # not if the user has scrolled up
            # Remove distant items from the layout.
            laid_out = [child for child in self.children if child.display]
            if len(laid_out) > MOST_LAID_OUT:
                for child in laid_out[:-LEAST_LAID_OUT]:
                    child.display = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(new_value) == 0 < round(old_value):
            self.call_later(self._unfold)

    def _unfold(self) -> None:
        """Add earlier items when the top is reached, without moving the view."""
        folded = [child for child in self.children if not child.display]
        if folded and self.scroll_y <= 0:
            top = self.children[len(folded)]
            for child in folded[-LEAST_LAID_OUT:]:
                child.display = True
            self.call_after_refresh(self.scroll_to_widget, top, top=True, animate=False)
