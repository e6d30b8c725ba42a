"""The policies a replay compares (P7): nothing at all, cutting off, the published profile, and ours.

Each is a value with its settings inside, so that a benchmark can sweep them; each drives a real session.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from nacre.cache.breakpoints import Lifetime
from nacre.errors import ConfigError
from nacre.replay.driven import Drive, Driven
from nacre.replay.schema import Maker, Policy, Setting
from nacre.replay.stand_in import CompactionSettings, StandIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """What a session does about its size, layer by layer; nothing set means that it does nothing."""

    name: str
    lifetime: Lifetime = "5m"
    compaction: CompactionSettings | None = None
    compact_percent: float | None = None
    """Where in the effective window it begins; None: as C3 says."""

    def start(self, setting: Setting) -> Policy:
        """A session of its own for one recording."""
        drive = Drive(
            lifetime=self.lifetime,
            compact_percent=self.compact_percent,
            fits=self.compaction is not None,
            summary_tokens=self.compaction.summary_tokens if self.compaction else 0,
            join=partial(_join, self),
        )
        return Driven(setting, drive)


def _join(ladder: Ladder, driven: Driven) -> None:
    session = driven.session
    if ladder.compaction is not None:
        session.ladder.append(
            StandIn(
                ladder.compaction,
                clock=driven.clock,
                ratio=lambda: session.calibration.ratio,
                asked=driven.summary_of,
            )
        )


NONE = Ladder(name="none")
"""Append only, as if the window had no end; what would not have fitted is counted."""
TRUNCATE = Ladder(name="truncate", compaction=CompactionSettings(summary_tokens=0, tail_tokens=80_000))
"""The oldest rounds go without a word when it no longer fits."""
CLAUDE_CODE = Ladder(name="claude-code", compaction=CompactionSettings(tail_tokens=0))
NACRE = Ladder(name="nacre", compaction=CompactionSettings())
POLICIES: dict[str, Maker] = {one.name: one for one in (NONE, TRUNCATE, CLAUDE_CODE, NACRE)}


def policy(name: str) -> Maker:
    """A policy by its name."""
    found = POLICIES.get(name)
    if found is None:
        raise ConfigError(f"there is no policy {name!r}; choose from {', '.join(POLICIES)}")
    return found
