"""The server on stdin and stdout: one client, which started this process and ends it."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from nacre.mcp_server.base import Options
from nacre.mcp_server.server import Door


async def serve_stdio(options: Options) -> None:
    """Serve until the client closes its end; nothing but the protocol goes to stdout."""
    server = Door(options).server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
