"""A dream by rule: merge duplicates, resolve dates, mark drift, link logs, repair indexes (D8, D9)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, tzinfo
from typing import TypeAlias

from nacre.layers.l6_dream.by_rule_index import index_all
from nacre.layers.l6_dream.by_rule_merge import merge
from nacre.layers.l6_dream.copy import DirectoryCopy, TopicSearch, is_log, is_text, is_topic
from nacre.layers.l6_dream.policy import DREAM, DreamSettings, may_remove
from nacre.memory.checks.statements import Statements, lost_sentences
from nacre.memory.daily_log import day_of, origin_of_line, read_log
from nacre.memory.dates.absolute import find_dates
from nacre.memory.format.entry import (
    DOUBTFUL,
    MemoryDraft,
    compose,
    description_of,
    file_name,
    file_title,
    title_of,
)
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.recall.base import Drift
from nacre.memory.recall.drift.check import MAX_LISTED
from nacre.memory.similarity import terms

Resolve: TypeAlias = Callable[[str, datetime, tzinfo], str]
"""Makes the relative dates of a text absolute, given the time and zone in which it was written."""
DriftCheck: TypeAlias = Callable[[Sequence[str]], Sequence[Drift]]
"""Looks up which of the paths and names in texts still exist in the project (R12)."""

MIN_JUDGED = 4
"""Memories that name something in the project, from which on their share says whether it is the right one."""
MAX_BROKEN_SHARE = 0.5
DRIFT = "drift"
"""The frontmatter field that a dream writes."""

_SENTENCE = re.compile(r"(?:[^.!?。！？\n]|[.!?](?!\s|$))+[.!?。！？\n]*|[.!?。！？\n]+")
_FORBIDS = re.compile(
    r"\b(never|don['’]t|do not|must not|mustn['’]t|avoid|stop|no longer)\b|不要|别|禁止|勿", re.IGNORECASE
)
_DUNDER = re.compile(r"__\w+__(\(\))?")
_BREAK = re.compile(r"(\n[ \t]*\n)")
_TODAY = re.compile(r"\b(?:today|heute|aujourd['’]hui|hoy)\b|今[天日]|本日", re.IGNORECASE)


def resolve_dates(copy: DirectoryCopy, resolve: Resolve, zone: tzinfo) -> None:
    """Write relative dates as absolute ones where the frontmatter says when the memory was written.

    The modification time of the file does not count: a checkout or a copy changes it.
    """
    for topic in copy.topics():
        entry = topic.entry
        moments = [at for at in (entry.created, entry.modified) if at is not None]
        if not moments or not is_text(topic):
            continue
        data = topic.document.data
        if (dated := _dated(entry.description, moments, resolve, zone)) != entry.description:
            data = MarkdownFile.parse(data).with_fields(description=dated)
        if (body := _dated(entry.body, moments, resolve, zone)) != entry.body:
            data = MarkdownFile.parse(data).with_body(body)
        if data != topic.document.data:
            day = moments[-1].astimezone(zone).date().isoformat()
            copy.write(entry.file, data, f"dates as of {day} written out")


def _dated(text: str, moments: Sequence[datetime], resolve: Resolve, zone: tzinfo) -> str:
    """Return the text with relative dates resolved, if all moments give the same dates.

    Paragraphs with a date of their own, below a heading with a date, or with "today" (which often means
    "nowadays") are not changed.
    """
    first, *others = (resolve(text, at, zone) for at in moments)
    before = _BREAK.split(text)
    after = _BREAK.split(first)
    if first == text or any(other != first for other in others) or len(before) != len(after):
        return text
    parts: list[str] = []
    is_below_date = False
    for old, new in zip(before, after, strict=True):
        has_date = any(find_dates(old))
        is_below_date |= has_date and old.lstrip().startswith("#")
        parts.append(old if is_below_date or has_date or _TODAY.search(old) else new)
    return "".join(parts)


def mark_drift(copy: DirectoryCopy, check: DriftCheck) -> None:
    """Mark memories of which nothing that they name is left in the project; unmark them if it is back."""
    # Feedback says how to work and may name what is still to be made.
    topics = [
        one
        for one in copy.topics()
        if one.document.has_frontmatter and is_text(one) and one.entry.kind not in {"user", "feedback"}
    ]
    # What a forbidding sentence names should not be in the project.
    texts = [
        "".join(one for one in _SENTENCE.findall(topic.entry.body) if not _FORBIDS.search(one))
        for topic in topics
    ]
    # Flags and variables may belong to another program; names such as `__init__` are Python's own.
    drifts = [
        Drift(
            references=tuple(
                one
                for one in found.references
                if one.kind not in {"flag", "variable"} and not _DUNDER.fullmatch(one.text)
            )
        )
        for found in check(texts)
    ]
    named = [drift for drift in drifts if drift.references]
    broken = sum(drift.is_broken for drift in named)
    if len(named) >= MIN_JUDGED and broken > MAX_BROKEN_SHARE * len(named):
        # This is not the code that the memories are about, or not all of it.
        return
    for topic, drift in zip(topics, drifts, strict=True):
        marked = str(topic.document.fields.get(DRIFT, ""))
        gone = f"gone: {', '.join(one.text for one in drift.gone[:MAX_LISTED])}" if drift.is_broken else ""
        if gone and gone != marked:
            reason = f"nothing it names is in the project any more ({gone})"
            copy.write(topic.entry.file, topic.document.with_fields(drift=gone), reason)
        elif marked and not gone and not drift.unchecked:
            data = topic.document.with_fields(drift=None)
            copy.write(topic.entry.file, data, "it names nothing that is gone from the project")


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamRules:
    """What the rules depend on."""

    now: datetime
    zone: tzinfo = UTC
    settings: DreamSettings = DREAM
    resolve: Resolve | None = None
    check: DriftCheck | None = None
    """None: the directory belongs to no project."""
    useful: Mapping[str, float] = field(default_factory=dict)
    """The usefulness of each memory; the most useful are listed first."""
    has_index: bool = True
    is_daily: bool = False
    since: date | None = None
    """The day of the last dream: logs of earlier days were sorted then."""
    is_unlimited: bool = False
    """Any number of memories may be merged at once."""
    between: Callable[[], None] = lambda: None
    """Called between two steps; an exception ends the dream."""


def by_rule(copy: DirectoryCopy, rules: DreamRules) -> None:
    """Apply all rules to a copy."""
    topics = sum(map(is_topic, copy.now))
    # At least one merge is allowed; otherwise a directory of four could never lose its duplicate.
    allowed = topics if rules.is_unlimited else max(1, may_remove(topics, rules.settings))
    merge(copy, allowed=allowed)
    rules.between()
    if rules.resolve is not None:
        resolve_dates(copy, rules.resolve, rules.zone)
    rules.between()
    if rules.check is not None:
        mark_drift(copy, rules.check)
    rules.between()
    if any(map(is_log, copy.now)):
        today = rules.now.astimezone(rules.zone).date()
        if rules.is_daily:
            sort_logs(copy, rules, today=today)
        point_to_logs(copy, TopicSearch(copy.topics(), asked=today))
        rules.between()
    if rules.has_index:
        repair_indexes(copy, rules)


def repair_indexes(copy: DirectoryCopy, rules: DreamRules) -> None:
    """Repair every index as the rules say."""
    share = 1.0 if rules.is_unlimited else rules.settings.max_removed_share
    index_all(copy, useful=rules.useful, with_logs=rules.is_daily, max_dropped_share=share)


MAX_LOGS = 31
"""The newest logs that one dream looks at."""
MIN_SHARED = 2
"""Terms that a line and a memory must have in common; a single one may be chance."""
MAX_TOPICS = 3
"""Memories that link to one log."""
SEE_ALSO = "See also:"
_POINTED = re.compile(r"\]\((logs/[^)\s]+\.md)\)")


def sort_logs(copy: DirectoryCopy, rules: DreamRules, *, today: date) -> None:
    """Make a memory of each typed line in the logs of past days that no memory contains yet (D9)."""
    for file in sorted(filter(is_log, copy.now)):
        day = day_of(file)
        if day is None or day >= today or (rules.since is not None and day < rules.since):
            continue
        said = datetime.combine(day, time(12), tzinfo=rules.zone)
        for line in read_log(file, copy.now[file]):
            text = rules.resolve(line.text, said, rules.zone) if rules.resolve else line.text
            known = Statements(topic.text for topic in copy.topics())
            is_new = bool(lost_sentences(line.text, now=known))
            if line.kind is None or origin_of_line(line.text) in DOUBTFUL or not is_new:
                continue
            body = f"{text}\n\n{SEE_ALSO} [{day.isoformat()}]({file})"
            name = title_of(text)
            draft = MemoryDraft(body=body, kind=line.kind, name=name, description=description_of(text, name))
            new = file_name(file_title(line.kind, name), taken=copy.now)
            copy.write(new, compose(draft, file=new, now=said), f"sorted from {file}")


def point_to_logs(copy: DirectoryCopy, search: TopicSearch) -> None:
    """Add links from memories to the logs about the same subject, one link for each log."""
    logs = sorted(filter(is_log, copy.now), key=lambda file: (day_of(file) or date.min, file), reverse=True)
    pointed = {found for topic in copy.topics() for found in _POINTED.findall(topic.entry.body)}
    for file in logs[:MAX_LOGS]:
        if file in pointed or day_of(file) is None:
            continue
        for topic, _ in _about(copy, search, file).most_common(MAX_TOPICS):
            _link(copy, topic, file)


def _about(copy: DirectoryCopy, search: TopicSearch, file: str) -> Counter[str]:
    """Return the number of lines of a log about each memory."""
    found: Counter[str] = Counter()
    for line in read_log(file, copy.now[file]):
        words = set(terms(line.text))
        # Tool output is untrusted: no trusted memory links to it (M16b).
        if origin_of_line(line.text) in DOUBTFUL or len(words) < MIN_SHARED:
            continue
        for topic in search.files(line.text, limit=1):
            if topic in copy.now and len(words & set(terms(copy.topic(topic).text))) >= MIN_SHARED:
                found[topic] += 1
    return found


def _link(copy: DirectoryCopy, topic: str, log: str) -> None:
    read = copy.topic(topic)
    if not is_text(read) or not copy.is_free(topic) or not read.entry.is_trusted:
        return
    day = day_of(log)
    link = f"[{day.isoformat() if day else log}]({'../' * topic.count('/')}{log})"
    lines = read.entry.body.rstrip().split("\n")
    if lines[-1].startswith(SEE_ALSO):
        lines[-1] += f", {link}"
    else:
        lines += ["", f"{SEE_ALSO} {link}"]
    data = read.document.with_body("\n".join(lines) + "\n")
    copy.write(topic, data, f"points to {log}")
