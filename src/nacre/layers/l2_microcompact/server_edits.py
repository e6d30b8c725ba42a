"""Deleted from the provider's own cache: local messages stay, an edit beside them takes results out (C10).

An edit is queued once, stands where it was first sent, and is sent there again ever after, so that no byte
before or behind it moves. What a rewrite of the view takes away takes its edits with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nacre.clock import Clock
from nacre.layers.l2_microcompact.choice import choose
from nacre.layers.l2_microcompact.policy import MicrocompactSettings
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Compacted, Noted, Replaced, Undone
from nacre.messages.results import Answered
from nacre.messages.view import View
from nacre.providers.base import Request

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
    calls, after = note.fact("calls"), note.fact("after")
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
