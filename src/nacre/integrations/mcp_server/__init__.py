"""MCP server for the memory, past sessions and mail of this machine, over stdio or loopback HTTP.

Only `server`, `stdio` and `http` import the vendor's SDK, so that the rest loads fast. Started by `nacre
mcp`.
"""

from nacre.integrations.mcp_server.base import ServerOptions

__all__ = ["ServerOptions"]
