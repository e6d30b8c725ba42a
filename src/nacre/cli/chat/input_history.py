"""Line editing and input history across sessions, where the terminal supports them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

from nacre.cli.output import has_colour
from nacre.store.input_history import FILE, GOES_ON, MAX_LINES


class InputHistory:
    """Reads lines; stores them in `<home>/chat_history` unless the session is ephemeral."""

    def __init__(self, home: Path, *, keeps: bool) -> None:
        self._path = home / FILE
        self._keeps = keeps
        self._readline = _readline()
        self._prompt: str | None = None
        """The prompt string."""

    def __enter__(self) -> Self:
        if self._readline and self._keeps:
            with contextlib.suppress(OSError):
                self._readline.read_history_file(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not (self._readline and self._keeps):
            return
        # A history that cannot be written must not end the session with an error.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.set_history_length(MAX_LINES)
            self._readline.write_history_file(self._path)
            self._path.chmod(0o600)

    def ask(self, prompt: str) -> str:
        """Read one line; a backslash at its end continues it."""
        line = self._typed(prompt)
        while line.endswith(GOES_ON):
            line = line[:-1] + "\n" + self._typed("… " if prompt else "")
        return line

    def above(self, line: str) -> bool:
        """Show a line above the input line; returns False if nobody types or the terminal cannot.

        Called from another thread than the one that reads the input.
        """
        prompt = self._prompt
        if prompt is None or self._readline is None or not has_colour():
            return False
        typed = prompt + self._readline.get_line_buffer()
        if len(typed) >= shutil.get_terminal_size().columns:
            return False  # it stands on several rows, of which only the last could be taken away
        sys.stdout.write(f"\r\x1b[K{line}\n{typed}")
        sys.stdout.flush()
        return True

    def _typed(self, prompt: str) -> str:
        self._prompt = prompt
        try:
            return input(prompt)
        finally:
            self._prompt = None

    def answer(self, prompt: str) -> str:
        """Read the answer to a question; ignores what was typed before it and is not stored."""
        _drop_typed_ahead()
        if self._readline is None:
            return input(prompt)
        self._readline.set_auto_history(False)
        try:
            return input(prompt)
        finally:
            self._readline.set_auto_history(True)


def _drop_typed_ahead() -> None:
    """Discard what was typed ahead: it was meant for the next message and must not answer a question."""
    try:
        import termios
    except ImportError:
        return
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline
