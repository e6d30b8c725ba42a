"""The file of an inbox: a header with its generation, then one letter per line; and the cursor beside it.

Files are opened relative to the descriptor of the folder and links are not followed, so that no link can
redirect a letter.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import MailError
from nacre.layers.l7_mail.inbox import START, InboxPosition
from nacre.layers.l7_mail.letter import MAX_LINE_BYTES, check_name
from nacre.messages.wire import canonical
from nacre.store import disk

SUFFIX = ".jsonl"
ASIDE_SUFFIX = ".bad.jsonl"
HEAD_BYTES = 512
"""Longer than any header or cursor."""
MARK_BYTES = 512
"""Longer than most letters, whose ids are at their beginning."""
CHUNK = 65_536
"""Bytes read at a time."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Cursor:
    """The content of the cursor file; the start if it is lost or invalid."""

    position: InboxPosition = START
    """Letters before it were received."""
    aside: int = 0
    """Unreadable lines before this offset were set aside."""

    @property
    def data(self) -> bytes:
        generation = self.position.generation
        offset = self.position.offset
        mark = self.position.mark
        return (
            canonical({"generation": generation, "offset": offset, "mark": mark, "aside": self.aside}) + b"\n"
        )


@dataclass(frozen=True, slots=True)
class MailboxLine:
    """One line and its offsets."""

    data: bytes
    """Only its beginning if it is longer than any letter."""
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        return len(self.data) == self.end - self.start - 1


def named(path: Path) -> str:
    """Return the agent whose mailbox a path is; raises `MailError` for other paths."""
    text = os.fspath(path)
    if "\0" in text or ".." in path.parts or path.suffix != SUFFIX or not path.is_absolute():
        raise MailError(f"{text!r} is no inbox: one is an absolute path such as /…/inboxes/reviewer{SUFFIX}")
    return check_name(path.name.removesuffix(SUFFIX))


@contextmanager
def opened_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """The folder by descriptor; a link in its position is refused."""
    try:
        folder = os.open(path, _FOLDER)
    except FileNotFoundError:
        if not make:
            raise
        disk.make_folder(path)
        folder = os.open(path, _FOLDER)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR} and path.is_symlink():
            raise MailError(
                f"{path} is a symlink; mail is kept in real folders only, remove the link"
            ) from None
        raise
    try:
        yield folder
    finally:
        os.close(folder)


def open_file(folder: int, name: str, flags: int) -> int:
    """Open a regular file in the folder, without following links or blocking."""
    try:
        wanted = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, wanted, disk.FILE_MODE, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise MailError(
                f"{name} is a symlink; mail is kept in real files only, remove the link"
            ) from None
        if error.errno == errno.ENXIO:  # a socket, or a FIFO that nobody reads
            raise disk.NotRegularError(errno.EINVAL, "not a regular file", name) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise disk.NotRegularError(errno.EINVAL, "not a regular file", name)
    return descriptor


def header(generation: str) -> bytes:
    """Return the first line of a mailbox."""
    return canonical({"inbox": 1, "generation": generation}) + b"\n"


def generation_of(box: int) -> tuple[str, int]:
    """Return the generation of an open mailbox and the offset of its first letter; empty without a header."""
    first, end, _ = os.pread(box, HEAD_BYTES, 0).partition(b"\n")
    if end:
        with suppress(ValueError, RecursionError):
            match json.loads(first):
                case {"inbox": 1, "generation": str(generation)}:
                    return generation, len(first) + 1
    return "", 0


def read_cursor(folder: int, name: str) -> Cursor:
    """Read the cursor file; if it is invalid, the mailbox is read from its beginning."""
    try:
        descriptor = open_file(folder, name, os.O_RDONLY)
    except (OSError, MailError):
        return Cursor()
    try:
        match json.loads(os.pread(descriptor, HEAD_BYTES, 0)):
            case {
                "generation": str(generation),
                "offset": int(offset),
                "mark": str(mark),
                "aside": int(aside),
            }:
                return Cursor(InboxPosition(generation, offset, mark), aside)
    except (OSError, ValueError, RecursionError):
        pass
    finally:
        os.close(descriptor)
    return Cursor()


def position_at(box: int, generation: str, offset: int) -> InboxPosition:
    """Return a position in an open mailbox, with the mark that identifies it."""
    before = os.pread(box, min(offset, MARK_BYTES), max(0, offset - MARK_BYTES))
    return InboxPosition(generation, offset, hashlib.blake2b(before, digest_size=8).hexdigest())


def start_of(box: int, size: int, position: InboxPosition) -> int:
    """Return the offset to read from: the position if it belongs to this mailbox, else the first letter."""
    generation, first = generation_of(box)
    is_inside = position.generation == generation and first <= position.offset <= size
    return (
        position.offset if is_inside and position == position_at(box, generation, position.offset) else first
    )


def lines(box: int, start: int, size: int) -> Iterator[MailboxLine]:
    """Yield each complete line between two offsets, in bounded memory."""
    pieces = bytearray()
    begin = at = start
    while at < size and (chunk := os.pread(box, min(CHUNK, size - at), at)):
        done = 0
        while (cut := chunk.find(b"\n", done)) >= 0:
            if len(pieces) <= MAX_LINE_BYTES:
                pieces += chunk[done:cut]
            end = at + cut + 1
            yield MailboxLine(bytes(pieces), begin, end)
            pieces.clear()
            begin = end
            done = cut + 1
        if len(pieces) <= MAX_LINE_BYTES:
            pieces += chunk[done:]
        at += len(chunk)
