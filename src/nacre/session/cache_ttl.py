"""What a session's log says about its cache: when it was last touched, its pauses, the lifetime in force.

Everything is read off the records, so that a resumed or replayed session decides as the first one did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import get_args

from nacre.cache.breakpoints import Lifetime
from nacre.cache.keep_warm import Pauses, Prefix
from nacre.cache.keep_warm_settings import WarmingSettings
from nacre.cache.ttl import LIFETIME, TURN_TOKENS, Ahead, Choice, choose_lifetime
from nacre.clock import Clock
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.rounds import asked_at
from nacre.messages.view import View
from nacre.session.meter import KEEP_WARM, SIDE_QUERY

_LIFETIMES: Mapping[str, Lifetime] = {name: name for name in get_args(Lifetime)}
TOUCHED = "touched"
"""The fact of a note that says that a fork read the session's own prefix, which lives on from there."""
CENTS = 6
"""Decimals of a dollar that a note keeps."""


def last_touched(records: Sequence[Record]) -> datetime | None:
    """When the last request or refresh of a resumed log began."""
    asked = [at for _, at in asked_at(records)]
    # A refresh of the pause that goes on is later than any request; earlier ones are not asked about.
    return max([*asked[-1:], *(note.at for note in records if _is_refresh(note))], default=None)


def pauses_of(records: Iterable[Record]) -> Pauses:
    """From the start of each turn's last request to the person's next words."""
    moments: list[tuple[datetime, datetime]] = []
    before: datetime | None = None
    asked: datetime | None = None
    for record in records:
        if not isinstance(record, Said) or record.aside is not None:
            continue
        if record.role == "assistant":
            asked = before or record.at
            continue
        if asked is not None and _is_persons(record):
            moments.append((asked, record.at))
            asked = None
        before = record.at
    return Pauses.between(moments)


def noted_lifetime(view: View) -> Lifetime | None:
    """What was chosen last; none where nothing ever was."""
    note = view.last_noted(LIFETIME)
    return _LIFETIMES.get(str(note.fact("lifetime"))) if note else None


def chosen(view: View, prefix: Prefix, warming: WarmingSettings | None) -> Choice:
    """The lifetime that costs least from here on; `prefix` is what the next request will write."""
    pauses = pauses_of(view.records)
    turns = len(pauses.own) + 1
    said = max(0, prefix.tokens - prefix.head_tokens)
    # One turn says little about the next: the first often reads half a project.
    growth = said // turns if turns > 1 else TURN_TOKENS
    return choose_lifetime(pauses, prefix, ahead=Ahead(turn_tokens=growth, warming=warming))


def lifetime_note(choice: Choice, clock: Clock) -> Noted:
    """A choice for the log, with its arithmetic."""
    costs: JsonObject = {name: round(usd, CENTS) for name, usd in choice.costs_usd.items()}
    facts: JsonObject = {"lifetime": choice.lifetime, "costs_usd": costs}
    return Noted(id=clock.new_id(), at=clock.now(), kind=LIFETIME, facts=facts)


def _is_refresh(record: Record) -> bool:
    if not isinstance(record, Noted) or record.kind != SIDE_QUERY:
        return False
    return record.fact("purpose") == KEEP_WARM or record.fact(TOUCHED) is True


def _is_persons(said: Said) -> bool:
    is_answer = any(isinstance(block, ToolResult) for block in said.blocks)
    return not said.meta and not is_answer and any(isinstance(block, Text) for block in said.blocks)
