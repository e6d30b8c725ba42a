"""One line of a session's log: which of its strings quote a memory, and the line without that (M14b).

What nacre attached, a tool answered or a model wrote is changed; what a person typed only when they say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nacre.memory.purge.traces import MARK, Traces
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.literals import Path, StringLiteral, read_literal, span_of, strings_in, write_literal

KEPT_FIELDS = frozenset(
    """
    type uuid parentUuid logicalParentUuid sessionId timestamp cwd gitBranch version userType id tool_use_id
    signature data role model stop_reason media_type requestId leafUuid messageId target kind blob
    """.split()
)
"""What holds a log together, or is nobody's text."""
TYPED_LINES = frozenset({"last-prompt", "queue-operation", "custom-title"})
"""Lines in which other programs repeat what the person typed."""
MEMORY_TOOLS = frozenset({"remember", "recall", "correct", "forget"})
ERASED_BLOCK = json.dumps({"type": "text", "text": MARK}).encode()
"""Stands for reasoning that was signed: with other words its signature would be wrong, and be refused."""

_ATTACHED = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
"""What a program put into a message of the person's."""


@dataclass(frozen=True, slots=True)
class CleanedLine:
    """A line without what it quoted."""

    line: bytes
    erased: int
    """Strings that are different now."""
    typed: int
    """Strings in which the person's own words stay."""


class LineCleaner:
    """Goes through one log from first line to last, and remembers which calls were about the memory."""

    def __init__(self, traces: Traces, *, own_words: bool = False) -> None:
        self._traces = traces
        self._own_words = own_words
        self._calls: set[str] = set()

    def clean(self, line: bytes) -> CleanedLine:
        """The line as it shall be; its line end stays."""
        if not self._traces.may_be_in(line):
            return CleanedLine(line, 0, 0)
        record = _parsed(line)
        if record is None:
            text = line.decode("utf-8", "surrogateescape")
            new = self._traces.without(text)
            return CleanedLine(new.encode("utf-8", "surrogateescape"), int(new != text), 0)
        self._note_calls(record)
        edits = []
        typed = 0
        for literal in strings_in(line):
            edit, is_left = self._edit(record, literal, line)
            typed += is_left
            edits += [edit] if edit else []
        return CleanedLine(_edited(line, edits), len(edits), typed)

    def _edit(
        self, record: JsonObject, literal: StringLiteral, line: bytes
    ) -> tuple[tuple[int, int, bytes] | None, bool]:
        """What a string becomes, if it changes, and whether words of the person's stay in it."""
        raw = line[literal.start : literal.end]
        text = read_literal(raw)
        if not text or _is_kept(literal):
            return None, False
        if _is_typed(record, literal.path):
            new = self._without_attached(text)
            is_left = self._traces.are_in(new)
            if is_left and self._own_words:
                new = self._traces.without(new)
                is_left = False
        else:
            new = self._traces.without(text, is_about=self._is_about(record, literal.path))
            is_left = False
        if new == text:
            return None, is_left
        if _is_signed(record, literal.path):
            start, end = span_of(line, literal.path[:-1])
            return (start, end, ERASED_BLOCK), is_left
        return (literal.start, literal.end, write_literal(new, like=raw)), is_left

    def _without_attached(self, text: str) -> str:
        return _ATTACHED.sub(lambda found: self._traces.without(found[0], is_about=True), text)

    def _note_calls(self, record: JsonObject) -> None:
        for block in _blocks(record):
            call = block.get("id")
            if block.get("type") != "tool_use" or not isinstance(call, str):
                continue
            told = json.dumps(block.get("input"), ensure_ascii=False)
            if block.get("name") in MEMORY_TOOLS or self._traces.names(told):
                self._calls.add(call)

    def _is_about(self, record: JsonObject, path: Path) -> bool:
        """Whether a string was written because of this memory, so that even its short lines are known."""
        if record.get("isMeta") is True or record.get("type") == "attachment":
            return True
        block = _at(record, path[:3])
        if path[0] == "toolUseResult":
            return any(one.get("tool_use_id") in self._calls for one in _blocks(record))
        if isinstance(block, dict):
            return (block.get("tool_use_id") or block.get("id")) in self._calls
        return False


def _is_kept(literal: StringLiteral) -> bool:
    if literal.is_key:
        # A key is a word of the format, or a path.
        return "/" not in str(literal.path[-1])
    last = next((step for step in reversed(literal.path) if isinstance(step, str)), "")
    return last in KEPT_FIELDS and "input" not in literal.path


def _is_typed(record: JsonObject, path: Path) -> bool:
    if record.get("type") in TYPED_LINES:
        return True
    is_program = any(record.get(name) is True for name in ("isMeta", "isCompactSummary", "isSidechain"))
    if record.get("type") != "user" or is_program or path[:2] != ("message", "content"):
        return False
    block = _at(record, path[:3])
    return len(path) == 2 or (isinstance(block, dict) and block.get("type") == "text")


def _is_signed(record: JsonObject, path: Path) -> bool:
    block = _at(record, path[:-1])
    return path[-1:] == ("thinking",) and isinstance(block, dict) and bool(block.get("signature"))


def _at(record: Json, path: Path) -> Json:
    for step in path:
        if isinstance(record, dict) and isinstance(step, str):
            record = record.get(step)
        elif isinstance(record, list) and isinstance(step, int) and step < len(record):
            record = record[step]
        else:
            return None
    return record


def _blocks(record: JsonObject) -> Iterator[JsonObject]:
    content = _at(record, ("message", "content"))
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _parsed(line: bytes) -> JsonObject | None:
    try:
        value = json.loads(line.decode("utf-8", "surrogateescape"), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _edited(line: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for start, end, new in sorted(edits, reverse=True):
        line = line[:start] + new + line[end:]
    return line
