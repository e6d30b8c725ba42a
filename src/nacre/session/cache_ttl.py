"""Chooses how long the provider should keep a session's prefix, by expected cost (C31c).

Only when the cache is cold: everything is written again then, so that a change costs nothing extra. The
choice depends on the records alone, so that a resumed or replayed session decides as the first one did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from nacre.cache.keep_warm import DEFAULT_KEEP_WARM, Pause, Pauses, Prefix, SessionCost, decide_refresh
from nacre.cache.models import PER_MILLION, PriceTier
from nacre.cache.warmth import FIVE_MINUTES, HOUR, KeepWarmSettings, Lifetime
from nacre.clock import Clock
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.rounds import asked_at
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.cached_prefixes import TOUCHED
from nacre.session.meter import KEEP_WARM, SIDE_QUERY

LIFETIME = "lifetime"
"""The kind of note that says which lifetime requests ask for from here on."""
TURNS_AHEAD = 5
"""How many turns a choice plans for: about as many as recorded sessions have; it can be changed later."""
TURN_TOKENS = 10_000
"""What a turn adds to the prefix before the session shows it: a few files read and edited."""
NO_CEILING = SessionCost(conversation_usd=float("inf"))
"""The later cost of a session is unknown; the limit on refreshes applies when one is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedUse:
    """What a session is expected to do until its cache is cold again."""

    turns: int = TURNS_AHEAD
    turn_tokens: int = TURN_TOKENS
    """New tokens of a turn."""
    warming: KeepWarmSettings | None = DEFAULT_KEEP_WARM
    """How the cache is kept warm in pauses; None where it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlChoice:
    """The cheapest lifetime, and what each would cost on average, in USD."""

    lifetime: Lifetime
    costs_usd: Mapping[Lifetime, float]


DEFAULT_USE = ExpectedUse()


def lifetime_seconds(lifetime: Lifetime) -> float:
    """Return how long all of a prefix stays cached; with `mixed`, the tail expires first."""
    return HOUR if lifetime == "1h" else FIVE_MINUTES


def cheapest_lifetime(pauses: Pauses, prefix: Prefix, *, ahead: ExpectedUse = DEFAULT_USE) -> TtlChoice:
    """Return the cheapest lifetime for the expected use; `prefix` is what the next request writes."""
    tier = prefix.profile.tier(prefix.tokens)
    if tier is None or not prefix.profile.cache_markers:
        return TtlChoice(lifetime="5m", costs_usd={})
    costs: dict[Lifetime, float] = {
        "5m": _stretch("5m", pauses, prefix, ahead),
        "mixed": _stretch("mixed", pauses, prefix, ahead),
        "1h": _stretch("1h", pauses, prefix, ahead),
    }
    # Of equal costs the shortest lifetime wins, because it comes first and is cheapest to write.
    return TtlChoice(lifetime=min(costs, key=lambda one: costs[one]), costs_usd=costs)


def _stretch(lifetime: Lifetime, pauses: Pauses, prefix: Prefix, ahead: ExpectedUse) -> float:
    """Return the cost of the first write and of the expected pauses and turns; none after a last pause."""
    tier = prefix.profile.tier(prefix.tokens)
    assert tier is not None
    total = _written(lifetime, prefix.tokens, prefix.head_tokens, tier)
    tail_price = tier.write_1h if lifetime == "1h" else tier.write_5m
    comes = 1.0
    for number in range(ahead.turns):
        grown = Prefix(
            tokens=prefix.tokens + number * ahead.turn_tokens,
            profile=prefix.profile,
            lifetime=lifetime,
            head_tokens=prefix.head_tokens,
        )
        total += comes * _pause(pauses, grown, ahead.warming, tier)
        comes *= 1.0 - pauses.never
        total += comes * ahead.turn_tokens * tail_price
    return total / PER_MILLION


def _pause(pauses: Pauses, prefix: Prefix, warming: KeepWarmSettings | None, tier: PriceTier) -> float:
    """Return the average cost of a pause and of the first request after it, per million."""
    warm_until = lifetime_seconds(prefix.lifetime)
    upkeep = 0.0
    if warming is not None:
        warm_until, upkeep = _warm_time_and_cost(pauses, prefix, warming, tier)
    tokens = prefix.tokens
    head = prefix.head_tokens
    all_warm = 1.0 - pauses.away(warm_until)
    cold = pauses.away(warm_until) - pauses.never
    if prefix.lifetime != "mixed":
        return upkeep + all_warm * tokens * tier.read + cold * _written(prefix.lifetime, tokens, head, tier)
    all_cold = pauses.away(max(HOUR, warm_until)) - pauses.never
    head_warm = head * tier.read + (tokens - head) * tier.write_5m
    return (
        upkeep
        + all_warm * tokens * tier.read
        + (cold - all_cold) * head_warm
        + all_cold * _written("mixed", tokens, head, tier)
    )


def _warm_time_and_cost(
    pauses: Pauses, prefix: Prefix, warming: KeepWarmSettings, tier: PriceTier
) -> tuple[float, float]:
    """Return how long refreshes would keep the prefix cached, and their average cost per million."""
    step = FIVE_MINUTES - warming.margin_seconds
    warm_until = lifetime_seconds(prefix.lifetime)
    upkeep = 0.0
    for number in range(warming.max_refreshes):
        idle = (number + 1) * step
        pause = Pause(seconds=idle, untouched_seconds=step, refreshes=number)
        if not decide_refresh(pause, pauses, prefix=prefix, spent=NO_CEILING, settings=warming).is_worth:
            break
        warm_until = idle + FIVE_MINUTES
        upkeep += pauses.away(idle) * prefix.tokens * tier.read
    return warm_until, upkeep


def _written(lifetime: Lifetime, tokens: int, head: int, tier: PriceTier) -> float:
    match lifetime:
        case "5m":
            return tokens * tier.write_5m
        case "1h":
            return tokens * tier.write_1h
        case "mixed":
            return head * tier.write_1h + (tokens - head) * tier.write_5m


_LIFETIMES: Mapping[str, Lifetime] = {name: name for name in get_args(Lifetime)}
CENTS = 6
"""Decimals of a dollar that a note keeps."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """The last request that was answered; the provider has it in its cache."""

    request: Request
    usage: Usage
    asked_at: datetime


def last_usage(view: View) -> Usage | None:
    """Return the usage of the newest reply in the log that has one."""
    for record in reversed(view.records):
        if isinstance(record, Said) and record.reply and record.reply.usage and not record.aside:
            return record.reply.usage
    return None


def last_touched(records: Sequence[Record]) -> datetime | None:
    """Return when the last request or refresh in a log began."""
    requests = [at for _, at in asked_at(records)][-1:]
    refreshes = [
        note.at
        for note in records
        if isinstance(note, Noted)
        and note.kind == SIDE_QUERY
        and (note.fact("purpose") == KEEP_WARM or note.fact(TOUCHED) is True)
    ]
    return max([*requests, *refreshes], default=None)


def pauses_in(records: Iterable[Record]) -> Pauses:
    """Return the pauses in a log: from each turn's last request to the person's next prompt."""
    moments: list[tuple[datetime, datetime]] = []
    before: datetime | None = None
    asked: datetime | None = None
    for record in records:
        if not isinstance(record, Said) or record.aside is not None:
            continue
        if record.role == "assistant":
            asked = before or record.at
            continue
        if asked is not None and _is_persons(record):
            moments.append((asked, record.at))
            asked = None
        before = record.at
    return Pauses.between(moments)


def noted_lifetime(view: View) -> Lifetime | None:
    """Return the lifetime that was chosen last, if there is one."""
    note = view.last_noted(LIFETIME)
    return _LIFETIMES.get(str(note.fact("lifetime"))) if note else None


def choose_lifetime(view: View, prefix: Prefix, warming: KeepWarmSettings | None) -> TtlChoice:
    """Return the cheapest lifetime for a session, by its own pauses and growth."""
    pauses = pauses_in(view.records)
    turns = len(pauses.own) + 1
    conversation = max(0, prefix.tokens - prefix.head_tokens)
    # One turn says little about the next: the first often reads half a project.
    growth = conversation // turns if turns > 1 else TURN_TOKENS
    return cheapest_lifetime(pauses, prefix, ahead=ExpectedUse(turn_tokens=growth, warming=warming))


def lifetime_change(
    view: View, prefix: Prefix, keep_warm: KeepWarmSettings | None, clock: Clock
) -> list[Noted]:
    """Return a note of the cheapest lifetime from here on, if it differs from the one noted last (C31c)."""
    choice = choose_lifetime(view, prefix, keep_warm)
    if choice.lifetime == noted_lifetime(view):
        return []
    costs: JsonObject = {name: round(usd, CENTS) for name, usd in choice.costs_usd.items()}
    facts: JsonObject = {"lifetime": choice.lifetime, "costs_usd": costs}
    return [Noted(id=clock.new_id(), at=clock.now(), kind=LIFETIME, facts=facts)]


def _is_persons(said: Said) -> bool:
    is_answer = any(isinstance(block, ToolResult) for block in said.blocks)
    return not said.meta and not is_answer and any(isinstance(block, Text) for block in said.blocks)
