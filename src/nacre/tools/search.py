"""Walk a tree and match names or lines; run as a process of its own by Grep and Glob.

A pattern the model wrote can make Python's matcher run for hours, and meanwhile no other Python code runs.
In a process of its own it can be killed. Standard library only: it starts without nacre and without site.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator
from typing import IO, TypedDict

SKIPPED = frozenset({".git", ".hg", ".svn"})
"""Where version control keeps its own files."""
SNIFF_BYTES = 8_192
"""A zero byte this early means the file is no text."""
PIECE_BYTES = 1024 * 1024
"""A line longer than this is matched in pieces, so that a file of one line is never held whole."""


class GrepOrder(TypedDict):
    """What to look for, already checked."""

    target: str
    pattern: str
    ignore_case: bool
    names: str | None
    """A regular expression for paths below the target."""
    mode: str
    before: int
    after: int
    line_chars: int


class GlobOrder(TypedDict):
    """Which names to list."""

    target: str
    names: str
    limit: int


def main(task: str, order: str) -> int:
    """Exit code 0 when something was found, 1 when nothing, 2 when the order cannot be carried out."""
    # File names are bytes; they leave as they are.
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    try:
        return grep(json.loads(order)) if task == "grep" else glob(json.loads(order))
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def grep(order: GrepOrder) -> int:
    """Print what matches, in ripgrep's form."""
    pattern = re.compile(order["pattern"], re.IGNORECASE if order["ignore_case"] else 0)
    names = re.compile(order["names"]) if order["names"] else None
    found = 1
    for path, below in files(order["target"]):
        # Like ripgrep, follow no link: a stranger's project may hold one that leads to your own files.
        if (names is not None and not names.fullmatch(below)) or os.path.islink(path):  # noqa: PTH114
            continue
        try:
            with open(path, "rb") as source:  # noqa: PTH123  # os.walk gives strings; a Path for each costs more
                if b"\0" in source.read(SNIFF_BYTES):
                    continue
                source.seek(0)
                if search_file(path, source, pattern, order):
                    found = 0
        except OSError:
            continue
    return found


def search_file(path: str, source: IO[bytes], pattern: re.Pattern[str], order: GrepOrder) -> bool:
    """Print one file's matches; whether there were any."""
    if order["mode"] == "content":
        return print_lines(path, source, pattern, order)
    count = 0
    for _, line in lines(source):
        if pattern.search(line):
            count += 1
            if order["mode"] == "files_with_matches":
                break
    if count:
        sys.stdout.write(f"{path}\n" if order["mode"] == "files_with_matches" else f"{path}:{count}\n")
    return count > 0


def print_lines(path: str, source: IO[bytes], pattern: re.Pattern[str], order: GrepOrder) -> bool:
    """Print matching lines with those around them; groups that do not touch are set apart."""
    waiting: deque[tuple[int, str]] = deque(maxlen=order["before"])
    has_context = order["before"] > 0 or order["after"] > 0
    last_printed = 0
    owed = 0
    for number, line in lines(source):
        if pattern.search(line):
            first = waiting[0][0] if waiting else number
            if has_context and last_printed and first > last_printed + 1:
                sys.stdout.write("--\n")
            for earlier, text in waiting:
                sys.stdout.write(f"{path}-{earlier}-{shortened(text, order)}\n")
            waiting.clear()
            sys.stdout.write(f"{path}:{number}:{shortened(line, order)}\n")
            last_printed = number
            owed = order["after"]
        elif owed:
            sys.stdout.write(f"{path}-{number}-{shortened(line, order)}\n")
            last_printed = number
            owed = owed - 1
        else:
            waiting.append((number, line))
    return last_printed > 0


def shortened(line: str, order: GrepOrder) -> str:
    limit = order["line_chars"]
    return line if len(line) <= limit else f"{line[:limit]} [… {len(line) - limit} more characters]"


def lines(source: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends; the pieces of an overlong one share its number."""
    number = 1
    while piece := source.readline(PIECE_BYTES):
        yield number, piece.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        number += piece.endswith(b"\n")


def glob(order: GlobOrder) -> int:
    """Print the newest matching paths and how many there were, as JSON."""
    names = re.compile(order["names"])
    total = 0

    def matching() -> Iterator[tuple[int, str]]:
        nonlocal total
        for path, below in files(order["target"]):
            if names.fullmatch(below):
                try:
                    changed = os.stat(path).st_mtime_ns  # noqa: PTH116  # as above
                except OSError:
                    continue
                total += 1
                yield -changed, path

    newest = heapq.nsmallest(order["limit"], matching())
    json.dump({"total": total, "paths": [path for _, path in newest]}, sys.stdout)
    return 0 if total else 1


def files(target: str) -> Iterator[tuple[str, str]]:
    """Regular files at or below the target in a fixed order, each with its path below the target."""
    if not os.path.isdir(target):  # noqa: PTH112
        yield target, os.path.basename(target)  # noqa: PTH119
        return
    for directory, inside, names in os.walk(target):
        inside[:] = sorted(name for name in inside if name not in SKIPPED)
        for name in sorted(names):
            path = os.path.join(directory, name)  # noqa: PTH118
            if is_regular(path):
                yield path, os.path.relpath(path, target)


def is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
