"""A memory directory as people and programs use it: list, save, forget, correct, each a transaction (M14)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.corrections import parse_correction
from nacre.memory.files.containment import inside
from nacre.memory.files.folder import TEAM_PREFIX, Folder
from nacre.memory.files.location import Location, MemoryPaths, claim, directory_location, locate, prepare
from nacre.memory.files.scan import LOGS, Scan, ScanCache, scan
from nacre.memory.files.transaction import Transaction, recover, transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import (
    Entry,
    Kind,
    MemoryChange,
    MemoryDraft,
    Origin,
    compose,
    description_of,
    less_trusted,
    read_entry,
    title_of,
)
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import LoadedIndex, MemoryIndex, index_usage, is_listable, load_index
from nacre.memory.recall.base import MAX_PICKS, RankedMemory, Recalled, RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import AlreadySeen
from nacre.memory.recall.recall import recall as recall_from
from nacre.memory.secrets import find_secrets
from nacre.memory.similarity import ScoredEntry, Subjects, about_person, is_about_person, rank
from nacre.memory.team.rules import refuse_for_team
from nacre.store import disk
from nacre.store.history import Commit, FileDiff, History
from nacre.store.home import home

INDEX_FILE = "MEMORY.md"
Entries: TypeAlias = "list[Entry]"
Findings: TypeAlias = "list[ScoredEntry]"
Commits: TypeAlias = "list[Commit]"
Diffs: TypeAlias = "list[FileDiff]"
MAX_FOUND = 5
"""So many memories help with one question; more only cost tokens."""
BY_PROGRAM = MemoryChange(author="user", reason="by a program")
"""Stands in the history where a caller does not say who changes memory, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a save did."""

    entry: Entry
    commit: str
    before: Entry | None = None
    """The entry as it was, when the save updated one (M14c)."""
    feedback: str = ""
    """What the writer should know about the index (M16c)."""


class Memory:
    """What is known about one project, one person or one team."""

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
        """Off: what is saved gets no line in the index, because nobody loads one (M19) or only the dream
        writes it (M17). What is forgotten still loses its line: the line tells it, too."""

    @classmethod
    async def open(
        cls,
        cwd: Path | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Memory:
        """The memory of the project around a directory below one home, whatever the settings say.

        `nacre.open_memory` goes by the settings, too, and so finds what `nacre memory list` shows.
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
        """The memory at a location: made if it is not there, whole even if a process died in the middle.

        Whoever stays for long brings a watch, and then pays for no look at every file before each change.
        """
        _prepared(location, cwd)
        await recover(location, clock=clock)
        return cls(location, clock=clock, watch=watch, keeps_index=keeps_index, writes_cache=True)

    def transact(self, change: MemoryChange) -> AbstractAsyncContextManager[Transaction]:
        """Hold the directory alone for one change that none of the other calls makes."""
        return transact(self.location, change, clock=self.clock, watch=self.watch)

    async def scan(self) -> Scan:
        """Every entry without its body, newest first, and what was left out."""
        return await asyncio.to_thread(scan, self.location.directory, self._cache)

    async def list(self) -> Entries:
        """Every entry with its body, newest first."""
        found = await self.scan()
        # In one thread: to change over for each of 10,000 files takes longer than to read them.
        whole = await asyncio.to_thread(lambda: [self._whole(entry) for entry in found.entries])
        return [entry for entry in whole if entry is not None]

    async def search(self, query: str, *, limit: int = MAX_FOUND) -> Findings:
        """The entries that have to do with some words, best first; untrusted ones too."""
        if is_about_person(query):
            return about_person(await self.list())[:limit]
        asked = RecallQuery(text=query, now=self.clock.now())
        ranked = await asyncio.to_thread(self._ranked, asked, limit)
        found = [(one, await asyncio.to_thread(self._whole, one.entry)) for one in ranked]
        return [ScoredEntry(entry, one.score) for one, entry in found if entry is not None]

    async def recall(self, message: str, *, limit: int = MAX_PICKS, with_local: bool = False) -> Recalled:
        """The few memories that surely help with a message, in words to put beside it, and why not others.

        What nobody vouches for stays out, and what is local-only unless `with_local` says that no word of it
        leaves this machine (M16b, M27).
        """
        asked = RecallQuery(text=message, now=self.clock.now())
        already = AlreadySeen(hides_local=not with_local)

        def looked_up() -> Recalled:
            self._ranker.refresh()
            return recall_from(asked, [self._ranker], already=already, limit=limit, clock=self.clock)

        return await asyncio.to_thread(looked_up)

    async def find(self, wanted: str) -> Entry:
        """One entry by its file, its name, or the words that only it answers to."""
        # Whoever names one need not wait until the words of all the others are read.
        called = entries_named(wanted, (await self.scan()).entries)
        whole = await asyncio.to_thread(self._whole, called[0]) if called else None
        return whole or single_match(wanted, await self.list())

    async def save(
        self, draft: MemoryDraft | str, change: MemoryChange = BY_PROGRAM, *, allow_secret: bool = False
    ) -> Saved:
        """Write a memory and its line in the index, together or not at all; a plain text is a draft of it.

        A draft without a file updates the entry on the same subject if there is one. A new one without a kind
        gets one by its words.
        """
        draft = MemoryDraft(body=draft) if isinstance(draft, str) else draft
        if not draft.body.strip():
            raise StoreError("there is nothing to save: the text is empty")
        if not allow_secret:
            refuse_secrets("\n".join((draft.body, draft.name, draft.description)))
        kind = draft.kind or kind_of(draft.body, is_shared=self.location.source == "team")
        titled = replace(draft, name=draft.name or title_of(draft.body), kind=kind)
        async with self.transact(change) as tx:
            file = draft.file or await asyncio.to_thread(self._file_for, titled, tx, bool(draft.name))
            data, version = tx.read(file)
            previous = MarkdownFile.parse(data) if data is not None else None
            new = compose(
                titled if previous is None else draft,
                file=file,
                now=self.clock.now(),
                previous=previous,
            )
            self._refuse(file, new)
            tx.write(file, new, if_version=version)
            entry = read_entry(file, new)
            feedback = self._list(tx, entry)
        before = read_entry(file, data) if data is not None else None
        return Saved(entry=entry, commit=tx.commit, before=before, feedback=feedback)

    async def forget(self, wanted: str, change: MemoryChange = BY_PROGRAM) -> tuple[Entry, str]:
        """Remove an entry and its line; the history still has it. Returns it and the commit."""
        entry = await self.find(wanted)
        async with self.transact(change) as tx:
            tx.delete(entry.file)
            index, version = tx.read(INDEX_FILE)
            if index is not None:
                tx.write(INDEX_FILE, MemoryIndex.parse(index).without(entry.file), if_version=version)
        return entry, tx.commit

    async def correct(
        self, wanted: str, text: str, change: MemoryChange = BY_PROGRAM, *, origin: Origin | None = None
    ) -> Saved:
        """Replace what an entry says; the old words stay in the history (M14c).

        A text that only names two values, such as "it is Friday, not Tuesday", changes the one in what the
        entry says; where that is not clear it is added, so that the entry still says what it is about.
        """
        entry = await self.find(wanted)
        origin = origin or entry.origin
        given = parse_correction(text)
        if given is None:
            body = text
            name = ""
            description = ""
        else:
            body = given.applied(entry.body) or f"{entry.body.rstrip()}\n\n{text}"
            name = given.applied(entry.name) or ""
            description = given.applied(entry.description) or ""
            # Whoever corrects one value does not vouch for the rest (M16b).
            origin = less_trusted(entry.origin, origin)
        draft = MemoryDraft(
            body=body,
            file=entry.file,
            name=name,
            description=description or description_of(body),
            origin=origin,
        )
        return await self.save(draft, change)

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
        """Give a file these bytes, a person's or a model's own edit; returns the commit.

        `written`: the modification time that the file shall have, in nanoseconds, instead of the present.
        """
        if not allow_secret:
            refuse_secrets(data.decode(errors="replace"))
        self._refuse(file, data)
        async with self.transact(change) as tx:
            tx.write(file, data, if_version=if_version, written=written)
            self._list(tx, read_entry(Folder(self.location.directory).key(file), data))
        return tx.commit

    async def put_all(
        self, files: Mapping[str, tuple[bytes, str]], change: MemoryChange, *, keep_time: bool = False
    ) -> str:
        """Write several topics in one commit; `VersionConflict` where one is no longer the version given."""
        for file, (data, _) in files.items():
            refuse_secrets(data.decode(errors="replace"))
            self._refuse(file, data)
        async with self.transact(change) as tx:
            for file, (data, version) in files.items():
                tx.write(file, data, if_version=version, keep_time=keep_time)
                self._list(tx, read_entry(Folder(self.location.directory).key(file), data))
        return tx.commit

    async def index(self, *, without: frozenset[str] = frozenset()) -> LoadedIndex:
        """The index as a conversation gets it, cut to its budget (M9), without the lines for some files."""
        data = await asyncio.to_thread(self._index_bytes)
        for file in sorted(without):
            data = MemoryIndex.parse(data).without(file)
        return load_index(data)

    async def log(self, *, limit: int = 50, file: str | None = None) -> Commits:
        """Who changed what, newest first."""
        return await asyncio.to_thread(History(self.location.history).log, limit, file=file)

    async def diff(self, commit: str) -> Diffs:
        """What a commit changed."""
        return await asyncio.to_thread(History(self.location.history).diff, commit)

    def _ranked(self, query: RecallQuery, limit: int) -> Sequence[RankedMemory]:
        self._ranker.refresh()
        return [one for one in self._ranker.rank(query, limit=limit) if one.parts.get("covered")]

    def _index_bytes(self) -> bytes:
        """Every prompt gets it, so a link that came with a repository must not choose what is read (M6)."""
        path = self.location.directory / INDEX_FILE
        try:
            descriptor = disk.open_regular(inside(path.parent, INDEX_FILE), os.O_RDONLY)
            with os.fdopen(descriptor, "rb") as source:
                return source.read()
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            raise StoreError(disk.explain(error, path)) from error

    def _whole(self, entry: Entry) -> Entry | None:
        """The entry with its body; none when somebody removed it meanwhile."""
        try:
            data = (self.location.directory / entry.file).read_bytes()
        except FileNotFoundError:
            return None
        return read_entry(entry.file, data, written=entry.written, indexed=entry.indexed)

    def _refuse(self, file: str, data: bytes) -> None:
        """What everybody reads has rules of its own, which no switch opens (M16, M18)."""
        if self.location.source == "team":
            refuse_for_team(file, data)

    def _list(self, tx: Transaction, entry: Entry) -> str:
        """Give the entry its line in the index, if it may have one; says what the writer should know."""
        if not self.keeps_index or entry.file == INDEX_FILE or entry.file.startswith(f"{LOGS}/"):
            return ""
        data, version = tx.read(INDEX_FILE)
        index = MemoryIndex.parse(data or b"")
        if is_listable(entry):
            new = index.with_pointer(entry.file, entry.title, entry.description, kind=entry.kind)
        else:
            new = index.without(entry.file)
        if new != (data or b""):
            tx.write(INDEX_FILE, new, if_version=version)
        return index_usage(new).feedback

    def _file_for(self, draft: MemoryDraft, tx: Transaction, is_named: bool) -> str:
        self._subjects.catch_up(tx)
        said = draft.description or description_of(draft.body)
        same = self._subjects.same(draft.name, said, is_named=is_named)
        return same or self._subjects.free_name(draft.name, tx)


def _prepared(location: Location, cwd: Path) -> Location:
    """Create the directory and write down whose it is; raises `StoreError` if it cannot be written to."""
    refusal = prepare(location)
    if refusal is not None:
        raise StoreError(refusal)
    claim(location, cwd)
    return location


def single_match(wanted: str, entries: Entries) -> Entry:
    """The entry that is meant by a file, a name, or words that only it answers to."""
    exact = entries_named(wanted, entries)
    found = exact or [one.entry for one in rank(wanted, entries)]
    if not found:
        raise StoreError(f"no memory answers to {wanted!r}; `nacre memory list` shows them")
    if len(found) > 1 and not exact:
        return _clearly_best(wanted, entries)
    return found[0]


def entries_named(wanted: str, entries: Sequence[Entry]) -> Entries:
    """The entries that are called so: the one whose file it is, else those whose name or file is alike."""
    by_file = [one for file in (wanted, f"{wanted}.md") for one in entries if one.file == file]
    alike = wanted.casefold()
    return by_file[:1] or [one for one in entries if alike in {one.file, one.title.casefold()}]


def refuse_secrets(text: str) -> None:
    """Credentials are named by their kind and line, never written (M16)."""
    if findings := find_secrets(text):
        raise StoreError(f"{findings[0]}: secrets do not belong into memory")


def _clearly_best(wanted: str, entries: list[Entry]) -> Entry:
    """The one that fits far better than the next; otherwise the person must say which."""
    first, second = rank(wanted, entries)[:2]
    if first.score < 2 * second.score:
        several = ", ".join(one.entry.file for one in rank(wanted, entries)[:MAX_FOUND])
        raise StoreError(f"{wanted!r} may mean several memories: {several}; name the file")
    return first.entry


def kind_of(body: str, *, is_shared: bool = False) -> Kind:
    """What it is about: how to work, where to look, the person, else the project.

    What is shared with a team is about no person, so that it is refused only where somebody says it is (M18).
    """
    said = description_of(body).translate(_APOSTROPHES)
    if _CONDUCT.search(said):
        return "feedback"
    if _ADDRESS.search(body):
        return "reference"
    if not is_shared and _PERSON.match(said):
        return "user"
    return "reference" if _PLACE.search(said) else "project"


_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_CONDUCT = re.compile(
    r"^(?:please\b|always\b|never\b|don't\b|do not\b|use\b|avoid\b|prefer\b|stop\b|make sure\b)"
    r"|\b(?:from now on|going forward)\b|^in (?:the )?future\b"
    r"|^(?:以后|今后|往后|从现在|从今|总是|不要|别|永远|请)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://\S")
_PERSON = re.compile(r"(?:i|my|me|(?:the )?(?:user|person)(?:'s)?)\b|我(?!们)", re.IGNORECASE)
_PLACE = re.compile(
    r"\b(?:dashboards?|trackers?|wikis?|runbooks?|jira|grafana|confluence)\b|看板|仪表盘", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Scopes:
    """One person's memory of a project, and the team's if there is one."""

    private: Memory
    team: Memory | None = None

    async def search(self, query: str) -> list[ScoredEntry]:
        """The entries of both that have to do with some words, best first."""
        found = list(await self.private.search(query))
        for one in await self.team.search(query) if self.team else ():
            theirs = replace(one.entry, file=f"{TEAM_PREFIX}{one.entry.file}")
            found.append(replace(one, entry=theirs))
        return sorted(found, key=lambda one: -one.score)[:MAX_FOUND]

    async def find(self, wanted: str) -> tuple[Memory, str, str]:
        """The memory that holds what is meant, its file there, and what comes before its name elsewhere."""
        team = self.team
        if team is None:
            return self.private, (await self.private.find(wanted)).file, ""
        if wanted.startswith(TEAM_PREFIX):
            return team, (await team.find(wanted.removeprefix(TEAM_PREFIX))).file, TEAM_PREFIX
        mine = [one.file for one in entries_named(wanted, await self.private.list())]
        theirs = [one.file for one in entries_named(wanted, await team.list())]
        if mine and theirs and wanted not in mine:
            several = ", ".join((*mine, *(f"{TEAM_PREFIX}{file}" for file in theirs)))
            raise StoreError(f"{wanted!r} may mean several memories: {several}; name the file")
        if theirs and not mine:
            return team, theirs[0], TEAM_PREFIX
        file = single_match(wanted, await self._entries()).file
        if file.startswith(TEAM_PREFIX):
            return team, file.removeprefix(TEAM_PREFIX), TEAM_PREFIX
        return self.private, file, ""

    async def _entries(self) -> list[Entry]:
        mine = await self.private.list()
        if self.team is None:
            return mine
        return [*mine, *(replace(one, file=f"{TEAM_PREFIX}{one.file}") for one in await self.team.list())]
