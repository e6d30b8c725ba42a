"""Synchronise shared memory: pull, merge, push, and again while others push first (M18, M18b).

Received changes are one transaction by `team`, or by `sync` if they come from another machine of the same
person. The state is written after it and after the push; a kill at any moment leaves a state from which the
next sync continues, without loss or duplicates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.folder import version_of
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import as_store_error
from nacre.memory.files.transaction import acquire, pick_up, transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import MemoryChange
from nacre.memory.team.merge import Conflict, LocalTeamFiles, Merge, merge
from nacre.memory.team.remote import (
    RefusedFile,
    RemoteSnapshot,
    TeamRemote,
    TeamSyncState,
    read_state,
    write_state,
)
from nacre.memory.team.rules import is_index
from nacre.store import disk
from nacre.store.history import History
from nacre.store.locks import FileLock

MAX_TRIES = 25
"""Rounds, of which all but the last lost to another push; a whole team that syncs at once needs a few."""
FIRST_PAUSE = 0.05
MAX_PAUSE = 2.0
"""Seconds between rounds, doubled and randomised, so that two do not stay in step."""
LOCK_WAIT = 120.0
"""Seconds to wait for another sync of the same directory."""
LOCK_POLL = 0.05
ALL_CHANGES = 1_000_000
BY_OTHER_MEANS = "edited by other means"
WITH_TEAM = MemoryChange(author="team", reason="synced with the team")
WITH_MACHINES = MemoryChange(author="sync", reason="synced with another machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did, or would do."""

    pulled: tuple[str, ...] = ()
    pushed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """Deleted here, because another member forgot them."""
    withdrawn: tuple[str, ...] = ()
    """Deleted there, because they were forgotten here."""
    merged: tuple[str, ...] = ()
    """Files whose two versions were joined, or both kept."""
    conflicts: tuple[Conflict, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    stayed: tuple[str, ...] = ()
    """Files marked `local-only`, which are not shared."""
    commit: str = ""
    """The newest commit with received changes; empty if there are none."""


async def sync(
    place: Location,
    remote: TeamRemote,
    *,
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
    is_dry: bool = False,
) -> SyncReport:
    """Pull, merge and push; `StoreError` if the remote cannot be reached, and then nothing is lost."""
    change = WITH_TEAM if place.source == "team" else WITH_MACHINES
    async with _alone(place, clock):
        report = SyncReport()
        for attempt in range(MAX_TRIES):
            if not is_dry:
                await pick_up(place, clock=clock)
            state = read_state(place.cache, remote.address)
            shared = await remote.pull()
            first = await asyncio.to_thread(_merged, place, shared, {}, state)
            contents = await remote.read(shared, first.missing)
            if is_dry:
                done = await asyncio.to_thread(_merged, place, shared, contents, state)
                return _with_gives(_with_writes(report, done, ""), done)
            try:
                async with transact(place, change, clock=clock, watch=watch) as tx:
                    # Merged again under the lock.
                    done = await asyncio.to_thread(_merged, place, shared, contents, state)
                    # With only a part of the texts an index would lose the lines of the rest.
                    for file, data in () if done.missing else done.writes.items():
                        if data is None:
                            tx.delete(file, if_version=done.bases[file])
                        else:
                            tx.write(file, data, if_version=done.bases[file])
            except VersionConflict:  # the directory was changed meanwhile
                continue
            if not done.missing:
                new = TeamSyncState(address=state.address, files=done.last, indexes=done.indexes)
                with as_store_error(place.cache):
                    await asyncio.to_thread(write_state, place.cache, new)
                report = _with_writes(report, done, tx.commit)
                if await _is_given(place, remote, shared, done):
                    return _with_gives(report, done)
            await asyncio.sleep(clock.chance() * min(MAX_PAUSE, FIRST_PAUSE * 2**attempt))
    raise StoreError(f"others were faster {MAX_TRIES} times; nothing is lost, sync again")


@asynccontextmanager
async def _alone(place: Location, clock: Clock) -> AsyncIterator[None]:
    """Allow one sync of a directory at a time; a killed one releases the lock."""
    path = place.cache / "sync.lock"
    with as_store_error(path):
        disk.make_folder(place.cache)
        lock = FileLock(path)
        busy = f"another sync has been going on for {LOCK_WAIT:g} s; try again later"
        await acquire(lock, clock, seconds=LOCK_WAIT, poll=LOCK_POLL, busy=busy)
    try:
        yield
    finally:
        lock.release()


def _merged(
    place: Location, shared: RemoteSnapshot, contents: Mapping[str, bytes], state: TeamSyncState
) -> Merge:
    with as_store_error(place.directory):
        here = LocalTeamFiles.read(place.directory)
        # A folder without any file is new, or was lost with all its files: the index is never forgotten.
        is_lost = not here.files
        known = replace(state, files=None, indexes={}) if is_lost else state
        history = History(place.history)

        def had(file: str, version: str) -> bool:
            """Return whether the history shows that a file was here and then forgotten on purpose."""
            commits = history.log(ALL_CHANGES, file=file)
            if not commits or commits[0].author in {"team", "sync"}:
                return False
            if is_lost and commits[0].reason.startswith(BY_OTHER_MEANS):
                return False
            return any(history.version(one.id, file) == version for one in commits)

        with_team = place.source == "team"
        return merge(here, shared, contents, state=known, had=had, with_team=with_team)


async def _is_given(place: Location, remote: TeamRemote, shared: RemoteSnapshot, done: Merge) -> bool:
    """Return whether the local changes were pushed; False if another push came first."""
    if done.gives:
        names = [file for file in sorted(done.gives) if not is_index(file)] or sorted(done.gives)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        if not await remote.push(shared, done.gives, f"memory: {names[0]}{more}"):
            return False
    given = {file: version_of(data) for file, data in done.gives.items()}
    texts = {
        file: data.decode(errors="surrogateescape")
        for file, data in done.gives.items()
        if data is not None and is_index(file)
    }
    state = TeamSyncState(
        address=remote.address, files={**done.last, **given}, indexes={**done.indexes, **texts}
    )
    with as_store_error(place.cache):
        await asyncio.to_thread(write_state, place.cache, state)
    return True


def _with_writes(report: SyncReport, done: Merge, commit: str) -> SyncReport:
    """Return the report with what one round received; a later round may receive more."""
    came = [file for file, data in done.writes.items() if data is not None]
    gone = [file for file, data in done.writes.items() if data is None]
    conflicts = {one.file: one for one in (*report.conflicts, *done.conflicts)}
    return replace(
        report,
        pulled=tuple(sorted({*report.pulled, *came})),
        deleted=tuple(sorted({*report.deleted, *gone} - {*came})),
        conflicts=tuple(conflicts.values()),
        commit=commit or report.commit,
    )


def _with_gives(report: SyncReport, done: Merge) -> SyncReport:
    """Return the report with what the last round sent and refused."""
    return replace(
        report,
        pushed=tuple(sorted(file for file, data in done.gives.items() if data is not None)),
        withdrawn=tuple(sorted(file for file, data in done.gives.items() if data is None)),
        merged=tuple(sorted({*report.merged, *(done.writes.keys() & done.gives.keys())})),
        refused=tuple(sorted(set(done.refused))),
        stayed=tuple(sorted(done.stayed)),
    )
