"""The lines of a frontmatter, read one by one: which key stands where, and what it says.

Fast enough for a cold scan and never at a loss: what no YAML parser accepts is read as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from nacre.memory.format.scalars import (
    FieldValue,
    block_text,
    flow_list,
    flow_pairs,
    joined,
    plain_end,
    quoted_end,
    unquoted,
)

Style: TypeAlias = Literal["plain", "quoted", "flow", "block", "list", "empty", "map", "flowmap", "pair"]

KNOWN_KEYS = (
    "name", "description", "metadata", "node_type", "type", "originSessionId", "created", "modified",
    "verified", "source", "origin", "pinned", "local-only", "indexed",
)  # fmt: skip
"""In the order in which they are written."""
MAX_DEPTH = 4
"""Maps deeper than this are taken as text: no memory has them, and a hostile file must not fill the stack."""

# Looked ahead before a step is taken: early releases of Python 3.11 do not step back in a possessive group.
_KEY = re.compile(
    r"""([ \t]*+)([A-Za-z_][\w-]*+(?=:)|"[^"]*+"|'[^']*+'|[^\s#'"\[\]{}&*!|>%@`,-](?:[^:]++|(?=:\S):)*+)"""
    r"""[ \t]*+:(?:[ \t]++|$)"""
)
_LOOKS_LIKE_KEY = re.compile(r"[ \t]*[A-Za-z_][\w-]*:(?:[ \t]|$)")
_BLOCK = re.compile(r"[|>][-+1-9]{0,2}[ \t]*(?:#.*)?")
_ITEM = re.compile(r"([ \t]*)-(?:[ \t]+|$)")


class Field(NamedTuple):
    """One key of a frontmatter, and where it stands."""

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
    """Every key with its value, and the lines that are neither key, value, comment nor blank."""
    reader = _Reader(lines)
    reader.read_block(0, above=-1, parent="")
    return reader.fields, reader.strays


class _Reader:
    """Goes down the lines once; each method returns the line to go on with."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.fields: list[Field] = []
        self.strays: list[int] = []

    def read_block(self, at: int, *, above: int, parent: str) -> int:
        """The keys indented deeper than `above`."""
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
        while after < len(self.lines) and self._is_more(after, found.end(1)):
            after += 1
        if after == at + 1:
            length = plain_end(rest)
            return self._add(found, parent, rest[:length], "plain", (at, after), found.end() + length)
        text = joined([rest, *self.lines[at + 1 : after]])
        return self._add(found, parent, text, "plain", (at, after), len(self.lines[at]))

    def _read_marked(self, at: int, found: re.Match[str], parent: str) -> int:
        """A value that says by its first character how it is written; 0 when it turns out not to be so."""
        rest = self.lines[at][found.end() :]
        opening = rest[0]
        below = self._below(at, found.end(1))
        if opening in "|>":
            if not _BLOCK.fullmatch(rest):
                return 0
            text = block_text(rest, self.lines[at + 1 : below])
            return self._add(found, parent, text, "block", (at, below), len(self.lines[at]))
        if opening == "{":
            return self._read_pairs(at, found, parent)
        for last in (at + 1, below):
            whole = "\n".join((rest, *self.lines[at + 1 : last]))
            listed = flow_list(whole) if opening == "[" else None
            end = listed[1] if listed else -1 if opening == "[" else quoted_end(whole)
            if end >= 0:
                value = listed[0] if listed else unquoted(whole[:end])
                style: Style = "flow" if listed else "quoted"
                return self._add(found, parent, value, style, (at, last), found.end() + end)
        return 0

    def _read_pairs(self, at: int, found: re.Match[str], parent: str) -> int:
        start = found.end()
        pairs = flow_pairs(self.lines[at][start:])
        if pairs is None:
            return 0
        self._add(found, parent, "", "flowmap", (at, at + 1), start + pairs[1])
        path = self.fields[-1].path
        for key, value, begin, end in pairs[0]:
            span = (start + begin, start + end)
            self.fields.append(Field(key, path, value, "pair", at, at + 1, found.end(1), *span))
        return at + 1

    def _read_below(self, at: int, found: re.Match[str], parent: str) -> int:
        """A key with nothing behind it: a map, a list or words below it, or nothing at all."""
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
            text = joined(lines[at + 1 : below])
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
        value = tuple(_item_text(item) for item in items)
        return self._add(found, parent, value, "list", (at, last), found.end())

    def _add(
        self,
        found: re.Match[str],
        parent: str,
        value: FieldValue,
        style: Style,
        lines: tuple[int, int],
        end: int,
    ) -> int:
        key = unquoted(found[2].rstrip(" \t"))
        self.fields.append(Field(key, parent, value, style, *lines, found.end(1), found.end(), end))
        return lines[1]

    def _is_more(self, at: int, indent: int) -> bool:
        """Whether a line goes on with the plain value above it."""
        line = self.lines[at]
        if line[:1] not in {" ", "\t"} or not _says_something(line):
            return False
        # No YAML value goes on with a key, so a line that looks like one was indented by mistake.
        return len(line) - len(line.lstrip(" \t")) > indent and not _LOOKS_LIKE_KEY.match(line)

    def _below(self, at: int, indent: int) -> int:
        """The line after the last one that is indented deeper; blank lines between are part of it."""
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


def _item_text(parts: list[str]) -> str:
    text = "\n".join(parts)
    if text[:1] in {'"', "'"} and (end := quoted_end(text)) >= 0:
        return unquoted(text[:end])
    text = joined(parts) if len(parts) > 1 else text
    return text[: plain_end(text)]
