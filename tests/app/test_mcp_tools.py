"""Tools of MCP servers in the hands of the loop."""

from __future__ import annotations

from pathlib import Path

from nacre.app.build_toolset import mcp_tools
from nacre.mcp_client import Servers
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.tools.run import run_all
from nacre.tools.workspace import Workspace
from tests.mcp_client.places import QUICK, raw


async def test_a_servers_tools_are_run_like_any_other(tmp_path: Path) -> None:
    async with Servers([raw("plain")], limits=QUICK) as servers:
        tools = {tool.name: tool for tool in mcp_tools(servers, Workspace(tmp_path))}
        results = await run_all(
            [
                ToolCall("1", "mcp__raw__echo", {"a": 1}),
                ToolCall("2", "mcp__raw__die", {}),
                ToolCall("3", "mcp__raw__echo", {"a": 2}),
            ],
            tools,
        )
    assert list(tools) == sorted(tools)
    assert all(tool.max_seconds is None and not tool.read_only for tool in tools.values())
    assert results == [
        ToolResult("1", (Text('{"a": 1}'),)),
        ToolResult("2", (Text("MCP server raw ended with exit code 9: I cannot go on."),), is_error=True),
        ToolResult("3", (Text('{"a": 2}'),)),
    ]


async def test_the_definition_is_what_the_server_said(tmp_path: Path) -> None:
    async with Servers([raw("pages")], limits=QUICK) as servers:
        first = mcp_tools(servers, Workspace(tmp_path))[0]
    assert first.definition == {
        "name": "mcp__raw__t00",
        "description": "The tool t00.",
        "input_schema": {"properties": {}, "type": "object"},
    }
