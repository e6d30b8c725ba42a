"""One conversation: its transcript, what stands before it, what it costs, and the requests it makes.

Usable on its own by people with a loop of their own: `prepare` gives a request, `record` takes the reply,
`add_results` the answers of the tools (Q4).
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
from nacre.loop.round import heard, said
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
from nacre.session.cache_ttl import chosen, last_touched, lifetime_note, lifetime_seconds, noted_lifetime
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
        """About what system and tools take of every request; kept, because every request asks for it."""
        words = sum(estimate_text(str(block["text"])) for block in self.system)
        return words + sum(estimate_json(definition) for definition in self.tools)


class Redactor(Protocol):
    """Removes text that must not be sent to the provider."""

    async def filter(self, message: Said) -> Said:
        """The message as it may be recorded."""
        ...

    async def attachments(self, attached: Sequence[Attachment]) -> Sequence[Attachment]:
        """The attachments as they may be recorded."""
        ...


OPENING = "opening"
"""The kind of note that says that the opening words were recorded, and where."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """The last request, once it was answered: what the provider keeps now."""

    request: Request
    usage: Usage
    asked_at: datetime


LayerType = TypeVar("LayerType", bound=Layer)


class Session:
    """One conversation."""

    warming: KeepWarmSettings | None = None
    """How the cache is kept warm between requests; none while nobody does."""
    answered: AnsweredRequest | None = None
    """What the provider keeps; none while a request is under way."""
    _sent: Request | None = None

    def __init__(
        self,
        base: Base,
        records: Iterable[Record] = (),
        *,
        layers: Sequence[Layer] = (),
        keeper: RecordWriter | None = None,
        settings: SessionSettings = DEFAULT_SETTINGS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.base = base
        self.keeper: RecordWriter = keeper or NullRecordWriter(clock.new_id())
        self.telemetry = Telemetry(self.keeper.session_id, clock)
        self.transcript = Transcript(records, write=self._write)
        self.settings = settings
        self.layers = list(layers)
        """What takes part, in the order in which it is called."""
        self.redactor: Redactor | None = None
        """First on messages, last on attachments; None if nothing has to be removed."""
        self.on_usage: Callable[[Usage, str], None] | None = None
        """Called with the usage of every request and the model whose prices apply."""
        self.clock = clock
        self.meter = Meter.of(self.transcript.records)
        self.calibration = Calibration()
        self._books = PrefixMonitor(strict=settings.strict_prefix)
        self.ends_with_answer = False
        """Nobody goes on after the answer: what would only help a next turn is not paid for."""
        self._asked = 0
        self._touched_at = last_touched(self.transcript.records)
        self._starts_turn = True
        self._untold: list[Notice] = []
        self._unrecorded: list[Noted] = []
        """Payments that the log does not hold yet."""
        self._cached = Usage()
        self._cached_epochs = 0

    @property
    def id(self) -> str:
        """The name under which it can be resumed, where it is kept."""
        return self.keeper.session_id

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
        rules = self.profile
        settings = self.settings
        size = window(
            self.base.model, known=rules.window if rules.known else None, ceiling=settings.window_ceiling
        )
        return thresholds(
            size,
            max_output=rules.max_output,
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
        return self.view.count(self.base.tokens, ratio=self.calibration.ratio)

    async def add_user(self, text: str, *, is_persons: bool = True) -> None:
        """Record what the person said, or what else begins a turn, and what rides along with it."""
        for layer in self.layers if is_persons else ():
            await layer.before_prompt(text)
        self._starts_turn = True
        records = await self.keep(heard("user", (Text(text),), self.clock, meta=not is_persons))
        if self.base.opening and not self.is_opened:
            opening = heard("user", (Text(self.base.opening),), self.clock, meta=True)
            facts: JsonObject = {"record": opening.id}
            note = Noted(id=self.clock.new_id(), at=self.clock.now(), kind=OPENING, facts=facts)
            records = [opening, note, *records]
        await self.transcript.append(*records)

    @property
    def is_opened(self) -> bool:
        """Whether the model was told what stands ahead of the conversation; a foreign log never says."""
        return self.view.last_noted(OPENING) is not None

    async def prepare(self) -> Request:
        """The next request, shrunk to fit, with its cache markers."""
        await self.transcript.append(*await self.fit(self.view, None))
        return self.send(self.view)

    async def record(self, reply: Reply | JsonObject) -> None:
        """Add a reply to the conversation; also as the JSON that Anthropic's SDK returns."""
        if not isinstance(reply, Reply):
            reply = Reply(
                message=Message("assistant", parse_content(reply["content"])),
                usage=parse_usage(reply.get("usage")) or Usage(),
                stop_reason=cast("str | None", reply.get("stop_reason")),
                id=cast("str | None", reply.get("id")),
                model=cast("str | None", reply.get("model")),
            )
        await self.transcript.append(said(reply, self.clock, self.view))
        self.heard(reply)

    async def drop_thinking(self) -> bool:
        """Drop all thinking from the conversation, after `ThinkingMismatch`; whether there was any."""
        records = drop_thinking(self.view.items, self.clock)
        await self.transcript.append(*records)
        return bool(records)

    async def add_results(self, results: Sequence[ToolResult]) -> None:
        """Answer the calls of the last reply."""
        await self.transcript.append(*await self.keep(heard("user", tuple(results), self.clock)))

    async def call_tools(self, tools: Iterable[Tool | Function]) -> list[ToolResult]:
        """Run the tool calls of the last reply, record their results and return them."""
        reply = self.view.last_reply
        if reply is None or not reply.tool_calls:
            return []
        by_name = self.wrapped({one.name: one for one in as_tools(tools)})
        results = await run_all(reply.tool_calls, by_name)
        await self.add_results(results)
        return results

    async def keep(self, said: Said) -> Sequence[Record]:
        """The loop's slot: words or results as they are recorded, with what others add to them."""
        said, extras = await self._filtered(said)
        for layer in self.layers:
            extras += await layer.attach(said, self.view)
        return self._with(said, await self.redacted(extras))

    async def sift(self, said: Said) -> Sequence[Record]:
        """The loop's slot: what a round that is cut short records; nobody adds to it."""
        return self._with(*await self._filtered(said))

    async def _filtered(self, said: Said) -> tuple[Said, list[Attachment]]:
        done: list[Attachment] = []
        if self.redactor is not None:
            said = await self.redactor.filter(said)
        for layer in self.layers:
            said, new = await layer.filter(said, self.view)
            done += new
        return said, done

    async def redacted(self, attached: Sequence[Attachment]) -> Sequence[Attachment]:
        """Attachments without text that must not be sent."""
        return await self.redactor.attachments(attached) if self.redactor else attached

    def layer(self, kind: type[LayerType]) -> LayerType | None:
        """The layer of this class, if there is one."""
        return next((one for one in self.layers if isinstance(one, kind)), None)

    def wrapped(self, tools: Mapping[str, Tool], fork: str = "") -> Mapping[str, Tool]:
        """The tools with every layer around their calls; `fork` names the purpose of a fork."""
        for layer in self.layers:
            tools = layer.wrap_tools(tools, fork=fork)
        return tools

    def _with(self, said: Said, extras: Sequence[Attachment]) -> Sequence[Record]:
        self._untold += [Notice(extra.notice) for extra in extras if extra.notice]
        return with_attachments(said, extras, self.clock, inside_results=self.profile.strips_old_thinking)

    def pressure(self, view: View, overflow: PromptTooLong | None = None) -> Pressure:
        """How full the window would be with this view."""
        return Pressure(
            tokens=view.count(self.base.tokens, ratio=self.calibration.ratio),
            thresholds=self.thresholds,
            profile=self.profile,
            warmth=self.warmth,
            starts_turn=self._starts_turn,
            overflow=overflow,
        )

    async def fit(self, view: View, overflow: PromptTooLong | None) -> list[Record]:
        """The loop's slot: what must happen to the view before it can be sent."""
        stood = self.view
        for layer in self.layers:
            await layer.before_request()
        # What came to rest stands in the log ahead of what the layers do, and they must know of it.
        view = self.view if view is stood else view
        base = self.base.tokens
        ratio = self.calibration.ratio
        pressure = self.pressure(view, overflow)
        told = len(self._untold)
        try:
            records = await fit(view, self.layers, pressure, base=base, ratio=ratio)
        except ContextOverflow:
            # Nothing of what layers did is recorded then; what went wrong meanwhile is still shown.
            self._untold[told:] = [one for one in self._untold[told:] if one.level == "warning"]
            raise
        is_written_anyway = pressure.warmth.touched_at is None or pressure.warmth.is_cold
        if self.settings.cache_ttl == "auto" and is_written_anyway:
            records += self._lifetime_choice(view.after(*records))
        return records

    def _lifetime_choice(self, view: View) -> list[Record]:
        """A note of the lifetime that costs least from here on, if it is another one (C31c)."""
        tokens = view.count(self.base.tokens, ratio=self.calibration.ratio)
        choice = chosen(view, self.prefix(tokens), self.warming)
        return [] if choice.lifetime == noted_lifetime(view) else [lifetime_note(choice, self.clock)]

    @property
    def lifetime(self) -> Lifetime:
        """How long the provider is asked to keep what is sent."""
        wanted = self.settings.cache_ttl
        return (noted_lifetime(self.view) or "5m") if wanted == "auto" else wanted

    def prefix(self, tokens: int) -> Prefix:
        """So many tokens as the provider keeps them: system, tools and opening are the head."""
        head = self.base.tokens + estimate_text(self.base.opening)
        return Prefix(
            tokens=tokens, profile=self.profile, lifetime=self.lifetime, head_tokens=min(head, tokens)
        )

    @property
    def warmth(self) -> Warmth:
        """Whether the provider still remembers the prefix."""
        lasts = self.profile.ttl_seconds or FIVE_MINUTES
        if self.profile.cache_markers:
            lasts = lifetime_seconds(self.lifetime)
        return Warmth(now=self.clock.now(), touched_at=self._touched_at, lifetime_seconds=lasts)

    def touched(self, at: datetime | None = None) -> None:
        """A request or a refresh begins now, or began then: the provider's cache lives on from there."""
        self._touched_at = at or self.clock.now()

    def notify(self, text: str, level: NoticeLevel = "info") -> None:
        """Show the person a line with the next events of a turn."""
        notice = Notice(text, level)
        if notice not in self._untold:
            self._untold.append(notice)

    def send(self, view: View, max_output: int | None = None) -> Request:
        """A view as a request that is about to be sent: the books are told."""
        request = self.request(view, max_output)
        self._books.sending(self.base.model, view, is_cold=self.warmth.is_cold)
        self.touched()
        self._sent = request
        self.answered = None
        self._asked = self.base.tokens + view.estimate
        return request

    def request(self, view: View, max_output: int | None = None, *, branch_at: int | None = None) -> Request:
        """A view as a request; asking for one changes nothing. A fork says how many messages it shares."""
        messages = view.messages
        if view.has_system_messages and not self.profile.system_messages:
            messages = without_system(messages)
        if not messages:
            raise InvalidRequest("there is nothing to send yet: add a user's message first")
        marked_ends = (end for layer in self.layers for end in layer.cache_points(view, messages))
        ends = list(marked_ends) if branch_at is None else [branch_at]
        system, tools, marked = place_markers(
            list(self.base.system),
            list(self.base.tools),
            messages,
            profile=self.profile,
            branch_at=ends,
            ttl=self.lifetime,
        )
        request = Request(
            model=self.base.model.removesuffix("[1m]"),
            system=system,
            tools=tools,
            messages=marked,
            max_tokens=min(max_output or self.settings.max_output, self.profile.max_output),
        )
        for layer in self.layers:
            request = layer.finish_request(request, view)
        return request

    def heard(self, reply: Reply) -> None:
        """The loop's slot: keep the books on a reply."""
        self._starts_turn = False
        self.pay(reply.usage, reply.model)
        self._cached = reply.usage
        self._cached_epochs = len(self.view.epochs)
        self.calibration = self.calibration.after(estimated=self._asked, real=reply.usage.prompt)
        # A layer may let the provider clear by itself, and the provider need not report when it did.
        may_clear = self._sent is not None and "context_management" in self._sent.options
        self._books.heard(reply.usage, reply.model, may_clear=may_clear)
        if self._sent is not None and self._touched_at is not None:
            self.answered = AnsweredRequest(self._sent, reply.usage, self._touched_at)
        for layer in self.layers:
            layer.on_reply(reply)

    def pay(self, usage: Usage, model: str | None = None, *, purpose: str = "") -> None:
        """Count what a request cost, whether or not its reply was of use; another model may have answered."""
        priced = self.priced_as(model)
        self.meter = self.meter.after(usage, priced, purpose=purpose)
        if self.on_usage is not None:
            self.on_usage(usage, priced)

    def pay_unfinished(self, usage: Usage) -> None:
        """Count what a request of the conversation cost whose reply is not recorded."""
        self.pay(usage)
        facts: JsonObject = {"purpose": UNFINISHED, "model": self.base.model, "usage": usage.as_json()}
        note = Noted(id=self.clock.new_id(), at=self.clock.now(), kind=SIDE_QUERY, facts=facts)
        self._unrecorded.append(note)

    async def record_payments(self) -> None:
        """Write payments for unfinished replies to the log."""
        notes = self._unrecorded
        self._unrecorded = []
        await self.transcript.append(*notes)

    def expected_input(self, view: View) -> Usage:
        """The input that a request for this view is expected to use, cached as the last one was.

        To be asked for before the request is sent, which counts as a use of the cache.
        """
        tokens = view.count(self.base.tokens, ratio=self.calibration.ratio)
        last = self._cached
        is_kept = not self.warmth.is_cold and len(view.epochs) == self._cached_epochs
        read = min(tokens, last.prompt) if is_kept and last.cache_read + last.cache_write else 0
        written = tokens - read if last.cache_write else 0
        return Usage(input=tokens - read - written, cache_read=read, cache_write=written, approximate=True)

    def priced_as(self, model: str | None) -> str:
        """Whose prices count where this model answered."""
        return model if model and profile(model).known else self.base.model

    async def _write(self, records: Sequence[Record]) -> None:
        await self.keeper.write(records)
        self.telemetry.decided(records)

    def cancelled(self) -> None:
        """A turn ended before its reply: what was started for it ends, too."""
        for layer in self.layers:
            layer.on_cancel()

    def notices(self) -> list[Notice]:
        """What there is to tell the person: what was added to the conversation, what is amiss; told once."""
        told = self._untold
        self._untold = []
        told += [Notice(line, "warning") for line in self._books.warnings()]
        return sorted(told, key=lambda one: one.level == "warning")
