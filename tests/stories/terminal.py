"""A person at a terminal: the program on a real pty, keys typed one by one, and what the screen shows."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.program import begin, world
from tests.stories.processes import SAFETY_SECONDS

CTRL_C, CTRL_D = "\x03", "\x04"
PROMPT = "> "
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """One pty and the program behind it."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self._screen = ""

    def type(self, keys: str) -> None:
        # readline shows its prompt a moment before it listens; a person does not type that fast.
        time.sleep(0.1)
        os.write(self._master, keys.encode())

    def see(self, text: str) -> str:
        """Wait until this stands on the screen; what came up to it, which is then looked at no more."""
        deadline = time.monotonic() + SAFETY_SECONDS
        while text not in self._screen:
            assert time.monotonic() < deadline, f"{text!r} never came; the screen: {self._screen!r}"
            assert self._read(), f"the program ended without {text!r}; the screen: {self._screen!r}"
        seen, _, self._screen = self._screen.partition(text)
        return seen + text

    def ends(self) -> int:
        """Read on until the program ends; its exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=SAFETY_SECONDS)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], SAFETY_SECONDS)[0]:
            return False
        try:
            chunk = os.read(self._master, 65_536)
        except OSError:  # how Linux says that nobody holds the other end any more
            return False
        self._screen += _ESCAPES.sub("", chunk.decode(errors="replace"))
        return bool(chunk)


@contextmanager
def terminal(cwd: Path, *args: str, **environ: str) -> Iterator[Terminal]:
    """`nacre ARGS` as a person starts it."""
    master, slave = pty.openpty()
    process = begin(
        [sys.executable, "-m", "nacre", *args],
        cwd,
        world(cwd, **{"TERM": "xterm", "NO_COLOR": "1", "NACRE_TUI": "0", **environ}),
        stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True,
        # Ctrl-C reaches only the terminal that a session is bound to.
        takes_terminal=True,
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait(timeout=SAFETY_SECONDS)
        os.close(master)
