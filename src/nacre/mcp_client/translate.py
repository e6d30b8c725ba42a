"""Translate an MCP server's tool list and call results into nacre's own types, with limits on both."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, assert_never, cast

import mcp_types as types

from nacre.mcp_client.base import CallOutcome, McpLimits, one_line
from nacre.mcp_client.naming import bounded, stable_schema
from nacre.messages.blocks import Json, JsonObject, ResultPart, Text
from nacre.messages.media import media_block
from nacre.messages.tokens import BYTES_PER_TOKEN, JSON_BYTES_PER_TOKEN, estimate_text
from nacre.messages.wire import canonical

if TYPE_CHECKING:
    from mcp import ClientSession

MAX_PAGES = 100
"""Bounds a server that returns pages without end."""
MAX_TOOLS = 512
"""More tools than a model can choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One tool as its server describes it, cut to the limits."""

    name: str
    description: str
    input_schema: JsonObject
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """The tools of a server, sorted by name."""

    instructions: str
    offers: tuple[Offer, ...]
    left_out: tuple[str, ...] = ()
    """Why a tool is left out, one line each."""


async def list_tools(session: ClientSession, server: str, limits: McpLimits) -> ToolListing:
    """Request every page of the tool list; tools beyond the limits are left out."""
    by_name: dict[str, types.Tool] = {}
    capabilities = session.server_capabilities
    if capabilities and capabilities.tools:
        page = await session.list_tools()
        tools = list(page.tools)
        seen: set[str] = set()
        while page.next_cursor and page.next_cursor not in seen and len(seen) < MAX_PAGES:
            seen.add(page.next_cursor)
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=page.next_cursor))
            tools.extend(page.tools)
        for tool in tools:
            by_name.setdefault(tool.name, tool)
    offers: list[Offer] = []
    left_out: list[str] = []
    for name, tool in sorted(by_name.items()):
        schema = stable_schema(cast("JsonObject", tool.input_schema))
        size = len(canonical(schema))
        if size > limits.schema_bytes:
            shown = one_line(name, chars=64)
            left_out.append(f"MCP server {server}: {shown} is left out, its schema has {size:,} bytes")
            continue
        hints = tool.annotations
        title = tool.title or (hints and hints.title)
        words = bounded(
            (tool.description or title or f"{name} of the MCP server {server}.").strip(),
            limits.description_chars,
        )
        read_only = bool(hints and hints.read_only_hint)
        offers.append(Offer(name=name, description=words, input_schema=schema, read_only=read_only))
    if len(offers) > MAX_TOOLS:
        left_out.append(f"MCP server {server}: only the first {MAX_TOOLS} of {len(offers)} tools are offered")
    instructions = bounded((session.instructions or "").strip(), limits.description_chars)
    return ToolListing(instructions=instructions, offers=tuple(offers[:MAX_TOOLS]), left_out=tuple(left_out))


ADVICE = "ask the tool for less, with a filter, a range or a page"


def to_outcome(result: types.CallToolResult, *, max_tokens: int) -> CallOutcome:
    """Return the parts of a result with adjacent text joined, cut at the token limit with a note."""
    parts = _joined(_part(block) for block in result.content)
    if not any(isinstance(part, Text) for part in parts) and result.structured_content is not None:
        parts = [*parts, Text(canonical(cast("Json", result.structured_content)).decode())]
    if result.is_error and not parts:
        parts = [Text("The tool failed and did not say why.")]
    fitting, left_out = _fitting(parts, max_tokens)
    if not left_out:
        return CallOutcome(fitting, result.is_error)
    note = Text(f"[{left_out}; {ADVICE}]")
    whole = "\n".join(part.text for part in parts if isinstance(part, Text))
    return CallOutcome((*fitting, note), result.is_error, left_out, whole)


def _part(block: types.ContentBlock) -> ResultPart:
    match block:
        case types.TextContent():
            return Text(block.text)
        case types.ImageContent():
            return _image(block.data, block.mime_type)
        case types.AudioContent():
            return Text(f"[{_kind(block.mime_type)} audio left out: audio is not supported]")
        case types.EmbeddedResource(resource=resource):
            where = f"resource {one_line(resource.uri, chars=2_000)}"
            if isinstance(resource, types.TextResourceContents):
                return Text(f"[{where}]\n{resource.text}")
            if not isinstance(shown := _image(resource.blob, resource.mime_type), Text):
                return shown
            size = len(resource.blob) * 3 // 4
            return Text(f"[{where}: {_kind(resource.mime_type)}, about {size:,} bytes, left out]")
        case types.ResourceLink():
            length = "" if block.size is None else f", {block.size:,} bytes"
            kind = "" if block.mime_type is None else f", {_kind(block.mime_type)}"
            about = "" if not block.description else f": {one_line(block.description)}"
            uri = one_line(block.uri, chars=2_000)
            return Text(f"[link to {uri} ({one_line(block.name)}{kind}{length}){about}]")
        case _:
            assert_never(block)


def _image(data: str, mime_type: str | None) -> ResultPart:
    """Return the image if a provider accepts it; a rejected one would fail every later request."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Text(f"[{_kind(mime_type)} image left out: it is not valid base64]")
    try:
        return media_block(raw)
    except ValueError as error:
        return Text(f"[{_kind(mime_type)} image left out: {error}]")


def _kind(mime_type: str | None) -> str:
    return one_line(mime_type, chars=60) if mime_type else "unknown type"


def _joined(parts: Iterable[ResultPart]) -> list[ResultPart]:
    """Join adjacent text into one block, so that a thousand lines are not a thousand blocks."""
    joined: list[ResultPart] = []
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, Text)):
        if not is_text:
            joined.extend(group)
        elif text := "\n".join(part.text for part in group if isinstance(part, Text)):
            joined.append(Text(text))
    return joined


def _fitting(parts: list[ResultPart], max_tokens: int) -> tuple[tuple[ResultPart, ...], str]:
    """Return the parts with as much text as fits, and what does not; layer 1 decides about images."""
    left = max_tokens
    fitting = list[ResultPart]()
    cut_chars = 0
    cut_tokens = 0
    for part in parts:
        if not isinstance(part, Text):
            fitting.append(part)
            continue
        size = estimate_text(part.text)
        if size <= left:
            left -= size
            fitting.append(part)
            continue
        cut_chars += len(part.text)
        cut_tokens += size
        fitting.extend([Text(head)] if (head := _head(part.text, left)) else [])
        left = 0
    if not cut_chars:
        return tuple(fitting), ""
    what = f"text of {cut_chars:,} characters (about {cut_tokens:,} tokens) does not fit"
    return tuple(fitting), f"result cut here: {what}"


def _head(text: str, tokens: int) -> str:
    """Return about as much of the text as the budget allows, at the denser rate if it may be JSON."""
    rate = JSON_BYTES_PER_TOKEN if text[:64].lstrip()[:1] in {"{", "["} else BYTES_PER_TOKEN
    return text[: tokens * rate].encode(errors="surrogatepass")[: tokens * rate].decode(errors="ignore")
