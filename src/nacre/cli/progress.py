"""How far long work has come: one line on stderr that goes away, and only when a person is looking."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nacre.cli.output import has_colour, printable

WHOLE = 100


@contextmanager
def progress_line(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A function to tell how many of how many bytes are done; None when nobody would see it."""
    if not has_colour(sys.stderr):
        yield None
        return
    label = printable(what)[: max(10, shutil.get_terminal_size().columns - 8)]

    def told(done: int, total: int) -> None:
        share = min(WHOLE, done * WHOLE // total) if total else WHOLE
        print(f"\r{label} {share:3d} %\x1b[K", end="", file=sys.stderr, flush=True)

    print(f"\r{label}\x1b[K", end="", file=sys.stderr, flush=True)
    try:
        yield told
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def countdown(line: str) -> None:
    """What is waited for when a session ends, in one line that goes away; an empty one ends it (F5)."""
    if not has_colour(sys.stderr):
        return
    shown = f"{line} (Ctrl-C leaves at once)" if line else ""
    width = max(10, shutil.get_terminal_size().columns - 1)
    print(f"\r{printable(shown)[:width]}\x1b[K", end="", file=sys.stderr, flush=True)
