"""A dream without a model: what needs no judgement is put in order, and nothing is lost by it (D8, D9)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo

from nacre.layers.l6_dream.by_rule_index import index_all
from nacre.layers.l6_dream.by_rule_marks import Check, Resolve, date_all, flag, nothing_checked
from nacre.layers.l6_dream.by_rule_merge import merge
from nacre.layers.l6_dream.copy import Copy, is_log, is_text, is_topic
from nacre.layers.l6_dream.finding import Finder
from nacre.layers.l6_dream.policy import DREAM, DreamSettings, may_remove
from nacre.memory.daily_log import UNTRUSTED, day_of, read_log
from nacre.memory.similarity import terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the rules go by."""

    now: datetime
    zone: tzinfo = UTC
    settings: DreamSettings = DREAM
    resolve: Resolve | None = None
    check: Check = nothing_checked
    useful: Mapping[str, float] = field(default_factory=dict)
    """How much of use each memory was: the most useful are listed first."""
    has_index: bool = True
    is_daily: bool = False
    is_unbraked: bool = False
    """The person said yes: as much as there is may be put together at once."""
    between: Callable[[], None] = lambda: None
    """Called between two steps; raising ends the dream."""


def by_rule(copy: Copy, rules: Rules) -> None:
    """Put a copy in order."""
    topics = sum(map(is_topic, copy.now))
    # One may always go where what it says stays: else a directory of four could never lose its duplicate.
    allowed = topics if rules.is_unbraked else max(1, may_remove(topics, rules.settings))
    merge(copy, allowed=allowed)
    rules.between()
    if rules.resolve is not None:
        date_all(copy, rules.resolve, rules.zone)
    rules.between()
    flag(copy, rules.check)
    rules.between()
    if any(map(is_log, copy.now)):
        today = rules.now.astimezone(rules.zone).date()
        point_to_logs(copy, Finder(copy.topics(), asked=today))
        rules.between()
    if rules.has_index:
        index_all(copy, useful=rules.useful, with_logs=rules.is_daily)


NEWEST = 31
"""Logs looked at in one dream: older ones had their turn, or are too many for one night."""
MIN_SHARED = 2
"""Terms that a line and a topic must have in common: one alone is chance."""
MAX_TOPICS = 3
"""Topics that point to one log: a day is about few things."""
SEE = "See also:"
_POINTED = re.compile(r"\]\((logs/[^)\s]+\.md)\)")


def point_to_logs(copy: Copy, finder: Finder) -> None:
    """Let topics point to the logs that speak of the same, and to none twice."""
    logs = sorted(filter(is_log, copy.now), key=lambda file: (day_of(file) or date.min, file), reverse=True)
    pointed = {found for topic in copy.topics() for found in _POINTED.findall(topic.entry.body)}
    for file in logs[:NEWEST]:
        if file in pointed or day_of(file) is None:
            continue
        for topic, _ in _about(copy, finder, file).most_common(MAX_TOPICS):
            _point(copy, topic, file)


def _about(copy: Copy, finder: Finder, file: str) -> Counter[str]:
    """How many lines of a log are about which topic."""
    found: Counter[str] = Counter()
    for line in read_log(file, copy.now[file]):
        words = set(terms(line.text))
        # What a tool said is nobody's word: no trusted memory points to it (M16b).
        if line.text.endswith(UNTRUSTED) or len(words) < MIN_SHARED:
            continue
        for topic in finder.found(line.text, limit=1):
            if topic in copy.now and len(words & set(terms(copy.topic(topic).text))) >= MIN_SHARED:
                found[topic] += 1
    return found


def _point(copy: Copy, topic: str, log: str) -> None:
    read = copy.topic(topic)
    if not is_text(read) or not copy.is_free(topic) or read.entry.origin == "untrusted":
        return
    day = day_of(log)
    link = f"[{day.isoformat() if day else log}]({'../' * topic.count('/')}{log})"
    lines = read.entry.body.rstrip().split("\n")
    if lines[-1].startswith(SEE):
        lines[-1] += f", {link}"
    else:
        lines += ["", f"{SEE} {link}"]
    data = read.document.with_body("\n".join(lines) + "\n")
    copy.write(topic, data, f"points to {log}")
