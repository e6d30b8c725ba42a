"""Letta's sets as stores: ten files of records, and short facts of which one contradicts another.

Both are split by the parity of a question's place.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

from bench.recall.raw import read_lines, read_text
from bench.recall.schema import Half, Question, Store
from nacre.memory.recall.ranking.analysis import Doc

_QUESTION = "Question: "
"""What stands before it tells an agent where the files are."""


def files(folder: Path) -> list[Store]:
    """Which of the ten files a question needs."""
    docs = tuple(
        Doc(id=path.name.removesuffix(".gz"), name=path.name.partition(".")[0], body=read_text(path))
        for path in sorted((folder / "files").glob("*.txt.gz"))
    )
    asked = tuple(
        Question(
            id=f"letta/{i}",
            text=raw["input"].rpartition(_QUESTION)[2],
            gold=frozenset(raw["agent_args"]["extra"]["required_files"]),
            kind=raw["agent_args"]["extra"]["question_type"],
            half=_half(i),
        )
        for i, raw in enumerate(read_lines(folder / "questions.jsonl.gz"))
    )
    return [Store("letta_files/all", docs, asked)]


def updates(folder: Path) -> list[Store]:
    """Ten facts, and one more that contradicts an older one: the newer must come first."""
    stores = []
    for i, raw in enumerate(read_lines(folder / "core_memory_update.jsonl.gz")):
        extra = raw["agent_args"]["extra"]
        facts = [*extra["facts"], extra["contradicting_fact"]]
        docs = tuple(Doc(id=str(n), order=n, when=date(2024, 1, 1 + n), body=f) for n, f in enumerate(facts))
        newer = frozenset([str(len(facts) - 1)])
        older = frozenset(str(n) for n in extra["supporting_fact_indices"])
        question = Question(
            id=f"letta/{i}",
            text=raw["input"],
            gold=newer | older,
            kind="update",
            half=_half(i),
            newer=newer,
            older=older,
        )
        stores.append(Store(f"letta_updates/{i}", docs, (question,)))
    return stores


def _half(place: int) -> Half:
    return "tune" if place % 2 == 0 else "score"
