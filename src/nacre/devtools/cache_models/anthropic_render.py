"""Convert a request body to the blocks the model reads, in order, each with its digest and size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b

from nacre.cache.models import ModelProfile
from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches, Call, Level, Rendered
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import estimate_block, estimate_text
from nacre.messages.wire import parse_block

Count = Callable[[JsonObject], int]
"""Returns the tokens of one block in wire form."""

DIGEST_BYTES = 16
"""Large enough to exclude chance collisions, small enough for the digests of a long session."""
THINKING = frozenset({"thinking", "redacted_thinking"})
LEVELS: tuple[Level, ...] = ("tools", "system", "messages")
WEB_TOOLS = ("web_search_", "web_fetch_")

_ORDER = {level: index for index, level in enumerate(LEVELS)}
_SALTS = {"user": b"user", "assistant": b"assistant", "system": b"system"}
"""The role is part of the prefix; the border between two messages of one role is not."""
_WORDS: dict[str, str] = {"text": "text", "thinking": "thinking", "tool_result": "content"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def estimate(wire: JsonObject) -> int:
    """Estimate the tokens of a block as for the parsed block, without parsing the usual kinds."""
    kind = wire.get("type")
    words = wire.get(_WORDS.get(kind, "")) if isinstance(kind, str) else None
    return estimate_text(words) if isinstance(words, str) else estimate_block(parse_block(wire))


def flatten(body: JsonObject, count: Count) -> list[Rendered]:
    """Return the blocks of a well-formed request: tools, system, messages; a string is one text block."""
    system = [
        render(block, level="system", role="system", at=(index, -1), count=count)
        for index, block in enumerate(blocks_of(body.get("system")))
    ]
    # Turning web tools on or off leaves the other tools cached, so they come after them.
    tools = sorted(_tools(body, count), key=lambda block: block.level == "system")
    return [*tools, *system, *_messages(body, count)]


def digest(value: Json) -> bytes:
    return blake2b(_encode(value).encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()


def chain(blocks: Sequence[Rendered], seeds: dict[Level, bytes]) -> list[bytes]:
    """Return the digest of every prefix of the blocks; a level's seed is folded in before it."""
    links: list[bytes] = []
    link = b""
    seeded = 0
    for block in blocks:
        while seeded <= _ORDER[block.level]:
            link = blake2b(link + seeds[LEVELS[seeded]], digest_size=DIGEST_BYTES).digest()
            seeded += 1
        link = blake2b(link + block.digest, digest_size=DIGEST_BYTES).digest()
        links.append(link)
    return links


def seeds(
    call: Call, profile: ModelProfile, switches: AnthropicSwitches, blocks: Sequence[Rendered]
) -> dict[Level, bytes]:
    """Return per level what else besides the blocks determines whether a prefix is the same."""
    body = call.body
    output = body.get("output_config")
    output = output if isinstance(output, dict) else {}
    # The handling of changed history is not shown to the model.
    thinking: Json = [
        _setting(body, "thinking", "disabled", lambda key, _: key != "block_binding"),
        output.get("effort") or profile.default_effort,
    ]
    choice = _setting(body, "tool_choice", "auto", lambda *pair: pair != ("disable_parallel_tool_use", False))
    betas: Json = [body.get("context_management"), *sorted(call.betas)]
    first: list[Json] = [call.org, call.workspace, profile.model]
    last: list[Json] = [choice, any(map(_has_image, blocks)), thinking, output.get("format")]
    if profile.config_rendered_first:
        first.append(thinking)
    if switches.betas_at == "everything":
        first.append(betas)
    elif switches.betas_at == "messages":
        last.append(betas)
    documents = (block.wire.get("citations") for block in blocks if block.kind == "document")
    cites = any(isinstance(cited, dict) and cited.get("enabled") is True for cited in documents)
    web = any(block.level == "system" and block.kind.startswith(WEB_TOOLS) for block in blocks)
    return {
        "tools": digest(first),
        "system": digest([body.get("speed") or "standard", web, cites]),
        "messages": digest(last),
    }


def _setting(body: JsonObject, name: str, default: str, counts: Callable[[str, Json], bool]) -> Json:
    value = body.get(name)
    if not isinstance(value, dict):
        return {"type": default}
    return {key: item for key, item in value.items() if counts(key, item)}


def _has_image(block: Rendered) -> bool:
    parts = objects(block.wire.get("content")) if block.kind == "tool_result" else []
    return block.kind == "image" or any(part.get("type") == "image" for part in parts)


def _tools(body: JsonObject, count: Count) -> Iterator[Rendered]:
    for index, tool in enumerate(objects(body.get("tools"))):
        if tool.get("defer_loading") is True:
            continue
        kind = str(tool.get("type") or "tool")
        level: Level = "system" if kind.startswith(WEB_TOOLS) else "tools"
        yield render(tool, level=level, role="", at=(index, -1), count=count)


def _messages(body: JsonObject, count: Count) -> Iterator[Rendered]:
    deferred = {str(t.get("name")): t for t in objects(body.get("tools")) if t.get("defer_loading") is True}
    for index, message in enumerate(objects(body.get("messages"))):
        role = str(message.get("role"))
        inner = -1
        for inner, block in enumerate(blocks_of(message.get("content"))):
            name = added_tool(block)
            # The model reads the definition of a deferred tool where the tool is added or referred to.
            shown = {**block, "definition": deferred[name]} if name in deferred else _loaded(block, deferred)
            yield render(shown, level="messages", role=role, at=(index, inner), count=count)
        if role == "system" and isinstance(config := message.get("output_config"), dict) and config:
            wire: JsonObject = {"type": "output_config", **config}
            yield render(wire, level="messages", role=role, at=(index, inner + 1), count=count)


def added_tool(block: JsonObject) -> str:
    """Return the name of the tool that a block adds to the conversation; empty for other blocks."""
    tool = block.get("tool") if block.get("type") == "tool_addition" else None
    return str(tool.get("name") or tool.get("tool_name")) if isinstance(tool, dict) else ""


REFERRING = frozenset({"tool_result", "tool_search_tool_result", "tool_search_tool_search_result"})
"""Kinds of block that may hold references to tools, the last one inside the second."""


def _loaded(block: JsonObject, deferred: Mapping[str, JsonObject]) -> JsonObject:
    """Return a block with the definitions of deferred tools in the place of the references to them."""
    if block.get("type") == "tool_reference" and (tool := deferred.get(str(block.get("tool_name")))):
        return {**tool, "type": "tool_definition"}
    if not deferred or block.get("type") not in REFERRING:
        return block
    inner = {
        key: block[key] for key in ("content", "tool_references") if isinstance(block.get(key), list | dict)
    }
    loaded: JsonObject = {}
    for key, value in inner.items():
        if isinstance(value, dict):
            loaded[key] = _loaded(value, deferred)
        elif isinstance(value, list):
            loaded[key] = [_loaded(one, deferred) if isinstance(one, dict) else one for one in value]
    return {**block, **loaded}


def references(body: JsonObject) -> list[str]:
    """Return the names of the tools that the messages of a request refer to."""
    names: list[str] = []
    left = [block for one in objects(body.get("messages")) for block in blocks_of(one.get("content"))]
    while left:
        block = left.pop(0)
        if block.get("type") == "tool_reference":
            names.append(str(block.get("tool_name")))
        elif block.get("type") in REFERRING:
            content = block.get("content")
            inner = [content] if isinstance(content, dict) else objects(content)
            left = [*inner, *objects(block.get("tool_references")), *left]
    return names


def blocks_of(content: Json) -> list[JsonObject]:
    """Return the content of a message or system prompt as blocks; values other than objects are left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return objects(content)


def objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def render(wire: JsonObject, *, level: Level, role: str, at: tuple[int, int], count: Count) -> Rendered:
    """Return one block with its digest, which excludes markers so that they can be moved."""
    marker = ""
    bare = wire
    if "cache_control" in wire:
        control = wire["cache_control"]
        if isinstance(control, dict):
            marker = str(control.get("ttl") or "5m")
        bare = {key: value for key, value in wire.items() if key != "cache_control"}
    # For the digest: keys in order, strings unescaped.
    frames = [
        f"{len(key)}:{key}={len(value)}:{value}\n"
        if isinstance(value, str)
        else f"{len(key)}:{key}~{_encode(value)}\n"
        for key, value in bare.items()
    ]
    coded = "".join(frames).encode(errors="surrogatepass")
    mixed = blake2b(coded, digest_size=DIGEST_BYTES, salt=_SALTS.get(role, b"")).digest()
    kind = wire["type"] if isinstance(wire.get("type"), str) else "tool"
    # Positional arguments, because this runs for every block of every request.
    return Rendered(level, str(kind), role, at, wire, marker, mixed, count(bare), len(coded))
