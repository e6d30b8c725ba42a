"""Where a project's memory lives (M1-M7)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A memory directory and what belongs to it elsewhere."""

    directory: Path
    """The folder of Markdown files; real, absolute."""
    source: str
    """What decided: `override`, `setting`, `remote`, `default`, `user`, `team`, `agent`."""
    history: Path
    """The bare git repository with every change (M15), outside the memory folder."""
    cache: Path
    """Locks, journal and derived index, outside the memory folder."""
    root: Path | None = None
    """The canonical git root or working directory it belongs to; none for the user's own memory."""
