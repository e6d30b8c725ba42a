"""Tools of other people's MCP servers: read from settings, started, called, and ended with the session.

May import messages, cache and the leaves. The vendor's SDK is imported when the first server starts.
"""

from nacre.mcp_client.base import (
    CallOutcome,
    HttpServerConfig,
    McpLimits,
    McpTool,
    ServerConfig,
    ServerSummary,
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
    "ServerSummary",
    "Servers",
    "StdioServerConfig",
    "parse_servers",
]
