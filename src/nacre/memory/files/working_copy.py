"""Working copies: memory directories whose state is in a database, on a server's disk as a cache (S4).

A copy has the same files and the same git history. Before a change it is brought to the head of its rows, and
what the change committed is written to the rows in one database transaction. A copy that is ahead of the
rows, because a process was killed before that, or has a history they do not know, is made anew from them.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.folder import version_of
from nacre.memory.files.recovery import MemoryStorage, apply, as_store_error, boot_id, in_thread, settle
from nacre.memory.files.scan import is_topic
from nacre.memory.format.entry import read_entry
from nacre.store import disk
from nacre.store.git_objects import loose_object
from nacre.store.history import History, PreparedCommit, Signature, commit_object
from nacre.store.postgres.space_rows import CommitRow, FileRow

if TYPE_CHECKING:
    from nacre.store.postgres.space_rows import SpaceReader, SpaceRows

READY = "copy-ready"
"""File with the id of the machine's start; without it a copy may be half made, or torn by a power cut."""


async def is_current(storage: MemoryStorage, rows: SpaceRows) -> bool:
    """Return whether the copy is at the head of its rows, with no change in progress or interrupted."""
    head = await rows.head()
    return await in_thread(
        lambda: storage.history.newest == head and storage.journal.is_settled() and _is_ready(storage)
    )


async def catch_up(storage: MemoryStorage, rows: SpaceRows) -> None:
    """Bring the copy to the head of its rows; the caller holds the lock of the directory."""
    async with rows.snapshot() as reader:
        await _bring_to_head(storage, reader)


@asynccontextmanager
async def change_rows(storage: MemoryStorage, rows: SpaceRows) -> AsyncIterator[None]:
    """Hold the rows exclusively during a change of the directory, then write what it committed."""
    async with rows.changing() as writer:
        await _bring_to_head(storage, writer)
        yield
        history = History(
            storage.history.repository.path
        )  # what was read of it before may have been replaced
        if history.newest == writer.head:
            return
        commits, replaces = await in_thread(_commits_since, history, writer.head)
        changed = {file for one in commits for file in one.changes}
        files = await in_thread(_file_rows, storage, history, changed)
        await writer.append(commits, files, replaces=replaces)


async def import_history(storage: MemoryStorage, rows: SpaceRows | None, *, is_dry: bool = False) -> int:
    """Write the commits of a directory that is no copy to the rows of an empty space; return their number.

    The caller holds the lock of the directory. Nothing is written if the rows have them already. Without rows
    the number is that of all commits.
    """
    commits, _ = await in_thread(_commits_since, storage.history, "")
    if rows is None:
        return len(commits)
    async with rows.changing() as writer:
        if not commits or writer.head == commits[-1].id:
            return 0
        if writer.head:
            raise StoreError(
                "the space has other memories; merge them with `nacre memory sync --remote server:URL`"
            )
        if not is_dry:
            changed = {file for one in commits for file in one.changes}
            await writer.append(commits, await in_thread(_file_rows, storage, storage.history, changed))
        return len(commits)


async def _bring_to_head(storage: MemoryStorage, reader: SpaceReader) -> None:
    def settled() -> str:
        with as_store_error(storage.folder.root):
            settle(storage)
            return storage.history.newest

    is_ready = await in_thread(_is_ready, storage)
    newest = await in_thread(settled) if is_ready else ""
    if is_ready and newest == reader.head:
        return
    commits = await reader.commits_after(newest) if is_ready else None
    if commits is not None:
        changed = {file for one in commits for file in one.changes}
        times = await reader.times(changed)
        try:
            await in_thread(_fast_forward, storage, commits, times)
        except VersionConflict:  # a file of the copy is not what its history says
            commits = None
        else:
            return
    whole = await reader.commits_after("")
    times = await reader.times()
    await in_thread(_remake, storage, whole or [], times)


def _is_ready(storage: MemoryStorage) -> bool:
    try:
        return (storage.cache / READY).read_text(encoding="ascii") == f"{boot_id()}\n"
    except FileNotFoundError:
        return False


def _fast_forward(storage: MemoryStorage, commits: Sequence[CommitRow], times: Mapping[str, int]) -> None:
    history = storage.history
    parent = history.newest
    with as_store_error(storage.folder.root):
        history.repository.make()
        for one in commits:
            _write_commit(history, one)
        newest = commits[-1].id
        files: dict[str, bytes | None] = {}
        for one in commits:
            files |= one.changes
        bases = {file: history.version(parent, file) for file in files}
        # A file that was added and removed again never was in this copy.
        files = {file: data for file, data in files.items() if version_of(data) != bases[file]}
        prepared = PreparedCommit(id=newest, parent=parent, objects=())
        apply(storage, prepared, files, bases, times)


def _remake(storage: MemoryStorage, commits: Sequence[CommitRow], times: Mapping[str, int]) -> None:
    """Make history and files anew; until the end the copy is marked as not ready."""
    with as_store_error(storage.folder.root):
        disk.make_folder(storage.cache)
        (storage.cache / READY).unlink(missing_ok=True)
        storage.journal.clear()
        path = storage.history.repository.path
        shutil.rmtree(path, ignore_errors=True)
        history = History(path)
        history.repository.make()
        contents: dict[str, bytes] = {}
        for one in commits:
            _write_commit(history, one)
            for file, data in one.changes.items():
                if data is None:
                    contents.pop(file, None)
                else:
                    contents[file] = data
        disk.make_folder(storage.folder.root)
        for file in storage.folder.scan().keys() - contents.keys():
            (storage.folder.root / file).unlink()
        for file, data in contents.items():
            target = storage.folder.root / file
            if storage.folder.version(file) != version_of(data) or storage.folder.written(file) != times.get(
                file
            ):
                disk.make_folder(target.parent)
                disk.replace_file(target, data, temp_name=".nacre-copy", sync=False, time_ns=times.get(file))
        if commits:
            history.repository.pack()
            history.repository.move_head(commits[-1].id)
        ready = f"{boot_id()}\n".encode()
        disk.replace_file(storage.cache / READY, ready, temp_name=f"{READY}.tmp", sync=False)


def _write_commit(history: History, row: CommitRow) -> None:
    signed = Signature(author=row.author, reason=row.reason, session=row.session, at=row.at)
    prepared = history.prepare(row.changes, signed, on=row.parent)
    objects = prepared.objects
    if row.raw is not None:
        objects = (*objects[:-1], loose_object("commit", row.raw))
    if objects[-1].id != row.id:
        raise StoreError(
            f"commit {row.id[:10]} of the database gives {objects[-1].id[:10]}; restore it from a backup"
        )
    history.repository.write(objects)


def _commits_since(history: History, head: str) -> tuple[list[CommitRow], bool]:
    """Return the commits after the head, oldest first, or all and True if the history does not contain it."""
    found = list[CommitRow]()
    at = history.newest
    while at and at != head:
        found.append(_commit_row(history, at))
        at = found[-1].parent
    return found[::-1], bool(head) and at != head


def _commit_row(history: History, commit: str) -> CommitRow:
    header = history.head(commit)
    signed = header.signature
    data = history.repository.content(commit, "commit")
    is_ours = data == commit_object(header.tree, header.parent, signed)
    changes = {
        file: history.repository.content(new, "blob") if new else None
        for file, (_, new) in history.changes(header.parent, commit).items()
    }
    return CommitRow(
        id=commit, parent=header.parent, author=signed.author, reason=signed.reason, session=signed.session,
        at=signed.at, raw=None if is_ours else data, changes=changes,
    )  # fmt: skip


def _file_rows(storage: MemoryStorage, history: History, files: set[str]) -> dict[str, FileRow | None]:
    newest = history.newest
    found: dict[str, FileRow | None] = {}
    for file in files:
        data = history.read(newest, file) if newest else None
        if data is None:
            found[file] = None
            continue
        entry = read_entry(file, data)
        found[file] = FileRow(
            version=version_of(data),
            name=entry.name.replace("\0", ""),
            description=entry.description.replace("\0", ""),
            type=entry.kind if is_topic(file) else None,
            origin=entry.origin if is_topic(file) else "",
            data=data,
            written=storage.folder.written(file) or 0,
        )
    return found
