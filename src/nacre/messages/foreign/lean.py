"""Claude Code sessions in a lean form: one short record per line, parents by line number (T7).

Each line is converted to Claude Code's own shape and read like any other log, so that both give the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.foreign.recording import ForeignSession, rest
from nacre.messages.jsonl import LogReader
from nacre.messages.jsonl_encode import derived_id
from nacre.messages.jsonl_parse import parse_line, parse_time
from nacre.messages.records import LogProblem

USAGE_NAMES = {
    "input": "input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
    "output": "output_tokens",
}
FLAG_NAMES = {"meta": "isMeta", "compact_summary": "isCompactSummary", "sidechain": "isSidechain"}
OWN_FIELDS = ("i", "p", "t", "type", "role", "content", "msg", "model", "usage", "stop_reason", *FLAG_NAMES)


def is_lean(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() >= {"i", "p", "t", "type"}


def read(lines: Iterable[bytes], *, name: str) -> list[ForeignSession]:
    """Return the one session of a file; its full id is not in the file, so it is derived from the name."""
    session_id = derived_id("session", name, "0")
    reader = LogReader(session_id=session_id)
    problems: list[LogProblem] = []
    started = None
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            value, _ = parse_line(raw)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            problems.append(LogProblem("bad_line", f"line {number}", "is not a JSON object"))
            continue
        started = started or parse_time(value.get("t"))
        reader.take(_as_claude_code(value, name, session_id))
    loaded = reader.done()
    return [
        ForeignSession(
            session_id=session_id,
            records=loaded.records,
            problems=[*problems, *loaded.problems],
            started=started,
        )
    ]


def _as_claude_code(value: JsonObject, name: str, session_id: str) -> JsonObject:
    line: JsonObject = {"type": value.get("type"), "sessionId": session_id, "timestamp": value.get("t")}
    line["uuid"] = _record_id(name, value.get("i"))
    if value.get("p") is not None:
        # A missing parent is no problem here: it went with a line that was left out.
        line["parentUuid"] = _record_id(name, value["p"])
    line |= {FLAG_NAMES[flag]: value[flag] for flag in FLAG_NAMES if flag in value}
    if value.get("type") == "user" or value.get("type") == "assistant":
        line["message"] = _message(value)
        return line | rest(value, *OWN_FIELDS)
    return line | rest(value, "i", "p", "t", "type", *FLAG_NAMES)


def _record_id(name: str, place: Json) -> str:
    return derived_id("record", name, "0", str(place))


def _message(value: JsonObject) -> JsonObject:
    message: JsonObject = {"role": value.get("role"), "content": value.get("content")}
    if value.get("type") == "assistant":
        usage = value.get("usage")
        message |= {
            "id": f"msg_{value['msg']}" if "msg" in value else None,
            "model": value.get("model"),
            "stop_reason": value.get("stop_reason"),
            "usage": {USAGE_NAMES.get(key, key): count for key, count in usage.items()}
            if isinstance(usage, dict)
            else None,
        }
    return message
