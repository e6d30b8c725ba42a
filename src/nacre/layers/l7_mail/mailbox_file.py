"""The file of an inbox: a header with its generation, then a letter a line; the cursor beside it.

Everything here is done by descriptor of the folder, and no link is followed, so that nobody can have a letter
written somewhere else.
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
from nacre.layers.l7_mail.inbox import NOWHERE, Place
from nacre.layers.l7_mail.letter import MAX_LINE_BYTES, check_name
from nacre.messages.wire import canonical
from nacre.store import disk

SUFFIX = ".jsonl"
ASIDE_SUFFIX = ".bad.jsonl"
HEAD_BYTES = 512
"""More than any header or cursor has."""
MARK_BYTES = 512
"""Longer than most letters, whose ids stand at their beginning."""
CHUNK = 65_536
"""Bytes read at a time."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Cursor:
    """What the cursor file says; nothing, when it is lost or garbage."""

    place: Place = NOWHERE
    """Up to here letters were received."""
    aside: int = 0
    """Up to here unreadable lines were set aside."""

    @property
    def data(self) -> bytes:
        generation = self.place.generation
        offset = self.place.offset
        mark = self.place.mark
        return (
            canonical({"generation": generation, "offset": offset, "mark": mark, "aside": self.aside}) + b"\n"
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One line and where it ends."""

    data: bytes
    """Only its beginning, when it is longer than any letter."""
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        return len(self.data) == self.end - self.start - 1


def named(path: Path) -> str:
    """Whose box a path is; `MailError` for a path that is none."""
    text = os.fspath(path)
    if "\0" in text or ".." in path.parts or path.suffix != SUFFIX or not path.is_absolute():
        raise MailError(f"{text!r} is no inbox: one is an absolute path such as /…/inboxes/reviewer{SUFFIX}")
    return check_name(path.name.removesuffix(SUFFIX))


@contextmanager
def opened_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """The folder by descriptor; a link in its place is refused."""
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
    """A regular file in the folder, never through a link and never waiting."""
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
    """The first line of a box."""
    return canonical({"inbox": 1, "generation": generation}) + b"\n"


def generation_of(box: int) -> tuple[str, int]:
    """Which generation an open box is, and where its first letter begins; a box without header has none."""
    first, end, _ = os.pread(box, HEAD_BYTES, 0).partition(b"\n")
    if end:
        with suppress(ValueError, RecursionError):
            match json.loads(first):
                case {"inbox": 1, "generation": str(generation)}:
                    return generation, len(first) + 1
    return "", 0


def read_cursor(folder: int, name: str) -> Cursor:
    """What the cursor file says; whatever is wrong with it, the box is then read from its beginning."""
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
                return Cursor(Place(generation, offset, mark), aside)
    except (OSError, ValueError, RecursionError):
        pass
    finally:
        os.close(descriptor)
    return Cursor()


def place_at(box: int, generation: str, offset: int) -> Place:
    """A place in an open box, with the mark by which it is known again."""
    before = os.pread(box, min(offset, MARK_BYTES), max(0, offset - MARK_BYTES))
    return Place(generation, offset, hashlib.blake2b(before, digest_size=8).hexdigest())


def start_of(box: int, size: int, place: Place) -> int:
    """Where to read on: at the place, if it is one of this box, else at the first letter."""
    generation, first = generation_of(box)
    is_inside = place.generation == generation and first <= place.offset <= size
    return place.offset if is_inside and place == place_at(box, generation, place.offset) else first


def lines(box: int, start: int, size: int) -> Iterator[Line]:
    """Each ended line from a place to another, in bounded memory; a last one without end is left alone."""
    pieces = bytearray()
    begin = at = start
    while at < size and (chunk := os.pread(box, min(CHUNK, size - at), at)):
        done = 0
        while (cut := chunk.find(b"\n", done)) >= 0:
            if len(pieces) <= MAX_LINE_BYTES:
                pieces += chunk[done:cut]
            end = at + cut + 1
            yield Line(bytes(pieces), begin, end)
            pieces.clear()
            begin = end
            done = cut + 1
        if len(pieces) <= MAX_LINE_BYTES:
            pieces += chunk[done:]
        at += len(chunk)
