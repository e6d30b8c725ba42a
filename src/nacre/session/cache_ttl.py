"""How long the provider should keep a session's prefix: chosen by expected cost (C31c).

Asked only where the cache is cold: there everything is written anyway, and another lifetime costs nothing
but its own price.
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
from nacre.messages.view import View
from nacre.session.meter import KEEP_WARM, SIDE_QUERY

LIFETIME = "lifetime"
"""The kind of note that says which lifetime a session's requests ask for from here on."""
TURNS_AHEAD = 5
"""How many turns a choice is made for: recorded sessions have about so many, and it can be changed later."""
TURN_TOKENS = 10_000
"""What a turn adds to the prefix where a session has not shown it yet: a few files read and edited."""
NO_CEILING = SessionCost(conversation_usd=float("inf"))
"""What a session will have cost is not known ahead; the ceiling on refreshes is looked at when one is due."""


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
    """A lifetime, and what each would cost on average, in USD."""

    lifetime: Lifetime
    costs_usd: Mapping[Lifetime, float]


DEFAULT_USE = ExpectedUse()


def lifetime_seconds(lifetime: Lifetime) -> float:
    """How long all of a prefix stays warm; of a mixed one the tail goes first."""
    return HOUR if lifetime == "1h" else FIVE_MINUTES


def cheapest_lifetime(pauses: Pauses, prefix: Prefix, *, ahead: ExpectedUse = DEFAULT_USE) -> TtlChoice:
    """The cheapest lifetime for what is ahead; `prefix` is what the next request will write."""
    tier = prefix.profile.tier(prefix.tokens)
    if tier is None or not prefix.profile.cache_markers:
        return TtlChoice(lifetime="5m", costs_usd={})
    costs: dict[Lifetime, float] = {
        "5m": _stretch("5m", pauses, prefix, ahead),
        "mixed": _stretch("mixed", pauses, prefix, ahead),
        "1h": _stretch("1h", pauses, prefix, ahead),
    }
    # On a draw the shortest wins: it is the first, and what is not written for longer need not be paid back.
    return TtlChoice(lifetime=min(costs, key=lambda one: costs[one]), costs_usd=costs)


def _stretch(lifetime: Lifetime, pauses: Pauses, prefix: Prefix, ahead: ExpectedUse) -> float:
    """The first write, then pause and turn so many times; a person who does not come back costs no more."""
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
    """What a pause and the first look at the prefix after it cost on average, per million."""
    warm_until = lifetime_seconds(prefix.lifetime)
    upkeep = 0.0
    if warming is not None:
        warm_until, upkeep = _kept_warm(pauses, prefix, warming, tier)
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


def _kept_warm(
    pauses: Pauses, prefix: Prefix, warming: KeepWarmSettings, tier: PriceTier
) -> tuple[float, float]:
    """How long the refreshes that would be sent keep it warm, and what they cost on average, per million."""
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
TOUCHED = "touched"
"""The fact of a note that says that a fork read the session's own prefix, which lives on from there."""
CENTS = 6
"""Decimals of a dollar that a note keeps."""


def last_touched(records: Sequence[Record]) -> datetime | None:
    """When the last request or refresh of a resumed log began."""
    asked = [at for _, at in asked_at(records)]
    # A refresh of the pause that goes on is later than any request; earlier ones are not asked about.
    return max([*asked[-1:], *(note.at for note in records if _is_refresh(note))], default=None)


def pauses_in(records: Iterable[Record]) -> Pauses:
    """From the start of each turn's last request to the person's next words."""
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
    """What was chosen last; none where nothing ever was."""
    note = view.last_noted(LIFETIME)
    return _LIFETIMES.get(str(note.fact("lifetime"))) if note else None


def choose_lifetime(view: View, prefix: Prefix, warming: KeepWarmSettings | None) -> TtlChoice:
    """The lifetime that costs least from here on; `prefix` is what the next request will write."""
    pauses = pauses_in(view.records)
    turns = len(pauses.own) + 1
    said = max(0, prefix.tokens - prefix.head_tokens)
    # One turn says little about the next: the first often reads half a project.
    growth = said // turns if turns > 1 else TURN_TOKENS
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


def _is_refresh(record: Record) -> bool:
    if not isinstance(record, Noted) or record.kind != SIDE_QUERY:
        return False
    return record.fact("purpose") == KEEP_WARM or record.fact(TOUCHED) is True


def _is_persons(said: Said) -> bool:
    is_answer = any(isinstance(block, ToolResult) for block in said.blocks)
    return not said.meta and not is_answer and any(isinstance(block, Text) for block in said.blocks)
