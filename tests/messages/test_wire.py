"""Blocks to and from the provider's JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.blocks import Image, JsonObject, Opaque, Text, ToolCall, ToolResult
from nacre.messages.wire import canonical, parse_block, parse_content, render_block

TEXT: JsonObject = {"type": "text", "text": "x"}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(
    ["text", "thinking", "tool_use", "tool_result", "image", "document", "compaction", "redacted_thinking"]
)
fields = st.sampled_from(
    [
        "text",
        "thinking",
        "signature",
        "id",
        "name",
        "input",
        "tool_use_id",
        "content",
        "is_error",
        "source",
        "new",
    ]
)
blocks = st.builds(
    lambda kind, rest: {"type": kind, **rest}, kinds, st.dictionaries(fields, values, max_size=5)
)


@given(blocks)
def test_rendering_what_was_parsed_reaches_a_fixed_point(block: JsonObject) -> None:
    """T4: one canonical form; parsing it again changes nothing."""
    once = render_block(parse_block(block))
    assert canonical(render_block(parse_block(once))) == canonical(once)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "hello", "citations": [{"n": 1}]},
        {"type": "thinking", "thinking": "hm", "signature": "abc"},
        {"type": "tool_use", "id": "a", "name": "Read", "input": {"b": 1, "a": 2}, "caller": {"n": 1}},
        {"type": "tool_result", "tool_use_id": "a", "content": "plain"},
        {"type": "tool_result", "tool_use_id": "a", "content": "bad", "is_error": True},
        {"type": "tool_result", "tool_use_id": "a", "content": [TEXT, TEXT]},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        {"type": "compaction", "content": "…", "signature": "s"},
        {"type": "something_new", "z": 1, "a": {"c": 1, "b": 2}},
    ],
)  # fmt: skip
def test_a_block_comes_back_byte_for_byte(block: JsonObject) -> None:
    """T4: key order inside the input and unknown fields are part of the cached bytes."""
    assert canonical(render_block(parse_block(block))) == canonical(block)


def test_a_cache_marker_is_no_part_of_a_block() -> None:
    """C31: moving markers moves no byte."""
    marked: JsonObject = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    assert parse_block(marked) == Text("hi")
    assert parse_block({"type": "new", "cache_control": {}}) == Opaque("new", {"type": "new"})


def test_string_content_is_one_text_block() -> None:
    """The provider reads both forms alike."""
    assert parse_content("hi") == (Text("hi"),)
    assert parse_block(
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}
    ) == (ToolResult("a", (Text("x"),)))


def test_arguments_that_are_no_object_are_kept_in_sight() -> None:
    """T5: nothing is dropped silently."""
    assert parse_block({"type": "tool_use", "id": "a", "name": "Read", "input": "{bad"}) == ToolCall(
        "a", "Read", {"_malformed": "{bad"}
    )


def test_half_a_character_can_be_written_and_read() -> None:
    """Real logs hold lone surrogates; UTF-8 cannot, so they are escaped."""
    assert json.loads(canonical({"text": "\ud83d"})) == {"text": "\ud83d"}


def test_a_blank_text_beside_a_picture_is_not_sent() -> None:
    """T6: a provider refuses blank text blocks, and the result stands in every later request."""
    picture = Image({"type": "url", "url": "https://example.org/x.png"})
    shown = render_block(ToolResult("a", (Text(" \n"), picture, Text(""))))
    assert shown["content"] == [render_block(picture)]
    assert render_block(ToolResult("a", (Text(""), Text("\n"))))["content"] == ""
