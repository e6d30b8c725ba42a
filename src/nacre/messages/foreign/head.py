"""The JSON values at the start of a file of which only the first bytes are there."""

from __future__ import annotations

import json
from typing import cast

from nacre.messages.blocks import Json

ENOUGH = 20
"""So many first lines tell what a file is, even when some of them are broken."""
LIST_DEPTH = 2
"""How deep a list of messages lies inside an object."""


def values_in(head: bytes) -> list[Json]:
    """The whole document if it is one, else the values of the first lines, else the start of a document."""
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if "\x00" in text:
        return []
    whole = _parsed(text)
    if whole is not None:
        return [whole]
    lines = [line for line in text.split("\n") if line.strip()][:ENOUGH]
    values = [value for line in lines if isinstance(value := _parsed(line), dict)]
    if values:
        return cast("list[Json]", values)
    started = (_parsed(_closed(text, whole_items=True)), _parsed(_closed(text, whole_items=False)))
    return [value for value in started if value is not None]


def _parsed(text: str) -> Json:
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return None


def _closed(text: str, *, whole_items: bool) -> str:
    """The document as far as it goes, with the brackets closed that are still open there.

    With `whole_items` a message that is not all there is left off: half of one may lack what tells its kind.
    """
    open_brackets: list[str] = []
    safe, closers = 0, ""
    in_string = escaped = False
    for place, char in enumerate(text):
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "{[}],":
            if char in "{[":
                open_brackets.append("}" if char == "{" else "]")
            elif char in "}]":
                open_brackets[-1:] = []
            if not whole_items or _is_between_items(open_brackets):
                safe, closers = place + (char != ","), "".join(reversed(open_brackets))
    return text[:safe] + closers


def _is_between_items(open_brackets: list[str]) -> bool:
    """In the list of messages, which is the document itself or directly under one of its names."""
    return len(open_brackets) <= 1 or (len(open_brackets) == LIST_DEPTH and open_brackets[-1] == "]")
