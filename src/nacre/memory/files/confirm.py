"""Unconfirmed changes of a memory, and their confirmation by the user (M15).

An edit by another program while an agent runs is committed as `unconfirmed`. An empty commit of the user that
names it confirms it: no history is rewritten, and plain `git log` shows it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import MemoryStorage, as_store_error, record
from nacre.memory.files.transaction import LOCK_WAIT, held, in_thread, opened
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import Author
from nacre.store import disk
from nacre.store.history import Commit, History, Signature

UNCONFIRMED: Author = "unconfirmed"
CACHE_FILE = "unconfirmed"
"""Cache of the last survey of the history, with commit ids only."""
MarkerWord: TypeAlias = Literal["confirmed", "doubted"]
_MARKER = re.compile(r"(confirmed|doubted) \d+ changes?\n\n((?:Commit: [0-9a-f]{40}(?:\n|$))+)")
"""Matches the whole reason, so that no other text can imitate it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmResult:
    """The confirmed commits, newest first, and the commit that records it; empty for none."""

    commits: tuple[Commit, ...]
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfirmedChanges:
    """The unconfirmed changes of a history."""

    files: Mapping[str, tuple[str, ...]]
    """The commits, newest first, that leave a file unconfirmed, also a file that such a commit removed."""
    confirmed: frozenset[str]
    """Unconfirmed commits that the user has confirmed since."""


def unconfirmed_changes(location: Location) -> UnconfirmedChanges:
    """Return the unconfirmed files, and the commits that were confirmed."""
    history = History(location.history)
    with as_store_error(location.history):
        survey = _survey(history, location.cache / CACHE_FILE)
        return UnconfirmedChanges(files=_files(history, survey.open), confirmed=survey.confirmed)


def unconfirmed_files(location: Location) -> Mapping[str, tuple[str, ...]]:
    """Return the files with unconfirmed changes, and the commits that made them."""
    return unconfirmed_changes(location).files


def unconfirmed_commits(location: Location) -> list[Commit]:
    """Return the unconfirmed commits that still have an effect, newest first."""
    history = History(location.history)
    wanted = {each for ids in unconfirmed_files(location).values() for each in ids}
    return [history.one(each) for each in _newest_first(history, wanted)]


async def confirm(
    location: Location,
    commits: Sequence[str] = (),
    *,
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
) -> ConfirmResult:
    """Confirm these unconfirmed commits, or all of them, in the user's name."""
    async with held(location, clock=clock, timeout=LOCK_WAIT, watch=watch) as storage:
        return await in_thread(_confirm, storage, clock, location, commits)


async def revoke_confirmation(
    location: Location, marker: Commit, *, clock: Clock = SYSTEM_CLOCK, watch: Watch | None = None
) -> str:
    """Revoke a confirmation; return the commit that does so."""
    async with held(location, clock=clock, timeout=LOCK_WAIT, watch=watch) as storage:
        return await in_thread(_doubt, storage, clock, location, marker)


def is_confirmation(commit: Commit) -> bool:
    """Return whether a commit confirms others."""
    found = _MARKER.fullmatch(commit.reason)
    return commit.author == "user" and found is not None and found[1] == "confirmed"


def is_revoked(location: Location, marker: Commit) -> bool:
    """Return whether everything that a commit confirmed is unconfirmed again."""
    return not unconfirmed_changes(location).confirmed.intersection(_named(marker.reason))


def _confirm(
    storage: MemoryStorage, clock: Clock, location: Location, commits: Sequence[str]
) -> ConfirmResult:
    opened(storage, clock)
    history = storage.history
    chosen = [history.one(each) for each in commits] if commits else unconfirmed_commits(location)
    for each in chosen:
        if each.author != UNCONFIRMED:
            raise StoreError(
                f"{each.id[:10]} is by {each.author}, so there is nothing to confirm; "
                "`nacre memory log --unconfirmed` lists what there is"
            )
    confirmed = unconfirmed_changes(location).confirmed
    new = {each.id: each for each in chosen if each.id not in confirmed}
    if not new:
        return ConfirmResult(commits=(), commit="")
    ids = _newest_first(history, set(new))
    marker = _mark(storage, "confirmed", ids, clock)
    return ConfirmResult(commits=tuple(new[each] for each in ids), commit=marker)


def _doubt(storage: MemoryStorage, clock: Clock, location: Location, marker: Commit) -> str:
    newest = opened(storage, clock)
    confirmed = unconfirmed_changes(location).confirmed
    ids = [each for each in _named(marker.reason) if each in confirmed]
    return _mark(storage, "doubted", ids, clock) if ids else newest


def _mark(storage: MemoryStorage, word: MarkerWord, ids: Sequence[str], clock: Clock) -> str:
    lines = "\n".join(f"Commit: {each}" for each in ids)
    reason = f"{word} {len(ids)} change{'s' * (len(ids) != 1)}\n\n{lines}"
    signed = Signature(author="user", reason=reason, session="", at=clock.now())
    prepared = storage.history.prepare({}, signed)
    with as_store_error(storage.folder.root):
        record(storage, prepared)
    return prepared.id


@dataclass(frozen=True, slots=True)
class _Survey:
    """The unconfirmed and confirmed commits of a history."""

    newest: str
    open: frozenset[str]
    confirmed: frozenset[str]


def _survey(history: History, cache: Path) -> _Survey:
    """Read the commits back to the last survey, or to the first."""
    known = _read(cache)
    words: dict[str, MarkerWord] = {}
    suspects: set[str] = set()
    newest = at = history.newest
    while at and at != known.newest:
        head = history.head(at)
        signed = head.signature
        if signed.author == UNCONFIRMED:
            suspects.add(at)
        elif signed.author == "user" and (found := _MARKER.fullmatch(signed.reason)):
            # The last statement about a commit counts.
            words |= {each: _word(found[1]) for each in _named(signed.reason) if each not in words}
        at = head.parent
    if at:
        suspects |= known.open | known.confirmed
        for each in known.confirmed:
            words.setdefault(each, "confirmed")
    confirmed = frozenset(each for each in suspects if words.get(each) == "confirmed")
    survey = _Survey(newest, frozenset(suspects) - confirmed, confirmed)
    if survey != known:
        _write(cache, survey)
    return survey


def _word(text: str) -> MarkerWord:
    return "confirmed" if text == "confirmed" else "doubted"


def _named(reason: str) -> list[str]:
    found = _MARKER.fullmatch(reason)
    return found[2].split()[1::2] if found else []


def _files(history: History, suspects: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Return the unconfirmed commits that still affect each file, back to the first of them."""
    found: dict[str, list[str]] = {}
    later: dict[str, set[str | None]] = {}
    left = set(suspects)
    at = history.newest
    while at and left:
        head = history.head(at)
        for file, (old, new) in history.changes(head.parent, at).items():
            since = later.setdefault(file, set())
            if at in left and not _is_over(old, new, since):
                found.setdefault(file, []).append(at)
            since.add(new)
        left.discard(at)
        at = head.parent
    return {file: tuple(ids) for file, ids in sorted(found.items())}


def _is_over(old: str | None, new: str | None, since: set[str | None]) -> bool:
    """Return whether a change has no effect any more: it was reverted, or the file was created anew."""
    return old in since or (bool(since) if new is None else None in since)


def _newest_first(history: History, wanted: set[str]) -> list[str]:
    found = list[str]()
    at = history.newest
    while at and len(found) < len(wanted):
        found += [at] if at in wanted else []
        at = history.head(at).parent
    return found


def _read(cache: Path) -> _Survey:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        data = json.loads(cache.read_bytes())
        return _Survey(str(data["newest"]), frozenset(data["open"]), frozenset(data["confirmed"]))
    return _Survey("", frozenset(), frozenset())


def _write(cache: Path, survey: _Survey) -> None:
    """Write the cache; failures are ignored, and no folder is created."""
    if not cache.parent.is_dir():
        return
    data = {"newest": survey.newest, "open": sorted(survey.open), "confirmed": sorted(survey.confirmed)}
    own = f".{cache.name}.{os.getpid()}.tmp"
    with contextlib.suppress(OSError):
        disk.replace_file(cache, json.dumps(data).encode(), temp_name=own, sync=False)
