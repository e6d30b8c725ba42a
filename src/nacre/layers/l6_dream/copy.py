"""The copy of a memory directory that a dream changes step by step, and a search over its memories (D6).

Pinned files are never changed; changes to files that a person wrote last become proposals.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.layers.l6_dream.state import FOLDER
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import as_store_error
from nacre.memory.files.scan import LOGS, moment_of
from nacre.memory.files.transaction import pick_up
from nacre.memory.files.undo import reversed_text
from nacre.memory.format.entry import Entry, entry_of
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.recall.ranking.analysis import Doc, analyse
from nacre.memory.recall.ranking.index import PassageIndex
from nacre.memory.recall.ranking.ranker import Ranker
from nacre.store import disk
from nacre.store.history import History

Action: TypeAlias = Literal["added", "changed", "removed"]
Files: TypeAlias = Mapping[str, bytes]
CACHED_TOPICS = 32_768
"""Cache size for parsed memories: more than the largest directory measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamStep:
    """One change of one file, and why."""

    file: str
    action: Action
    reason: str
    into: str = ""
    """The file that replaces a removed one."""
    group: int = 0
    """Steps of one group are applied together or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamProposal:
    """A change that only the person may make."""

    file: str
    before: bytes
    after: bytes | None
    """None: remove the file."""
    reason: str


@dataclass(frozen=True, slots=True)
class Topic:
    """One memory, parsed."""

    entry: Entry
    document: MarkdownFile

    @property
    def text(self) -> str:
        """Title, description and body."""
        return f"{self.entry.title}\n{self.entry.description}\n{self.entry.body}"


class DirectoryCopy:
    """The files of a directory by name: `base` as they were read, `now` with the steps applied."""

    def __init__(
        self,
        base: Files,
        *,
        written: Mapping[str, datetime] | None = None,
        by_person: Iterable[str] = (),
    ) -> None:
        """`written`: modification times; `by_person`: files whose last change a person made."""
        self.base = dict(base)
        self.now = dict(base)
        self.written = dict(written or {})
        self.by_person = frozenset(by_person)
        self.steps: list[DreamStep] = []
        self.proposals: list[DreamProposal] = []
        self.by_model: set[str] = set()
        """Files that a model wrote; all other changes leave the meaning of a memory as it was."""
        self.pinned = frozenset(
            file
            for file, data in base.items()
            if is_topic(file) and b"pinned" in data and _topic(file, data).entry.pinned
        )
        self._group = 0

    def next_group(self) -> int:
        """Return a number for steps that belong together."""
        self._group += 1
        return self._group

    def topic(self, file: str) -> Topic:
        """Return a memory as it is now."""
        topic = _topic(file, self.now[file])
        return replace(topic, entry=replace(topic.entry, written=self.written.get(file)))

    def topics(self) -> list[Topic]:
        """Return all memories as they are now, sorted by file."""
        return [self.topic(file) for file in sorted(self.now) if is_topic(file)]

    def is_free(self, file: str) -> bool:
        """Whether a dream may change this file without asking."""
        return file not in self.pinned and file not in self.by_person

    def write(self, file: str, data: bytes, reason: str, *, group: int = 0) -> bool:
        """Write a file; False if it is pinned, or if the change became a proposal."""
        before = self.now.get(file)
        if before == data or file in self.pinned:
            return False
        if file in self.by_person and before is not None and is_topic(file):
            self.propose(file, data, reason)
            return False
        action: Action = "added" if before is None else "changed"
        self.now[file] = data
        self.steps.append(
            DreamStep(file=file, action=action, reason=reason, group=group or self.next_group())
        )
        return True

    def remove(self, file: str, reason: str, *, into: str = "", group: int = 0) -> None:
        """Remove a file, which must be free."""
        assert self.is_free(file), "only free files are removed"
        del self.now[file]
        group = group or self.next_group()
        self.steps.append(DreamStep(file=file, action="removed", reason=reason, into=into, group=group))

    def propose(self, file: str, after: bytes | None, reason: str) -> None:
        """Propose a change to the person; several proposals for one file become one."""
        last = next((one for one in self.proposals if one.file == file), None)
        if last is None:
            self.proposals.append(
                DreamProposal(file=file, before=self.base[file], after=after, reason=reason)
            )
            return
        if last.after is None:
            return
        self.proposals.remove(last)
        why = last.reason if reason in last.reason else f"{last.reason}; {reason}"
        # Each was made from the original file; together they must not undo each other.
        both = after and reversed_text(after, after=last.before, before=last.after)
        self.proposals.append(replace(last, after=after if both is None else both, reason=why))

    def revert(self, files: Collection[str]) -> None:
        """Restore these files; all files of a group must be among them."""
        for file in files:
            if file in self.base:
                self.now[file] = self.base[file]
            else:
                self.now.pop(file, None)
        self.steps = [step for step in self.steps if step.file not in files]

    def parts(self) -> list[frozenset[str]]:
        """Return the changed files without indexes, in the smallest sets that can be accepted separately."""
        changed = {file for file in self.changed if not is_index(file)}
        groups: dict[int, set[str]] = {}
        for step in self.steps:
            if step.file in changed:
                groups.setdefault(step.group, set()).add(step.file)
        parts: list[set[str]] = []
        for group in groups.values():
            joined = [part for part in parts if part & group]
            parts = [part for part in parts if not part & group] + [set().union(group, *joined)]
        return sorted((frozenset(part) for part in parts), key=min)

    @property
    def changed(self) -> dict[str, bytes | None]:
        """The files that differ from the base; None for those that were removed."""
        files = self.base.keys() | self.now.keys()
        return {
            file: self.now.get(file) for file in sorted(files) if self.base.get(file) != self.now.get(file)
        }

    def final_steps(self) -> tuple[DreamStep, ...]:
        """Return one step for each file that differs in the end, with all its reasons."""
        changed = self.changed
        found: dict[str, DreamStep] = {}
        for step in self.steps:
            if step.file not in changed:
                continue
            before = found.get(step.file)
            reason = step.reason
            if before is not None and step.action != "removed" and reason not in before.reason:
                reason = f"{before.reason}; {reason}"
            elif before is not None and step.action != "removed":
                reason = before.reason
            found[step.file] = replace(step, reason=reason)
        return tuple(
            replace(found[file], action=_action(self.base.get(file), changed[file])) for file in sorted(found)
        )


def is_topic(file: str) -> bool:
    """Whether a file is a memory: not an index, not a daily log."""
    name = file.rpartition("/")[2]
    return name.endswith(".md") and name != INDEX_FILE and not file.startswith(f"{LOGS}/")


def is_log(file: str) -> bool:
    return file.startswith(f"{LOGS}/")


def is_index(file: str) -> bool:
    return file.rpartition("/")[2] == INDEX_FILE


def is_text(topic: Topic) -> bool:
    """Whether a file is valid text, so that editing it loses no bytes."""
    return not any(problem.kind == "encoding" for problem in topic.document.problems)


@lru_cache(maxsize=CACHED_TOPICS)
def _topic(file: str, data: bytes) -> Topic:
    document = MarkdownFile.parse(data)
    entry = entry_of(document.fields, file=file, size=len(data))
    return Topic(replace(entry, body=document.body), document)


def _action(before: bytes | None, after: bytes | None) -> Action:
    if after is None:
        return "removed"
    return "added" if before is None else "changed"


class TopicSearch:
    """A search index over memories, held in memory (R9)."""

    def __init__(self, topics: Iterable[Topic], *, asked: date) -> None:
        self._index = PassageIndex()
        self._asked = asked
        for topic in topics:
            self.add(topic)

    def add(self, topic: Topic) -> None:
        """Add or replace a memory."""
        entry = topic.entry
        at = entry.modified or entry.written
        doc = Doc(
            id=entry.file,
            folder=entry.file.rpartition("/")[0],
            when=at.date() if at else None,
            name=entry.title,
            description=entry.description,
            body=entry.body,
        )
        self._index.add(analyse(doc))

    def remove(self, file: str) -> None:
        self._index.remove(file)

    def files(self, text: str, *, limit: int) -> list[str]:
        """Return the best matches, best first; only files that share a word with the text."""
        if not text.strip():
            return []
        ranking = Ranker(self._index).rank(text, asked=self._asked, limit=limit)
        return [pick.id for pick in ranking.picks if pick.score > 0]


PERSON_AUTHORS = frozenset({"user", "unconfirmed"})
"""Authors whose files a dream does not change itself; an unconfirmed edit may be the person's."""
TAKEN_OVER = "edited by other means"
"""Start of the message of a first commit, which adds files of unknown authors."""
AUTHORS_FILE = "authors.json"


async def snapshot(
    location: Location, *, is_read_only: bool = False, clock: Clock = SYSTEM_CLOCK
) -> DirectoryCopy:
    """Return a copy of the directory; external edits are committed first, unless this is read-only."""
    history = History(location.history)
    newest = history.newest if is_read_only else await pick_up(location, clock=clock)
    folder = Folder(location.directory)
    base: dict[str, bytes] = {}
    written: dict[str, datetime] = {}
    with as_store_error(location.directory):
        for file, stamp in folder.scan().items():
            # A file that is not regular or too large is no memory; `nacre memory lint` reports it.
            with contextlib.suppress(StoreError, disk.NotRegularError):
                data = folder.read(file)
                if data is not None:
                    base[file] = data
                    written[file] = moment_of(stamp[0])
        authors = _authors(location, newest, writes=not is_read_only)
        by_person = {file for file in base if authors.get(file) in PERSON_AUTHORS}
        if is_read_only and newest:
            by_person |= {file for file in base if history.version(newest, file) != version_of(base[file])}
    return DirectoryCopy(base, written=written, by_person=by_person)


def _authors(location: Location, newest: str, *, writes: bool) -> dict[str, str]:
    """Return who changed each file last, by hand or through nacre; `writes` whether the cache is updated."""
    path = location.cache / FOLDER / AUTHORS_FILE
    cache = _AuthorCache.read(path)
    history = History(location.history)
    authors: dict[str, str] = {}
    at = newest
    while at and at != cache.commit:
        head = history.head(at)
        is_first = not head.parent and head.signature.reason.startswith(TAKEN_OVER)
        for file in history.changes(head.parent, at):
            authors.setdefault(file, "" if is_first else head.signature.author)
        at = head.parent
    if at:
        authors = {**cache.authors, **authors}
    if writes and newest and newest != cache.commit:
        _AuthorCache(newest, authors).write(path)
    return authors


@dataclass(frozen=True, slots=True)
class _AuthorCache:
    """The last author of each file as of a commit; derived data, rebuilt if it is lost."""

    commit: str
    authors: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> _AuthorCache:
        with contextlib.suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            found = json.loads(path.read_bytes())
            return cls(str(found["commit"]), {str(file): str(who) for file, who in found["authors"].items()})
        return cls("-", {})

    def write(self, path: Path) -> None:
        data = json.dumps({"commit": self.commit, "authors": self.authors}).encode()
        with contextlib.suppress(OSError):
            disk.make_folder(path.parent)
            disk.replace_file(path, data, sync=False)
