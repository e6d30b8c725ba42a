"""Output of commands: one JSON document for programs, tables for people."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import IO

from nacre.formatting import human_age as human_age
from nacre.formatting import human_count as human_count
from nacre.formatting import printable as printable
from nacre.messages.blocks import Json

MIN_LAST = 20
"""Minimum width of the last column."""


def print_json(value: Json) -> None:
    """Print one indented JSON document on stdout."""
    indent = 2 if is_terminal() else None
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # Escaped where the terminal has no UTF-8 or a file name is not text.
    print(text if _is_encodable(text) else json.dumps(value, indent=indent))


def print_table(
    rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), right: Sequence[int] = ()
) -> None:
    """Print columns padded to their widest cell; `right` names the columns to align right."""
    lines = [list(header)] * bool(header) + [[printable(cell) for cell in row] for row in rows]
    if not lines:
        return
    widths = [max(_width(line[i]) for line in lines if i < len(line)) for i in range(max(map(len, lines)))]
    for line in lines:
        cells = [_padded(cell, widths[i], right=i in right) for i, cell in enumerate(line)]
        print("  ".join(cells).rstrip())


def cut_last(header: list[str], rows: list[list[str]]) -> None:
    """Cut the last column to the width of the terminal."""
    import shutil

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


def _is_encodable(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _width(text: str) -> int:
    """Return the width in columns: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space
