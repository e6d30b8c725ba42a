"""Undo or confirm a commit of the memory history, or purge files and text from all of it (M14b, M15).

An edit by another program while an agent runs is committed as `unconfirmed`. An empty commit of the user that
names it confirms it: no history is rewritten, and plain `git log` shows it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import MemoryStorage, as_store_error, in_thread, pack, record
from nacre.memory.files.scan import is_topic
from nacre.memory.files.transaction import TIMES, Transaction, held, opened, transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import Author, MemoryChange
from nacre.store import disk
from nacre.store.derived import DerivedCache
from nacre.store.history import Commit, History, PurgedHistory, Scrub, Signature
from nacre.store.history import purge as purge_history

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
    wanted = {each for ids in unconfirmed_changes(location).files.values() for each in ids}
    return [history.one(each) for each in _newest_first(history, wanted)]


async def confirm(
    location: Location,
    commits: Sequence[str] = (),
    *,
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
) -> ConfirmResult:
    """Confirm these unconfirmed commits, or all of them, in the user's name."""

    def mark(storage: MemoryStorage) -> ConfirmResult:
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

    async with held(location, clock=clock, watch=watch) as storage:
        return await in_thread(mark, storage)


async def revoke_confirmation(
    location: Location, marker: Commit, *, clock: Clock = SYSTEM_CLOCK, watch: Watch | None = None
) -> str:
    """Revoke a confirmation; return the commit that does so."""

    def revoke(storage: MemoryStorage) -> str:
        newest = opened(storage, clock)
        confirmed = unconfirmed_changes(location).confirmed
        ids = [each for each in _named(marker.reason) if each in confirmed]
        return _mark(storage, "doubted", ids, clock) if ids else newest

    async with held(location, clock=clock, watch=watch) as storage:
        return await in_thread(revoke, storage)


def is_confirmation(commit: Commit) -> bool:
    """Return whether a commit confirms others."""
    found = _MARKER.fullmatch(commit.reason)
    return commit.author == "user" and found is not None and found[1] == "confirmed"


def is_revoked(location: Location, marker: Commit) -> bool:
    """Return whether everything that a commit confirmed is unconfirmed again."""
    return not unconfirmed_changes(location).confirmed.intersection(_named(marker.reason))


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
    known = _Survey("", frozenset(), frozenset())
    with contextlib.suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
        data = json.loads(cache.read_bytes())
        known = _Survey(str(data["newest"]), frozenset(data["open"]), frozenset(data["confirmed"]))
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
            word: MarkerWord = "confirmed" if found[1] == "confirmed" else "doubted"
            words |= {each: word for each in _named(signed.reason) if each not in words}
        at = head.parent
    if at:
        suspects |= known.open | known.confirmed
        for each in known.confirmed:
            words.setdefault(each, "confirmed")
    confirmed = frozenset(each for each in suspects if words.get(each) == "confirmed")
    survey = _Survey(newest, frozenset(suspects) - confirmed, confirmed)
    # Failures are ignored, and no folder is created.
    if survey != known and cache.parent.is_dir():
        data = {"newest": newest, "open": sorted(survey.open), "confirmed": sorted(confirmed)}
        with contextlib.suppress(OSError):
            disk.replace_file(cache, json.dumps(data).encode(), sync=False)
    return survey


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
            # Reverted, or the file was created anew: the change has no effect any more.
            is_over = old in since or (bool(since) if new is None else None in since)
            if at in left and not is_over:
                found.setdefault(file, []).append(at)
            since.add(new)
        left.discard(at)
        at = head.parent
    return {file: tuple(ids) for file, ids in sorted(found.items())}


def _newest_first(history: History, wanted: set[str]) -> list[str]:
    found = list[str]()
    at = history.newest
    while at and len(found) < len(wanted):
        found += [at] if at in wanted else []
        at = history.head(at).parent
    return found


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
    async with transact(location, change, clock=clock, watch=watch) as tx:
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
        undo = _UNDO.match(commit.reason) if commit.author in {"user", "agent"} else None
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
) -> PurgedHistory:
    """Remove files and text from the whole history; the directory must not contain them any more (M14b)."""

    def rewrite(storage: MemoryStorage) -> PurgedHistory:
        opened(storage, clock)
        with as_store_error(storage.folder.root):
            still = sorted(file for file in files if storage.folder.read(file) is not None)
            if still:
                raise StoreError(f"{', '.join(still)} is still in memory; forget it first, then purge")
            pack(storage)
            DerivedCache(storage.cache).clear()
            (storage.cache / TIMES).unlink(missing_ok=True)
            return purge_history(storage.history, files, scrub=scrub)

    async with held(location, clock=clock) as storage:
        return await in_thread(rewrite, storage)


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
    if before is None and is_topic(file):
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
