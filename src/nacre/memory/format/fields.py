"""The fields of a frontmatter: parsed line by line with their positions, and values written as YAML.

Not a YAML parser: it knows the few forms that memories use and takes everything else as plain text. It is
fast enough for a cold scan and accepts lines that no YAML parser does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeAlias

Style: TypeAlias = Literal["plain", "quoted", "flow", "block", "list", "empty", "map", "flowmap", "pair"]

KNOWN_KEYS = (
    "name", "description", "metadata", "node_type", "type", "originSessionId", "created", "modified",
    "verified", "source", "origin", "pinned", "local-only", "indexed",
)  # fmt: skip
"""In the order in which they are written."""
MAX_DEPTH = 4
"""Deeper maps are read as text, so that a hostile file cannot exhaust the stack."""

# With lookaheads, because early releases of Python 3.11 do not backtrack out of a possessive group.
_KEY = re.compile(
    r"""([ \t]*+)([A-Za-z_][\w-]*+(?=:)|"[^"]*+"|'[^']*+'|[^\s#'"\[\]{}&*!|>%@`,-](?:[^:]++|(?=:\S):)*+)"""
    r"""[ \t]*+:(?:[ \t]++|$)"""
)
_LOOKS_LIKE_KEY = re.compile(r"[ \t]*[A-Za-z_][\w-]*:(?:[ \t]|$)")
_BLOCK = re.compile(r"[|>][-+1-9]{0,2}[ \t]*(?:#.*)?")
_ITEM = re.compile(r"([ \t]*)-(?:[ \t]+|$)")


class Field(NamedTuple):
    """One key of a frontmatter and its position."""

    key: str
    parent: str
    """The keys above it, joined by dots."""
    value: FieldValue
    style: Style
    first: int
    """Its first line, counted from the line after the opening fence."""
    last: int
    """The line after its last one."""
    indent: int
    start: int
    """The column where the value begins on the first line."""
    end: int
    """The column where it ends, if that is on the first line."""

    @property
    def path(self) -> str:
        return f"{self.parent}.{self.key}" if self.parent else self.key


def read_fields(lines: Sequence[str]) -> tuple[list[Field], list[int]]:
    """Return every field, and the numbers of lines that are no key, value, comment or blank line."""
    reader = _FieldReader(lines)
    reader.read_block(0, above=-1, parent="")
    return reader.fields, reader.strays


class _FieldReader:
    """One pass over the lines; each method returns the number of the line to continue with."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.fields: list[Field] = []
        self.strays: list[int] = []

    def read_block(self, at: int, *, above: int, parent: str) -> int:
        """Read the keys that are indented deeper than `above`."""
        lines = self.lines
        while at < len(lines):
            found = _KEY.match(lines[at])
            if found is None:
                bare = lines[at].lstrip(" \t")
                if bare and bare[0] != "#":
                    if len(lines[at]) - len(bare) <= above:
                        return at
                    self.strays.append(at)
                at += 1
            elif found.end(1) <= above:
                return at
            else:
                at = self._read_field(at, found, parent)
        return at

    def _read_field(self, at: int, found: re.Match[str], parent: str) -> int:
        rest = self.lines[at][found.end() :]
        opening = rest[:1]
        if not opening or (opening == "#" and rest[1:2] in {"", " ", "\t"}):
            return self._read_below(at, found, parent)
        if opening in "\"'[{|>":
            after = self._read_marked(at, found, parent)
            if after:
                return after
        after = at + 1
        while after < len(self.lines):
            line = self.lines[after]
            depth = len(line) - len(line.lstrip(" \t"))
            # No YAML value continues with a key, so a line that looks like one was indented by mistake.
            if depth <= found.end(1) or not _says_something(line) or _LOOKS_LIKE_KEY.match(line):
                break
            after += 1
        if after == at + 1:
            length = plain_end(rest)
            return self._add(found, parent, rest[:length], "plain", (at, after), found.end() + length)
        text = join_lines([rest, *self.lines[at + 1 : after]])
        return self._add(found, parent, text, "plain", (at, after), len(self.lines[at]))

    def _read_marked(self, at: int, found: re.Match[str], parent: str) -> int:
        """Read a value in quotes, brackets or block style; 0 when it is not one after all."""
        rest = self.lines[at][found.end() :]
        opening = rest[0]
        below = self._below(at, found.end(1))
        if opening in "|>":
            if not _BLOCK.fullmatch(rest):
                return 0
            text = block_text(rest, self.lines[at + 1 : below])
            return self._add(found, parent, text, "block", (at, below), len(self.lines[at]))
        if opening == "{":
            start = found.end()
            pairs = flow_pairs(rest)
            if pairs is None:
                return 0
            self._add(found, parent, "", "flowmap", (at, at + 1), start + pairs[1])
            path = self.fields[-1].path
            for key, text, begin, end in pairs[0]:
                span = (start + begin, start + end)
                self.fields.append(Field(key, path, text, "pair", at, at + 1, found.end(1), *span))
            return at + 1
        for last in (at + 1, below):
            whole = "\n".join((rest, *self.lines[at + 1 : last]))
            listed = flow_list(whole) if opening == "[" else None
            end = listed[1] if listed else -1 if opening == "[" else quoted_end(whole)
            if end >= 0:
                value = listed[0] if listed else unquote_value(whole[:end])
                style: Style = "flow" if listed else "quoted"
                return self._add(found, parent, value, style, (at, last), found.end() + end)
        return 0

    def _read_below(self, at: int, found: re.Match[str], parent: str) -> int:
        """Read a key with an empty first line: a map, a list or text below it, or no value."""
        indent = found.end(1)
        lines = self.lines
        following = next((n for n in range(at + 1, len(lines)) if _says_something(lines[n])), len(lines))
        line = lines[following] if following < len(lines) else ""
        depth = len(line) - len(line.lstrip(" \t"))
        if line and depth >= indent and _ITEM.match(line):
            return self._read_items(at, found, parent)
        if not line or depth <= indent:
            return self._add(found, parent, "", "empty", (at, at + 1), found.end())
        is_map = _KEY.match(line) and parent.count(".") + bool(parent) < MAX_DEPTH
        if not is_map:
            below = self._below(at, indent)
            text = join_lines(lines[at + 1 : below])
            return self._add(found, parent, text, "block", (at, below), found.end())
        mine = len(self.fields)
        self._add(found, parent, "", "map", (at, at + 1), found.end())
        after = self.read_block(at + 1, above=indent, parent=self.fields[mine].path)
        self.fields[mine] = self.fields[mine]._replace(last=max(field.last for field in self.fields[mine:]))
        return after

    def _read_items(self, at: int, found: re.Match[str], parent: str) -> int:
        items: list[list[str]] = []
        after = at + 1
        last = at + 1
        while after < len(self.lines):
            line = self.lines[after]
            item = _ITEM.match(line)
            if item and item.end(1) >= found.end(1):
                items.append([line[item.end() :]])
            elif _says_something(line):
                if not items or len(line) - len(line.lstrip(" \t")) <= found.end(1):
                    break
                items[-1].append(line)
            after += 1
            last = after if _says_something(line) else last
        values = []
        for parts in items:
            text = "\n".join(parts)
            if text[:1] in {'"', "'"} and (end := quoted_end(text)) >= 0:
                values.append(unquote_value(text[:end]))
            else:
                text = join_lines(parts) if len(parts) > 1 else text
                values.append(text[: plain_end(text)])
        return self._add(found, parent, tuple(values), "list", (at, last), found.end())

    def _add(
        self,
        found: re.Match[str],
        parent: str,
        value: FieldValue,
        style: Style,
        lines: tuple[int, int],
        end: int,
    ) -> int:
        key = unquote_value(found[2].rstrip(" \t"))
        self.fields.append(Field(key, parent, value, style, *lines, found.end(1), found.end(), end))
        return lines[1]

    def _below(self, at: int, indent: int) -> int:
        """Return the line after the last one that is indented deeper, blank lines between included."""
        last = after = at + 1
        while after < len(self.lines):
            line = self.lines[after]
            bare = line.lstrip(" \t")
            if bare and len(line) - len(bare) <= indent:
                break
            after += 1
            last = after if bare else last
        return last


def _says_something(line: str) -> bool:
    bare = line.lstrip(" \t")
    return bool(bare) and bare[0] != "#"


FieldValue: TypeAlias = str | tuple[str, ...]
"""The value of a key: text or a list of texts."""
NewValue: TypeAlias = str | bool | datetime | Sequence[str]
"""A value that can be written."""

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
# A number sign without a blank after it is far more often an issue number than a comment.
_COMMENT = re.compile(r"(?<=[ \t])#(?=[ \t]|$)")
# No pattern here backtracks: a hostile line of a million blanks is read in one pass.
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
    """Return the end of a quoted value, or -1 when the text is no quoted value."""
    found = (_DOUBLE if text[0] == '"' else _SINGLE).match(text)
    return found.end() if found and _AFTER_VALUE.match(text, found.end()) else -1


def unquote_value(text: str) -> str:
    """Return the content of a quoted value; other text is returned unchanged."""
    if text[:1] == '"' and (found := _DOUBLE.fullmatch(text)):
        return _ESCAPE.sub(_unescaped, found[1]) if "\\" in found[1] else _folded(found[1])
    if text[:1] == "'" and (found := _SINGLE.fullmatch(text)):
        return _folded(found[1]).replace("''", "'")
    return text


def plain_end(text: str) -> int:
    """Return the end of a plain value: before a comment and trailing blanks."""
    if "#" in text and (found := _COMMENT.search(text)):
        text = text[: found.start()]
    return len(text.rstrip(" \t"))


def join_lines(lines: Sequence[str]) -> str:
    """Join a value of several lines: line breaks become blanks, empty lines become line breaks."""
    return _folded("\n".join(line.strip(" \t") for line in lines).strip(" \t"))


def block_text(header: str, lines: Sequence[str]) -> str:
    """Return the text of a block scalar (`|` or `>`) without its indentation."""
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
    """Return the items and the end of `[a, b]`, or None when the text is no such list."""
    items: list[str] = []
    at = 1
    while found := _FLOW_PART.match(text, at):
        at = found.end()
        if found[1] or found[2]:
            items.append(unquote_value(found[1]) if found[1] else found[2].strip(" \t\n"))
        elif found[3] == ",":
            return None
        if found[3] == "]":
            return (tuple(items), at) if _AFTER_VALUE.match(text, at) else None
    return None


def flow_pairs(text: str) -> tuple[list[tuple[str, str, int, int]], int] | None:
    """Return key, value, start and end of each pair of `{a: b}`, and the end of the map, or None."""
    pairs: list[tuple[str, str, int, int]] = []
    if empty := re.compile(r"\{[ \t]*\}").match(text):
        return (pairs, empty.end()) if _AFTER_VALUE.match(text, empty.end()) else None
    at = 1
    while found := _FLOW_PAIR.match(text, at):
        at = found.end()
        value = found[2].rstrip(" \t")
        start = found.start(2)
        pairs.append((unquote_value(found[1].rstrip(" \t")), unquote_value(value), start, start + len(value)))
        if found[3] == "}":
            return (pairs, at) if _AFTER_VALUE.match(text, at) else None
    return None


def format_value(value: NewValue, *, quote: str = "", in_flow: bool = False) -> str:
    """Return a value as YAML on one line: plain where that is safe, else quoted."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return format_time(value)
        case str():
            return _written_text(value, quote=quote, in_flow=in_flow)
        case _:
            return "[" + ", ".join(_written_text(item, quote="", in_flow=True) for item in value) + "]"


def format_time(at: datetime) -> str:
    """Return a time as ISO in UTC, to the second."""
    moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def is_plain(text: str, *, in_flow: bool = False) -> bool:
    """Return whether every YAML parser reads this text unquoted as the same string."""
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
    """Fold line breaks like YAML: one becomes a blank, each further one stays."""
    if "\n" not in text:
        return text
    return _FOLD.sub(lambda found: "\n" * (found[0].count("\n") - 1) or " ", text)
