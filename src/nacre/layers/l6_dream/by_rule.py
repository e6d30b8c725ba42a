"""A dream without a model: what needs no judgement is put in order, and nothing is lost by it (D8, D9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from nacre.layers.l6_dream.by_rule_index import index_all
from nacre.layers.l6_dream.by_rule_logs import point_to_logs
from nacre.layers.l6_dream.by_rule_marks import Check, Resolve, date_all, flag, nothing_checked
from nacre.layers.l6_dream.by_rule_merge import merge
from nacre.layers.l6_dream.copy import Copy, is_log, is_topic
from nacre.layers.l6_dream.finding import Finder
from nacre.layers.l6_dream.policy import DREAM, DreamSettings, may_remove


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
