"""OpenTelemetry spans and metrics of a session, by the GenAI semantic conventions.

One span per turn, model call, tool call and side query; one event and two metrics per decision of a layer.
Message content is exported only if the environment asks for it and it may leave the machine. The API is
imported only after a program set up an SDK, so that it does not slow down the start. Exceptions of exporters
are suppressed: telemetry must not end a turn.
"""

from __future__ import annotations

import json
import os
import sys
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from nacre.cache.models import cost, profile
from nacre.clock import Clock
from nacre.messages.blocks import Json, JsonObject, Text, ToolResult
from nacre.messages.events import Event, ProviderEvent, Reply, ReplyStarted, StartedOver, TurnDone
from nacre.messages.records import Record
from nacre.messages.usage import Usage
from nacre.messages.wire import render_block
from nacre.providers.base import Capabilities, Provider, Request
from nacre.session.layer_decisions import AttributeValue, MemoryRun, decisions
from nacre.tools.base import Tool
from nacre.tools.run import RUNNING
from nacre.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Span as ApiSpan
    from opentelemetry.trace import Tracer


AGENT = "nacre"
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
SESSION = "gen_ai.conversation.id"
PURPOSE = "nacre.purpose"
LAYER = "nacre.layer"
CANCELLED = "cancelled"


class Telemetry:
    """Spans and metrics of one session; a no-op until an SDK is set up."""

    def __init__(self, session: str, clock: Clock) -> None:
        self.hides_words = False
        """Never export content: the model is local and may see text that must not leave the machine."""
        self._session = session
        self._clock = clock
        self._turn: TelemetrySpan | None = None

    def turn(
        self, events: AsyncGenerator[Event, None], provider: str, model: str
    ) -> AsyncGenerator[Event, None]:
        """Return the events of a turn unchanged, within a span."""
        return self._trace_turn(events, provider, model) if is_enabled() else events

    def ask(
        self, provider: Provider, request: Request, *, purpose: str = ""
    ) -> AsyncGenerator[ProviderEvent, None]:
        """Return a provider's stream unchanged, within a span; `purpose` names a side query."""
        if not is_enabled():
            return provider.stream(request)
        return self._trace_stream(provider, request, purpose)

    def aside(self, provider: Provider, purpose: str) -> Provider:
        """Return the provider with every request traced as a side query of this purpose."""
        return _Aside(provider, self, purpose)

    def tools(self, tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
        """Return the tools unchanged, each call within a span."""
        if not is_enabled():
            return tools
        return {name: self._trace_tool(one) for name, one in tools.items()}

    def record_decisions(self, records: Sequence[Record]) -> None:
        """Export the decisions of layers in records that were just written."""
        if not is_enabled():
            return
        for decision in decisions(records):
            kinds = {LAYER: decision.layer, "nacre.layer.reason": decision.reason}
            facts: dict[str, AttributeValue] = {**kinds, "nacre.layer.tokens": decision.tokens}
            if decision.memory is not None:
                facts |= decision.memory.facts
                _measure_memory(decision.memory, {LAYER: decision.layer})
            count("nacre.layer.decisions", 1, kinds)
            count("nacre.layer.tokens", decision.tokens, kinds)
            if self._turn is not None:
                self._turn.happened("nacre.layer.decision", facts)
            else:  # between turns, as when the cache is kept warm
                TelemetrySpan(f"nacre.layer {decision.layer}", {**facts, SESSION: self._session}).end()

    async def _trace_turn(
        self, events: AsyncGenerator[Event, None], provider: str, model: str
    ) -> AsyncGenerator[Event, None]:
        facts = self._facts("invoke_agent", provider, model)
        self._turn = span = TelemetrySpan(f"invoke_agent {AGENT}", {**facts, "gen_ai.agent.name": AGENT})
        done = False
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, TurnDone):
                        done = True
                        span.add(_usage_facts(event.usage))
                        span.add({"nacre.outcome": event.outcome, "nacre.rounds": event.rounds})
                        if event.cost_usd is not None:
                            span.add({"nacre.cost_usd": event.cost_usd})
                    yield event
        except BaseException as error:
            if not done:
                span.failed(_kind(error))
            raise
        finally:
            self._turn = None
            span.end()

    async def _trace_stream(
        self, provider: Provider, request: Request, purpose: str
    ) -> AsyncGenerator[ProviderEvent, None]:
        call = _ModelCall(self._facts("chat", provider.name, request.model), self._clock, purpose)
        tells_words = captures_content() and not self.hides_words
        call.begin(self._turn, request, message_facts(request) if tells_words else {})
        stream = provider.stream(request)
        try:
            async with aclosing(stream):
                while True:
                    try:
                        with call.span.current():
                            event = await anext(stream)
                    except StopAsyncIteration:
                        break
                    call.hear(event, tells_words=tells_words)
                    yield event
        except BaseException as error:
            call.fail(_kind(error))
            raise
        finally:
            call.end()

    def _trace_tool(self, one: Tool) -> Tool:
        async def traced(arguments: JsonObject) -> ToolResult | str:
            call = RUNNING.get()
            facts: dict[str, AttributeValue] = {
                OPERATION: "execute_tool",
                "gen_ai.tool.name": one.name,
                "gen_ai.tool.type": "function",
                SESSION: self._session,
            }
            tells_words = captures_content() and not self.hides_words
            span = TelemetrySpan(f"execute_tool {one.name}", facts, parent=self._turn)
            span.add({"gen_ai.tool.call.id": call.id} if call else {})
            try:
                with span.current():
                    answer = await one.call(arguments)
                if isinstance(answer, ToolResult) and answer.is_error:
                    span.failed("tool_error")
                span.add(tool_facts(arguments, answer) if tells_words else {})
            except BaseException as error:
                span.failed(_kind(error))
                raise
            finally:
                span.end()
            return answer

        return replace(one, call=traced)

    def _facts(self, operation: str, provider: str, model: str) -> dict[str, AttributeValue]:
        return {OPERATION: operation, PROVIDER: provider, MODEL: model, SESSION: self._session}


def _measure_memory(run: MemoryRun, kinds: Attributes) -> None:
    """Record the metrics of a run of extraction or of a dream."""
    for outcome, number in (("written", run.written), ("saved", run.saved), ("proposed", run.proposed)):
        count("nacre.memory.files", number, {**kinds, "nacre.memory.outcome": outcome})
    for why, number in run.refused.items():
        count("nacre.memory.refusals", number, {**kinds, "nacre.memory.reason": why})
    count("nacre.memory.denied_writes", run.denied_writes, kinds)
    count("nacre.memory.turns", run.turns, kinds)
    measure("nacre.memory.duration", run.seconds, kinds)


class _ModelCall:
    """The span and the metrics of one model call."""

    def __init__(self, facts: dict[str, AttributeValue], clock: Clock, purpose: str) -> None:
        self._facts = facts | ({PURPOSE: purpose} if purpose else {})
        self._clock = clock
        self._begun = clock.seconds()
        self._first = False
        self._retries = 0
        self._reply: Reply | None = None
        self._error: dict[str, AttributeValue] = {}

    def begin(self, turn: TelemetrySpan | None, request: Request, words: Attributes) -> None:
        asked: dict[str, AttributeValue] = {
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.stream": True,
        }
        name = f"chat {request.model}"
        self.span = TelemetrySpan(name, {**self._facts, **asked, **words}, parent=turn, is_client=True)

    def hear(self, event: ProviderEvent, *, tells_words: bool) -> None:
        if not self._first and not isinstance(event, ReplyStarted):
            self._first = True
            self.span.add({"gen_ai.response.time_to_first_chunk": self._clock.seconds() - self._begun})
        if isinstance(event, StartedOver):
            self._retries += 1
            self.span.add({"nacre.retries": self._retries})
        elif isinstance(event, Reply):
            self._reply = event
            self.span.add({**_reply_facts(event), **(reply_facts(event) if tells_words else {})})

    def fail(self, kind: str) -> None:
        """Mark the call as failed, unless the reply was complete and the reader only stopped early."""
        if self._reply is None:
            self.span.failed(kind)
            self._error = {ERROR_TYPE: kind}

    def end(self) -> None:
        self.span.end()
        kept = {name: fact for name, fact in self._facts.items() if name != SESSION}
        model: dict[str, AttributeValue] = {}
        if self._reply is not None:
            usage = self._reply.usage
            model = {"gen_ai.response.model": self._reply.model} if self._reply.model else {}
            for kind, tokens in (("input", usage.prompt), ("output", usage.output)):
                facts = {**kept, **model, "gen_ai.token.type": kind}
                measure("gen_ai.client.token.usage", tokens, facts)
            spent = cost(profile(self._reply.model or str(kept[MODEL])), usage)
            count("nacre.cost", spent or 0.0, {**kept, **model})
        taken = self._clock.seconds() - self._begun
        measure("gen_ai.client.operation.duration", taken, {**kept, **model, **self._error})


@dataclass(frozen=True, slots=True)
class _Aside:
    """A provider whose requests are traced as side queries."""

    asked: Provider
    telemetry: Telemetry
    purpose: str

    @property
    def name(self) -> str:
        return self.asked.name

    def capabilities(self, model: str) -> Capabilities:
        return self.asked.capabilities(model)

    def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        return self.telemetry.ask(self.asked, request, purpose=self.purpose)

    async def count_tokens(self, request: Request) -> int | None:
        return await self.asked.count_tokens(request)

    async def close(self) -> None:
        await self.asked.close()


def _kind(error: BaseException) -> str:
    return CANCELLED if isinstance(error, CancelledError | GeneratorExit) else type(error).__qualname__


def _reply_facts(reply: Reply) -> dict[str, AttributeValue]:
    facts: dict[str, AttributeValue] = {**_usage_facts(reply.usage)}
    if reply.stop_reason:
        facts["gen_ai.response.finish_reasons"] = [reply.stop_reason]
    if reply.id:
        facts["gen_ai.response.id"] = reply.id
    if reply.model:
        facts["gen_ai.response.model"] = reply.model
    return facts


def _usage_facts(usage: Usage) -> dict[str, AttributeValue]:
    """Return usage attributes; the conventions count cached tokens as input."""
    return {
        "gen_ai.usage.input_tokens": usage.prompt,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }


VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Read from the process environment, so that no settings file can switch it on."""
YES = frozenset({"true", "1", "span_only", "span_and_event"})


def captures_content() -> bool:
    """Return whether spans should contain prompts, replies and tool output."""
    return os.environ.get(VARIABLE, "").strip().lower() in YES


def message_facts(request: Request) -> dict[str, AttributeValue]:
    """Return the content attributes of a request."""
    messages: list[Json] = [
        {"role": message["role"], "parts": _parts(message["content"])} for message in request.messages
    ]
    return {
        "gen_ai.system_instructions": _written(_parts([*request.system])),
        "gen_ai.input.messages": _written(messages),
    }


def reply_facts(reply: Reply) -> dict[str, AttributeValue]:
    """Return the content attributes of a reply."""
    blocks: list[Json] = [render_block(block) for block in reply.message.blocks]
    said: JsonObject = {
        "role": "assistant",
        "parts": _parts(blocks),
        "finish_reason": reply.stop_reason or "",
    }
    return {"gen_ai.output.messages": _written([said])}


def tool_facts(arguments: JsonObject, answer: ToolResult | str) -> dict[str, AttributeValue]:
    """Return the content attributes of a tool call."""
    text = answer if isinstance(answer, str) else _text(answer)
    return {"gen_ai.tool.call.arguments": _written(arguments), "gen_ai.tool.call.result": text}


def _text(answer: ToolResult) -> str:
    return "\n".join(part.text for part in answer.content if isinstance(part, Text))


def _parts(content: Json) -> list[Json]:
    if not isinstance(content, list):
        return [{"type": "text", "content": content}]
    return [_part(block) for block in content if isinstance(block, dict)]


def _part(block: JsonObject) -> Json:
    match block:
        case {"type": "text", "text": text}:
            return {"type": "text", "content": text}
        case {"type": "thinking", "thinking": text}:
            return {"type": "reasoning", "content": text}
        case {"type": "tool_use", "id": call, "name": name, "input": arguments}:
            return {"type": "tool_call", "id": call, "name": name, "arguments": arguments}
        case {"type": "tool_result", "tool_use_id": call}:
            return {"type": "tool_call_response", "id": call, "response": _parts(block.get("content") or [])}
        case _:
            return {"type": str(block.get("type"))}


def _written(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


Attributes: TypeAlias = "Mapping[str, AttributeValue]"

API = "opentelemetry"
"""The package that a program with an SDK has imported."""
SDK_VARIABLES = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""Variables by which the API finds an SDK by itself."""
ERROR_TYPE = "error.type"
TOKEN_BUCKETS = [4**power for power in range(14)]
"""As the conventions ask, from 1 to 67 million."""
SECOND_BUCKETS = [0.01 * 2**power for power in range(14)]
"""As the conventions ask, from 10 ms to 82 s."""


def is_enabled() -> bool:
    """Return whether an SDK may have been set up in this process."""
    return API in sys.modules or any(name in os.environ for name in SDK_VARIABLES)


class TelemetrySpan:
    """One span; does nothing if the SDK fails."""

    def __init__(
        self, name: str, facts: Attributes, *, parent: TelemetrySpan | None = None, is_client: bool = False
    ) -> None:
        self._span: ApiSpan | None = None
        with suppress(Exception):
            from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415  see the module

            # Without a parent the span belongs to the one of the surrounding program, if there is one.
            around = set_span_in_context(parent._span) if parent and parent._span else None
            kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
            self._span = _tracer().start_span(name, around, kind, dict(facts))

    def add(self, facts: Attributes) -> None:
        with suppress(Exception):
            if self._span is not None:
                self._span.set_attributes(dict(facts))

    def happened(self, name: str, facts: Attributes) -> None:
        """Add an event."""
        with suppress(Exception):
            if self._span is not None:
                self._span.add_event(name, dict(facts))

    def failed(self, why: str) -> None:
        """Mark the span as failed, with the kind of error only: a message may quote content."""
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
        """Make spans of other libraries, such as an HTTP client, children of this span.

        Not around a `yield` of a generator, which may be closed in another context.
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


def measure(name: str, value: float, facts: Attributes) -> None:
    """Record a value of a histogram."""
    with suppress(Exception):
        _histogram(name).record(value, dict(facts))


def count(name: str, value: float, facts: Attributes) -> None:
    """Add to a counter."""
    with suppress(Exception):
        if value > 0:
            _counter(name).add(value, dict(facts))


UNITS = {
    "gen_ai.client.token.usage": ("{token}", "Tokens of a request, by type."),
    "gen_ai.client.operation.duration": ("s", "How long a request took."),
    "nacre.cost": ("{USD}", "What requests cost by the price table."),
    "nacre.memory.files": ("{file}", "Files of memory that extraction and dreams wrote, saved or proposed."),
    "nacre.memory.refusals": ("{refusal}", "Refused changes of memory, by reason."),
    "nacre.memory.denied_writes": ("{call}", "Denied calls of tools that can change something."),
    "nacre.memory.turns": ("{request}", "Requests of extraction and dreams."),
    "nacre.memory.duration": ("s", "How long extraction or a dream took."),
    "nacre.layer.decisions": ("{decision}", "How often a layer acted."),
    "nacre.layer.tokens": ("{token}", "Tokens that a layer kept out, took away or kept warm; estimated."),
}
"""Unit and description of every metric."""


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
