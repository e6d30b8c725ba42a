"""What the provider clears at its end: declared once, or deleted from its cache by edits (C10, C11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import Warmth
from nacre.clock import Clock
from nacre.layers.l2_microcompact.choice import choose
from nacre.layers.l2_microcompact.policy import NACRE, MicrocompactSettings
from nacre.messages.blocks import Json, JsonObject, ToolResult
from nacre.messages.records import Compacted, Noted, Record, Replaced, Undone
from nacre.messages.results import Answered
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.ladder import Pressure
from nacre.session.layer import Layer
from nacre.session.session import Session

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


EDIT = "server_edit"
"""The kind of note that holds an edit: the calls it deletes, and behind which block it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Results to be deleted where the provider keeps them."""

    calls: tuple[str, ...]
    after: int
    """How many blocks of the conversation stand before it."""
    tokens: int = 0


def edit_due(view: View, settings: MicrocompactSettings) -> Edit | None:
    """The edit to queue before the next request: all but the newest, once too many have come together."""
    gone = deleted(view)
    but_the_newest = [one for one in _old(view, settings, keep=1) if one.id not in gone]
    if len(but_the_newest) + 1 <= settings.server_after:
        return None
    old = [one for one in _old(view, settings, keep=settings.server_keep) if one.id not in gone]
    if not old:
        return None
    calls = tuple(one.id for one in old)
    return Edit(calls=calls, after=len(view.chain), tokens=sum(one.tokens for one in old))


def queue(edit: Edit, clock: Clock) -> Noted:
    """The note from which on every request carries the edit."""
    facts: JsonObject = {
        "calls": [*edit.calls],
        "after": edit.after,
        "tokens": edit.tokens,
    }
    return Noted(id=clock.new_id(), at=clock.now(), kind=EDIT, facts=facts)


def edits(view: View) -> list[Edit]:
    """The edits that still stand, oldest first: no rewrite came after them, in what was read of the log."""
    found: list[Edit] = []
    for record in reversed(view.records) if view.last_noted(EDIT) else ():
        if isinstance(record, Replaced | Compacted | Undone):
            break
        if isinstance(record, Noted) and record.kind == EDIT:
            found.append(_edit(record))
    return found[::-1]


def deleted(view: View) -> frozenset[str]:
    """Calls whose results the provider was told to delete."""
    return frozenset(call for edit in edits(view) for call in edit.calls)


def with_edits(request: Request, view: View) -> Request:
    """The request with every edit at its place."""
    standing = edits(view)
    if not standing:
        return request
    messages = list(request.messages)
    is_as_viewed = not view.has_system_messages
    for edit in reversed(standing):
        # From the end on, so that no place before it moves.
        start, blocks = view.message_start(edit.after) if is_as_viewed else (0, 0)
        _add_edit(messages, edit, start=start, before=edit.after - blocks)
    return replace(request, messages=messages)


def _old(view: View, settings: MicrocompactSettings, *, keep: int) -> Sequence[Answered]:
    choice = choose(view, tools=settings.tools, keep=keep, pointer_tokens=0)
    return choice.old


def _edit(note: Noted) -> Edit:
    calls = note.fact("calls")
    after = note.fact("after")
    return Edit(
        calls=tuple(str(call) for call in calls) if isinstance(calls, list) else (),
        after=after if isinstance(after, int) else 0,
    )


def _add_edit(messages: list[JsonObject], edit: Edit, *, start: int, before: int) -> None:
    """Put the edit behind so many blocks, counted from this message on."""
    deletes: list[Json] = [{"type": "delete", "cache_reference": call} for call in edit.calls]
    block: JsonObject = {"type": "cache_edits", "edits": deletes}
    for place, message in enumerate(messages[start:], start):
        content = message["content"]
        assert isinstance(content, list), "a view's messages hold blocks"
        if before <= len(content):
            messages[place] = {**message, "content": [*content[:before], block, *content[before:]]}
            return
        before -= len(content)


class DeclaredClearing(Layer):
    """Declares what the provider may clear; it moves no byte of the view."""

    log_kinds = {DECLARED: "last"}  # what the provider was told must be said again in every request

    def __init__(self, session: Session, settings: MicrocompactSettings = NACRE) -> None:
        self._session = session
        self._kept = [str(one["name"]) for one in session.base.tools if one["name"] not in settings.tools]

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        return self._config(view, pressure) is not None

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """The note of what is declared from now on."""
        config = self._config(view, pressure)
        if config is None:
            return ()
        return (declare(config, self._session.clock, is_cold=pressure.warmth.is_cold),)

    def finish_request(self, request: Request, view: View) -> Request:
        return with_declaration(request, view)

    def _config(self, view: View, pressure: Pressure) -> JsonObject | None:
        return declaration(
            view,
            autocompact=pressure.thresholds.autocompact,
            kept_tools=self._kept,
            warmth=pressure.warmth,
            profile=pressure.profile,
        )


class ServerEdits(Layer):
    """Has the provider delete old results from its cache; a fork queues no edits of its own."""

    log_kinds = {EDIT: "drop"}  # an edit holds for the bytes it was sent with, and those are gone

    def __init__(
        self, session: Session, settings: MicrocompactSettings = NACRE, *, is_main: bool = True
    ) -> None:
        self._session = session
        self._settings = settings
        self._is_main = is_main
        self._looked = (-1, 0, 0)
        """Epoch, items and results when the view was last counted: only what is new is counted again."""

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        if not (self._is_main and pressure.profile.server_edits):
            return False
        return self._results(view) > self._settings.server_after and self._edit(view) is not None

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """The note of the edit, which every request carries from now on."""
        edit = edit_due(view, self._settings)
        if edit is None:
            return ()
        count = len(edit.calls)
        self._session.notify(
            f"Had the provider delete {count} old tool result{'s' * (count != 1)} "
            f"(about {edit.tokens:,} tokens) from its cache; the session's log still has them."
        )
        self._session.expect_fewer_reads()
        self._looked = (-1, 0, 0)
        return (queue(edit, self._session.clock),)

    def finish_request(self, request: Request, view: View) -> Request:
        return with_edits(request, view)

    def _edit(self, view: View) -> Edit | None:
        found = edit_due(view, self._settings)
        if found is None:
            # So many can have come together again at the earliest after as many new results.
            epoch, items, _ = self._looked
            self._looked = (epoch, items, 0)
        return found

    def _results(self, view: View) -> int:
        epoch, items, results = self._looked
        if epoch != len(view.epochs):
            items = results = 0
        new = view.items[items:]
        results += sum(isinstance(one.block, ToolResult) for item in new for one in item.parts)
        self._looked = (len(view.epochs), items + len(new), results)
        return results
