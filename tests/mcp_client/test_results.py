"""What a server answered, bounded and fit for a provider."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import CallToolResult, ImageContent, TextContent

from nacre.mcp_client.translate import MAX_IMAGE_BYTES, to_outcome
from nacre.messages.blocks import Image, Text
from nacre.messages.tokens import FLAT_TOKENS, estimate_blocks

PNG = b"\x89PNG\r\n\x1a\n"
NOTE_TOKENS = 120
"""What the note about the cut may add to the budget."""


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def image(raw: bytes, mime_type: str = "image/png") -> ImageContent:
    return ImageContent(type="image", data=base64.b64encode(raw).decode(), mime_type=mime_type)


@pytest.mark.parametrize(
    ("raw", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
    ],
)
def test_a_picture_is_labelled_by_its_bytes_not_by_its_word(raw: bytes, media_type: str) -> None:
    """A wrong label would make the provider refuse this and every later request."""
    (shown,) = to_outcome(CallToolResult(content=[image(raw, "image/heic")]), max_tokens=25_000).parts
    assert isinstance(shown, Image) and shown.source["media_type"] == media_type


def test_a_picture_no_provider_takes_is_said_and_not_sent() -> None:
    big = to_outcome(CallToolResult(content=[image(PNG + b"\0" * MAX_IMAGE_BYTES)]), max_tokens=25_000)
    assert big.text == "[image/png image left out: 3,750,008 bytes, at most 3,750,000 can be shown]"
    assert to_outcome(CallToolResult(content=[image(b"")]), max_tokens=25_000).text.startswith(
        "[image/png image left"
    )


def test_pictures_count_against_the_budget_too() -> None:
    outcome = to_outcome(CallToolResult(content=[image(PNG)] * 20), max_tokens=25_000)
    assert sum(isinstance(part, Image) for part in outcome.parts) == 25_000 // FLAT_TOKENS
    assert "8 images do not fit" in outcome.text


def test_an_error_always_says_something_and_an_empty_result_is_empty() -> None:
    assert (
        to_outcome(CallToolResult(content=[], is_error=True), max_tokens=9).text
        == "The tool failed and did not say why."
    )
    assert to_outcome(CallToolResult(content=[]), max_tokens=9).parts == ()


def test_structured_content_is_not_repeated_beside_text() -> None:
    result = CallToolResult(content=[text("21 degrees")], structured_content={"degrees": 21})
    assert to_outcome(result, max_tokens=25_000).parts == (Text("21 degrees"),)
    assert (
        to_outcome(CallToolResult(content=[], structured_content=[1, "é"]), max_tokens=99).text == '[1,"é"]'
    )


@given(
    st.lists(
        st.text(max_size=400) | st.just("[" + "1," * 150 + "1]") | st.just("漢" * 90) | st.just(PNG),
        max_size=8,
    ),
    st.integers(0, 200),
)
def test_a_result_keeps_its_budget_and_says_when_something_is_missing(
    contents: list[Any], budget: int
) -> None:
    blocks = [image(item) if isinstance(item, bytes) else text(item) for item in contents]
    whole = to_outcome(CallToolResult(content=blocks), max_tokens=10**9)
    cut = to_outcome(CallToolResult(content=blocks), max_tokens=budget)
    if estimate_blocks(whole.parts) <= budget:
        assert cut == whole
    else:
        assert estimate_blocks(cut.parts) <= budget + NOTE_TOKENS
        assert cut.text.rpartition("[")[2].startswith("result cut here: ")
