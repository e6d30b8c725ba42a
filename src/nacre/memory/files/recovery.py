"""Make a change to a memory directory all or nothing, also when killed in the middle (M14, M15).

New contents are written and flushed aside, then the intent is written to the journal and flushed, then names
are exchanged and the history's branch moves. A kill before the journal's flush leaves the old state, one
after it is completed at the next opening. Files that others changed meanwhile stay as the others left them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar

from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.folder import ABSENT, Folder, version_at, version_of
from nacre.memory.files.location import Location
from nacre.memory.files.watch import Watch
from nacre.memory.format.index import INDEX_FILE
from nacre.messages.blocks import Json
from nacre.store import disk
from nacre.store.git_objects import LooseObject
from nacre.store.history import History, PreparedCommit
from nacre.store.history import finish_purge as settle_purge

PACK_AT_OPENING = 3
"""Folders of loose objects, about four saves, from which the first change of a process packs them: each
object takes two blocks of the disk, a pack of all of them three."""
PACK_FROM = 48
"""The same for later changes of a process, which wait longer: packing takes about as long as a save."""
_ASIDE = "aside"
P = ParamSpec("P")
T = TypeVar("T")
_ASIDE_INSIDE = ".nacre-aside"
"""Used only if the cache is on another file system, from which no file can be renamed into the folder."""


@dataclass(frozen=True, slots=True)
class MemoryStorage:
    """A memory directory with its history, its journal, and the folder for new contents."""

    folder: Folder
    history: History
    journal: Journal
    aside: Path
    cache: Path
    watch: Watch | None = None


def storage_of(location: Location, watch: Watch | None = None) -> MemoryStorage:
    # A folder from which a file can be renamed into the memory directory.
    can_rename = _mount(location.cache) == _mount(location.directory)
    aside = location.cache / _ASIDE if can_rename else location.directory / _ASIDE_INSIDE
    journal = Journal(location.cache / "journal")
    history = History(location.history)
    return MemoryStorage(Folder(location.directory), history, journal, aside, location.cache, watch)


@contextmanager
def as_store_error(path: Path) -> Iterator[None]:
    """Raise `StoreError` with one line that names the disk error and what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(disk.explain(error, error.filename or path)) from error


async def in_thread(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run to the end even when cancelled: the lock must not be released during a write."""
    import asyncio  # noqa: PLC0415 - a command that only shows where memory is starts quickly

    task = asyncio.ensure_future(asyncio.to_thread(act, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:  # asked twice; it takes milliseconds
                continue
        raise


def settle(storage: MemoryStorage, *, is_opening: bool = False) -> None:
    """Complete or discard what a killed process left; cheap if nothing is. The caller holds the lock."""
    settle_purge(storage.history.repository.path)
    journal = storage.journal
    if not journal.is_settled():
        intents, was_settled = journal.intents()
        for intent in intents:
            for one in intent.objects:
                storage.history.repository.restore(one)
        if intents and not was_settled:
            _complete(storage, intents[-1])
        if intents:
            # The branch moves to the newest commit, unless the user committed on top of it with git.
            repository = storage.history.repository
            repository.make()
            head = repository.head()
            is_behind = head in {intent.parent for intent in intents}
            if head != intents[-1].commit and (is_behind or not head or not repository.has(head)):
                repository.move_head(intents[-1].commit)
        pack(storage)
    elif journal.size > MAX_BYTES or storage.history.repository.count_loose_folders() > (
        PACK_AT_OPENING if is_opening else PACK_FROM
    ):
        pack(storage)
    _empty(storage.aside)


def pack(storage: MemoryStorage) -> None:
    """Move loose objects into a flushed pack and empty the journal, which held them until then."""
    storage.history.repository.pack()
    storage.journal.clear()


def record(storage: MemoryStorage, prepared: PreparedCommit) -> None:
    """Record a commit without changing any file."""
    apply(storage, prepared, {}, {})


def apply(
    storage: MemoryStorage,
    prepared: PreparedCommit,
    files: Mapping[str, bytes | None],
    bases: Mapping[str, str],
    times: Mapping[str, int] | None = None,
) -> None:
    """Write new contents of files and record the commit, all or nothing.

    `VersionConflict` if a file no longer has the version named in `bases`. Files named in `times` get this
    modification time, in nanoseconds, instead of the present.
    """
    repository = storage.history.repository

    def rank(file: str) -> tuple[bool, bool, str]:
        # Topics, the index, removals: the index never points to nothing.
        return files[file] is None, file.rpartition("/")[2] == INDEX_FILE, file

    steps = tuple(
        FileStep(file, bases[file], version_of(files[file]), f"{number}")
        for number, file in enumerate(sorted(files, key=rank))
    )
    repository.make()
    written = repository.write(prepared.objects)
    try:
        repository.stage_head()
        if steps:
            disk.make_folder(storage.aside)
        for step in steps:
            data = files[step.file]
            if data is not None:
                _write(storage.aside / step.aside, data)
                if times and (written_at := times.get(step.file)) is not None:
                    os.utime(storage.aside / step.aside, ns=(written_at, written_at))
        intent = JournalEntry(
            commit=prepared.id, parent=prepared.parent, steps=steps, objects=tuple(prepared.objects)
        )
        before = storage.journal.append(intent)
    except BaseException:
        repository.unwrite(written)
        _empty(storage.aside)
        raise
    _carry_out(storage, intent, written, before)


def _carry_out(storage: MemoryStorage, intent: JournalEntry, written: list[Path], before: int) -> None:
    """Carry out the steps of the journal; if one fails, undo the others and what was written for them."""
    done: list[FileStep] = []
    try:
        for step in intent.steps:
            _act(storage, step)
            done.append(step)
        storage.folder.sync(step.file for step in intent.steps)
        storage.history.repository.move_head(intent.commit)
    except BaseException as error:
        try:
            _take_back(storage, done)
            storage.history.repository.restore_head(intent.parent)
            storage.journal.withdraw(before)
        except OSError:
            raise StoreError(
                f"the disk failed in the middle of a change ({error}); the next opening completes it"
            ) from error
        storage.history.repository.unwrite(written)
        _empty(storage.aside)
        raise
    # Without this mark the next opening checks again and finds everything done.
    with contextlib.suppress(OSError):
        storage.journal.settle()
        _empty(storage.aside)


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, disk.FILE_MODE)
    try:
        disk.write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _act(storage: MemoryStorage, step: FileStep) -> None:
    aside = storage.aside / step.aside
    if step.new == ABSENT:
        storage.folder.take(step.file, aside, old=step.old)
    else:
        storage.folder.put(step.file, aside, old=step.old, new=step.new)


def _take_back(storage: MemoryStorage, done: list[FileStep]) -> None:
    """Undo steps, last first. What others wrote since stays."""
    for step in reversed(done):
        if storage.folder.version(step.file) != step.new:
            continue
        aside = storage.aside / step.aside
        if step.old == ABSENT:
            with contextlib.suppress(VersionConflict):
                storage.folder.take(step.file, aside, old=step.new)
        elif aside.exists():
            storage.folder.put_back(step.file, aside, ours=step.new)
        else:  # replaced where names cannot be exchanged: the old content stands in the history
            _write(aside, storage.history.repository.content(step.old, "blob"))
            storage.folder.put(step.file, aside, old=step.new, new=step.old)


def _complete(storage: MemoryStorage, intent: JournalEntry) -> None:
    """Complete the change of a killed process, except for files that others changed since."""
    contents = {one.id: one for one in intent.objects}
    is_same_run = storage.journal.is_of_this_run()
    for step in intent.steps:
        aside = storage.aside / step.aside
        waiting = version_at(aside)
        present = storage.folder.version(step.file)
        if waiting not in {ABSENT, step.old, step.new}:
            # The exchange returned another program's write, and the kill came before it was checked.
            storage.folder.put_back(step.file, aside, ours=step.new)
            continue
        if present != step.old or present == step.new:
            continue
        if waiting == ABSENT and step.new != ABSENT:
            if is_same_run:  # the file was put in place, and another program changed it back since
                continue
            disk.make_folder(storage.aside)
            _write(aside, storage.history.repository.content(contents[step.new].id, "blob"))
        if waiting == step.old and step.new != step.old:
            # Exchanged already, then changed back by another program.
            continue
        with contextlib.suppress(VersionConflict):
            _act(storage, step)
    storage.folder.sync(step.file for step in intent.steps)


def _empty(aside: Path) -> None:
    """Remove temporary files, and their folder if it is inside the memory directory."""
    with contextlib.suppress(FileNotFoundError):
        for entry in list(os.scandir(aside)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                Path(entry.path).unlink()
        if aside.name == _ASIDE_INSIDE:
            aside.rmdir()


def _mount(path: Path) -> tuple[int, str]:
    """Return the mount of a path, or of its existing part."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            path = path.parent
            continue
        try:
            device = os.fstat(descriptor).st_dev
            # Two mounts of one file system do not rename into each other.
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines()
                return device, next((line for line in lines if line.startswith("mnt_id:")), "")
            return device, ""
        finally:
            os.close(descriptor)


MAX_BYTES = 16_777_216
"""Size of the journal from which the next change packs the history first: reading more is slow."""

_MAGIC = b"nacre journal 1 "
_HEADER_BYTES = 64
_INTENT = b"\n[nacre intent]\n"
_SETTLED = b"\n[nacre settled\n"
_MARK_BYTES = 16
_LENGTHS = struct.Struct(">QQ")
"""Length of the whole, and of the part with the intent."""
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class FileStep:
    """One file that gets another version."""

    file: str
    old: str
    """The version that must be there; empty for none."""
    new: str
    """Empty if the file is removed."""
    aside: str
    """Path of the new content before, and of the old one afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One change: files and the commit that records them."""

    commit: str
    parent: str
    steps: tuple[FileStep, ...]
    objects: tuple[LooseObject, ...]


class Journal:
    """A file that is appended to while the lock is held."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def is_settled(self) -> bool:
        """Whether everything in it was carried out since the machine started."""
        with self._opened(os.O_RDONLY) as descriptor:
            if descriptor is None or not (size := os.fstat(descriptor).st_size):
                return True
            tail = os.pread(descriptor, _MARK_BYTES, max(0, size - _MARK_BYTES))
            return tail == _SETTLED and self._is_of_this_run(os.pread(descriptor, _HEADER_BYTES, 0))

    def is_of_this_run(self) -> bool:
        """Whether it was written since the machine started, so that no power cut came since."""
        with self._opened(os.O_RDONLY) as descriptor:
            return descriptor is None or self._is_of_this_run(os.pread(descriptor, _HEADER_BYTES, 0))

    def append(self, intent: JournalEntry) -> int:
        """Write an intent and flush it; return the argument for `withdraw`."""
        disk.make_folder(self.path.parent)
        with self._opened(os.O_RDWR | os.O_CREAT) as descriptor:
            assert descriptor is not None
            before = os.fstat(descriptor).st_size
            head = b"" if before else _header()
            try:
                os.lseek(descriptor, before, os.SEEK_SET)
                disk.write_all(descriptor, head + _encoded(intent))
                os.fsync(descriptor)
                if not before:
                    disk.sync_folder(self.path.parent)
            except BaseException:
                os.ftruncate(descriptor, before)
                raise
            return before

    def withdraw(self, size: int) -> None:
        """Remove the last entry, flushed: a change reported as failed must not return after a power cut."""
        with self._opened(os.O_WRONLY) as descriptor:
            # It is shorter if another process has completed and packed what it held.
            if descriptor is not None and os.fstat(descriptor).st_size > size:
                os.ftruncate(descriptor, size)
                # If the disk fails at this, too, it is still gone for every process.
                with contextlib.suppress(OSError):
                    os.fsync(descriptor)

    def settle(self) -> None:
        """Mark everything written here as carried out."""
        with self._opened(os.O_WRONLY | os.O_APPEND) as descriptor:
            if descriptor is not None:
                disk.write_all(descriptor, _SETTLED)

    def clear(self) -> None:
        """Empty the journal; the caller flushed what it was about."""
        with self._opened(os.O_WRONLY) as descriptor:
            if descriptor is not None:
                os.ftruncate(descriptor, 0)

    def intents(self) -> tuple[list[JournalEntry], bool]:
        """Return all of them, oldest first, and whether the last is known to be carried out."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return [], True
        if data and not _MAGIC.startswith(data[: len(_MAGIC)]):
            raise StoreError(
                f"{self.path} was written by a newer nacre; update nacre to write to this memory"
            )
        found: list[JournalEntry] = []
        is_settled = True
        at = _HEADER_BYTES
        while at < len(data):
            if data.startswith(_SETTLED, at):
                is_settled = True
                at = at + _MARK_BYTES
                continue
            start = at + _MARK_BYTES + _LENGTHS.size + _DIGEST_BYTES
            # Torn: it was not yet flushed, so nothing had begun.
            if not data.startswith(_INTENT, at) or len(data) < start:
                break
            length, text = _LENGTHS.unpack_from(data, at + _MARK_BYTES)
            at = start + length
            body = data[start:at]
            if (
                hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
                != data[start - _DIGEST_BYTES : start]
            ):
                break
            found.append(_decoded(body[:text], body[text:]))
            is_settled = False
        return found, is_settled

    @contextlib.contextmanager
    def _opened(self, flags: int) -> Iterator[int | None]:
        try:
            descriptor = disk.open_regular(self.path, flags | os.O_NOFOLLOW)
        except FileNotFoundError:
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @staticmethod
    def _is_of_this_run(header: bytes) -> bool:
        return header == _header() and bool(boot_id())


@cache
def boot_id() -> str:
    """Return an id that differs after every start of the machine.

    Empty if there is none: then a power cut may precede every opening, and everything is restored.
    """
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _header() -> bytes:
    return (_MAGIC + boot_id().encode()).ljust(_HEADER_BYTES - 1)[: _HEADER_BYTES - 1] + b"\n"


def _encoded(intent: JournalEntry) -> bytes:
    meant: Json = {
        "commit": intent.commit,
        "parent": intent.parent,
        "steps": [[step.file, step.old, step.new, step.aside] for step in intent.steps],
        "objects": [[one.id, len(one.file)] for one in intent.objects],
    }
    text = json.dumps(meant).encode()
    # The point at the end: no object's last bytes can then be taken for the settled mark.
    body = b"".join([text, *(one.file for one in intent.objects), b"."])
    digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
    return _INTENT + _LENGTHS.pack(len(body), len(text)) + digest + body


def _decoded(text: bytes, files: bytes) -> JournalEntry:
    meant = json.loads(text)
    objects = []
    at = 0
    for name, length in meant["objects"]:
        objects.append(LooseObject(name, files[at : at + length]))
        at += length
    return JournalEntry(
        commit=meant["commit"],
        parent=meant["parent"],
        steps=tuple(FileStep(*step) for step in meant["steps"]),
        objects=tuple(objects),
    )
