"""Which of the results about to be recorded go to disk: pure, decided once, never revised (C4 to C7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

REPORTERS = frozenset({"Agent", "Task"})
"""Tools that start a sub-agent, in nacre and in Claude Code."""
POINTER_CHARS = 800
"""Room for a pointer's own words and a long path: a result not larger than them and its preview stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadSettings:
    """How much of a tool's result is shown to the model."""

    max_chars: int = 8_000
    """Above this a result costs more to carry through a session than to read again where it is needed."""
    max_error_chars: int = 12_000
    """The same for what failed: why is often said at its end, which a preview does not show."""
    max_report_chars: int = 30_000
    """The same for the report of a sub-agent, which costs all of its work to have again."""
    round_chars: int = 200_000
    """All results of one round together: a dozen parallel calls must not fill the window at once."""
    image_tokens: int = 10_000
    """All pictures and documents of one round together; the first one is always shown."""
    per_tool: Mapping[str, int] = field(default_factory=dict)
    """Characters by tool, where one needs more or less room than the others."""
    exempt: frozenset[str] = frozenset({"Read"})
    """Bound themselves: cutting what was read blinds later edits, and reading it back would loop."""
    preview_bytes: int = 2_000
    """How much of it stays: enough to recognise what it is."""
    min_duplicate_bytes: int = 256
    """From this size on a result that is in view already becomes a line that points to it."""
    rereads: bool = True
    """A file read again, whose earlier text is in view, shows only the lines that changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshResult:
    """A result that was not sent yet."""

    chars: int
    limit: float
    """Its threshold, see `threshold`."""
    may_go: bool = True
    """Whether it may go to disk for the sake of its round; one that another refers to may not."""


def threshold(tool: str, settings: OffloadSettings, *, own: float | None = None) -> float:
    """How many characters of a tool's result are shown whole; `own` is what the tool says itself (C4).

    A tool that bounds itself has no limit at all, whatever the settings say of it; otherwise they decide.
    """
    if tool in settings.exempt or own == float("inf"):
        return float("inf")
    if tool in settings.per_tool:
        return settings.per_tool[tool]
    usual = max(settings.max_chars, settings.max_report_chars) if tool in REPORTERS else settings.max_chars
    return usual if own is None else min(own, usual)


def choose(
    fresh: Sequence[FreshResult], settings: OffloadSettings, *, recorded_chars: int = 0
) -> frozenset[int]:
    """The places of those that go to disk: each over its own threshold, then the largest of the round (C5).

    `recorded_chars` is what the same round has recorded before: it counts, and it stays as it is (C6).
    """
    stays = settings.preview_bytes + POINTER_CHARS
    chosen = {place for place, one in enumerate(fresh) if one.chars > max(one.limit, stays)}
    total = recorded_chars + sum(
        min(one.chars, stays) if i in chosen else one.chars for i, one in enumerate(fresh)
    )
    # Of two of one size the later goes, so that the order they are looked through in decides nothing.
    largest_first = sorted(range(len(fresh)), key=lambda place: (fresh[place].chars, place), reverse=True)
    for place in largest_first:
        if total <= settings.round_chars:
            break
        one = fresh[place]
        if place in chosen or not one.may_go or one.limit == float("inf") or one.chars <= stays:
            continue
        chosen.add(place)
        total -= one.chars - stays
    return frozenset(chosen)
