"""A conversation: its transcript, its layers, what it costs, and the requests made from it.

Works without nacre's loop: `prepare` returns a request, `record` takes the reply, `add_results` the results
of the tools (Q4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Protocol, TypeVar, cast

from nacre.cache.breakpoints import place_markers
from nacre.cache.keep_warm import Prefix
from nacre.cache.models import ModelProfile, profile
from nacre.cache.prefix_monitor import PrefixMonitor
from nacre.cache.warmth import FIVE_MINUTES, KeepWarmSettings, Lifetime, Warmth
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ContextOverflow, InvalidRequest, PromptTooLong
from nacre.loop.limits import Thresholds, thresholds, window
from nacre.loop.round import message_record, reply_record
from nacre.messages.blocks import JsonObject, Message, Text, ToolResult
from nacre.messages.events import Notice, NoticeLevel, Reply
from nacre.messages.jsonl_parse import parse_usage
from nacre.messages.records import Noted, Record, Said
from nacre.messages.rewrite import drop_thinking
from nacre.messages.tokens import Calibration, estimate_json, estimate_text
from nacre.messages.transcript import Transcript
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.messages.wire import parse_content, without_system
from nacre.providers.base import Request
from nacre.session.attachments import Attachment, with_attachments
from nacre.session.cache_ttl import last_touched, lifetime_change, lifetime_seconds, noted_lifetime
from nacre.session.ladder import Pressure, fit
from nacre.session.layer import Layer
from nacre.session.meter import SIDE_QUERY, UNFINISHED, Meter
from nacre.session.session_log import NullRecordWriter, RecordWriter
from nacre.session.settings import DEFAULT_SETTINGS, SessionSettings
from nacre.session.telemetry import Telemetry
from nacre.tools.base import Function, Tool, as_tools
from nacre.tools.run import run_all


@dataclass(frozen=True, init=False)
class Base:
    """The model, the instructions and the tools of a session; they never change during it (C31b)."""

    model: str
    system: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...]
    opening: str
    """Text ahead of the first message, for what varies: a changed system prompt would cost the cache."""

    def __init__(
        self,
        model: str,
        instructions: str | Sequence[JsonObject] = "",
        tools: Iterable[Tool | Function | JsonObject] = (),
        *,
        opening: str = "",
    ) -> None:
        """Take instructions as text or as content blocks, and tools as objects or as JSON definitions.

        Tool objects are sorted by name, so that the order in which they were found never reaches a request.
        """
        if isinstance(instructions, str):
            instructions = ({"type": "text", "text": instructions},) if instructions else ()
        given = tuple(tools)
        objects = as_tools(one for one in given if not isinstance(one, dict))
        definitions = [one.definition for one in sorted(objects, key=lambda one: one.name)]
        definitions += [one for one in given if isinstance(one, dict)]
        values = {
            "model": model,
            "system": tuple(instructions),
            "tools": tuple(definitions),
            "opening": opening,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @cached_property
    def tokens(self) -> int:
        """The estimated size of system prompt and tools; cached, because every request needs it."""
        words = sum(estimate_text(str(block["text"])) for block in self.system)
        return words + sum(estimate_json(definition) for definition in self.tools)


class Redactor(Protocol):
    """Removes text that must not be sent to the provider."""

    async def filter(self, message: Said) -> Said:
        """Return the message as it may be recorded."""
        ...

    async def attachments(self, attached: Sequence[Attachment]) -> Sequence[Attachment]:
        """Return the attachments as they may be recorded."""
        ...


OPENING = "opening"
"""The kind of note that says which record holds the opening text."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """The last request that was answered; the provider has it in its cache."""

    request: Request
    usage: Usage
    asked_at: datetime


LayerType = TypeVar("LayerType", bound=Layer)


class Session:
    """One conversation: records in, requests out. List order of `layers` is call order."""

    keep_warm: KeepWarmSettings | None = None
    """How the cache is kept warm between requests; None if it is not."""
    answered: AnsweredRequest | None = None
    """The last answered request; None while a request is under way."""
    _sent: Request | None = None

    def __init__(
        self,
        base: Base,
        records: Iterable[Record] = (),
        *,
        layers: Sequence[Layer] = (),
        writer: RecordWriter | None = None,
        settings: SessionSettings = DEFAULT_SETTINGS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.base = base
        self.writer: RecordWriter = writer or NullRecordWriter(clock.new_id())
        self.telemetry = Telemetry(self.writer.session_id, clock)
        self.transcript = Transcript(records, write=self._write)
        self.settings = settings
        self.layers = list(layers)
        self.redactor: Redactor | None = None
        """First on messages, last on attachments; None if nothing has to be removed."""
        self.on_usage: Callable[[Usage, str], None] | None = None
        """Called with the usage of every request and the model whose prices apply."""
        self.clock = clock
        self.meter = Meter.of(self.transcript.records)
        self.calibration = Calibration()
        self.is_one_shot = False
        """No turn follows this one, so work that only helps a later turn is not started."""
        self._prefix_monitor = PrefixMonitor(strict=settings.strict_prefix)
        self._estimated_input = 0
        self._cache_touched_at = last_touched(self.transcript.records)
        self._starts_turn = True
        self._notices: list[Notice] = []
        self._unfinished: list[Noted] = []
        """Notes on the cost of unfinished replies that are not in the log yet."""
        self._last_usage = Usage()
        self._last_usage_epochs = 0

    @property
    def id(self) -> str:
        """The id under which the session can be resumed, if it is written to disk."""
        return self.writer.session_id

    @property
    def view(self) -> View:
        """What the model sees now."""
        return self.transcript.view

    @property
    def profile(self) -> ModelProfile:
        return profile(self.base.model)

    @property
    def thresholds(self) -> Thresholds:
        """Where in the model's window something happens (C3)."""
        model = self.profile
        settings = self.settings
        size = window(
            self.base.model, known=model.window if model.known else None, ceiling=settings.window_ceiling
        )
        return thresholds(
            size,
            max_output=model.max_output,
            percent=settings.compact_percent,
            compact_window=settings.compact_window,
        )

    @property
    def window(self) -> int:
        """How many tokens a request may have at most; set it to use less than the model accepts."""
        return self.thresholds.window

    @window.setter
    def window(self, tokens: int) -> None:
        self.settings = replace(self.settings, window_ceiling=tokens)

    @property
    def tokens(self) -> int:
        """How many tokens the next request would hold."""
        return self.count_tokens(self.view)

    def count_tokens(self, view: View) -> int:
        """Return the estimated size of a request for this view."""
        return view.count(self.base.tokens, ratio=self.calibration.ratio)

    def layer(self, kind: type[LayerType]) -> LayerType | None:
        """Return the layer of this class, if there is one."""
        return next((one for one in self.layers if isinstance(one, kind)), None)

    def wrap_tools(self, tools: Mapping[str, Tool], fork: str = "") -> Mapping[str, Tool]:
        """Return the tools with every layer around their calls; `fork` names the purpose of a fork."""
        for layer in self.layers:
            tools = layer.wrap_tools(tools, fork=fork)
        return tools

    # Messages

    async def add_user(self, text: str, *, is_persons: bool = True) -> None:
        """Record a prompt with its attachments; the first one goes behind the opening text."""
        for layer in self.layers if is_persons else ():
            await layer.before_prompt(text)
        self._starts_turn = True
        records = await self.message_records(
            message_record("user", (Text(text),), self.clock, meta=not is_persons)
        )
        if self.base.opening and not self.is_opened:
            opening = message_record("user", (Text(self.base.opening),), self.clock, meta=True)
            facts: JsonObject = {"record": opening.id}
            note = Noted(id=self.clock.new_id(), at=self.clock.now(), kind=OPENING, facts=facts)
            records = [opening, note, *records]
        await self.transcript.append(*records)

    async def add_results(self, results: Sequence[ToolResult]) -> None:
        """Record the results of the last reply's tool calls."""
        message = message_record("user", tuple(results), self.clock)
        await self.transcript.append(*await self.message_records(message))

    async def call_tools(self, tools: Iterable[Tool | Function]) -> list[ToolResult]:
        """Run the tool calls of the last reply, record their results and return them."""
        reply = self.view.last_reply
        if reply is None or not reply.tool_calls:
            return []
        by_name = self.wrap_tools({one.name: one for one in as_tools(tools)})
        results = await run_all(reply.tool_calls, by_name)
        await self.add_results(results)
        return results

    @property
    def is_opened(self) -> bool:
        """Whether the log says that the model has seen the opening text; logs of other programs never do."""
        return self.view.last_noted(OPENING) is not None

    async def message_records(self, message: Said, *, attach: bool = True) -> Sequence[Record]:
        """Return the records of a prompt or of tool results: filtered, followed by attachments.

        `attach=False` is for a round that was cancelled: filters apply, no layer attaches anything.
        """
        if self.redactor is not None:
            message = await self.redactor.filter(message)
        attachments: list[Attachment] = []
        for layer in self.layers:
            message, added = await layer.filter(message, self.view)
            attachments += added
        if attach:
            for layer in self.layers:
                attachments += await layer.attach(message, self.view)
            attachments = list(await self.redacted(attachments))
        self._notices += [Notice(one.notice) for one in attachments if one.notice]
        inside = self.profile.strips_old_thinking
        return with_attachments(message, attachments, self.clock, inside_results=inside)

    async def redacted(self, attached: Sequence[Attachment]) -> Sequence[Attachment]:
        """Return attachments without text that must not be sent."""
        return await self.redactor.attachments(attached) if self.redactor else attached

    # Requests

    async def prepare(self) -> Request:
        """Return the next request, shrunk to fit, with its cache markers."""
        await self.transcript.append(*await self.fit(self.view, None))
        return self.start_request(self.view)

    def pressure(self, view: View, overflow: PromptTooLong | None = None) -> Pressure:
        """Return how full the window would be with this view."""
        return Pressure(
            tokens=self.count_tokens(view),
            thresholds=self.thresholds,
            profile=self.profile,
            warmth=self.warmth,
            starts_turn=self._starts_turn,
            overflow=overflow,
        )

    async def fit(self, view: View, overflow: PromptTooLong | None) -> list[Record]:
        """Return the records that make a view fit the window; `overflow` is the provider's refusal."""
        view_before = self.view
        for layer in self.layers:
            await layer.before_request()
        # `before_request` may have appended records, which layers must see when they shrink the view.
        view = self.view if view is view_before else view
        pressure = self.pressure(view, overflow)
        notices_before = len(self._notices)
        try:
            records = await fit(
                view, self.layers, pressure, base=self.base.tokens, ratio=self.calibration.ratio
            )
        except ContextOverflow:
            # The layers' records are lost, so their notices are wrong; their warnings are not.
            new = self._notices[notices_before:]
            self._notices[notices_before:] = [one for one in new if one.level == "warning"]
            raise
        is_cache_empty = pressure.warmth.touched_at is None or pressure.warmth.is_cold
        if self.settings.cache_ttl == "auto" and is_cache_empty:
            fitted = view.after(*records)
            prefix = self.prefix(self.count_tokens(fitted))
            records += lifetime_change(fitted, prefix, self.keep_warm, self.clock)
        return records

    def request(self, view: View, max_output: int | None = None, *, branch_at: int | None = None) -> Request:
        """Return a view as a request, without side effects.

        `branch_at` is the number of messages that a fork shares with its parent.
        """
        messages = view.messages
        if view.has_system_messages and not self.profile.system_messages:
            messages = without_system(messages)
        if not messages:
            raise InvalidRequest("there is nothing to send yet: add a user's message first")
        if branch_at is None:
            cache_points = [end for layer in self.layers for end in layer.cache_points(view, messages)]
        else:
            cache_points = [branch_at]
        system, tools, messages = place_markers(
            list(self.base.system),
            list(self.base.tools),
            messages,
            profile=self.profile,
            branch_at=cache_points,
            ttl=self.lifetime,
        )
        request = Request(
            model=self.base.model.removesuffix("[1m]"),
            system=system,
            tools=tools,
            messages=messages,
            max_tokens=min(max_output or self.settings.max_output, self.profile.max_output),
        )
        for layer in self.layers:
            request = layer.finish_request(request, view)
        return request

    def start_request(self, view: View, max_output: int | None = None) -> Request:
        """Return a view as a request that is sent now; the prefix monitor compares it with the last one."""
        request = self.request(view, max_output)
        self._prefix_monitor.check_request(self.base.model, view, is_cold=self.warmth.is_cold)
        self.touch_cache()
        self._sent = request
        self.answered = None
        self._estimated_input = self.base.tokens + view.estimate
        return request

    # Replies

    async def record(self, reply: Reply | JsonObject) -> None:
        """Record a reply; also as the JSON that Anthropic's SDK returns."""
        if not isinstance(reply, Reply):
            reply = Reply(
                message=Message("assistant", parse_content(reply["content"])),
                usage=parse_usage(reply.get("usage")) or Usage(),
                stop_reason=cast("str | None", reply.get("stop_reason")),
                id=cast("str | None", reply.get("id")),
                model=cast("str | None", reply.get("model")),
            )
        await self.transcript.append(reply_record(reply, self.clock, self.view))
        self.on_reply(reply)

    def on_reply(self, reply: Reply) -> None:
        """Count what a reply cost, check what it read from the cache, and notify layers."""
        self._starts_turn = False
        self.add_usage(reply.usage, reply.model)
        self._last_usage = reply.usage
        self._last_usage_epochs = len(self.view.epochs)
        self.calibration = self.calibration.after(estimated=self._estimated_input, real=reply.usage.prompt)
        # A layer may let the provider clear by itself, and the provider need not report when it did.
        may_clear = self._sent is not None and "context_management" in self._sent.options
        self._prefix_monitor.check_usage(reply.usage, reply.model, may_clear=may_clear)
        if self._sent is not None and self._cache_touched_at is not None:
            self.answered = AnsweredRequest(self._sent, reply.usage, self._cache_touched_at)
        for layer in self.layers:
            layer.on_reply(reply)

    async def drop_thinking(self) -> bool:
        """Drop all thinking from the conversation, after `ThinkingMismatch`; return whether there was any."""
        records = drop_thinking(self.view.items, self.clock)
        await self.transcript.append(*records)
        return bool(records)

    def cancel_turn(self) -> None:
        """Tell layers that the turn was cancelled or failed, so that they stop what it started."""
        for layer in self.layers:
            layer.on_cancel()

    # Cost

    def add_usage(self, usage: Usage, model: str | None = None, *, purpose: str = "") -> None:
        """Add a request to the meter; `model` is the one that answered, if it is another one."""
        priced = self.pricing_model(model)
        self.meter = self.meter.after(usage, priced, purpose=purpose)
        if self.on_usage is not None:
            self.on_usage(usage, priced)

    def add_unfinished_usage(self, usage: Usage) -> None:
        """Add a request of the conversation whose reply is not recorded."""
        self.add_usage(usage)
        facts: JsonObject = {"purpose": UNFINISHED, "model": self.base.model, "usage": usage.as_json()}
        note = Noted(id=self.clock.new_id(), at=self.clock.now(), kind=SIDE_QUERY, facts=facts)
        self._unfinished.append(note)

    async def write_unfinished_usage(self) -> None:
        """Write the cost of unfinished replies to the log."""
        notes = self._unfinished
        self._unfinished = []
        await self.transcript.append(*notes)

    def expected_input(self, view: View) -> Usage:
        """Return the input usage that a request for this view should have, cached as the last one was.

        Call it before `start_request`, which resets the age of the cache.
        """
        tokens = self.count_tokens(view)
        last = self._last_usage
        is_cached = not self.warmth.is_cold and len(view.epochs) == self._last_usage_epochs
        read = min(tokens, last.prompt) if is_cached and last.cache_read + last.cache_write else 0
        written = tokens - read if last.cache_write else 0
        return Usage(input=tokens - read - written, cache_read=read, cache_write=written, approximate=True)

    def pricing_model(self, model: str | None) -> str:
        """Return the model whose prices apply to a reply of `model`: the session's, if that is unknown."""
        return model if model and profile(model).known else self.base.model

    # The provider's cache

    @property
    def lifetime(self) -> Lifetime:
        """How long the provider is asked to keep what is sent."""
        setting = self.settings.cache_ttl
        return (noted_lifetime(self.view) or "5m") if setting == "auto" else setting

    def prefix(self, tokens: int) -> Prefix:
        """Return a cached prefix of this size; system, tools and opening are its head."""
        head = self.base.tokens + estimate_text(self.base.opening)
        return Prefix(
            tokens=tokens, profile=self.profile, lifetime=self.lifetime, head_tokens=min(head, tokens)
        )

    @property
    def warmth(self) -> Warmth:
        """Whether the provider still has the prefix in its cache."""
        seconds = self.profile.ttl_seconds or FIVE_MINUTES
        if self.profile.cache_markers:
            seconds = lifetime_seconds(self.lifetime)
        return Warmth(now=self.clock.now(), touched_at=self._cache_touched_at, lifetime_seconds=seconds)

    def touch_cache(self, at: datetime | None = None) -> None:
        """Note that a request or a refresh began, now or at `at`; the cached prefix lives on from then."""
        self._cache_touched_at = at or self.clock.now()

    # Notices

    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        """Show the person a line with the next events of a turn."""
        notice = Notice(text, level)
        if notice not in self._notices:
            self._notices.append(notice)

    def notices(self) -> list[Notice]:
        """Return and forget the notices for the person, warnings last."""
        notices = self._notices
        self._notices = []
        notices += [Notice(line, "warning") for line in self._prefix_monitor.take_warnings()]
        return sorted(notices, key=lambda one: one.level == "warning")

    async def _write(self, records: Sequence[Record]) -> None:
        await self.writer.write(records)
        self.telemetry.record_decisions(records)
