"""Choose the few memories that help with a message: rank, leave out, cut off, order, attach (R7-R10, R14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.recall.attach import MAX_VIEW_BYTES, pick
from nacre.memory.recall.base import (
    MAX_PICKS,
    Drift,
    LeftOut,
    Pick,
    Query,
    Ranked,
    Ranker,
    Recalled,
    Why,
)
from nacre.memory.recall.ranking import order

CONSIDERED = 50
"""Ten for each place: what comes after is neither attached nor explained, and to look at it takes time."""
CHOSEN_FROM = 200
"""As many as a manifest shows (R3)."""
CUT_OFF = 0.5
"""Below this confidence nothing is attached without a model's word for it; bench/recall has what it costs."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
CheckDrift = Callable[[Sequence[Ranked]], Sequence[Drift | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Already:
    """What the model sees or knows anyway (R7)."""

    paths: frozenset[str] = frozenset()
    """Of files attached before, and of files it has read or written itself."""
    attached_bytes: int = 0
    hides_local: bool = False
    """What the model is told leaves the machine, so that local-only memories stay out (M27)."""


NOTHING = Already()


def recall(
    query: Query,
    rankers: Sequence[Ranker],
    *,
    already: Already = NOTHING,
    drift: CheckDrift | None = None,
    limit: int = MAX_PICKS,
    clock: Clock = SYSTEM_CLOCK,
) -> Recalled:
    """What the local index picks, with the reason for everything it leaves out."""
    begun = clock.seconds()
    ranked = consider(query, rankers)
    kept, left = sift(ranked, already, limit=limit)
    picks = attached(newer_first(kept), query, drift)
    picks, over = within_budget(picks, already.attached_bytes)
    return Recalled(
        query=query.text,
        picks=tuple(picks),
        left_out=(*left, *over),
        took_ms=(clock.seconds() - begun) * 1_000,
    )


def consider(query: Query, rankers: Sequence[Ranker], *, limit: int = CONSIDERED) -> list[Ranked]:
    """The memories of all scopes together, the surest first."""
    found = [one for ranker in rankers for one in ranker.rank(query, limit=limit)]
    return sorted(found, key=lambda one: (-one.confidence, -one.score, one.entry.file))[:limit]


def candidates(query: Query, rankers: Sequence[Ranker], *, limit: int = CHOSEN_FROM) -> list[Ranked]:
    """What a model may choose from: everything where there is little, else what is ranked first (R9)."""
    ranked = consider(query, rankers, limit=limit)
    if len(ranked) >= limit:
        return ranked
    known = {str(one.path) for one in ranked}
    others = (one for ranker in rankers for one in ranker.everything() if str(one.path) not in known)
    newest = sorted(others, key=lambda one: one.entry.written or _LONG_AGO, reverse=True)
    return [*ranked, *newest][:limit]


def sift(
    ranked: Sequence[Ranked], already: Already, *, limit: int = MAX_PICKS, cut_off: float = CUT_OFF
) -> tuple[list[Ranked], list[LeftOut]]:
    """What may be attached, and why the rest may not; what the model has seen takes nobody's place (R7)."""
    kept: list[Ranked] = []
    left: list[LeftOut] = []
    for one in ranked:
        why = _objection(one, already, cut_off) or ("beyond five" if len(kept) >= limit else None)
        if why is None:
            kept.append(one)
        else:
            left.append(LeftOut(one.entry.file, why, one.score))
    return kept, left


def within_budget(picks: Sequence[Pick], attached_bytes: int) -> tuple[list[Pick], list[LeftOut]]:
    """As many as still fit into what memories may take of the view (R2)."""
    room = MAX_VIEW_BYTES - attached_bytes
    kept = list[Pick]()
    over = list[LeftOut]()
    for one in picks:
        if one.bytes <= room:
            kept.append(one)
            room -= one.bytes
        else:
            over.append(LeftOut(one.ranked.entry.file, "budget", one.ranked.score))
    return kept, over


def attached(kept: Sequence[Ranked], query: Query, drift: CheckDrift | None) -> list[Pick]:
    """With what became of the things they name; one whose references are all gone goes to the end (R12)."""
    drifts = drift(kept) if drift else [None] * len(kept)
    picks = [pick(one, query.now, drift=found) for one, found in zip(kept, drifts, strict=True)]
    readable = [one for one in picks if one is not None]
    return sorted(readable, key=lambda one: bool(one.drift and one.drift.is_broken))


def _objection(one: Ranked, already: Already, cut_off: float) -> Why | None:
    if already.paths and str(one.path) in already.paths:
        return "already seen"
    if one.entry.origin == "untrusted":
        return "untrusted"
    if one.entry.local_only and already.hides_local:
        return "local-only"
    return "below the cut-off" if one.confidence < cut_off else None


def newer_first(picks: Sequence[Ranked]) -> list[Ranked]:
    """The picks in the order to attach them; the ranking that chose them is not touched."""
    subjects = [one.subject for one in picks if one.subject is not None]
    if len(subjects) < len(picks) or len(picks) < 2:
        return list(picks)
    by_path = {str(one.path): one for one in picks}
    placed = [replace(one.placed, id=path) for one, path in zip(subjects, by_path, strict=True)]
    ordered = order.newer_first(placed, subjects[0].rarity)
    return [
        replace(by_path[one.id], superseded_by=by_path[one.superseded_by].entry.file)
        if one.superseded_by
        else by_path[one.id]
        for one in ordered
    ]
