"""The memory of a project, a person or a team: list, search, recall, save, forget, correct (M14).

Every change is one transaction on the directory's files and one commit in its history.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.containment import inside
from nacre.memory.files.folder import TEAM_PREFIX, Folder, conflict
from nacre.memory.files.location import Location, MemoryPaths, claim, directory_location, locate, prepare
from nacre.memory.files.scan import LOGS, MAX_TOPIC_BYTES, Scan, ScanCache, is_topic, scan
from nacre.memory.files.transaction import Transaction, recover, refresh, transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import (
    Entry,
    MemoryChange,
    MemoryDraft,
    Origin,
    compose,
    description_of,
    file_subject,
    file_title,
    kind_of,
    less_trusted,
    read_entry,
    title_of,
)
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import (
    INDEX_FILE,
    LoadedIndex,
    MemoryIndex,
    index_usage,
    is_listable,
    load_index,
    within_budget,
)
from nacre.memory.recall.base import MAX_PICKS, Recalled, RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import AlreadySeen, CheckDrift
from nacre.memory.recall.recall import recall as recall_from
from nacre.memory.similarity import ScoredEntry, Subjects, about_person, is_about_person, rank
from nacre.store import disk
from nacre.store.history import Commit, FileDiff, History
from nacre.store.home import home

Entries: TypeAlias = "list[Entry]"
Findings: TypeAlias = "list[ScoredEntry]"
Commits: TypeAlias = "list[Commit]"
Diffs: TypeAlias = "list[FileDiff]"
MAX_FOUND = 5
VECTORS_SECONDS = 0.25
"""How long a query computes missing vectors, each in some 20 ms; the others are ranked by words (R9)."""
"""Default number of search results; more rarely help and cost tokens."""
BY_PROGRAM = MemoryChange(author="user", reason="by a program")
"""Author and reason in the history when the caller gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The result of a save."""

    entry: Entry
    commit: str
    before: Entry | None = None
    """The previous state, when the save updated an entry (M14c)."""
    feedback: str = ""
    """A warning for the writer when the index is nearly full (M16c)."""


class Memory:
    """The memory of one project, one person or one team."""

    def __init__(
        self,
        place: str | os.PathLike[str] | Location,
        *,
        clock: Clock = SYSTEM_CLOCK,
        watch: Watch | None = None,
        keeps_index: bool = True,
        writes_cache: bool = False,
    ) -> None:
        """Open the memory in a directory, which is created if it does not exist.

        A `Location` is only looked at; `Memory.at` prepares one for use.
        """
        if not isinstance(place, (str, os.PathLike, Location)):
            raise TypeError(f"Memory takes a directory, not {type(place).__name__}")
        if isinstance(place, Location):
            location = place
        else:
            location = _prepared(directory_location(place, home(os.environ)), Path.cwd())
            writes_cache = True
        self.location = location
        self._cache = ScanCache(location.cache, location.directory, writes=writes_cache)
        self._subjects = Subjects(location.directory)
        self._ranker = LocalIndex(location.directory, location.cache, writes=writes_cache, clock=clock)
        self.clock = clock
        self.watch = watch
        self.keeps_index = keeps_index
        """Off: a saved memory gets no line in the index, because no index is loaded (M19) or only the dream
        writes it (M17). A forgotten memory still loses its line, which repeats what it says."""

    @classmethod
    async def open(
        cls,
        cwd: Path | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Memory:
        """Open the memory of the project that contains a directory, ignoring settings files.

        `nacre.open_memory` reads the settings as well, and opens what `nacre memory list` shows.
        """
        paths = MemoryPaths(home=home(environ), cwd=cwd or Path.cwd())
        return await cls.at(locate(paths), cwd or Path.cwd(), clock=clock)

    @classmethod
    async def at(
        cls,
        location: Location,
        cwd: Path,
        *,
        clock: Clock = SYSTEM_CLOCK,
        watch: Watch | None = None,
        keeps_index: bool = True,
    ) -> Memory:
        """Open the memory at a location: create the directory if needed and repair an interrupted change.

        A long-lived process passes a watch, so that no change has to compare every file first.
        """
        _prepared(location, cwd)
        await recover(location, clock=clock)
        return cls(location, clock=clock, watch=watch, keeps_index=keeps_index, writes_cache=True)

    def transact(self, change: MemoryChange) -> AbstractAsyncContextManager[Transaction]:
        """Lock the directory for a change that no other method makes."""
        return transact(self.location, change, clock=self.clock, watch=self.watch)

    async def _refresh(self) -> None:
        """Bring a working copy of a server to the newest state, so that a forgotten memory is not read."""
        await refresh(self.location, clock=self.clock)

    async def scan(self) -> Scan:
        """Return every entry without its body, newest first, and the files that were skipped."""
        await self._refresh()
        return await asyncio.to_thread(scan, self.location.directory, self._cache)

    async def list(self) -> Entries:
        """Return every entry with its body, newest first."""
        found = await self.scan()
        # In one thread: a thread switch for each of 10,000 files takes longer than reading them.
        whole = await asyncio.to_thread(lambda: [self._whole(entry) for entry in found.entries])
        return [entry for entry in whole if entry is not None]

    async def search(self, query: str, *, limit: int = MAX_FOUND) -> Findings:
        """Return the entries that match a query, best first, untrusted ones included."""
        if is_about_person(query):
            return about_person(await self.list())[:limit]
        asked = RecallQuery(text=query, now=self.clock.now(), is_search=True)
        await self._refresh()

        def ranked() -> Findings:
            self._ranker.refresh()
            self._ranker.deepen(seconds=VECTORS_SECONDS)
            best = [one for one in self._ranker.rank(asked, limit=limit) if one.parts.get("covered")]
            whole = ((self._whole(one.entry), one.score) for one in best)
            return [ScoredEntry(entry, score) for entry, score in whole if entry is not None]

        return await asyncio.to_thread(ranked)

    async def refresh(self) -> None:
        """Read changed files into the index, so that the next search need not."""
        await self._refresh()
        await asyncio.to_thread(self._ranker.refresh)

    @property
    def ranker(self) -> LocalIndex:
        """The index, for a search of several memories."""
        return self._ranker

    @property
    def indexed(self) -> int:
        """The number of memories in the loaded index."""
        return len(self._ranker)

    async def release(self) -> None:
        """Free what the index holds; the next use loads it again."""
        await asyncio.to_thread(self._ranker.close)

    async def recall(self, message: str, *, limit: int = MAX_PICKS, with_local: bool = False) -> Recalled:
        """Return the few memories that help with a message, as text to attach to it, and those left out.

        Untrusted memories are left out, and local-only ones unless `with_local` promises that nothing leaves
        this machine (M16b, M27). What a memory of a project names is checked in its working tree (R12).
        """
        asked = RecallQuery(text=message, now=self.clock.now())
        await self._refresh()
        already = AlreadySeen(hides_local=not with_local)

        def rank_and_pick() -> Recalled:
            self._ranker.refresh()
            self._ranker.deepen(seconds=VECTORS_SECONDS)
            return recall_from(
                asked, [self._ranker], already=already, limit=limit, drift=self._drift(), clock=self.clock
            )

        return await asyncio.to_thread(rank_and_pick)

    def _drift(self) -> CheckDrift | None:
        root = self.location.root
        if root is None:
            return None
        from nacre.memory.recall.drift.check import check_ranked  # noqa: PLC0415 - only for a project's memory

        return lambda ranked: check_ranked(ranked, root, clock=self.clock)

    async def find(self, wanted: str) -> Entry:
        """Return one entry by its file, its name, or a query that only it matches."""
        # A lookup by name does not need the bodies of all other entries.
        exact = entries_named(wanted, (await self.scan()).entries)
        whole = await asyncio.to_thread(self._whole, exact[0]) if exact else None
        return whole or single_match(wanted, await self.list())

    async def save(
        self,
        draft: MemoryDraft | str,
        change: MemoryChange = BY_PROGRAM,
        *,
        allow_secret: bool = False,
        if_version: str | None = None,
    ) -> Saved:
        """Write a memory and its line in the index, both or neither; a string is saved as the body.

        A draft without a file updates the entry on the same subject if there is one. A new entry without a
        kind gets one by rule. With `if_version` raises `VersionConflict` if the file has another version.
        """
        draft = MemoryDraft(body=draft) if isinstance(draft, str) else draft
        if not isinstance(draft, MemoryDraft):
            raise TypeError(f"save takes a text or a MemoryDraft, not {type(draft).__name__}")
        if not draft.body.strip():
            raise StoreError("there is nothing to save: the text is empty")
        if not allow_secret:
            refuse_secrets(draft.body, name=draft.name, description=draft.description, file=draft.file)
        else:
            draft = _without_secret_in_title(draft)
        kind = draft.kind or kind_of(draft.body, is_shared=self.location.source == "team")
        titled = replace(draft, name=draft.name or title_of(draft.body), kind=kind)
        # Texts that only begin alike are not on one subject.
        subject = draft.name or description_of(draft.body, "")
        async with self.transact(change) as tx:

            def file_for_subject() -> str:
                self._subjects.catch_up(tx)
                description = titled.description or description_of(titled.body, titled.name)
                same = self._subjects.same(subject, description, is_named=bool(draft.name))
                # An unverified text never replaces one that the user may rely on (M16b).
                is_kept = (
                    draft.origin == "unverified"
                    and same
                    and read_entry(same, tx.read(same)[0] or b"").is_trusted
                )
                if same and not is_kept:
                    return same
                return self._subjects.free_name(file_title(kind, titled.name), tx)

            file = draft.file or await asyncio.to_thread(file_for_subject)
            data, version = tx.read(file)
            if if_version not in {None, version}:
                raise conflict(file)
            previous = MarkdownFile.parse(data) if data is not None else None
            source = titled if previous is None else draft
            before = read_entry(file, data) if data is not None else None
            new = compose(source, file=file, now=self.clock.now(), previous=previous)
            if before is not None and before.modified is not None:
                # The same text again changes nothing, not even the time.
                same = compose(source, file=file, now=before.modified, previous=previous)
                new = same if same == data else new
            self._refuse(file, new)
            tx.write(file, new, if_version=version)
            entry = read_entry(file, new)
            feedback = self.update_index(tx, entry)
        return Saved(entry=entry, commit=tx.commit, before=before, feedback=feedback)

    async def forget(
        self, wanted: str, change: MemoryChange = BY_PROGRAM, *, if_version: str | None = None
    ) -> tuple[Entry, str]:
        """Remove an entry and its line in the index; return it and the commit. The history keeps it."""
        entry = await self.find(wanted)
        async with self.transact(change) as tx:
            tx.delete(entry.file, if_version=if_version)
            index, version = tx.read(INDEX_FILE)
            if index is not None:
                tx.write(INDEX_FILE, MemoryIndex.parse(index).without(entry.file), if_version=version)
        return entry, tx.commit

    async def undo(self, commit: str = "", change: MemoryChange = BY_PROGRAM) -> str:
        """Undo a commit of `log`, by default the newest in force, and return the commit that does so.

        Later changes stay.
        """
        from nacre.memory.files.undo import undo  # noqa: PLC0415 - most programs never undo

        await self._refresh()
        return await undo(self.location, commit, change=change, clock=self.clock, watch=self.watch)

    async def correct(
        self,
        wanted: str,
        text: str,
        change: MemoryChange = BY_PROGRAM,
        *,
        old: str = "",
        origin: Origin | None = None,
        is_supported: bool = False,
    ) -> Saved:
        """Replace the text of an entry; the history keeps the old text (M14c).

        With `old` the text replaces that value; raises `StoreError` unless it occurs exactly once. A text of
        two values only, such as "it is Friday, not Tuesday", does so, or is appended.
        """
        from nacre.memory.corrections import corrected  # noqa: PLC0415 - only corrections need its patterns

        entry = await self.find(wanted)
        origin = origin or entry.origin
        new = corrected(entry, text, old)
        body, name, description = new or (text, "", "")
        if new is not None:
            # Correcting one value does not vouch for the rest of the text (M16b).
            origin = less_trusted(entry.origin, origin)
        description = description or description_of(body, name or entry.name)
        # What the user may rely on stays; the other text waits beside it for a confirmation (M16b).
        is_beside = origin == "unverified" and entry.is_trusted
        file = "" if is_beside else entry.file
        name = name or entry.name if is_beside else name
        draft = MemoryDraft(
            body=body, file=file, name=name, description=description, origin=origin, is_supported=is_supported
        )
        return await self.save(draft, change)

    async def confirm(self, wanted: str, change: MemoryChange = BY_PROGRAM) -> Saved:
        """Confirm an unverified or untrusted entry in the user's name, so that it is listed and attached."""
        entry = await self.find(wanted)
        if entry.is_trusted:
            raise StoreError(f"{entry.file} is confirmed already")
        draft = MemoryDraft(body=entry.body, file=entry.file, kind=entry.kind, origin="user")
        return await self.save(draft, change, allow_secret=True)

    async def put(
        self,
        file: str,
        data: bytes,
        change: MemoryChange,
        *,
        if_version: str | None = None,
        allow_secret: bool = False,
        written: int | None = None,
    ) -> str:
        """Write the bytes of one file, as edited by a person or a model; return the commit.

        `written` sets the modification time of the file, in nanoseconds.
        """
        if not allow_secret:
            refuse_secrets(data.decode(errors="replace"), file=self._if_new(file))
        self._refuse(file, data)
        async with self.transact(change) as tx:
            tx.write(file, data, if_version=if_version, written=written)
            self.update_index(tx, read_entry(Folder(self.location.directory).key(file), data))
        return tx.commit

    async def put_all(
        self,
        files: Mapping[str, tuple[bytes, str]],
        change: MemoryChange,
        *,
        removed: Mapping[str, str] | None = None,
        keep_time: bool = False,
    ) -> str:
        """Write and remove files in one commit; `VersionConflict` if one no longer has the given version."""
        for file, (data, _) in files.items():
            refuse_secrets(data.decode(errors="replace"), file=self._if_new(file))
            self._refuse(file, data)
        async with self.transact(change) as tx:
            for file, version in (removed or {}).items():
                tx.delete(file, if_version=version)
                index, index_version = tx.read(INDEX_FILE)
                if index is not None:
                    tx.write(INDEX_FILE, MemoryIndex.parse(index).without(file), if_version=index_version)
            for file, (data, version) in files.items():
                tx.write(file, data, if_version=version, keep_time=keep_time)
                self.update_index(tx, read_entry(Folder(self.location.directory).key(file), data))
        return tx.commit

    async def index(self, *, without: frozenset[str] = frozenset()) -> LoadedIndex:
        """Return the index as a conversation gets it: cut to its budget (M9), without some files."""
        path = self.location.directory / INDEX_FILE
        await self._refresh()

        def read() -> bytes:
            # A symlink in a cloned repository must not choose which file reaches every prompt (M6).
            try:
                descriptor = disk.open_regular(inside(path.parent, INDEX_FILE), os.O_RDONLY)
                with os.fdopen(descriptor, "rb") as source:
                    return source.read()
            except (FileNotFoundError, NotADirectoryError):
                return b""
            except OSError as error:
                raise StoreError(disk.explain(error, path)) from error

        data = await asyncio.to_thread(read)
        for file in sorted(without):
            data = MemoryIndex.parse(data).without(file)
        return load_index(data)

    async def log(self, *, limit: int = 50, file: str | None = None) -> Commits:
        """Return the commits of the history, newest first."""
        await self._refresh()
        return await asyncio.to_thread(History(self.location.history).log, limit, file=file)

    async def diff(self, commit: str) -> Diffs:
        """Return what a commit changed."""
        await self._refresh()
        return await asyncio.to_thread(History(self.location.history).diff, commit)

    def _whole(self, entry: Entry) -> Entry | None:
        """Return the entry with its body; None when its file was removed meanwhile."""
        try:
            data = (self.location.directory / entry.file).read_bytes()
        except FileNotFoundError:
            return None
        return read_entry(entry.file, data, written=entry.written, indexed=entry.indexed)

    def _if_new(self, file: str) -> str:
        """Return the name of a file that does not exist yet, else nothing."""
        return "" if (self.location.directory / file).exists() else file

    def _refuse(self, file: str, data: bytes) -> None:
        if len(data) > MAX_TOPIC_BYTES and not file.startswith(f"{LOGS}/"):
            # A scan leaves such a file out, so nothing could show or forget it.
            raise StoreError(f"{file} is {len(data):,} bytes; a memory has at most {MAX_TOPIC_BYTES:,}")
        # No option lifts the rules for team memories (M16, M18).
        if self.location.source == "team":
            from nacre.memory.team.rules import refuse_for_team  # noqa: PLC0415 - only a team needs them

            refuse_for_team(file, data)

    def update_index(self, tx: Transaction, entry: Entry) -> str:
        """Add, update or remove the entry's line in the index; return feedback for the writer."""
        if not self.keeps_index or entry.file == INDEX_FILE or entry.file.startswith(f"{LOGS}/"):
            return ""
        data, version = tx.read(INDEX_FILE)
        index = MemoryIndex.parse(data or b"")
        if is_listable(entry):
            new = index.with_pointer(entry.file, entry.title, entry.description, kind=entry.kind)
        else:
            new = index.without(entry.file)
        gone: tuple[str, ...] = ()
        if index_usage(new).share > 1:
            new, gone = self._within_budget(tx, new)
        if new != (data or b""):
            tx.write(INDEX_FILE, new, if_version=version)
        feedback = index_usage(new).feedback
        return f"{feedback} No longer listed, but recall finds it: {', '.join(gone)}." if gone else feedback

    def _within_budget(self, tx: Transaction, index: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return an index without the least useful pointers that do not fit, and their files."""
        from nacre.memory.recall.usage import read_usage  # noqa: PLC0415 - only a full index needs it

        entries: Entries = []
        for line in MemoryIndex.parse(index).pointers:
            # A pointer to a file that cannot be read stays: `nacre memory lint` reports it.
            with suppress(StoreError, OSError):
                data, _ = tx.read(line.file)
                if data is not None and is_topic(line.file):
                    entries.append(read_entry(line.file, data, written=self._written(line.file)))
        used = read_usage(self.location, [entry.file for entry in entries])
        return within_budget(index, entries, useful={file: one.usefulness for file, one in used.items()})

    def _written(self, file: str) -> datetime | None:
        try:
            return datetime.fromtimestamp((self.location.directory / file).stat().st_mtime, UTC)
        except FileNotFoundError:  # this transaction adds it
            return None


def _prepared(location: Location, cwd: Path) -> Location:
    """Create the directory and write down whose it is; raises `StoreError` if it cannot be written to."""
    refusal = prepare(location)
    if refusal is not None:
        raise StoreError(refusal)
    claim(location, cwd)
    return location


def single_match(wanted: str, entries: Entries) -> Entry:
    """Return the entry that a file, a name or a query refers to; `StoreError` if that is not exactly one."""
    if exact := entries_named(wanted, entries):
        return exact[0]
    found = rank(wanted, entries)
    if not found:
        raise StoreError(f"no memory matches {wanted!r}; `nacre memory list` shows them")
    # The best match counts only if it is far better than the next.
    if len(found) > 1 and found[0].score < 2 * found[1].score:
        several = ", ".join(one.entry.file for one in found[:MAX_FOUND])
        raise StoreError(f"{wanted!r} may mean several memories: {several}; name the file")
    return found[0].entry


def entries_named(wanted: str, entries: Sequence[Entry]) -> Entries:
    """Return the entry with this file, else all entries with this title, else the one with this file name.

    Case is ignored in titles and in a file name without the kind that it begins with.
    """
    by_file = [one for file in (wanted, f"{wanted}.md") for one in entries if one.file == file]
    alike = wanted.casefold()
    by_title = [one for one in entries if alike in {one.file, one.title.casefold()}]
    words = Entry(file=alike).title
    by_subject = [one for one in entries if words == file_subject(one.file)]
    return by_file[:1] or by_title or (by_subject if len(by_subject) == 1 else [])


def _without_secret_in_title(draft: MemoryDraft) -> MemoryDraft:
    """Return a draft whose title and description, which the index shows, hold no credential."""
    from nacre.memory.secrets import ONLY_IN_BODY, find_in_draft, pointer_text  # noqa: PLC0415 - as below

    if not find_in_draft(draft.body, name=draft.name, description=draft.description):
        return draft
    body = pointer_text(draft.body, mark=ONLY_IN_BODY)
    name = pointer_text(draft.name, mark=ONLY_IN_BODY) or ("" if draft.file else title_of(body))
    description = pointer_text(draft.description, mark=ONLY_IN_BODY) or description_of(body, name)
    return replace(draft, name=name, description=description)


def refuse_secrets(text: str, *, name: str = "", description: str = "", file: str = "") -> None:
    """Raise `StoreError` for a text with a credential, or a part beside it such as its name (M16).

    The message names the kind and the line or part only.
    """
    from nacre.memory.secrets import find_in_draft, pointer_advice  # noqa: PLC0415 - only a save needs it

    if findings := find_in_draft(text, name=name, description=description, file=file):
        raise StoreError(f"{findings[0]}: secrets do not belong into memory; {pointer_advice(text)}")


@dataclass(frozen=True, slots=True)
class Scopes:
    """The private memory of a project, and the memory of its team if there is one (M18)."""

    private: Memory
    team: Memory | None = None

    async def search(self, query: str) -> list[ScoredEntry]:
        """Return the entries of both memories that match a query, best first."""
        found = list(await self.private.search(query))
        for one in await self.team.search(query) if self.team else ():
            theirs = replace(one.entry, file=f"{TEAM_PREFIX}{one.entry.file}")
            found.append(ScoredEntry(theirs, one.score))
        return sorted(found, key=lambda one: -one.score)[:MAX_FOUND]

    async def find(self, wanted: str) -> tuple[Memory, str, str]:
        """Return the memory that contains an entry, its file, and the prefix of the file in answers."""
        team = self.team
        if team is None:
            return self.private, (await self.private.find(wanted)).file, ""
        if wanted.startswith(TEAM_PREFIX):
            return team, (await team.find(wanted.removeprefix(TEAM_PREFIX))).file, TEAM_PREFIX
        mine = await self.private.list()
        theirs = await team.list()
        my_files = [one.file for one in entries_named(wanted, mine)]
        their_files = [one.file for one in entries_named(wanted, theirs)]
        if my_files and their_files and wanted not in my_files:
            several = ", ".join((*my_files, *(f"{TEAM_PREFIX}{file}" for file in their_files)))
            raise StoreError(f"{wanted!r} may mean several memories: {several}; name the file")
        if their_files and not my_files:
            return team, their_files[0], TEAM_PREFIX
        both = [*mine, *(replace(one, file=f"{TEAM_PREFIX}{one.file}") for one in theirs)]
        file = single_match(wanted, both).file
        if file.startswith(TEAM_PREFIX):
            return team, file.removeprefix(TEAM_PREFIX), TEAM_PREFIX
        return self.private, file, ""
