"""The memories of a store as an audit reads them: one text each, with the lines it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.errors import StoreError
from nacre.memory.entry import Entry, read_entry
from nacre.memory.import_sources import Batch, Fact
from nacre.memory.scan import NotAMemory, read_head, scan


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
