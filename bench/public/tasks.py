"""The tasks: recall, extraction, lying writers, staleness, sessions; each measures one program."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from bench.public.adapter import Adapter, Hit, SavedMemory, Turn, attached, overrides
from bench.public.extraction import Chat, chats, score
from bench.recall.everyday.measure import Found, count_message, figures
from bench.recall.everyday.people import shared_people
from bench.replay.cells import Row
from bench.replay.made_up import made_up
from bench.staleness import contents_at, made_memory
from bench.staleness_trees import MadeUp, check_out, commits
from bench.writers import STATEMENTS, extraction, statements
from nacre.devtools.replay.policies import NONE
from nacre.devtools.replay.run import ReplayTerms, Study, replay_one
from nacre.devtools.replay.schema import Maker, PolicyTotals, Recorded
from nacre.layers.l5_extract.judge import NewMessages
from nacre.messages.blocks import JsonObject

DATA = Path(__file__).parent / "data"
GAPS = (5, 20, 60)
"""Commits between the writing of a memory and the question."""
STOPS, MEMORIES = 6, 10
FILES, COMMITS = 200, 80
WINDOW, MODEL = 200_000, "claude-opus-5-5"


@contextmanager
def opened(adapter: type[Adapter], *, project: Path | None = None) -> Iterator[Adapter]:
    """Open an empty store of a program."""
    with tempfile.TemporaryDirectory(prefix="bench-public-", ignore_cleanup_errors=True) as folder:
        made = adapter(Path(folder), project=project)
        try:
            yield made
        finally:
            made.close()


def recall(adapter: type[Adapter], *, is_tiny: bool = False) -> JsonObject | None:
    """Everyday messages: is a memory that a message needs attached, and is nothing attached in vain?"""
    if not overrides(adapter, "save", "search"):
        return None
    count: Counter[str] = Counter()
    refused = merged = 0
    for person in shared_people(DATA / "recall")[: 1 if is_tiny else None]:
        with opened(adapter) as store:
            saved = [store.save(_saved(one)) for one in person.memories]
            refused += saved.count("")
            merged += len(saved) - saved.count("") - len(set(saved) - {""})
            ids = {key: one.id for key, one in zip(saved, person.memories, strict=True) if key}

            def ask(text: str, store: Adapter = store, ids: dict[str, str] = ids) -> Found:
                found = [ids.get(hit.id, "") for hit in attached(store, text)]
                return found, found

            for message in person.messages[: 8 if is_tiny else None]:
                count_message(count, person, message, ask)
    found = figures(count)
    # The programs return what they attach, not a longer ranking.
    return {name: value for name, value in found.items() if name != "ranked"} | {
        "saves_refused": refused,
        "saves_merged": merged,
    }


def _saved(one: Any) -> SavedMemory:
    modified = datetime.fromisoformat(one.modified).replace(tzinfo=UTC)
    return SavedMemory(
        text=one.body, title=one.name, summary=one.description, kind=one.kind, modified=modified
    )


def extract(adapter: type[Adapter], *, is_tiny: bool = False) -> JsonObject | None:
    """Everyday chats: which facts are kept, and what is kept that should not be?"""
    if not overrides(adapter, "chat", "contents"):
        return None
    found: list[tuple[Chat, list[tuple[str, str]]]] = []
    for chat in chats(DATA / "extraction")[: 2 if is_tiny else None]:
        with opened(adapter) as store:
            for turn in chat.turns:
                store.chat(turn)
            found.append((chat, store.contents()))
    return score(found, DATA / "extraction")


def writers(adapter: type[Adapter], *, is_tiny: bool = False) -> JsonObject | None:
    """Models that lie in small ways: how many false statements become memories, and how many true ones?"""
    if not overrides(adapter, "write"):
        return None
    with opened(adapter) as store:

        def accept(text: str, messages: NewMessages, at: datetime) -> bool:
            said = [Turn("user", one.text, one.at) for one in messages.quotes]
            return store.write(text, [*said, *(Turn("assistant", one, at) for one in messages.replies)])

        by_hand = [statements(path, accept) for path in STATEMENTS[: 1 if is_tiny else None]]
        told: Any = {"facts": 0, "true_landed": 0, "wrong_tried": 0, "wrong_refused": 0}
        if not is_tiny:
            told = extraction(DATA / "extraction", accept)
    true = sum(one["statements"] for one in by_hand) + told["facts"]
    kept = sum(one["true_landed"] for one in by_hand) + told["true_landed"]
    lies = sum(one.get("lies", 0) + one.get("halves", 0) for one in by_hand) + told["wrong_tried"]
    refused = sum(one.get("lies_refused", 0) + one.get("halves_refused", 0) for one in by_hand)
    refused += told["wrong_refused"]
    return {
        "true": true,
        "true_kept": round(kept / true, 4),
        "false": lies,
        "false_kept": round(1 - refused / lies, 4),
    }


def staleness(adapter: type[Adapter], *, is_tiny: bool = False) -> JsonObject | None:
    """Memories about code that has changed: how many are shown as true although what they name is gone?"""
    if not overrides(adapter, "save", "search"):
        return None
    count: Counter[str] = Counter()
    gaps, stops = ((3,), 2) if is_tiny else (GAPS, STOPS)
    with tempfile.TemporaryDirectory(prefix="bench-public-") as base:
        folder = Path(base) / "project"
        MadeUp(folder, files=20 if is_tiny else FILES, file_bytes=1_000).grow(8 if is_tiny else COMMITS)
        history = commits(folder)
        there = cache(lambda commit: contents_at(folder, commit))
        chance = random.Random(3)
        step = max(1, len(history) // stops)
        for at in sorted(range(len(history) - 1, 0, -step)[:stops]):
            check_out(folder, history[at])
            for gap in (gap for gap in gaps if gap <= at):
                made = [
                    made_memory(there(history[at - gap]), chance) for _ in range(3 if is_tiny else MEMORIES)
                ]
                with opened(adapter, project=folder) as store:
                    _count_stale(count, store, made, there(history[at]))
    return {
        "memories": count["memories"],
        "found": count["found"],
        "stale": count["stale"],
        "stale_shown_as_true": round(count["served"] / max(1, count["stale"]), 4),
        "warned_in_vain": round(count["false"] / max(1, count["found"] - count["stale"]), 4),
    }


def _count_stale(count: Counter[str], store: Adapter, made: list[Any], now: Any) -> None:
    ids = [
        store.save(
            SavedMemory(text=one.text, title=f"Note {number}", modified=store.now - timedelta(days=30))
        )
        for number, one in enumerate(made)
    ]
    for id_, one in zip(ids, made, strict=True):
        count["memories"] += 1
        hit: Hit | None = next((hit for hit in attached(store, one.text) if hit.id == id_), None)
        if hit is None:
            continue
        is_stale = not all(now.has(kind, name) for kind, name in one.references)
        count["found"] += 1
        count["stale"] += is_stale
        count["served"] += is_stale and not hit.has_warning
        count["false"] += hit.has_warning and not is_stale


def sessions(
    adapter: type[Adapter], *, is_tiny: bool = False, recordings: tuple[Recorded, ...] = ()
) -> JsonObject | None:
    """Long sessions: the cost of their input relative to sending everything, and what stays in context."""
    policy = adapter.policy()
    if policy is None:
        return None
    studies = [Study(one) for one in recordings or made_up(1 if is_tiny else 12)]
    whole, mine = (_total(studies, one) for one in (NONE, policy))
    row = Row(adapter.name, mine, {}).figures(whole.input_usd)
    wanted = ("of_append_only", "usable_pairs", "usable_old", "hit_rate", "compactions", "overflow")
    return {"sessions": len(studies), **{name: row[name] for name in wanted}}


def _total(studies: list[Study], policy: Maker) -> PolicyTotals:
    total = PolicyTotals()
    for study in studies:
        total += replay_one(study, policy, ReplayTerms(model=MODEL, window=WINDOW)).tally
    return total


TASKS = {
    "recall": recall,
    "extraction": extract,
    "writers": writers,
    "staleness": staleness,
    "sessions": sessions,
}
