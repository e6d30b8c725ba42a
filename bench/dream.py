"""What a dream by rule costs at 1,000 and 10,000 memories, from lock to commit, and what it gets right (D8).

Memories are made up. Some are there twice to the word, some once more in other words, some once more with one
number or name changed, so that they contradict and must stay; a fifth says a relative date. The dream is the
whole one, on disk: lock, copy, rules, checks with the questions of the recall gate, one commit.
"""

from __future__ import annotations

import asyncio
import random
import tarfile
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.machine import bar
from nacre.layers.l6_dream.by_rule import DreamRules
from nacre.layers.l6_dream.dream import DreamConfig, DreamOptions, DreamResult, dream
from nacre.memory.checks.audit import audit
from nacre.memory.dates.relative import resolve_dates
from nacre.memory.files.location import Location
from nacre.messages.blocks import Json, JsonObject

LIMITS_SECONDS = {1_000: 5.0, 10_000: 60.0}
"""Of the processor, for one dream over so many memories."""
TWICE, REWORDED, CONTRADICTING, DATED = 0.04, 0.03, 0.03, 0.2
"""Shares of the memories that are made so."""
VOCABULARY = 6_000
FOLDERS = Path(__file__).parents[2] / "shared" / "data" / "claude_memory"
"""Memory folders of other people, beside the repository; left out where they are not there."""
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
FILLERS = ("really", "usually", "mostly", "simply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    memories: tuple[int, ...] = (1_000, 10_000)


FULL = Sizes()
TINY = Sizes(memories=(60,))


@dataclass(frozen=True, slots=True)
class Made:
    """A directory's files, and what each says: two of one fact are one memory, all others are not."""

    files: dict[str, bytes]
    facts: dict[str, int]

    @property
    def spare(self) -> int:
        """Memories too many."""
        return len(self.facts) - len(set(self.facts.values()))


def measure(sizes: Sizes = FULL) -> JsonObject:
    rows = [_row(count) for count in sizes.memories]
    bars: list[Json] = [
        bar(
            f"seconds of the processor for {row['memories']} memories",
            _number(row["cpu_seconds"]),
            at_most=limit,
        )
        for row in rows
        if (limit := LIMITS_SECONDS.get(int(_number(row["memories"])))) is not None
    ]
    for row in rows:
        bars.append(bar("share of memories that say the same, merged", _number(row["merged"]), at_least=0.95))
        bars.append(bar("contradicting memories merged", _number(row["wrongly_merged"]), at_most=0))
    return {"rows": [*rows], "folders": real_folders(), "bars": bars}


def real_folders() -> JsonObject:
    """What an audit finds in folders that people's agents wrote, before a dream by rule and after it."""
    if not FOLDERS.is_dir():
        return {}
    before, after = Counter[str](), Counter[str]()
    scores: list[Json] = []
    memories = 0
    for archive in sorted(FOLDERS.glob("*.tar.gz")):
        with tempfile.TemporaryDirectory() as folder:
            location = _place(Path(folder))
            _unpack(archive, location.directory)
            then = audit(location.directory)
            done = asyncio.run(
                dream(
                    DreamConfig(location=location, rules=DreamRules(now=NOW, resolve=resolve_dates)),
                    DreamOptions(),
                )
            )
            now = audit(location.directory)
        before, after, memories = (
            before + Counter(then.counts),
            after + Counter(now.counts),
            memories + then.memories,
        )
        scores.append([then.score, now.score, done.state.status])
    found: JsonObject = {"before": dict(before.most_common()), "after": dict(after.most_common())}
    return {"memories": memories, "findings": found, "scores": scores}


def _unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as packed:
        for member in packed:
            _, folder, file = member.name.partition("memory/")
            source = (
                packed.extractfile(member) if member.isfile() and folder and file.endswith(".md") else None
            )
            if source is not None:
                (directory / file).parent.mkdir(parents=True, exist_ok=True)
                (directory / file).write_bytes(source.read())


def _place(base: Path) -> Location:
    location = Location(
        directory=base / "memory", source="default", history=base / "history.git", cache=base / "cache"
    )
    location.directory.mkdir()
    return location


def _row(count: int) -> JsonObject:
    made = made_up(count, random.Random(count))
    with tempfile.TemporaryDirectory() as folder:
        location = _place(Path(folder))
        for file, data in made.files.items():
            (location.directory / file).write_bytes(data)
        night = DreamConfig(location=location, rules=DreamRules(now=NOW, resolve=resolve_dates))
        wall, processor = time.perf_counter(), time.process_time()
        done = asyncio.run(dream(night, DreamOptions(is_unlimited=True)))
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    assert done.state.status == "completed", done.state.error
    return _figures(count, made, done, wall=wall, processor=processor)


def _figures(count: int, made: Made, done: DreamResult, *, wall: float, processor: float) -> JsonObject:
    assert done.copy is not None
    into = {step.file: step.into for step in done.copy.steps if step.action == "removed"}
    right = sum(made.facts[file] == made.facts[heir] for file, heir in into.items())
    return {
        "memories": count,
        "seconds": round(wall, 2),
        "cpu_seconds": round(processor, 2),
        "changed": len(done.state.changes),
        "merged": round(right / max(1, made.spare), 3),
        "wrongly_merged": len(into) - right,
    }


def made_up(count: int, chance: random.Random) -> Made:
    """So many memories, in an order that tells nothing."""
    words = [_word(chance) for _ in range(VOCABULARY)]
    weights = [1 / (rank + 5) for rank in range(VOCABULARY)]
    files: dict[str, bytes] = {}
    facts: dict[str, int] = {}
    for number in range(count):
        name, draw = f"m{number:05}.md", chance.random()
        body = _body(words, weights, chance)
        other = f"m{chance.randrange(max(1, number)):05}.md"
        earlier, facts[name] = files.get(other), number
        if earlier is not None and draw < TWICE:
            files[name], facts[name] = earlier, facts[other]
        elif earlier is not None and draw < TWICE + REWORDED:
            files[name], facts[name] = _reworded(earlier, chance), facts[other]
        elif earlier is not None and draw < TWICE + REWORDED + CONTRADICTING:
            files[name] = _contradicted(earlier, chance)
        else:
            files[name] = _file(body, chance)
    return Made(files, facts)


def _reworded(data: bytes, chance: random.Random) -> bytes:
    """The same with a word more in its last sentence but one."""
    head, mark, rest = data.rpartition(b" the ")
    return head + mark + chance.choice(FILLERS).encode() + b" " + rest


def _contradicted(data: bytes, chance: random.Random) -> bytes:
    """The same with another number in its last sentence."""
    head, mark, rest = data.rpartition(b" is ")
    return head + mark + str(chance.randrange(1_000, 9_999)).encode() + b"." + rest.partition(b".")[2]


def _file(body: str, chance: random.Random) -> bytes:
    title = " ".join(body.split()[1:4])
    dated = "\nThis was agreed yesterday.\n" if chance.random() < DATED else "\n"
    head = (
        f"name: {title}\ndescription: {body.partition('.')[0]}\ntype: project\nmodified: 2026-03-02T10:00:00Z"
    )
    return f"---\n{head}\n---\n\n{body}{dated}".encode()


def _body(words: list[str], weights: list[float], chance: random.Random) -> str:
    sentences = [
        "The {} {} {} {} {} {} the {} {} {} {} {}.".format(*chance.choices(words, weights, k=11))
        for _ in range(chance.randrange(3, 9))
    ]
    return " ".join(sentences) + f" The limit of {chance.choice(words)} is {chance.randrange(10, 999)}."


def _word(chance: random.Random) -> str:
    return "".join(
        chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(chance.randrange(2, 5))
    )


def _number(value: Json) -> float:
    assert isinstance(value, int | float)
    return float(value)
