"""Find the strings of a line of JSON, so that one can be changed and every other byte stays (M14b)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the outermost value inwards."""

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
_OPENING = b"{["
_CLOSING = b"}]"


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """One string of a line, with its quotes."""

    path: Path
    """Path of the string; for a key, that of its value."""
    start: int
    end: int
    is_key: bool = False


@dataclass(slots=True)
class _Inside:
    """An open object or list."""

    is_object: bool
    at: str | int
    wants_key: bool


def strings_in(line: bytes) -> Iterator[StringLiteral]:
    """Yield every string of a line in order; of a line that is not JSON, what looks like strings."""
    inside: list[_Inside] = []
    for token in _TOKEN.finditer(line):
        mark = token[0]
        top = inside[-1] if inside else None
        if mark in _CLOSING:
            if inside:
                inside.pop()
        elif mark in _OPENING:
            inside.append(_Inside(mark == b"{", "" if mark == b"{" else 0, mark == b"{"))
        elif mark == b"," and top:
            top.at = top.at + 1 if isinstance(top.at, int) else ""
            top.wants_key = top.is_object
        elif mark[:1] == b'"':
            is_key = bool(top and top.wants_key)
            if top and is_key:
                top.at = read_literal(mark) or ""
                top.wants_key = False
            yield StringLiteral(tuple(each.at for each in inside), token.start(), token.end(), is_key)


def read_literal(literal: bytes) -> str | None:
    """Return the value of a string literal; None if it is invalid."""
    try:
        value = json.loads(literal.decode("utf-8", "surrogateescape"), strict=False)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def write_literal(text: str, *, like: bytes) -> bytes:
    """Return a string literal, escaped like the one it replaces."""
    written = json.dumps(text, ensure_ascii=like.isascii())
    try:
        return written.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return json.dumps(text).encode()
