"""Reads the invented people, and writes their memories as files."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nacre.memory.recall.ranking.analysis import Doc

HERE = Path(__file__).parent
NOW = datetime(2026, 11, 16, 10, tzinfo=UTC)
"""The day for which messages about dates are written."""


@dataclass(frozen=True)
class PersonMemory:
    """A memory of a person."""

    id: str
    kind: str
    modified: str
    name: str
    description: str
    body: str

    @property
    def file(self) -> str:
        words = re.findall(r"\w+", self.name.lower())
        return f"{self.kind}_{'_'.join(words)[:50]}.md"

    @property
    def doc(self) -> Doc:
        return Doc(id=self.id, name=self.name, description=self.description, body=self.body)


@dataclass(frozen=True)
class EverydayMessage:
    """A message and the memories that it needs."""

    text: str
    kind: str
    needed: frozenset[str]
    helpful: frozenset[str]
    """Neither a hit nor a false alarm."""
    stale: frozenset[str]
    """Older memories that must not come before the needed one."""


@dataclass(frozen=True)
class Person:
    """A person with memories and messages."""

    name: str
    language: str
    memories: tuple[PersonMemory, ...]
    messages: tuple[EverydayMessage, ...]
    key: str = ""
    """The file of one of our own people."""

    def memory(self, id_: str) -> PersonMemory:
        return next(one for one in self.memories if one.id == id_)

    def write(self, folder: Path) -> dict[str, str]:
        """Write the memories as files; return the id of each file."""
        for one in self.memories:
            path = folder / one.file
            head = {"name": one.name, "description": one.description, "type": one.kind}
            fields = "".join(
                f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in head.items()
            )
            path.write_text(f"---\n{fields}modified: {one.modified}\n---\n\n{one.body}\n", encoding="utf-8")
            when = datetime.fromisoformat(one.modified).replace(tzinfo=UTC).timestamp()
            os.utime(path, (when, when))
        return {one.file: one.id for one in self.memories}


def own_people() -> list[Person]:
    """Return the people of this folder, by name."""
    return [_read(path) for folder in ("people", "more") for path in sorted((HERE / folder).glob("*.txt"))]


def shared_people(folder: Path) -> list[Person]:
    """Return people from files in the form of the shared data set."""
    found = []
    for path in sorted(folder.glob("persona_*.json")):
        raw = json.loads(path.read_text(encoding="utf-8"))
        memories = tuple(
            PersonMemory(
                one["id"], one["type"], one["modified"], one["name"], one["description"], one["body"]
            )
            for one in raw["memories"]
        )
        messages = tuple(
            EverydayMessage(
                one["text"],
                one["kind"],
                frozenset(one["gold"]),
                frozenset(one.get("also_ok", ())),
                frozenset(one.get("stale", ())),
            )
            for one in raw["prompts"]
        )
        found.append(Person(path.stem, raw["language"], memories, messages))
    return found


def _read(path: Path) -> Person:
    language = ""
    memories: list[PersonMemory] = []
    messages: list[EverydayMessage] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, *fields = line.replace("\\n", "\n").split("|")
        if kind == "person":
            language = fields[0]
        elif kind == "m":
            type_, modified, name, description, body, *_ = [*fields, "", ""]
            description = description or name
            memories.append(
                PersonMemory(f"m{len(memories) + 1}", type_, modified, name, description, body or description)
            )
        else:
            label, needed, helpful, stale, text = fields
            ids = [frozenset(filter(None, one.split(","))) for one in (needed, helpful, stale)]
            if label == "none":
                ids = [frozenset[str]()] * 3
            messages.append(EverydayMessage(text, label, *ids))
    return Person(path.stem, language, tuple(memories), tuple(messages), f"{path.parent.name}.{path.stem}")
