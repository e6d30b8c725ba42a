"""What a server offers, asked page by page and made stable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import mcp_types as types

from nacre.mcp_client.base import McpLimits, one_line
from nacre.mcp_client.naming import bounded, stable_schema
from nacre.messages.blocks import JsonObject
from nacre.messages.wire import canonical

if TYPE_CHECKING:
    from mcp import ClientSession

MAX_PAGES = 100
"""A server that never stops turning pages must not keep us reading."""
MAX_TOOLS = 512
"""More tools than any model can choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One tool as its server describes it, bounded."""

    name: str
    description: str
    input_schema: JsonObject
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All a server offers, sorted by name."""

    instructions: str
    offers: tuple[Offer, ...]
    left_out: tuple[str, ...] = ()
    """Why a tool is not offered, one line each."""


async def listing_of(session: ClientSession, server: str, limits: McpLimits) -> Listing:
    """Ask for every page of the list of tools."""
    capabilities = session.server_capabilities
    tools = await _all_tools(session) if capabilities and capabilities.tools else []
    by_name: dict[str, types.Tool] = {}
    for tool in tools:
        by_name.setdefault(tool.name, tool)
    offers, left_out = _offers(by_name.values(), server, limits)
    return Listing(
        instructions=bounded((session.instructions or "").strip(), limits.description_chars),
        offers=tuple(sorted(offers, key=lambda offer: offer.name)),
        left_out=tuple(left_out),
    )


async def _all_tools(session: ClientSession) -> list[types.Tool]:
    page = await session.list_tools()
    tools = list(page.tools)
    seen: set[str] = set()
    while page.next_cursor and page.next_cursor not in seen and len(seen) < MAX_PAGES:
        seen.add(page.next_cursor)
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=page.next_cursor))
        tools.extend(page.tools)
    return tools


def _offers(tools: Iterable[types.Tool], server: str, limits: McpLimits) -> tuple[list[Offer], list[str]]:
    offers: list[Offer] = []
    left_out: list[str] = []
    for tool in sorted(tools, key=lambda tool: tool.name):
        offer = _offer(tool, server, limits)
        size = len(canonical(offer.input_schema))
        if size > limits.schema_bytes:
            name = one_line(tool.name, chars=64)
            left_out.append(f"MCP server {server}: {name} is left out, its schema has {size:,} bytes")
        else:
            offers.append(offer)
    if len(offers) > MAX_TOOLS:
        left_out.append(f"MCP server {server}: only the first {MAX_TOOLS} of {len(offers)} tools are offered")
    return offers[:MAX_TOOLS], left_out


def _offer(tool: types.Tool, server: str, limits: McpLimits) -> Offer:
    hints = tool.annotations
    words = (
        tool.description
        or tool.title
        or (hints and hints.title)
        or f"{tool.name} of the MCP server {server}."
    )
    return Offer(
        name=tool.name,
        description=bounded(words.strip(), limits.description_chars),
        input_schema=stable_schema(cast("JsonObject", tool.input_schema)),
        read_only=bool(hints and hints.read_only_hint),
    )
