"""All MCP servers of one session: started together, called by wire name, ended together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.formatting import how_to_install
from nacre.mcp_client.base import (
    CallOutcome,
    McpLimits,
    McpTool,
    ServerConfig,
    ServerSummary,
    error_outcome,
    one_line,
)
from nacre.mcp_client.naming import bounded, wire_names
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.mcp_client.connection import Connection

KILL_SECONDS = 5.0
"""How long to wait for what was killed; a process stuck in the kernel must not hold the session."""
MAX_NOTICES = 50
"""A server that talks without end pushes out its own old notices."""
LINE_CHARS = 160
"""One line about a tool in a fragment."""


class Servers:
    """The servers of one session; use it as a context manager.

    The tools are those of the start: what a server adds later appears in the next session (C31b).
    """

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        *,
        limits: McpLimits | None = None,
        clock: Clock = SYSTEM_CLOCK,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """`on_notice` gets each notice at once; without it they are collected for `take_notices`."""
        self._on_notice = on_notice
        self._servers = sorted(servers, key=lambda server: server.name)
        self._limits = limits or McpLimits()
        self._clock = clock
        self._connections: dict[str, Connection] = {}
        self._notices: deque[str] = deque(maxlen=MAX_NOTICES)
        self._tools: dict[str, McpTool] = {}

    async def __aenter__(self) -> Self:
        """Start all servers side by side; takes no longer than the start timeout."""
        if not self._servers:
            return self
        try:
            # In a thread: importing the SDK takes a second, in which nothing else would move.
            module = await asyncio.to_thread(import_module, "nacre.mcp_client.connection")
        except ImportError as error:
            self._notice(f"MCP servers are not started ({error}); to have them: {how_to_install('mcp')}")
            return self
        for server in self._servers:
            self._connections[server.name] = module.Connection(
                server, self._limits, clock=self._clock, on_notice=self._notice
            )
        try:
            await asyncio.gather(*(connection.start() for connection in self._connections.values()))
        except BaseException:
            await self._close()
            raise
        self._tools = self._named()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """What all servers offered at the start, sorted by wire name."""
        return tuple(self._tools.values())

    async def call(self, wire_name: str, arguments: JsonObject) -> CallOutcome:
        """Ask the tool's server; whatever goes wrong there is an error outcome, never an exception."""
        tool = self._tools.get(wire_name)
        if tool is None:
            return error_outcome(f"There is no MCP tool named {one_line(wire_name, chars=64)}.")
        return await self._connections[tool.server].call(tool.name, arguments)

    def fragments(self) -> tuple[ServerSummary, ...]:
        """What each connected server says of itself and its tools, to be shown again after a compaction."""
        return tuple(
            ServerSummary(
                name, bounded(self._told(name, connection.listing.instructions), self._limits.fragment_chars)
            )
            for name, connection in self._connections.items()
            if connection.listing is not None
        )

    def take_notices(self) -> tuple[str, ...]:
        """What happened since this was last asked, one line each: failed starts, changed tools."""
        taken = tuple(self._notices)
        self._notices.clear()
        return taken

    def _notice(self, line: str) -> None:
        if self._on_notice is not None:
            self._on_notice(line)
        elif line not in self._notices:
            self._notices.append(line)

    def _named(self) -> dict[str, McpTool]:
        offers = {
            (connection.name, offer.name): offer
            for connection in self._connections.values()
            if connection.listing is not None
            for offer in connection.listing.offers
        }
        tools = [
            McpTool(
                server=pair[0],
                name=pair[1],
                wire_name=wire_name,
                description=offers[pair].description,
                input_schema=offers[pair].input_schema,
                read_only=offers[pair].read_only,
            )
            for pair, wire_name in wire_names(offers).items()
        ]
        return {tool.wire_name: tool for tool in sorted(tools, key=lambda tool: tool.wire_name)}

    def _told(self, server: str, instructions: str) -> str:
        lines = [
            bounded(f"- {tool.wire_name}: {one_line(tool.description, chars=LINE_CHARS)}", LINE_CHARS)
            for tool in self._tools.values()
            if tool.server == server
        ]
        tools = ["Tools:\n" + "\n".join(lines)] if lines else []
        return "\n\n".join([f"MCP server {server}", *filter(None, [instructions]), *tools])

    async def _close(self) -> None:
        """End every server and wait until nothing of it is left; in a hurry, without grace."""
        tasks = [task for connection in self._connections.values() for task in connection.stop()]
        if not tasks:
            return
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for connection in self._connections.values():
                connection.kill()
            await asyncio.wait(tasks, timeout=KILL_SECONDS)
            raise
