"""What the parent links of a log say: which messages were left behind on another branch (T5).

Real logs break their own chain: parents that were never written, cycles, links that jump over a compaction.
Where it breaks, the walk goes on at the message before in the file, so that nothing is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.records import Problem, Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one line says about its place in the conversation."""

    id: str
    parent: str | None = None
    said: Said | None = None
    is_main: bool = False
    """A message, boundary or system line of the main thread; progress and sidechains are not."""
    is_boundary: bool = False
    starts_over: bool = False
    """A prompt that says it has no parent: a rewind to the start, or a plan begun with a fresh context."""
    session: str | None = None


def left_behind(links: Sequence[Link]) -> tuple[set[str], list[Problem]]:
    """The ids of messages that are not part of the conversation's last branch, and what was odd."""
    walk = _Walk(links)
    on = walk.back()
    standing = _with_siblings(links, on)
    gone = {
        link.id
        for place, link in enumerate(links)
        if place not in standing and link.is_main and link.said is not None and link.said.aside is None
    }
    problems = walk.problems()
    if gone:
        first = next(link.id for link in links if link.id in gone)
        problems.append(Problem("abandoned", first, f"{len(gone)} messages are on a branch left behind"))
    return gone, problems


class _Walk:
    """From the last message of the main thread back to the first."""

    def __init__(self, links: Sequence[Link]) -> None:
        self.links = links
        self.places = {link.id: place for place, link in enumerate(links)}
        self.boundaries = [place for place, link in enumerate(links) if link.is_boundary]
        self.on: set[int] = set()
        self.cycles: list[str] = []
        self.jumps: list[str] = []
        self.fresh: list[str] = []

    def back(self) -> set[int]:
        place = self._main_before(len(self.links))
        while place is not None:
            self.on.add(place)
            place = self._before(place)
        return self.on

    def _before(self, place: int) -> int | None:
        link = self.links[place]
        if link.parent is None:
            previous = self._main_before(place)
            if link.starts_over and previous is not None and self.links[previous].parent is not None:
                self.fresh.append(link.id)
                return None
            return previous
        parent = self.places.get(link.parent)
        if parent is None:
            return self._main_before(place)
        if parent in self.on:
            self.cycles.append(link.id)
            return self._main_before(place)
        if self._has_boundary_between(parent, place):
            self.jumps.append(link.id)
            return self._main_before(place)
        return parent

    def _main_before(self, place: int) -> int | None:
        """The nearest message before, of the same session, that the walk has not passed yet."""
        session = self.links[place].session if place < len(self.links) else None
        for candidate in range(place - 1, -1, -1):
            link = self.links[candidate]
            if session is not None and link.session is not None and link.session != session:
                return None
            if link.is_main and candidate not in self.on:
                return candidate
        return None

    def _has_boundary_between(self, parent: int, place: int) -> bool:
        after = bisect_right(self.boundaries, parent)
        return after < len(self.boundaries) and self.boundaries[after] < place

    def problems(self) -> list[Problem]:
        missing = [link.id for link in self.links if link.parent and link.parent not in self.places]
        found = (
            ("missing_parent", missing, "messages hang on a parent that is not in the log"),
            ("cycle", self.cycles, "links lead in a circle"),
            ("crossed_boundary", self.jumps, "messages hang on a parent from before a compaction"),
            ("fresh_start", self.fresh, "prompts begin a new conversation in the same log"),
        )
        return [Problem(kind, ids[0], f"{len(ids)} {what}") for kind, ids, what in found if ids]


def _with_siblings(links: Sequence[Link], on: set[int]) -> set[int]:
    """Adds what stands beside the walk: other parts of the same reply, and answers to its calls.

    Parallel calls fan out, so one line of parents passes only some of a reply's parts and results.
    """
    replies = {_reply_id(links[place]) for place in on} - {None}
    standing = on | {place for place, link in enumerate(links) if link.is_main and _reply_id(link) in replies}
    calls = {call for place in standing for call in _calls(links[place])}
    beside: set[str] = set()
    for place, link in enumerate(links):
        if place in standing or not link.is_main or link.said is None:
            continue
        # What was injected behind a result that stands beside the walk was seen together with it.
        if calls.intersection(_answered(link)) or (link.said.meta and link.parent in beside):
            standing.add(place)
            beside.add(link.id)
    return standing


def _reply_id(link: Link) -> str | None:
    return link.said.reply.id if link.said is not None and link.said.reply is not None else None


def _calls(link: Link) -> list[str]:
    return [block.id for block in link.said.blocks if isinstance(block, ToolCall)] if link.said else []


def _answered(link: Link) -> list[str]:
    return [block.call_id for block in link.said.blocks if isinstance(block, ToolResult)] if link.said else []
