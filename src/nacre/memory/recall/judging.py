"""A ranking of the local index as recall speaks of it: how sure of each memory, given the tools in use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from nacre.memory.entry import Entry
from nacre.memory.recall.base import Query, Ranked, Subject
from nacre.memory.recall.local.order import Rarity
from nacre.memory.recall.local.ranker import Ranking
from nacre.memory.recall.local.worth import worth

DOCUMENTATION = 0.5
"""What the certainty of a tool's documentation is worth while it is in use (R13): the model knows it."""
WARNING = 1.25
"""What that of a warning about it is worth: in use is exactly when it matters."""

_WARNS = re.compile(
    r"warn|gotcha|caution|careful|pitfall|known issue|bug|breaks?\b|fails?\b|never|don't|do not|avoid"
    r"|注意|警告|小心|不要|避免|陷阱",
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(
    r"usage|how to use|reference|api\b|syntax|options|documentation|docs\b|manual|用法|文档|手册|使い方",
    re.IGNORECASE,
)
_PART = re.compile(r"[_\W]+")


def judged(
    ranking: Ranking, heads: Mapping[str, Entry], directory: Path, query: Query, rarity: Rarity
) -> list[Ranked]:
    """The memories of a ranking that are still there, best first."""
    tools = frozenset(_names(query.recent_tools))
    found: list[Ranked] = []
    for pick, confidence in zip(ranking.picks, worth(ranking), strict=True):
        entry = heads.get(pick.id)
        if entry is None:
            continue
        factor = _in_use(entry, tools) if tools else 1.0
        when = entry.modified or entry.written
        placed = pick.placed and pick.placed.at((when.isoformat() if when else "", 0))
        found.append(
            Ranked(
                entry=entry,
                directory=directory,
                score=pick.score,
                confidence=min(1.0, confidence * factor),
                parts=pick.parts if factor == 1 else {**pick.parts, "tool_in_use": factor},
                subject=Subject(placed, rarity) if placed else None,
            )
        )
    return found


def _in_use(entry: Entry, tools: frozenset[str]) -> float:
    """How a memory about a tool in use is weighed: its documentation less, a warning about it more."""
    text = f"{entry.title} {entry.description}"
    if not tools & frozenset(_PART.split(text.casefold())):
        return 1.0
    if _WARNS.search(text):
        return WARNING
    return DOCUMENTATION if _DOCUMENTS.search(text) else 1.0


def _names(tools: tuple[str, ...]) -> Iterator[str]:
    """A tool by its name, and one of an MCP server by its server's and its own."""
    for tool in tools:
        yield tool.casefold()
        if "__" in tool:
            yield from (part for part in _PART.split(tool.casefold()) if part not in {"", "mcp"})
