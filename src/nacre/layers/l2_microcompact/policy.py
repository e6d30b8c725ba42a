"""Which old results to clear now, if any: pure, from the view, the clock and the prices (C9, C12, C12b)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from nacre.cache.models import PER_MILLION, ModelProfile, PriceTier
from nacre.cache.warmth import HOUR, Warmth
from nacre.layers.l2_microcompact.choice import Choice, choose
from nacre.layers.l2_microcompact.settings import CLAUDE_CODE, CLEARABLE, NACRE, MicrocompactSettings
from nacre.messages.blocks import JsonObject, Thinking, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Record
from nacre.messages.rounds import asked_at
from nacre.messages.view import View
from nacre.store.result_pointer import CLEARED

__all__ = ["CLAUDE_CODE", "CLEARABLE", "NACRE", "Decision", "MicrocompactSettings", "Moment", "Reason", "due"]

WEIGHED_AGAIN = 4
"""A clear that did not pay is weighed again after a quarter of a batch: what it saves grows no faster."""

Reason = Literal["idle", "full", "economic", "cliff"]
"""The cache is cold; it does not fit; a warm rewrite pays; it pays because a dearer price is left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known just before a request."""

    warmth: Warmth
    profile: ModelProfile
    tokens: int = 0
    """The whole request as it stands."""
    starts_turn: bool = True
    """The person just spoke: nothing of this turn was answered yet."""
    fits: bool = True
    """False: something must go, or a dearer layer comes next."""
    too_many: int = 0
    """Tokens that must go before it fits, as far as that is known."""
    pointer_tokens: int = 40
    """What stays of a cleared result."""
    head_tokens: int = 0
    """System and tools, which end with a marker of their own and are never rewritten."""
    weighed: int = 0
    """The size of the view, by estimate, when a clear on a warm cache was last weighed and left be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to clear and why."""

    reason: Reason
    calls: tuple[str, ...]
    tokens: int
    """What it frees, by estimate."""
    keeps_from: str | None = None
    """The call of the oldest result that stays because it is new: a marker goes before it (C31c)."""
    drops_thinking: bool = False
    """The model binds thinking to the bytes before it, so that none can stay (C12b)."""
    arithmetic: JsonObject = field(default_factory=dict)


def due(view: View, moment: Moment, settings: MicrocompactSettings = NACRE) -> Decision | None:
    """What should be cleared before the next request; on a warm cache, with room left, nothing is read."""
    reason = _occasion(view, moment, settings)
    # Where thinking is bound, a rewrite waits for the next turn (C12b); what does not fit cannot wait.
    is_bound = moment.profile.binds_thinking and not moment.starts_turn
    if reason is None or (is_bound and reason != "full"):
        return None
    if reason == "full":
        return _to_fit(view, moment, settings)
    choice = choose(view, tools=settings.tools, keep=settings.keep, pointer_tokens=moment.pointer_tokens)
    if not choice.old:
        return None
    if reason == "idle":
        return _decided(reason, choice, moment)
    return _weighed(view, choice, moment, settings)


def _to_fit(view: View, moment: Moment, settings: MicrocompactSettings) -> Decision | None:
    """As few results as free enough; none where a dearer layer would have to come after it.

    Two rewrites in a row would lose the cache twice, and the second one its chance to read the first's past.
    """
    needed = max(moment.too_many, settings.full_share * moment.tokens)
    found: Choice | None = None
    # From the most to the least that could go: where the most is not enough, one look says so.
    for keep in sorted(settings.full_keep):
        choice = choose(view, tools=settings.tools, keep=keep, pointer_tokens=moment.pointer_tokens)
        if not choice.old or choice.tokens * _scale(view, moment) < needed:
            break
        found = choice
    return _decided("full", found, moment) if found else None


def is_idle(warmth: Warmth, settings: MicrocompactSettings) -> bool:
    """Whether the pause before this request was long enough for the prefix to be gone."""
    if settings.idle_seconds is None:
        return warmth.is_cold
    return warmth.touched_at is not None and warmth.idle_seconds >= settings.idle_seconds


def _occasion(view: View, moment: Moment, settings: MicrocompactSettings) -> Reason | None:
    if settings.idle and is_idle(moment.warmth, settings) and not _is_done(view, moment.warmth):
        return "idle"
    if settings.full and not moment.fits:
        return "full"
    # No more can be old than was said: until a batch can have come together, nothing needs to be looked at.
    grown = view.estimate - moment.weighed
    least = settings.batch_tokens if not moment.weighed else settings.batch_tokens // WEIGHED_AGAIN
    return "economic" if settings.economic and grown >= least else None


def _is_done(view: View, warmth: Warmth) -> bool:
    """Whether this gap had its clear: nothing was asked since."""
    last = view.last_noted(CLEARED)
    return last is not None and warmth.touched_at is not None and last.at > warmth.touched_at


def _weighed(view: View, choice: Choice, moment: Moment, settings: MicrocompactSettings) -> Decision | None:
    """A clear on a warm cache: only a whole batch, and only where it pays by more than a little."""
    if choice.tokens < settings.batch_tokens:
        return None
    rewrite = _rewrite(view, choice, moment)
    balance = weigh(rewrite, moment.profile, lifetime_seconds=moment.warmth.lifetime_seconds)
    if balance is None or balance.gain_usd <= settings.min_gain_usd:
        return None
    pays_at_one_price = balance.at_one_price_usd > settings.min_gain_usd
    decision = _decided("economic" if pays_at_one_price else "cliff", choice, moment)
    return replace(decision, arithmetic=balance.arithmetic)


def _rewrite(view: View, choice: Choice, moment: Moment) -> Rewrite:
    freed = round(choice.tokens * _scale(view, moment))
    so_far = pace(view.records, moment.warmth.lifetime_seconds)
    return Rewrite(
        prompt=moment.tokens,
        freed=freed,
        behind=max(0, moment.tokens - freed - _live_tokens(view, choice, moment)),
        requests=so_far.ahead,
        growth=view.estimate // max(1, so_far.made),
    )


def _scale(view: View, moment: Moment) -> float:
    """An estimate that runs high must not make a clear look better than it is."""
    return min(1.0, moment.tokens / view.estimate) if view.estimate else 1.0


def _live_tokens(view: View, choice: Choice, moment: Moment) -> int:
    """What can still be read from the cache after the clear: up to the last marker before all of it.

    That is the head; after an earlier clear, the marker before the oldest result it kept, behind which nearly
    everything lies that can be old by now (C31c). Other caches are taken to be lost whole.
    """
    if not moment.profile.cache_markers:
        return 0
    (_, kept) = kept_from(view)
    items = view.items
    place = next((n for n, item in enumerate(items) if _has_result(item, kept)), 0) if kept else 0
    if choice.old[0].item < place or (moment.profile.binds_thinking and _has_thinking(items[:place])):
        place = 0
    live = moment.head_tokens + sum(item.tokens for item in items[:place])
    return live if live >= moment.profile.min_cacheable else 0


def kept_from(view: View) -> tuple[str | None, str | None]:
    """The calls of the oldest results that the last two clears kept, where markers stand since."""
    clears = view.noted(CLEARED)[-2:]
    old, new = [None] * (2 - len(clears)) + [note.fact("keeps_from") for note in clears]
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _has_result(item: Item, call_id: str) -> bool:
    return any(isinstance(one.block, ToolResult) and one.block.call_id == call_id for one in item.parts)


def _has_thinking(items: Sequence[Item]) -> bool:
    return any(isinstance(one.block, Thinking) for item in items for one in item.parts)


def _decided(reason: Reason, choice: Choice, moment: Moment) -> Decision:
    return Decision(
        reason=reason,
        calls=tuple(one.id for one in choice.old),
        tokens=choice.tokens,
        keeps_from=choice.keeps_from,
        drops_thinking=moment.profile.binds_thinking,
    )


MAX_AHEAD = 50
"""Further requests counted at most: what lies beyond is a guess, and a pause clears for nothing anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What a clear would do to the requests to come, in tokens."""

    prompt: int
    """The next request as it stands."""
    freed: int
    """X: what the clear takes out of it and of all that follow."""
    behind: int
    """T: from the last live cache entry before the edit to the end, without what is freed."""
    requests: int
    """n: how many more requests are expected before the cache goes cold."""
    growth: int = 0
    """What a request adds to the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What a clear brings in all, and how that was worked out."""

    gain_usd: float
    at_one_price_usd: float
    """The same without price cliffs: n·X·r - T·(w - r)."""
    arithmetic: JsonObject


def weigh(rewrite: Rewrite, profile: ModelProfile, *, lifetime_seconds: float) -> Balance | None:
    """What the clear brings over the requests expected; nothing where no price is known."""
    after = replace(rewrite, prompt=rewrite.prompt - rewrite.freed)
    tier = profile.tier(after.prompt)
    if tier is None:
        return None
    as_it_is = _course(rewrite, profile, lifetime_seconds, rewritten=0)
    cleared = _course(after, profile, lifetime_seconds, rewritten=rewrite.behind)
    write = _write(tier, lifetime_seconds)
    saved = rewrite.requests * rewrite.freed * tier.read
    broken = rewrite.behind * (write - tier.read)
    gain = (as_it_is - cleared) / PER_MILLION
    plain = (saved - broken) / PER_MILLION
    arithmetic: JsonObject = {
        "prompt": rewrite.prompt,
        "freed": rewrite.freed,
        "behind": rewrite.behind,
        "requests": rewrite.requests,
        "growth": rewrite.growth,
        "read_usd": tier.read,
        "write_usd": write,
        "gain_usd": round(gain, 6),
        "at_one_price_usd": round(plain, 6),
    }
    return Balance(gain_usd=gain, at_one_price_usd=plain, arithmetic=arithmetic)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a session goes on, judged by how it went so far."""

    made: int
    """Requests so far."""
    ahead: int
    """Requests to expect before the cache goes cold."""


def pace(records: Iterable[Record], lifetime_seconds: float) -> Pace:
    """How many more requests to expect before the cache goes cold: as many as it took on average so far.

    Each request is taken to be as likely as any other to be the last before a pause, so that how many are
    to come does not depend on how many there were since the last one.
    """
    asked = [at for _, at in asked_at(records)]
    pauses = sum((later - earlier).total_seconds() >= lifetime_seconds for earlier, later in pairwise(asked))
    return Pace(made=len(asked), ahead=min(MAX_AHEAD, len(asked) // (pauses + 1)))


def _course(rewrite: Rewrite, profile: ModelProfile, lifetime_seconds: float, *, rewritten: int) -> float:
    """What the requests to come cost, in USD per million tokens: each reads the one before and adds to it."""
    total = 0.0
    for number in range(rewrite.requests):
        prompt = rewrite.prompt + number * rewrite.growth
        tier = profile.tier(prompt)
        assert tier is not None, "a model with one price has prices for every size"
        written = rewritten if number == 0 else rewrite.growth
        total += (prompt - written) * tier.read + written * _write(tier, lifetime_seconds)
    return total


def _write(tier: PriceTier, lifetime_seconds: float) -> float:
    return tier.write_1h if lifetime_seconds >= HOUR else tier.write_5m
