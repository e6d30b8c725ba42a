"""What a server answered, bounded and fit for a provider."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, TextContent

from nacre.mcp_client.translate import to_outcome
from nacre.messages.blocks import Document, Image, Text
from nacre.messages.media import MAX_IMAGE_BYTES
from nacre.messages.tokens import estimate_blocks
from tests.pictures import gif, jpeg, pdf, png, webp

PNG = png()
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
        (jpeg(3, 2), "image/jpeg"),
        (gif(3, 2), "image/gif"),
        (webp(3, 2), "image/webp"),
    ],
)
def test_a_picture_is_labelled_by_its_bytes_not_by_its_word(raw: bytes, media_type: str) -> None:
    """A wrong label would make the provider refuse this and every later request."""
    (shown,) = to_outcome(CallToolResult(content=[image(raw, "image/heic")]), max_tokens=25_000).parts
    assert isinstance(shown, Image) and shown.source["media_type"] == media_type


def test_a_picture_no_provider_takes_is_said_and_not_sent() -> None:
    big = to_outcome(CallToolResult(content=[image(PNG + b"\0" * MAX_IMAGE_BYTES)]), max_tokens=25_000)
    assert "bytes, and at most 3,750,000 can be shown]" in big.text
    damaged = to_outcome(CallToolResult(content=[image(PNG[:12])]), max_tokens=25_000)
    assert damaged.text.startswith("[image/png image left out: the picture is damaged")
    assert to_outcome(CallToolResult(content=[image(b"")]), max_tokens=25_000).text.startswith(
        "[image/png image left"
    )


def test_no_picture_is_dropped_for_the_limit_of_text() -> None:
    """Layer 1 keeps those on disk that are too many."""
    content = [image(PNG), text("x" * 1_000), *[image(PNG)] * 19]
    outcome = to_outcome(CallToolResult(content=content), max_tokens=50)
    assert sum(isinstance(part, Image) for part in outcome.parts) == 20
    assert "text of 1,000 characters" in outcome.text


def test_pictures_and_documents_of_embedded_resources_are_shown() -> None:
    def resource(data: bytes, mime_type: str) -> EmbeddedResource:
        blob = base64.b64encode(data).decode()
        inner = BlobResourceContents(uri="file:///a", blob=blob, mime_type=mime_type)
        return EmbeddedResource(type="resource", resource=inner)

    content = [
        resource(PNG, "image/png"),
        resource(pdf(), "application/pdf"),
        resource(b"PK", "application/zip"),
    ]
    parts = to_outcome(CallToolResult(content=content), max_tokens=25_000).parts
    assert [type(one) for one in parts] == [Image, Document, Text]


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
    texts = [part for part in whole.parts if isinstance(part, Text)]
    if estimate_blocks(texts) <= budget:
        assert cut == whole
    else:
        assert estimate_blocks(part for part in cut.parts if isinstance(part, Text)) <= budget + NOTE_TOKENS
        assert cut.text.rpartition("[")[2].startswith("result cut here: ")
