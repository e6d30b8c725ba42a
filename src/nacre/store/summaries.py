"""Summarise a session log by a scan of its bytes: counts by token, JSON for a handful of lines.

A JSON string escapes its quotes, so a token in bare quotes is structure and never part of a text.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.user_quotes import PROGRAM_OPENINGS
from nacre.store.lines import line_around, open_log, parsed, whole_lines

TITLE_CHARS = 80
"""A title is one line of a list."""
HEAD_LINES = 40
"""Number of first lines parsed for the directory, the start and the first message."""

_MESSAGES = frozenset({b"user", b"assistant"})
_TYPE = re.compile(rb'"type":\s?"(user|assistant|summary|custom-title|ai-title)"')
_REPLY = re.compile(rb'"type":\s?"assistant"')
_BOUNDARY = b'"compact_boundary"'
_UNDONE = b'"kind":"undone"'
_ASIDE = re.compile(rb'"isSidechain":\s?true|"<synthetic>"')
"""Replies outside the conversation: another agent's, or written by the client itself."""
_TITLE_TYPES = ("custom-title", "ai-title", "summary")
"""Records that name a session, the preferred one first; the last of each counts."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One line of a list of sessions."""

    session: str
    cwd: str | None
    started: datetime | None
    modified: datetime
    messages: int
    """User and assistant records, tool results included; one reply may be several records."""
    tokens: int
    """Context size after the last reply or compaction; zero if unknown."""
    compactions: int
    bytes: int
    title: str | None
    """Its name if it has one, else the start of the user's first message."""
    slug: str
    path: Path


@dataclass(slots=True)
class _Findings:
    """What the scan has found so far."""

    messages: int = 0
    compactions: int = 0
    cwd: str | None = None
    started: datetime | None = None
    opening: str | None = None
    lines_parsed: int = 0
    usage: bytes = b""
    names: dict[str, str] = field(default_factory=dict)


def summarise(path: Path) -> SessionSummary:
    """Read one log once, in bounded memory."""
    with open_log(path) as file:
        found = os.fstat(file.fileno())
    seen = _Findings()
    for _, block in whole_lines(path, end=found.st_size):
        # Messages and names in one pass: each further pass would cost as much as reading the file.
        for match in _TYPE.finditer(block):
            if block[max(0, match.start() - 3) : match.start()].replace(b" ", b"").endswith(b":{"):
                continue  # nested in another record, such as a progress report
            if match[1] in _MESSAGES:
                seen.messages += 1
            else:
                record = parsed(line_around(block, match.start())[1])
                names = (_text(record.get(key)) for key in ("customTitle", "aiTitle", "title", "summary"))
                if name := next(filter(None, names), None):
                    seen.names[_text(record.get("type")) or ""] = one_line(name, TITLE_CHARS)
        seen.compactions += block.count(_BOUNDARY)
        seen.usage = _last_usage(block) or seen.usage
        if seen.lines_parsed < HEAD_LINES:
            _read_head(block, seen)
    named = [seen.names[kind] for kind in _TITLE_TYPES if kind in seen.names]
    return SessionSummary(
        session=path.stem,
        cwd=seen.cwd,
        started=seen.started,
        modified=datetime.fromtimestamp(found.st_mtime, UTC),
        messages=seen.messages,
        tokens=_total(parsed(seen.usage)),
        compactions=seen.compactions,
        bytes=found.st_size,
        title=named[0] if named else seen.opening,
        slug=path.parent.name,
        path=path,
    )


def directory_of(path: Path) -> str | None:
    """Return the working directory that the first lines of a log name; None if they name none."""
    with open_log(path) as file:
        found = (_text(parsed(line).get("cwd")) for line in islice(file, HEAD_LINES))
        return next(filter(None, found), None)


def _read_head(block: bytes, seen: _Findings) -> None:
    at = 0
    while at < len(block) and seen.lines_parsed < HEAD_LINES:
        if seen.cwd and seen.started and seen.opening:
            return
        _, line = line_around(block, at)
        at += len(line) + 1
        seen.lines_parsed += 1
        record = parsed(line)
        seen.cwd = seen.cwd or _text(record.get("cwd"))
        seen.started = seen.started or moment(record.get("timestamp"))
        seen.opening = seen.opening or _first_prompt(record)


def _first_prompt(record: JsonObject) -> str | None:
    if record.get("type") != "user" or record.get("isMeta") is True or record.get("isSidechain") is True:
        return None
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        blocks = (block for block in content if isinstance(block, dict) and block.get("type") == "text")
        content = next((block.get("text") for block in blocks), None)
    words = _text(content)
    # Commands and injected context arrive in tags; the user did not write them.
    is_program_s = not words or words.lstrip().startswith(("<", *PROGRAM_OPENINGS))
    return None if is_program_s else one_line(words or "", TITLE_CHARS)


def _last_usage(block: bytes) -> bytes:
    """Return the last line with the size of the main thread, unparsed: a later one may follow."""
    at = len(block)
    while (at := max(block.rfind(one, 0, at) for one in (b'"usage"', _BOUNDARY, _UNDONE))) >= 0:
        begin, line = line_around(block, at)
        # Notes contain the usage of side requests, and a boundary carries some of them.
        if _BOUNDARY in line or _UNDONE in line or (_REPLY.search(line) and not _ASIDE.search(line)):
            return line
        at = begin
    return b""


def _total(record: JsonObject) -> int:
    """Return the size, after a compaction the one it reports; 0 if a program or an undo reports none."""
    if isinstance(boundary := record.get("compactMetadata"), dict):
        return left if isinstance(left := boundary.get("postTokens"), int) else 0
    message = record.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict):
        return 0
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return sum(count for name in names if isinstance(count := usage.get(name), int))


def moment(value: Json) -> datetime | None:
    """Parse a timestamp of a log, or return None."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read and read.tzinfo is None else read


def one_line(text: str, most: int) -> str:
    """Return the text on one line, cut to size."""
    flat = " ".join(text[: most * 8].split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
