"""Memory, past sessions and mail of this machine as an MCP server, over stdio or loopback HTTP.

The vendor's SDK is imported by `server`, `stdio` and `http` only,
so that the rest is quick to load and to test. Started by `nacre mcp`.
"""

from nacre.integrations.mcp_server.base import ServerOptions

__all__ = ["ServerOptions"]
