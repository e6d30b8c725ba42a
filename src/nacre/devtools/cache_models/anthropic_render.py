"""Convert a request body to the blocks the model reads, in order, each with its digest and size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
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
    tools = list(_tools(body, count))
    web = [block for block in tools if block.level == "system"]
    return [
        *(block for block in tools if block.level == "tools"),
        *web,
        *_system(body, count),
        *_messages(body, count),
    ]


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
    thinking: Json = [_thinking(body), output.get("effort") or profile.default_effort]
    betas: Json = [body.get("context_management"), *sorted(call.betas)]
    first: list[Json] = [call.org, call.workspace, profile.model]
    last: list[Json] = [_tool_choice(body), any(map(_has_image, blocks)), thinking, output.get("format")]
    if profile.config_rendered_first:
        first.append(thinking)
    if switches.betas_at == "everything":
        first.append(betas)
    elif switches.betas_at == "messages":
        last.append(betas)
    cites = any(_has_citations(block) for block in blocks)
    web = any(block.level == "system" and block.kind.startswith(WEB_TOOLS) for block in blocks)
    return {
        "tools": digest(first),
        "system": digest([body.get("speed") or "standard", web, cites]),
        "messages": digest(last),
    }


def _thinking(body: JsonObject) -> Json:
    thinking = body.get("thinking")
    if not isinstance(thinking, dict):
        return {"type": "disabled"}
    # The handling of changed history is not shown to the model.
    return {key: value for key, value in thinking.items() if key != "block_binding"}


def _tool_choice(body: JsonObject) -> Json:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return {"type": "auto"}
    return {
        key: value for key, value in choice.items() if (key, value) != ("disable_parallel_tool_use", False)
    }


def _has_image(block: Rendered) -> bool:
    if block.kind == "image":
        return True
    return block.kind == "tool_result" and any(part.get("type") == "image" for part in _parts(block.wire))


def _has_citations(block: Rendered) -> bool:
    if block.kind != "document":
        return False
    citations = block.wire.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _parts(wire: JsonObject) -> list[JsonObject]:
    content = wire.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _tools(body: JsonObject, count: Count) -> Iterator[Rendered]:
    for index, tool in enumerate(objects(body.get("tools"))):
        if tool.get("defer_loading") is True:
            continue
        kind = str(tool.get("type") or "tool")
        # Turning web tools on or off leaves the other tools cached, so they come after them.
        level: Level = "system" if kind.startswith(WEB_TOOLS) else "tools"
        yield render(tool, level=level, role="", at=(index, -1), count=count)


def _system(body: JsonObject, count: Count) -> Iterator[Rendered]:
    for index, block in enumerate(blocks_of(body.get("system"))):
        yield render(block, level="system", role="system", at=(index, -1), count=count)


def _messages(body: JsonObject, count: Count) -> Iterator[Rendered]:
    deferred = {str(t.get("name")): t for t in objects(body.get("tools")) if t.get("defer_loading") is True}
    for index, message in enumerate(objects(body.get("messages"))):
        role = str(message.get("role"))
        inner = -1
        for inner, block in enumerate(blocks_of(message.get("content"))):
            shown = _with_definition(block, deferred) if block.get("type") == "tool_addition" else block
            yield render(shown, level="messages", role=role, at=(index, inner), count=count)
        if role == "system" and isinstance(config := message.get("output_config"), dict) and config:
            wire: JsonObject = {"type": "output_config", **config}
            yield render(wire, level="messages", role=role, at=(index, inner + 1), count=count)


def _with_definition(block: JsonObject, deferred: dict[str, JsonObject]) -> JsonObject:
    """Add the definition of a deferred tool, which the model reads where the tool is added."""
    tool = block.get("tool")
    name = str(tool.get("name") or tool.get("tool_name")) if isinstance(tool, dict) else ""
    return {**block, "definition": deferred[name]} if name in deferred else block


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
    coded = _framed(bare)
    kind = wire.get("type")
    mixed = blake2b(coded, digest_size=DIGEST_BYTES, salt=_SALTS.get(role, b"")).digest()
    # Positional arguments, because this runs for every block of every request.
    return Rendered(
        level,
        kind if isinstance(kind, str) else "tool",
        role,
        at,
        wire,
        marker,
        mixed,
        count(bare),
        len(coded),
    )


def _framed(wire: JsonObject) -> bytes:
    """Return the bytes of a block for its digest: keys in order, strings unescaped."""
    frames = [
        f"{len(key)}:{key}={len(value)}:{value}\n"
        if isinstance(value, str)
        else f"{len(key)}:{key}~{_encode(value)}\n"
        for key, value in wire.items()
    ]
    return "".join(frames).encode(errors="surrogatepass")
