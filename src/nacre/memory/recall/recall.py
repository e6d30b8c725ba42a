"""The chosen memories as the model reads them: bounded, dated, with what is known against them (R8).

The words are made once and kept with the message, so that their bytes never change later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

from nacre import prompts
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.containment import open_inside
from nacre.memory.files.scan import moment_of
from nacre.memory.format import entry as wording
from nacre.memory.format.entry import Entry, read_entry
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
from nacre.memory.recall.ranking import ranker as order
from nacre.messages.untrusted_text import neutralise, one_line

MAX_BODY_LINES = 200
MAX_BODY_BYTES = 4_096
"""One memory is one fact (M11): what is longer is a document, and the model can read it for itself."""
MAX_VIEW_BYTES = 60_000
"""What memories may take of a view in all, about 15,000 tokens (R2); a compaction frees it."""
CAUTION_FROM_DAYS = 2
"""Today's and yesterday's need no caution: said every time, it would be read no more."""
MAX_NAMED = 12
"""References that are told one by one; a line of more is not read."""
MAX_REFERENCE_CHARS = 120
_READ_BYTES = 65_536
"""Where reading stops, as in a scan: far behind any frontmatter and the part of the body that is shown."""
_DAY = timedelta(days=1)

_ATTACHED = prompts.load(__package__, "attached")
_MEMORY = prompts.load(__package__, "attached_memory")
_CAUTION = prompts.load(__package__, "attached_caution")
_SUPERSEDED = prompts.load(__package__, "attached_superseded")
_DRIFT = prompts.load(__package__, "attached_drift")
_CUT = prompts.load(__package__, "attached_cut")


async def attach(
    ranked: Sequence[RankedMemory], now: datetime, drifts: Sequence[Drift | None] = ()
) -> tuple[AttachedMemory, ...]:
    """All that can be read, side by side, in the order given; `drifts` stand in the same order."""
    import asyncio  # noqa: PLC0415 - one pick needs none of it, and is what a waiting hook asks for

    reads = (
        asyncio.to_thread(pick, one, now, drift=drift)
        for one, drift in zip_longest(ranked, drifts[: len(ranked)])
    )
    return tuple(found for found in await asyncio.gather(*reads) if found is not None)


def pick(ranked: RankedMemory, now: datetime, *, drift: Drift | None = None) -> AttachedMemory | None:
    """One memory in the words that go into the message; none when it cannot be read or has nothing to say."""
    try:
        data, written = _read(ranked)
    except (OSError, StoreError):
        return None
    entry = read_entry(ranked.entry.file, data, written=written)
    body = entry.body.rstrip() or entry.description
    if not body or _is_withheld(entry, ranked.entry):
        return None
    age_days = age_in_days(entry, now)
    text = worded(ranked, body, age_days=age_days, drift=drift)
    return AttachedMemory(ranked=ranked, text=text, age_days=age_days, bytes=len(text.encode()), drift=drift)


def attachment(picks: Sequence[AttachedMemory]) -> str:
    """What is injected beside a message; same picks, same bytes, and nothing for none."""
    if not picks:
        return ""
    return prompts.render(_ATTACHED, memories="\n\n".join(one.text for one in picks))


def worded(ranked: RankedMemory, body: str, *, age_days: int, drift: Drift | None = None) -> str:
    """Header, cautions and body of one memory."""
    path = one_line(str(ranked.path))
    age = _age(age_days)
    remarks = []
    if age_days >= CAUTION_FROM_DAYS:
        remarks.append(prompts.render(_CAUTION, age=age))
    if ranked.superseded_by:
        remarks.append(prompts.render(_SUPERSEDED, file=one_line(ranked.superseded_by)))
    if drift and (found := _found(drift)):
        remarks.append(prompts.render(_DRIFT, found=found))
    shown, is_cut = bounded(body)
    parts = ["\n".join(remarks), shown, prompts.render(_CUT, path=path) if is_cut else ""]
    return prompts.render(_MEMORY, path=path, age=age, text="\n\n".join(filter(None, parts)))


def age_in_days(entry: Entry, now: datetime) -> int:
    """Whole days since it was written, never negative; a pull or a checkout makes no memory younger."""
    return max(0, (now - entry.changed) // _DAY) if entry.changed else 0


def bounded(body: str) -> tuple[str, bool]:
    """As much of a body as one memory may take, made safe, and whether something is missing."""
    whole = neutralise(body).rstrip()
    text = _beginning(whole)
    if text == whole:
        return whole, False
    # What followed a bracket may be gone now, so that it opens a tag only here.
    while len((safe := neutralise(text)).encode()) > MAX_BODY_BYTES:
        text = text[:-1]
    return safe, True


def _read(ranked: RankedMemory) -> tuple[bytes, datetime]:
    """The beginning of the file and its time, from one handle; links that lead out are refused (M6)."""
    descriptor = open_inside(ranked.directory, ranked.entry.file, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as source:
        return source.read(_READ_BYTES), moment_of(os.fstat(descriptor).st_mtime_ns)


def _is_withheld(now: Entry, ranked: Entry) -> bool:
    """Whether the file has become one that the caller would not have chosen (M16b, M27)."""
    became_untrusted = now.origin == "untrusted" and ranked.origin != "untrusted"
    return became_untrusted or (now.local_only and not ranked.local_only)


def _age(days: int) -> str:
    return ("today", "yesterday")[days] if days < CAUTION_FROM_DAYS else f"{days} days ago"


def _found(drift: Drift) -> str:
    """What still exists, what does not, and what nobody can vouch for, on one line (R12)."""
    here = [one for one in drift.references if one.exists]
    # Said, so that a memory is not taken for checked because its other names are.
    told = (("still there", here), ("no longer there", drift.gone), ("not checked", drift.unchecked))
    return "; ".join(f"{what}: {_listed(ones)}" for what, ones in told if ones)


def _listed(references: Sequence[Reference]) -> str:
    names = [
        f"`{one_line(wording.clipped(one.text, MAX_REFERENCE_CHARS))}`" for one in references[:MAX_NAMED]
    ]
    more = len(references) - len(names)
    return ", ".join([*names, *([f"{more} more"] if more else [])])


def _beginning(text: str) -> str:
    """Whole lines as far as they fit; a line that could never fit is cut between two characters."""
    kept: list[str] = []
    room = MAX_BODY_BYTES
    for line in text.split("\n", MAX_BODY_LINES)[:MAX_BODY_LINES]:
        room -= bool(kept)
        size = len(line.encode())
        if size > MAX_BODY_BYTES:
            kept.append(line.encode()[: max(room, 0)].decode(errors="ignore"))
        elif size <= room:
            kept.append(line)
            room -= size
            continue
        break
    return "\n".join(kept).rstrip()


MIN_WORDS = 2
"""One word ("thanks", "continue") says too little to tell which memory it is about."""
MIN_SIGNS = 3
"""The same for writing without blanks: two signs are one word there."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff\uff66-\uff9d"  # kana, bopomofo
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # han
)


def skip_reason(
    text: str, *, is_on: bool, attached_bytes: int, has_files: bool, is_question: bool = False
) -> str:
    """Why nothing is looked for with this message; empty when something is.

    Where somebody asks memory itself, one word is enough: nobody asks it for "thanks".
    """
    if not is_on:
        return "memory is off"
    if not has_files:
        return "there are no memories"
    if attached_bytes >= MAX_VIEW_BYTES:
        return f"{MAX_VIEW_BYTES:,} bytes of memories are in the conversation already"
    if is_question:
        return "" if any(map(str.isalnum, text)) else "there is no word to look for"
    return "" if says_enough(text) else "the message is too short to tell what it is about"


def says_enough(text: str) -> bool:
    """Whether a message has words enough to be about something."""
    signs = len(_UNSPACED.findall(text))
    words = sum(any(map(str.isalnum, word)) for word in _UNSPACED.sub(" ", text).split())
    # A word of one script beside a sign of another is two words.
    return signs >= MIN_SIGNS or words + (signs > 0) >= MIN_WORDS


CONSIDERED = 50
"""Ten for each place: what comes after is neither attached nor explained, and to look at it takes time."""
CHOSEN_FROM = 200
"""As many as a manifest shows (R3)."""
CUT_OFF = 0.5
"""Below this confidence nothing is attached without a model's word for it; bench/recall has what it costs."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
CheckDrift = Callable[[Sequence[RankedMemory]], Sequence[Drift | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySeen:
    """What the model sees or knows anyway (R7)."""

    paths: frozenset[str] = frozenset()
    """Of files attached before, and of files it has read or written itself."""
    attached_bytes: int = 0
    hides_local: bool = False
    """What the model is told leaves the machine, so that local-only memories stay out (M27)."""


NOTHING_SEEN = AlreadySeen()


def recall(
    query: RecallQuery,
    rankers: Sequence[MemoryRanker],
    *,
    already: AlreadySeen = NOTHING_SEEN,
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


def consider(
    query: RecallQuery, rankers: Sequence[MemoryRanker], *, limit: int = CONSIDERED
) -> list[RankedMemory]:
    """The memories of all scopes together, the surest first."""
    found = [one for ranker in rankers for one in ranker.rank(query, limit=limit)]
    return sorted(found, key=lambda one: (-one.confidence, -one.score, one.entry.file))[:limit]


def candidates(
    query: RecallQuery, rankers: Sequence[MemoryRanker], *, limit: int = CHOSEN_FROM
) -> list[RankedMemory]:
    """What a model may choose from: everything where there is little, else what is ranked first (R9)."""
    ranked = consider(query, rankers, limit=limit)
    if len(ranked) >= limit:
        return ranked
    known = {str(one.path) for one in ranked}
    others = (one for ranker in rankers for one in ranker.everything() if str(one.path) not in known)
    newest = sorted(others, key=lambda one: one.entry.written or _LONG_AGO, reverse=True)
    return [*ranked, *newest][:limit]


def sift(
    ranked: Sequence[RankedMemory], already: AlreadySeen, *, limit: int = MAX_PICKS, cut_off: float = CUT_OFF
) -> tuple[list[RankedMemory], list[LeftOut]]:
    """What may be attached, and why the rest may not; what the model has seen takes nobody's place (R7)."""
    kept: list[RankedMemory] = []
    left: list[LeftOut] = []
    for one in ranked:
        why = _objection(one, already, cut_off) or ("beyond five" if len(kept) >= limit else None)
        if why is None:
            kept.append(one)
        else:
            left.append(LeftOut(one.entry.file, why, one.score))
    return kept, left


def within_budget(
    picks: Sequence[AttachedMemory], attached_bytes: int
) -> tuple[list[AttachedMemory], list[LeftOut]]:
    """As many as still fit into what memories may take of the view (R2)."""
    room = MAX_VIEW_BYTES - attached_bytes
    kept = list[AttachedMemory]()
    over = list[LeftOut]()
    for one in picks:
        if one.bytes <= room:
            kept.append(one)
            room -= one.bytes
        else:
            over.append(LeftOut(one.ranked.entry.file, "budget", one.ranked.score))
    return kept, over


def attached(
    kept: Sequence[RankedMemory], query: RecallQuery, drift: CheckDrift | None
) -> list[AttachedMemory]:
    """With what became of the things they name; one whose references are all gone goes to the end (R12)."""
    drifts = drift(kept) if drift else [None] * len(kept)
    picks = [pick(one, query.now, drift=found) for one, found in zip(kept, drifts, strict=True)]
    readable = [one for one in picks if one is not None]
    return sorted(readable, key=lambda one: bool(one.drift and one.drift.is_broken))


def _objection(one: RankedMemory, already: AlreadySeen, cut_off: float) -> LeftOutReason | None:
    if already.paths and str(one.path) in already.paths:
        return "already seen"
    if one.entry.origin == "untrusted":
        return "untrusted"
    if one.entry.local_only and already.hides_local:
        return "local-only"
    return "below the cut-off" if one.confidence < cut_off else None


def newer_first(picks: Sequence[RankedMemory]) -> list[RankedMemory]:
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
