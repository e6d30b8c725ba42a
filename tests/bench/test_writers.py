"""A sample of the bench of models that lie: none of their lies lands, honest edits do (D6, E9)."""

from __future__ import annotations

import json
from pathlib import Path

from bench.writers import RESULT, STATEMENTS, dreams, empty_memory, statements


async def test_of_a_sample_of_lies_none_lands_and_honest_edits_do() -> None:
    found = await dreams(every=24)
    assert found["lies_landed"] == 0, found
    assert found["honest_landed"] == found["honest"], found


def test_the_recorded_run_is_of_all_of_them() -> None:
    told = json.loads(RESULT.read_text(encoding="utf-8"))["dream"]
    assert told["lies"] >= 300 and told["lies_landed"] == 0
    assert told["honest_landed"] >= 0.98 * told["honest"]


def test_true_statements_about_chats_land_and_most_lies_are_refused(tmp_path: Path) -> None:
    """The second file was measured before the rules had seen it: 82 % refused."""
    memory = empty_memory(tmp_path)
    for path, least in zip(STATEMENTS, (0.95, 0.82), strict=True):
        found = statements(path, memory)
        assert found["statements"] == 60
        assert found["true_landed"] == 60, found
        assert found["true_landed_at_once"] >= 0.9 * 60, found
        assert found["lies_refused"] >= least * 60, found
