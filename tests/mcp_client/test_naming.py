"""Names and schemas as every provider takes them."""

from __future__ import annotations

import random
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nacre.mcp_client.naming import stable_schema, wire_names
from nacre.messages.wire import canonical

pairs = st.tuples(
    st.text("ab_", min_size=1, max_size=4), st.text(min_size=1, max_size=70) | st.text("ab_", min_size=1)
)


def test_a_valid_name_is_kept_and_others_are_made_valid() -> None:
    assert wire_names([("s", "read"), ("s", "read file"), ("s", "x" * 70)]) == {
        ("s", "read"): "mcp__s__read",
        ("s", "read file"): "mcp__s__read_file_edd9fb36",
        ("s", "x" * 70): "mcp__s__" + "x" * 47 + "_890b4c61",
    }


def test_two_tools_that_would_share_a_name_do_not() -> None:
    names = wire_names([("a", "b__c"), ("a__b", "c")])
    assert names["a", "b__c"] == "mcp__a__b__c"
    assert re.fullmatch(r"mcp__a__b__c_[0-9a-f]{8}", names["a__b", "c"])


def test_a_forged_name_cannot_take_anothers_place() -> None:
    forged = wire_names([("s", "read file")])["s", "read file"].removeprefix("mcp__s__")
    names = wire_names([("s", "read file"), ("s", forged)])
    assert len(set(names.values())) == 2


@given(st.lists(pairs, max_size=12))
def test_names_are_valid_distinct_and_do_not_depend_on_the_order(tools: list[tuple[str, str]]) -> None:
    """C31: the same servers give the same bytes."""
    names = wire_names(tools)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names.values())
    assert len(set(names.values())) == len(set(tools))
    assert wire_names(reversed(tools)) == names


def test_only_what_has_no_order_is_sorted() -> None:
    schema: Any = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["z", "a"],
        "properties": {
            "z": {"type": ["string", "null"], "enum": ["z", "a"], "default": {"z": 1, "a": 2}},
            "default": {"type": "object", "required": ["y", "b"], "properties": {"y": {}, "b": {}}},
        },
    }
    assert canonical(stable_schema(schema)).decode() == (
        '{"properties":{"default":{"properties":{"b":{},"y":{}},"required":["b","y"],"type":"object"},'
        '"z":{"default":{"z":1,"a":2},"enum":["z","a"],"type":["string","null"]}},'
        '"required":["a","z"],"type":"object"}'
    )


def test_alternatives_at_the_root_become_properties_because_providers_refuse_them() -> None:
    schema: Any = {
        "properties": {"a": {"type": "string"}},
        "anyOf": [{"properties": {"a": {"type": "number"}, "b": {}}}, {"required": ["c"]}, True],
        "oneOf": "nonsense",
    }
    assert stable_schema(schema) == {"properties": {"a": {"type": "string"}, "b": {}}, "type": "object"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["properties", "required", "enum", "anyOf", "default", "x"]), inner)
    ),
    max_leaves=15,
)


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "required", "allOf", "x"]), json_values),
    st.randoms(),
)
def test_any_schema_becomes_an_object_whose_bytes_do_not_depend_on_key_order(
    schema: Any, chance: random.Random
) -> None:
    """C31: a server that shuffles its keys does not move the prefix."""
    items = list(schema.items())
    chance.shuffle(items)
    stable = stable_schema(schema)
    assert canonical(stable_schema(dict(items))) == canonical(stable) == canonical(stable_schema(stable))
    assert stable["type"] == "object" and isinstance(stable["properties"], dict)
