"""Token estimates from bytes, calibrated against the provider's figures (C2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from nacre.messages.blocks import Block, Document, Image, Json, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.media import media_facts
from nacre.messages.wire import canonical

BYTES_PER_TOKEN = 4
"""Bytes per token of plain text and code."""
JSON_BYTES_PER_TOKEN = 2
"""Bytes per token of JSON, which has many short tokens."""
MIN_RATIO = 0.5
MAX_RATIO = 3.0
"""Limits of the ratio; figures beyond them measure something else."""
LEAST_TEXT_RATIO = 0.75
"""The least real tokens per estimated token of text; of system prompt and tools it is `MIN_RATIO`."""
MIN_SPREAD_TOKENS = 1_000
"""Two requests that differ by less say nothing about the error of the text estimate."""
DEFINITION_TOKENS = 400
"""Estimate for the definition that a provider puts in the place of a reference to a tool."""


def estimate_text(text: str) -> int:
    """Return the estimated tokens of a text; JSON is recognised by its first and last character."""
    # Encoding a long text only to measure it would be most of the cost; isascii is a flag test.
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    head = text[:64].lstrip()[:1]
    is_json = head in {"{", "["} and text[-64:].rstrip()[-1:] == {"{": "}", "[": "]"}[head]
    return _ceil(size, JSON_BYTES_PER_TOKEN if is_json else BYTES_PER_TOKEN)


def estimate_json(value: Json) -> int:
    return _ceil(len(canonical(value)), JSON_BYTES_PER_TOKEN)


def estimate_block(block: Block) -> int:
    match block:
        case Text(text):
            return estimate_text(text)
        case Thinking(text, _, extra):
            # Some providers return reasoning encrypted, in a field of its own.
            sealed = _ceil(len(canonical(dict(extra))), BYTES_PER_TOKEN) if extra else 0
            return max(estimate_text(text), sealed)
        case ToolCall(_, name, arguments):
            return estimate_text(name) + estimate_json(arguments)
        case ToolResult(_, content):
            return sum(estimate_block(part) for part in content)
        case Document({"type": "text", "data": str(text)}):
            return estimate_text(text)
        case Image() | Document():
            return media_facts(block).tokens
        case Opaque("tool_reference"):
            return DEFINITION_TOKENS
        case Opaque(_, wire):
            return estimate_json(wire)
        case _:
            assert_never(block)


def estimate_blocks(blocks: Iterable[Block]) -> int:
    return sum(estimate_block(block) for block in blocks)


def _ceil(size: int, per_token: int) -> int:
    return -(-size // per_token)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The error of the estimate in this session, learnt from real usage."""

    estimated: int = 0
    real: int = 0

    @property
    def ratio(self) -> float:
        """Multiply an estimate by this; 1.0 until something was measured."""
        measured = self.real / self.estimated if self.estimated else 1.0
        return _within(measured)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRequest:
    """A request whose size the provider reported."""

    text: int
    """The estimated tokens of its messages."""
    real: int
    """All tokens of its prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCalibration:
    """The real size of system prompt and tools, and the error of the text estimate (C2).

    Both follow from the smallest and the largest request that the provider counted. Tool definitions are
    estimated far less exactly than text, so one ratio for both would be wrong after every compaction.
    """

    base: int = 0
    """The estimated tokens of system prompt and tools."""
    low: CountedRequest | None = None
    high: CountedRequest | None = None
    known_base: int | None = None
    """The size of the same base, or of another one of the same model, as measured in an earlier session."""
    known_ratio: float | None = None
    """The ratio of text as measured in an earlier session."""
    is_same_base: bool = False
    """`known_base` was measured for exactly this base."""

    @property
    def is_measured(self) -> bool:
        """Whether the provider has counted this base."""
        return self.low is not None or self.is_same_base

    @property
    def ratio(self) -> float:
        """Multiply an estimate of text by this; 1.0 until something was measured."""
        low = self.low
        high = self.high
        if low is None or high is None:
            return self.known_ratio or 1.0
        if high.text - low.text >= MIN_SPREAD_TOKENS:
            return _within((high.real - low.real) / (high.text - low.text))
        if self.known_ratio is not None:
            return self.known_ratio
        return _within(high.real / (self.base + high.text))

    @property
    def error(self) -> float:
        """Relative error of the bare estimate of text: +0.2 means it is 20 % too low."""
        return self.ratio - 1.0

    @property
    def base_tokens(self) -> int:
        """The tokens of system prompt and tools: measured, else estimated."""
        if self.low is None:
            return self.base if self.known_base is None else self.known_base
        measured = self.low.real - self.low.text * self.ratio
        return round(min(max(measured, self.base * MIN_RATIO), self.base * MAX_RATIO))

    def for_base(self, base: int) -> RequestCalibration:
        """Return the calibration for another base of the same model, of which only the ratios are known."""
        if base == self.base:
            return self
        if self.low is None and self.known_base is None:
            return RequestCalibration(base=base, known_ratio=self.known_ratio)
        share = self.base_tokens / self.base if self.base else 1.0
        return RequestCalibration(base=base, known_base=round(base * share), known_ratio=self.ratio)

    def least(self, text: int) -> int:
        """Return how many tokens a request with this estimate of text has at least, measured or not."""
        return round(self.base * MIN_RATIO + text * LEAST_TEXT_RATIO)

    def after(self, *, text: int, real: int) -> RequestCalibration:
        """Return the calibration after one more counted request."""
        if self.base + text <= 0 or real <= 0:
            return self
        counted = CountedRequest(text=text, real=real)
        is_low = self.low is None or text <= self.low.text
        is_high = self.high is None or text >= self.high.text
        return replace(self, low=counted if is_low else self.low, high=counted if is_high else self.high)


def _within(ratio: float) -> float:
    return min(max(ratio, MIN_RATIO), MAX_RATIO)
