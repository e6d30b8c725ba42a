"""JSON files in a team's folder, which several processes read and change (A6).

Changes are made under the team's lock; a damaged file is kept under another name and repaired.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError, StoreError
from nacre.messages.blocks import Extra, Json, JsonObject
from nacre.store import disk
from nacre.store.locks import one_writer

MAX_BYTES = 8_000_000
"""Every change reads and writes the whole file; the longest list of tasks is about half as large."""


POLL_SECONDS = 0.005
"""Poll interval for the lock, about one flush to disk: simultaneous claims must not starve a member."""


T = TypeVar("T")


R = TypeVar("R")


FORMAT = 1
"""Format version of both files; fields of a newer one are kept as long as ours can be read."""


@dataclass(frozen=True, slots=True)
class ParsedTeamFile(Generic[T]):
    """The valid content of a file."""

    value: T
    problem: str = ""
    """What is invalid in the file; empty: nothing."""


@dataclass(frozen=True, slots=True)
class TeamFileFormat(Generic[T]):
    """How a value is read from a file and written to it; an empty file gives the initial value."""

    read: Callable[[JsonObject], ParsedTeamFile[T]]
    written: Callable[[T], JsonObject]


def ignore_line(line: str) -> None:
    """Ignore a warning about a file."""


class TeamFile(Generic[T]):
    """One file in a team's folder; the lock lies outside of it, so that the folder can be removed."""

    def __init__(
        self,
        path: Path,
        form: TeamFileFormat[T],
        *,
        notify: Callable[[str], None] = ignore_line,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.path = path
        self._form = form
        self._notify = notify
        self._clock = clock

    def read(self) -> T:
        """Read the value without a lock, because the file is replaced atomically."""
        found = self._found()
        return self.change(lambda value: (value, value)) if found.problem else found.value

    def change(self, act: Callable[[T], tuple[T, R]], *, makes_folder: bool = False) -> R:
        """Replace the value by what a function returns; if it raises, nothing changes."""
        self._check(makes_folder=makes_folder)
        with self.alone():
            self._check(makes_folder=makes_folder)
            found = self._found()
            if found.problem:
                self._repair(found)
            after, result = act(found.value)
            if after != found.value:
                self._write(after)
            return result

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the team."""
        try:
            with one_writer(self.path.parent, poll=POLL_SECONDS):
                yield
        except StoreError as error:
            raise MailError(str(error)) from error

    def _check(self, *, makes_folder: bool) -> None:
        folder = self.path.parent
        try:
            if makes_folder:
                disk.make_folder(folder)
        except OSError as error:
            raise MailError(disk.explain(error, folder)) from error
        if not folder.is_dir():
            raise MailError(f"there is no team {folder.name}; it may have been removed meanwhile")

    def _found(self) -> ParsedTeamFile[T]:
        try:
            with os.fdopen(disk.open_regular(self.path, os.O_RDONLY), "rb") as source:
                content = source.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return ParsedTeamFile(self._form.read({}).value)
        except OSError as error:
            raise MailError(disk.explain(error, self.path)) from error
        said = _object(content)
        found = self._form.read(said)
        version = said.get("version")
        if found.problem and isinstance(version, int) and version > FORMAT:
            raise MailError(f"{self.path} was written by a newer nacre; bring this one up to date")
        return found

    def _repair(self, found: ParsedTeamFile[T]) -> None:
        aside = self.path.with_name(f"{self.path.stem}.bad-{self._clock.new_id()[-8:]}{self.path.suffix}")
        try:
            # The second name first, so that at no moment a file is missing.
            aside.hardlink_to(self.path)
        except OSError:
            try:
                self.path.rename(aside)
            except OSError as error:
                raise MailError(disk.explain(error, self.path)) from error
        self._write(found.value)
        self._notify(
            f"{self.path} was damaged ({found.problem}): kept as {aside.name}, what could be read stays"
        )

    def _write(self, value: T) -> None:
        text = json.dumps(self._form.written(value), ensure_ascii=False, indent=1)
        # An unpaired surrogate in a newer version's field is written back as the escape it was read from.
        content = f"{text}\n".encode(errors="backslashreplace")
        if len(content) > MAX_BYTES:
            raise MailError(f"{self.path} is full: it holds {MAX_BYTES:,} bytes at most, and stays as it was")
        try:
            disk.replace_file(self.path, content, temp_name=f".{self.path.name}.tmp")
        except OSError as error:
            raise MailError(disk.explain(error, self.path)) from error


def _object(content: bytes) -> JsonObject:
    if len(content) > MAX_BYTES:
        return {}
    try:
        said: Json = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def moment(said: Json) -> datetime | None:
    """Parse a time, or return None."""
    try:
        read = datetime.fromisoformat(said) if isinstance(said, str) else None
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read and read.tzinfo is None else read


def unknown_fields(said: JsonObject, known: frozenset[str]) -> Extra:
    """Return the fields that a newer version added."""
    return tuple((key, value) for key, value in said.items() if key not in known)


def text(said: JsonObject, key: str) -> str:
    """Return a text field, or an empty string."""
    value = said.get(key)
    return value if isinstance(value, str) else ""


def number(said: Json) -> int | None:
    """Return an integer that is not a bool, or None."""
    return said if isinstance(said, int) and not isinstance(said, bool) else None
