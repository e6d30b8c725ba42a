"""ToolSearch finds deferred tools by name or by words (P12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject, Opaque, ToolResult
from nacre.tools.base import Tool
from nacre.tools.tool_search import MAX_FOUND, find_tools, tool_search_tool


async def nothing(arguments: JsonObject) -> str:
    return ""


def made(name: str, description: str) -> Tool:
    return Tool(
        name=name, description=description, input_schema={"type": "object"}, call=nothing, deferred=True
    )


TOOLS = [
    made("mcp__tracker__createIssue", "Files a report in the tracker."),
    made("mcp__tracker__list_issues", "Lists what was reported."),
    made("mcp__chat__send", "Sends a message to a channel."),
    made("SendMessage", "Writes to another agent; no report is kept."),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("select:SendMessage", ["SendMessage"]),
        ("select: mcp__chat__send , sendmessage, unknown", ["mcp__chat__send", "SendMessage"]),
        ("mcp__chat__send", ["mcp__chat__send"]),
        ("create an issue", ["mcp__tracker__createIssue", "mcp__tracker__list_issues"]),
        ("channel", ["mcp__chat__send"]),
        ("weather", []),
        ("select:", []),
        ("", []),
    ],
)
def test_a_query_finds_tools_by_name_or_by_words(query: str, names: list[str]) -> None:
    assert [one.name for one in find_tools(TOOLS, query)][: len(names) or None] == names


@given(st.text(max_size=60))
def test_any_query_finds_at_most_a_few_tools_each_once(query: str) -> None:
    names = [one.name for one in find_tools([*TOOLS, *(made(f"t{n}", "A tool.") for n in range(9))], query)]
    assert len(names) == len(set(names))
    assert len(names) <= MAX_FOUND or query.strip().lower().startswith("select:")


async def test_the_description_lists_every_name_in_order_and_the_result_refers_to_the_tools() -> None:
    search = tool_search_tool(reversed(TOOLS))
    assert search.definition == tool_search_tool(TOOLS).definition
    assert all(one.name in search.description for one in TOOLS)
    found = await search.call({"query": "select:SendMessage"})
    wire: JsonObject = {"type": "tool_reference", "tool_name": "SendMessage"}
    assert found == ToolResult("", (Opaque("tool_reference", wire),))
    with pytest.raises(ToolError, match="select:"):
        await search.call({"query": "weather"})
