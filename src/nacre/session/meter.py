"""What a session has used so far: tokens, money, and how much of it came from the cache."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from nacre.cache.models import cost, profile
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import ProviderEvent, Reply, ReplyStarted, StartedOver, Waiting
from nacre.messages.records import Compacted, Noted, Record, Said
from nacre.messages.usage import Usage

NO_USAGE = Usage()
SIDE_QUERY = "side_query"
"""The kind of note that says what a question beside the conversation cost."""
METER = "meter"
"""The kind of note that says what all before a compaction cost, for whoever reads only from there on (T9)."""
UNFINISHED = "unfinished"
"""The purpose of requests of the conversation whose reply was interrupted, broke off or was repeated."""
KEEP_WARM = "keep_warm"
"""The purpose of such a question that asks nothing: it keeps the provider's cache from expiring (C8b)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """Sums over the requests of a session."""

    requests: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    unpriced: int = 0
    """Requests to models of which no price is known."""
    refreshes: int = 0
    """Requests that only kept the cache warm; they and their price are part of the sums above."""
    refresh_usd: float = 0.0

    @staticmethod
    def of(records: Iterable[Record]) -> Meter:
        """What a loaded transcript has cost; a reply split over several records counts once, by its last.

        What a compaction carries counts in place of everything before it, so that it makes no difference how
        much of that was read.
        """
        meter = Meter()
        replies: dict[str, Said] = {}
        aside: list[Noted] = []
        for record in records:
            if isinstance(record, Compacted) and (carried := _carried(record)) is not None:
                meter = carried
                replies.clear()
                aside.clear()
            elif isinstance(record, Said) and record.reply and record.reply.usage:
                replies[record.reply.id or record.id] = record
            elif isinstance(record, Noted) and record.kind == SIDE_QUERY:
                aside.append(record)
        return meter.over([*replies.values(), *aside])

    def over(self, records: Iterable[Said | Noted]) -> Meter:
        """The sums with these replies and notes of questions, each of them one request more."""
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
        """The sums with one more request."""
        price = cost(profile(model), usage)
        return Meter(
            requests=self.requests + 1,
            usage=self.usage + usage,
            cost_usd=self.cost_usd + (price or 0.0),
            unpriced=self.unpriced + (price is None),
            refreshes=self.refreshes + (purpose == KEEP_WARM),
            refresh_usd=self.refresh_usd + (price or 0.0) * (purpose == KEEP_WARM),
        )

    @property
    def about(self) -> str:
        """What to print before a price: a word where part of it is estimated, else nothing."""
        return "about " if self.usage.approximate else ""

    def as_json(self) -> JsonObject:
        """For a note in the log."""
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
        """From such a note; what is no number counts as none."""
        return Meter(
            requests=_count(written.get("requests")),
            usage=Usage.of_json(written.get("usage")),
            cost_usd=_money(written.get("cost_usd")),
            unpriced=_count(written.get("unpriced")),
            refreshes=_count(written.get("refreshes")),
            refresh_usd=_money(written.get("refresh_usd")),
        )


async def metered(
    stream: AsyncGenerator[ProviderEvent, None], prompt: Usage, pay: Callable[[Usage], None]
) -> AsyncGenerator[ProviderEvent, None]:
    """A provider's events, where an attempt that ends without its reply is paid for as well.

    What such an attempt used is part of `StartedOver`, or is given to `pay` where no such event follows: the
    stream was cancelled, or failed. `prompt` is the estimated input, for providers that report it last.
    """
    started: ReplyStarted | None = None
    try:
        async with aclosing(stream) as events:
            async for event in events:
                match event:
                    case ReplyStarted():
                        started = event
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


def _used(started: ReplyStarted, prompt: Usage) -> Usage:
    used = started.usage_so_far()
    return used if used.prompt else used + prompt


def _carried(record: Compacted) -> Meter | None:
    found = [note for note in record.carries if note.kind == METER]
    return Meter.of_json(found[-1].facts) if found else None


def _count(value: Json) -> int:
    return value if type(value) is int else 0


def _money(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
