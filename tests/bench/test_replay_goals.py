"""Which settings count as better than another library, and which rows of an earlier run may stay."""

from __future__ import annotations

import pytest

from bench.replay import _cell
from bench.replay.cells import Cell, Row
from bench.replay.goals import beaten_by
from nacre.devtools.replay.schema import PolicyTotals, Used
from nacre.messages.blocks import JsonObject

PEER: JsonObject = {"policy": "a library", "input_usd": 10.0, "usable_pairs": 98.0, "usable_edits": 97.0}


@pytest.mark.parametrize(
    ("input_usd", "pairs", "edits", "is_better"),
    [
        (10.0, 98.0, 97.1, True),
        (9.0, 98.1, 97.0, True),
        (10.1, 99.0, 99.0, False),
        (9.0, 98.0, 97.0, False),
        (9.0, 99.0, 96.9, False),
    ],
)
def test_a_setting_is_better_if_it_costs_no_more_and_keeps_more_of_one_and_no_less_of_the_other(
    input_usd: float, pairs: float, edits: float, is_better: bool
) -> None:
    ours = {"policy": "ours", "input_usd": input_usd, "usable_pairs": pairs, "usable_edits": edits}
    cell = {"policies": [PEER, ours]}
    assert beaten_by(cell, "a library", ["ours", "not measured"]) == (["ours"] if is_better else [])
    assert beaten_by(cell, "not installed", ["ours"]) == []


def test_rows_of_an_earlier_run_stay_if_append_only_comes_out_equal() -> None:
    cell = Cell("claude-opus-5-5", 200_000)
    none = Row("none", PolicyTotals(requests=1, cost_usd=4.0, used=Used(pairs=4, pairs_kept=4)), {})
    ours = Row("ours", PolicyTotals(requests=1, cost_usd=2.0, used=Used(pairs=4, pairs_kept=3)), {})
    rows = {"none": none, "ours": ours}
    earlier = [{**none.figures(4.0)}, {"policy": "ours", "input_usd": 3.0}, PEER]
    found = _cell(cell, rows, earlier)["policies"]
    assert isinstance(found, list)
    assert [(row["policy"], row["input_usd"]) for row in found if isinstance(row, dict)] == [
        ("none", 4.0),
        ("ours", 2.0),
        ("a library", 10.0),
    ]
    with pytest.raises(ValueError, match="append-only changed"):
        _cell(cell, rows, [{**none.figures(4.0), "input_usd": 4.01}])
