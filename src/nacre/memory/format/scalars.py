"""One value of a frontmatter: read tolerantly, written so that any YAML reader gets the same words.

Not a YAML parser: it knows the few forms that memories use, and takes whatever else it meets as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

FieldValue: TypeAlias = str | tuple[str, ...]
"""What a key says: words, or a list of words."""
NewValue: TypeAlias = str | bool | datetime | Sequence[str]
"""What can be written under a key."""

_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_FOLD = re.compile(r"(?<![ \t])[ \t]*+\n(?:[ \t]*\n)*[ \t]*+")
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(\n[ \t]*|.))|" + _FOLD.pattern, re.DOTALL
)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
# A number sign without a blank after it is far more often an issue's number than a comment.
_COMMENT = re.compile(r"(?<=[ \t])#(?=[ \t]|$)")
# No pattern here goes back over what it has read: a hostile line of a million blanks is read in one pass.
_FLOW_PART = re.compile(
    r"""[ \t\n]*+(?:("(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+')[ \t\n]*+|([^,\[\]{}"'][^,\[\]{}]*+))?([,\]])"""
)
_FLOW_PAIR = re.compile(
    r"""[ \t\n]*+("[^"]*+"|'[^']*+'|[^,:\[\]{}"'][^,:\[\]{}]*+)[ \t]*+:(?:[ \t]++|(?=[,}]))"""
    r"""("(?:[^"\\]|\\.)*+"[ \t]*+|'(?:[^']|'')*+'[ \t]*+|[^,\[\]{}"'][^,\[\]{}]*+|)([,}])"""
)
_AFTER_VALUE = re.compile(r"[ \t]*(?:#.*)?$")

_UNSAFE_START = tuple("-?:,[]{}#&*!|>'\"%@`=<~")
# YAML calls these unprintable, or takes them for line breaks.
_NEEDS_ESCAPE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_NEEDS_QUOTES = re.compile(r": |:$|[ \t]#|^\s|\s$|\s{2}")
_NEEDS_QUOTES_IN_FLOW = re.compile(r"[,\[\]{}]|:")
_NOT_WORDS = re.compile(
    r"(?:true|false|yes|no|on|off|y|n|null)|[-+]?(?:0[box][0-9a-f_]+|\.?[0-9][0-9_,:.]*(?:e[-+]?[0-9]+)?)|"
    r"[-+]?\.(?:inf|nan)|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?",
    re.IGNORECASE,
)
_WRITTEN_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def quoted_end(text: str) -> int:
    """Where a value that opens with a quote is closed, or -1 when it is no quoted value after all."""
    found = (_DOUBLE if text[0] == '"' else _SINGLE).match(text)
    return found.end() if found and _AFTER_VALUE.match(text, found.end()) else -1


def unquoted(text: str) -> str:
    """The words of a quoted value; anything else is returned as it stands."""
    if text[:1] == '"' and (found := _DOUBLE.fullmatch(text)):
        return _ESCAPE.sub(_unescaped, found[1]) if "\\" in found[1] else _folded(found[1])
    if text[:1] == "'" and (found := _SINGLE.fullmatch(text)):
        return _folded(found[1]).replace("''", "'")
    return text


def plain_end(text: str) -> int:
    """Where the words of a plain value end: before a comment, without trailing blanks."""
    if "#" in text and (found := _COMMENT.search(text)):
        text = text[: found.start()]
    return len(text.rstrip(" \t"))


def joined(lines: Sequence[str]) -> str:
    """A value written over several lines, as one text: breaks become blanks, empty lines breaks."""
    return _folded("\n".join(line.strip(" \t") for line in lines).strip(" \t"))


def block_text(header: str, lines: Sequence[str]) -> str:
    """The text of a block scalar (`|` or `>`), without its indentation."""
    text_lines = [line for line in lines if line.strip(" \t")]
    if not text_lines:
        return ""
    first = text_lines[0]
    digits = re.search(r"[1-9]", header)
    depth = len(first) - len(first.lstrip(" \t")) if digits is None else min(int(digits[0]), len(first))
    bare = [line[depth:] if line[:depth].isspace() else line.lstrip(" \t") for line in lines]
    while bare and not bare[-1].strip(" \t"):
        bare.pop()
    return "\n".join(bare) if header[0] == "|" else _folded("\n".join(bare))


def flow_list(text: str) -> tuple[tuple[str, ...], int] | None:
    """The items of `[a, b]` and where it ends, or None when the text is no such list."""
    items: list[str] = []
    at = 1
    while found := _FLOW_PART.match(text, at):
        at = found.end()
        if found[1] or found[2]:
            items.append(unquoted(found[1]) if found[1] else found[2].strip(" \t\n"))
        elif found[3] == ",":
            return None
        if found[3] == "]":
            return (tuple(items), at) if _AFTER_VALUE.match(text, at) else None
    return None


def flow_pairs(text: str) -> tuple[list[tuple[str, str, int, int]], int] | None:
    """Key, value, start and end of each value of `{a: b}`, and where it ends; None when it is no such map."""
    pairs: list[tuple[str, str, int, int]] = []
    if empty := re.compile(r"\{[ \t]*\}").match(text):
        return (pairs, empty.end()) if _AFTER_VALUE.match(text, empty.end()) else None
    at = 1
    while found := _FLOW_PAIR.match(text, at):
        at = found.end()
        value = found[2].rstrip(" \t")
        start = found.start(2)
        pairs.append((unquoted(found[1].rstrip(" \t")), unquoted(value), start, start + len(value)))
        if found[3] == "}":
            return (pairs, at) if _AFTER_VALUE.match(text, at) else None
    return None


def written(value: NewValue, *, quote: str = "", in_flow: bool = False) -> str:
    """The value as YAML on one line: plain where that is safe, in the quotes found where there were some."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return stamp(value)
        case str():
            return _written_text(value, quote=quote, in_flow=in_flow)
        case _:
            return "[" + ", ".join(_written_text(item, quote="", in_flow=True) for item in value) + "]"


def stamp(at: datetime) -> str:
    """ISO in UTC, to the second: nobody needs to know a memory's age more closely."""
    moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def is_plain(text: str, *, in_flow: bool = False) -> bool:
    """Whether every YAML reader takes this text for these very words, without quotes."""
    return not (
        not text
        or text.startswith(_UNSAFE_START)
        or _NEEDS_QUOTES.search(text)
        or _NEEDS_ESCAPE.search(text)
        or _NOT_WORDS.fullmatch(text)
        or (in_flow and _NEEDS_QUOTES_IN_FLOW.search(text))
    )


def _written_text(text: str, *, quote: str, in_flow: bool) -> str:
    if not quote and is_plain(text, in_flow=in_flow):
        return text
    if quote == "'" and not _NEEDS_ESCAPE.search(text):
        return "'" + text.replace("'", "''") + "'"
    escaped = "".join(_WRITTEN_ESCAPES.get(char, char) for char in text)
    return '"' + _NEEDS_ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'


def _unescaped(found: re.Match[str]) -> str:
    if found[0][0] != "\\":
        return _folded(found[0])
    digits = found[1] or found[2] or found[3]
    if digits is None:
        return "" if found[4][0] == "\n" else _ESCAPES.get(found[4], found[0])
    code = int(digits, 16)
    is_character = code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else "\ufffd"


def _folded(text: str) -> str:
    """Breaks as YAML reads them: one is a blank, each further one is a break."""
    if "\n" not in text:
        return text
    return _FOLD.sub(lambda found: "\n" * (found[0].count("\n") - 1) or " ", text)
