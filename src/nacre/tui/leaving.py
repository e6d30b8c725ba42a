"""The closing screen: what the chat still waits for, with a countdown."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from nacre.formatting import printable


class ClosingScreen(ModalScreen[None]):
    """Shown until everything is closed."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("closing the session", id="countdown", markup=False)
            yield Static(Content.styled("Ctrl-C leaves at once", "dim"))

    def tell(self, line: str) -> None:
        if self.is_mounted:
            self.query_one("#countdown", Static).update(printable(line) or "closing the session")
