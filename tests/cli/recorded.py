"""Small session logs for the tests of the session commands, in the form Claude Code writes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from nacre.messages.blocks import Json, JsonObject

SESSION = "0a000000-0000-4000-8000-000000000001"
PROJECT = "/srv/project"
USAGE: JsonObject = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 1_000,
    "cache_read_input_tokens": 3_000,
    "output_tokens": 90,
}


def user(number: int, content: Json, **more: Json) -> JsonObject:
    return _line("user", number, {"role": "user", "content": content}, more)


def assistant(number: int, content: list[Json], **more: Json) -> JsonObject:
    message: JsonObject = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-5-20251101",
        "content": content,
        "stop_reason": "end_turn",
        "usage": USAGE,
    }
    return _line("assistant", number, message, more)


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def call(call_id: str, name: str, **arguments: Json) -> JsonObject:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Json) -> JsonObject:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def conversation() -> list[JsonObject]:
    """A question, a call with its result, and an answer: nothing odd in it."""
    return [
        user(1, "Where is the parser of pears?"),
        assistant(2, [text("I will look."), call("toolu_1", "Grep", pattern="pear", path="src")]),
        user(3, [result("toolu_1", "src/pear.py:1:def parse\nsrc/pear.py:9:def parse_all")]),
        assistant(4, [text("In src/pear.py.")]),
    ]


def compacted() -> list[JsonObject]:
    """The same, compacted, and a question more."""
    boundary = _line("system", 5, None, {"subtype": "compact_boundary", "content": "Conversation compacted"})
    boundary["compactMetadata"] = {"trigger": "auto", "preTokens": 155_000}
    boundary["parentUuid"], boundary["logicalParentUuid"] = None, uuid(4)
    summary = user(6, "The parser of pears is in src/pear.py.", isCompactSummary=True)
    return [*conversation(), boundary, summary, user(7, "And of plums?")]


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def dumped(lines: list[JsonObject]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def written(path: Path, lines: list[JsonObject], *, packed: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(dumped(lines)) if packed else dumped(lines))
    return path


def _line(kind: str, number: int, message: JsonObject | None, more: JsonObject) -> JsonObject:
    line: JsonObject = {
        "parentUuid": uuid(number - 1) if number > 1 else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": PROJECT,
        "sessionId": SESSION,
        "version": "2.0.0",
        "type": kind,
        "uuid": uuid(number),
        "timestamp": f"2026-01-05T10:00:{number:02d}.000Z",
    }
    return line | ({} if message is None else {"message": message}) | more
