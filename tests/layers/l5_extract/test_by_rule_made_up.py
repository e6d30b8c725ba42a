"""A sample of our own, read as a person would read it, and the judge's labels, which quote nobody (E10)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.messages.facts import UserQuote

FOLDER = Path(__file__).parents[3] / "bench" / "extract"
SAMPLE = [json.loads(line) for line in (FOLDER / "made_up.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row["text"][:40])
def test_a_made_up_message_gives_what_a_person_would_keep(row: dict[str, object]) -> None:
    words = UserQuote("r", datetime(2024, 5, 2, 9, tzinfo=UTC), str(row["text"]))
    assert [one.text for one in stated_facts([words], zone=UTC) if not one.is_weak] == row["facts"]


def test_the_labels_hold_places_and_reasons_and_no_text_of_the_data() -> None:
    rows = [json.loads(line) for line in (FOLDER / "judged.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) > 300
    assert {tuple(row) for row in rows} == {("sample", "session", "turn", "digest", "ok", "reason")}
    assert all(len(row["digest"]) == 12 for row in rows)
    assert len({row["reason"] for row in rows}) < 12
