"""Results that must stay whole, whatever is cleared: the person or the model said so, in the log."""

from __future__ import annotations

from nacre.clock import Clock
from nacre.messages.records import Noted
from nacre.messages.view import View

PIN = "pin"
"""The kind of note that pins a result or lets it go again."""


def pinned(view: View) -> frozenset[str]:
    """The calls whose results are pinned; the last word on each counts."""
    said = {str(note.fact("call")): note.fact("on") is not False for note in view.noted(PIN)}
    return frozenset(call for call, is_on in said.items() if is_on)


def pin(call_id: str, clock: Clock, *, on: bool = True, by: str = "user") -> Noted:
    """The note that pins the result of a call, or lets it go; `by` says whose word it was."""
    return Noted(id=clock.new_id(), at=clock.now(), kind=PIN, facts={"call": call_id, "on": on, "by": by})
