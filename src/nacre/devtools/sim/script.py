"""Read scripts of replies in JSON or YAML; an invalid one is refused with a one-line error."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import yaml

from nacre.devtools.sim.faults import parse_fault
from nacre.devtools.sim.replies import ScriptedReply, content_blocks
from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject


def read_script(path: Path) -> list[ScriptedReply]:
    """Return the replies in a JSON or YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
        # Every JSON document is also YAML, but the JSON parser is fast and strict.
        value: Json = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the script {path}: {error}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"the script {path} is not JSON or YAML: {' '.join(str(error).split())}") from None
    return parse_script(value)


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


_FIELDS = (
    "text",
    "thinking",
    "tool_calls",
    "content",
    "stop_reason",
    "output_tokens",
    "delay",
    "duration",
    "fault",
)


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
