"""LongMemEval's sessions and questions as this benchmark takes them, in two halves that share no session.

Questions stand in the order of the file: the first 60 % are for tuning, the rest for judging. A session
that any tuning question looks at, or whose evidence family one owns, is never judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from bench.recall.raw import read_lines

FOLDER = Path(__file__).parents[3] / "shared" / "data"
"""Beside the repository, never in it."""
KINDS = ("single-session-user", "single-session-preference", "knowledge-update")
TUNE_SHARE = 0.6
NO_DATE = datetime(2023, 6, 1, 12, tzinfo=UTC)

Half: TypeAlias = Literal["tune", "judge"]


@dataclass(frozen=True)
class Evidence:
    """One message that a question's answer rests on."""

    half: Half
    kind: str
    question: str
    answer: str
    session: str
    turn: int


@dataclass(frozen=True)
class Chats:
    """All of it."""

    sessions: dict[str, list[list[str]]]
    dates: dict[str, datetime]
    evidence: tuple[Evidence, ...]
    ordinary: dict[Half, tuple[str, ...]]
    """Sessions that no question is about, by half."""


def chats(folder: Path = FOLDER / "longmemeval") -> Chats:
    """The development set."""
    sessions = {raw["session_id"]: raw["turns"] for raw in read_lines(folder / "sessions.jsonl.gz")}
    questions = read_lines(folder / "questions.jsonl.gz")
    last = int(len(questions) * TUNE_SHARE)
    tuned = {family(key) for raw in questions[:last] for key in raw["haystack_session_ids"]}
    dates: dict[str, datetime] = {}
    evidence: list[Evidence] = []
    answering: set[str] = set()
    for place, raw in enumerate(questions):
        for key, text in zip(raw["haystack_session_ids"], raw["haystack_dates"], strict=True):
            dates.setdefault(key, moment(text))
        answering.update(raw["answer_session_ids"])
        half: Half = "tune" if place < last else "judge"
        evidence += [one for one in _evidence(raw, half, sessions) if _is_apart(one, tuned)]
    ordinary = sorted(set(sessions) - answering)
    halves: dict[Half, tuple[str, ...]] = {
        "tune": tuple(key for key in ordinary if family(key) in tuned),
        "judge": tuple(key for key in ordinary if family(key) not in tuned),
    }
    return Chats(sessions, dates, tuple(evidence), halves)


def family(session: str) -> str:
    """Evidence sessions of one story differ in the number at their end."""
    return re.sub(r"_\d+$", "", session) if session.startswith("answer_") else session


def moment(text: str) -> datetime:
    """`2023/05/30 (Tue) 23:40`."""
    found = re.fullmatch(r"(\d+)/(\d+)/(\d+) \(\w+\) (\d+):(\d+)", text)
    if found is None:
        return NO_DATE
    year, month, day, hour, minute = (int(part) for part in found.groups())
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def _evidence(raw: dict[str, object], half: Half, sessions: dict[str, list[list[str]]]) -> Iterator[Evidence]:
    turns = raw["evidence_turns"]
    if raw["abstention"] or raw["question_type"] not in KINDS or not isinstance(turns, dict):
        return
    for session, places in turns.items():
        for turn in places:
            if turn < len(sessions[session]) and sessions[session][turn][0] == "user":
                told = (str(raw["question_type"]), str(raw["question"]), str(raw["answer"]))
                yield Evidence(half, *told, session, turn)


def _is_apart(one: Evidence, tuned: set[str]) -> bool:
    return one.half == "tune" or family(one.session) not in tuned
