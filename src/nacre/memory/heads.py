"""The frontmatter of many files, quickly: one pattern for the plainest form, else the line reader (R3)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nacre.memory.frontmatter import HEADER_LINES, NESTED_UNDER, Document
from nacre.memory.scalars import Value

_SIMPLE_LINE = re.compile(
    r"""^(  )?([A-Za-z_][\w-]*):(?:[ \t]+([^\s"'\[\]{}|>#][^\n\r#]*+|"[^"\\\n]*"))?[ \t]*$""", re.MULTILINE
)


def head_fields(text: str) -> Mapping[str, Value]:
    """What the frontmatter in the first 30 lines says; for scans, where a whole document costs too much."""
    simple = _simple_fields(text)
    if simple is not None:
        return simple
    lines = text.split("\n", HEADER_LINES)
    head = text if len(lines) <= HEADER_LINES else text[: len(text) - len(lines[-1])]
    return Document.parse(head.encode(errors="surrogateescape")).fields


def _simple_fields(text: str) -> dict[str, Value] | None:
    """The fields of a frontmatter of the plainest form, which nearly all have; None when it is not so."""
    end = text.find("\n---\n", 3)
    if end < 0 or not text.startswith("---\n") or text.count("\n", 0, end) > HEADER_LINES - 2:
        return None
    found = _SIMPLE_LINE.findall(text, 4, end)
    if len(found) != text.count("\n", 4, end) + 1:
        return None
    named: dict[str, Value] = {}
    nested: dict[str, Value] = {}
    is_below = False
    for indent, key, value in found:
        fields = nested if indent else named
        if (indent and not is_below) or key in fields:
            return None
        if not indent:
            is_below = key == NESTED_UNDER
            if is_below:
                if value:
                    return None
                continue
        fields[key] = value[1:-1] if value[:1] == '"' else value.rstrip(" \t")
    return None if is_below and not nested else {**nested, **named}
