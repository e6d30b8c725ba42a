"""Search session logs: streaming, and parsing only lines that could match (T7)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import TranscriptError
from nacre.messages.blocks import Json, JsonObject
from nacre.store.lines import line_around, whole_lines
from nacre.store.summaries import one_line, parsed

SNIPPET_CHARS = 160
"""Characters around a match: two lines of a terminal."""
MIN_LITERAL = 3
"""Characters. A shorter run of letters is on nearly every line and would filter nothing."""

_UNSEARCHED = frozenset({"signature", "data", "id", "tool_use_id", "type", "media_type"})
_TEXT_FIELDS = ("content", "summary", "customTitle", "aiTitle", "title")
_ESCAPED = re.compile(r"""[^ !#-.0-9:;=?@A-Z\[\]^_`a-z{|}~]""")
"""Characters that some JSON writers escape: quotes, backslash, slash, <, >, & and all outside ASCII."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of a log that matches."""

    session: str
    path: Path
    line: int
    """Counted from one."""
    role: str | None
    snippet: str
    record: str | None = None
    """Id of the record, by which a message in view is identified."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A pattern for texts, and a test of raw bytes that every matching line passes.

    The test handles ASCII case only: that `re` lets the long ſ match an s is not worth a slower search.
    """

    pattern: re.Pattern[str]
    candidate: re.Pattern[bytes] | None
    lowered: bool = False
    """Whether the test is for bytes in lower case, which is many times faster than one that ignores case."""


def query(text: str, *, regex: bool = False, ignore_case: bool = True) -> LogQuery:
    """Return a query for plain text or a regular expression."""
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    if not text:
        raise TranscriptError("nothing to search for: give some text")
    try:
        pattern = re.compile(text if regex else re.escape(text), flags)
    except re.error as error:
        raise TranscriptError(
            f"{text!r} is not a regular expression: {error}; search for plain text?"
        ) from error
    literal = _sure_literal(text) if regex else _longest(_ESCAPED.split(text))
    if literal:
        sure = literal.lower() if ignore_case else literal
        return LogQuery(pattern, re.compile(re.escape(sure.encode())), lowered=ignore_case)
    return LogQuery(pattern, None if regex else _either_spelling(text, ignore_case))


def search_log(
    path: Path, wanted: LogQuery, *, clean: Callable[[str], str] = str, with_added: bool = False
) -> Iterator[Hit]:
    """Yield the matching lines of one log, in order, except those that match only in what `clean` removes.

    Text that a program added, such as the memories ahead of a conversation, is searched `with_added` only.
    """
    lines_before = 0
    for _, block in whole_lines(path):
        counted = 0
        number = lines_before
        for begin, line in _candidates(block, wanted):
            number += block.count(b"\n", counted, begin)
            counted = begin
            record = parsed(line)
            if record.get("isMeta") is True and not with_added:
                continue
            texts = (clean(each) for each in _texts(record) if wanted.pattern.search(each))
            text = next((each for each in texts if wanted.pattern.search(each)), None)
            if text is not None:
                snippet = _snippet(text, wanted.pattern)
                yield Hit(path.stem, path, number + 1, _role(record), snippet, _id(record))
        lines_before += block.count(b"\n")


def _candidates(block: bytes, wanted: LogQuery) -> Iterator[tuple[int, bytes]]:
    tested = block.lower() if wanted.lowered else block
    at = 0
    while at < len(block):
        if wanted.candidate is not None:
            match = wanted.candidate.search(tested, at)
            if match is None:
                return
            at = match.start()
        begin, line = line_around(block, at)
        yield begin, line
        at = begin + len(line) + 1


def _either_spelling(text: str, ignore_case: bool) -> re.Pattern[bytes] | None:
    """Return a test for text without a plain run: as UTF-8 or as escapes, cased letters in either case."""
    if ignore_case and text.lower() != text.upper():
        return None
    raw = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    escaped = json.dumps(text)[1:-1].encode()
    if b"/" in raw or b"<" in raw or b">" in raw or b"&" in raw:
        return None
    return re.compile(re.escape(raw) + b"|(?i:" + re.escape(escaped) + b")")


def _sure_literal(pattern: str) -> str | None:
    """Return a run of characters in every match of a regular expression, if one is easily found.

    Reads the top level only: groups, classes and alternatives are skipped, not parsed.
    """
    if "|" in pattern or "(?" in pattern:
        return None
    flat = re.sub(r"\\[^\W\d_]|\\\d+|\\.", "\0", pattern, flags=re.DOTALL)
    flat = re.sub(r"\[\^?\]?[^\]]*\]", "\0", flat)
    while "(" in flat:
        shorter = re.sub(r"\([^()]*\)", "\0", flat)
        if shorter == flat:
            return None
        flat = shorter
    flat = re.sub(r".(?:[*?]|\{[^}]*\})", "\0", flat, flags=re.DOTALL)
    return _longest(re.split(r"[\0.^$+*?{}\[\]]|" + _ESCAPED.pattern, flat))


def _longest(runs: list[str]) -> str | None:
    run = max(runs, key=len, default="")
    return run if len(run) >= MIN_LITERAL else None


def _texts(record: JsonObject) -> Iterator[str]:
    """Return the readable text of a record: not its ids, signatures and images."""
    message = record.get("message")
    if isinstance(message, dict):
        yield from _strings(message.get("content"))
    for name in _TEXT_FIELDS:
        yield from _strings(record.get(name))


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in _UNSEARCHED:
                yield from _strings(item)


def _role(record: JsonObject) -> str | None:
    message = record.get("message")
    role = message.get("role") if isinstance(message, dict) else record.get("type")
    return role if isinstance(role, str) else None


def _id(record: JsonObject) -> str | None:
    found = record.get("uuid")
    return found if isinstance(found, str) else None


def _snippet(text: str, pattern: re.Pattern[str]) -> str:
    match = pattern.search(text)
    at = match.start() if match else 0
    start = max(0, at - SNIPPET_CHARS // 3)
    return ("…" if start else "") + one_line(text[start : start + SNIPPET_CHARS * 2], SNIPPET_CHARS)
