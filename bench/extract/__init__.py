"""What the extractor without a model finds, and how much is worth keeping: `python -m bench.run extract`.

Statements of our own, labelled and held out by conversation; recall over the evidence messages of
LongMemEval, by words; precision by hand, on labels of our own; Letta's facts as things to remember; a made-up
sample with texts of our own; the time of one turn. The public sets lie beside the repository, never in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.extract.chats import FOLDER, Chats, chats
from bench.extract.judged import labels, outputs, precision
from bench.extract.recalled import recalled
from bench.machine import bar, spread
from bench.recall.raw import read_lines
from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.messages.blocks import JsonObject
from nacre.messages.facts import UserQuote

MADE_UP = Path(__file__).parent / "made_up.jsonl"
AT = datetime(2024, 5, 2, 9, tzinfo=UTC)
MIN_RECALL, MIN_PRECISION, MAX_TURN_MS = 0.35, 0.9, 5.0
MIN_STATEMENT_PRECISION, MIN_STATEMENT_RECALL, MIN_STATEMENT_KIND = 0.95, 0.5, 0.85
LAST_SAMPLE = "fourth"
HEAD = """# Extraction without a model

Written by `python -m bench.run extract`; how stands in `bench/extract/`. Recall: of the messages that answers
of LongMemEval rest on and that hold words of the answer, those from which one extracted text holds at least
half of these words (`recall_of_all`: of all evidence messages; `with_question_terms`: where a message holds
no word of the answer, those of the question). Precision: labels by hand on outputs of ordinary sessions of
the other part, given by the patterns that the classifier replaced; of these, those that it still gives count.
Statements of `sentences.txt` are classified by weights that never saw their conversation.
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    data: Path | None = FOLDER
    """None: only what is made up."""
    messages: int = 4_000
    """That are timed."""
    folds: int = 10
    """Parts of the labelled statements that are held out in turn; 0: not measured."""


FULL = Sizes()
TINY = Sizes(data=None, messages=20, folds=0)


def measure(sizes: Sizes) -> JsonObject:
    if sizes.data is not None and not (sizes.data / "longmemeval").is_dir():
        return {"skipped": "the public sets are not beside the repository"}
    made_up = _made_up()
    figures: dict[str, Any] = {
        "made_up": made_up,
        "statements": {},
        "recall": {},
        "precision": {},
        "letta": {},
    }
    bars = [bar("made-up messages read as they should be", made_up["right"], at_least=1.0)]
    texts = [row["text"] for row in _rows()]
    if sizes.folds:
        from bench.extract.train import statement_figures  # needs numpy

        figures["statements"] = statement_figures(sizes.folds)
        bars += _statement_bars(figures["statements"])
    if sizes.data is not None:
        read = chats(sizes.data / "longmemeval")
        figures["recall"] = {half: recalled(read, half) for half in ("tune", "judge")}
        figures["precision"] = precision(list(outputs(read)), labels())
        figures["letta"] = _letta(sizes.data / "letta_filesystem")
        texts = _said(read)
        bars += _bars(figures)
    figures["turn"] = _timed(texts[: sizes.messages])
    slow = round(figures["turn"]["p99_us"] / 1000, 2)
    return {**figures, "bars": [*bars, bar("one turn, p99 ms of the processor", slow, at_most=MAX_TURN_MS)]}


def pages(figures: JsonObject) -> dict[str, str]:
    """The figures for people."""
    told: Any = figures
    out = [HEAD, "| | tune | judge |", "|---|---|---|"]
    recall = told["recall"]
    for key in ("messages", "bearing", "recall", "recall_of_all", "recall_with_question_terms", "by_kind"):
        out.append(f"| {key} | {recall['tune'][key]} | {recall['judge'][key]} |")
    out += [
        "",
        "| sample | judged | as judged | still given | of these right | wrong, as judged |",
        "|---" * 6 + "|",
    ]
    for name, one in told["precision"].items():
        if isinstance(one, dict):
            wrong = ", ".join(f"{reason} {count}" for reason, count in one["wrong"].items())
            share = f"{one['as_judged']:.1%} | {one['judged'] - one['gone']} | {one['precision']:.1%}"
            out.append(f"| {name} | {one['judged']} | {share} | {wrong} |")
    out += ["", f"Held-out statements: {told['statements']}."]
    out += ["", f"Letta's facts: {told['letta']}. Made up: {told['made_up']}. One turn: {told['turn']}."]
    return {"extract.md": "\n".join(out) + "\n"}


def _bars(figures: dict[str, Any]) -> list[JsonObject]:
    recall, judged = figures["recall"]["judge"]["recall"], figures["precision"][LAST_SAMPLE]["precision"]
    return [
        bar("recall of answer-bearing messages, judge part", recall, at_least=MIN_RECALL),
        bar("precision of what is still given of the last sample", judged, at_least=MIN_PRECISION),
    ]


def _statement_bars(found: dict[str, Any]) -> list[JsonObject]:
    return [
        bar("held-out statements kept, precision", found["precision"], at_least=MIN_STATEMENT_PRECISION),
        bar("held-out statements kept, recall", found["recall"], at_least=MIN_STATEMENT_RECALL),
        bar("held-out statements kept, right kind", found["right_kind"], at_least=MIN_STATEMENT_KIND),
    ]


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in MADE_UP.read_text(encoding="utf-8").splitlines()]


def _made_up() -> dict[str, Any]:
    rows = _rows()
    wrong = [row["text"] for row in rows if _texts(row["text"]) != row["facts"]]
    return {"messages": len(rows), "right": round(1 - len(wrong) / len(rows), 3), "wrong": wrong}


def _letta(folder: Path) -> dict[str, Any]:
    """Facts about other people: kept when the person asks for it, never by themselves."""
    rows = read_lines(folder / "core_memory_read.jsonl.gz")
    facts = sorted({fact for row in rows for fact in row["agent_args"]["extra"]["facts"]})
    kept = sum(_texts(f"Please remember that {fact}") == [fact] for fact in facts)
    return {
        "facts": len(facts),
        "kept_when_asked": round(kept / len(facts), 3),
        "kept_unasked": sum(bool(_texts(fact)) for fact in facts),
    }


def _texts(text: str) -> list[str]:
    return [one.text for one in stated_facts([UserQuote("r", AT, text)], zone=UTC) if not one.is_weak]


def _said(read: Chats) -> list[str]:
    """Every message of a person in the part that is judged, in the order of the sessions' names."""
    return [text for key in read.ordinary["judge"] for role, text in read.sessions[key] if role == "user"]


def _timed(texts: Sequence[str]) -> JsonObject:
    _texts("I am a reader. 我是"), _texts("我是一名读者")  # The tables are read at the first use.
    times = []
    for text in texts:
        before = time.process_time_ns()
        _texts(text)
        times.append(time.process_time_ns() - before)
    return spread(times)
