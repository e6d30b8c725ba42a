"""What a model can do, as the dated rules table says (P5)."""

from __future__ import annotations

from nacre.cache.rules import profile
from nacre.providers.base import Capabilities

LONG_WINDOW_SUFFIX = "[1m]"
"""People write it behind a model's name to mean its long window; no provider knows it."""


def capabilities_of(model: str) -> Capabilities:
    """The row of the table, in the port's words."""
    row = profile(model)
    return Capabilities(
        window=row.window,
        max_output=row.max_output,
        structured_output=row.structured_output,
        system_messages=row.system_messages,
        binds_thinking=row.binds_thinking,
        server_edits=row.server_edits,
        counts_tokens=row.counts_tokens,
        cache_markers=row.cache_markers,
        refreshes=row.refreshes,
    )


def wire_name(model: str) -> str:
    """The model's name as its provider knows it."""
    return model.removesuffix(LONG_WINDOW_SUFFIX).strip()
