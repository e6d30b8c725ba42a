"""Strings found in a line of JSON by where they stand."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from nacre.inspect.credentials import KeyPath, read_literal, strings_in, write_literal
from nacre.messages.blocks import Json

TEXTS = st.text(max_size=20)
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def expected(value: Json, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from expected(item, (*path, place))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from expected(item, (*path, key))


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_every_string_is_found_at_its_path(value: Json, is_ascii: bool, indent: int | None) -> None:
    line = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    found = [each for each in strings_in(line) if not each.is_key]
    assert [(each.path, read_literal(line[each.start : each.end])) for each in found] == list(expected(value))


@given(TEXTS, st.booleans())
def test_a_string_that_is_written_reads_the_same(text: str, is_ascii: bool) -> None:
    like = b'"a"' if is_ascii else '"ä"'.encode()
    assert read_literal(write_literal(text, like=like)) == text


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_read_to_the_end(line: bytes) -> None:
    assert all(line[each.start : each.start + 1] == b'"' for each in strings_in(line))
