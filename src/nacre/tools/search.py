"""Walk a tree and match names or lines; Grep and Glob run this file as a separate process.

A pattern of the model can block Python's matcher for hours; a separate process can be killed. Standard
library only: it starts without nacre and without site.
"""

from __future__ import annotations

import codecs
import heapq
import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple, TypedDict

SKIPPED = frozenset({".git", ".hg", ".svn"})
"""Directories of version control."""
SNIFF_BYTES = 8_192
"""A zero byte in this many bytes means a binary file."""
PIECE_BYTES = 1024 * 1024
"""A longer line is matched in pieces, so that a file of one line is never held whole."""
OVERLAP_CHARS = 4_096
"""Of two pieces: a match up to this length is found wherever a piece ends."""


READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    """A file, a link or a device in an open directory."""

    folder: int | None
    """None: the working directory."""
    name: str
    path: str
    """As it is printed."""
    below: str
    """Relative to the target."""


class Piece(NamedTuple):
    """A line, or a part of an overlong one."""

    number: int
    column: int
    """How many characters of the line come before."""
    text: str
    seen: int
    """How many characters at its beginning were in the piece before."""
    is_whole: bool


class GrepTask(TypedDict):
    """A search for lines, already validated."""

    target: str
    pattern: str
    ignore_case: bool
    names: str | None
    """A regular expression for paths below the target."""
    hidden: Sequence[Sequence[str]]
    """Names of the target, each with an expression for files below that are left out."""
    mode: str
    before: int
    after: int
    line_chars: int


class GlobTask(TypedDict):
    """A search for names."""

    target: str
    names: str
    limit: int | None
    """How many of the newest are printed; None for all."""
    hidden: Sequence[Sequence[str]]


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
    """Print matches in ripgrep's format; a zero byte ends the path before a line."""
    pattern = re.compile(task["pattern"], re.IGNORECASE if task["ignore_case"] else 0)
    names = re.compile(task["names"]) if task["names"] else None
    found = 1
    for file in shown(task):
        if names is not None and not names.fullmatch(file.below):
            continue
        path = file.path
        try:
            # Like ripgrep, follow no links: a foreign project may contain one to the user's own files. Nor is
            # one followed that is exchanged for a file meanwhile.
            handle = os.open(file.name, READ, dir_fd=file.folder)
            with os.fdopen(handle, "rb") as source:
                if not stat.S_ISREG(os.fstat(handle).st_mode) or b"\0" in source.read(SNIFF_BYTES):
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
    found: set[int] = set()
    count = 0
    for piece in pieces(source):
        if any(one.end() > piece.seen or not piece.seen for one in pattern.finditer(piece.text)):
            # Several pieces of one line are one line.
            count += piece.number not in found
            found = {piece.number}
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
    for piece in pieces(source):
        number = piece.number
        if rows := matching_rows(piece, pattern, task["line_chars"]):
            earlier = [one for one in waiting if one[0] < number]
            first = earlier[0][0] if earlier else number
            if has_context and last_printed and first > last_printed + 1:
                sys.stdout.write("--\n")
            for place, text in earlier:
                sys.stdout.write(f"{path}\0{place}-{shortened(text, task)}\n")
            waiting.clear()
            for row in rows:
                sys.stdout.write(f"{path}\0{number}:{row}\n")
            last_printed = number
            context_left = task["after"]
        elif piece.column:
            continue  # the rest of a line whose beginning was the context
        elif context_left:
            sys.stdout.write(f"{path}\0{number}-{shortened(piece.text, task)}\n")
            last_printed = number
            context_left -= 1
        else:
            waiting.append((number, piece.text))
    return last_printed > 0


def matching_rows(piece: Piece, pattern: re.Pattern[str], limit: int) -> list[str]:
    """Return the line if it matches; of a long one the surroundings of each match, with their column."""
    text = piece.text
    if piece.is_whole and len(text) <= limit:
        return [text] if pattern.search(text) else []
    rows: list[str] = []
    shown_to = -1
    for found in pattern.finditer(text):
        if found.start() < shown_to or (piece.seen and found.end() <= piece.seen):
            continue
        begin = max(0, found.start() - limit // 4)
        shown_to = begin + limit
        more = "" if piece.is_whole and shown_to >= len(text) else "…"
        rows.append(f"[column {piece.column + begin + 1}] {text[begin:shown_to]}{more}")
    return rows


def shortened(line: str, task: GrepTask) -> str:
    limit = task["line_chars"]
    return line if len(line) <= limit else f"{line[:limit]} [… {len(line) - limit} more characters]"


def pieces(source: IO[bytes]) -> Iterator[Piece]:
    """Yield the lines without line ends; an overlong one in pieces that overlap."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    number = 1
    column = 0
    tail = ""
    while data := source.readline(PIECE_BYTES):
        ended = data.endswith(b"\n")
        text = decoder.decode(data, final=ended or len(data) < PIECE_BYTES)
        if ended:
            text = text.removesuffix("\n").removesuffix("\r")
        yield Piece(number, column, tail + text, len(tail), not column and (ended or len(data) < PIECE_BYTES))
        if ended:
            number += 1
            column = 0
            tail = ""
        else:
            column += len(tail) + len(text)
            tail = (tail + text)[-OVERLAP_CHARS:]
            column -= len(tail)


def glob(task: GlobTask) -> int:
    """Print the total, then the matching paths as JSON, the newest first, each on its own line."""
    names = re.compile(task["names"])
    total = 0

    def matching() -> Iterator[tuple[int, str]]:
        nonlocal total
        for file in shown(task):
            if names.fullmatch(file.below):
                try:
                    found = os.stat(file.name, dir_fd=file.folder, follow_symlinks=False)
                except OSError:
                    continue
                # A link is listed by its name, wherever it leads.
                if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
                    total += 1
                    yield -found.st_mtime_ns, file.path

    limit = task["limit"]
    newest = sorted(matching()) if limit is None else heapq.nsmallest(limit, matching())
    sys.stdout.write(f"{total}\n")
    sys.stdout.writelines(f"{json.dumps(path)}\n" for _, path in newest)
    return 0 if total else 1


def shown(task: GrepTask | GlobTask) -> Iterator[Found]:
    """Yield the files at or below the target that are not hidden."""
    hidden = [(name, re.compile(expression, re.DOTALL)) for name, expression in task["hidden"]]
    for file in files(task["target"]):
        if not any(expression.fullmatch(f"{name}/{file.below}") for name, expression in hidden):
            yield file


def files(target: str) -> Iterator[Found]:
    """Yield what is no directory at or below the target, in a fixed order; no link is followed.

    Each directory is opened by its name in the one above, so that a link that is exchanged for it meanwhile
    leads nowhere.
    """
    name = target.removeprefix("./") or "."
    top = f"{target.rstrip('/')}/"
    opened: list[tuple[int, str, Iterator[str]]] = []
    """The directories on the way, each with its path and the names of directories to enter next."""

    def enter(folder: int, path: str) -> Iterator[Found]:
        directories, names = listed(folder)
        opened.append((folder, path, iter(directories)))
        return (Found(folder, one, f"{path}{one}", f"{path}{one}"[len(top) :]) for one in names)

    try:
        folder = os.open(name, FOLDER)
    except OSError:
        yield Found(None, name, target, name)
        return
    yield from enter(folder, top)
    while opened:
        folder, path, inner = opened[-1]
        entered = next(inner, None)
        if entered is None:
            opened.pop()
            os.close(folder)
            continue
        try:
            below = os.open(entered, FOLDER, dir_fd=folder)
        except OSError:
            continue
        yield from enter(below, f"{path}{entered}/")


def listed(folder: int) -> tuple[list[str], list[str]]:
    """Return the names of the directories to enter, and of all that is no directory, both sorted."""
    directories: list[str] = []
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_directory = entry.is_dir(follow_symlinks=False)
                if not is_directory:
                    names.append(entry.name)
                elif entry.name not in SKIPPED:
                    directories.append(entry.name)
    except OSError:
        pass  # a directory that may not be listed; what was found before the error is kept
    return sorted(directories), sorted(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
