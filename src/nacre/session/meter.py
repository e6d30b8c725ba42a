"""Sums the tokens and the cost of a session's requests."""

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
"""The kind of note that says what a request outside the conversation cost."""
METER = "meter"
"""The kind of note with the sums up to a compaction, for readers that start there (T9)."""
UNFINISHED = "unfinished"
"""The purpose of requests whose reply was interrupted, broke off or was repeated."""
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

    @property
    def about(self) -> str:
        """The prefix for printing the cost: "about " if part of it is estimated, else empty."""
        return "about " if self.usage.approximate else ""

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


async def metered(
    stream: AsyncGenerator[ProviderEvent, None], prompt: Usage, pay: Callable[[Usage], None]
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield a provider's events and account for attempts that end without a reply.

    Their usage is added to `StartedOver`; if no such event follows, because the stream was cancelled or
    failed, `pay` is called with it. `prompt` is the estimated input, for providers that report it last.
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


def _count(value: Json) -> int:
    return value if type(value) is int else 0


def _money(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
