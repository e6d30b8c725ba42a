"""What a memory says about time and about the project, made plain: dates, expiry, what is gone (D8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, tzinfo
from pathlib import Path
from typing import TypeAlias

from nacre.layers.l6_dream.copy import Copy, Topic, is_text
from nacre.memory.frontmatter import Document
from nacre.memory.recall.base import Drift
from nacre.memory.recall.drift import MAX_TOLD

Resolve: TypeAlias = Callable[[str, datetime, tzinfo], str]
"""Makes the relative dates of a text absolute, as said at a moment in a zone."""
Check: TypeAlias = Callable[[Sequence[str]], Sequence[Drift]]
"""How far what texts name is still in the project (R12)."""

EXPIRED, DRIFT, EXPIRES = "expired", "drift", "expires"
"""Keys of a frontmatter that a dream writes, and one that a person may."""

_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)-(\d\d)(?!\d)")
_ENDING = re.compile(
    r"\b(by|until|till|due|deadline|ends?|ending|expires?|before|through|freeze|frozen|cut-?off|launch(?:es)?|"
    r"ships?|releases?|scheduled|planned|starts?|begins?|on leave)\b|截止|之前|到期|直到|上线|冻结|期限",
    re.IGNORECASE,
)


def date_all(copy: Copy, resolve: Resolve, zone: tzinfo) -> None:
    """Relative dates become absolute, against the date of the file that says them."""
    for topic in copy.topics():
        entry = topic.entry
        at = entry.modified or entry.created or entry.written
        if at is None or not is_text(topic):
            continue
        data = topic.document.data
        said = entry.description
        if said and (dated := resolve(said, at, zone)) != said:
            data = Document.parse(data).with_fields(description=dated)
        if (body := resolve(entry.body, at, zone)) != entry.body:
            data = Document.parse(data).with_body(body)
        if data != topic.document.data:
            copy.write(entry.file, data, f"dates as of {at.astimezone(zone).date().isoformat()} written out")


def expire(copy: Copy, today: date) -> None:
    """Mark project memories whose date has passed; nothing is deleted."""
    for topic in copy.topics():
        if not topic.document.has_frontmatter or not is_text(topic):
            continue
        passed = passed_on(topic, today)
        there = str(topic.document.fields.get(EXPIRED, ""))
        if passed is not None and there != passed.isoformat():
            data = topic.document.with_fields(expired=passed.isoformat())
            copy.write(
                topic.entry.file, data, f"its date has passed ({passed.isoformat()}): marked, not deleted"
            )
        elif passed is None and there:
            copy.write(
                topic.entry.file, topic.document.with_fields(expired=None), "its date lies ahead again"
            )


def passed_on(topic: Topic, today: date) -> date | None:
    """The day on which a memory was over, if it was for a time that has passed."""
    said = topic.document.fields.get(EXPIRES, "")
    if isinstance(said, str) and (named := list(_dates(said))):
        return named[-1] if named[-1] < today else None
    if topic.entry.kind != "project":
        return None
    text = f"{topic.entry.description}\n{topic.entry.body}"
    days = [day for line in text.splitlines() if _ENDING.search(line) for day in _dates(line)]
    # One date ahead, wherever it stands, says that the matter is not over.
    ahead = any(day >= today for day in _dates(text))
    return max(days) if days and not ahead else None


def flag(copy: Copy, check: Check) -> None:
    """Say of memories that nothing they name is left in the project; take that back where it is."""
    topics = [one for one in copy.topics() if one.document.has_frontmatter and is_text(one)]
    for topic, drift in zip(topics, check([one.entry.body for one in topics]), strict=True):
        there = str(topic.document.fields.get(DRIFT, ""))
        gone = f"gone: {', '.join(one.text for one in drift.gone[:MAX_TOLD])}" if drift.is_broken else ""
        if gone and gone != there:
            reason = f"nothing it names is in the project any more ({gone})"
            copy.write(topic.entry.file, topic.document.with_fields(drift=gone), reason)
        elif there and not gone and drift.references and not drift.unchecked:
            data = topic.document.with_fields(drift=None)
            copy.write(topic.entry.file, data, "what it names is in the project again")


def nothing_checked(texts: Sequence[str]) -> Sequence[Drift]:
    """For a directory that belongs to no project."""
    return [Drift() for _ in texts]


def checked_in(root: Path, budget_seconds: float) -> Check:
    """Looks below a root, for about so long."""

    def check(texts: Sequence[str]) -> Sequence[Drift]:
        from nacre.memory.recall.drift import check_each  # noqa: PLC0415 (most of a dream needs no look)

        return check_each(texts, root, budget_seconds=budget_seconds)

    return check


def _dates(text: str) -> Iterable[date]:
    for found in _DATE.finditer(text):
        try:
            yield date(int(found[1]), int(found[2]), int(found[3]))
        except ValueError:
            continue
