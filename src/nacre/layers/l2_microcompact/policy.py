"""Which old results to clear now, if any: pure, from the view, the clock and the prices (C9, C12, C12b)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nacre.cache.rules import ModelProfile
from nacre.cache.warmth import Warmth
from nacre.layers.l2_microcompact.choice import CLEARED, Choice, choose
from nacre.messages.blocks import JsonObject
from nacre.messages.view import View

CLEARABLE = frozenset({"Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"})
"""Tools whose results can be had again; what others answer is not ours to judge, unless they opt in."""

Reason = Literal["idle", "full", "economic", "cliff"]
"""The cache is cold; it does not fit; a warm rewrite pays; it pays because a dearer price is left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrocompactSettings:
    """When old results are cleared, and how many stay."""

    idle: bool = True
    """Clear when the provider's cache has gone cold: the prefix must be paid again anyway."""
    keep: int = 20
    """The newest results that stay; at least one always does."""
    idle_seconds: float | None = None
    """A pause that counts as cold whatever the provider says; None: its cache's own lifetime."""
    economic: bool = False
    """Clear on a warm cache, too, when the arithmetic says that it pays (C12)."""
    min_gain_usd: float = 0.10
    """A smaller expected gain is not worth the break in the cache."""
    batch_tokens: int = 20_000
    """Least a clear on a warm cache takes: after one, so much must have grown old before the next."""
    full_share: float = 0.05
    """Least part of a request that does not fit which a clear must free: less would not last a turn."""
    tools: frozenset[str] = CLEARABLE


NACRE = MicrocompactSettings()
"""What replaying real sessions came to."""
CLAUDE_CODE = MicrocompactSettings(keep=5, idle_seconds=3_600.0)
"""The published numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known just before a request."""

    warmth: Warmth
    profile: ModelProfile
    tokens: int = 0
    """The whole request as it stands."""
    starts_turn: bool = True
    """The person just spoke: nothing of this turn was sent yet."""
    fits: bool = True
    """False: something must go, or a dearer layer comes next."""
    pointer_tokens: int = 40
    """What stays of a cleared result."""


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
    if reason is None or (moment.profile.binds_thinking and not moment.starts_turn):
        return None
    choice = choose(view, tools=settings.tools, keep=settings.keep, pointer_tokens=moment.pointer_tokens)
    if not choice.old or (reason == "full" and choice.tokens < settings.full_share * moment.tokens):
        return None
    return _decided(reason, choice, moment)


def _occasion(view: View, moment: Moment, settings: MicrocompactSettings) -> Reason | None:
    if settings.idle and is_idle(moment.warmth, settings) and not _is_done(view, moment.warmth):
        return "idle"
    return None if moment.fits else "full"


def is_idle(warmth: Warmth, settings: MicrocompactSettings) -> bool:
    """Whether the pause before this request was long enough for the prefix to be gone."""
    if settings.idle_seconds is None:
        return warmth.is_cold
    return warmth.touched_at is not None and warmth.idle_seconds >= settings.idle_seconds


def _is_done(view: View, warmth: Warmth) -> bool:
    """Whether this gap had its clear: nothing was asked since."""
    clears = view.noted(CLEARED)
    return bool(clears) and warmth.touched_at is not None and clears[-1].at > warmth.touched_at


def _decided(reason: Reason, choice: Choice, moment: Moment) -> Decision:
    return Decision(
        reason=reason,
        calls=tuple(one.id for one in choice.old),
        tokens=choice.tokens,
        keeps_from=choice.keeps_from,
        drops_thinking=moment.profile.binds_thinking,
    )
