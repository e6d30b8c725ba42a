"""When extraction is enabled and due (E1, E4). Pure, no clock, no disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Consent: TypeAlias = Literal["off", "suggest", "auto"]
"""What an extracted memory becomes: nothing, a proposal to the person, or a memory (E7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSettings:
    """How memories are extracted from conversations."""

    mode: Consent = "auto"
    """`suggest` saves nothing: proposals wait for `nacre memory review`."""
    non_interactive: bool = False
    """Also without a terminal: `nacre -p` then ends only when extraction has ended."""
    remote: bool = False
    """Also on a machine without a lasting disk, given a memory directory that lasts."""
    every_turns: int = 10
    """Run after so many turns with new messages at the latest; the run covers all of them. Before that, it
    runs in a pause of `background.idleSeconds`, and at the end of the session."""
    max_rounds: int = 5
    """Model calls of one run: read in parallel, write in parallel, correct."""
    max_output: int = 20_000
    """Output tokens of one model call."""
    max_failures: int = 3
    """After so many failures in a row, extraction ends for the session, with one notice (F5)."""


EXTRACT = ExtractSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractEnvironment:
    """Properties of a session that decide whether extraction is enabled."""

    switch: bool
    """`switches.extract`; `auto` counts as on."""
    is_kept: bool
    """The session has a log, and memory may be written."""
    is_bare: bool = False
    is_remote: bool = False
    is_interactive: bool = False
    """A person takes part in the session."""
    is_daily: bool = False
    """Memory is one log per day, which the agent writes itself (M17)."""


def is_enabled(environment: ExtractEnvironment, settings: ExtractSettings = EXTRACT) -> bool:
    """Whether memories are extracted from a session."""
    if (
        not environment.switch
        or settings.mode == "off"
        or environment.is_bare
        or not environment.is_kept
        or environment.is_daily
    ):
        return False
    if environment.is_remote and not settings.remote:
        return False
    return environment.is_interactive or settings.non_interactive


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractConditions:
    """What is known at the end of a turn, cheapest first."""

    is_answered: bool
    """The last reply calls no tool."""
    has_news: bool
    """A person wrote something after the cursor."""
    turns: int = 1
    """Turns with new messages since the last run, with this one."""
    failures: int = 0
    """In a row."""


def due(conditions: ExtractConditions, settings: ExtractSettings = EXTRACT) -> bool:
    """Whether a run is due now, without waiting for a pause."""
    if not conditions.is_answered or conditions.failures >= settings.max_failures:
        return False
    return conditions.has_news and conditions.turns >= settings.every_turns
