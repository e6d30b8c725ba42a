"""Readings shared by the adapters."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.providers.parse import as_count, parse_arguments

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,  # order shows in a dictionary of two; a hundred leaves only take longer to make up
)


@given(st.dictionaries(st.text(), values))
def test_arguments_come_back_in_the_order_they_were_written(arguments: dict[str, object]) -> None:
    """P1: key order is part of the cached bytes."""
    parsed = parse_arguments(json.dumps(arguments))
    assert json.dumps(parsed) == json.dumps(arguments)


@given(st.text())
def test_any_text_becomes_arguments_and_what_is_no_object_is_kept(text: str) -> None:
    try:
        wanted = json.loads(text) if text.strip() else {}
    except ValueError:
        wanted = None
    assert parse_arguments(text) == (wanted if isinstance(wanted, dict) else {"_malformed": text})


@pytest.mark.parametrize(
    "text", ['{"a": NaN}', '{"a": [-Infinity]}', '{"a": ' + "[" * 9_000 + "]" * 9_000 + "}"]
)
def test_what_no_provider_would_take_back_is_kept_as_text(text: str) -> None:
    """A call stands in every later request: one that cannot be encoded would end the session."""
    assert parse_arguments(text) == {"_malformed": text}


def test_a_count_below_zero_or_of_another_type_is_zero() -> None:
    assert [as_count(value) for value in (7, 0, -3, None, "7", [])] == [7, 0, 0, 0, 0, 0]
