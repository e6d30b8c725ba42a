"""An inbox on disk: letters are appended under a lock and flushed; a cursor marks what was received (A3, A5).

Beside `<agent>.jsonl` are its lock, its cursor, the unreadable lines (`.bad.jsonl`) and the FIFOs of waiting
receivers (`.bell/`).
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock, Timeout

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError
from nacre.layers.l7_mail import mailbox_file as form
from nacre.layers.l7_mail.inbox import START, InboxPosition, UnreadLetters
from nacre.layers.l7_mail.letter import Letter, check_name, parse, written
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.layers.l7_mail.wakeup import FifoWakeup, Wakeup, notify
from nacre.messages.wire import canonical
from nacre.store import disk

FOLDERS_ABOVE = 3
"""`<home>/teams/<team>/inboxes`: folders that may have been created for the first letter."""


def box_path(folder: Path, name: str) -> Path:
    """Return the path of an agent's inbox in a folder; raises `MailError` for an invalid name."""
    return folder / f"{check_name(name)}{form.SUFFIX}"


_Stamp: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _ReadLetters:
    """The result of reading a mailbox."""

    letters: tuple[Letter, ...]
    end: int
    bad: tuple[tuple[form.MailboxLine, str], ...]
    known: int
    more: bool


class Mailbox:
    """The inbox of an agent in a file; any number of processes write to it, one receives."""

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK, settings: MailSettings = MAIL) -> None:
        self.path = path
        self._name = form.named(path)
        self._cursor_name = f"{self._name}.cursor"
        self._wakeups = path.with_name(f"{self._name}.bell")
        self._clock = clock
        self._settings = settings
        self._locks: tuple[int, FileLock] = (0, self._new_lock())
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
            generation, _ = form.generation_of(box)
            received = form.read_cursor(folder, self._cursor_name).position
        # Bytes below this size never change again, so they are read without the lock.
        try:
            start = max(form.start_of(box, size, each) for each in (received, self._settled))
            read = self._read(box, start, size, known)
            position = form.position_at(box, generation, read.end)
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

    def _new_lock(self) -> FileLock:
        # Also excludes threads from each other: each has its own descriptor.
        return FileLock(self.path.with_name(f"{self._name}.lock"), mode=disk.FILE_MODE)

    def _lock(self) -> FileLock:
        if self._locks[0] != os.getpid():  # a forked process must not use a descriptor of its parent
            self._locks = (os.getpid(), self._new_lock())
        return self._locks[1]

    @contextmanager
    def _held(self, *, make: bool = False) -> Iterator[int]:
        """Hold the lock and yield the opened folder; every failure is raised as a `MailError`."""
        patience = self._settings.lock_seconds
        poll = self._settings.poll_seconds
        try:
            with (
                form.opened_folder(self.path.parent, make=make) as folder,
                self._lock().acquire(timeout=patience, poll_interval=poll),
            ):
                yield folder
        except Timeout:
            raise MailError(
                f"another process has held {self.path} for over {patience:g} s; try again later"
            ) from None
        except OSError as error:
            raise MailError(disk.explain(error, self.path)) from error

    def _append(self, folder: int, line: bytes) -> None:
        box = form.open_file(folder, self.path.name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(box).st_size
            if size >= self._settings.anew_bytes and self._is_read(folder, box, size):
                fresh = form.header(self._clock.new_id()) + line
                disk.replace_file(self.path, fresh, temp_name=f".{self.path.name}.tmp")
                return
            if size == 0:
                # Sync the names first: a mailbox with a letter in it must survive a power failure.
                _sync_folders(self.path.parent)
                line = form.header(self._clock.new_id()) + line
            elif os.pread(box, 1, size - 1) != b"\n":
                line = b"\n" + line  # a writer was killed; the reader will set that line aside
            disk.append_whole(box, line)
            try:
                os.fsync(box)
            except OSError:
                os.ftruncate(box, size)
                raise
        finally:
            os.close(box)

    def _is_read(self, folder: int, box: int, size: int) -> bool:
        position = form.read_cursor(folder, self._cursor_name).position
        return position.offset == size == form.start_of(box, size, position)

    def _read(self, box: int, start: int, size: int, known: Container[str]) -> _ReadLetters:
        letters: dict[str, Letter] = {}
        bad: list[tuple[form.MailboxLine, str]] = []
        end = start
        chars = 0
        passed = 0
        more = False
        for line in form.lines(box, start, size):
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
            cursor = form.read_cursor(folder, self._cursor_name)
            if cursor.position.generation != generation:
                cursor = form.Cursor(InboxPosition(generation))
            fresh = [(line, why) for line, why in read.bad if line.start >= cursor.aside]
            if fresh:
                self._keep_aside(folder, generation, fresh)
                self._write_cursor(replace(cursor, aside=fresh[-1][0].end))
            return len(fresh)
        return 0

    def _keep_aside(self, folder: int, generation: str, bad: list[tuple[form.MailboxLine, str]]) -> None:
        kept = form.open_file(
            folder, f"{self._name}{form.ASIDE_SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        try:
            for line, why in bad:
                if os.fstat(kept).st_size < self._settings.aside_bytes:
                    disk.append_whole(kept, self._described(line, generation, why))
        finally:
            os.close(kept)

    def _described(self, line: form.MailboxLine, generation: str, why: str) -> bytes:
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
            cursor = form.read_cursor(folder, self._cursor_name)
            before = max(form.start_of(box, size, each) for each in (cursor.position, self._settled))
            is_ahead = form.start_of(box, size, position) == position.offset > before
        finally:
            os.close(box)
        if is_ahead:
            self._settled = position
            aside = cursor.aside if cursor.position.generation == position.generation else 0
            self._write_cursor(form.Cursor(position, aside))

    def _write_cursor(self, cursor: form.Cursor) -> None:
        # Not flushed: a cursor lost in a power cut is one more reading.
        disk.replace_file(
            self.path.with_name(self._cursor_name),
            cursor.data,
            temp_name=f".{self._cursor_name}.tmp",
            sync=False,
        )


def _opened(folder: int, name: str) -> int | None:
    try:
        return form.open_file(folder, name, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _sync_folders(folder: Path) -> None:
    """Flush the names on the way to a new box: its own, and those of folders that may be new as well."""
    disk.sync_folder(folder)
    for above in list(folder.parents)[:FOLDERS_ABOVE]:
        # One that may not be opened was not made by us.
        with suppress(PermissionError):
            disk.sync_folder(above)


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
    cursor_name = f"{form.named(path)}.cursor"
    try:
        with form.opened_folder(path.parent) as folder:
            box = form.open_file(folder, path.name, os.O_RDONLY)
            try:
                return _scan(box, form.read_cursor(folder, cursor_name))
            finally:
                os.close(box)
    except FileNotFoundError:
        return MailboxContent()
    except OSError as error:
        raise MailError(disk.explain(error, path)) from error


def _scan(box: int, cursor: form.Cursor) -> MailboxContent:
    size = os.fstat(box).st_size
    _, first = form.generation_of(box)
    start = form.start_of(box, size, cursor.position)
    received: dict[str, Letter] = {}
    waiting: dict[str, Letter] = {}
    unreadable = 0
    for line in form.lines(box, first, size):
        try:
            letter = parse(line.data) if line.data else None
        except MailError:
            unreadable += 1
            continue
        if letter is not None and letter.id not in received:
            (received if line.end <= start else waiting).setdefault(letter.id, letter)
    return MailboxContent(tuple(received.values()), tuple(waiting.values()), unreadable)
