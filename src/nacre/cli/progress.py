"""Progress of long work: one temporary line on stderr, only on a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nacre.cli.output import has_colour, printable

WHOLE = 100


@contextmanager
def progress_line(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Return a function that shows bytes done of bytes in total; None without a terminal."""
    if not has_colour(sys.stderr):
        yield None
        return
    label = printable(what)[: max(10, shutil.get_terminal_size().columns - 8)]

    def show(done: int, total: int) -> None:
        share = min(WHOLE, done * WHOLE // total) if total else WHOLE
        print(f"\r{label} {share:3d} %\x1b[K", end="", file=sys.stderr, flush=True)

    print(f"\r{label}\x1b[K", end="", file=sys.stderr, flush=True)
    try:
        yield show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def countdown(line: str) -> None:
    """Show what the end of a session waits for, in one temporary line; an empty one ends it (F5)."""
    if not has_colour(sys.stderr):
        return
    shown = f"{line} (Ctrl-C leaves at once)" if line else ""
    width = max(10, shutil.get_terminal_size().columns - 1)
    print(f"\r{printable(shown)[:width]}\x1b[K", end="", file=sys.stderr, flush=True)
