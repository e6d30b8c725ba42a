"""OpenTelemetry behind one door: spans and figures that never fail and cost nothing while nobody listens.

The API is imported by whoever set up an SDK, never by us first: a start of nacre does not grow by it.
Somebody else's exporters run inside these calls, so whatever they raise ends here: telemetry must not be able
to end a turn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from nacre.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Span as ApiSpan
    from opentelemetry.trace import Tracer

Fact: TypeAlias = "str | int | float | bool | list[str]"
Facts: TypeAlias = "Mapping[str, Fact]"

API = "opentelemetry"
"""The package that whoever sets up an SDK has imported."""
SDK_VARIABLES = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""They let the API find an SDK by itself."""
ERROR_TYPE = "error.type"
TOKEN_BUCKETS = [4**power for power in range(14)]
"""As the conventions ask, from 1 to 67 million."""
SECOND_BUCKETS = [0.01 * 2**power for power in range(14)]
"""As the conventions ask, from 10 ms to 82 s."""


def is_listened_to() -> bool:
    """Whether anybody in this process may have set up an SDK; until then nothing is imported."""
    return API in sys.modules or any(name in os.environ for name in SDK_VARIABLES)


class Span:
    """One span; after its end nothing more is told."""

    def __init__(
        self, name: str, facts: Facts, *, parent: Span | None = None, is_client: bool = False
    ) -> None:
        self._span: ApiSpan | None = None
        with suppress(Exception):
            from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415  see the module

            # Without one of ours the program that runs us may have a span of its own around the turn.
            around = set_span_in_context(parent._span) if parent and parent._span else None
            kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
            self._span = _tracer().start_span(name, around, kind, dict(facts))

    def add(self, facts: Facts) -> None:
        with suppress(Exception):
            if self._span is not None:
                self._span.set_attributes(dict(facts))

    def happened(self, name: str, facts: Facts) -> None:
        """Something within it, at one moment."""
        with suppress(Exception):
            if self._span is not None:
                self._span.add_event(name, dict(facts))

    def failed(self, why: str) -> None:
        """It went wrong; an error's message may quote anything, so only its kind is told."""
        with suppress(Exception):
            from opentelemetry.trace import StatusCode  # noqa: PLC0415  see the module

            if self._span is not None:
                self._span.set_attribute(ERROR_TYPE, why)
                self._span.set_status(StatusCode.ERROR)

    def end(self) -> None:
        with suppress(Exception):
            if self._span is not None:
                self._span.end()

    @contextmanager
    def current(self) -> Iterator[None]:
        """What others trace inside the block (an HTTP client, say) belongs to this span.

        Never around a `yield` of a generator: who reads it may close it elsewhere.
        """
        token = None
        with suppress(Exception):
            from opentelemetry import context, trace  # noqa: PLC0415  see the module

            if self._span is not None:
                token = context.attach(trace.set_span_in_context(self._span))
        try:
            yield
        finally:
            with suppress(Exception):
                if token is not None:
                    context.detach(token)


def measure(name: str, value: float, facts: Facts) -> None:
    """One more value of a distribution: tokens or seconds."""
    with suppress(Exception):
        _histogram(name).record(value, dict(facts))


def count(name: str, value: float, facts: Facts) -> None:
    """So much more of something that only grows."""
    with suppress(Exception):
        if value > 0:
            _counter(name).add(value, dict(facts))


UNITS = {
    "gen_ai.client.token.usage": ("{token}", "Tokens of a request, by type."),
    "gen_ai.client.operation.duration": ("s", "How long a request took."),
    "nacre.cost": ("{USD}", "What requests cost by the price table."),
    "nacre.layer.decisions": ("{decision}", "How often a layer acted."),
    "nacre.layer.tokens": ("{token}", "Tokens that a layer kept out, took away or kept warm; estimated."),
}
"""Every figure with its unit and what it is."""


@cache
def _tracer() -> Tracer:
    from opentelemetry import trace  # noqa: PLC0415  see the module

    return trace.get_tracer("nacre", VERSION)


@cache
def _meter() -> Meter:
    from opentelemetry import metrics  # noqa: PLC0415  see the module

    return metrics.get_meter("nacre", VERSION)


@cache
def _histogram(name: str) -> Histogram:
    unit, words = UNITS[name]
    buckets = SECOND_BUCKETS if unit == "s" else TOKEN_BUCKETS
    return _meter().create_histogram(name, unit, words, explicit_bucket_boundaries_advisory=buckets)


@cache
def _counter(name: str) -> Counter:
    unit, words = UNITS[name]
    return _meter().create_counter(name, unit, words)
