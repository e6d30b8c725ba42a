"""The title of the terminal while the chat runs, and what tells a user elsewhere that a turn has ended."""

from __future__ import annotations

from collections.abc import Callable

SAVE = "\x1b[22;2t"
"""Terminals that do not know these two sequences ignore them."""
RESTORE = "\x1b[23;2t"


class TerminalTitle:
    """`nacre · DIRECTORY`, with what happens now behind it."""

    def __init__(self, directory: str, write: Callable[[str], None]) -> None:
        self._name = f"nacre · {directory}" if directory else "nacre"
        self._write = write
        self._shown = ""

    def show(self, state: str = "") -> None:
        """Set the title to the name and a state such as `working`."""
        title = f"{self._name} · {state}" if state else self._name
        if title != self._shown:
            self._write(("" if self._shown else SAVE) + f"\x1b]0;{title}\x07")
            self._shown = title

    def notify(self, text: str) -> None:
        """Show a desktop notification (OSC 9), in terminals that have them."""
        self._write(f"\x1b]9;{text}\x07")

    def restore(self) -> None:
        """Return the title to what it was, or to none where the terminal does not keep titles."""
        if self._shown:
            self._write(f"\x1b]0;\x07{RESTORE}")
            self._shown = ""
