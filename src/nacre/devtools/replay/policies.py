"""The policies a replay compares (P7): none, truncation, the published profile, and nacre's.

Each is a value that includes its settings, so that a benchmark can sweep them; each drives a real session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from nacre.cache.warmth import KeepWarmSettings, Lifetime
from nacre.devtools.replay.driver import QUESTION, Drive, Driven
from nacre.devtools.replay.other_policies import SUMMARY_TOKENS, CompactionSettings, StandIn, filler
from nacre.devtools.replay.schema import ReplayPolicy, Setting
from nacre.errors import ConfigError
from nacre.layers.l1_offload.layer import Offload
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l2_microcompact.layer import Microcompact
from nacre.layers.l2_microcompact.policy import CLAUDE_CODE as PUBLISHED_CLEARING
from nacre.layers.l2_microcompact.policy import MicrocompactSettings
from nacre.layers.l4_compact.layer import Compact
from nacre.layers.l4_compact.overflow_files import OverflowFiles
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.summarise import directive
from nacre.messages.draft import Draft
from nacre.messages.facts import Facts
from nacre.messages.view import View
from nacre.session.compaction import CompactionRequest
from nacre.session.session import Session
from nacre.store.tool_results import FOLDER, ToolResultStore

Ask = Callable[[View, str], None]
"""Called with the view of which a summary is requested, and the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLayers:
    """Compaction by nacre's layers."""

    settings: CompactSettings = field(default_factory=CompactSettings)
    summary_tokens: int = 0
    """Tokens of a model's summary; 0: no model is called, compaction is by rule."""

    def rung(self, session: Session, shelf: ToolResultStore, folder: Path, asked: Ask) -> Compact:
        """Return the layer for one session, with its files in a folder."""
        tokens = self.summary_tokens

        async def summarise(view: View, wish: CompactionRequest, facts: Facts) -> Draft:
            asked(view, directive())
            return Draft(kind="full", text=filler(tokens, ratio=session.calibration.ratio))

        return Compact(
            session,
            self.settings,
            summarise=summarise if tokens else None,
            overflow=OverflowFiles(folder=folder, store=shelf),
        )


NEVER_BYTES = 1_000_000_000
"""Larger than any result: turns references to earlier results off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """What a session does about its size, layer by layer; unset layers are off."""

    name: str
    lifetime: Lifetime | Literal["auto"] = "5m"
    offload: OffloadSettings | None = None
    clearing: MicrocompactSettings | None = None
    compaction: CompactionSettings | ByLayers | None = None
    """By nacre's own layers, or as in another program."""
    compact_percent: float | None = None
    """Compaction threshold in percent of the effective window; None: as in C3."""
    warming: KeepWarmSettings | None = None
    waits_at_end: bool = True

    def start(self, setting: Setting) -> ReplayPolicy:
        """Start a session of its own for one recording."""
        drive = Drive(
            lifetime=self.lifetime,
            compact_percent=self.compact_percent,
            is_endless=self.compaction is None,
            summary_tokens=self.compaction.summary_tokens if self.compaction else 0,
            warming=self.warming,
            waits_at_end=self.waits_at_end,
        )
        driven = Driven(setting, drive)
        self._join(driven)
        return driven

    def _join(self, driven: Driven) -> None:
        session = driven.session
        shelf = ToolResultStore(driven.folder / FOLDER, sync=False)
        if self.offload is not None:
            session.layers.append(Offload(shelf, self.offload))
        if self.clearing is not None:
            session.layers.append(Microcompact(session, shelf, self.clearing))
        match self.compaction:
            case ByLayers() as layers:
                session.layers.append(layers.rung(session, shelf, driven.folder, driven.summary_of))
            case CompactionSettings() as settings:
                session.layers.append(_stand_in(settings, driven))
            case None:
                pass


def _stand_in(settings: CompactionSettings, driven: Driven) -> StandIn:
    session = driven.session
    return StandIn(
        settings,
        clock=driven.clock,
        base_tokens=session.base.tokens,
        ratio=lambda: session.calibration.ratio,
        asked=lambda view: driven.summary_of(view, QUESTION),
    )


NONE = Ladder(name="none")
"""Append only, as with an unlimited window; requests that would not fit are counted."""
TRUNCATE = Ladder(name="truncate", compaction=CompactionSettings(summary_tokens=0, tail_tokens=80_000))
"""When it no longer fits, the oldest rounds are dropped, down to about half the window."""
CLAUDE_CODE = Ladder(
    name="claude-code",
    offload=OffloadSettings(max_chars=50_000, min_duplicate_bytes=NEVER_BYTES, rereads=False),
    clearing=PUBLISHED_CLEARING,
    compaction=CompactionSettings(tail_tokens=0),
)
"""The published numbers, with a text of fixed size for its summary; the files it reads again are left out."""
NACRE = Ladder(
    name="nacre",
    offload=OffloadSettings(),
    clearing=MicrocompactSettings(),
    compaction=ByLayers(),
    warming=KeepWarmSettings(),
)
"""nacre without a model's summaries: the only side requests keep the cache warm."""
NACRE_MODEL = replace(NACRE, name="nacre-model", compaction=ByLayers(summary_tokens=SUMMARY_TOKENS))
"""The same with a model's summaries, of which nothing counts as kept."""
POLICIES = {one.name: one for one in (NONE, TRUNCATE, CLAUDE_CODE, NACRE, NACRE_MODEL)}


def policy(name: str, *, lifetime: Lifetime | Literal["auto"] | None = None) -> Ladder:
    """Return a policy by its name, with another lifetime if one is given."""
    found = POLICIES.get(name)
    if found is None:
        raise ConfigError(f"there is no policy {name!r}; choose from {', '.join(POLICIES)}")
    return found if lifetime is None else replace(found, lifetime=lifetime)
