"""Estimates and their calibration."""

from __future__ import annotations

import pytest

from nacre.messages.blocks import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.tokens import Calibration, estimate_block, estimate_text


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (Text("a" * 400), 100),
        (Text("a" * 401), 101),
        (Text("你好"), 2),
        (Text('{"key": "valu"}'), 8),
        (Text("[1, 2, 3]\n"), 5),
        (Thinking("a" * 40), 10),
        (ToolCall("id", "Read", {"a": "b"}), 1 + 5),
        (ToolResult("id", (Text("a" * 40), Image({}))), 10 + 2_000),
        (Image({}), 2_000),
        (Document({}), 2_000),
        (Opaque("compaction", {"type": "compaction"}), 11),
    ],
)
def test_an_estimate_goes_by_bytes_and_kind(block: Block, tokens: int) -> None:
    """C2: 4 bytes a token for text, 2 for JSON, a flat figure for pictures and documents."""
    assert estimate_block(block) == tokens


def test_lone_surrogates_do_not_stop_an_estimate() -> None:
    """C2: real logs hold halves of characters."""
    assert estimate_text("\ud83d") == 1


def test_calibration_keeps_the_ratio_and_reports_the_error() -> None:
    """C2: learnt per session from what the provider says."""
    learnt = Calibration().after(estimated=1_000, real=1_200).after(estimated=0, real=50)
    assert learnt.ratio == pytest.approx(1.2)
    assert learnt.error == pytest.approx(0.2)
    assert learnt.apply(500) == 600
    assert Calibration().apply(500) == 500
    assert Calibration().after(estimated=1, real=1_000_000).ratio == 3.0
    assert Calibration().after(estimated=1_000, real=1).ratio == 0.5
