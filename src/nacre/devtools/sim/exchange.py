"""Handles a request: checks it, answers it from the script, bills it by the cache rules, logs it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from nacre.cache.models import cost, profile
from nacre.devtools.cache_models import anthropic_render, openai_rules
from nacre.devtools.cache_models.anthropic_state import (
    AnthropicSwitches,
    ApiRefusal,
    Call,
    Ending,
    RequestOutcome,
    Trace,
)
from nacre.devtools.sim.anthropic_api import MessagesApi
from nacre.devtools.sim.clock import SimClock
from nacre.devtools.sim.dialect import Accepted, Dialect, RequestRefused, invalid_request
from nacre.devtools.sim.faults import REFUSALS, Fault, parse_fault_header
from nacre.devtools.sim.http import ConnectionDropped, HttpRequest, HttpResponse, json_response, parse_json
from nacre.devtools.sim.openai_api import ChatApi
from nacre.devtools.sim.replies import PREWARMED, ReplySource, ScriptedReply, finish, is_background
from nacre.devtools.sim.responses_api import ResponsesApi
from nacre.errors import ConfigError, NacreError
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its outcome."""

    route: str
    at: float
    """Seconds since 1970 on the simulator's clock."""
    body: JsonObject
    status: int = 200
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    refusal: ApiRefusal | None = None
    trace: Trace = field(default_factory=Trace)
    fault: str | None = None
    """The deliberate fault."""
    message_id: str | None = None
    applied_edits: tuple[JsonObject, ...] = ()
    diagnostics: JsonObject | None = None


def render_log(exchanges: list[Exchange], *, bodies: bool) -> JsonObject:
    """Return the log as JSON: the entries, and the sum of their costs."""
    total = sum((line.usage for line in exchanges), Usage())
    lines: list[Json] = []
    for line in exchanges:
        # Without the body: asdict copies deeply, and bodies are most of the log.
        rendered: JsonObject = {"model": line.body.get("model"), **asdict(replace(line, body={}))}
        rendered["body"] = line.body
        lines.append({name: value for name, value in rendered.items() if bodies or name != "body"})
    return {
        "requests": lines,
        "total": {
            "requests": len(exchanges),
            "usage": asdict(total),
            "hit_rate": round(total.hit_rate, 4),
            "cost_usd": sum(line.cost_usd or 0.0 for line in exchanges),
        },
    }


LOG_LINES = 10_000
"""Maximum requests in the log; a long benchmark must not fill the memory with old bodies."""
SUMMARY = "The conversation so far, in short."
"""Text of a compaction that the rules trigger in the middle of a request."""
SSE_HEADERS = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
DEFAULT_RETRY_AFTER = 1.0
"""Seconds of `retry-after` for a rate-limited client if the script gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """Assumptions where the providers' documentation is open."""

    anthropic: AnthropicSwitches = field(default_factory=AnthropicSwitches)
    openai: openai_rules.OpenAISwitches = field(default_factory=openai_rules.OpenAISwitches)
    tokens: anthropic_render.Count | None = None
    """Token counter; None: estimated from bytes, as each provider's rules do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """An accepted request with its times and its fault."""

    accepted: Accepted
    fault: Fault | None
    start: float

    @property
    def first_token(self) -> float:
        return self.start + self.accepted.reply.delay

    @property
    def end(self) -> float:
        return self.first_token + self.accepted.reply.duration

    @property
    def streaming(self) -> bool:
        return self.accepted.body.get("stream") is True


class SimulatorState:
    """The simulator's state, through which every request passes."""

    def __init__(self, clock: SimClock, *, rules: CacheRules, source: ReplySource) -> None:
        self._clock = clock
        self._rules = rules
        self._source = source
        self._grew = asyncio.Event()
        self.script: deque[ScriptedReply] = deque()
        self.background: deque[ScriptedReply] | None = None
        """Replies for background requests; None: these take the next ones of the script."""
        self.log: deque[Exchange] = deque(maxlen=LOG_LINES)
        self.reset()

    def reset(self) -> None:
        self.script.clear()
        self.background = None
        self.log.clear()
        rules = self._rules
        self.messages_api = MessagesApi(
            rules.anthropic, rules.tokens or anthropic_render.estimate, chance=self._clock.chance
        )
        self.chat_api = ChatApi(rules.openai, rules.tokens or openai_rules.estimate)
        self.responses_api = ResponsesApi(rules.openai, rules.tokens or openai_rules.estimate)

    async def arrivals(self, count: int) -> None:
        while len(self.log) < count:
            await self._grew.wait()

    async def complete(self, request: HttpRequest, dialect: Dialect) -> HttpResponse:
        """Answer one request for a reply."""
        seen: JsonObject = {}
        try:
            seen.update(_opened(request, dialect))
            seen.update(dialect.expand(seen))
            taken = await self._take(request, seen, dialect)
        except RequestRefused as refused:
            self._write_down(request, seen, refused=refused)
            return self._turn_away(dialect, refused)
        return await self._deliver(taken, dialect)

    def count_tokens(self, request: HttpRequest) -> HttpResponse:
        """Answer one request for the size of a prompt; it is neither billed nor logged."""
        api = self.messages_api
        try:
            body = _opened(request, api)
            asked = _asked_fault(request.headers)
            if asked is not None and turns_away(asked, streaming=False):
                raise _as_refused(asked, api)
            return json_response(200, api.count_tokens(body, request.headers, self._call(request, body)))
        except RequestRefused as refused:
            return self._turn_away(api, refused)

    async def _take(self, request: HttpRequest, body: JsonObject, dialect: Dialect) -> _Taken:
        start = self._clock.seconds()
        dialect.check(body, request.headers)
        words = dialect.in_blocks(body)
        asked = _asked_fault(request.headers)
        streaming = body.get("stream") is True
        if asked is not None and turns_away(asked, streaming=streaming):
            raise _as_refused(asked, dialect)
        script = self.script
        if self.background is not None and is_background(words, request.headers):
            script = self.background
        scripted, from_script = await self._next_reply(words, script)
        fault = asked or scripted.fault
        if fault is not None and turns_away(fault, streaming=streaming):
            # The item was written to fail: it is consumed, and the client's next try gets the next one.
            self._use_up(script, from_script)
            raise _as_refused(fault, dialect)
        reply = finish(scripted, words, new_id=self._clock.new_id)
        call = replace(
            self._call(request, body, reply),
            start=start,
            first_token=start + reply.delay,
            end=start + reply.delay + reply.duration,
            outcome=_ending(fault),
            message_id=f"{dialect.id_prefix}{self._clock.new_id()}",
        )
        outcome = dialect.bill(call)
        if outcome.refusal is not None:
            raise RequestRefused(outcome.refusal)
        self._use_up(script, from_script)
        dialect.remember(outcome)
        # Additions of the rules: a stop reason, a summary that was triggered.
        content = reply.content
        compacted = any(step.kind == "compaction" for step in outcome.iterations)
        if compacted and not any(block.get("type") == "compaction" for block in content):
            rest = () if outcome.stop_reason == "compaction" else content
            content = ({"type": "compaction", "content": SUMMARY}, *rest)
        reply = replace(reply, content=content, stop_reason=outcome.stop_reason or reply.stop_reason)
        accepted = Accepted(body=body, reply=reply, outcome=outcome, id=call.message_id, created=int(start))
        if fault is not None and streaming:
            outcome = _billed_until(fault, accepted, dialect)
        self._write_down(request, body, outcome=outcome, fault=fault, message_id=call.message_id)
        return _Taken(accepted=accepted, fault=fault, start=start)

    def _use_up(self, script: deque[ScriptedReply], from_script: bool) -> None:
        if from_script:
            script.popleft()

    async def _next_reply(
        self, words: JsonObject, script: deque[ScriptedReply]
    ) -> tuple[ScriptedReply, bool]:
        """Return the reply, and whether it is the script's next item, consumed only on acceptance."""
        if words.get("max_tokens") == 0:
            return PREWARMED, False
        if script:
            return script[0], True
        try:
            return await self._source(words), False
        except NacreError as error:
            raise RequestRefused(ApiRefusal(500, "api_error", f"no reply to give: {error}")) from None

    def _call(self, request: HttpRequest, body: JsonObject, reply: ScriptedReply | None = None) -> Call:
        headers = request.headers
        return Call(
            body=body,
            org=headers.get("x-sim-org", "org"),
            workspace=headers.get("x-sim-workspace", "default"),
            betas=tuple(
                filter(None, (name.strip() for name in headers.get("anthropic-beta", "").split(",")))
            ),
            start=self._clock.seconds(),
            output_tokens=reply.tokens if reply else 0,
            lane=headers.get("x-sim-lane", ""),
            reply=reply.content if reply else (),
            summary=SUMMARY,
        )

    async def _deliver(self, taken: _Taken, dialect: Dialect) -> HttpResponse:
        await self._clock.reach(taken.first_token)
        ids = (("request-id", f"req_{taken.accepted.id}"),)
        fault = taken.fault
        if taken.streaming and not (fault is not None and fault.kind == "hang" and not fault.events_first):
            return HttpResponse(200, self._frames(taken, dialect), (*SSE_HEADERS, *ids))
        await self._clock.reach(taken.end)
        payload = canonical(dialect.whole(taken.accepted))
        if fault is not None:
            payload = await broken_body(payload, fault)
        return HttpResponse(200, payload, (("content-type", "application/json"), *ids))

    async def _frames(self, taken: _Taken, dialect: Dialect) -> AsyncIterator[bytes]:
        frames = dialect.frames(taken.accepted)
        if taken.fault is not None:
            async for event in broken_stream(frames, taken.fault, dialect):
                yield event
            return
        # The last event is held until the reply's time is over, so that its end is the stream's end.
        *most, last = frames
        for event in most:
            yield event
        await self._clock.reach(taken.end)
        yield last

    def _write_down(
        self,
        request: HttpRequest,
        body: JsonObject,
        *,
        outcome: RequestOutcome | None = None,
        refused: RequestRefused | None = None,
        fault: Fault | None = None,
        message_id: str | None = None,
    ) -> None:
        line = Exchange(route=f"{request.method} {request.path}", at=self._clock.seconds(), body=body)
        if refused is not None:
            line = replace(line, status=refused.refusal.status, refusal=refused.refusal, fault=refused.fault)
        if outcome is not None:
            line = replace(
                line,
                usage=outcome.usage,
                cost_usd=outcome.cost_usd,
                trace=outcome.trace,
                fault=fault.kind if fault else None,
                message_id=message_id,
                applied_edits=outcome.applied_edits,
                diagnostics=outcome.diagnostics,
            )
        self.log.append(line)
        self._grew.set()
        self._grew = asyncio.Event()

    def _turn_away(self, dialect: Dialect, refused: RequestRefused) -> HttpResponse:
        request_id = f"req_{self._clock.new_id()}"
        wait = () if refused.retry_after is None else (("retry-after", f"{refused.retry_after:g}"),)
        value = {**dialect.error(refused.refusal), "request_id": request_id}
        return json_response(refused.refusal.status, value, (("request-id", request_id), *wait))


def _opened(request: HttpRequest, dialect: Dialect) -> JsonObject:
    """Return the body of a valid request: it has a key, an allowed size, and is a JSON object."""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer").strip()
    if not (request.headers.get("x-api-key", "").strip() or bearer):
        raise _as_refused(Fault(kind="auth"), dialect)
    if request.too_large:
        raise _as_refused(Fault(kind="too_large"), dialect)
    try:
        body = parse_json(request.body)
    except (ValueError, RecursionError) as error:
        raise invalid_request(f"The request body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise invalid_request("The request body is not a JSON object")
    return body


def _asked_fault(headers: Mapping[str, str]) -> Fault | None:
    asked = headers.get("x-sim-fault")
    try:
        return parse_fault_header(asked) if asked else None
    except ConfigError as error:
        raise invalid_request(str(error)) from None


def _as_refused(fault: Fault, dialect: Dialect) -> RequestRefused:
    wait = fault.retry_after
    if wait is None and fault.kind == "rate_limit":
        wait = DEFAULT_RETRY_AFTER
    return RequestRefused(dialect.refusal(fault), retry_after=wait, fault=fault.kind)


def _ending(fault: Fault | None) -> Ending:
    """Return how the call ends for the provider: an answer garbled in transit was still given."""
    if fault is None or fault.kind in {"malformed", "truncate_json"}:
        return "ok"
    return "broken_before" if fault.kind == "hang" and not fault.events_first else "broken_after"


def _billed_until(fault: Fault, accepted: Accepted, dialect: Dialect) -> RequestOutcome:
    """Return the outcome with as much output as the stream holds when it breaks."""
    outcome = accepted.outcome
    events = len(list(dialect.frames(accepted)))
    share = min(fault.events_first, events - 1) / events
    usage = replace(outcome.usage, output=round(outcome.usage.output * share))
    rules = profile(str(accepted.body.get("model")))
    return replace(outcome, usage=usage, cost_usd=cost(rules, usage))


GARBLED = b'event: content_block_delta\ndata: {"type": "content_block_delta", "delta": {"te\n\n'
"""An event with truncated JSON."""
NOT_JSON = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
"""The response of a proxy, with the content type of the API."""


async def broken_stream(frames: Iterator[bytes], fault: Fault, dialect: Dialect) -> AsyncIterator[bytes]:
    """Yield the stream up to the fault, at the latest before its last event; then the fault."""
    events = list(frames)
    cut = min(fault.events_first, len(events) - 1)
    for event in events[:cut]:
        yield event
    if fault.kind in REFUSALS:
        yield dialect.failed(dialect.refusal(fault))
    elif fault.kind == "malformed":
        yield GARBLED
    elif fault.kind == "truncate_json":
        yield events[cut][: len(events[cut]) // 2]
    else:
        await _silence(fault)


async def broken_body(payload: bytes, fault: Fault) -> bytes:
    """Return a whole answer with the fault applied."""
    if fault.kind == "malformed":
        return NOT_JSON
    if fault.kind == "truncate_json":
        return payload[: len(payload) // 2]
    await _silence(fault)
    return payload


async def _silence(fault: Fault) -> None:
    """Drop the connection, or send nothing until the client does."""
    if fault.kind == "hang":
        await asyncio.Event().wait()
    raise ConnectionDropped


def turns_away(fault: Fault, *, streaming: bool) -> bool:
    """Return whether the fault is an HTTP status: only a stream can fail after it has begun."""
    return fault.is_refusal or (fault.kind in REFUSALS and not streaming)
