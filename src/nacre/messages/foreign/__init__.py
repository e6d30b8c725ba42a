"""Read recordings of other programs as sessions (T7).

Ids and times are the same on every reading. The caller decompresses; may import errors and the rest of
messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import chain
from pathlib import PurePath
from typing import cast

from nacre.errors import ForeignTranscript
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.foreign import formats
from nacre.messages.foreign.formats import ForeignSession, Recording, rest
from nacre.messages.jsonl import UNDATED, LogReader, decode
from nacre.messages.jsonl_encode import derived_id
from nacre.messages.jsonl_parse import parse_line, parse_time
from nacre.messages.records import LogProblem

__all__ = ["FORMATS", "ForeignSession", "read_foreign", "recognise"]

HEAD_BYTES = 256 * 1024
"""Bytes of a file that are read to recognise its format: enough for one long first line of a trajectory."""
ENOUGH = 20
"""Number of first lines that identify a format, even if some of them are broken."""
LIST_DEPTH = 2
"""Depth of a list of messages inside an object."""

USAGE_NAMES = {
    "input": "input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
    "output": "output_tokens",
}
FLAG_NAMES = {"meta": "isMeta", "compact_summary": "isCompactSummary", "sidechain": "isSidechain"}
MESSAGE_NAMES = ("role", "content", "msg", "model", "usage", "stop_reason")
"""Fields of a message in the lean form of Claude Code's sessions."""
CLAUDE_CODE_NAMES = frozenset({"uuid", "parentUuid", "sessionId", "leafUuid", "messageId"})

_CHECKS: dict[str, Callable[[Json], bool]] = {
    "lean": lambda value: isinstance(value, dict) and value.keys() >= {"i", "p", "t", "type"},
    "claude-code": lambda value: (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and bool(value.keys() & CLAUDE_CODE_NAMES)
    ),
    "swe-agent": formats.is_swe_agent,
    "text-trajectories": formats.is_text_trajectory,
    "anthropic-messages": formats.is_anthropic,
    "openai-messages": formats.is_openai,
}
"""The narrow checks come first, because every list of messages resembles OpenAI's."""
_READERS: dict[str, Callable[[Json, Recording], None]] = {
    "swe-agent": formats.read_swe_agent,
    "text-trajectories": formats.read_text_trajectory,
    "anthropic-messages": formats.read_anthropic,
    "openai-messages": formats.read_openai,
}
FORMATS = tuple(sorted(_CHECKS))


def recognise(head: bytes) -> str:
    """Return the format of a file from its first bytes; raise `ForeignTranscript` if it is unknown."""
    for value in _as_conversation(_first_values(head)):
        for name, is_this in _CHECKS.items():
            if is_this(value):
                return name
    raise ForeignTranscript(f"not a transcript nacre knows; it reads, uncompressed: {', '.join(FORMATS)}")


def read_foreign(data: bytes | Iterable[bytes], *, name: str) -> list[ForeignSession]:
    """Return the sessions of a file, given whole or line by line; their ids derive from `name`, the file's
    name."""
    lines = iter(BytesIO(data) if isinstance(data, bytes) else data)
    head: list[bytes] = []
    size = 0
    while size < HEAD_BYTES and (line := next(lines, None)) is not None:
        head.append(line)
        size += len(line)
    try:
        form = recognise(b"".join(head))
    except ForeignTranscript as error:
        raise ForeignTranscript(f"{name}: {error}") from None
    everything = chain(head, lines)
    stem = PurePath(name).name
    if form == "lean":
        return [_read_lean(everything, stem)]
    if form == "claude-code":
        return [_read_claude_code(everything, stem)]
    values, problems = _all_values(b"".join(everything))
    sessions = []
    for number, value in enumerate(values):
        recording = Recording(stem, number)
        _READERS[form](value, recording)
        sessions.append(recording.done())
    if sessions:
        sessions[0].problems.extend(problems)
    return sessions


def _read_claude_code(lines: Iterable[bytes], name: str) -> ForeignSession:
    loaded = decode(lines, subagent=name.startswith("agent-"))
    return ForeignSession(
        session_id=loaded.session_id or Recording(name).session_id,
        records=loaded.records,
        problems=loaded.problems,
        cwd=loaded.cwd,
        started=next((record.at for record in loaded.records[:1] if record.at != UNDATED), None),
    )


def _read_lean(lines: Iterable[bytes], name: str) -> ForeignSession:
    """Return a Claude Code session in a lean form: one short record per line, parents by line number.

    Each line is converted to Claude Code's own shape and read like any other log, so that both give the same.
    The full id of the session is not in the file, so it is derived from the name.
    """
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
    problems += loaded.problems
    return ForeignSession(session_id=session_id, records=loaded.records, problems=problems, started=started)


def _as_claude_code(value: JsonObject, name: str, session_id: str) -> JsonObject:
    kind = value.get("type")
    line: JsonObject = {"type": kind, "sessionId": session_id, "timestamp": value.get("t")}
    line["uuid"] = derived_id("record", name, "0", str(value.get("i")))
    if value.get("p") is not None:
        # A missing parent is no problem here: it went with a line that was left out.
        line["parentUuid"] = derived_id("record", name, "0", str(value["p"]))
    line |= {FLAG_NAMES[flag]: value[flag] for flag in FLAG_NAMES if flag in value}
    own = ("i", "p", "t", "type", *FLAG_NAMES)
    if kind != "user" and kind != "assistant":
        return line | rest(value, *own)
    message: JsonObject = {"role": value.get("role"), "content": value.get("content")}
    if kind == "assistant":
        usage = value.get("usage")
        message |= {
            "id": f"msg_{value['msg']}" if "msg" in value else None,
            "model": value.get("model"),
            "stop_reason": value.get("stop_reason"),
            "usage": {USAGE_NAMES.get(key, key): count for key, count in usage.items()}
            if isinstance(usage, dict)
            else None,
        }
    line["message"] = message
    return line | rest(value, *own, *MESSAGE_NAMES)


def _as_conversation(values: list[Json]) -> list[Json]:
    """Return the values; lines of single messages as one list."""
    are_messages = bool(values) and all(
        isinstance(value, dict) and isinstance(value.get("role"), str) and "type" not in value
        for value in values
    )
    return [values] if are_messages else values


def _all_values(data: bytes) -> tuple[list[Json], list[LogProblem]]:
    """Return the values of a file: one JSON document or one value per line."""
    try:
        return [parse_line(data)[0]], []
    except ValueError:
        pass
    values: list[Json] = []
    problems: list[LogProblem] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            values.append(parse_line(line)[0])
        except ValueError:
            problems.append(LogProblem("bad_line", f"line {number}", "is not JSON"))
    return _as_conversation(values), problems


def _first_values(head: bytes) -> list[Json]:
    """Return the whole document if it is one, else the values of the first lines, else the start of a
    document."""
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if "\x00" in text:
        return []
    whole = _parsed(text)
    if whole is not None:
        return [whole]
    lines = [line for line in text.split("\n") if line.strip()][:ENOUGH]
    values = [value for line in lines if isinstance(value := _parsed(line), dict)]
    if values:
        return cast("list[Json]", values)
    started = (_parsed(_closed(text, whole_items=True)), _parsed(_closed(text, whole_items=False)))
    return [value for value in started if value is not None]


def _parsed(text: str) -> Json:
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return None


def _closed(text: str, *, whole_items: bool) -> str:
    """Return the truncated document with its open brackets closed.

    With `whole_items` an incomplete message is left out: half of one may lack the field that identifies its
    kind. The list of messages is the document itself or directly under one of its keys.
    """
    open_brackets: list[str] = []
    safe = 0
    closers = ""
    in_string = escaped = False
    for place, char in enumerate(text):
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "{[}],":
            if char in "{[":
                open_brackets.append("}" if char == "{" else "]")
            elif char in "}]":
                open_brackets[-1:] = []
            depth = len(open_brackets)
            if not whole_items or depth <= 1 or (depth == LIST_DEPTH and open_brackets[-1] == "]"):
                safe = place + (char != ",")
                closers = "".join(reversed(open_brackets))
    return text[:safe] + closers
