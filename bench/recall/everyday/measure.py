"""Which memories everyday messages get, on people that nothing was tuned on, through `recall()`.

Beside nacre: other rankers, each of which always shows its first five.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.recall import mem0_peer
from bench.recall.dense import Vectors
from bench.recall.everyday.people import NOW, EverydayMessage, Person
from bench.recall.peers import AgentFramework, build
from bench.recall.schema import Question, Store
from nacre.memory.recall.base import RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.ranking.analysis import Doc
from nacre.memory.recall.recall import recall
from nacre.memory.recall.semantic.meaning import SemanticIndex, has_model, packaged_encoder
from nacre.messages.blocks import JsonObject

AROUND = (
    "The import is done since this morning. {}",
    "Thanks, that helped, and the tests are green again. {} Then we can stop for today.",
    "before I forget: {} (not urgent)",
    'Traceback (most recent call last):\n  File "job.py", line 12, in <module>\n    main()\nKeyError: 7\n\n'
    "That is solved. {}",
    "{} Keep it brief, please, and leave the other files alone.",
)
Found = tuple[list[str], list[str]]
"""The ids of the attached memories, and of the ranked ones."""
Ask = Callable[[str], Found]


def measure_people(people: Sequence[Person], vectors: Vectors | None, peers: Sequence[str]) -> JsonObject:
    """Return the figures of nacre without and with vectors, and of the peers."""
    counts: dict[str, Counter[str]] = {}
    for person in people:
        with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
            for name, ask in _askers(person, Path(folder), vectors, peers).items():
                count = counts.setdefault(name, Counter())
                for message in person.messages:
                    count_message(count, person, message, ask)
    return {name: figures(count) for name, count in counts.items()}


def _askers(person: Person, folder: Path, vectors: Vectors | None, peers: Sequence[str]) -> dict[str, Ask]:
    directory = folder / "memory"
    directory.mkdir()
    ids = person.write(directory)
    words = LocalIndex(directory, folder / "words", writes=False)
    words._meaning = None
    found: dict[str, Ask] = {"nacre": _ours(words, ids)}
    if has_model():
        meaning = SemanticIndex(folder / "meaning", encoder=packaged_encoder(), writes=False)
        both = LocalIndex(directory, folder / "both", writes=False, meaning=meaning)
        found["nacre_embed"] = _ours(both, ids)
    docs = [
        Doc(id=one.id, name=one.name, description=one.description, body=f"{one.description}\n{one.body}")
        for one in person.memories
    ]
    store = Store(f"everyday/{person.name}", tuple(docs), (_question(""),))
    others = build(list(peers), store, vectors)
    if "agent_framework" in peers:
        others["agent_framework"] = AgentFramework(store, folder)
    if "mem0" in peers and vectors:
        others["mem0"] = mem0_peer.Mem0(store, folder / "mem0", vectors.numbers)
    for name, peer in others.items():
        found[name] = _always_five(peer)
    return found


def _ours(index: LocalIndex, ids: dict[str, str]) -> Ask:
    index.refresh()
    index.deepen(seconds=math.inf)

    def ask(text: str) -> Found:
        told = recall(RecallQuery(text=text, now=NOW), [index])
        return [ids[one.ranked.file] for one in told.picks], [ids[one.file] for one in told.ranked]

    return ask


def _always_five(peer: Callable[[Question], list[str]]) -> Ask:
    def ask(text: str) -> Found:
        first = peer(_question(text))[:5]
        return first, first

    return ask


def _question(text: str) -> Question:
    return Question(id="", text=text, gold=frozenset(), kind="", half="score")


def count_message(count: Counter[str], person: Person, message: EverydayMessage, ask: Ask) -> None:
    picks, ranked = ask(message.text)
    if not message.needed:
        count.update(none=1, in_vain=bool(picks))
        return
    language = "zh" if person.language == "zh" else "en"
    is_hit = bool(message.needed & set(picks))
    count.update(asked=1, attached=is_hit, ranked=bool(message.needed & set(ranked[:5])))
    count.update({f"asked_{language}": 1, f"attached_{language}": int(is_hit)})
    count.update(picked=len(picks), good=len((message.needed | message.helpful) & set(picks)))
    if message.stale:
        places = {name: place for place, name in enumerate(picks)}
        old = min((places[one] for one in message.stale if one in places), default=math.inf)
        new = min((places[one] for one in message.needed if one in places), default=math.inf)
        count.update(stale=1, stale_first=old < new)
    if message.kind == "direct":
        around = [ask(form.format(message.text))[0] for form in AROUND]
        count.update(around=len(around), wrapped=sum(bool(message.needed & set(one)) for one in around))


def figures(count: Counter[str]) -> JsonObject:
    def share(key: str, of: str) -> float:
        return round(count[key] / max(1, count[of]), 4)

    return {
        "messages": count["asked"] + count["none"],
        "attached": share("attached", "asked"),
        "attached_en": share("attached_en", "asked_en"),
        "attached_zh": share("attached_zh", "asked_zh"),
        "ranked": share("ranked", "asked"),
        "in_vain": share("in_vain", "none"),
        "precision": share("good", "picked"),
        "wrapped": share("wrapped", "around"),
        "stale_first": count["stale_first"],
        "stale_pairs": count["stale"],
    }
