"""Which of the results about to be recorded go to disk: pure, decided once, never revised (C4 to C7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadSettings:
    """How much of a tool's result is shown to the model."""

    max_chars: int = 8_000
    """Above this a result costs more to carry through a session than to read again where it is needed."""
    round_chars: int = 200_000
    """All results of one round together: a dozen parallel calls must not fill the window at once."""
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
