"""Whether the evidence is inside what recall shows of a long memory, on LongMemEval.

A pool of 1,500 sessions, each a file: all that answer a question, and others. A question counts as answered
when half of one of its evidence turns, by characters of its sentences, is in the text that is attached.
`python -m bench.recall.shown` prints the shares.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from bench.recall.chats import longmemeval_merged
from bench.recall.ours import Ours
from bench.recall.raw import read_lines
from bench.recall.schema import Store
from nacre.memory.recall.excerpt import excerpt
from nacre.memory.recall.recall import recall
from nacre.messages.blocks import JsonObject

DATA = Path(__file__).parents[3] / "shared" / "data"
POOL = 1_500
ENOUGH = 0.5
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def measure(data: Path) -> JsonObject:
    """Return how often a right session is attached, and how often its evidence is in the text."""
    folder = data / "longmemeval"
    if not folder.is_dir():
        return {"skipped": f"there is no data in {folder}"}
    raw = {one["question_id"]: one for one in read_lines(folder / "questions.jsonl.gz")}
    turns = {one["session_id"]: one["turns"] for one in read_lines(folder / "sessions.jsonl.gz")}
    store = _pool(longmemeval_merged(folder)[0])
    asked = [
        one for one in store.questions if one.is_answerable and any(raw[one.id]["evidence_turns"].values())
    ]
    attached = in_start = shown = 0
    with tempfile.TemporaryDirectory() as scratch:
        ours = Ours(store, Path(scratch))
        for question in asked:
            picks = recall(ours.query(question), [ours.index]).picks
            found = {ours.written.id_of[one.ranked.file]: one for one in picks}
            right = {name: one for name, one in found.items() if name in question.gold}
            evidence = {
                name: [turns[name][turn][1] for turn in raw[question.id]["evidence_turns"].get(name, ())]
                for name in right
            }
            starts = {name: excerpt("\n\n".join(text for _, text in turns[name])).text for name in right}
            attached += bool(right)
            in_start += any(_holds(starts[name], one) for name in right for one in evidence[name])
            shown += any(_holds(right[name].text, one) for name in right for one in evidence[name])
    n = len(asked)
    return {
        "questions": n,
        "attached": round(attached / n, 3),
        "evidence_in_start": round(in_start / n, 3),
        "evidence_shown": round(shown / n, 3),
    }


def _pool(store: Store) -> Store:
    gold = frozenset[str]().union(*(one.gold for one in store.questions))
    right = [doc for doc in store.docs if doc.id in gold]
    others = [doc for doc in store.docs if doc.id not in gold]
    room = POOL - len(right)
    return Store("longmemeval_pool/all", (*right, *others[:: len(others) // room][:room]), store.questions)


def _holds(text: str, turn: str) -> bool:
    plain = " ".join(text.split())
    sentences = [" ".join(one.split()) for one in _SENTENCE.split(turn)]
    held = sum(len(one) for one in sentences if one in plain)
    return held >= ENOUGH * max(1, sum(map(len, sentences)))


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA), indent=2))
