"""ToolSearch: loads tools whose definitions the prompt leaves out (P12).

Its result holds references, and the provider shows the model the definitions in their place: what was sent
before does not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nacre import prompts
from nacre.errors import ToolError
from nacre.messages.blocks import ToolResult
from nacre.messages.tool_references import tool_reference
from nacre.tools.base import Tool, tool

SEARCH = "ToolSearch"
SELECT = "select:"
MAX_FOUND = 5
"""Tools that a search by words loads; each definition takes a few hundred tokens."""
NAME_WEIGHT = 3
"""A word in the name of a tool says more than one in its description."""
DESCRIPTION = prompts.load(__package__, "tool_search")
_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
MIN_STEM = 4
"""Words that begin with the same so many letters or more match: `issues` and `issue`."""


def tool_search_tool(deferred: Iterable[Tool]) -> Tool:
    """Return the tool that loads these deferred tools; its description lists their names."""
    tools = sorted(deferred, key=lambda one: one.name)
    description = prompts.render(DESCRIPTION, names=", ".join(one.name for one in tools))

    @tool(name=SEARCH, description=description, read_only=True)
    async def tool_search(query: str) -> ToolResult:
        found = find_tools(tools, query)
        if not found:
            raise ToolError(f"No tool matches {query[:100]!r}; give names from the list after `{SELECT}`.")
        return ToolResult("", tuple(tool_reference(one.name) for one in found))

    return tool_search


def find_tools(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Return the tools that a query selects or that match it best, best first."""
    wanted = query.strip()
    if wanted.lower().startswith(SELECT):
        names = [name.strip().lower() for name in wanted[len(SELECT) :].split(",")]
        return [one for one in tools if one.name.lower() in names]
    if exact := [one for one in tools if one.name.lower() == wanted.lower()]:
        return exact
    words = _words(wanted)
    scores = {one.name: _score(one, words) for one in tools}
    ranked = sorted(tools, key=lambda one: (-scores[one.name], one.name))
    return [one for one in ranked if scores[one.name]][:MAX_FOUND]


def _score(one: Tool, words: set[str]) -> int:
    name = _words(one.name)
    described = _words(one.description)
    return sum(NAME_WEIGHT * _is_in(word, name) + _is_in(word, described) for word in words)


def _is_in(word: str, words: set[str]) -> bool:
    if word in words:
        return True
    shorter = ((one, word) if len(one) < len(word) else (word, one) for one in words)
    return any(len(short) >= MIN_STEM and long.startswith(short) for short, long in shorter)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_CAMEL_CASE.sub(" ", text))}
