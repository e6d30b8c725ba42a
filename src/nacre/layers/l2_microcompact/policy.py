"""Which old results to clear now, if any: pure, from the view, the clock and the prices (C9, C12, C12b)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import Warmth
from nacre.layers.l2_microcompact.choice import Choice, choose
from nacre.layers.l2_microcompact.settings import CLAUDE_CODE, CLEARABLE, NACRE, MicrocompactSettings
from nacre.messages.view import View
from nacre.store.tool_results import CLEARED

__all__ = ["CLAUDE_CODE", "CLEARABLE", "NACRE", "Decision", "MicrocompactSettings", "Moment", "Reason", "due"]

Reason = Literal["idle", "full"]
"""The cache is cold; the request does not fit."""


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
    return _decided(reason, choice, moment) if choice.old else None


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
    return None


def _is_done(view: View, warmth: Warmth) -> bool:
    """Whether this gap had its clear: nothing was asked since."""
    last = view.last_noted(CLEARED)
    return last is not None and warmth.touched_at is not None and last.at > warmth.touched_at


def _scale(view: View, moment: Moment) -> float:
    """An estimate that runs high must not make a clear look better than it is."""
    return min(1.0, moment.tokens / view.estimate) if view.estimate else 1.0


def kept_from(view: View) -> tuple[str | None, str | None]:
    """The calls of the oldest results that the last two clears kept, where markers stand since."""
    clears = view.noted(CLEARED)[-2:]
    old, new = [None] * (2 - len(clears)) + [note.fact("keeps_from") for note in clears]
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _decided(reason: Reason, choice: Choice, moment: Moment) -> Decision:
    return Decision(
        reason=reason,
        calls=tuple(one.id for one in choice.old),
        tokens=choice.tokens,
        keeps_from=choice.keeps_from,
        drops_thinking=moment.profile.binds_thinking,
    )
