"""Erase what one line of a session log quotes of a memory (M14b).

Text that nacre attached, a tool returned or a model wrote is changed; what the user typed, only on request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nacre.memory.purge.traces import MARK, Traces
from nacre.messages.blocks import Json, JsonObject

KEPT_FIELDS = frozenset(
    """
    type uuid parentUuid logicalParentUuid sessionId timestamp cwd gitBranch version userType id tool_use_id
    signature data role model stop_reason media_type requestId leafUuid messageId target kind blob
    """.split()
)
"""Fields of the format itself, which hold no text."""
TYPED_LINES = frozenset({"last-prompt", "queue-operation", "custom-title"})
"""Lines in which other programs repeat what the user typed."""
MEMORY_TOOLS = frozenset({"remember", "recall", "correct", "forget"})

_ATTACHED = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
"""What a program put into a message of the user."""
_SPACED = re.compile(rb'\s*\{\s*"[^"]*":\s')
"""The beginning of a line whose JSON has spaces behind colons."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a value of a record."""


@dataclass(frozen=True, slots=True)
class CleanedLine:
    """A line without what it quoted."""

    line: bytes
    erased: int
    """Strings that were changed."""
    typed: int
    """Strings that still quote the memory, because the user typed them."""


class LineCleaner:
    """Cleans one log from first line to last, and remembers which tool calls were about the memory."""

    def __init__(self, traces: Traces, *, own_words: bool = False) -> None:
        self._traces = traces
        self._own_words = own_words
        self._calls: set[str] = set()
        self._erased = 0
        self._typed = 0

    def clean(self, line: bytes) -> CleanedLine:
        """Return the line without quotations; a record that quotes nothing keeps every byte."""
        if not self._traces.may_be_in(line):
            return CleanedLine(line, 0, 0)
        record = _parsed(line)
        if record is None:
            text = line.decode("utf-8", "surrogateescape")
            new = self._traces.without(text)
            return CleanedLine(new.encode("utf-8", "surrogateescape"), int(new != text), 0)
        for block in _blocks(record):
            if block.get("type") == "tool_use" and isinstance(call := block.get("id"), str):
                arguments = json.dumps(block.get("input"), ensure_ascii=False)
                if block.get("name") in MEMORY_TOOLS or self._traces.names(arguments):
                    self._calls.add(call)
        self._erased = 0
        self._typed = 0
        cleaned = self._cleaned(record, record, ())
        return CleanedLine(_dumped(cleaned, line) if self._erased else line, self._erased, self._typed)

    def _cleaned(self, record: JsonObject, value: Json, path: Path) -> Json:
        match value:
            case str():
                last = next((step for step in reversed(path) if isinstance(step, str)), "")
                is_format = last in KEPT_FIELDS and "input" not in path
                return value if is_format else self._text(record, value, path)
            case list():
                return [self._cleaned(record, each, (*path, place)) for place, each in enumerate(value)]
            case dict():
                new: JsonObject = {}
                for key, each in value.items():
                    inner = (*path, key)
                    # A key is a word of the format, or a path.
                    name = self._text(record, key, inner) if "/" in key else key
                    new[name] = self._cleaned(record, each, inner)
                if value.get("signature") and new.get("thinking") != value.get("thinking"):
                    # A provider refuses signed reasoning whose words were changed.
                    return {"type": "text", "text": MARK}
                return new
        return value

    def _text(self, record: JsonObject, text: str, path: Path) -> str:
        if _is_typed(record, path):
            new = _ATTACHED.sub(lambda found: self._traces.without(found[0], is_about=True), text)
            if self._own_words:
                new = self._traces.without(new)
            else:
                self._typed += self._traces.are_in(new)
        else:
            new = self._traces.without(text, is_about=self._is_about(record, path))
        self._erased += new != text
        return new

    def _is_about(self, record: JsonObject, path: Path) -> bool:
        """Whether a string was written because of this memory, so that even short lines are recognised."""
        if record.get("isMeta") is True or record.get("type") == "attachment":
            return True
        if path[0] == "toolUseResult":
            return any(block.get("tool_use_id") in self._calls for block in _blocks(record))
        block = _at(record, path[:3])
        return isinstance(block, dict) and (block.get("tool_use_id") or block.get("id")) in self._calls


def clean_json(data: bytes, clean: Callable[[str], str]) -> bytes:
    """Return a JSON file with all its strings cleaned; other text is cleaned as a whole."""
    text = data.decode("utf-8", "surrogateescape")

    def cleaned(value: Json) -> Json:
        match value:
            case str():
                return clean(value)
            case list():
                return [cleaned(each) for each in value]
            case dict():
                return {clean(key): cleaned(each) for key, each in value.items()}
        return value

    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        return clean(text).encode("utf-8", "surrogateescape")
    new = cleaned(value)
    if new == value:
        return data
    indent = re.match(r"[\[{]\n( +)", text)
    dumped = json.dumps(new, ensure_ascii=text.isascii(), indent=len(indent[1]) if indent else None)
    return dumped.encode("utf-8", "surrogateescape") + (b"\n" if text.endswith("\n") else b"")


def _is_typed(record: JsonObject, path: Path) -> bool:
    if record.get("type") in TYPED_LINES:
        return True
    is_program = any(record.get(name) is True for name in ("isMeta", "isCompactSummary", "isSidechain"))
    if record.get("type") != "user" or is_program or path[:2] != ("message", "content"):
        return False
    block = _at(record, path[:3])
    return len(path) == 2 or (isinstance(block, dict) and block.get("type") == "text")


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
        value = json.loads(
            line.decode("utf-8", "surrogateescape"), strict=False, object_pairs_hook=_without_duplicates
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _without_duplicates(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Refuse an object that has a key twice: only the last value would be cleaned."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _dumped(record: Json, like: bytes) -> bytes:
    """Return a record as one line of JSON, spaced, escaped and ended like the line it replaces."""
    separators = (", ", ": ") if _SPACED.match(like) else (",", ":")
    ending = like[len(like.rstrip(b"\r\n")) :]
    text = json.dumps(record, ensure_ascii=like.isascii(), separators=separators)
    try:
        return text.encode("utf-8", "surrogateescape") + ending
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
        return json.dumps(record, separators=separators).encode() + ending
