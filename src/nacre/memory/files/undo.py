"""Undo a commit of the memory history, or purge files and text from all of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import SequenceMatcher

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.confirm import is_confirmation, is_revoked, revoke_confirmation
from nacre.memory.files.containment import INDEX_FILE
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import MemoryStorage, as_store_error, pack
from nacre.memory.files.scan import LOGS
from nacre.memory.files.transaction import LOCK_WAIT, TIMES, Transaction, held, in_thread, opened, transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import MemoryChange
from nacre.store.derived import DerivedCache
from nacre.store.history import Commit, History, PurgedHistory, Scrub
from nacre.store.history import purge as purge_history

LOOK_BACK = 1_000
"""Commits that are searched for one to undo; an older one must be named."""
_UNDO = re.compile(r"(?:undo|took back dream) ([0-9a-f]{4,40})\b")
"""Start of the reason of a commit that undoes another."""


async def undo(
    location: Location,
    commit: str = "",
    *,
    change: MemoryChange,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
    watch: Watch | None = None,
) -> str:
    """Reverse one commit (by default the newest in force) and return the commit that does so.

    Later changes stay. `VersionConflict` lists the files where that is impossible. Undoing a confirmation
    makes its changes unconfirmed again.
    """
    history = History(location.history)
    undone = history.one(commit) if commit else newest_in_force(location)
    if is_confirmation(undone):
        return await revoke_confirmation(location, undone, clock=clock, watch=watch)
    async with transact(location, change, clock=clock, timeout=timeout, watch=watch) as tx:
        await in_thread(_reverse, tx, history, undone)
    return tx.commit or tx.newest


def newest_in_force(location: Location) -> Commit:
    """Return the newest commit that is not undone and is no undo itself."""
    history = History(location.history)
    if not history.newest:
        raise StoreError("there is nothing to undo: memory was never changed")
    for commit in in_force(history.log(LOOK_BACK)):
        if is_confirmation(commit) and is_revoked(location, commit):
            continue
        if commit.files or is_confirmation(commit):
            return commit
    raise StoreError("everything is undone already; `nacre memory undo COMMIT` undoes an undo")


def in_force(commits: Iterable[Commit]) -> Iterator[Commit]:
    """Yield the commits, newest first, that are not undone and are no undo themselves."""
    taken_back: set[str] = set()
    for commit in commits:
        is_undone = any(commit.id.startswith(one) for one in taken_back)
        undo = _UNDO.match(commit.reason) if commit.author == "user" else None
        if undo and not is_undone:
            taken_back.add(undo[1])
        elif not undo and not is_undone:
            yield commit


async def purge(
    location: Location,
    files: Collection[str] = (),
    *,
    scrub: Scrub = bytes,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
) -> PurgedHistory:
    """Remove files and text from the whole history; the directory must not contain them any more (M14b)."""
    async with held(location, clock=clock, timeout=timeout) as storage:
        return await in_thread(_purge, storage, clock, files, scrub)


def _reverse(tx: Transaction, history: History, undone: Commit) -> None:
    parent = history.head(undone.id).parent
    conflicts: list[str] = []
    for file in undone.files:
        before = history.read(parent, file) if parent else None
        after = history.read(undone.id, file)
        present, _ = tx.read(file)
        if present == before:
            continue
        wanted = before if present == after else _merged(file, present, after=after, before=before)
        if wanted is not None:
            tx.write(file, wanted, keep_time=True)
        elif present == after:
            tx.delete(file)
        else:
            conflicts.append(file)
    if conflicts:
        raise VersionConflict(
            f"{undone.id[:10]} cannot be undone: {', '.join(conflicts)} changed since; edit by hand instead"
        )


def _merged(file: str, present: bytes | None, *, after: bytes | None, before: bytes | None) -> bytes | None:
    """Return a file that changed since with a commit reversed; None if the changes overlap."""
    if present is None or after is None:
        return None
    # A topic that the commit created is removed whole or not at all; of an index or a log, only its lines.
    is_list = file.rpartition("/")[2] == INDEX_FILE or file.startswith(f"{LOGS}/")
    if before is None and not is_list:
        return None
    return reversed_text(present, after=after, before=before or b"")


def reversed_text(present: bytes, *, after: bytes, before: bytes) -> bytes | None:
    """Return the present text with the change from `before` to `after` reversed; None on overlap."""
    now, new, old = (text.splitlines(keepends=True) for text in (present, after, before))
    # Position of each line of `after` in the present text; None for those that changed since.
    places: list[int | None] = [None] * len(new)
    for at, to, size in SequenceMatcher(None, new, now, autojunk=False).get_matching_blocks():
        for offset in range(size):
            places[at + offset] = to + offset
    result = list(now)
    for tag, start, end, old_start, old_end in reversed(
        SequenceMatcher(None, new, old, autojunk=False).get_opcodes()
    ):
        if tag == "equal":
            continue
        span = _span(places, start, end, len(now))
        if span is None or (span[0] and not result[span[0] - 1].endswith(b"\n")):
            return None
        result[span[0] : span[1]] = old[old_start:old_end]
    return b"".join(result)


def _span(places: list[int | None], start: int, end: int, length: int) -> tuple[int, int] | None:
    """Return the present position of lines `start` to `end` of the other text, if they are still adjacent."""
    if start < end:
        first = places[start]
        if first is None or any(places[at] != first + at - start for at in range(start, end)):
            return None
        return first, first + end - start
    # Only lines to insert: after the line before them, or before the next.
    if start and (before := places[start - 1]) is not None:
        return before + 1, before + 1
    if start < len(places) and (after := places[start]) is not None:
        return after, after
    return (length, length) if not places else None


def _purge(storage: MemoryStorage, clock: Clock, files: Collection[str], scrub: Scrub) -> PurgedHistory:
    opened(storage, clock)
    with as_store_error(storage.folder.root):
        still = sorted(file for file in files if storage.folder.read(file) is not None)
        if still:
            raise StoreError(f"{', '.join(still)} is still in memory; forget it first, then purge")
        pack(storage)
        DerivedCache(storage.cache).clear()
        (storage.cache / TIMES).unlink(missing_ok=True)
        return purge_history(storage.history, files, scrub=scrub)
