"""The answers of the memory tools, as structured content and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nacre.app.memory_locations import Whose
from nacre.inspect.memory_origin import SHORT_COMMIT
from nacre.integrations.mcp_server.base import MAX_SHOWN_CHARS
from nacre.integrations.mcp_server.project import USER_PREFIX
from nacre.memory.files.folder import TEAM_PREFIX
from nacre.memory.format.entry import Entry
from nacre.memory.tools import DOUBT, shorten_body
from nacre.messages.untrusted_text import neutralise, one_line
from nacre.store.history import Commit

MAX_FOUND_CHARS = 600
"""Maximum length of one memory in the result of a search."""
SHOWN_FILES = 5
"""Files of a change that its line names."""

UNCONFIRMED = " (not confirmed by the person)"
"""Precedes the text of an unverified memory, and of any unconfirmed one in the result of a search."""

MemoryName = Annotated[str, "The name that the other tools accept."]


@dataclass(frozen=True, slots=True)
class ListedMemory:
    """A memory in a list; an unconfirmed one without title and description."""

    name: str
    scope: str
    title: str
    description: str
    confirmed: bool
    type: str | None = None
    changed: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryList:
    """A page of memories, newest first."""

    memories: list[ListedMemory]
    total: Annotated[int, "Memories of this scope and type, on all pages."]
    next_offset: Annotated[int | None, "The offset of the next page, if there is one."] = None


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A memory that matches a search."""

    name: str
    scope: str
    title: str
    text: str
    score: float
    confirmed: bool
    type: str | None = None
    changed: str | None = None


@dataclass(frozen=True, slots=True)
class FoundMemories:
    """The result of a search, best first."""

    memories: list[FoundMemory]
    is_complete: Annotated[bool, "False: not all memories are indexed yet."]


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A memory that helps with a query."""

    name: str
    text: str
    age_days: int
    confidence: float
    gone: list[str]
    superseded_by: str | None = None


@dataclass(frozen=True, slots=True)
class RecalledMemories:
    """The memories that help with a query."""

    memories: list[RecalledMemory]
    nearest: Annotated[list[str], "Names of the closest memories if none is relevant enough."]
    unconfirmed: Annotated[list[str], "Names of memories that are not returned until they are confirmed."]
    is_complete: Annotated[bool, "False: not all memories are indexed yet."]
    skipped: Annotated[str | None, "Why nothing was searched."] = None


@dataclass(frozen=True, slots=True)
class WholeMemory:
    """A memory with its text, or the index."""

    name: MemoryName
    scope: str
    text: str
    title: str | None = None
    description: str | None = None
    type: str | None = None
    changed: str | None = None
    origin: Annotated[str | None, "user, agent, unverified or untrusted."] = None
    confirmed: bool = True


@dataclass(frozen=True, slots=True)
class ListedChange:
    """A change of memory."""

    change: str
    at: str
    author: str
    reason: str
    files: list[str]


@dataclass(frozen=True, slots=True)
class ChangeList:
    """Changes of memory, newest first."""

    changes: list[ListedChange]


@dataclass(frozen=True, slots=True)
class MemoryChanged:
    """A memory that was saved, corrected or forgotten."""

    name: MemoryName
    scope: str
    change: Annotated[str | None, "The change, for memory_undo; absent if nothing changed."] = None
    text: Annotated[str | None, "What the memory says now; absent if it was forgotten."] = None
    before: Annotated[str | None, "What it said before."] = None
    confirmed: Annotated[bool, "False: not used until the person confirms it."] = True
    note: Annotated[str | None, "A warning."] = None


@dataclass(frozen=True, slots=True)
class RestoredMemory:
    """A memory after an undo; without text if it is gone again or cannot be shown."""

    name: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeUndone:
    """A change that was undone."""

    undone: Annotated[str, "The change that was undone."]
    reason: str
    scope: str
    memories: list[RestoredMemory]
    change: Annotated[str | None, "The change that did it; absent if it was undone already."] = None


def in_scope(whose: Whose, file: str) -> str:
    """Return the name of a file with the prefix of its memory."""
    return {"project": "", "team": TEAM_PREFIX, "user": USER_PREFIX}[whose] + file


def name_of(entry: Entry, whose: Whose) -> str:
    return in_scope(whose, one_line(entry.file))


def doubt(entry: Entry) -> str:
    """Return the mark of an unconfirmed memory."""
    if entry.is_trusted:
        return ""
    return DOUBT if entry.origin == "untrusted" else UNCONFIRMED


def whole_memory(entry: Entry, whose: Whose) -> WholeMemory:
    """Return a memory with its whole text."""
    body = neutralise(entry.body.strip() or entry.description)
    if len(body) > MAX_SHOWN_CHARS:
        body = f"{body[:MAX_SHOWN_CHARS]} … ({len(body) - MAX_SHOWN_CHARS:,} characters more in the file)"
    return WholeMemory(
        name=name_of(entry, whose),
        scope=whose,
        text=body,
        title=one_line(entry.title),
        description=one_line(entry.description),
        type=entry.kind,
        changed=_changed(entry),
        origin=entry.origin,
        confirmed=entry.is_trusted,
    )


def whole_text(entry: Entry, whose: Whose) -> str:
    """Format a memory with its metadata."""
    when = entry.changed
    by = "the person" if entry.origin == "user" else "an agent"
    facts = (
        entry.kind or "untyped",
        f"said by {by}" if entry.is_trusted else "",
        f"written {when.date().isoformat()}" if when else "",
    )
    found = whole_memory(entry, whose)
    head = f"{found.name} ({', '.join(filter(None, facts))}){doubt(entry)}"
    return f"{head}\n{found.description}\n\n{found.text}"


def listed_memory(entry: Entry, whose: Whose) -> ListedMemory:
    """Return a line of a list: nothing that an unconfirmed memory says is in it (M16b)."""
    return ListedMemory(
        name=name_of(entry, whose),
        scope=whose,
        type=entry.kind,
        title=one_line(entry.title) if entry.is_trusted else "",
        description=one_line(entry.description) if entry.is_trusted else "",
        changed=_changed(entry),
        confirmed=entry.is_trusted,
    )


def listed_text(one: ListedMemory) -> str:
    """Format a line of a list."""
    facts = ", ".join(filter(None, (one.type, (one.changed or "")[:10])))
    said = (one.description or one.title) if one.confirmed else "not confirmed; memory_get shows it"
    return f"{one.name} ({facts}): {said}"


def found_memory(entry: Entry, whose: Whose, score: float) -> FoundMemory:
    """Return a memory that matches a search, shortened."""
    body = neutralise(entry.body.strip() or entry.description)
    return FoundMemory(
        name=name_of(entry, whose),
        scope=whose,
        type=entry.kind,
        title=one_line(entry.title),
        text=body if len(body) <= MAX_FOUND_CHARS else body[: MAX_FOUND_CHARS - 1] + "…",
        changed=_changed(entry),
        confirmed=entry.is_trusted,
        score=round(score, 3),
    )


def found_text(one: FoundMemory) -> str:
    """Format a memory that matches a search."""
    facts = ", ".join(filter(None, (one.type, (one.changed or "")[:10], f"score {one.score:g}")))
    return f"{one.name} ({facts}){'' if one.confirmed else UNCONFIRMED}:\n{one.text}"


def changed_memory(
    now: Entry | None, before: Entry | None, whose: Whose, *, commit: str = "", note: str = ""
) -> MemoryChanged:
    """Return the answer about a memory that was saved, corrected or forgotten."""
    entry = now or before
    assert entry is not None, "a change is about a memory"
    return MemoryChanged(
        name=name_of(entry, whose),
        scope=whose,
        change=commit[:SHORT_COMMIT] or None,
        text=shorten_body(now.body) if now else None,
        before=shorten_body(before.body) if before else None,
        confirmed=entry.is_trusted,
        note=note or None,
    )


def listed_change(each: Commit) -> ListedChange:
    """Return a line of the history."""
    reason = one_line(each.reason.partition("\n")[0])
    files = [one_line(file) for file in each.files]
    return ListedChange(each.id[:SHORT_COMMIT], each.at.isoformat(), each.author, reason, files)


def change_text(one: ListedChange) -> str:
    """Format a line of the history."""
    files = ", ".join(one.files[:SHOWN_FILES])
    more = f" and {len(one.files) - SHOWN_FILES} more" if len(one.files) > SHOWN_FILES else ""
    return f"{one.change} {one.at} {one.author}: {one.reason} ({files}{more})"


def _changed(entry: Entry) -> str | None:
    return entry.changed.isoformat() if entry.changed else None
