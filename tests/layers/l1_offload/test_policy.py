"""Which results go to disk (C4, C5): a table of thresholds, and a round that must fit."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l1_offload.policy import POINTER_CHARS, FreshResult, OffloadSettings, choose, threshold

S = OffloadSettings(max_chars=8_000, per_tool={"Bash": 20_000, "Read": 5, "Tiny": 500})
STAYS = S.preview_bytes + POINTER_CHARS


@pytest.mark.parametrize(
    ("tool", "own", "expected"),
    [
        ("Read", None, inf),  # bounds itself, whatever a setting says of it
        ("Mine", inf, inf),
        ("Bash", None, 20_000),
        ("Bash", 100, 20_000),  # a setting for the tool decides before the tool's own word
        ("Grep", None, 8_000),
        ("Grep", 3_000, 3_000),
        ("Grep", 90_000, 8_000),
        ("Agent", None, 30_000),  # a report costs all of a sub-agent's work to have again
        ("Task", 9_000, 9_000),
    ],
)
def test_the_threshold_follows_the_order_of_the_rule(tool: str, own: float | None, expected: float) -> None:
    """C4: declared none, setting per tool, the smaller of the tool's own and the default, the default."""
    assert threshold(tool, S, own=own) == expected


def fresh(*sizes: int, limit: float = 8_000) -> list[FreshResult]:
    return [FreshResult(chars=size, limit=limit) for size in sizes]


def test_each_result_over_its_own_threshold_goes() -> None:
    assert choose(fresh(8_000, 8_001, 10), S) == {1}


def test_a_result_that_its_pointer_would_hardly_be_shorter_than_stays() -> None:
    assert choose(fresh(STAYS, limit=500), S) == frozenset()
    assert choose(fresh(STAYS + 1, limit=500), S) == {0}


def test_over_the_budget_of_a_round_the_largest_go_until_it_fits() -> None:
    """C5: 30 results of under 8,000 characters each."""
    sizes = [7_000 + n for n in range(30)]
    chosen = choose(fresh(*sizes), S)
    assert chosen == {27, 28, 29}
    assert sum(sizes[n] for n in range(27)) + 3 * STAYS <= S.round_chars
    assert sum(sizes[n] for n in range(28)) + 2 * STAYS > S.round_chars


def test_what_the_round_has_recorded_counts_but_is_not_chosen_from() -> None:
    """C5, C6: frozen results fill the budget; only fresh ones can make room."""
    assert choose(fresh(5_000, 4_000), S, recorded_chars=193_000) == {0}
    assert choose(fresh(5_000, 4_000), S, recorded_chars=500_000) == {0, 1}
    assert choose(fresh(5_000), S, recorded_chars=100_000) == frozenset()


def test_what_bounds_itself_or_is_referred_to_stays_whatever_the_round_holds() -> None:
    held = [FreshResult(chars=300_000, limit=inf), FreshResult(chars=7_000, limit=8_000, may_go=False)]
    assert choose([*held, FreshResult(chars=6_000, limit=8_000)], S) == {2}


@given(st.lists(st.integers(0, 60_000), max_size=60), st.integers(0, 300_000))
def test_a_round_fits_or_nothing_is_left_that_could_go(sizes: list[int], recorded: int) -> None:
    chosen = choose(fresh(*sizes), S, recorded_chars=recorded)
    total = recorded + sum(STAYS if n in chosen else size for n, size in enumerate(sizes))
    assert total <= S.round_chars or all(sizes[n] <= STAYS for n in range(len(sizes)) if n not in chosen)
    assert all(n in chosen for n, size in enumerate(sizes) if size > 8_000)
    kept = [sizes[n] for n in range(len(sizes)) if n not in chosen]
    gone = [sizes[n] for n in chosen]
    assert not kept or not gone or max(kept) <= min(gone)
