"""Token estimates from bytes, calibrated against the provider's figures (C2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from nacre.messages.blocks import Block, Document, Image, Json, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.wire import canonical

BYTES_PER_TOKEN = 4
"""Bytes per token of plain text and code."""
JSON_BYTES_PER_TOKEN = 2
"""Bytes per token of JSON, which has many short tokens."""
MIN_RATIO = 0.5
MAX_RATIO = 3.0
"""Limits of the ratio; figures beyond them measure something else."""
FLAT_TOKENS = 2_000
"""Tokens of an image or document of any size: about those of a full-size image."""


def estimate_text(text: str) -> int:
    """Return the estimated tokens of a text; JSON is recognised by its first and last character."""
    # Encoding a long text only to measure it would be most of the cost; isascii is a flag test.
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    return _ceil(size, JSON_BYTES_PER_TOKEN if _looks_like_json(text) else BYTES_PER_TOKEN)


def estimate_json(value: Json) -> int:
    return _ceil(len(canonical(value)), JSON_BYTES_PER_TOKEN)


def estimate_block(block: Block) -> int:
    match block:
        case Text(text) | Thinking(text):
            return estimate_text(text)
        case ToolCall(_, name, arguments):
            return estimate_text(name) + estimate_json(arguments)
        case ToolResult(_, content):
            return sum(estimate_block(part) for part in content)
        case Image() | Document():
            return FLAT_TOKENS
        case Opaque(_, wire):
            return estimate_json(wire)
        case _:
            assert_never(block)


def estimate_blocks(blocks: Iterable[Block]) -> int:
    return sum(estimate_block(block) for block in blocks)


def _ceil(size: int, per_token: int) -> int:
    return -(-size // per_token)


def _looks_like_json(text: str) -> bool:
    head = text[:64].lstrip()[:1]
    return head in {"{", "["} and text[-64:].rstrip()[-1:] == {"{": "}", "[": "]"}[head]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The error of the estimate in this session, learnt from real usage."""

    estimated: int = 0
    real: int = 0

    @property
    def ratio(self) -> float:
        """Multiply an estimate by this; 1.0 until something was measured."""
        measured = self.real / self.estimated if self.estimated else 1.0
        return min(max(measured, MIN_RATIO), MAX_RATIO)

    @property
    def error(self) -> float:
        """Relative error of the bare estimate: +0.2 means it runs 20 % too low."""
        return self.ratio - 1.0

    def after(self, *, estimated: int, real: int) -> Calibration:
        """Return the calibration after one more request."""
        if estimated <= 0 or real <= 0:
            return self
        return Calibration(self.estimated + estimated, self.real + real)

    def apply(self, estimate: int) -> int:
        return round(estimate * self.ratio)
