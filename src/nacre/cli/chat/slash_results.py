"""Slash commands for tool results: list those in view, pin and unpin them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.cli.output import human_count, print_error, print_table, printable
from nacre.formatting import shorten
from nacre.layers.l2_microcompact.pin_tool import shown
from nacre.messages.results import AnsweredCall, answered_calls, pin, pinned

if TYPE_CHECKING:
    from nacre.session.session import Session

LISTED = 20
"""Number of results listed, newest first; older ones are cleared first."""
SHOWN_CHARS = 50
"""Characters of a call in the list, so that a row has at most 80 columns."""
LAST = "last"


async def pin_result(session: Session, wanted: str) -> None:
    """`/pin last` or `/pin N`: keep that result; without an argument, list results."""
    results = _numbered(session)
    if not results:
        print("there is no tool result in view yet")
    elif not wanted:
        _list(dict(list(results.items())[-LISTED:]), pinned(session.view))
        print("/pin N or /pin last protects a result from being cleared, /unpin N ends that")
    elif (found := _selected(results, wanted)) is not None:
        await session.transcript.append(pin(found.id, session.clock))
        print(printable(f"pinned: {shorten(shown(found), SHOWN_CHARS)}"))


async def unpin_result(session: Session, wanted: str) -> None:
    """`/unpin N`: allow that result to be cleared; without an argument, list pinned ones."""
    on = pinned(session.view)
    results = {number: one for number, one in _numbered(session).items() if one.id in on}
    if not results:
        print("no result in view is pinned")
    elif not wanted:
        _list(results, on)
        print("/unpin N unpins one")
    elif (found := _selected(results, wanted)) is not None:
        await session.transcript.append(pin(found.id, session.clock, on=False))
        print(printable(f"let go: {shorten(shown(found), SHOWN_CHARS)}"))


def _numbered(session: Session) -> dict[int, AnsweredCall]:
    """Return the results in view, oldest first, numbered from the newest."""
    results = answered_calls(session.view.items)
    return {len(results) - place: one for place, one in enumerate(results)}


def _list(results: dict[int, AnsweredCall], on: frozenset[str]) -> None:
    print_table(
        [
            (
                str(number),
                f"{human_count(one.tokens)} tokens",
                "pinned" if one.id in on else "",
                printable(shorten(shown(one), SHOWN_CHARS)),
            )
            for number, one in results.items()
        ],
        right=(0, 1),
    )


def _selected(results: dict[int, AnsweredCall], wanted: str) -> AnsweredCall | None:
    """Return the result with this number, call id or unique part of a call id."""
    if wanted == LAST:
        return list(results.values())[-1]
    if wanted.isdecimal() and int(wanted) in results:
        return results[int(wanted)]
    ids = [] if wanted.isdecimal() else list(results.values())
    found = [one for one in ids if one.id == wanted] or [one for one in ids if wanted in one.id]
    if len(found) == 1:
        return found[0]
    print_error(f"{'several results match' if found else 'no result matches'} {wanted!r}; /pin lists them")
    return None
