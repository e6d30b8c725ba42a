"""The wire: nacre's tools, resources and prompt as the vendor's SDK wants them; every error is one line."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import mcp_types as types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from nacre import prompts
from nacre.errors import NacreError
from nacre.mcp_server.base import CALLER, Caller, Options, in_one_line
from nacre.mcp_server.memory_tools import Offered, memory_tools
from nacre.mcp_server.projects import Projects
from nacre.messages.blocks import ToolResult
from nacre.version import VERSION

INSTRUCTIONS = prompts.load(__package__, "instructions")
ROOTS_SECONDS = 2.0
"""A client that declares roots and then does not name them is not waited for."""
MAX_ROOTS = 64
CLIENT_CHARS = 40
"""Of what a client calls itself: it stands in commits and letters."""

Context: TypeAlias = ServerRequestContext[Any, Any]


class Door:
    """One server: its tools, the projects it has opened, and the roots its clients have named."""

    def __init__(self, options: Options) -> None:
        self.projects = Projects(options)
        self.offered = {one.tool.name: one for one in memory_tools(self.projects)}
        self._roots: dict[str, tuple[Path, ...]] = {}

    def server(self) -> Server[None]:
        """A server of the SDK that serves this door on any transport."""
        # Whoever has no handler for the SDK's log would see tracebacks of it on stderr.
        logging.getLogger().addHandler(logging.NullHandler())
        server = _Quiet(
            "nacre",
            version=VERSION,
            title="nacre memory",
            instructions=INSTRUCTIONS,
            lifespan=self._open,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        server.add_notification_handler(
            "notifications/roots/list_changed", types.NotificationParams, self._roots_changed
        )
        return server

    @asynccontextmanager
    async def _open(self, _: Server[None]) -> AsyncIterator[None]:
        try:
            yield None
        finally:
            await self.projects.close()

    async def _list_tools(self, ctx: Context, _: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(one) for one in self.offered.values()])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        offered = self.offered.get(params.name)
        if offered is None:
            known = ", ".join(self.offered)
            return _failed(f"there is no tool {params.name[:CLIENT_CHARS]!r}; there are {known}")
        CALLER.set(self.caller(ctx))
        try:
            said = await offered.tool.call(params.arguments or {})
        except NacreError as error:
            return _failed(str(error))
        except Exception as error:  # noqa: BLE001 - a tool call: the client reads what went wrong
            return _failed(f"{params.name} failed: {type(error).__name__}: {error}")
        assert not isinstance(said, ToolResult), "the tools of this room answer with text"
        return types.CallToolResult(content=[types.TextContent(type="text", text=said)])

    def caller(self, ctx: Context) -> Caller:
        """Who is calling, from what the connection knows of it."""
        known = ctx.session.client_params
        client = _word(known.client_info.name) if known else ""
        headers = getattr(ctx.request, "headers", None) or {}
        key = str(headers.get("mcp-session-id") or "stdio")

        async def roots() -> Sequence[Path]:
            if key not in self._roots:
                self._roots[key] = await _asked_roots(ctx)
            return self._roots[key]

        return Caller(key=key, client=client or "client", roots=roots)

    async def _roots_changed(self, ctx: Context, _: object) -> None:
        self._roots.pop(self.caller(ctx).key, None)


class _Quiet(Server[None]):
    """Tells clients that resources come and go, on every transport."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


def _described(one: Offered) -> types.Tool:
    hints = types.ToolAnnotations(
        title=one.title,
        read_only_hint=one.tool.read_only,
        destructive_hint=one.destructive,
        idempotent_hint=one.idempotent,
        open_world_hint=False,
    )
    return types.Tool(
        name=one.tool.name,
        title=one.title,
        description=one.tool.description,
        input_schema=one.tool.input_schema,
        annotations=hints,
    )


def _failed(why: str) -> types.CallToolResult:
    text = types.TextContent(type="text", text=in_one_line(why))
    return types.CallToolResult(content=[text], is_error=True)


async def _asked_roots(ctx: Context) -> tuple[Path, ...]:
    """The directories a client works in; none where it has none, cannot be asked or does not answer."""
    abilities = ctx.session.client_capabilities
    if abilities is None or abilities.roots is None or not ctx.session.can_send_request:
        return ()
    scope = None if ctx.request_id is None else ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        answer = await ctx.session.send_request(
            types.ListRootsRequest(),
            types.ListRootsResult,
            request_read_timeout_seconds=ROOTS_SECONDS,
            metadata=scope,
        )
    except (MCPError, ValueError):
        return ()
    found = (_directory(str(root.uri)) for root in answer.roots[:MAX_ROOTS])
    return tuple(one for one in found if one is not None)


def _directory(uri: str) -> Path | None:
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = Path(unquote(parts.path))
    return path if path.is_absolute() and path.is_dir() else None


def _word(name: str) -> str:
    """What a client calls itself, fit for a letter and a commit."""
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "-" for sign in name)
    return plain.strip("-_.")[:CLIENT_CHARS]
