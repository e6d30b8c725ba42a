"""The smallest instance of a schema."""

from __future__ import annotations

import pytest

from nacre.devtools.sim.replies import minimal_instance
from nacre.messages.blocks import Json, JsonObject


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, ""),
        ({"type": "string", "minLength": 3}, "xxx"),
        ({"type": "string", "format": "date"}, "2026-01-01"),
        ({"type": "integer"}, 0),
        ({"type": "integer", "minimum": 2}, 2),
        ({"type": "integer", "exclusiveMinimum": 2}, 3),
        ({"type": "number", "maximum": -1}, -1),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": ["integer", "null"]}, 0),
        ({"enum": ["b", "a"]}, "b"),
        ({"const": 7}, 7),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 0),
        ({"type": "array", "items": {"type": "integer"}}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 0}),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 0}),
        (
            {"$defs": {"n": {"type": "integer", "minimum": 4}}, "type": "object",
             "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]},
            {"n": 4},
        ),
        (
            {"allOf": [
                {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
                {"properties": {"b": {"const": 2}}, "required": ["b"]},
            ]},
            {"a": 1, "b": 2},
        ),
        ({}, None),
    ],
)  # fmt: skip
def test_the_smallest_value_follows_the_schema(schema: JsonObject, expected: Json) -> None:
    assert minimal_instance(schema) == expected


def test_a_schema_that_needs_itself_comes_to_an_end() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "required": ["next"],
    }
    value, depth = minimal_instance(schema), 0
    while isinstance(value, dict):
        value, depth = value["next"], depth + 1
    assert 1 < depth < 40
