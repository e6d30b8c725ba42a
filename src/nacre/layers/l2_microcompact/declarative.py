"""Declared to the provider: what it may clear by itself, in one setting that never moves while cached (C11).

Another setting costs the whole cached conversation, so a new one is decided on only where nothing is cached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nacre.cache.rules import ModelProfile
from nacre.cache.warmth import Warmth
from nacre.clock import Clock
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Noted
from nacre.messages.view import View
from nacre.providers.base import Request

DECLARED = "declared"
"""The kind of note that holds what is declared from here on."""
BETA = "context-management-2025-06-27"
MAX_TRIGGER_TOKENS = 180_000
"""No later than this, however large the window is: a longer request is dear and read badly."""
BEFORE_COMPACTION_TOKENS = 20_000
"""The provider should have cleared before a summary is paid for here."""
CLEARS_AT_LEAST = (7, 9)
"""The share of the trigger that must go at once: clearing little and often breaks the cache each time."""
KEEPS = 3
"""The newest calls that stay: the provider's own number."""


def declaration(
    view: View, *, autocompact: int, kept_tools: Iterable[str], warmth: Warmth, profile: ModelProfile
) -> JsonObject | None:
    """What should be declared from now on, if that is another thing than what is; only where that is free."""
    is_uncached = warmth.touched_at is None or warmth.is_cold
    trigger = min(MAX_TRIGGER_TOKENS, autocompact - BEFORE_COMPACTION_TOKENS)
    if not profile.server_edits or not is_uncached or trigger <= 0:
        return None
    before = declared(view)
    # Thinking that was let go once cannot come back without moving what stands behind it.
    lets_thinking_go = warmth.is_cold or (before is not None and _keeps_little_thinking(before))
    config = context_management(trigger, kept_tools, lets_thinking_go=lets_thinking_go)
    return None if config == before else config


def context_management(trigger: int, kept_tools: Iterable[str], *, lets_thinking_go: bool) -> JsonObject:
    """The provider's own words for it; thinking must come first."""
    part, whole = CLEARS_AT_LEAST
    thinking: JsonObject = {"type": "thinking_turns", "value": 1} if lets_thinking_go else {"type": "all"}
    return {
        "edits": [
            {"type": "clear_thinking_20251015", "keep": thinking},
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": trigger},
                "keep": {"type": "tool_uses", "value": KEEPS},
                "clear_at_least": {"type": "input_tokens", "value": trigger * part // whole},
                "exclude_tools": [*sorted(kept_tools)],
            },
        ]
    }


def declared(view: View) -> JsonObject | None:
    """What is declared now."""
    note = view.last_noted(DECLARED)
    config = note.fact("config") if note else None
    return config if isinstance(config, dict) else None


def declare(config: JsonObject, clock: Clock, *, is_cold: bool) -> Noted:
    """The note from which on every request says so."""
    facts: JsonObject = {"config": config, "reason": "idle" if is_cold else "start"}
    return Noted(id=clock.new_id(), at=clock.now(), kind=DECLARED, facts=facts)


def with_declaration(request: Request, view: View) -> Request:
    """The request with what is declared."""
    config = declared(view)
    if config is None:
        return request
    options = {**request.options, "context_management": config}
    return replace(request, options=options, betas=(*request.betas, BETA))


def _keeps_little_thinking(config: JsonObject) -> bool:
    edits = config.get("edits")
    first = edits[0] if isinstance(edits, list) and edits else None
    return isinstance(first, dict) and first.get("keep") != {"type": "all"}
