"""The tools of MCP servers as tools the loop can run."""

from __future__ import annotations

from nacre.mcp_client.base import McpTool
from nacre.mcp_client.servers import Servers
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.tools.base import Tool


def mcp_tools(servers: Servers) -> list[Tool]:
    """One tool for each the servers offered at their start, sorted by name."""
    return [_tool(servers, offered) for offered in servers.tools]


def _tool(servers: Servers, offered: McpTool) -> Tool:
    async def call(arguments: JsonObject) -> ToolResult:
        outcome = await servers.call(offered.wire_name, arguments)
        # Whoever runs the tool knows the id of the call and fills it in.
        return ToolResult("", outcome.parts, outcome.is_error)

    return Tool(
        name=offered.wire_name,
        description=offered.description,
        input_schema=offered.input_schema,
        call=call,
        read_only=offered.read_only,
        max_seconds=None,
    )
