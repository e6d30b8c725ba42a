"""Estimates and their calibration."""

from __future__ import annotations

import pytest

from nacre.messages.blocks import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.tokens import Calibration, RequestCalibration, estimate_block, estimate_text


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


def test_two_requests_of_different_size_tell_the_base_from_the_text() -> None:
    """C2: tool definitions are estimated half too high, text about right; one ratio fits neither."""
    learnt = RequestCalibration(base=9_000)
    assert (learnt.base_tokens, learnt.ratio, learnt.is_measured) == (9_000, 1.0, False)
    first = learnt.after(text=200, real=6_180)
    assert first.is_measured
    assert first.base_tokens == pytest.approx(6_000, rel=0.02)
    both = first.after(text=5_200, real=11_180)
    assert both.ratio == pytest.approx(0.999, abs=0.01)
    assert both.base_tokens == pytest.approx(5_980, abs=10)
    smaller = both.after(text=100, real=6_080)
    assert smaller.base_tokens == pytest.approx(5_980, abs=10), "a request after a compaction agrees"


def test_what_a_server_counts_beyond_reason_is_bounded() -> None:
    assert RequestCalibration(base=1_000).after(text=0, real=10).base_tokens == 500
    assert RequestCalibration(base=1_000).after(text=0, real=100_000).base_tokens == 3_000
    assert RequestCalibration(base=1_000).after(text=10, real=0) == RequestCalibration(base=1_000)


def test_another_base_of_the_same_model_starts_with_its_ratios() -> None:
    learnt = RequestCalibration(base=8_000).after(text=0, real=5_000).after(text=4_000, real=9_000)
    other = learnt.for_base(4_000)
    assert (other.base_tokens, other.ratio) == (2_500, 1.0)
    assert not other.is_measured
    assert learnt.for_base(8_000) is learnt
