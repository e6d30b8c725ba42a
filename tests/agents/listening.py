"""Somebody who listens: the real SDK, keeping what it is told in memory."""

from __future__ import annotations

from dataclasses import dataclass

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Failing(SpanProcessor):
    """An exporter of somebody's own that breaks, when told to."""

    breaks = False

    def on_start(self, span: object, parent_context: object = None) -> None:
        if self.breaks:
            raise RuntimeError("the exporter is broken")

    def on_end(self, span: ReadableSpan) -> None:
        self.on_start(span)


@dataclass(frozen=True, slots=True)
class Listener:
    """What was told."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    failing: Failing

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order they ended."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def points(self, name: str) -> list[tuple[dict[str, object], float]]:
        """Every series of a figure: its attributes, and its sum since the process began."""
        found = self.reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), getattr(point, "sum", None) or getattr(point, "value", 0))
            for resource in (found.resource_metrics if found else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def total(self, name: str, **attributes: object) -> float:
        """The sum of all series with these attributes; dots are written as two underscores."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        return sum(value for facts, value in self.points(name) if wanted.items() <= facts.items())


def listen() -> Listener:
    """Set up the SDK; a process has one for its whole life."""
    exporter, reader, failing = InMemorySpanExporter(), InMemoryMetricReader(), Failing()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    tracers.add_span_processor(failing)
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([reader]))
    return Listener(exporter, reader, failing)
