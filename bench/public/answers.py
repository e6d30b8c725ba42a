"""Answers to questions about long conversations: `python -m bench.public.answers FILE --model NAME`.

FILE is a file of LongMemEval (`longmemeval_s.json`) or LoCoMo (`locomo10.json`), which you download under its
own licence. The sessions become memories, each question is answered with what the program attaches to it, and
a model judges the answer. It needs the key of the model and costs money: begin with `--limit 5`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.public.__main__ import RESULTS, load
from bench.public.adapter import SavedMemory, Turn, attached, overrides
from bench.public.adapters import ADAPTERS
from bench.public.tasks import opened
from nacre import Agent
from nacre.clock import SYSTEM_CLOCK
from nacre.errors import NacreError

ANSWER = "Answer the question from the memories alone, in one short sentence. If they do not say it, say so."
JUDGE = (
    "You compare an answer with the expected one. Reply with yes if it says the same thing or includes it, "
    "and with no otherwise. If the expected answer is that it is not known, yes means that the answer "
    "says so."
)
UNKNOWN = "This was never said; the right answer is that it is not known."
LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


@dataclass(frozen=True, slots=True)
class Item:
    """A question, its answer, and the conversation it is about."""

    id: str
    kind: str
    question: str
    answer: str
    asked: datetime
    turns: tuple[Turn, ...]


def items(path: Path) -> Iterator[Item]:
    """Yield the questions of a file of LongMemEval or LoCoMo; those of one conversation follow each other."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for one in data:
        yield from _longmemeval(one) if "haystack_sessions" in one else _locomo(one)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.public.answers", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", required=True, help="answers, such as anthropic:claude-sonnet-5-5")
    parser.add_argument("--judge", help="judges; default: the same model")
    parser.add_argument("--adapter", default="nacre", help=", ".join(ADAPTERS))
    parser.add_argument("--limit", type=int, default=0, help="so many questions, spread over the file")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    given = parser.parse_args(words)
    try:
        adapter = load(given.adapter)
    except (ImportError, SyntaxError, ValueError) as error:
        parser.error(f"--adapter {given.adapter}: {error}")
    if not overrides(adapter, "save", "search"):
        print(f"{given.adapter} keeps no memories: it cannot be asked", file=sys.stderr)
        return 1
    asked = _asked(given.file, parser)
    if given.limit:
        asked = asked[:: max(1, len(asked) // given.limit)][: given.limit]
    try:
        rows = list(_rows(adapter, asked, given.model, given.judge or given.model))
    except NacreError as error:
        print(f"{error}", file=sys.stderr)
        return error.exit_code
    result = {
        "program": adapter.name, "version": adapter.version(), "data": given.file.name,
        "model": given.model, "judge": given.judge or given.model,
        "date": SYSTEM_CLOCK.now().date().isoformat(), "machine": machine(), **_figures(rows),
        "answers": rows,
    }  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"answers.{adapter.name}.{given.file.stem}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{result['right']} of {result['questions']} right, ${result['cost_usd']}; {path}")
    return 0


def _asked(file: Path, parser: argparse.ArgumentParser) -> list[Item]:
    try:
        found = list(items(file))
    except OSError as error:
        parser.error(f"{file}: {error.strerror}")
    except (ValueError, LookupError, TypeError):
        found = []
    if not found:
        parser.error(f"{file} has no questions of LongMemEval or LoCoMo")
    return found


def _rows(adapter: Any, asked: Sequence[Item], model: str, judge: str) -> Iterator[dict[str, Any]]:
    """Answer and judge each question; a conversation is saved once for questions that follow each other."""
    at = 0
    while at < len(asked):
        turns = asked[at].turns
        with opened(adapter) as store:
            for turn in turns:
                text = f"{turn.role}: {turn.text}"
                store.save(SavedMemory(text=text, modified=turn.at))
            while at < len(asked) and asked[at].turns is turns:
                store.now = asked[at].asked
                yield _answered(
                    asked[at], [hit.text for hit in attached(store, asked[at].question)], model, judge
                )
                at += 1


def _answered(item: Item, memories: Sequence[str], model: str, judge: str) -> dict[str, Any]:
    shown = "\n\n".join(memories) or "(no memory)"
    prompt = f"Memories:\n\n{shown}\n\nIt is {item.asked:%Y-%m-%d}. Question: {item.question}"
    given = Agent(model, instructions=ANSWER).run_sync(prompt)
    asked = f"Question: {item.question}\nExpected: {item.answer}\nAnswer: {given.output}"
    judged = Agent(judge, instructions=JUDGE).run_sync(asked)
    is_right = judged.output.strip().casefold().startswith("yes")
    print(f"{item.id}: {'right' if is_right else 'wrong'}", file=sys.stderr)
    return {
        "id": item.id, "kind": item.kind, "memories": len(memories), "answer": given.output,
        "right": is_right,
        "cost_usd": (given.cost_usd or 0.0) + (judged.cost_usd or 0.0),
    }  # fmt: skip


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    asked = Counter(row["kind"] for row in rows)
    right = Counter(row["kind"] for row in rows if row["right"])
    cost = round(sum(row["cost_usd"] for row in rows), 4)
    return {
        "questions": len(rows), "right": sum(right.values()), "cost_usd": cost,
        "by_kind": {kind: f"{right[kind]} of {count}" for kind, count in sorted(asked.items())},
    }  # fmt: skip


def _longmemeval(one: dict[str, Any]) -> Iterator[Item]:
    turns = tuple(
        Turn(turn["role"], turn["content"], _moment(date))
        for date, session in zip(one["haystack_dates"], one["haystack_sessions"], strict=True)
        for turn in session
    )
    is_open = str(one["question_id"]).endswith("_abs")
    answer = UNKNOWN if is_open else str(one["answer"])
    kind, asked = str(one["question_type"]), _moment(one["question_date"])
    yield Item(str(one["question_id"]), kind, one["question"], answer, asked, turns)


def _locomo(one: dict[str, Any]) -> Iterator[Item]:
    talk = one["conversation"]
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    turns = tuple(
        Turn(turn["speaker"], turn["text"], _spoken(talk[f"session_{number}_date_time"]))
        for number in numbers
        for turn in talk[f"session_{number}"]
    )
    last = turns[-1].at
    for at, asked in enumerate(one["qa"]):
        answer = UNKNOWN if asked["category"] == 5 else str(asked["answer"])
        name = f"{one.get('sample_id', 'conversation')}-{at}"
        yield Item(name, LOCOMO_KINDS[asked["category"]], asked["question"], answer, last, turns)


def _moment(text: str) -> datetime:
    """`2023/05/30 (Tue) 23:40`."""
    return datetime.strptime(re.sub(r" \(\w+\)", "", text), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def _spoken(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023`."""
    return datetime.strptime(text.upper(), "%I:%M %p ON %d %B, %Y").replace(tzinfo=UTC)


if __name__ == "__main__":
    sys.exit(main())
