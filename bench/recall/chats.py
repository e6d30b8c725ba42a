"""BEAM and LongMemEval as stores: long talks of one person with an assistant.

BEAM: a message is a memory, a batch its folder. Tune: every other chat of each size.
LongMemEval: a session is a memory, each question with its own haystack, or all sessions in one store. Its
questions are split by the parity of their place; the merged store itself is shared by both halves.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

from bench.recall.raw import read_json, read_lines
from bench.recall.schema import Half, Question, Store
from nacre.memory.recall.ranking.analysis import Doc

BEAM_TUNE = (
    "100K-1", "100K-5", "100K-9", "100K-13", "100K-17",
    "500K-1", "500K-5", "500K-9", "500K-13", "1M-3", "1M-8",
)  # fmt: skip


def beam(folder: Path) -> list[Store]:
    """A message is a file, a batch is a folder."""
    return [_beam_store(path) for path in sorted(folder.glob("*.json.gz"))]


def _beam_store(path: Path) -> Store:
    raw = read_json(path)
    name = path.name.removesuffix(".json.gz")
    docs: list[Doc] = []
    when: date | None = None
    places: dict[int, int] = {}
    for message in raw["messages"]:
        with suppress(ValueError, TypeError):
            when = datetime.strptime(message["time_anchor"], "%B-%d-%Y").date()  # noqa: DTZ007 (a day)
        batch = message["batch"]
        places[batch] = places.get(batch, -1) + 1
        docs.append(
            Doc(
                id=str(message["id"]),
                folder=f"batch-{batch:02d}",
                order=places[batch],
                when=when,
                author=message["role"],
                body=message["content"],
            )
        )
    half: Half = "tune" if name in BEAM_TUNE else "score"
    asked = [_beam_question(f"{name}/{i}", one, half) for i, one in enumerate(raw["questions"])]
    return Store(f"beam_messages/{name}", tuple(docs), tuple(asked))


def _beam_question(name: str, raw: dict[str, Any], half: Half) -> Question:
    sources = raw.get("source_chat_ids")
    newer = older = frozenset[str]()
    if raw["ability"] == "knowledge_update" and isinstance(sources, dict):
        newer = frozenset(str(i) for i in sources.get("updated_info", []))
        older = frozenset(str(i) for i in sources.get("original_info", [])) - newer
    return Question(
        id=name,
        text=raw["question"],
        gold=frozenset(str(i) for i in raw["gold_message_ids"]),
        kind=raw["ability"],
        half=half,
        is_answerable=raw["ability"] != "abstention",
        newer=newer,
        older=older,
    )


def longmemeval_merged(folder: Path) -> list[Store]:
    """All sessions in one directory."""
    questions = read_lines(folder / "questions.jsonl.gz")
    dates = _dates(questions)
    docs = [_session(raw, dates[raw["session_id"]]) for raw in read_lines(folder / "sessions.jsonl.gz")]
    asked = tuple(_question(i, raw) for i, raw in enumerate(questions))
    return [Store("longmemeval_merged/all", tuple(docs), asked)]


def longmemeval_s(folder: Path) -> list[Store]:
    """Each question with its own haystack of about 47 sessions."""
    sessions = {raw["session_id"]: raw for raw in read_lines(folder / "sessions.jsonl.gz")}
    stores = []
    for i, raw in enumerate(read_lines(folder / "questions.jsonl.gz")):
        if raw["haystack"] == "S":
            dates = dict(zip(raw["haystack_session_ids"], raw["haystack_dates"], strict=True))
            docs = tuple(_session(sessions[key], _day(text)) for key, text in dates.items())
            stores.append(Store(f"longmemeval_s/{raw['question_id']}", docs, (_question(i, raw),)))
    return stores


def _dates(questions: list[dict[str, Any]]) -> dict[str, date]:
    """A session's day: that of the question it answers, else the first it is given."""
    dates: dict[str, date] = {}
    own: dict[str, date] = {}
    for raw in questions:
        answers = set(raw["answer_session_ids"])
        for key, text in zip(raw["haystack_session_ids"], raw["haystack_dates"], strict=True):
            (own if key in answers else dates).setdefault(key, _day(text))
    return dates | own


def _day(text: str) -> date:
    return datetime.strptime(text[:10], "%Y/%m/%d").date()  # noqa: DTZ007 (a day has no zone)


def _session(raw: dict[str, Any], when: date) -> Doc:
    body = "\n\n".join(f"{role}: {content}" for role, content in raw["turns"])
    return Doc(id=raw["session_id"], when=when, body=body)


def _question(place: int, raw: dict[str, Any]) -> Question:
    return Question(
        id=raw["question_id"],
        text=raw["question"],
        gold=frozenset(raw["answer_session_ids"]),
        kind=raw["question_type"],
        half="tune" if place % 2 == 0 else "score",
        asked=_day(raw["question_date"]),
        is_answerable=not raw["abstention"],
    )
