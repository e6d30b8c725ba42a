"""Pictures and PDF files as blocks: recognised by their bytes, sized, counted, replaced by a line."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cache.models import SHIPPED_TABLE, profile, with_overrides
from nacre.errors import ConfigError
from nacre.messages.blocks import Document, Image, JsonObject, Text, ToolResult
from nacre.messages.media import (
    FLAT_TOKENS,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_TOKENS,
    MAX_PDF_BYTES,
    MIN_IMAGE_TOKENS,
    as_image,
    image_size,
    media_block,
    media_bytes,
    media_facts,
    media_type,
    picture_tokens,
    without_media,
)
from nacre.messages.tokens import estimate_block
from nacre.messages.wire import render_block
from tests.pictures import gif, jpeg, pdf, png, webp

BOTH = frozenset({"image", "document"})


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(30, 20), "image/png"),
        (jpeg(30, 20), "image/jpeg"),
        (jpeg(30, 20, metadata=200_000), "image/jpeg"),
        (gif(30, 20), "image/gif"),
        (webp(30, 20), "image/webp"),
        (webp(30, 20, "VP8L"), "image/webp"),
        (webp(30, 20, "VP8 "), "image/webp"),
    ],
)
def test_a_picture_is_recognised_and_measured_by_its_bytes(data: bytes, kind: str) -> None:
    assert (media_type(data), image_size(data)) == (kind, (30, 20))
    block = media_block(data)
    assert isinstance(block, Image) and media_bytes(block) == data
    assert media_facts(block).size == (30, 20) and media_facts(block).bytes == len(data)


@given(st.binary(max_size=64), st.sampled_from([png, jpeg, gif, webp]), st.integers(0, 80))
def test_damaged_pictures_never_raise_anything_but_a_reason(
    noise: bytes, make: Callable[[int, int], bytes], cut: int
) -> None:
    data = make(30, 20)[:cut] + noise
    try:
        block = media_block(data)
    except ValueError as error:
        assert str(error)
    else:
        assert media_facts(block).tokens > 0


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1, 1, MIN_IMAGE_TOKENS),
        (750, 100, MIN_IMAGE_TOKENS),
        (1092, 1092, 1590),
        (1920, 1080, 2765),
        (7000, 7000, MAX_IMAGE_TOKENS),
    ],
)
def test_a_picture_for_a_model_of_an_unknown_vendor_counts_by_its_pixels_within_limits(
    width: int, height: int, tokens: int
) -> None:
    block = media_block(webp(width, height))
    assert estimate_block(block) == tokens
    assert estimate_block(ToolResult("t", (Text("abcd"), block))) == tokens + 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        # A token for 750 pixels; older models scale to an edge of 1,568 pixels.
        ("claude-sonnet-5-5", {(200, 200): 54, (1000, 1000): 1334, (1920, 1080): 2765, (8000, 8000): 4784}),
        ("claude-opus-4-7", {(2576, 2576): 4784, (5152, 100): 172}),
        ("claude-sonnet-4-5", {(1000, 1000): 1334, (1092, 1092): 1568, (3000, 2000): 1568, (3136, 100): 105}),
        ("claude-unheard-of", {(1000, 1000): 1334}),
        # Squares of 32 pixels up to a budget.
        ("gpt-6.1-terra", {(1, 1): 1, (1024, 1024): 1024, (1920, 1080): 2040, (8000, 8000): 2500}),
        ("gpt-5.2", {(1024, 1024): 1024, (1920, 1080): 1536}),
        ("o4-mini", {(1024, 1024): 1762, (1800, 2400): 2642}),
        # A base and tiles of 512 pixels, after the short side was scaled to 768.
        ("gpt-5", {(512, 512): 210, (1024, 1024): 630, (2048, 4096): 910, (100, 100): 210}),
        ("o3", {(1024, 1024): 675, (2048, 4096): 975}),
        # 258 for a small picture and for each tile of 768 pixels; a flat figure since Gemini 3.
        ("gemini-2.5-pro", {(384, 384): 258, (385, 100): 258, (960, 540): 516, (1920, 1080): 1548}),
        ("gemini-3.8-flash", {(10, 10): 1120, (4000, 4000): 1120}),
        ("qwen3-vl", {(10, 10): 258, (1000, 1000): 1334, (8000, 8000): 4784}),
    ],
)
def test_a_picture_counts_as_the_vendor_of_the_model_counts_it(
    model: str, sizes: dict[tuple[int, int], int]
) -> None:
    rule = profile(model).pictures
    assert {size: picture_tokens(*size, rule) for size in sizes} == sizes


@given(st.integers(1, 8_000), st.integers(1, 8_000), st.sampled_from(sorted(SHIPPED_TABLE.models)))
def test_every_model_counts_every_picture_within_bounds(width: int, height: int, model: str) -> None:
    rule = profile(model).pictures
    most = 258 * 11 * 11 if rule.startswith("grid") else MAX_IMAGE_TOKENS  # Google names no upper limit
    assert 1 <= picture_tokens(width, height, rule) <= most


@pytest.mark.parametrize("rule", ["area", "area 1 2 3", "patches 1 x", "circles 4", "flat -1", "flat 1e9"])
def test_a_rule_that_does_not_exist_is_refused_when_the_table_is_read(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"m\.pictures must be one of area, tiles, patches, grid, flat"):
        with_overrides({"models": {"m": {"pictures": rule}}})
    assert with_overrides({"models": {"m": {"pictures": "flat 70"}}}).profile("m").pictures == "flat 70"


def test_what_cannot_be_measured_has_a_flat_figure() -> None:
    assert estimate_block(Image({"type": "url", "url": "https://example.org/a.png"})) == FLAT_TOKENS
    assert estimate_block(Image({"type": "base64", "media_type": "image/png", "data": "%%%"})) == FLAT_TOKENS
    assert estimate_block(media_block(pdf(7))) == 7 * FLAT_TOKENS
    assert estimate_block(Document({"type": "text", "media_type": "text/plain", "data": "abcd" * 10})) == 10


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png(2, 2, padding=MAX_IMAGE_BYTES), "bytes, and at most 3,750,000"),
        (webp(8_001, 10), "8001x10 pixels"),
        (pdf(101), "101 pages, and at most 100"),
        (pdf(1, padding=MAX_PDF_BYTES), "bytes, and at most 10,000,000"),
        (png()[:18], "damaged"),
        (gif(0, 3), "damaged"),
        (b"BM123456", "only PNG"),
        (b"", "only PNG"),
    ],
)
def test_what_a_provider_would_refuse_says_why_and_is_no_block(data: bytes, reason: str) -> None:
    """A refused picture would make every later request fail."""
    with pytest.raises(ValueError, match=reason):
        media_block(data)


def test_pictures_of_a_prompt_are_paths_bytes_or_blocks(tmp_path: Path) -> None:
    file = tmp_path / "a.dat"
    file.write_bytes(png())
    block = as_image(png())
    assert as_image(file) == as_image(str(file)) == as_image(block) == block
    with pytest.raises(ValueError, match=r"none\.png cannot be read: No such file"):
        as_image(tmp_path / "none.png")
    with pytest.raises(ValueError, match=r"the picture cannot be sent: only PNG, JPEG, GIF and WebP can$"):
        as_image(b"text")
    for document in (pdf(), pdf(101)):
        with pytest.raises(ValueError, match="is a PDF file, not a picture"):
            as_image(document)
    with pytest.raises(TypeError, match="not int"):
        as_image(3)  # type: ignore[arg-type]


def test_a_line_replaces_what_a_model_does_not_take_and_nothing_else_moves() -> None:
    picture, document = render_block(media_block(png(3, 2))), render_block(media_block(pdf(2)))
    plain: JsonObject = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    result: JsonObject = {"type": "tool_result", "tool_use_id": "t", "content": [picture, document]}
    message: JsonObject = {"role": "user", "content": [result, picture]}
    same, changed = without_media([plain, message], BOTH)
    assert same is plain
    size = len(base64.b64decode(str(picture["source"]["data"])))  # type: ignore[index,call-overload]
    line = {"type": "text", "text": f"[PNG picture, 3x2, {size} bytes; this model cannot see it]"}
    assert changed["content"][1] == line and changed["content"][0]["content"][0] == line  # type: ignore[index,call-overload]
    assert "PDF file, 2 pages" in str(changed) and "base64" not in str(changed)
    assert without_media([message], frozenset({"document"}))[0]["content"][1] == picture  # type: ignore[index,call-overload]
