"""Vim keys in the input: normal mode, the usual motions, and changes with `d`, `c` and `x`."""

from __future__ import annotations

from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["insert", "normal"]
MOTIONS = {
    "h": ("cursor_left",),
    "l": ("cursor_right",),
    "j": ("cursor_down",),
    "k": ("cursor_up",),
    "b": ("cursor_word_left",),
    "w": ("next_word",),
    "e": ("cursor_word_right",),
    "0": ("cursor_line_start",),
    "^": ("cursor_line_start",),
    "$": ("cursor_line_end",),
}
DELETES = {
    "w": ("delete_to_next_word",),
    "e": ("delete_word_right",),
    "b": ("delete_word_left",),
    "$": ("delete_to_end_of_line",),
    "0": ("delete_to_start_of_line",),
    "^": ("delete_to_start_of_line",),
    "h": ("delete_left",),
    "l": ("delete_right",),
}
CHANGES = {
    "x": ("delete_right",),
    "X": ("delete_left",),
    "D": ("delete_to_end_of_line",),
    "u": ("undo",),
    "p": ("paste",),
}
INSERTS = {
    "i": (),
    "a": ("cursor_right",),
    "I": ("cursor_line_start",),
    "A": ("cursor_line_end",),
    "o": ("cursor_line_end", "newline"),
    "O": ("cursor_line_start", "newline", "cursor_up"),
    "s": ("delete_right",),
    "C": ("delete_to_end_of_line",),
    "S": ("cursor_line_start", "delete_to_end_of_line"),
}
"""Keys that begin to insert, with what they do before."""


class VimKeys:
    """Translates keys of the normal mode into actions of a text area."""

    def __init__(self) -> None:
        self.mode: Mode = "insert"
        self._pending = ""
        """A `d`, `c` or `g` that waits for its motion."""

    def escape(self) -> None:
        """Enter the normal mode, or give up a command that was begun."""
        self.mode = "normal"
        self._pending = ""

    def press(self, char: str) -> tuple[str, ...]:
        """Return the actions of a key in normal mode; a key without a meaning does nothing."""
        pending = self._pending
        self._pending = ""
        if pending:
            return self._complete(pending, char)
        if char in INSERTS:
            self.mode = "insert"
            return INSERTS[char]
        if char in {"d", "c", "g"}:
            self._pending = char
            return ()
        if char == "G":
            return ("cursor_end",)
        return MOTIONS.get(char) or CHANGES.get(char) or ()

    def _complete(self, pending: str, char: str) -> tuple[str, ...]:
        if pending == "g":
            return ("cursor_begin",) if char == "g" else ()
        if char == pending:
            actions: tuple[str, ...] = ("delete_line",)
            if pending == "c":
                actions = ("cursor_line_start", "delete_to_end_of_line")
        else:
            # As in vim, `cw` leaves the space behind the word.
            actions = DELETES.get("e" if pending + char == "cw" else char, ())
        if pending == "c" and actions:
            self.mode = "insert"
        return actions
