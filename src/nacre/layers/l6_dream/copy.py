"""The copy of a memory directory that a dream works on, and what it does to it, step by step (D6).

Pinned files are never changed; what a person wrote last is only proposed to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Literal, TypeAlias

from nacre.memory.files.scan import LOGS
from nacre.memory.files.undo import reversed_text
from nacre.memory.format.entry import Entry, entry_of
from nacre.memory.format.frontmatter import Document
from nacre.memory.format.index import INDEX_FILE

Action: TypeAlias = Literal["added", "changed", "removed"]
Files: TypeAlias = Mapping[str, bytes]
CACHED_TOPICS = 32_768
"""Topics read once for all steps: more than the largest directory measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change of one file, and why."""

    file: str
    action: Action
    reason: str
    into: str = ""
    """Where what a removed file said stands now."""
    group: int = 0
    """Steps of one number are taken together or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that only the person may make."""

    file: str
    before: bytes
    after: bytes | None
    """None: to be removed."""
    reason: str


@dataclass(frozen=True, slots=True)
class Topic:
    """One memory, read."""

    entry: Entry
    document: Document

    @property
    def text(self) -> str:
        """All that it says."""
        return f"{self.entry.title}\n{self.entry.description}\n{self.entry.body}"


class Copy:
    """Files by name; the ones that were read stay as they were."""

    def __init__(
        self,
        base: Files,
        *,
        written: Mapping[str, datetime] | None = None,
        theirs: Iterable[str] = (),
    ) -> None:
        """`written`: the files' own times; `theirs`: whose last content a person wrote."""
        self.base = dict(base)
        self.now = dict(base)
        self.written = dict(written or {})
        self.theirs = frozenset(theirs)
        self.steps: list[Step] = []
        self.proposals: list[Proposal] = []
        self.by_model: set[str] = set()
        """Files that a model wrote; all other changes leave what a memory says as it was."""
        self.pinned = frozenset(file for file in base if is_topic(file) and self._is_pinned(file))
        self._group = 0

    def next_group(self) -> int:
        """A number for steps that belong together."""
        self._group += 1
        return self._group

    def topic(self, file: str) -> Topic:
        """A memory as it is now."""
        topic = _topic(file, self.now[file])
        return replace(topic, entry=replace(topic.entry, written=self.written.get(file)))

    def topics(self) -> list[Topic]:
        """Every memory as it is now, by file."""
        return [self.topic(file) for file in sorted(self.now) if is_topic(file)]

    def is_free(self, file: str) -> bool:
        """Whether a dream may change this file by itself."""
        return file not in self.pinned and file not in self.theirs

    def write(self, file: str, data: bytes, reason: str, *, group: int = 0) -> bool:
        """Give a file other bytes; false where it is pinned, or the person's and now proposed to."""
        before = self.now.get(file)
        if before == data or file in self.pinned:
            return False
        if file in self.theirs and before is not None and is_topic(file):
            self.propose(file, data, reason)
            return False
        action: Action = "added" if before is None else "changed"
        self.now[file] = data
        self.steps.append(Step(file=file, action=action, reason=reason, group=group or self.next_group()))
        return True

    def remove(self, file: str, reason: str, *, into: str = "", group: int = 0) -> None:
        """Take a file away; the caller has asked whether it is free."""
        assert self.is_free(file), "only free files are removed"
        del self.now[file]
        group = group or self.next_group()
        self.steps.append(Step(file=file, action="removed", reason=reason, into=into, group=group))

    def propose(self, file: str, after: bytes | None, reason: str) -> None:
        """Leave it to the person; several proposals to one file become one."""
        last = next((one for one in self.proposals if one.file == file), None)
        if last is None:
            self.proposals.append(Proposal(file=file, before=self.base[file], after=after, reason=reason))
            return
        if last.after is None:
            return
        self.proposals.remove(last)
        why = last.reason if reason in last.reason else f"{last.reason}; {reason}"
        # Each was made from the file as it is; taken together they must not undo each other.
        both = after and reversed_text(after, after=last.before, before=last.after)
        self.proposals.append(replace(last, after=after if both is None else both, reason=why))

    def revert(self, files: Collection[str]) -> None:
        """Have these files as they were; whoever belongs to one of them must be among them."""
        for file in files:
            if file in self.base:
                self.now[file] = self.base[file]
            else:
                self.now.pop(file, None)
        self.steps = [step for step in self.steps if step.file not in files]

    def parts(self) -> list[frozenset[str]]:
        """The files that differ, in the least sets that can be taken or left: a merge is one; no index."""
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
        """What differs from the files as they were read; none for those that are gone."""
        files = self.base.keys() | self.now.keys()
        return {
            file: self.now.get(file) for file in sorted(files) if self.base.get(file) != self.now.get(file)
        }

    def told(self) -> tuple[Step, ...]:
        """One step for each file that differs in the end, with all the reasons there were."""
        changed = self.changed
        found: dict[str, Step] = {}
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

    def _is_pinned(self, file: str) -> bool:
        return b"pinned" in self.base[file] and _topic(file, self.base[file]).entry.pinned


def is_topic(file: str) -> bool:
    """Whether a file is a memory: no index, no day's log."""
    name = file.rpartition("/")[2]
    return name.endswith(".md") and name != INDEX_FILE and not file.startswith(f"{LOGS}/")


def is_log(file: str) -> bool:
    return file.startswith(f"{LOGS}/")


def is_index(file: str) -> bool:
    return file.rpartition("/")[2] == INDEX_FILE


def is_text(topic: Topic) -> bool:
    """Whether a file can be edited without guessing at its bytes."""
    return not any(problem.kind == "encoding" for problem in topic.document.problems)


@lru_cache(maxsize=CACHED_TOPICS)
def _topic(file: str, data: bytes) -> Topic:
    document = Document.parse(data)
    entry = entry_of(document.fields, file=file, size=len(data))
    return Topic(replace(entry, body=document.body), document)


def _action(before: bytes | None, after: bytes | None) -> Action:
    if after is None:
        return "removed"
    return "added" if before is None else "changed"
