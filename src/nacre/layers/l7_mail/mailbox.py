"""An inbox on disk: a locked append that is flushed, and a cursor; nothing that was taken is lost (A3, A5).

Beside `<agent>.jsonl` lie its lock, its cursor, the lines that could not be read (`.bad.jsonl`) and the bells
of those who wait (`.bell/`).
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
from nacre.layers.l7_mail.inbox import NOWHERE, Bell, Place, Waiting
from nacre.layers.l7_mail.letter import Letter, check_name, parse, written
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.layers.l7_mail.wakeup import DoorBell, ring
from nacre.messages.wire import canonical
from nacre.store import disk

FOLDERS_ABOVE = 3
"""`<home>/teams/<team>/inboxes`: so many may have been made for the first letter."""


def box_path(folder: Path, name: str) -> Path:
    """Where the inbox of an agent lies in a folder of inboxes; `MailError` for a name that cannot be one."""
    return folder / f"{check_name(name)}{form.SUFFIX}"


_Stamp: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Look:
    """What one reading of the box found."""

    letters: tuple[Letter, ...]
    end: int
    bad: tuple[tuple[form.Line, str], ...]
    known: int
    more: bool


class Mailbox:
    """The inbox of one agent as a file; any number of processes write to it, one receives."""

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK, settings: MailSettings = MAIL) -> None:
        self.path = path
        self._name = form.named(path)
        self._cursor_name = f"{self._name}.cursor"
        self._bells = path.with_name(f"{self._name}.bell")
        self._clock = clock
        self._settings = settings
        self._locks: tuple[int, FileLock] = (0, self._new_lock())
        self._settled = NOWHERE
        self._quiet: tuple[_Stamp | None, Place] = (None, NOWHERE)

    def put(self, letter: Letter) -> None:
        """Add a letter and flush it; on failure the box is as before."""
        line = written(letter)
        with self._held(make=True) as folder:
            self._append(folder, line)
        # After the lock is free, so that who is woken need not wait for it.
        ring(self._bells)

    def waiting(self, known: Container[str] = ()) -> Waiting:
        """The letters behind the cursor, as many as are taken at once; unreadable lines are set aside."""
        stamp, place = self._quiet
        if (now := self._stamp()) is None:
            return Waiting((), self._settled)
        if now == stamp:
            return Waiting((), place)
        with self._held() as folder:
            box = _opened(folder, self.path.name)
            if box is None:
                return Waiting((), self._settled)
            size = os.fstat(box).st_size
            generation, _ = form.generation_of(box)
            received = form.read_cursor(folder, self._cursor_name).place
        # What lay below this size under the lock never changes again: nobody has to wait while it is read.
        try:
            start = max(form.start_of(box, size, each) for each in (received, self._settled))
            look = self._look(box, start, size, known)
            place = form.place_at(box, generation, look.end)
        finally:
            os.close(box)
        aside = self._set_aside(look, generation) if look.bad else 0
        if not (look.letters or look.known or look.more):
            self._quiet = (now, place)
        return Waiting(look.letters, place, aside, look.more)

    def settle(self, place: Place) -> None:
        """Remember that everything before a place was received."""
        if place == self._settled:
            return
        # A cursor that cannot be moved, on a full disk, costs one more reading: the receiver knows the ids.
        with suppress(MailError), self._held() as folder:
            self._move(folder, place)

    def bell(self) -> Bell:
        """A bell that rings here until it is closed."""
        return DoorBell(self._bells, self._stamp, settings=self._settings)

    def _stamp(self) -> _Stamp | None:
        """What changes whenever the box does."""
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _new_lock(self) -> FileLock:
        # It keeps threads apart by itself: each has its own descriptor.
        return FileLock(self.path.with_name(f"{self._name}.lock"), mode=disk.FILE_MODE)

    def _lock(self) -> FileLock:
        if self._locks[0] != os.getpid():  # a fork must not use what its parent has opened
            self._locks = (os.getpid(), self._new_lock())
        return self._locks[1]

    @contextmanager
    def _held(self, *, make: bool = False) -> Iterator[int]:
        """The opened folder, while nobody else touches the box; every failure is one line."""
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
                # The name comes first: once there is a letter in it, the box survives a power cut.
                _sync_folders(self.path.parent)
                line = form.header(self._clock.new_id()) + line
            elif os.pread(box, 1, size - 1) != b"\n":
                line = b"\n" + line  # somebody was killed in mid-write; the reader will set that piece aside
            disk.append_whole(box, line)
            try:
                os.fsync(box)
            except OSError:
                os.ftruncate(box, size)
                raise
        finally:
            os.close(box)

    def _is_read(self, folder: int, box: int, size: int) -> bool:
        place = form.read_cursor(folder, self._cursor_name).place
        return place.offset == size == form.start_of(box, size, place)

    def _look(self, box: int, start: int, size: int, known: Container[str]) -> _Look:
        letters: dict[str, Letter] = {}
        bad: list[tuple[form.Line, str]] = []
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
        return _Look(tuple(letters.values()), end, tuple(bad), passed, more)

    def _set_aside(self, look: _Look, generation: str) -> int:
        """Copy unreadable lines to their own file, each once; that must not keep the good ones back."""
        with suppress(MailError), self._held() as folder:
            cursor = form.read_cursor(folder, self._cursor_name)
            if cursor.place.generation != generation:
                cursor = form.Cursor(Place(generation))
            fresh = [(line, why) for line, why in look.bad if line.start >= cursor.aside]
            if fresh:
                self._keep_aside(folder, generation, fresh)
                self._write_cursor(replace(cursor, aside=fresh[-1][0].end))
            return len(fresh)
        return 0

    def _keep_aside(self, folder: int, generation: str, bad: list[tuple[form.Line, str]]) -> None:
        kept = form.open_file(
            folder, f"{self._name}{form.ASIDE_SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        try:
            for line, why in bad:
                if os.fstat(kept).st_size < self._settings.aside_bytes:
                    disk.append_whole(kept, self._described(line, generation, why))
        finally:
            os.close(kept)

    def _described(self, line: form.Line, generation: str, why: str) -> bytes:
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

    def _move(self, folder: int, place: Place) -> None:
        box = _opened(folder, self.path.name)
        if box is None:
            return
        try:
            size = os.fstat(box).st_size
            cursor = form.read_cursor(folder, self._cursor_name)
            before = max(form.start_of(box, size, each) for each in (cursor.place, self._settled))
            is_ahead = form.start_of(box, size, place) == place.offset > before
        finally:
            os.close(box)
        if is_ahead:
            self._settled = place
            aside = cursor.aside if cursor.place.generation == place.generation else 0
            self._write_cursor(form.Cursor(place, aside))

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
