"""When old results are cleared, and how many stay: settings, read before anything else is loaded."""

from __future__ import annotations

from dataclasses import dataclass

CLEARABLE = frozenset({"Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"})
"""Tools whose results can be had again; what others answer is not ours to judge, unless they opt in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrocompactSettings:
    """When old results are cleared, and how many stay."""

    idle: bool = True
    """Clear when the provider's cache has gone cold: the prefix must be paid again anyway."""
    keep: int = 10
    """The newest results that stay; at least one always does."""
    edited_tokens: int = 24_000
    """The newest read of each file that was edited stays when the cache has gone cold, the file edited last
    first, up to so much in all: another edit needs its exact text. 0: none stays."""
    idle_seconds: float | None = None
    """A pause that counts as cold whatever the provider says; unset, its cache's own lifetime."""
    full: bool = True
    """Clear when a request does not fit and no layer compacts by itself. In recorded sessions one compaction
    cost less than a clear and the compaction that followed it, and kept more of what was needed later."""
    full_keep: tuple[int, ...] = (20, 10, 5, 3, 1)
    """How many of the newest results stay then: the first number that frees enough."""
    full_share: float = 0.20
    """Least part of a request that does not fit which a clear must free: less would soon be full again."""
    names_tokens: int = 60
    """Names that stay with a result cleared on a cold cache, a tenth of the result at most; 0: none."""
    tools: frozenset[str] = CLEARABLE
    """Tools whose results may go."""
    pin_tool: bool = False
    """Offer the model a tool that pins results; off, because its definition is paid for in every request."""


NACRE = MicrocompactSettings()
"""What replaying real sessions came to."""
CLAUDE_CODE = MicrocompactSettings(keep=5, idle_seconds=3_600.0, full=False, names_tokens=0, edited_tokens=0)
"""The published numbers."""
