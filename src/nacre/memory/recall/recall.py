"""Recall for one message: rank memories, filter and order them, render the rest (R2, R7-R10, R14).

A rendered memory is stored with the message, so that its bytes never change later (R8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from nacre import prompts
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.containment import open_inside
from nacre.memory.files.scan import moment_of
from nacre.memory.format.entry import Entry, clipped, read_entry
from nacre.memory.recall.base import (
    MAX_PICKS,
    AttachedMemory,
    Drift,
    LeftOut,
    LeftOutReason,
    MemoryRanker,
    RankedMemory,
    Recalled,
    RecallQuery,
    Reference,
)
from nacre.messages.untrusted_text import one_line

if TYPE_CHECKING:
    from nacre.memory.recall.excerpt import Excerpt

MAX_VIEW_BYTES = 60_000
"""Bytes of memories in a view at most, about 15,000 tokens (R2); a compaction frees them."""
MAX_RANKED = 50
"""Ten per attached memory: later ones are neither attached nor explained, and cost time."""
MAX_CANDIDATES = 200
"""As many as a manifest shows (R3)."""
CUT_OFF = 0.5
"""Below this confidence only a model attaches a memory; bench/recall measures what that costs."""
MIN_WORDS = 2
"""One word ("thanks", "continue") does not tell which memory it is about."""
MIN_UNSPACED = 3
"""The same for scripts without spaces, where two characters are one word."""
CAUTION_FROM_DAYS = 2
"""Memories of today and yesterday need no caution: repeated every time, it would be ignored."""
MAX_NAMED = 12
"""References listed one by one."""
MAX_REFERENCE_CHARS = 120
_READ_BYTES = 65_536
"""As in a scan: more than any frontmatter and the part of the body that is shown."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_ATTACHED = prompts.load(__package__, "attached")
_MEMORY = prompts.load(__package__, "attached_memory")
_CAUTION = prompts.load(__package__, "attached_caution")
_SUPERSEDED = prompts.load(__package__, "attached_superseded")
_DRIFT = prompts.load(__package__, "attached_drift")
_CUT = prompts.load(__package__, "attached_cut")
_PARTS = prompts.load(__package__, "attached_parts")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff\uff66-\uff9d"  # kana, bopomofo
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # han
)

CheckDrift = Callable[[Sequence[RankedMemory]], Sequence[Drift | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySeen:
    """Which memories the model has seen, and whether it may see local-only ones (R7)."""

    paths: frozenset[str] = frozenset()
    """Files attached before, and files that the model has read or written."""
    attached_bytes: int = 0
    max_bytes: int = MAX_VIEW_BYTES
    """How many bytes of memories a view may hold; less in a small window."""
    hides_local: bool = False
    """Requests leave the machine, so that local-only memories are left out (M27)."""


NOTHING_SEEN = AlreadySeen()


def skip_reason(
    text: str, *, is_on: bool, attached_bytes: int, has_files: bool, is_question: bool = False
) -> str:
    """Return why no memories are searched for this message; empty when they are (R2).

    With `is_question` the text is a query to memory itself, for which one word is enough.
    """
    if not is_on:
        return "memory is off"
    if not has_files:
        return "there are no memories"
    if attached_bytes >= MAX_VIEW_BYTES:
        return f"{MAX_VIEW_BYTES:,} bytes of memories are in the conversation already"
    if is_question:
        return "" if any(map(str.isalnum, text)) else "there is no word to look for"
    return "" if has_enough_words(text) else "the message is too short to tell what it is about"


def has_enough_words(text: str) -> bool:
    """Whether a message is long enough to be about something."""
    unspaced = len(_UNSPACED.findall(text))
    words = sum(any(map(str.isalnum, word)) for word in _UNSPACED.sub(" ", text).split())
    # A word of one script beside a character of another is two words.
    return unspaced >= MIN_UNSPACED or words + (unspaced > 0) >= MIN_WORDS


def recall(
    query: RecallQuery,
    rankers: Sequence[MemoryRanker],
    *,
    already: AlreadySeen = NOTHING_SEEN,
    drift: CheckDrift | None = None,
    limit: int = MAX_PICKS,
    clock: Clock = SYSTEM_CLOCK,
) -> Recalled:
    """Return the memories to attach to a message, chosen without a model, and why others are left out."""
    begun = clock.seconds()
    chosen, left_out = filter_ranked(rank_all(query, rankers), already, limit=limit)
    attached = attach_all(order_by_age(chosen), query, drift)
    readable = {one.ranked.path for one in attached}
    unreadable = [LeftOut.of(one, "unreadable") for one in chosen if one.path not in readable]
    attached, over_budget = within_budget(attached, already.max_bytes - already.attached_bytes)
    return Recalled(
        query=query.text,
        picks=tuple(attached),
        left_out=(*left_out, *unreadable, *over_budget),
        took_ms=(clock.seconds() - begun) * 1_000,
    )


def rank_all(
    query: RecallQuery, rankers: Sequence[MemoryRanker], *, limit: int = MAX_RANKED
) -> list[RankedMemory]:
    """Return the best memories of all scopes, highest confidence first."""
    found = [one for ranker in rankers for one in ranker.rank(query, limit=limit)]
    return sorted(found, key=lambda one: (-one.confidence, -one.score, one.entry.file))[:limit]


def candidates(
    query: RecallQuery, rankers: Sequence[MemoryRanker], *, limit: int = MAX_CANDIDATES
) -> list[RankedMemory]:
    """Return the memories a model may choose from: the ranked ones, then the newest others (R9)."""
    ranked = rank_all(query, rankers, limit=limit)
    if len(ranked) >= limit:
        return ranked
    paths = {str(one.path) for one in ranked}
    others = (one for ranker in rankers for one in ranker.everything() if str(one.path) not in paths)
    newest = sorted(others, key=lambda one: one.entry.written or _LONG_AGO, reverse=True)
    return [*ranked, *newest][:limit]


def filter_ranked(
    ranked: Sequence[RankedMemory], already: AlreadySeen, *, limit: int = MAX_PICKS, cut_off: float = CUT_OFF
) -> tuple[list[RankedMemory], list[LeftOut]]:
    """Return the memories to attach, and the others with a reason; seen ones take no place (R7)."""
    chosen: list[RankedMemory] = []
    left_out: list[LeftOut] = []
    for one in ranked:
        why = _objection(one, already, cut_off) or ("beyond five" if len(chosen) >= limit else None)
        if why is None:
            chosen.append(one)
        else:
            left_out.append(LeftOut.of(one, why))
    return chosen, left_out


def _objection(one: RankedMemory, already: AlreadySeen, cut_off: float) -> LeftOutReason | None:
    if already.paths and str(one.path) in already.paths:
        return "already seen"
    if not one.entry.is_trusted:
        return "unverified" if one.entry.origin == "unverified" else "untrusted"
    if one.entry.local_only and already.hides_local:
        return "local-only"
    return "below the cut-off" if one.confidence < cut_off else None


def order_by_age(chosen: Sequence[RankedMemory]) -> list[RankedMemory]:
    """Return the memories in the order to attach them: of two on one subject the newer first (R14)."""
    from nacre.memory.recall.ranking.order import newer_first  # noqa: PLC0415 - imported with the first memories

    subjects = [one.subject for one in chosen if one.subject is not None]
    if len(subjects) < len(chosen) or len(chosen) < 2:
        return list(chosen)
    by_path = {str(one.path): one for one in chosen}
    terms = [subject.terms._replace(id=path) for subject, path in zip(subjects, by_path, strict=True)]
    return [
        replace(by_path[one.id], superseded_by=by_path[one.superseded_by].entry.file)
        if one.superseded_by
        else by_path[one.id]
        for one in newer_first(terms, subjects[0].rarity)
    ]


def attach_all(
    chosen: Sequence[RankedMemory], query: RecallQuery, drift: CheckDrift | None
) -> list[AttachedMemory]:
    """Render the readable memories; one whose references are all gone comes last (R12)."""
    drifts = drift(chosen) if drift else [None] * len(chosen)
    rendered = [
        attach(one, query.now, question=query.text, drift=found)
        for one, found in zip(chosen, drifts, strict=True)
    ]
    readable = [one for one in rendered if one is not None]
    return sorted(readable, key=lambda one: bool(one.drift and one.drift.is_broken))


def within_budget(
    attached: Sequence[AttachedMemory], room: int
) -> tuple[list[AttachedMemory], list[LeftOut]]:
    """Return the memories that fit into so many bytes, in their order, and the others (R2).

    The best ones get the room, wherever they are in the order.
    """
    fitting = set[Path]()
    for one in sorted(attached, key=by_rank):
        if one.bytes <= room:
            fitting.add(one.ranked.path)
            room -= one.bytes
    kept = [one for one in attached if one.ranked.path in fitting]
    return kept, [LeftOut.of(one.ranked, "budget") for one in attached if one.ranked.path not in fitting]


def by_rank(one: AttachedMemory) -> tuple[bool, float, float]:
    """Return a key that sorts the best memory first; one whose references are all gone is last (R12)."""
    return bool(one.drift and one.drift.is_broken), -one.ranked.confidence, -one.ranked.score


def attach(
    ranked: RankedMemory, now: datetime, *, question: str = "", drift: Drift | None = None
) -> AttachedMemory | None:
    """Render one memory; None when it cannot be read, is empty, or may no longer be shown (M16b, M27).

    Of a long one the passages that match the question are shown (R8).
    """
    try:
        # One descriptor for text and time; links that lead out of the directory are refused (M6).
        descriptor = open_inside(ranked.directory, ranked.entry.file, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as source:
            data = source.read(_READ_BYTES)
            written = moment_of(os.fstat(descriptor).st_mtime_ns)
    except (OSError, StoreError):
        return None
    entry = read_entry(ranked.entry.file, data, written=written)
    body = entry.body.rstrip() or entry.description
    became_untrusted = not entry.is_trusted and ranked.entry.is_trusted
    became_local = entry.local_only and not ranked.entry.local_only
    if not body or became_untrusted or became_local:
        return None
    age_days = age_in_days(entry, now)
    # The body is the end of the file, so that the lines above it are those of the frontmatter.
    first_line = 1 + data.count(b"\n") - entry.body.count("\n")
    from nacre.memory.recall.excerpt import excerpt  # noqa: PLC0415 - only where something is attached

    shown = excerpt(body, question, first_line=first_line)
    text = render_attached(ranked, shown, age_days=age_days, drift=drift)
    return AttachedMemory(ranked=ranked, text=text, age_days=age_days, bytes=len(text.encode()), drift=drift)


def render_attachment(attached: Sequence[AttachedMemory]) -> str:
    """Return the text to attach to a message; the same memories give the same bytes."""
    if not attached:
        return ""
    return prompts.render(_ATTACHED, memories="\n\n".join(one.text for one in attached))


def render_attached(
    ranked: RankedMemory, shown: Excerpt, *, age_days: int, drift: Drift | None = None
) -> str:
    """Return header, cautions and text of one memory."""
    path = one_line(str(ranked.path))
    age = ("today", "yesterday")[age_days] if age_days < CAUTION_FROM_DAYS else f"{age_days} days ago"
    remarks = []
    if age_days >= CAUTION_FROM_DAYS:
        remarks.append(prompts.render(_CAUTION, age=age))
    if ranked.superseded_by:
        remarks.append(prompts.render(_SUPERSEDED, file=one_line(ranked.superseded_by)))
    if drift and drift.references:
        groups = (
            ("still there", [one for one in drift.references if one.exists]),
            ("no longer there", drift.gone),
            # Listed, so that a memory does not look checked because its other references are.
            ("not checked", drift.unchecked),
        )
        found = "; ".join(f"{label}: {_names(references)}" for label, references in groups if references)
        remarks.append(prompts.render(_DRIFT, found=found))
    note = {"nothing": "", "the end": _CUT, "parts": _PARTS}[shown.omits]
    parts = ["\n".join(remarks), shown.text, note and prompts.render(note, path=path)]
    return prompts.render(_MEMORY, path=path, age=age, text="\n\n".join(filter(None, parts)))


def age_in_days(entry: Entry, now: datetime) -> int:
    """Return the whole days since a memory was changed, never negative; a checkout does not reset it."""
    return max(0, (now - entry.changed) // timedelta(days=1)) if entry.changed else 0


def _names(references: Sequence[Reference]) -> str:
    names = [f"`{one_line(clipped(one.text, MAX_REFERENCE_CHARS))}`" for one in references[:MAX_NAMED]]
    more = len(references) - len(names)
    return ", ".join([*names, *([f"{more} more"] if more else [])])
