"""Sums the tokens and the cost of a session's requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from nacre.cache.models import cost, profile
from nacre.clock import Clock
from nacre.formatting import usd_text
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import ProviderEvent, Reply, ReplyStarted, StartedOver, Waiting
from nacre.messages.records import Compacted, Noted, Record, Said
from nacre.messages.usage import Usage

NO_USAGE = Usage()
SIDE_QUERY = "side_query"
"""The kind of note that says what a request outside the conversation cost."""
METER = "meter"
"""The kind of note with the sums up to a compaction, for readers that start there (T9)."""
UNFINISHED = "unfinished"
"""The purpose of requests whose reply was interrupted, broke off or was repeated."""
MIN_TIMED_PROMPT = 500
MIN_TIMED_OUTPUT = 20
"""Shorter prompts and replies say nothing about a model's speed."""
KEEP_WARM = "keep_warm"
"""The purpose of requests without output that keep the provider's cache from expiring (C8b)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """Sums over the requests of a session."""

    requests: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    unpriced: int = 0
    """Requests to models without a known price."""
    refreshes: int = 0
    """Requests that only kept the cache warm; they and their price are part of the sums above."""
    refresh_usd: float = 0.0

    @staticmethod
    def of(records: Iterable[Record]) -> Meter:
        """Return the sums over a log; of a reply split over several records, the last one counts.

        The sums that a compaction carries replace everything before it, so that it does not matter how much
        of that was loaded.
        """
        meter = Meter()
        replies: dict[str, Said] = {}
        aside: list[Noted] = []
        for record in records:
            carried = record.carries if isinstance(record, Compacted) else ()
            sums = [note for note in carried if note.kind == METER]
            if sums:
                meter = Meter.of_json(sums[-1].facts)
                replies.clear()
                aside.clear()
            elif isinstance(record, Said) and record.reply and record.reply.usage:
                replies[record.reply.id or record.id] = record
            elif isinstance(record, Noted) and record.kind == SIDE_QUERY:
                aside.append(record)
        return meter.over([*replies.values(), *aside])

    def over(self, records: Iterable[Said | Noted]) -> Meter:
        """Return the sums with the requests of these replies and side-query notes added."""
        meter = self
        for record in records:
            if isinstance(record, Noted):
                usage = Usage.of_json(record.fact("usage"))
                model = str(record.fact("model"))
                meter = meter.after(usage, model, purpose=str(record.fact("purpose")))
            elif record.reply and record.reply.usage:
                meter = meter.after(record.reply.usage, record.reply.model or "")
        return meter

    def after(self, usage: Usage, model: str, *, purpose: str = "") -> Meter:
        """Return the sums with one more request."""
        price = cost(profile(model), usage)
        return Meter(
            requests=self.requests + 1,
            usage=self.usage + usage,
            cost_usd=self.cost_usd + (price or 0.0),
            unpriced=self.unpriced + (price is None),
            refreshes=self.refreshes + (purpose == KEEP_WARM),
            refresh_usd=self.refresh_usd + (price or 0.0) * (purpose == KEEP_WARM),
        )

    def since(self, before: Meter) -> Meter:
        """Return the sums over the requests after an earlier state; estimated if one of all requests is."""
        return Meter(
            requests=self.requests - before.requests,
            usage=self.usage - before.usage,
            cost_usd=self.cost_usd - before.cost_usd,
            unpriced=self.unpriced - before.unpriced,
            refreshes=self.refreshes - before.refreshes,
            refresh_usd=self.refresh_usd - before.refresh_usd,
        )

    def __add__(self, other: Meter) -> Meter:
        return Meter(
            requests=self.requests + other.requests,
            usage=self.usage + other.usage,
            cost_usd=self.cost_usd + other.cost_usd,
            unpriced=self.unpriced + other.unpriced,
            refreshes=self.refreshes + other.refreshes,
            refresh_usd=self.refresh_usd + other.refresh_usd,
        )

    @property
    def about(self) -> str:
        """The prefix for printing the cost: "about " if part of it is estimated, else empty."""
        return "about " if self.usage.approximate else ""

    @property
    def usd(self) -> float | None:
        """The price of all requests; None if the price of none of them is known."""
        return None if self.unpriced and self.unpriced == self.requests else self.cost_usd

    def price(self, decimals: int = 4) -> str:
        """Return the cost as text; a plus stands for requests whose price is not known."""
        if self.usd is None:
            return usd_text(None)
        return self.about + usd_text(self.cost_usd, decimals) + "+" * bool(self.unpriced)

    def as_json(self) -> JsonObject:
        """Return the facts of a note."""
        return {
            "requests": self.requests,
            "usage": {**self.usage.as_json()},
            "cost_usd": self.cost_usd,
            "unpriced": self.unpriced,
            "refreshes": self.refreshes,
            "refresh_usd": self.refresh_usd,
        }

    @staticmethod
    def of_json(written: JsonObject) -> Meter:
        """Return the sums in the facts of a note; a value that is not a number counts as 0."""
        return Meter(
            requests=_count(written.get("requests")),
            usage=Usage.of_json(written.get("usage")),
            cost_usd=_money(written.get("cost_usd")),
            unpriced=_count(written.get("unpriced")),
            refreshes=_count(written.get("refreshes")),
            refresh_usd=_money(written.get("refresh_usd")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySpeed:
    """How fast a model reads and writes, from its last replies; None until that was measured."""

    prompt_rate: float | None = None
    """Tokens per second of a prompt that was not cached."""
    output_rate: float | None = None

    def after(self, usage: Usage, *, until_first: float, writing: float) -> ReplySpeed:
        """Return the speed after one more reply, given the seconds until its first event and behind it."""
        read = usage.input + usage.cache_write
        prompt_rate = self.prompt_rate
        output_rate = self.output_rate
        if read >= MIN_TIMED_PROMPT and until_first > 0:
            prompt_rate = read / until_first
        if usage.output >= MIN_TIMED_OUTPUT and writing > 0:
            output_rate = usage.output / writing
        return ReplySpeed(prompt_rate=prompt_rate, output_rate=output_rate)

    def seconds(self, *, prompt: int, output: int) -> float:
        """Return how long a request takes; what was not measured counts as nothing."""
        reading = prompt / self.prompt_rate if self.prompt_rate else 0.0
        return reading + (output / self.output_rate if self.output_rate else 0.0)


class ReplyTimer:
    """Measures how fast a model reads and writes."""

    def __init__(self, clock: Clock) -> None:
        self.speed = ReplySpeed()
        self._clock = clock
        self._sent_at = 0.0
        self._started_at: float | None = None

    def sent(self) -> None:
        """Note that a request is sent."""
        self._sent_at = self._clock.seconds()
        self._started_at = None

    def started(self) -> None:
        """Note that a reply begins: until then the model reads."""
        self._started_at = self._clock.seconds()

    def ended(self, usage: Usage) -> None:
        """Note that a reply is complete."""
        if self._started_at is not None:
            until_first = self._started_at - self._sent_at
            writing = self._clock.seconds() - self._started_at
            self.speed = self.speed.after(usage, until_first=until_first, writing=writing)


async def metered(
    stream: AsyncGenerator[ProviderEvent, None],
    prompt: Callable[[], Usage],
    pay: Callable[[Usage], None],
    *,
    on_start: Callable[[], None] | None = None,
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield a provider's events and account for attempts that end without a reply.

    Their usage is added to `StartedOver`; if no such event follows, because the stream was cancelled or
    failed, `pay` is called with it. `prompt` returns the estimated input of an attempt, for providers that
    report it last. `on_start` is called when a reply begins.
    """
    started: ReplyStarted | None = None
    try:
        async with aclosing(stream) as events:
            async for event in events:
                match event:
                    case ReplyStarted():
                        started = event
                        if on_start is not None:
                            on_start()
                    case StartedOver(reason, None) if started is not None:
                        used = _used(started, prompt)
                        started = None
                        yield StartedOver(reason, used)
                    case Waiting() if started is not None:
                        used = _used(started, prompt)
                        started = None
                        pay(used)
                        yield event
                    case Reply():
                        started = None
                        yield event
                    case _:
                        yield event
    finally:
        if started is not None:
            pay(_used(started, prompt))


def _used(started: ReplyStarted, prompt: Callable[[], Usage]) -> Usage:
    used = started.usage_so_far()
    return used if used.prompt else used + prompt()


def _count(value: Json) -> int:
    return value if type(value) is int else 0


def _money(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
