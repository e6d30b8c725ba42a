"""Decide which old results to clear: pure, from the view, the clock and the settings (C9, C12, C12b)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import Warmth
from nacre.layers.l2_microcompact.settings import CLAUDE_CODE, CLEARABLE, NACRE, MicrocompactSettings
from nacre.messages.results import AnsweredCall, answered_calls, pinned
from nacre.messages.view import View
from nacre.store.tool_results import CLEARED

__all__ = [
    "CLAUDE_CODE",
    "CLEARABLE",
    "NACRE",
    "ClearDecision",
    "ClearInputs",
    "MicrocompactSettings",
    "Reason",
    "due",
]

OFFLOADED = "<persisted-output>"
"""Start of a result that layer 1 already moved to disk; clearing it would free little."""
READER = "Read"
EDITED_SHARE = 0.5
"""Share of a conversation that reads of edited files may take when all else is cleared."""
EDITORS = frozenset({"Edit", "MultiEdit", "Write"})
DUPLICATE = "duplicate"
REREAD = "reread"
"""Kinds of notes for results that refer to another result: both stay, or both are cleared (C7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearableResults:
    """The results that a clear would remove."""

    old: tuple[AnsweredCall, ...] = ()
    """In the order of the view."""
    tokens: int = 0
    """Estimated tokens freed, minus those of the pointers."""
    keeps_from: str | None = None
    """Call id of the oldest result that stays because it is new."""


def clearable_results(
    view: View, *, tools: frozenset[str], keep: int, pointer_tokens: int, edited_tokens: int = 0
) -> ClearableResults:
    """Return all but the newest results of these tools that are not pinned and larger than a pointer.

    Reads of edited files stay, too, up to `edited_tokens` in all.
    """
    everything = answered_calls(view.items)
    ours = [one for one in everything if one.call.name in tools]
    newest = ours[-max(1, keep) :]
    replaced = view.replaced
    stays = pinned(view) | {one.id for one in newest} | _reads_of_edited(everything, edited_tokens)
    roots = _roots(view, DUPLICATE, REREAD)
    old: list[AnsweredCall] = []
    for group in _groups(everything, roots):
        standing = [one for one in group if replaced.get(one.id) != CLEARED]
        is_free = all(
            one.call.name in tools and one.id not in stays and not one.result.text.startswith(OFFLOADED)
            for one in standing
        )
        if is_free and sum(one.tokens - pointer_tokens for one in standing) > 0:
            old += standing
    old.sort(key=lambda one: one.item)
    return ClearableResults(
        old=tuple(old),
        tokens=sum(one.tokens - pointer_tokens for one in old),
        keeps_from=newest[0].id if newest else None,
    )


def _reads_of_edited(results: Sequence[AnsweredCall], tokens: int) -> frozenset[str]:
    """Return the newest read of each file that was edited, within a limit, the file edited last first."""
    reads: dict[str, AnsweredCall] = {}
    edited: dict[str, None] = {}
    for one in results:
        path = one.call.input.get("file_path")
        if not isinstance(path, str) or one.result.is_error:
            continue
        if one.call.name == READER:
            reads[path] = one
        elif one.call.name in EDITORS:
            edited.pop(path, None)
            edited[path] = None
    found: set[str] = set()
    for path in reversed(edited):
        read = reads.get(path)
        if read is not None and read.tokens <= tokens:
            tokens -= read.tokens
            found.add(read.id)
    return frozenset(found)


def duplicate_targets(view: View) -> dict[str, str]:
    """Map every duplicate to the call of the result it refers to."""
    return _roots(view, DUPLICATE)


def _roots(view: View, *kinds: str) -> dict[str, str]:
    """Map every reference to its final target; a cycle in the log ends at one of its members."""
    said = [note for kind in kinds for note in view.noted(kind)]
    direct = {str(note.fact("call")): str(note.fact("of")) for note in said}
    return {call: _end(call, direct) for call in direct}


def _end(call: str, direct: dict[str, str]) -> str:
    passed: list[str] = []
    while call in direct and call not in passed:
        passed.append(call)
        call = direct[call]
    # All members of a cycle must have the same target, wherever the walk started.
    return min(passed[passed.index(call) :]) if call in passed else call


def _groups(results: Iterable[AnsweredCall], roots: dict[str, str]) -> Sequence[Sequence[AnsweredCall]]:
    groups: defaultdict[str, list[AnsweredCall]] = defaultdict(list)
    for one in results:
        groups[roots.get(one.id, one.id)].append(one)
    return list(groups.values())


Reason = Literal["idle", "full"]
"""The cache is cold; the request does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearInputs:
    """State of the session just before a request."""

    warmth: Warmth
    profile: ModelProfile
    tokens: int = 0
    """Tokens of the whole request."""
    starts_turn: bool = True
    """The turn has no reply yet."""
    fits: bool = True
    """Whether the request fits; if not and nothing is cleared, a more expensive layer follows."""
    too_many: int = 0
    """Tokens over the limit, if known."""
    pointer_tokens: int = 40
    """Estimated tokens of the pointer that replaces a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearDecision:
    """The results to clear, and the reason."""

    reason: Reason
    calls: tuple[str, ...]
    tokens: int
    """Estimated tokens freed."""
    keeps_from: str | None = None
    """The call of the oldest result that stays because it is new: a marker goes before it (C31c)."""
    drops_thinking: bool = False
    """The model binds thinking to the bytes before it: it goes behind the first cleared result (C12b)."""


def due(view: View, moment: ClearInputs, settings: MicrocompactSettings = NACRE) -> ClearDecision | None:
    """Return what to clear before the next request; None on a warm cache with room left."""
    last = view.last_noted(CLEARED)
    touched_at = moment.warmth.touched_at
    is_done = last is not None and touched_at is not None and last.at > touched_at
    if settings.idle and is_idle(moment.warmth, settings) and not is_done:
        # With bound thinking a rewrite waits for the next turn (C12b), unless the request does not fit.
        if moment.profile.binds_thinking and not moment.starts_turn:
            return None
        choice = clearable_results(
            view,
            tools=settings.tools,
            keep=settings.keep,
            pointer_tokens=moment.pointer_tokens,
            edited_tokens=min(settings.edited_tokens, int(view.estimate * EDITED_SHARE)),
        )
        return _decided("idle", choice, moment) if choice.old else None
    if moment.fits or not settings.full:
        return None
    # The fewest results that free enough. If none do, a compaction follows; two rewrites in a row would lose
    # the cache twice.
    needed = max(moment.too_many, settings.full_share * moment.tokens)
    ratio = min(1.0, moment.tokens / view.estimate) if view.estimate else 1.0
    found: ClearableResults | None = None
    # Start with the largest clear: if even that is not enough, stop at once.
    for keep in sorted(settings.full_keep):
        choice = clearable_results(
            view, tools=settings.tools, keep=keep, pointer_tokens=moment.pointer_tokens
        )
        if not choice.old or choice.tokens * ratio < needed:
            break
        found = choice
    return _decided("full", found, moment) if found else None


def is_idle(warmth: Warmth, settings: MicrocompactSettings) -> bool:
    """Return whether the cache expired during the pause before this request."""
    if settings.idle_seconds is None:
        return warmth.is_cold
    return warmth.touched_at is not None and warmth.idle_seconds >= settings.idle_seconds


def kept_from(view: View) -> tuple[str | None, str | None]:
    """Return the call ids of the oldest results that the last two clears kept."""
    clears = view.noted(CLEARED)[-2:]
    old, new = [None] * (2 - len(clears)) + [note.fact("keeps_from") for note in clears]
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _decided(reason: Reason, choice: ClearableResults, moment: ClearInputs) -> ClearDecision:
    return ClearDecision(
        reason=reason,
        calls=tuple(one.id for one in choice.old),
        tokens=choice.tokens,
        keeps_from=choice.keeps_from,
        drops_thinking=moment.profile.binds_thinking,
    )
