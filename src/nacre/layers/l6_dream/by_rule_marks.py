"""Resolves relative dates of memories and marks those whose references are gone from the project (D8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TypeAlias

from nacre.layers.l6_dream.copy import Copy, is_text
from nacre.memory.checks.grounding import dates_of
from nacre.memory.format.frontmatter import Document
from nacre.memory.recall.base import Drift, Reference
from nacre.memory.recall.drift.check import MAX_TOLD

Resolve: TypeAlias = Callable[[str, datetime, tzinfo], str]
"""Makes the relative dates of a text absolute, as said at a moment in a zone."""
Check: TypeAlias = Callable[[Sequence[str]], Sequence[Drift]]
"""How far what texts name is still in the project (R12)."""

DRIFT = "drift"
"""The frontmatter field that a dream writes."""

_SENTENCE = re.compile(r"(?:[^.!?。！？\n]|[.!?](?!\s|$))+[.!?。！？\n]*|[.!?。！？\n]+")
_FORBIDS = re.compile(
    r"\b(never|don['’]t|do not|must not|mustn['’]t|avoid|stop|no longer)\b|不要|别|禁止|勿", re.IGNORECASE
)
_DUNDER = re.compile(r"__\w+__(\(\))?")
_BREAK = re.compile(r"(\n[ \t]*\n)")
_TODAY = re.compile(r"\btoday\b|今[天日]", re.IGNORECASE)


def date_all(copy: Copy, resolve: Resolve, zone: tzinfo) -> None:
    """Write relative dates as absolute ones where the frontmatter says when the memory was written.

    The file's own time does not count: a checkout or a copy changes it.
    """
    for topic in copy.topics():
        entry = topic.entry
        moments = [at for at in (entry.created, entry.modified) if at is not None]
        if not moments or not is_text(topic):
            continue
        data = topic.document.data
        said = entry.description
        if (dated := _dated(said, moments, resolve, zone)) != said:
            data = Document.parse(data).with_fields(description=dated)
        if (body := _dated(entry.body, moments, resolve, zone)) != entry.body:
            data = Document.parse(data).with_body(body)
        if data != topic.document.data:
            day = moments[-1].astimezone(zone).date().isoformat()
            copy.write(entry.file, data, f"dates as of {day} written out")


def _dated(text: str, moments: Sequence[datetime], resolve: Resolve, zone: tzinfo) -> str:
    """The text with its relative dates resolved where every moment gives the same date.

    A paragraph that has a date of its own is not changed, nor one below a heading that has one. Nor is one
    with "today", which often means "nowadays".
    """
    first, *others = (resolve(text, at, zone) for at in moments)
    before = _BREAK.split(text)
    after = _BREAK.split(first)
    if first == text or any(other != first for other in others) or len(before) != len(after):
        return text
    parts: list[str] = []
    is_below_date = False
    for old, new in zip(before, after, strict=True):
        has_date = any(dates_of(old))
        is_below_date |= has_date and old.lstrip().startswith("#")
        parts.append(old if is_below_date or has_date or _TODAY.search(old) else new)
    return "".join(parts)


def flag(copy: Copy, check: Check) -> None:
    """Say of memories that nothing they name is left in the project; take that back where it is."""
    if check is nothing_checked:
        return
    topics = [one for one in copy.topics() if one.document.has_frontmatter and is_text(one)]
    for topic, found in zip(topics, check([_wanted(one.entry.body) for one in topics]), strict=True):
        drift = Drift(references=tuple(one for one in found.references if _is_of_project(one)))
        there = str(topic.document.fields.get(DRIFT, ""))
        gone = f"gone: {', '.join(one.text for one in drift.gone[:MAX_TOLD])}" if drift.is_broken else ""
        if gone and gone != there:
            reason = f"nothing it names is in the project any more ({gone})"
            copy.write(topic.entry.file, topic.document.with_fields(drift=gone), reason)
        elif there and not gone and not drift.unchecked:
            data = topic.document.with_fields(drift=None)
            copy.write(topic.entry.file, data, "it names nothing that is gone from the project")


def _wanted(body: str) -> str:
    """The body without sentences that forbid something: what they name should not be in the project."""
    return "".join(one for one in _SENTENCE.findall(body) if not _FORBIDS.search(one))


def _is_of_project(reference: Reference) -> bool:
    """Not a flag, which another program may have, nor a name of Python's own such as `__init__`."""
    return reference.kind != "flag" and not _DUNDER.fullmatch(reference.text)


def nothing_checked(texts: Sequence[str]) -> Sequence[Drift]:
    """For a directory that belongs to no project."""
    return [Drift() for _ in texts]


def checked_in(root: Path, budget_seconds: float) -> Check:
    """Looks below a root, for about so long."""

    def check(texts: Sequence[str]) -> Sequence[Drift]:
        from nacre.memory.recall.drift.check import check_each  # noqa: PLC0415 (most of a dream needs no look)

        return check_each(texts, root, budget_seconds=budget_seconds)

    return check
