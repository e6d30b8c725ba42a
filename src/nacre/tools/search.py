"""Walk a tree and match names or lines; Grep and Glob run this file as a separate process.

A pattern of the model can block Python's matcher for hours; a separate process can be killed. Standard
library only: it starts without nacre and without site.
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
"""Directories of version control."""
SNIFF_BYTES = 8_192
"""A zero byte in this many bytes means a binary file."""
PIECE_BYTES = 1024 * 1024
"""A longer line is matched in pieces, so that a file of one line is never held whole."""


class GrepTask(TypedDict):
    """A search for lines, already validated."""

    target: str
    pattern: str
    ignore_case: bool
    names: str | None
    """A regular expression for paths below the target."""
    mode: str
    before: int
    after: int
    line_chars: int


class GlobTask(TypedDict):
    """A search for names."""

    target: str
    names: str
    limit: int


def main(kind: str, task: str) -> int:
    """Return exit code 0 if something was found, 1 if nothing, 2 for an invalid pattern."""
    # File names are bytes and are printed unchanged.
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    try:
        return grep(json.loads(task)) if kind == "grep" else glob(json.loads(task))
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def grep(task: GrepTask) -> int:
    """Print matches in ripgrep's format."""
    pattern = re.compile(task["pattern"], re.IGNORECASE if task["ignore_case"] else 0)
    names = re.compile(task["names"]) if task["names"] else None
    found = 1
    for path, below in files(task["target"]):
        # Like ripgrep, follow no links: a foreign project may contain one to the user's own files.
        if (names is not None and not names.fullmatch(below)) or os.path.islink(path):  # noqa: PTH114
            continue
        try:
            with open(path, "rb") as source:  # noqa: PTH123  # os.walk gives strings; a Path for each costs more
                if b"\0" in source.read(SNIFF_BYTES):
                    continue
                source.seek(0)
                if search_file(path, source, pattern, task):
                    found = 0
        except OSError:
            continue
    return found


def search_file(path: str, source: IO[bytes], pattern: re.Pattern[str], task: GrepTask) -> bool:
    """Print the matches of one file; return whether there were any."""
    if task["mode"] == "content":
        return print_lines(path, source, pattern, task)
    count = 0
    for _, line in lines(source):
        if pattern.search(line):
            count += 1
            if task["mode"] == "files_with_matches":
                break
    if count:
        sys.stdout.write(f"{path}\n" if task["mode"] == "files_with_matches" else f"{path}:{count}\n")
    return count > 0


def print_lines(path: str, source: IO[bytes], pattern: re.Pattern[str], task: GrepTask) -> bool:
    """Print matching lines with context; groups that are not adjacent are separated."""
    waiting: deque[tuple[int, str]] = deque(maxlen=task["before"])
    has_context = task["before"] > 0 or task["after"] > 0
    last_printed = 0
    context_left = 0
    for number, line in lines(source):
        if pattern.search(line):
            first = waiting[0][0] if waiting else number
            if has_context and last_printed and first > last_printed + 1:
                sys.stdout.write("--\n")
            for earlier, text in waiting:
                sys.stdout.write(f"{path}-{earlier}-{shortened(text, task)}\n")
            waiting.clear()
            sys.stdout.write(f"{path}:{number}:{shortened(line, task)}\n")
            last_printed = number
            context_left = task["after"]
        elif context_left:
            sys.stdout.write(f"{path}-{number}-{shortened(line, task)}\n")
            last_printed = number
            context_left -= 1
        else:
            waiting.append((number, line))
    return last_printed > 0


def shortened(line: str, task: GrepTask) -> str:
    limit = task["line_chars"]
    return line if len(line) <= limit else f"{line[:limit]} [… {len(line) - limit} more characters]"


def lines(source: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Yield numbered lines without line ends; the pieces of an overlong line share its number."""
    number = 1
    while piece := source.readline(PIECE_BYTES):
        yield number, piece.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        number += piece.endswith(b"\n")


def glob(task: GlobTask) -> int:
    """Print the newest matching paths and the total as JSON."""
    names = re.compile(task["names"])
    total = 0

    def matching() -> Iterator[tuple[int, str]]:
        nonlocal total
        for path, below in files(task["target"]):
            if names.fullmatch(below):
                try:
                    changed = os.stat(path).st_mtime_ns  # noqa: PTH116  # as above
                except OSError:
                    continue
                total += 1
                yield -changed, path

    newest = heapq.nsmallest(task["limit"], matching())
    json.dump({"total": total, "paths": [path for _, path in newest]}, sys.stdout)
    return 0 if total else 1


def files(target: str) -> Iterator[tuple[str, str]]:
    """Yield regular files at or below the target in a fixed order, with their relative path."""
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
