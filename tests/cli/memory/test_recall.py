"""`nacre recall` and `/recall`: what a turn would get and why, for programs and for people (R10)."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nacre.cli.chat.slash import SlashContext, run_slash
from nacre.cli.main import main
from nacre.cli.memory.recall import recalled_lines
from nacre.inspect.memory_json import recalled_json
from nacre.memory.format.entry import Entry
from nacre.memory.recall.base import AttachedMemory, Drift, LeftOut, RankedMemory, Recalled, Reference
from nacre.settings import Settings

Capture = pytest.CaptureFixture[str]
DRIFT = Drift(
    references=(
        Reference(kind="path", text="src/pear.py", exists=False),
        Reference(kind="symbol", text="parse_all", exists=True),
        Reference(kind="flag", text="--slow", exists=None),
    )
)


def picked(
    file: str, *, drift: Drift | None = None, age_days: int = 0, superseded_by: str = ""
) -> AttachedMemory:
    ranked = RankedMemory(
        entry=Entry(file=file, name="Pears"),
        directory=Path("/m"),
        score=3.456789,
        confidence=0.82,
        parts={"title": 1.2, "body": 2.256789, "date": 0.0},
        superseded_by=superseded_by,
    )
    return AttachedMemory(ranked=ranked, text="words", age_days=age_days, bytes=1_234, drift=drift)


RECALLED = Recalled(
    query="where is the parser of pears?",
    picks=(picked("pears.md", drift=DRIFT, age_days=3, superseded_by="new.md"), picked("plums.md")),
    left_out=(LeftOut("tea.md", "below the cut-off", 0.5), LeftOut("seen.md", "already seen")),
    took_ms=1.25,
)


def test_the_document_has_exactly_the_fields_that_programs_rely_on_and_more() -> None:
    """R10 and the contract of `recall --json`."""
    found: Any = json.loads(json.dumps(recalled_json(RECALLED)))
    assert list(found)[:4] == ["query", "picks", "left_out", "took_ms"]
    assert (found["query"], found["took_ms"]) == ("where is the parser of pears?", 1.25)
    first, second = found["picks"]
    assert list(first)[:6] == ["file", "score", "parts", "age_days", "bytes", "drift"]
    assert {key: first[key] for key in ("file", "score", "parts", "age_days", "bytes")} == {
        "file": "pears.md", "score": 3.4568, "parts": {"title": 1.2, "body": 2.2568, "date": 0.0},
        "age_days": 3, "bytes": 1_234,
    }  # fmt: skip
    assert first["drift"] == {
        "broken": False,
        "gone": ["src/pear.py"],
        "references": [
            {"kind": "path", "text": "src/pear.py", "exists": False},
            {"kind": "symbol", "text": "parse_all", "exists": True},
            {"kind": "flag", "text": "--slow", "exists": None},
        ],
    }
    assert (first["superseded_by"], first["path"], first["confidence"]) == ("new.md", "/m/pears.md", 0.82)
    assert (second["drift"], second["superseded_by"]) == (None, None)
    assert found["left_out"] == [
        {"file": "tea.md", "why": "below the cut-off", "score": 0.5},
        {"file": "seen.md", "why": "already seen", "score": 0.0},
    ]


def test_the_document_ranks_attached_and_omitted_memories_together() -> None:
    """R10: by confidence, then score, whatever order the memories are attached in."""
    beyond = LeftOut("beyond.md", "beyond five", 3.0, 0.82, Path("/m/beyond.md"))
    low = LeftOut("low.md", "below the cut-off", 9.0, 0.4, Path("/m/low.md"))
    found: Any = recalled_json(replace(RECALLED, left_out=(low, beyond)))
    order = [(one["file"], one["confidence"], one["attached"], one["why"]) for one in found["ranked"]]
    assert order == [
        ("pears.md", 0.82, True, None),
        ("plums.md", 0.82, True, None),
        ("beyond.md", 0.82, False, "beyond five"),
        ("low.md", 0.4, False, "below the cut-off"),
    ]
    assert found["ranked"][2]["path"] == "/m/beyond.md"
    assert len(recalled_json(replace(RECALLED, left_out=(low, beyond)), limit=3)["ranked"]) == 3  # type: ignore[arg-type]


def test_people_see_score_parts_age_size_drift_and_what_was_left_out() -> None:
    """R10."""
    assert recalled_lines(RECALLED) == [
        "2 memories for: where is the parser of pears?",
        "  pears.md  score 3.46 (title 1.20, body 2.26), 82% sure, 3 days old, 1.2k bytes",
        "    a newer one speaks of this, too: new.md",
        "    gone: src/pear.py",
        "    still there: parse_all",
        "    not looked up: --slow",
        "  plums.md  score 3.46 (title 1.20, body 2.26), 82% sure, today, 1.2k bytes",
        "left out:",
        "  tea.md  below the cut-off, score 0.50",
        "  seen.md  already seen, score 0.00",
        "took 1.2 ms",
    ]


@pytest.mark.parametrize(
    ("recalled", "lines"),
    [
        (Recalled(query="hm?"), ["no memory is relevant enough for: hm?", "took 0.0 ms"]),
        (Recalled(query="x", skipped="memory is off"), ["nothing was looked for: memory is off"]),
        (
            Recalled(query="x", problem="the model timed out"),
            ["no memory is relevant enough for: x", "problem: the model timed out", "took 0.0 ms"],
        ),
    ],
)
def test_nothing_relevant_skipped_and_failed_are_told_apart(recalled: Recalled, lines: Sequence[str]) -> None:
    """R2, R6, R9."""
    assert recalled_lines(recalled) == lines


def test_of_one_word_it_is_said_that_a_message_of_it_would_get_none() -> None:
    """R2, R10: what is shown is not what a turn would get."""
    note = "  (sent as a message, one word alone gets none: it says too little)"
    assert recalled_lines(replace(RECALLED, query="pears"))[1] == note
    assert note not in recalled_lines(RECALLED)


def test_names_and_queries_cannot_repaint_the_terminal_nor_fill_it() -> None:
    evil = replace(
        RECALLED.picks[0], ranked=replace(RECALLED.picks[0].ranked, entry=Entry(file="a\x1b[2J.md"))
    )
    references = tuple(Reference(kind="path", text=f"{n}.py", exists=False) for n in range(9))
    many = Recalled(
        query="why\n" * 100,
        picks=(replace(evil, drift=Drift(references=references)),),
        left_out=tuple(LeftOut(f"{n}.md", "beyond five") for n in range(30)),
    )
    lines = recalled_lines(many)
    assert all(line.isprintable() and len(line) < 120 for line in lines)
    assert lines[-2] == "  and 20 more; --json lists them"
    assert "    gone: 0.py, 1.py, 2.py, 3.py, 4.py, 4 more" in lines


def test_a_limit_bounds_picks_and_what_was_left_out() -> None:
    found: Any = recalled_json(RECALLED, limit=1)
    assert ([one["file"] for one in found["picks"]], len(found["left_out"])) == (["pears.md"], 1)
    assert "  and 1 more; --json lists them" in recalled_lines(RECALLED, limit=1)
    assert "  plums.md" not in "\n".join(recalled_lines(RECALLED, limit=1))


def test_a_score_that_is_no_number_is_still_json() -> None:
    ranked = replace(RECALLED.picks[0].ranked, score=math.nan, parts={"x": math.inf})
    found = recalled_json(replace(RECALLED, picks=(replace(RECALLED.picks[0], ranked=ranked),)))
    json.dumps(found, allow_nan=False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What recall is asked; patched because what it answers is none of the command's business."""
    heard: list[str] = []

    async def recall_once(settings: Settings, text: str, *, places: object = None) -> Recalled:
        heard.append(text)
        return replace(RECALLED, query=text)

    monkeypatch.setitem(sys.modules, "nacre.app.recall_once", SimpleNamespace(recall_once=recall_once))
    monkeypatch.setattr("nacre.cli.chat.slash.recall_once", recall_once)
    monkeypatch.chdir(tmp_path)
    return heard


def test_the_words_on_the_command_line_are_one_query(asked: list[str], capsys: Capture) -> None:
    """R10."""
    assert main(["recall", "where", "are", "pears?", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == recalled_json(replace(RECALLED, query="where are pears?"))
    assert main(["recall", "--limit", "0", "pears"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "2 memories for: pears"
    assert asked == ["where are pears?", "pears"]
    assert main(["recall"]) == 2


def test_in_a_chat_words_are_tried_without_being_said(asked: list[str], capsys: Capture) -> None:
    """R10: `/recall TEXT`; nothing of it goes into the conversation, which is not even looked at."""
    scene: Any = SimpleNamespace(ready=None, settings=None, run=asyncio.run, go_on=None)
    given: SlashContext = scene
    assert run_slash("/recall where are pears?", given) is None
    told = replace(RECALLED, query="where are pears?")
    assert capsys.readouterr().out.splitlines() == recalled_lines(told)
    assert asked == ["where are pears?"]
