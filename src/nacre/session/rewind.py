"""Checkpoints of files before the agent changes them, and the way back to an earlier message.

Before each change the old content is stored in the session's folder and noted in the log. Changes made by
Bash commands are not tracked and cannot be rewound.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nacre.clock import Clock
from nacre.errors import StoreError, ToolError
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Noted, Record, Said, Undone
from nacre.messages.rewrite import drop_thinking
from nacre.messages.transcript import Transcript
from nacre.messages.wire import canonical
from nacre.store import disk
from nacre.tools.files import open_real, read_real, replace_file

KIND = "checkpoint"
MAX_BYTES = 10 * 1024 * 1024
"""Edit and Write refuse larger files, so that no checkpoint is needed."""


@dataclass(frozen=True, slots=True)
class FileCheckpoint:
    """One file as it was before a change."""

    path: Path
    blob: str | None
    """The digest of its content; None if the file did not exist."""
    mode: int | None = None
    made: tuple[Path, ...] = ()
    """Directories that did not exist either, innermost first; a restore removes them."""


@dataclass(frozen=True, slots=True)
class RewindPoint:
    """A message of the person, and the checkpoints of the changes that followed it."""

    message_id: str
    at: datetime
    words: str
    kept: tuple[FileCheckpoint, ...]

    @property
    def files(self) -> list[Path]:
        return sorted({one.path for one in self.kept})


class Rewind:
    """Stores and restores files of one session; without a folder checkpoints are in memory."""

    def __init__(self, transcript: Transcript, clock: Clock, *, folder: Path | None) -> None:
        self._transcript = transcript
        self._clock = clock
        self._folder = folder
        self._in_memory: dict[str, bytes] = {}

    async def keep(self, path: Path) -> None:
        """Store a checkpoint of a file; called before it is changed."""
        checkpoint = await asyncio.to_thread(self._keep, path)
        await asyncio.to_thread(self._store, _proof(checkpoint))
        facts = _facts(checkpoint)
        await self._transcript.append(
            Noted(id=self._clock.new_id(), at=self._clock.now(), kind=KIND, facts=facts)
        )

    def points(self) -> list[RewindPoint]:
        """Return the person's messages, oldest first."""
        return points(self._transcript.records)

    async def restore(self, point: RewindPoint) -> list[Path]:
        """Restore every file to its state at this message, after a checkpoint of its current state."""
        listed = self.points()
        place = next(i for i, each in enumerate(listed) if each.message_id == point.message_id)
        first: dict[Path, FileCheckpoint] = {}
        for one in (one for later in listed[place:] for one in later.kept):
            first.setdefault(one.path, one)
        failures: list[str] = []
        for path in list(first):
            try:
                await self.keep(path)
            except StoreError as error:
                failures.append(str(error))
                del first[path]
        failures += await asyncio.to_thread(self._restore_all, list(first.values()))
        if failures:
            more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
            raise StoreError(f"not everything could be put back: {failures[0]}{more}")
        return sorted(first)

    async def forget(self, point: RewindPoint) -> int:
        """Undo all records from this message on; the log keeps them. Return how many were undone."""
        records = self._transcript.records
        dead = {record.target for record in records if isinstance(record, Undone)}
        # Records that were undone before stay undone; undoing them again would only make the log longer.
        live = [one for one in records if one.id not in dead and not isinstance(one, Noted | Undone)]
        start = next(i for i, record in enumerate(live) if record.id == point.message_id)
        if all(isinstance(record, Said) and record.meta for record in live[:start]):
            start = 0  # the opening text goes with the first message and is added again to the next one
        undone: list[Record] = list(live[start:])
        gone = {record.id for record in undone}
        # Notes about records that are gone no longer hold, so that layers attach their text again.
        undone += [
            one
            for one in records
            if isinstance(one, Noted) and one.id not in dead and one.fact("record") in gone
        ]
        now = self._clock.now()
        before = self._transcript.view.items
        ends = [Undone(id=self._clock.new_id(), at=now, target=record.id) for record in reversed(undone)]
        await self._transcript.append(*ends)
        # A clear or a compaction that is undone brings thinking back that the provider may refuse.
        thinking = drop_thinking(self._transcript.view.items, self._clock, sent=before)
        await self._transcript.append(*thinking)
        return len(undone)

    def _keep(self, path: Path) -> FileCheckpoint:
        try:
            content, found = read_real(path, MAX_BYTES + 1)
        except FileNotFoundError:
            return FileCheckpoint(path, None, made=tuple(_missing(path.parent)))
        except OSError as error:
            raise StoreError(f"cannot look at {path} before it is changed: {error.strerror}") from error
        if len(content) > MAX_BYTES:
            raise StoreError(f"{path} is larger than {MAX_BYTES:,} bytes and is not changed")
        return FileCheckpoint(path, self._store(content), stat.S_IMODE(found.st_mode))

    def _store(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        if self._folder is None:
            self._in_memory[digest] = content
            return digest
        place = self._folder / "checkpoints" / digest
        if not place.exists():
            disk.make_folder(place.parent)
            disk.replace_file(place, content, temp_name=f".{digest}.tmp")
        return digest

    def _load(self, digest: str) -> bytes:
        try:
            if self._folder is None:
                content = self._in_memory.get(digest, b"")
            else:
                content = (self._folder / "checkpoints" / digest).read_bytes()
        except (OSError, ValueError) as error:
            raise StoreError(f"was not kept by this session ({error})") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError("is not what this session kept")
        return content

    def _restore_all(self, checkpoints: Sequence[FileCheckpoint]) -> list[str]:
        """Restore files and return the failures; one failure does not stop the others."""
        failures: list[str] = []
        for one in checkpoints:
            try:
                # A log may come from anywhere; only checkpoints with a proof in the session's own folder are
                # trusted.
                self._load(hashlib.sha256(_proof(one)).hexdigest())
                if one.blob is not None:
                    mode = 0o644 if one.mode is None else one.mode
                    replace_file(one.path, self._load(one.blob), mode=mode)
                    continue
                _remove(one.path, os.unlink)
                for directory in one.made:
                    _remove(directory, os.rmdir)
            except (StoreError, ToolError) as error:
                failures.append(f"{one.path}: {error}")
            except OSError as error:
                failures.append(f"{one.path}: {error.strerror}")
        return failures


def points(records: Sequence[Record]) -> list[RewindPoint]:
    """Return the person's messages, each with the checkpoints until the next one."""
    dead = {record.target for record in records if isinstance(record, Undone)}
    found: list[RewindPoint] = []
    for record in records:
        match record:
            case Said(role="user", meta=False, aside=None) if (
                record.id not in dead and record.message.text.strip()
            ):
                found.append(RewindPoint(record.id, record.at, record.message.text.strip(), ()))
            case Noted(kind="checkpoint") if found:
                last = found[-1]
                found[-1] = RewindPoint(last.message_id, last.at, last.words, (*last.kept, _parse(record)))
            case _:
                pass
    return found


def _facts(kept: FileCheckpoint) -> JsonObject:
    return {
        "path": str(kept.path),
        "blob": kept.blob,
        "mode": kept.mode,
        "made": [str(directory) for directory in kept.made],
    }


def _parse(noted: Noted) -> FileCheckpoint:
    made = noted.fact("made")
    mode = noted.fact("mode")
    blob = noted.fact("blob")
    return FileCheckpoint(
        Path(str(noted.fact("path"))),
        blob if isinstance(blob, str) else None,
        mode if isinstance(mode, int) else None,
        tuple(Path(str(each)) for each in made) if isinstance(made, list) else (),
    )


def _proof(kept: FileCheckpoint) -> bytes:
    """Return the bytes that are stored to prove that this session made the checkpoint."""
    return canonical(_facts(kept))


def _remove(path: Path, remove: Callable[..., None]) -> None:
    """Remove a file or an empty directory at its real path; one that is not there, or not empty, stays."""
    try:
        folder = open_real(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            remove(path.name, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST}:
            raise


def _missing(directory: Path) -> list[Path]:
    return [each for each in (directory, *directory.parents) if not each.exists()]
