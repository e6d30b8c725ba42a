"""LoCoMo as stores: two people talk over many sessions; a turn is a memory, or a whole session is.

Tune: conversations 26, 30, 42. Score: 41, 43. Category 5 asks one person for what the other
said: nothing answers it.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

from bench.recall.raw import read_json
from bench.recall.schema import Half, Question, Store
from nacre.memory.recall.ranking.analysis import Doc

TUNE = ("conv-26", "conv-30", "conv-42")
ADVERSARIAL = 5
_TURN = re.compile(r"D\d+:\d+")
_SESSION = re.compile(r"session_(\d+)")


def turns(folder: Path) -> list[Store]:
    """A turn is a file, a session is a folder."""
    return [_store(path, by_session=False) for path in sorted(folder.glob("*.json.gz"))]


def sessions(folder: Path) -> list[Store]:
    """A session is a file."""
    return [_store(path, by_session=True) for path in sorted(folder.glob("*.json.gz"))]


def _store(path: Path, *, by_session: bool) -> Store:
    raw = read_json(path)
    name = path.name.removesuffix(".json.gz")
    talk = raw["conversation"]
    numbers = sorted(int(found[1]) for key in talk if (found := _SESSION.fullmatch(key)))
    docs = [doc for number in numbers for doc in _docs(talk, number, by_session=by_session)]
    half: Half = "tune" if name in TUNE else "score"
    known = frozenset(doc.id for doc in docs)
    asked = [_question(qa, known, half, by_session=by_session) for qa in raw["qa"]]
    level = "sessions" if by_session else "turns"
    return Store(f"locomo_{level}/{name}", tuple(docs), tuple(one for one in asked if one.gold))


def _docs(talk: dict[str, Any], number: int, *, by_session: bool) -> list[Doc]:
    when = _date(talk[f"session_{number}_date_time"])
    said = talk[f"session_{number}"]
    if by_session:
        body = "\n\n".join(f"{turn['speaker']}: {_words(turn)}" for turn in said)
        return [Doc(id=f"D{number}", when=when, body=body)]
    folder = f"session-{number:02d}"
    return [
        Doc(id=turn["dia_id"], folder=folder, order=i, when=when, author=turn["speaker"], body=_words(turn))
        for i, turn in enumerate(said)
    ]


def _words(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']}\n\n[shares {caption}]" if caption else str(turn["text"])


def _question(qa: dict[str, Any], known: frozenset[str], half: Half, *, by_session: bool) -> Question:
    evidence = (qa.get("audit") or {}).get("correct_evidence") or qa["evidence"]
    found = _TURN.findall(" ".join(evidence))
    gold = {turn.partition(":")[0] for turn in found} if by_session else set(found)
    return Question(
        id=qa["qid"],
        text=qa["question"],
        gold=frozenset(gold & known),
        kind=f"category {qa['category']}",
        half=half,
        is_answerable=qa["category"] != ADVERSARIAL,
    )


def _date(text: str) -> date:
    return datetime.strptime(text.split(" on ")[1], "%d %B, %Y").date()  # noqa: DTZ007 (a day has no zone)
