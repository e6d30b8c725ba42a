"""Which results can go at all: old, of a tool whose answers can be had again, and larger than what stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nacre.messages.pins import pinned
from nacre.messages.results import Answered, answered
from nacre.messages.view import View
from nacre.store.tool_results import CLEARED

"""The reason under which a cleared result stands in a view."""
OFFLOADED = "<persisted-output>"
"""How a result begins that is on disk already and stands as a preview: nothing more is to be had from it."""
DUPLICATE = "duplicate"
REREAD = "reread"
"""Kinds of note which say that a result makes sense only beside another: both stay, or both go (C7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a clear would take, and where what stays begins."""

    old: tuple[Answered, ...] = ()
    """In the order of the view."""
    tokens: int = 0
    """What it would free, the pointers left behind taken off."""
    keeps_from: str | None = None
    """The call of the oldest result that stays because it is new."""


def choose(view: View, *, tools: frozenset[str], keep: int, pointer_tokens: int) -> Choice:
    """All but the newest results of these tools, as far as nobody pinned them and clearing saves tokens."""
    everything = answered(view.items)
    ours = [one for one in everything if one.call.name in tools]
    newest = ours[-max(1, keep) :]
    replaced = view.replaced
    stays = pinned(view) | {one.id for one in newest}
    roots = _roots(view, DUPLICATE, REREAD)
    old: list[Answered] = []
    for group in _groups(everything, roots):
        standing = [one for one in group if replaced.get(one.id) != CLEARED]
        is_free = all(
            one.call.name in tools and one.id not in stays and not one.result.text.startswith(OFFLOADED)
            for one in standing
        )
        if is_free and sum(one.tokens - pointer_tokens for one in standing) > 0:
            old += standing
    old.sort(key=lambda one: one.item)
    return Choice(
        old=tuple(old),
        tokens=sum(one.tokens - pointer_tokens for one in old),
        keeps_from=newest[0].id if newest else None,
    )


def targets(view: View) -> dict[str, str]:
    """For every result that only points to another, the call whose result it points to."""
    return _roots(view, DUPLICATE)


def _roots(view: View, *kinds: str) -> dict[str, str]:
    """Each reference with what it comes down to in the end; a log that runs in a circle ends somewhere."""
    said = [note for kind in kinds for note in view.noted(kind)]
    direct = {str(note.fact("call")): str(note.fact("of")) for note in said}
    return {call: _end(call, direct) for call in direct}


def _end(call: str, direct: dict[str, str]) -> str:
    passed: list[str] = []
    while call in direct and call not in passed:
        passed.append(call)
        call = direct[call]
    # In a circle every member must come to the same end, wherever it started.
    return min(passed[passed.index(call) :]) if call in passed else call


def _groups(results: Iterable[Answered], roots: dict[str, str]) -> Sequence[Sequence[Answered]]:
    groups: defaultdict[str, list[Answered]] = defaultdict(list)
    for one in results:
        groups[roots.get(one.id, one.id)].append(one)
    return list(groups.values())
