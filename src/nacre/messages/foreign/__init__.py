"""Read recordings of other programs as sessions (T7).

One file per format, each with a check (`is_…`) and a reader; ids and times are the same on every reading. The
caller decompresses; may import errors and the rest of messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain
from pathlib import PurePath
from typing import cast

from nacre.errors import ForeignTranscript
from nacre.messages.blocks import Json
from nacre.messages.foreign import anthropic_messages, lean, openai_messages, swe_agent, text_trajectories
from nacre.messages.foreign.recording import ForeignSession, Recording
from nacre.messages.jsonl import UNDATED, decode
from nacre.messages.jsonl_parse import parse_line
from nacre.messages.records import LogProblem

__all__ = ["FORMATS", "ForeignSession", "read_foreign", "recognise"]

HEAD_BYTES = 256 * 1024
"""Bytes of a file that are read to recognise its format: enough for one long first line of a trajectory."""


def _is_claude_code(value: Json) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return bool(value.keys() & {"uuid", "parentUuid", "sessionId", "leafUuid", "messageId"})


_QUESTIONS: dict[str, Callable[[Json], bool]] = {
    "lean": lean.is_lean,
    "claude-code": _is_claude_code,
    "swe-agent": swe_agent.is_swe_agent,
    "text-trajectories": text_trajectories.is_text_trajectory,
    "anthropic-messages": anthropic_messages.is_anthropic,
    "openai-messages": openai_messages.is_openai,
}
"""The narrow checks come first, because every list of messages resembles OpenAI's."""
_READERS: dict[str, Callable[..., list[ForeignSession]]] = {
    "swe-agent": swe_agent.read,
    "text-trajectories": text_trajectories.read,
    "anthropic-messages": anthropic_messages.read,
    "openai-messages": openai_messages.read,
}
FORMATS = tuple(sorted(_QUESTIONS))


def recognise(head: bytes) -> str:
    """Return the format of a file from its first bytes; raise `ForeignTranscript` if it is unknown."""
    values = values_in(head)
    if values and all(_is_message(value) for value in values):
        values = [values]
    for value in values:
        for name, is_this in _QUESTIONS.items():
            if is_this(value):
                return name
    raise ForeignTranscript(f"not a transcript nacre knows; it reads, uncompressed: {', '.join(FORMATS)}")


def read_foreign(data: bytes | Iterable[bytes], *, name: str) -> list[ForeignSession]:
    """Return the sessions of a file, given whole or line by line; their ids derive from `name`, the file's
    name."""
    lines = iter(BytesIO(data) if isinstance(data, bytes) else data)
    head = _head(lines)
    try:
        form = recognise(b"".join(head))
    except ForeignTranscript as error:
        raise ForeignTranscript(f"{name}: {error}") from None
    everything = chain(head, lines)
    stem = PurePath(name).name
    if form == "lean":
        return lean.read(everything, name=stem)
    if form == "claude-code":
        return [_claude_code(everything, stem)]
    values, problems = _values(everything)
    sessions = _READERS[form](values, name=stem)
    if sessions:
        sessions[0].problems.extend(problems)
    return sessions


def _head(lines: Iterator[bytes]) -> list[bytes]:
    head: list[bytes] = []
    size = 0
    for line in lines:
        head.append(line)
        size += len(line)
        if size >= HEAD_BYTES:
            break
    return head


def _claude_code(lines: Iterable[bytes], name: str) -> ForeignSession:
    loaded = decode(lines, subagent=name.startswith("agent-"))
    known = [record.at for record in loaded.records[:1]]
    return ForeignSession(
        session_id=loaded.session_id or Recording(name).session_id,
        records=loaded.records,
        problems=loaded.problems,
        cwd=loaded.cwd,
        started=next((at for at in known if at != UNDATED), None),
    )


def _values(lines: Iterable[bytes]) -> tuple[list[Json], list[LogProblem]]:
    """Return the values of a file: one JSON document or one value per line; lines of single messages are one
    list."""
    data = b"".join(lines)
    try:
        return [parse_line(data)[0]], []
    except ValueError:
        values, problems = _by_line(data)
    if values and all(_is_message(value) for value in values):
        return [values], problems
    return values, problems


def _by_line(data: bytes) -> tuple[list[Json], list[LogProblem]]:
    values: list[Json] = []
    problems: list[LogProblem] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            values.append(parse_line(line)[0])
        except ValueError:
            problems.append(LogProblem("bad_line", f"line {number}", "is not JSON"))
    return values, problems


def _is_message(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "type" not in value


ENOUGH = 20
"""Number of first lines that identify a format, even if some of them are broken."""
LIST_DEPTH = 2
"""Depth of a list of messages inside an object."""


def values_in(head: bytes) -> list[Json]:
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
    kind.
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
            if not whole_items or _is_between_items(open_brackets):
                safe = place + (char != ",")
                closers = "".join(reversed(open_brackets))
    return text[:safe] + closers


def _is_between_items(open_brackets: list[str]) -> bool:
    """Whether this is in the list of messages, which is the document itself or directly under one of its
    keys."""
    return len(open_brackets) <= 1 or (len(open_brackets) == LIST_DEPTH and open_brackets[-1] == "]")
