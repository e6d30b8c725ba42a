"""Markdown files with frontmatter: parsed tolerantly, and edited without changing any other byte (M11).

Parsing never fails: `MarkdownFile.problems` lists what is wrong with a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from nacre.memory.format.fields import KNOWN_KEYS, Field, FieldValue, NewValue, format_value, read_fields

HEADER_LINES = 30
"""A scan reads no further (R3), so recall ignores frontmatter below this line."""
NESTED_UNDER = "metadata"
"""The key under which one of the two common layouts puts all fields but name and description."""

Oddity: TypeAlias = Literal["encoding", "unterminated", "long", "not-a-map", "stray", "duplicate", "late"]

_OPENING = re.compile(r"\ufeff?((?:[ \t]*\r?\n)*)---[ \t]*(?:\r?\n|\Z)")
_CLOSING = re.compile(r"---[ \t]*(?:\r?\n|\Z)")
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*")
_TOP_KEYS = ("name", "description")


@dataclass(frozen=True, slots=True)
class FrontmatterProblem:
    """A problem with a frontmatter, with a message for the owner of the file."""

    kind: Oddity
    message: str


@dataclass(frozen=True, slots=True)
class _Header:
    """The position of the frontmatter in the text."""

    begin: int
    end: int
    """End of the lines between the fences."""
    body: int
    is_closed: bool
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A parsed Markdown file; every edit returns new bytes."""

    data: bytes
    fields: Mapping[str, FieldValue]
    """By name; a key below `metadata` has its own name, one below another key is `parent.key`."""
    problems: tuple[FrontmatterProblem, ...]
    _text: str
    _header: _Header | None

    @classmethod
    def parse(cls, data: bytes) -> MarkdownFile:
        """Parse any bytes."""
        problems: list[FrontmatterProblem] = []
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            # Lone surrogates represent undecodable bytes, so that an edit writes them back.
            text = data.decode(errors="surrogateescape")
            message = f"not UTF-8 at byte {error.start}: save it as UTF-8"
            problems.append(FrontmatterProblem("encoding", message))
        header = _find_header(text, problems)
        fields = _by_name(header.fields, problems) if header else {}
        if problems and problems[0].kind == "encoding":
            fields = {
                key: _clean(value) if isinstance(value, str) else tuple(map(_clean, value))
                for key, value in fields.items()
            }
        return cls(data, fields, tuple(problems), text, header)

    @property
    def body(self) -> str:
        """The text below the frontmatter, from its first line that is not blank, with plain line ends."""
        text = self._text[self._body_at :]
        return _clean(text[len(self._gap) :].replace("\r\n", "\n"))

    @property
    def is_nested(self) -> bool:
        """Whether fields such as `type` are below `metadata`."""
        above = self._field(NESTED_UNDER)
        kind = self._field("type")
        return above is not None and above.style in {"map", "flowmap"} and not (kind and not kind.parent)

    @property
    def has_frontmatter(self) -> bool:
        return self._header is not None

    @property
    def header_text(self) -> str:
        """The lines of the frontmatter, without the fences."""
        header = self._header
        return _clean(self._text[header.begin : header.end].replace("\r\n", "\n")) if header else ""

    def lines_of(self, key: str) -> str:
        """Return the lines of one key without their indentation."""
        field = self._field(key)
        lines = self.header_text.split("\n")[field.first : field.last] if field else []
        return "\n".join(line[field.indent :] if field else line for line in lines)

    def with_fields(self, **changes: NewValue | None) -> bytes:
        """Return the file with these keys set, or removed where the value is None."""
        document = self
        for key, change in changes.items():
            document = MarkdownFile.parse(document._with_field(key, change))
        return document.data

    def with_body(self, text: str) -> bytes:
        """Return the file with another body below the same frontmatter and blank lines."""
        if text == self.body:
            return self.data
        head = self._text[: self._body_at]
        eol = self._eol
        if self._header is None:
            body = text.replace("\n", eol)
            guard = f"---{eol}---{eol}{eol}" if _OPENING.match(body) else ""
            return _encoded(head + self._gap + guard + body)
        if not self._header.is_closed:
            head = _closed_line(head, eol) + f"---{eol}"
        gap = self._gap or eol
        return _encoded(_closed_line(head, eol) + gap + text.replace("\n", eol))

    def with_quotes(self, key: str) -> bytes:
        """Return the file with the value of a key in quotes."""
        header = self._header
        field = self._field(key)
        if header is None or field is None or not isinstance(field.value, str):
            return self.data
        lines = self._text[header.begin : header.end].split("\n")
        _replace(lines, field, field.value, quote='"')
        return _encoded(self._text[: header.begin] + "\n".join(lines) + self._text[header.end :])

    def closed(self) -> bytes:
        """Return the file with the closing fence that its frontmatter lacks."""
        if self._header is None or self._header.is_closed:
            return self.data
        at = self._body_at
        eol = self._eol
        return _encoded(_closed_line(self._text[:at], eol) + f"---{eol}" + self._text[at:])

    def _with_field(self, key: str, change: NewValue | None) -> bytes:
        header = self._header
        field = self._field(key)
        if key == NESTED_UNDER:
            raise ValueError(f"{key} holds keys of its own: change those")
        if change is None and field is None:
            return self.data
        if header is None:
            eol = self._eol
            mark = "\ufeff" if self._text.startswith("\ufeff") else ""
            below = self._text[len(mark) :]
            blank = eol if below.strip() and not below.startswith(("\n", "\r\n")) else ""
            line = f"{_key(key)}: {format_value(change if change is not None else '')}"
            return _encoded(f"{mark}---{eol}{line}{eol}---{eol}{blank}{below}")
        if field is not None and change is not None and self.fields.get(key) == _field_value(change):
            return self.data
        # Lines keep their carriage returns: the positions of fields count columns from the left.
        lines = self._text[header.begin : header.end].split("\n")
        if change is None and field is not None:
            _remove(lines, field, header.fields)
        elif change is not None and field is not None:
            _replace(lines, field, change)
        elif change is not None:
            self._insert(lines, key, change)
        return _encoded(self._text[: header.begin] + "\n".join(lines) + self._text[header.end :])

    def _insert(self, lines: list[str], key: str, change: NewValue) -> None:
        """Insert a line for a key at its usual position, in the layout of the file."""
        fields = self._header.fields if self._header else ()
        parent = NESTED_UNDER if self.is_nested and key in KNOWN_KEYS and key not in _TOP_KEYS else ""
        above = self._field(NESTED_UNDER)
        if parent and above is not None and above.style == "flowmap":
            line = lines[above.first]
            inner = line[above.start + 1 : above.end - 1].rstrip()
            lead = line[: above.start + 1] + inner + (", " if inner else "")
            rest = line[above.start + 1 + len(inner) :]
            lines[above.first] = f"{lead}{_key(key)}: {format_value(change, in_flow=True)}{rest}"
            return
        siblings = [field for field in fields if field.parent == parent]
        rank = _rank(key)
        before = [field for field in siblings if _rank(field.key) < rank]
        like = before[-1:] or siblings[:1]
        at = (
            max(field.last for field in before or siblings)
            if before or (siblings and key not in _TOP_KEYS)
            else 0
        )
        indent = lines[like[0].first][: like[0].indent] if like else ""
        carriage = "\r" if self._eol == "\r\n" else ""
        if at == len(lines):
            # The last line of the file has no line end yet.
            lines[-1] += carriage
            carriage = ""
        lines.insert(at, f"{indent}{_key(key)}: {format_value(change)}{carriage}")

    def _field(self, name: str) -> Field | None:
        """Return the field for a name: the last of several, and a top-level one before a nested one."""
        fields = self._header.fields if self._header else ()
        wanted = (name, f"{NESTED_UNDER}.{name}")
        found = [field for path in wanted for field in reversed(fields) if field.path == path]
        return found[0] if found else None

    @property
    def _body_at(self) -> int:
        return self._header.body if self._header else int(self._text.startswith("\ufeff"))

    @property
    def _gap(self) -> str:
        found = _BLANK_LINES.match(self._text, self._body_at)
        return found[0] if found else ""

    @property
    def _eol(self) -> str:
        end = self._text.find("\n")
        return "\r\n" if end > 0 and self._text[end - 1] == "\r" else "\n"


def _find_header(text: str, problems: list[FrontmatterProblem]) -> _Header | None:
    opening = _OPENING.match(text)
    if opening is None:
        return None
    add = problems.append
    begin = opening.end()
    closing = None
    at = begin - 1
    while closing is None and (at := text.find("---", at + 1)) >= 0:
        closing = _CLOSING.match(text, at) if text[at - 1] == "\n" else None
    end = closing.start() if closing else len(text)
    lines = text[begin:end].replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    fields, strays = read_fields(lines)
    if closing is None or (strays and _is_prose(lines, strays)):
        closing, end, fields = None, *_open_end(text, begin)
        add(
            FrontmatterProblem(
                "unterminated", "the frontmatter has no closing ---: add it below the last key"
            )
        )
    elif strays:
        where = opening[0].count("\n") + strays[0] + 1
        add(FrontmatterProblem("stray", f"line {where} of the frontmatter is neither a key nor a value"))
    if not fields and any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        if closing is not None:
            problems[:] = [one for one in problems if one.kind == "encoding"]
            add(FrontmatterProblem("not-a-map", "the frontmatter holds no `key: value` lines"))
        return None
    if opening[1]:
        add(FrontmatterProblem("late", "blank lines stand before the frontmatter: remove them"))
    if closing is not None and text.count("\n", 0, closing.start()) >= HEADER_LINES:
        add(
            FrontmatterProblem(
                "long", f"the frontmatter is over {HEADER_LINES} lines: recall reads no further"
            )
        )
    return _Header(begin, end, closing.end() if closing else end, closing is not None, tuple(fields))


def _is_prose(lines: list[str], strays: list[int]) -> bool:
    """Return whether an unclosed frontmatter was read up to a horizontal rule in the body."""
    blank = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    return any(number > blank for number in strays)


def _open_end(text: str, begin: int) -> tuple[int, list[Field]]:
    """Return the end and the fields of an unclosed frontmatter: up to a blank line, a heading or prose."""
    lines = text[begin:].split("\n", HEADER_LINES)[: HEADER_LINES - 1]
    ended = (n for n, line in enumerate(lines) if not line.strip() or line.startswith(("#", "---")))
    lines = lines[: next(ended, len(lines))]
    bare = [line.removesuffix("\r") for line in lines]
    fields, strays = read_fields(bare)
    if strays:
        lines = lines[: strays[0]]
        fields, _ = read_fields(bare[: strays[0]])
    length = sum(len(line) + 1 for line in lines)
    return min(begin + length, len(text)), fields


def _by_name(fields: tuple[Field, ...], problems: list[FrontmatterProblem]) -> dict[str, FieldValue]:
    named: dict[str, FieldValue] = {}
    nested: dict[str, FieldValue] = {}
    seen: set[str] = set()
    for field in fields:
        if field.path in seen:
            message = f"`{field.key}` stands twice in the frontmatter: keep one"
            problems.append(FrontmatterProblem("duplicate", message))
        seen.add(field.path)
        if field.style in {"map", "flowmap"}:
            continue
        if field.parent == NESTED_UNDER:
            nested[field.key] = field.value
        else:
            named[field.path] = field.value
    return {**nested, **named} if nested else named


def _remove(lines: list[str], field: Field, fields: tuple[Field, ...]) -> None:
    if field.style != "pair":
        del lines[field.first : field.last]
        return
    line = lines[field.first]
    pairs = [one for one in fields if one.style == "pair" and one.first == field.first]
    mine = pairs.index(field)
    opening = next(one for one in fields if one.style == "flowmap" and one.first == field.first)
    inside = line[opening.start + 1 :]
    begin = pairs[mine - 1].end if mine else opening.start + 1 + len(inside) - len(inside.lstrip())
    end = field.end
    if not mine and len(pairs) > 1:
        end = line.index(",", field.end) + 1
        end += len(line[end:]) - len(line[end:].lstrip())
    lines[field.first] = line[:begin] + line[end:]


def _replace(lines: list[str], field: Field, change: NewValue, *, quote: str = "") -> None:
    line = lines[field.first]
    carriage = "\r" if line.endswith("\r") else ""
    bare = line.removesuffix("\r")
    if field.style == "list" and not isinstance(change, str | bool | datetime) and change:
        first = next(row for row in lines[field.first + 1 : field.last] if row.lstrip().startswith("-"))
        indent = first[: len(first) - len(first.lstrip())]
        lines[field.first + 1 : field.last] = [f"{indent}- {format_value(item)}{carriage}" for item in change]
        return
    tail = bare[field.end :] if field.last == field.first + 1 or field.style == "list" else ""
    opens = bare[field.start : field.start + 1]
    if field.style in {"quoted", "pair"} and opens in {"'", '"'}:
        quote = quote or opens
    if field.style == "flow" and tail.strip():
        quote = quote or '"'
    new = format_value(change, quote=quote, in_flow=field.style == "pair")
    lead = bare[: field.start] if bare[: field.start].endswith((" ", "\t")) else bare[: field.start] + " "
    gap = " " if tail and not tail.startswith((" ", "\t", ",", "}")) else ""
    lines[field.first : field.last] = [lead + new + gap + tail + carriage]


def _rank(key: str) -> int:
    return KNOWN_KEYS.index(key) if key in KNOWN_KEYS else len(KNOWN_KEYS)


def _key(key: str) -> str:
    return format_value(key, in_flow=True)


def _field_value(change: NewValue) -> FieldValue:
    match change:
        case str():
            return change
        case bool() | datetime():
            return format_value(change)
        case _:
            return tuple(change)


def _closed_line(text: str, eol: str) -> str:
    return text if not text or text.endswith("\n") else text + eol


def _encoded(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="replace")


def _clean(text: str) -> str:
    """Replace the surrogates that represent undecodable bytes."""
    return text.encode(errors="surrogateescape").decode(errors="replace") if not text.isascii() else text
