"""Chats in which a later message corrects an earlier one: no memory keeps only the old value (E10, M14c)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.layers.l5_extract.extract import changes_by_rule, save_changes
from nacre.layers.l5_extract.judge import Judge, NewMessages
from nacre.memory.memory import Memory
from nacre.messages.facts import UserQuote
from nacre.testing import FrozenClock
from tests.layers.l5_extract.test_extract import BY_USER

CHATS = Path(__file__).parents[3] / "bench" / "extract" / "corrections.jsonl"
ROWS = [json.loads(line) for line in CHATS.read_text(encoding="utf-8").splitlines()]
AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
"""A Wednesday."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["said"][-1])
async def test_what_was_corrected_is_not_told_without_its_successor(
    row: dict[str, str | list[str]], tmp_path: Path, clock: FrozenClock
) -> None:
    (tmp_path / "project").mkdir()
    memory = await Memory.open(
        tmp_path / "project", environ={"NACRE_HOME": str(tmp_path / "home")}, clock=clock
    )
    was_kept = False
    for number, message in enumerate(row["said"]):
        words = [UserQuote(f"m{number}", AT + timedelta(minutes=number), message)]
        judge = Judge(messages=NewMessages(quotes=words), session="s", now=AT, zone=UTC, origins=BY_USER)
        new = await changes_by_rule(memory, stated_facts(words, zone=UTC), judge, session="s")
        await save_changes(new.changes, removed=new.removed, mode="auto", session="s")
        was_kept = was_kept or (number == 0 and bool(new.changes))
    bodies = [one.body for one in await memory.list()]
    assert not [one for one in bodies if row["old"] in one and row["new"] not in one]
    assert not was_kept or any(row["new"] in one for one in bodies), bodies
