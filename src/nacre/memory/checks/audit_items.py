"""The memories of a store as an audit reads them: one text each, with the lines it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.errors import StoreError
from nacre.memory.checks.lint import Level as Level
from nacre.memory.files.scan import NotAMemory, read_head, scan
from nacre.memory.format.entry import Entry, read_entry
from nacre.memory.transfer.import_sources import Batch, Fact


@dataclass(frozen=True, slots=True)
class Item:
    """One memory."""

    entry: Entry
    """With its body."""
    text: str
    """The whole file; of a memory without one, what it says."""
    first: int = 1
    """The line that the body begins on."""
    is_file: bool = True
    """Off for a memory of another program, which has no frontmatter to find fault with."""

    @property
    def file(self) -> str:
        return self.entry.file

    @property
    def is_dated(self) -> bool:
        """Whether it says itself when it was written; a file's own time is lost with every copy."""
        return (self.entry.created or self.entry.modified) is not None

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines of the body, numbered as in the file."""
        return enumerate(self.entry.body.split("\n"), start=self.first)

    def line_of(self, words: str) -> int:
        """Where some words stand first; the body's first line when nowhere."""
        place = self.entry.body.find(words)
        return self.first + (self.entry.body.count("\n", 0, place) if place >= 0 else 0)


def items_in(source: Path | Batch) -> list[Item]:
    """Every memory of a folder, by name, or of what was read from a file."""
    if isinstance(source, Batch):
        files = [_item(read_entry(one.file, one.data), one.data) for one in source.files]
        return [*files, *(_fact(fact, number) for number, fact in enumerate(source.facts, start=1))]
    found = scan(source)
    if not (found.entries or found.skipped or (source / "MEMORY.md").exists()):
        raise StoreError(f"there are no memories in {source}: no .md files; name the memory folder itself")
    items = []
    for known in sorted(found.entries, key=lambda one: one.file):
        try:
            data = read_head(str(source / known.file), whole=True).data
        except (OSError, NotAMemory):
            continue  # the checks of the folder say so
        items.append(_item(read_entry(known.file, data, written=known.written, indexed=known.indexed), data))
    return items


def _item(entry: Entry, data: bytes) -> Item:
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    body = entry.body.replace("\r\n", "\n")
    place = text.rfind(body) if body else len(text)
    return Item(replace(entry, body=body), text, first=1 + text.count("\n", 0, max(place, 0)))


def _fact(fact: Fact, number: int) -> Item:
    entry = Entry(
        file=f"mem0:{fact.id or number}", body=fact.text, created=fact.created, modified=fact.modified
    )
    return Item(entry, fact.text, is_file=False)


AuditKind: TypeAlias = Literal[
    "secret", "hidden-text", "broken-pointer", "broken-link", "unreadable", "untrusted-listed", "untrusted",
    "stale", "relative-date", "duplicate", "near-duplicate", "junk-task", "junk-history", "junk-code",
    "too-long", "too-vague", "no-description", "vague-description", "frontmatter", "untyped", "unlisted",
    "index-over-budget", "index-near-budget", "index-line-long", "index-untidy", "index-holds-facts",
]  # fmt: skip
LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""The worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One finding; a memory of another program that keeps no files goes by its id."""

    file: str
    line: int = 1
    """In the file, counted from one; in the text of a memory that has no file."""
    kind: AuditKind
    level: Level
    message: str
    """What is wrong, in one line; never a credential's value."""
    advice: str
    """What to do."""
    others: tuple[str, ...] = ()
    """Other memories that it is about."""
