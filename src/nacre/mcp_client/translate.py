"""Translate an MCP server's tool list and call results into nacre's own types, with limits on both."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never, cast

import mcp_types as types

from nacre.mcp_client.base import CallOutcome, McpLimits, one_line
from nacre.mcp_client.naming import bounded, stable_schema
from nacre.messages.blocks import Image, Json, JsonObject, ResultPart, Text
from nacre.messages.tokens import BYTES_PER_TOKEN, FLAT_TOKENS, JSON_BYTES_PER_TOKEN, estimate_text
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
    for _, tool in sorted(by_name.items()):
        offer = _offer(tool, server, limits)
        size = len(canonical(offer.input_schema))
        if size > limits.schema_bytes:
            name = one_line(tool.name, chars=64)
            left_out.append(f"MCP server {server}: {name} is left out, its schema has {size:,} bytes")
        else:
            offers.append(offer)
    if len(offers) > MAX_TOOLS:
        left_out.append(f"MCP server {server}: only the first {MAX_TOOLS} of {len(offers)} tools are offered")
    instructions = bounded((session.instructions or "").strip(), limits.description_chars)
    return ToolListing(instructions=instructions, offers=tuple(offers[:MAX_TOOLS]), left_out=tuple(left_out))


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


MAX_IMAGE_BYTES = 3_750_000
"""Five megabytes in base64, the provider limit; a larger image would fail every later request."""
SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
WEBP = (b"RIFF", b"WEBP")


def to_outcome(result: types.CallToolResult, *, max_tokens: int) -> CallOutcome:
    """Return the parts of a result with adjacent text joined, cut at the token limit with a note."""
    parts = _joined(_part(block) for block in result.content)
    if not any(isinstance(part, Text) for part in parts) and result.structured_content is not None:
        parts = [*parts, Text(canonical(cast("Json", result.structured_content)).decode())]
    if result.is_error and not parts:
        parts = [Text("The tool failed and did not say why.")]
    return CallOutcome(_fitting(parts, max_tokens), result.is_error)


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


def _image(data: str, mime_type: str) -> ResultPart:
    """Return the image if a provider accepts it; a rejected one would fail every later request."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Text(f"[{_kind(mime_type)} image left out: it is not valid base64]")
    # By the bytes themselves: providers refuse an image with a wrong label.
    media_type = next((kind for signature, kind in SIGNATURES.items() if raw.startswith(signature)), None)
    if raw[:4] == WEBP[0] and raw[8:12] == WEBP[1]:
        media_type = "image/webp"
    if media_type is None:
        return Text(f"[{_kind(mime_type)} image left out: only PNG, JPEG, GIF and WebP can be shown]")
    if len(raw) > MAX_IMAGE_BYTES:
        return Text(
            f"[{media_type} image left out: {len(raw):,} bytes, at most {MAX_IMAGE_BYTES:,} can be shown]"
        )
    return Image({"type": "base64", "media_type": media_type, "data": base64.b64encode(raw).decode()})


def _kind(mime_type: str | None) -> str:
    return one_line(mime_type, chars=60) if mime_type else "unknown type"


def _joined(parts: Iterable[ResultPart]) -> list[ResultPart]:
    """Join adjacent text into one block, so that a thousand lines are not a thousand blocks."""
    joined: list[ResultPart] = []
    words: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            words.append(part.text)
            continue
        joined.extend(_text_of(words))
        words = []
        joined.append(part)
    return [*joined, *_text_of(words)]


def _text_of(words: list[str]) -> list[ResultPart]:
    text = "\n".join(words)
    return [Text(text)] if text else []


def _fitting(parts: list[ResultPart], max_tokens: int) -> tuple[ResultPart, ...]:
    left = max_tokens
    fitting = list[ResultPart]()
    images_out = 0
    cut_chars = 0
    cut_tokens = 0
    for part in parts:
        if not isinstance(part, Text):
            if left < FLAT_TOKENS:
                images_out += 1
                continue
            left -= FLAT_TOKENS
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
    if not cut_chars and not images_out:
        return tuple(fitting)
    text = f"text of {cut_chars:,} characters (about {cut_tokens:,} tokens) does not fit" if cut_chars else ""
    pictures = f"{images_out} images do not fit" if images_out else ""
    what = " and ".join(filter(None, (text, pictures)))
    note = f"[result cut here: {what}; ask the tool for less, with a filter, a range or a page]"
    return (*fitting, Text(note))


def _head(text: str, tokens: int) -> str:
    """Return about as much of the text as the budget allows, at the denser rate if it may be JSON."""
    rate = JSON_BYTES_PER_TOKEN if text[:64].lstrip()[:1] in {"{", "["} else BYTES_PER_TOKEN
    return text[: tokens * rate].encode(errors="surrogatepass")[: tokens * rate].decode(errors="ignore")
