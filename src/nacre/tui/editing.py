"""A text editor dialog: Ctrl+S saves, Escape twice discards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from nacre.errors import NacreError
from nacre.formatting import printable


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
            yield Static(Content.styled("Ctrl+S keeps it · Esc leaves it as it was", "dim"), id="told")

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
        self.query_one("#told", Static).update(Content.styled(words, "$warning"))

    async def action_keep(self) -> None:
        text = self.query_one(TextArea).text
        try:
            if text != self._text:
                await self._keep(text)
        except NacreError as error:
            self.query_one("#told", Static).update(Content.styled(printable(str(error)), "$error"))
            return
        self.dismiss(text != self._text)
