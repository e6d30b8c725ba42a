"""A conversation: its transcript, its layers, what it costs, and the requests made from it.

Works without nacre's loop: `prepare` returns a request, `record` takes the reply, `add_results` the results
of the tools (Q4).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar, cast

from nacre.cache.breakpoints import place_markers
from nacre.cache.keep_warm import Prefix
from nacre.cache.models import ModelProfile, Thresholds, profile, thresholds, window_size
from nacre.cache.prefix_monitor import PrefixMonitor
from nacre.cache.warmth import FIVE_MINUTES, KeepWarmSettings, Lifetime, Warmth
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ContextOverflow, InvalidRequest, PromptTooLong
from nacre.loop.round import message_record, reply_record
from nacre.messages.blocks import JsonObject, Message, Text, ToolResult
from nacre.messages.events import Notice, NoticeLevel, Reply
from nacre.messages.media import NO_IMAGES, ImageInput, as_image, without_media
from nacre.messages.records import Noted, Record, Said
from nacre.messages.rewrite import drop_thinking
from nacre.messages.tokens import RequestCalibration, estimate_text
from nacre.messages.transcript import Transcript
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.messages.wire import parse_content, without_system
from nacre.providers.base import Request, betas_of
from nacre.session.base_change import BASE, BaseChange, base_change, base_key, is_base_counted, size_change
from nacre.session.base_change import Base as Base
from nacre.session.cache_ttl import (
    AnsweredRequest,
    last_touched,
    last_usage,
    lifetime_change,
    lifetime_seconds,
    noted_lifetime,
)
from nacre.session.cached_prefixes import CachedPrefixes, expected_usage
from nacre.session.fit import WindowState, fit, media_excess, media_since, uncounted
from nacre.session.layer import Attachment, Layer, Redactor, with_attachments
from nacre.session.log_writer import NullRecordWriter, RecordWriter, SessionLogWriter
from nacre.session.meter import SIDE_QUERY, Meter, ReplyTimer
from nacre.session.settings import DEFAULT_SETTINGS, SessionSettings
from nacre.session.telemetry import Telemetry
from nacre.tools.base import Function, Tool, as_tools
from nacre.tools.run import run_all

OUTPUT_LIMIT = "output_limit"
"""The kind of note that says that a reply was cut off, so that later ones get the raised output limit."""
OPENING = "opening"
"""The kind of note that says which record holds the opening text."""

LayerType = TypeVar("LayerType", bound=Layer)


class Session:
    """One conversation: records in, requests out."""

    keep_warm: KeepWarmSettings | None = None
    """How the cache is kept warm between requests; None if it is not."""
    answered: AnsweredRequest | None = None
    """The last answered request; None while a request is under way."""
    _sent: Request | None = None
    _sent_view: View | None = None

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
        reread = self.writer.reread if isinstance(self.writer, SessionLogWriter) else None
        self.transcript = Transcript(records, write=self._write, reread=reread)
        self.settings = settings
        self._added: tuple[Layer, ...] = ()
        self._layers: tuple[Layer, ...] = ()
        """Those of `_added` that are switched on."""
        self.redactor: Redactor | None = None
        """First on messages, last on attachments; None if nothing has to be removed."""
        self.on_usage: Callable[[Usage, str], None] | None = None
        """Called with the usage of every request and the model whose prices apply."""
        self.count_request: Callable[[Request], Awaitable[int | None]] | None = None
        """Returns the provider's count of a request, or None; unset where no provider is known."""
        self.clock = clock
        self.meter = Meter.of(self.transcript.records)
        self._calibration = RequestCalibration(base=base.tokens)
        self.learnt_window: int | None = None
        """The window that the provider named when it refused a prompt."""
        self.is_one_shot = False
        """No turn follows this one, so work that only helps a later turn is not started."""
        self._prefix_monitor = PrefixMonitor(strict=settings.strict_prefix)
        self._sent_text = 0
        """The estimated tokens of the messages of the last request."""
        self._touched_before = self._touched_at = last_touched(self.view.records)
        self._prefixes = CachedPrefixes(self.view.records)
        self.timer = ReplyTimer(clock)
        self._starts_turn = True
        self._notices: list[Notice] = []
        self._unfinished: list[Noted] = []
        """Notes on the cost of unfinished replies that are not in the log yet."""
        self._announced_change: BaseChange | None = None
        """The change of the base of which the person knows."""
        self.add_layers(*layers)

    @property
    def id(self) -> str:
        """The id under which the session can be resumed, if it is written to disk."""
        return self.writer.session_id

    @property
    def folder(self) -> Path | None:
        """The folder for other files of the session; None if it is not written to disk."""
        return self.writer.folder if isinstance(self.writer, SessionLogWriter) else None

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
        return thresholds(
            window_size(self.base.model, self.settings.window_ceiling),
            max_output=self.profile.max_output,
            percent=self.settings.compact_percent,
            compact_window=self.settings.compact_window,
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
        calibration = self.calibration
        tokens = view.count(calibration.base_tokens, ratio=calibration.ratio)
        return max(0, tokens - uncounted(view, self.profile, ratio=calibration.ratio))

    @property
    def calibration(self) -> RequestCalibration:
        """What was learnt about the size of requests, for the base that the session has now (C2)."""
        return self._calibration.for_base(self.base.tokens)

    @calibration.setter
    def calibration(self, value: RequestCalibration) -> None:
        self._calibration = value

    def _least_tokens(self, view: View) -> int:
        """Return how many tokens a request for this view has at least; equal to its size once measured."""
        if view.anchor is not None or self.calibration.is_measured:
            return self.count_tokens(view)
        return self.calibration.least(self.text_tokens(view))

    def estimate_tokens(self, view: View) -> int:
        """Return the size of a request without the provider's count of a reply, to compare two views."""
        return self.calibration.base_tokens + round(self.text_tokens(view) * self.calibration.ratio)

    def text_tokens(self, view: View) -> int:
        """Return the estimated tokens of the messages that the model is shown."""
        old_thinking = view.old_thinking if self.profile.strips_old_thinking else 0
        return view.estimate - old_thinking - media_excess(view, self.profile)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order in which they are called."""
        return self._layers

    def add_layers(self, *layers: Layer) -> None:
        """Append layers; each is called after those that are there."""
        for layer in layers:
            if not isinstance(layer, Layer):
                raise TypeError(f"a layer is an instance of a subclass of `Layer`, not {layer!r}")
            name = type(layer).__name__
            if any(one is layer for one in self._added):
                raise ValueError(f"this {name} is a layer of this session already; add each layer once")
            layer.open(self)
            self._added = (*self._added, layer)
            self._layers = (*self._layers, layer)

    def remove_layer(self, layer: Layer) -> None:
        """Take a layer out; it is no longer called."""
        self._added = tuple(one for one in self._added if one is not layer)
        self._layers = tuple(one for one in self._layers if one is not layer)

    def switch_layer(self, name: str, *, is_on: bool) -> bool:
        """Let layers of a class take part from now on, or not; return whether there are any."""
        found = [one for one in self._added if type(one).__name__ == name]
        on = {id(one) for one in self._layers} - {id(one) for one in found}
        on |= {id(one) for one in found} if is_on else set()
        self._layers = tuple(one for one in self._added if id(one) in on)
        return bool(found)

    def layer(self, kind: type[LayerType]) -> LayerType | None:
        """Return the layer of this class, if there is one."""
        return next((one for one in self.layers if isinstance(one, kind)), None)

    def wrap_tools(self, tools: Mapping[str, Tool], fork: str = "") -> Mapping[str, Tool]:
        """Return the tools with every layer around their calls; `fork` names the purpose of a fork."""
        for layer in self.layers:
            tools = layer.wrap_tools(tools, fork=fork)
        return tools

    # Messages

    async def add_user(
        self, text: str, *, images: Sequence[ImageInput] = (), is_persons: bool = True
    ) -> None:
        """Record a prompt with its pictures and attachments; the first one goes behind the opening text.

        Raises `ValueError` for a picture that cannot be read or that providers refuse.
        """
        pictures = tuple(as_image(one) for one in images)
        if pictures and not self.profile.images:
            self.notify(NO_IMAGES.format(model=self.base.model), "warning")
        for layer in self.layers if is_persons else ():
            await layer.before_prompt(text)
        self._starts_turn = True
        records = await self.message_records(
            message_record("user", (*pictures, Text(text)), self.clock, meta=not is_persons)
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

    async def note_base(self) -> None:
        """Note a changed model, system prompt or tool in the log, before the first request with it.

        Thinking that is bound to the old base, or to another model, is dropped (C12b).
        """
        note = self.view.last_noted(BASE)
        facts = self._base_facts
        if note is not None and note.facts == facts:
            return
        change = base_change(note, facts)
        records: list[Record] = []
        if change is not None:
            self._prefix_monitor.change_base(change.reason)
            if line := self.announce_base_change():
                self.notify(line, "warning")
            if change.is_model_changed or (self.profile.binds_thinking and not change.is_level_only):
                records += drop_thinking(self.view.items, self.clock)
        records.append(Noted(id=self.clock.new_id(), at=self.clock.now(), kind=BASE, facts=facts))
        await self.transcript.append(*records)

    @property
    def _base_facts(self) -> JsonObject:
        """The facts of the base for the log, with the level of thinking if one is set."""
        return {**self.base.facts, **({"thinking": level} if (level := self.settings.thinking) else {})}

    def announce_base_change(self) -> str:
        """Return once what a change of the base since the last request costs; empty if that is nothing."""
        change = base_change(self.view.last_noted(BASE), self._base_facts)
        is_known = change == self._announced_change
        self._announced_change = change
        if change is None or is_known or (last := last_usage(self.view)) is None:
            return ""
        is_warm = self.warmth.touched_at is not None and not self.warmth.is_cold
        view = self.view.after(*drop_thinking(self.view.items, self.clock))  # as `note_base` does
        tokens = self.count_tokens(view) + size_change(self.view, self.base)
        return change.notice(tokens, last.cache_read + last.cache_write if is_warm else 0)

    async def prepare(self) -> Request:
        """Return the next request, shrunk to fit, with its cache markers."""
        await self.transcript.append(*await self.fit(self.view, None))
        return self.start_request(self.view)

    def window_state(self, view: View, overflow: PromptTooLong | None = None) -> WindowState:
        """Return how full the window would be with this view."""
        return WindowState(
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
        if view is view_before:
            await self.note_base()
        for layer in self.layers:
            await layer.before_request()
        # `before_request` may have appended records, which layers must see when they shrink the view.
        view = self.view if view is view_before else view
        if overflow is not None and overflow.limit is not None and overflow.limit < self.window:
            self.window = overflow.limit
            self.learnt_window = overflow.limit
            self.notify(
                f"{self.base.model} has a window of {overflow.limit:,} tokens; set maxContextTokens to that"
            )
        await self._measure(view)
        state = self.window_state(view, overflow)
        notices_before = len(self._notices)
        try:
            base = self.calibration.base_tokens
            records = await fit(
                view, self.layers, state, base=base, count=self.count_tokens, least=self._least_tokens
            )
        except ContextOverflow:
            # The layers' records are lost, so their notices are wrong; their warnings are not.
            new = self._notices[notices_before:]
            self._notices[notices_before:] = [one for one in new if one.level == "warning"]
            raise
        is_cache_empty = state.warmth.touched_at is None or state.warmth.is_cold
        if self.settings.cache_ttl == "auto" and is_cache_empty:
            fitted = view.after(*records)
            prefix = self.prefix(self.count_tokens(fitted))
            records += lifetime_change(fitted, prefix, self.keep_warm, self.clock)
        return records

    async def _measure(self, view: View) -> None:
        """Learn the size of requests from the log, or let the provider count one that seems too large."""
        if self.calibration.is_measured:
            return
        real: int | None = None
        text = self.text_tokens(view)
        if view.anchor is not None:
            if is_base_counted(view):
                since = view.estimate - view.counted_estimate - media_since(view, self.profile)
                text -= since
                real = self.count_tokens(view) - round(since * self.calibration.ratio)
        elif self.count_request is not None and self.count_tokens(view) >= self.thresholds.autocompact:
            real = await self.count_request(self.request(view))
        self.calibration = self.calibration.after(text=text, real=real or 0)

    def request(self, view: View, max_output: int | None = None, *, branch_at: int | None = None) -> Request:
        """Return a view as a request, without side effects.

        `branch_at` is the number of messages that a fork shares with its parent.
        """
        messages = view.messages
        if view.has_system_messages and not self.profile.system_messages:
            messages = without_system(messages)
        if unseen := self.profile.unseen_media:
            messages = without_media(messages, unseen)
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
            thinking=self.settings.thinking,
            betas=betas_of(self.base.model),
            cache_key=self.id,
        )
        for layer in self.layers:
            request = layer.finish_request(request, view)
        return request

    def start_request(self, view: View, max_output: int | None = None) -> Request:
        """Return a view as a request that is sent now; the prefix monitor compares it with the last one."""
        request = self.request(view, max_output)
        self._prefix_monitor.check_request(self.base.model, view, is_cold=self.warmth.is_cold)
        self._touched_before = self._touched_at
        self._touched_at = self.clock.now()
        self._sent = request
        self._sent_view = view
        self.timer.sent()
        self.answered = None
        self._sent_text = self.text_tokens(view)
        return request

    def request_refused(self) -> None:
        """Note that the provider answered the last request with an error: it has read and cached nothing."""
        self._touched_at = self._touched_before

    # Replies

    async def record(self, reply: Reply | JsonObject) -> None:
        """Record a reply; also as the JSON that Anthropic's SDK returns."""
        if not isinstance(reply, Reply):
            from nacre.messages.jsonl_parse import parse_usage  # noqa: PLC0415 - only for raw JSON

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
        self.timer.ended(reply.usage)
        self.add_usage(reply.usage, reply.model)
        self.note_cached(self._sent_view, reply.usage.prompt, self._touched_at)
        self.calibration = self.calibration.after(text=self._sent_text, real=reply.usage.prompt)
        # A layer may let the provider clear by itself, and the provider need not report when it did.
        may_clear = self._sent is not None and "context_management" in self._sent.options
        self._prefix_monitor.check_usage(reply.usage, reply.model, may_clear=may_clear)
        if self._sent is not None and self._touched_at is not None:
            self.answered = AnsweredRequest(self._sent, reply.usage, self._touched_at)
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
        facts = self._prefixes.unfinished_facts(usage, self.base.model)
        note = Noted(id=self.clock.new_id(), at=self.clock.now(), kind=SIDE_QUERY, facts=facts)
        self._unfinished.append(note)

    @property
    def needs_raised_output(self) -> bool:
        """Whether a reply of this session was cut off at the usual output limit."""
        pending = any(note.kind == OUTPUT_LIMIT for note in self._unfinished)
        return pending or self.view.last_noted(OUTPUT_LIMIT) is not None

    def note_raised_output(self, max_output: int) -> None:
        """Keep a raised output limit for later turns, so that no reply is paid for twice again."""
        if not self.needs_raised_output:
            facts: JsonObject = {"max_output": max_output}
            self._unfinished.append(
                Noted(id=self.clock.new_id(), at=self.clock.now(), kind=OUTPUT_LIMIT, facts=facts)
            )

    async def write_unfinished_usage(self) -> None:
        """Write the cost of unfinished replies, and a raised output limit, to the log."""
        notes = self._unfinished
        self._unfinished = []
        await self.transcript.append(*notes)

    def unfinished_input(self, view: View) -> Usage:
        """Return the estimated input of a request whose reply broke off; the next one can read it cached."""
        now = self.clock.now()
        tokens = (self.count_tokens if is_base_counted(view) else self.estimate_tokens)(view)
        head = self.calibration.base_tokens
        read = self._prefixes.read_tokens(base_key(self._base_facts), view, self.profile, now=now, head=head)
        self.note_cached(view, tokens, now)
        return expected_usage(tokens, read, self.profile)

    def note_cached(self, view: View | None, tokens: int, at: datetime | None) -> None:
        """Note that the provider has read a request for a view, where it does not report that at once."""
        if view is not None and tokens and at is not None and not self.profile.cache_markers:
            self._prefixes.add(base_key(self._base_facts), view, tokens, at)

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
        head = self.calibration.base_tokens + estimate_text(self.base.opening)
        return Prefix(
            tokens=tokens, profile=self.profile, lifetime=self.lifetime, head_tokens=min(head, tokens)
        )

    @property
    def warmth(self) -> Warmth:
        """Whether the provider still has the prefix in its cache."""
        seconds = self.profile.ttl_seconds or FIVE_MINUTES
        if self.profile.cache_markers:
            seconds = lifetime_seconds(self.lifetime)
        return Warmth(now=self.clock.now(), touched_at=self._touched_at, lifetime_seconds=seconds)

    def touch_cache(self, at: datetime | None = None) -> None:
        """Note that a request or a refresh began, now or at `at`; the cached prefix lives on from then."""
        self._touched_at = at or self.clock.now()

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
