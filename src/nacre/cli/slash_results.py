"""Slash commands for tool results: which are in view, and which must stay whatever is cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.cli.output import human_count, print_error, print_table, printable
from nacre.cli.render import shorten
from nacre.layers.l2_microcompact.pins import pin, pinned
from nacre.layers.l2_microcompact.tools import shown
from nacre.messages.results import Answered, answered

if TYPE_CHECKING:
    from nacre.agents.session import Session

LISTED = 20
"""So many of the newest results are listed: those before them go first when something is cleared."""
SHOWN_CHARS = 60
"""Of a call in a list: enough to recognise it."""
LAST = "last"


async def pin_result(session: Session, wanted: str) -> None:
    """`/pin last` or `/pin CALL`: that result stays; without a word the list."""
    results = answered(session.view.items)
    if not results:
        print("there is no tool result in view yet")
    elif not wanted:
        _list(results[-LISTED:], pinned(session.view))
        print("/pin CALL or /pin last keeps one whatever is cleared, /unpin CALL lets it go")
    elif (found := _meant(results, wanted)) is not None:
        await session.transcript.append(pin(found.id, session.clock))
        print(printable(f"pinned {found.id}: {shorten(shown(found), SHOWN_CHARS)}"))


async def unpin_result(session: Session, wanted: str) -> None:
    """`/unpin CALL`: that result may be cleared again; without a word the list of what is pinned."""
    on = pinned(session.view)
    results = [one for one in answered(session.view.items) if one.id in on]
    if not results:
        print("no result in view is pinned")
    elif not wanted:
        _list(results, on)
        print("/unpin CALL lets one go")
    elif (found := _meant(results, wanted)) is not None:
        await session.transcript.append(pin(found.id, session.clock, on=False))
        print(printable(f"let go {found.id}: {shorten(shown(found), SHOWN_CHARS)}"))


def _list(results: list[Answered], on: frozenset[str]) -> None:
    print_table(
        [
            (
                "pinned" if one.id in on else "",
                printable(one.id),
                f"{human_count(one.tokens)} tokens",
                printable(shorten(shown(one), SHOWN_CHARS)),
            )
            for one in results
        ],
        right=(2,),
    )


def _meant(results: list[Answered], wanted: str) -> Answered | None:
    """By its whole id, or by a part that only one has."""
    if wanted == LAST:
        return results[-1]
    exact = [one for one in results if one.id == wanted]
    found = exact or [one for one in results if wanted in one.id]
    if len(found) == 1:
        return found[0]
    why = "several results have" if found else "no result in view has"
    print_error(f"{why} an id with {wanted!r} in it; /pin lists them")
    return None
