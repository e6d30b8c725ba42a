"""When extraction is due: pure, no clock, no disk (E1, E4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Consent: TypeAlias = Literal["off", "suggest", "auto"]
"""What may become of a memory that was found: nothing, a proposal to the person, or a memory (E7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSettings:
    """How memories are drawn from conversations."""

    mode: Consent = "auto"
    """`suggest` writes nothing: what is found waits for `nacre memory review`."""
    non_interactive: bool = False
    """Also where nobody sits at a terminal: `nacre -p` then takes as long as it takes to remember."""
    remote: bool = False
    """Also on a machine whose disk does not last, given a memory directory that does."""
    every_turns: int = 1
    """Only after so many turns in which something was said; the turns between are looked at then, too."""
    max_rounds: int = 5
    """Model calls of one run: read in parallel, write in parallel, mend."""
    max_failures: int = 3
    """In a row; then extraction rests for the session, with one notice (F5)."""


NACRE = ExtractSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known about a session when it begins."""

    switch: bool
    """`switches.extract`; `auto` counts as on."""
    is_kept: bool
    """Not incognito: there is a log, and memory may be written."""
    is_bare: bool = False
    is_remote: bool = False
    is_interactive: bool = False
    """Somebody sits there and says the next thing, too."""
    is_daily: bool = False
    """Memory is a log of the day, which the agent writes itself (M17)."""


def is_wanted(here: Circumstances, settings: ExtractSettings = NACRE) -> bool:
    """Whether memories are drawn from a session at all."""
    if not here.switch or settings.mode == "off" or here.is_bare or not here.is_kept or here.is_daily:
        return False
    if here.is_remote and not settings.remote:
        return False
    return here.is_interactive or settings.non_interactive


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known at the end of a turn, in the order of what it costs to know."""

    is_answered: bool
    """The last reply calls no tool."""
    has_news: bool
    """A person said something since the cursor."""
    turns: int = 1
    """Turns with news since the last run, this one included."""
    failures: int = 0
    """In a row."""


def due(moment: Moment, settings: ExtractSettings = NACRE) -> bool:
    """Whether to look for memories now."""
    if not moment.is_answered or moment.failures >= settings.max_failures:
        return False
    return moment.has_news and moment.turns >= settings.every_turns
