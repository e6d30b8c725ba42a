"""The window and its thresholds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.models import Thresholds, thresholds, window_size


def test_thresholds_of_a_200k_window() -> None:
    """C3: the published figures."""
    assert thresholds(200_000, max_output=64_000) == Thresholds(
        window=200_000, effective=180_000, warning=147_000, autocompact=167_000, blocking=177_000
    )


def test_small_windows_scale_by_percentages() -> None:
    """C3: with the absolute figures a 60K window would compact at 27K."""
    assert thresholds(60_000, max_output=64_000) == Thresholds(
        window=60_000, effective=54_000, warning=44_100, autocompact=50_100, blocking=53_100
    )


@given(
    st.integers(2_000, 2_000_000),
    st.integers(1, 128_000),
    st.none() | st.floats(1, 300),
    st.none() | st.integers(1_000, 5_000_000),
)
def test_overrides_can_lower_compaction_but_never_raise_it(
    size: int, max_output: int, percent: float | None, compact_window: int | None
) -> None:
    """C3: NACRE_AUTOCOMPACT_PCT and NACRE_AUTOCOMPACT_WINDOW."""
    plain = thresholds(size, max_output=max_output)
    bent = thresholds(size, max_output=max_output, percent=percent, compact_window=compact_window)
    assert bent.autocompact <= plain.autocompact
    assert bent.warning <= bent.autocompact <= bent.blocking <= bent.effective <= size


@pytest.mark.parametrize(
    ("model", "ceiling", "expected"),
    [
        ("claude-sonnet-4-5[1m]", None, 1_000_000),
        ("claude-sonnet-4-5", None, 200_000),
        ("something-new[1m]", None, 1_000_000),
        ("something-new", 64_000, 64_000),
        ("something-new", None, 200_000),
        ("claude-sonnet-4-5[1m]", 150_000, 150_000),
        ("claude-sonnet-4-5", 900_000, 200_000),
    ],
)
def test_the_window_is_found_in_a_fixed_order_and_may_always_be_lowered(
    model: str, ceiling: int | None, expected: int
) -> None:
    """C3: suffix, table, environment, default."""
    assert window_size(model, ceiling) == expected
