"""Start, call and end all MCP servers of one session."""

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
    ServerInstructions,
    error_outcome,
    one_line,
)
from nacre.mcp_client.naming import wire_names
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.mcp_client.connection import Connection

KILL_SECONDS = 5.0
"""How long to wait for a killed process; one stuck in the kernel must not block the session."""
MAX_NOTICES = 50
"""Older notices are dropped."""


class Servers:
    """The servers of one session; use it as a context manager.

    The tools are those at the start; tools that a server adds later appear in the next session (C31b).
    """

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        *,
        limits: McpLimits | None = None,
        clock: Clock = SYSTEM_CLOCK,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """`on_notice` receives each notice at once; without it they are collected for `take_notices`."""
        self._on_notice = on_notice
        self._servers = sorted(servers, key=lambda server: server.name)
        self._limits = limits or McpLimits()
        self._clock = clock
        self._connections: dict[str, Connection] = {}
        self._notices: deque[str] = deque(maxlen=MAX_NOTICES)
        self._tools: dict[str, McpTool] = {}

    async def __aenter__(self) -> Self:
        """Start all servers concurrently, within the start timeout."""
        if not self._servers:
            return self
        try:
            # In a thread: importing the SDK blocks for about a second.
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
        offers = {
            (connection.name, offer.name): offer
            for connection in self._connections.values()
            if connection.listing is not None
            for offer in connection.listing.offers
        }
        for (server_name, name), wire_name in sorted(wire_names(offers).items(), key=lambda item: item[1]):
            offer = offers[server_name, name]
            self._tools[wire_name] = McpTool(
                server=server_name,
                name=name,
                wire_name=wire_name,
                description=offer.description,
                input_schema=offer.input_schema,
                read_only=offer.read_only,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """The tools of all servers at the start, sorted by wire name."""
        return tuple(self._tools.values())

    async def call(self, wire_name: str, arguments: JsonObject) -> CallOutcome:
        """Call a tool on its server; a failure is an error outcome, never an exception."""
        tool = self._tools.get(wire_name)
        if tool is None:
            return error_outcome(f"There is no MCP tool named {one_line(wire_name, chars=64)}.")
        return await self._connections[tool.server].call(tool.name, arguments)

    def instructions(self) -> tuple[ServerInstructions, ...]:
        """Return the instructions of the servers that sent some at their start, sorted by name."""
        found: list[ServerInstructions] = []
        for name, connection in self._connections.items():
            if connection.listing is not None and connection.listing.instructions:
                tools = frozenset(one.wire_name for one in self._tools.values() if one.server == name)
                found.append(ServerInstructions(name, connection.listing.instructions, tools))
        return tuple(found)

    def take_notices(self) -> tuple[str, ...]:
        """Return and clear the collected notices, such as failed starts and changed tools."""
        taken = tuple(self._notices)
        self._notices.clear()
        return taken

    def _notice(self, line: str) -> None:
        if self._on_notice is not None:
            self._on_notice(line)
        elif line not in self._notices:
            self._notices.append(line)

    async def _close(self) -> None:
        """End every server and wait for it; cancellation kills them at once."""
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
