"""Applies switches that changed in the settings files, at the beginning of the next turn.

Only switches are read again. Those that decide about tools or about what was opened with the session take
effect when it is opened again, because system prompt and tools never change during a session (C31b).
"""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.errors import NacreError
from nacre.layers.l3_notes.layer import Notes
from nacre.layers.l4_compact.layer import Compact
from nacre.session.layer import Layer
from nacre.settings import Settings
from nacre.settings.values import Switch
from nacre.tools.workspace import Workspace

if TYPE_CHECKING:
    from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch

LAYERS = {
    "offload": "Offload",
    "clear_idle": "Microcompact",
    "keep_warm": "KeepWarm",
    "notes": "Notes",
    "recall": "Recall",
    "extract": "Extract",
    "dream": "Dream",
}
"""Layers that a switch turns off and on; by name, because a single prompt does not import all of them."""


class SwitchUpdates(Layer):
    """Turns layers of one session off and on when the person changes a settings file."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        self._settings = settings
        self._switches = settings.switches
        self._workspace = workspace
        self._opens_output = workspace.opens_output
        self._prefetch: SummaryPrefetch | None = None
        self._stamps = _stamps(settings.files)

    async def before_turn(self) -> None:
        """Read the files again if one of them changed."""
        stamps = await asyncio.to_thread(_stamps, self._settings.files)
        if stamps == self._stamps or self._settings.read_again is None:
            return
        self._stamps = stamps
        try:
            fresh = await asyncio.to_thread(self._settings.read_again)
            fresh.require_sound()
        except NacreError as error:
            self.session.notify(f"The settings changed and cannot be used: {error}", "warning")
            return
        before = self._switches
        self._switches = fresh.switches
        for one in fields(fresh.switches):
            value: Switch = getattr(fresh.switches, one.name)
            if value != getattr(before, one.name):
                self._apply(one.name, value)

    def _apply(self, name: str, value: Switch) -> None:
        is_on = value is not False
        if self._is_applied(name, is_on):
            self.session.notify(f"switches.{name} is {'on' if is_on else 'off'} from this turn on.")
        else:
            self.session.notify(
                f"switches.{name} changed; it takes effect when this session is opened again."
            )

    def _is_applied(self, name: str, is_on: bool) -> bool:
        session = self.session
        compact = session.layer(Compact)
        notes = session.layer(Notes)
        self._prefetch = (compact.preparation if compact else None) or self._prefetch
        self._opens_output = self._workspace.opens_output or self._opens_output
        if name == "compact" and compact is not None:
            compact.is_automatic = is_on
        elif name == "compact_prepare" and compact is not None and self._prefetch is not None:
            compact.preparation = self._prefetch if is_on else None
        elif name == "notes_compact" and notes is not None:
            notes.gives_drafts = is_on
        elif name in LAYERS and session.switch_layer(LAYERS[name], is_on=is_on):
            if name == "offload":
                self._workspace.opens_output = self._opens_output if is_on else None
        else:
            return False
        return True


def _stamps(files: tuple[Path, ...]) -> list[tuple[int, int, int] | None]:
    """Return what changes with the content of each file; None for one that is not there."""
    found: list[tuple[int, int, int] | None] = []
    for path in files:
        try:
            state = path.stat()
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            found.append(None)
    return found
