"""Printing: JSON that is always valid, tables that line up, sizes and ages for people."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cli.output import (
    human_age,
    human_count,
    is_terminal,
    print_json,
    print_table,
    printable,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "text"),
    [(999, "999"), (1000, "1.0k"), (999_949, "999.9k"), (999_950, "1.0M"), (2_500_000, "2.5M")],
)
def test_counts_are_short(number: int, text: str) -> None:
    assert human_count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "now"), (59, "now"), (60, "1 min"), (3_599, "59 min"), (3_600, "1 h"), (86_400, "1 d"),
     (59 * 86_400, "59 d"), (60 * 86_400, "2025-12-31")],
)  # fmt: skip
def test_ages_are_rounded_down_and_old_ones_are_dates(seconds: int, text: str) -> None:
    assert human_age(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize("value", [{"a": [1, None]}, "记忆", "lone \udce9 byte", []])
def test_json_is_one_document_on_one_line_when_piped(
    capsys: pytest.CaptureFixture[str], value: object
) -> None:
    print_json(value)  # type: ignore[arg-type]
    out = capsys.readouterr().out
    out.encode()  # raises when a terminal could not show it
    assert json.loads(out) == value
    assert out.count("\n") == 1


@given(st.text())
def test_printable_text_is_one_line_that_cannot_steer_a_terminal(text: str) -> None:
    assert printable(text).isprintable()


def test_columns_line_up_also_with_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([["记忆", "7", "x"], ["a\x1b[31m", "12", "y"]], header=("name", "n", ""), right=(1,))
    assert capsys.readouterr().out.splitlines() == [
        "name        n",
        "记忆        7  x",
        "a\\x1b[31m  12  y",
    ]


def test_an_empty_table_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([])
    assert capsys.readouterr().out == ""
    assert not is_terminal()
