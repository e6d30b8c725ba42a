"""Which old results to clear now, if any: pure, from the view, the clock and the prices (C9, C12, C12b)."""

from __future__ import annotations

from dataclasses import dataclass

CLEARABLE = frozenset({"Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"})
"""Tools whose results can be had again; what others answer is not ours to judge, unless they opt in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrocompactSettings:
    """When old results are cleared, and how many stay."""

    idle: bool = True
    """Clear when the provider's cache has gone cold: the prefix must be paid again anyway."""
    keep: int = 20
    """The newest results that stay; at least one always does."""
    idle_seconds: float | None = None
    """A pause that counts as cold whatever the provider says; None: its cache's own lifetime."""
    economic: bool = False
    """Clear on a warm cache, too, when the arithmetic says that it pays (C12)."""
    min_gain_usd: float = 0.10
    """A smaller expected gain is not worth the break in the cache."""
    tools: frozenset[str] = CLEARABLE
