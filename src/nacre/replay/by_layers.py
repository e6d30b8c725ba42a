"""Compaction in a replay as the layers really do it: what a recording lacks is left out.

A recording has no disk, so that no file is read again, and no task list. A person's words, what was done
and the kept tail are installed by the same code as in a session. Where a model is asked, its request is
charged as the fork it really is, and a text that says nothing stands for its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nacre.agents.compacting import Compacting
from nacre.agents.compacting_disk import Desk
from nacre.agents.compaction import CompactionRequest
from nacre.agents.session import Session
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.summarise import directive
from nacre.messages.facts import Facts
from nacre.messages.summary import Draft
from nacre.messages.view import View
from nacre.replay.stand_in import filler
from nacre.store.results import Shelf

Ask = Callable[[View, str], None]
"""Told the view of which a summary is asked for, and the words it is asked for with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLayers:
    """How the layers compact."""

    settings: CompactSettings = field(default_factory=CompactSettings)
    summary_tokens: int = 0
    """What a model's summary takes; 0: no model is asked, it is done by rule."""

    def rung(self, session: Session, shelf: Shelf, folder: Path, asked: Ask) -> Compacting:
        """The layer for one session, with its files in a folder."""
        tokens = self.summary_tokens

        async def summarise(view: View, wish: CompactionRequest, facts: Facts) -> Draft:
            asked(view, directive())
            return Draft(kind="full", text=filler(tokens, ratio=session.calibration.ratio))

        return Compacting(
            session,
            self.settings,
            summarise=summarise if tokens else None,
            desk=Desk(folder=folder, shelf=shelf),
        )
