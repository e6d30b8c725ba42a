"""The chosen memories as the model reads them: bounded, dated, with what is known against them (R8).

The words are made once and kept with the message, so that their bytes never change later.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import zip_longest

from nacre import prompts
from nacre.errors import StoreError
from nacre.memory.files.containment import open_inside
from nacre.memory.files.scan import moment_of
from nacre.memory.format import entry as wording
from nacre.memory.format.entry import Entry, read_entry
from nacre.memory.recall.base import Drift, Pick, Ranked, Reference
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
    ranked: Sequence[Ranked], now: datetime, drifts: Sequence[Drift | None] = ()
) -> tuple[Pick, ...]:
    """All that can be read, side by side, in the order given; `drifts` stand in the same order."""
    import asyncio  # noqa: PLC0415 - one pick needs none of it, and is what a waiting hook asks for

    reads = (
        asyncio.to_thread(pick, one, now, drift=drift)
        for one, drift in zip_longest(ranked, drifts[: len(ranked)])
    )
    return tuple(found for found in await asyncio.gather(*reads) if found is not None)


def pick(ranked: Ranked, now: datetime, *, drift: Drift | None = None) -> Pick | None:
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
    return Pick(ranked=ranked, text=text, age_days=age_days, bytes=len(text.encode()), drift=drift)


def attachment(picks: Sequence[Pick]) -> str:
    """What is injected beside a message; same picks, same bytes, and nothing for none."""
    if not picks:
        return ""
    return prompts.render(_ATTACHED, memories="\n\n".join(one.text for one in picks))


def worded(ranked: Ranked, body: str, *, age_days: int, drift: Drift | None = None) -> str:
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


def _read(ranked: Ranked) -> tuple[bytes, datetime]:
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
