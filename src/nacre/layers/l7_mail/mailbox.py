"""An inbox on disk: letters are appended under a lock and flushed; a cursor marks what was received (A3, A5).

Beside `<agent>.jsonl` are its lock, its cursor, the unreadable lines (`.bad.jsonl`) and the FIFOs of waiting
receivers (`.bell/`). The file begins with a header that names its generation. Files are opened relative to
the descriptor of the folder and links are not followed, so that no link can redirect a letter.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError
from nacre.layers.l7_mail.inbox import START, InboxPosition, UnreadLetters
from nacre.layers.l7_mail.letter import MAX_LINE_BYTES, Letter, check_name, parse, written
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.layers.l7_mail.wakeup import FifoWakeup, Wakeup, notify
from nacre.messages.wire import canonical
from nacre.store import disk
from nacre.store.locks import FOREIGN_SECONDS, FileLock, Timeout

FOLDERS_ABOVE = 3
"""`<home>/teams/<team>/inboxes`: folders that may have been created for the first letter."""
SUFFIX = ".jsonl"
ASIDE_SUFFIX = ".bad.jsonl"
HEAD_BYTES = 512
"""Longer than any header or cursor."""
MARK_BYTES = 512
"""Longer than most letters, whose ids are at their beginning."""
CHUNK = 65_536
"""Bytes read at a time."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_Stamp: TypeAlias = tuple[int, int, int]


def box_path(folder: Path, name: str) -> Path:
    """Return the path of an agent's inbox in a folder; raises `MailError` for an invalid name."""
    return folder / f"{check_name(name)}{SUFFIX}"


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


@dataclass(frozen=True, slots=True)
class _ReadLetters:
    """The result of reading a mailbox."""

    letters: tuple[Letter, ...]
    end: int
    bad: tuple[tuple[MailboxLine, str], ...]
    known: int
    more: bool


class Mailbox:
    """The inbox of an agent in a file; any number of processes write to it, one receives."""

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK, settings: MailSettings = MAIL) -> None:
        self.path = path
        self._name = named(path)
        self._cursor_name = f"{self._name}.cursor"
        self._wakeups = path.with_name(f"{self._name}.bell")
        self._clock = clock
        self._settings = settings
        self._settled = START
        self._quiet: tuple[_Stamp | None, InboxPosition] = (None, START)

    def put(self, letter: Letter) -> None:
        """Append a letter and flush it; after a failure the mailbox is unchanged."""
        line = written(letter)
        with self._held(make=True) as folder:
            self._append(folder, line)
        # After the lock is released, so that the receiver does not wait for it.
        notify(self._wakeups)

    def waiting(self, known: Container[str] = ()) -> UnreadLetters:
        """Return the letters after the cursor, up to the limit; unreadable lines are set aside."""
        stamp, position = self._quiet
        if (now := self._stamp()) is None:
            return UnreadLetters((), self._settled)
        if now == stamp:
            return UnreadLetters((), position)
        with self._held() as folder:
            box = _opened(folder, self.path.name)
            if box is None:
                return UnreadLetters((), self._settled)
            size = os.fstat(box).st_size
            generation, _ = generation_of(box)
            received = read_cursor(folder, self._cursor_name).position
        # Bytes below this size never change again, so they are read without the lock.
        try:
            start = max(start_of(box, size, each) for each in (received, self._settled))
            read = self._read(box, start, size, known)
            position = position_at(box, generation, read.end)
        finally:
            os.close(box)
        unreadable = self._set_aside(read, generation) if read.bad else 0
        if not (read.letters or read.known or read.more):
            self._quiet = (now, position)
        return UnreadLetters(read.letters, position, unreadable, read.more)

    def settle(self, position: InboxPosition) -> None:
        """Record that everything before a position was received."""
        if position == self._settled:
            return
        # If the cursor cannot be written, the letters are read again; the receiver knows their ids.
        with suppress(MailError), self._held() as folder:
            self._move(folder, position)

    def wakeup(self) -> Wakeup:
        """Return a wakeup that is signalled for each letter until it is closed."""
        return FifoWakeup(self._wakeups, self._stamp, settings=self._settings)

    def _stamp(self) -> _Stamp | None:
        """Return values that change whenever the file does."""
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    @contextmanager
    def _held(self, *, make: bool = False) -> Iterator[int]:
        """Hold the lock and yield the opened folder; every failure is raised as a `MailError`."""
        patience = self._settings.lock_seconds
        poll = self._settings.poll_seconds
        # Also excludes threads from each other: each has its own descriptor.
        lock = FileLock(self.path.with_name(f"{self._name}.lock"), foreign_seconds=FOREIGN_SECONDS)
        try:
            with (
                opened_folder(self.path.parent, make=make) as folder,
                lock.acquire(timeout=patience, poll_interval=poll),
            ):
                yield folder
        except Timeout:
            raise MailError(
                f"another process has held {self.path} for over {patience:g} s; try again later"
            ) from None
        except OSError as error:
            raise MailError(disk.explain(error, self.path)) from error

    def _append(self, folder: int, line: bytes) -> None:
        box = open_file(folder, self.path.name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(box).st_size
            if size >= self._settings.anew_bytes:
                position = read_cursor(folder, self._cursor_name).position
                if position.offset == size == start_of(box, size, position):
                    fresh = header(self._clock.new_id()) + line
                    disk.replace_file(self.path, fresh, temp_name=f".{self.path.name}.tmp")
                    return
            if size == 0:
                # Sync the names first, also of folders that may be new: a mailbox with a letter in it must
                # survive a power failure.
                disk.sync_folder(self.path.parent)
                for above in list(self.path.parent.parents)[:FOLDERS_ABOVE]:
                    with suppress(PermissionError):  # one that may not be opened was not made by us
                        disk.sync_folder(above)
                line = header(self._clock.new_id()) + line
            # The reader sets a line aside that a killed writer tore.
            disk.append_lines(box, line, sync=True)
        finally:
            os.close(box)

    def _read(self, box: int, start: int, size: int, known: Container[str]) -> _ReadLetters:
        letters: dict[str, Letter] = {}
        bad: list[tuple[MailboxLine, str]] = []
        end = start
        chars = 0
        passed = 0
        more = False
        for line in lines(box, start, size):
            if len(letters) + len(bad) >= self._settings.look_letters:
                more = True
                break
            try:
                letter = parse(line.data) if line.data else None
            except MailError as error:
                bad.append((line, str(error)))
                letter = None
            if letter and (letter.id in known or letter.id in letters):
                passed += 1
            elif letter:
                chars += len(letter.text)
                if letters and chars > self._settings.look_chars:
                    more = True
                    break
                letters[letter.id] = letter
            end = line.end
        return _ReadLetters(tuple(letters.values()), end, tuple(bad), passed, more)

    def _set_aside(self, read: _ReadLetters, generation: str) -> int:
        """Copy unreadable lines to their own file, each once; errors do not hold back the readable ones."""
        with suppress(MailError), self._held() as folder:
            cursor = read_cursor(folder, self._cursor_name)
            if cursor.position.generation != generation:
                cursor = Cursor(InboxPosition(generation))
            fresh = [(line, why) for line, why in read.bad if line.start >= cursor.aside]
            if fresh:
                self._keep_aside(folder, generation, fresh)
                self._write_cursor(replace(cursor, aside=fresh[-1][0].end))
            return len(fresh)
        return 0

    def _keep_aside(self, folder: int, generation: str, bad: list[tuple[MailboxLine, str]]) -> None:
        kept = open_file(folder, f"{self._name}{ASIDE_SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for line, why in bad:
                if os.fstat(kept).st_size < self._settings.aside_bytes:
                    disk.append_whole(kept, self._described(line, generation, why))
        finally:
            os.close(kept)

    def _described(self, line: MailboxLine, generation: str, why: str) -> bytes:
        shown = line.data if line.is_whole else line.data[: self._settings.aside_line_bytes]
        return (
            canonical(
                {
                    "at": self._clock.now().isoformat(),
                    "why": why,
                    "generation": generation,
                    "offset": line.start,
                    "bytes": line.end - line.start,
                    "line": shown.decode(errors="surrogateescape"),
                }
            )
            + b"\n"
        )

    def _move(self, folder: int, position: InboxPosition) -> None:
        box = _opened(folder, self.path.name)
        if box is None:
            return
        try:
            size = os.fstat(box).st_size
            cursor = read_cursor(folder, self._cursor_name)
            before = max(start_of(box, size, each) for each in (cursor.position, self._settled))
            is_ahead = start_of(box, size, position) == position.offset > before
        finally:
            os.close(box)
        if is_ahead:
            self._settled = position
            aside = cursor.aside if cursor.position.generation == position.generation else 0
            self._write_cursor(Cursor(position, aside))

    def _write_cursor(self, cursor: Cursor) -> None:
        # Not flushed: a cursor lost in a power cut is one more reading.
        disk.replace_file(
            self.path.with_name(self._cursor_name),
            cursor.data,
            temp_name=f".{self._cursor_name}.tmp",
            sync=False,
        )


def _opened(folder: int, name: str) -> int | None:
    try:
        return open_file(folder, name, os.O_RDONLY)
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class MailboxContent:
    """All letters of an inbox."""

    received: tuple[Letter, ...] = ()
    """Letters before the cursor, as far as the file still has them."""
    waiting: tuple[Letter, ...] = ()
    unreadable: int = 0
    """Number of lines that are not letters."""


def peek(path: Path) -> MailboxContent:
    """Return all letters of an inbox without changing it; a missing inbox is empty (A3)."""
    cursor_name = f"{named(path)}.cursor"
    try:
        with opened_folder(path.parent) as folder:
            box = open_file(folder, path.name, os.O_RDONLY)
            try:
                return _scan(box, read_cursor(folder, cursor_name))
            finally:
                os.close(box)
    except FileNotFoundError:
        return MailboxContent()
    except OSError as error:
        raise MailError(disk.explain(error, path)) from error


def _scan(box: int, cursor: Cursor) -> MailboxContent:
    size = os.fstat(box).st_size
    _, first = generation_of(box)
    start = start_of(box, size, cursor.position)
    received: dict[str, Letter] = {}
    waiting: dict[str, Letter] = {}
    unreadable = 0
    for line in lines(box, first, size):
        try:
            letter = parse(line.data) if line.data else None
        except MailError:
            unreadable += 1
            continue
        if letter is not None and letter.id not in received:
            (received if line.end <= start else waiting).setdefault(letter.id, letter)
    return MailboxContent(tuple(received.values()), tuple(waiting.values()), unreadable)


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
        if error.errno == errno.ENXIO:  # a socket, or a FIFO without a reader
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
