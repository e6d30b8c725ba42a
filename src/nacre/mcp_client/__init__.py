"""Tools of other people's MCP servers: read from settings, started, called, and ended with the session.

May import messages, cache and the leaves. The vendor's SDK is imported when the first server starts.
"""

from nacre.mcp_client.base import CallOutcome, Fragment, HttpServer, McpLimits, McpTool, Server, StdioServer
from nacre.mcp_client.config import parse_servers
from nacre.mcp_client.servers import Servers

__all__ = [
    "CallOutcome",
    "Fragment",
    "HttpServer",
    "McpLimits",
    "McpTool",
    "Server",
    "Servers",
    "StdioServer",
    "parse_servers",
]
