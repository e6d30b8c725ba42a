"""Replies of the simulated model: from a script, a recorded conversation, or another provider.

A reply source is any `async (body) -> ScriptedReply`; `body` is in Anthropic's format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import yaml

from nacre.devtools.cache_models.anthropic_render import objects
from nacre.devtools.sim.faults import Fault, parse_fault
from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_blocks, estimate_text
from nacre.messages.wire import canonical, parse_content, render_blocks
from nacre.providers.base import Provider, Request, complete


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One reply of the simulated model, with its fault if any."""

    content: tuple[JsonObject, ...] = ()
    """Wire blocks; a tool call without an id gets one when it is sent."""
    stop_reason: str | None = None
    """None: `tool_use` if there is a call, else `end_turn`."""
    output_tokens: int | None = None
    """None: estimated from the content."""
    delay: float = 0.0
    """Seconds until the first token, on the simulator's clock."""
    duration: float = 0.0
    """Seconds from the first token to the last."""
    fault: Fault | None = None

    @property
    def tokens(self) -> int:
        if self.output_tokens is not None:
            return self.output_tokens
        return estimate_blocks(parse_content(list(self.content)))

    @property
    def calls_tools(self) -> bool:
        return any(block.get("type") == "tool_use" for block in self.content)

    @property
    def text(self) -> str:
        return "".join(str(block.get("text")) for block in self.content if block.get("type") == "text")


class ReplySource(Protocol):
    """Source of replies when no script item is left."""

    async def __call__(self, body: JsonObject) -> ScriptedReply: ...


DEFAULT_MAX_TOKENS = 8_192
"""Limit for another provider if the request gives none (only OpenAI's may omit it)."""

SYNTHETIC = "<synthetic>"
"""Model name with which a session log records an error as an assistant message."""

EXHAUSTED = ScriptedReply(content=({"type": "text", "text": "The script is exhausted."},))


async def exhausted(body: JsonObject) -> ScriptedReply:
    """The reply source after the script: reports that it is empty."""
    return EXHAUSTED


def replies_from_messages(messages: Iterable[JsonObject]) -> list[ScriptedReply]:
    """Return the assistant's replies of a recorded conversation, in the order in which they began.

    Takes wire messages, bare or inside the `{"message": …}` lines of a session log. Some logs write a line
    per block, with tool results in between: lines of one message id are one reply. Sidechains and error notes
    that no model wrote are left out.
    """
    grouped: dict[str, list[JsonObject]] = {}
    for number, item in enumerate(messages):
        inner = item.get("message")
        message = inner if isinstance(inner, dict) else item
        aside = item.get("isSidechain") is True or item.get("sidechain") is True
        if message.get("role") != "assistant" or aside or message.get("model") == SYNTHETIC:
            continue
        known = message.get("id", message.get("msg"))
        grouped.setdefault(f"line {number}" if known is None else f"id {known}", []).append(message)
    return [_recorded(lines) for lines in grouped.values()]


def _recorded(lines: list[JsonObject]) -> ScriptedReply:
    content = tuple(block for line in lines for block in content_blocks(line.get("content")))
    reasons = [line["stop_reason"] for line in lines if isinstance(line.get("stop_reason"), str)]
    usages = [usage for line in lines if isinstance(usage := line.get("usage"), dict)]
    outputs = [usage.get("output_tokens", usage.get("output")) for usage in usages]
    counted = max((count for count in outputs if isinstance(count, int)), default=0)
    return ScriptedReply(
        content=content,
        stop_reason=str(reasons[-1]) if reasons else None,
        # A log written while the reply streamed holds the count at its start: accept only higher ones.
        output_tokens=counted if counted >= ScriptedReply(content=content).tokens else None,
    )


def replies_from_provider(provider: Provider) -> ReplySource:
    """Return a source that lets another provider answer, for example the embedded engine."""

    async def source(body: JsonObject) -> ScriptedReply:
        reply = await complete(provider, _request(body))
        blocks = render_blocks(reply.message.blocks)
        return ScriptedReply(
            content=tuple(objects(blocks)),
            stop_reason=reply.stop_reason,
            output_tokens=reply.usage.output or None,
        )

    return source


def _request(body: JsonObject) -> Request:
    output = body.get("output_config")
    shape = output.get("format") if isinstance(output, dict) else None
    schema = shape.get("schema") if isinstance(shape, dict) else None
    limit = body.get("max_tokens")
    return Request(
        model=str(body.get("model")),
        messages=[dict(item) for item in objects(body.get("messages"))],
        system=list(content_blocks(body.get("system"))),
        tools=[dict(item) for item in objects(body.get("tools"))],
        max_tokens=limit if isinstance(limit, int) else DEFAULT_MAX_TOKENS,
        output_schema=schema if isinstance(schema, dict) else None,
    )


def content_blocks(content: Json) -> tuple[JsonObject, ...]:
    """Return a `content` or `system` as wire blocks; a bare text is one block."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},) if content else ()
    return tuple(objects(content))


@dataclass(frozen=True, slots=True)
class Script:
    """Replies in order, and those for background requests; None: they take the ordinary ones."""

    replies: Sequence[ScriptedReply] = ()
    background: Sequence[ScriptedReply] | None = None


BACKGROUND_TAGS = ("<memory-extraction>", "<session-notes>")
"""Beginnings of messages with which nacre asks for work beside the conversation."""
BACKGROUND_WORDS = (
    "Answer this message in words alone.",
    "You are asked to put this project's memory in order",
)


def is_background(body: JsonObject, headers: Mapping[str, str]) -> bool:
    """Return whether a request is work beside a conversation: it says so in a header or in a message."""
    if "x-sim-background" in headers:
        return headers["x-sim-background"].strip() not in {"", "0", "false"}
    if not objects(body.get("tools")):
        # The selector and other side queries of nacre are one message without tools.
        return len(objects(body.get("messages"))) == 1 and "output_config" in body
    starts = (
        str(block.get("text", "")).lstrip()
        for message in objects(body.get("messages"))
        if message.get("role") == "user"
        for block in content_blocks(message.get("content"))
    )
    return any(start.startswith((*BACKGROUND_TAGS, *BACKGROUND_WORDS)) for start in starts)


def read_script(path: Path) -> Script:
    """Return the replies in a JSON or YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
        # Every JSON document is also YAML, but the JSON parser is fast and strict.
        value: Json = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the script {path}: {error}") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"the script {path} is not JSON or YAML: {' '.join(str(error).split())}") from None
    return parse_whole_script(value)


def parse_whole_script(value: Json) -> Script:
    """Parse a list of replies, or an object with `replies` and `background`."""
    if not isinstance(value, dict):
        return Script(parse_script(value))
    if unknown := sorted(set(value) - {"replies", "background"}):
        raise ConfigError(f"a script holds replies and background, not {unknown[0]!r}")
    background = parse_script(value["background"]) if "background" in value else None
    return Script(parse_script(value.get("replies", [])), background)


def parse_script(value: Json | Sequence[ScriptedReply | Json]) -> list[ScriptedReply]:
    """Parse replies from JSON values; a one-line error names the invalid item and the reason."""
    if not isinstance(value, list | tuple):
        raise ConfigError(f"a script is a list of replies, not {type(value).__name__}")
    replies = []
    for number, item in enumerate(value, start=1):
        try:
            replies.append(item if isinstance(item, ScriptedReply) else _item(item))
        except ConfigError as error:
            raise ConfigError(f"script item {number}: {error}") from None
    return replies


_FIELDS = "text thinking tool_calls content stop_reason output_tokens delay duration fault".split()


def _item(item: Json) -> ScriptedReply:
    if isinstance(item, str):
        return ScriptedReply(content=content_blocks(item))
    if not isinstance(item, dict):
        raise ConfigError(f"is a text or an object, not {item!r}")
    if unknown := sorted(set(map(str, item)) - set(_FIELDS)):
        raise ConfigError(f"unknown field {unknown[0]!r}; known: {', '.join(_FIELDS)}")
    stop_reason = item.get("stop_reason")
    if stop_reason is not None and not isinstance(stop_reason, str):
        raise ConfigError("stop_reason is a text")
    tokens = _number(item, "output_tokens")
    return ScriptedReply(
        content=_content(item),
        stop_reason=stop_reason,
        output_tokens=None if tokens is None else int(tokens),
        delay=_number(item, "delay") or 0.0,
        duration=_number(item, "duration") or 0.0,
        fault=parse_fault(item["fault"]) if item.get("fault") is not None else None,
    )


def _content(item: JsonObject) -> tuple[JsonObject, ...]:
    blocks: list[JsonObject] = []
    for name in ("thinking", "text"):
        value = item.get(name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name} is a text")
        if value:
            blocks.append({"type": name, name: value})
    if "content" in item and not isinstance(item["content"], str | list):
        raise ConfigError("content is a text or a list of blocks")
    blocks.extend(content_blocks(item.get("content")))
    calls = item.get("tool_calls", [])
    if not isinstance(calls, list):
        raise ConfigError("tool_calls is a list of {name, input}")
    return (*blocks, *(_call(call) for call in calls))


def _call(call: Json) -> JsonObject:
    fields = call if isinstance(call, dict) else {}
    name = fields.get("name")
    arguments = fields.get("input", {})
    if not isinstance(name, str) or not name or set(fields) - {"id", "name", "input"}:
        raise ConfigError(f"a tool call is {{name, input}} and perhaps an id, not {call!r}")
    if not isinstance(arguments, dict):
        raise ConfigError(f"the input of {name} is an object")
    known: JsonObject = {"id": fields["id"]} if isinstance(fields.get("id"), str) else {}
    return {"type": "tool_use", **known, "name": name, "input": arguments}


def _number(item: JsonObject, name: str) -> float | None:
    value = item.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(f"{name} is a number from 0 up, not {value!r}")
    return value


PREWARMED = ScriptedReply(stop_reason="max_tokens", output_tokens=0)
"""The answer to `max_tokens: 0`: the prompt was read and cached, the reply is empty."""


def finish(reply: ScriptedReply, body: JsonObject, *, new_id: Callable[[], str]) -> ScriptedReply:
    """Return the complete reply: whole blocks, within `max_tokens`, in the requested shape."""
    asked = body.get("compaction")
    if isinstance(asked, dict) and asked.get("type") == "summarize":
        # A summary instead of a reply.
        block: JsonObject = {"type": "compaction", "content": reply.text, "signature": f"sim-{new_id()}"}
        tokens = reply.output_tokens if reply.output_tokens is not None else estimate_text(reply.text)
        return replace(reply, content=(block,), stop_reason="compaction", output_tokens=tokens)
    content = tuple(_whole_block(block, new_id) for block in reply.content)
    shaped = _shaped(replace(reply, content=content), body)
    cut = _within_limit(shaped, body)
    stop_reason = cut.stop_reason or ("tool_use" if cut.calls_tools else "end_turn")
    return replace(cut, stop_reason=stop_reason, output_tokens=cut.tokens)


def _whole_block(block: JsonObject, new_id: Callable[[], str]) -> JsonObject:
    match block:
        case {"type": "tool_use", "id": str()}:
            return block
        case {"type": "tool_use"}:
            call: JsonObject = {"type": "tool_use", "id": f"toolu_{new_id()}", "name": block.get("name")}
            return {**call, "input": block.get("input", {})}
        case {"type": "thinking"} if not block.get("signature"):
            return {**block, "signature": f"sim-{new_id()}"}
        case _:
            return block


def _shaped(reply: ScriptedReply, body: JsonObject) -> ScriptedReply:
    """Replace a scripted text that is not JSON by the smallest value the schema allows."""
    match body:
        case {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}} | {
            "output_format": {"type": "json_schema", "schema": dict(schema)}
        } if not reply.calls_tools:
            try:
                json.loads(reply.text)
            except (ValueError, RecursionError):
                text = canonical(minimal_instance(schema)).decode()
                others = (block for block in reply.content if block.get("type") != "text")
                return replace(reply, content=(*others, {"type": "text", "text": text}))
    return reply


def _within_limit(reply: ScriptedReply, body: JsonObject) -> ScriptedReply:
    """Cut a plain text longer than `max_tokens`; a token count in the script is not checked."""
    limit: Json = body.get("max_tokens")
    only_text = all(block.get("type") == "text" for block in reply.content)
    is_checked = isinstance(limit, int) and reply.output_tokens is None and only_text
    if not isinstance(limit, int) or not is_checked or reply.tokens <= limit:
        return reply
    text = reply.text.encode()[: limit * BYTES_PER_TOKEN].decode(errors="ignore")
    return replace(
        reply, content=({"type": "text", "text": text},), stop_reason="max_tokens", output_tokens=limit
    )


MAX_DEPTH = 32
"""Maximum depth of a recursive schema; real ones end after three or four levels."""

_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "a@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def minimal_instance(schema: JsonObject) -> Json:
    """Return the smallest value the schema allows: required keys only, first choices, lowest numbers."""
    return _instance(schema, schema, 0)


def _instance(schema: Json, root: JsonObject, depth: int) -> Json:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    match schema:
        case {"$ref": str(reference)}:
            return _instance(_referred(reference, root), root, depth + 1)
        case {"const": constant}:
            return constant
        case {"enum": [first, *_]}:
            return first
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]}:
            return _instance(first, root, depth + 1)
        case {"allOf": [*parts]}:
            return _instance(_merged(parts, root), root, depth + 1)
        case _:
            return _of_type(schema, root, depth)


def _referred(reference: str, root: JsonObject) -> Json:
    here: Json = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        here = (
            here.get(step.replace("~1", "/").replace("~0", "~")) if step and isinstance(here, dict) else here
        )
    return here


def _merged(parts: list[Json], root: JsonObject) -> JsonObject:
    """Merge several object schemas: all their properties, all their required keys."""
    merged: JsonObject = {}
    properties: JsonObject = {}
    required: list[Json] = []
    for part in parts:
        resolved = _referred(str(part["$ref"]), root) if isinstance(part, dict) and "$ref" in part else part
        if isinstance(resolved, dict):
            merged |= resolved
            properties |= _object(resolved.get("properties"))
            required += _list(resolved.get("required"))
    return {**merged, "properties": properties, "required": required}


def _of_type(schema: JsonObject, root: JsonObject, depth: int) -> Json:
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "string":
            return _text(schema)
        case "integer" | "number":
            return _number_finish(schema)
        case "boolean":
            return False
        case "array":
            least = schema.get("minItems")
            item = schema.get("items", {})
            return [_instance(item, root, depth + 1) for _ in range(least if isinstance(least, int) else 0)]
        case "object":
            return _members(schema, root, depth)
        case _:
            return _members(schema, root, depth) if "properties" in schema else None


def _members(schema: JsonObject, root: JsonObject, depth: int) -> JsonObject:
    properties = _object(schema.get("properties"))
    required = _list(schema.get("required"))
    return {name: _instance(part, root, depth + 1) for name, part in properties.items() if name in required}


def _text(schema: JsonObject) -> str:
    least = schema.get("minLength")
    text = _FORMATS.get(str(schema.get("format")), "")
    return text.ljust(least if isinstance(least, int) else 0, "x")


def _number_finish(schema: JsonObject) -> int | float:
    least = schema.get("minimum")
    above = schema.get("exclusiveMinimum")
    most = schema.get("maximum")
    if isinstance(least, int | float):
        return least
    if isinstance(above, int | float):
        return above + 1
    return min(0, most) if isinstance(most, int | float) else 0


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
