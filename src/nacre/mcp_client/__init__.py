"""MCP client: starts the servers that settings name, offers their tools, and ends them with the session.

The MCP SDK is imported when the first server starts.
"""

from nacre.mcp_client.base import (
    CallOutcome,
    HttpServerConfig,
    McpLimits,
    McpTool,
    ServerConfig,
    ServerInstructions,
    StdioServerConfig,
    parse_servers,
)
from nacre.mcp_client.servers import Servers

__all__ = [
    "CallOutcome",
    "HttpServerConfig",
    "McpLimits",
    "McpTool",
    "ServerConfig",
    "ServerInstructions",
    "Servers",
    "StdioServerConfig",
    "parse_servers",
]
