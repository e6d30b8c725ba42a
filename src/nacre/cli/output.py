"""Output of commands: one JSON document for programs, tables for people."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from nacre.formatting import human_age as human_age
from nacre.formatting import human_count as human_count
from nacre.formatting import printable as printable
from nacre.formatting import visible
from nacre.messages.blocks import Json

MIN_LAST = 20
"""Minimum width of the last column."""


def print_json(value: Json) -> None:
    """Print one indented JSON document on stdout."""
    indent = 2 if is_terminal() else None
    text = json_text(value, indent=indent)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        # The terminal has no UTF-8, or a file name is not text.
        text = json.dumps(value, indent=indent)
    print(text)


def json_text(value: Json, *, indent: int | None = None) -> str:
    """Return JSON; for a terminal, characters that could control it are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if not is_terminal():
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def terminal_text(text: str) -> str:
    """Return stored text for stdout; on a terminal, control characters are written out."""
    return visible(text) if is_terminal() else text


def print_table(
    rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), right: Sequence[int] = ()
) -> None:
    """Print columns padded to their widest cell; `right` names the columns to align right."""
    lines = [list(header)] * bool(header) + [[printable(cell) for cell in row] for row in rows]
    if not lines:
        return
    widths = [max(_width(line[i]) for line in lines if i < len(line)) for i in range(max(map(len, lines)))]
    for line in lines:
        cells = []
        for i, cell in enumerate(line):
            space = " " * (widths[i] - _width(cell))
            cells.append(space + cell if i in right else cell + space)
        print("  ".join(cells).rstrip())


def cut_last(header: list[str], rows: list[list[str]]) -> None:
    """Cut the last column to the width of the terminal."""

    widths = [max(len(row[i]) for row in [header, *rows]) + 2 for i in range(len(header) - 1)]
    left = max(MIN_LAST, shutil.get_terminal_size().columns - sum(widths))
    for row in rows:
        row[-1] = row[-1] if len(row[-1]) <= left else row[-1][: left - 1] + "…"


def print_error(message: str) -> None:
    """Print one line on stderr."""
    print(f"nacre: {printable(message)}", file=sys.stderr)


def is_terminal(stream: IO[str] | None = None) -> bool:
    """Whether a stream (stdout by default) is a terminal."""
    stream = sys.stdout if stream is None else stream
    return stream is not None and not stream.closed and stream.isatty()


def has_colour(stream: IO[str] | None = None) -> bool:
    """Whether colour and progress may be shown: on a terminal, unless `NO_COLOR` is set or it is dumb."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and is_terminal(stream)


def _width(text: str) -> int:
    """Return the width in columns: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


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


_counted = [""]
"""What the countdown named last; a terminal that cannot replace a line shows each thing once."""


def countdown(line: str) -> None:
    """Show what the end of a session waits for, in one temporary line; an empty one ends it (F5)."""
    shown = f"{line} (Ctrl-C leaves at once)" if line else ""
    if not has_colour(sys.stderr):
        what = line.partition(":")[0]
        if is_terminal(sys.stderr) and what and what != _counted[0]:
            print(printable(shown), file=sys.stderr, flush=True)
        _counted[0] = what
        return
    width = max(10, shutil.get_terminal_size().columns - 1)
    print(f"\r{printable(shown)[:width]}\x1b[K", end="", file=sys.stderr, flush=True)
