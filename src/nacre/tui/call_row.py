"""A tool call in the transcript: one line, its result, and the details when opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar, TypeAlias

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from nacre.formatting import printable
from nacre.tui.pieces import Called, Resulted

NAMED_PARTS = 2
"""Path components shown on one line: a file and its folder."""
TypeOn: TypeAlias = Callable[[str], None]
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

    def __init__(self, called: Called, type_on: TypeOn) -> None:
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
        parts: list[Content] = [
            Content.assemble((f"{'▾' if self.is_open else '▸'} ", "$secondary"), self.called.line)
        ]
        if self.is_open and self.called.detail:
            parts.append(Content.styled(_indented(self.called.detail), "dim"))
        if self.resulted is not None:
            style = "$error" if self.resulted.is_error else "dim"
            told = _indented(self.resulted.detail) if self.is_open else f"  └ {self.resulted.line}"
            parts.append(Content.styled(told, style))
        if self.kept:
            where = self.kept if self.is_open else _end_of(self.kept)
            parts.append(Content.styled(printable(f"  ⇲ {self._kept_out} kept in {where}"), "$secondary"))
        # Textual keeps the height that a widget had before its first idle moment.
        self.styles.height = "auto" if self.is_open else len(parts)
        self.update(Content("\n").join(parts))


def _end_of(path: str) -> str:
    """Return the end of a path, which distinguishes it from others on one line."""
    parts = PurePath(path).parts
    return f"…/{'/'.join(parts[-NAMED_PARTS:])}" if len(parts) > NAMED_PARTS else path


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
