"""Add a table to another program's TOML file and remove it; every other byte stays unchanged."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject

_HEADER = re.compile(r"[ \t]*\[")


def parsed_toml(text: str, where: str) -> JsonObject:
    """Parse a file; raises `ConfigError` if it is not TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{where}: not valid TOML ({error}); correct it, then try again") from None


def add_table(text: str, keys: Sequence[str], value: JsonObject, *, note: str, where: str) -> str:
    """Return the text with a table at its end, below a comment."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    name = ".".join(keys)
    lines = [f"# {note}", f"[{name}]", *(f"{key} = {_literal(one)}" for key, one in value.items())]
    gap = "" if not text else line_end if text.endswith("\n") else line_end * 2
    added = text + gap + line_end.join(lines) + line_end
    try:
        document = tomllib.loads(added)
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            f"{where}: no table [{name}] can be added; write {keys[0]} as tables such as [{keys[0]}.name]"
        ) from None
    if _without(document, keys) != _without(parsed_toml(text, where), keys):
        raise ConfigError(f"{where}: no table [{name}] can be added; add it by hand")
    return added


def take_table(text: str, keys: Sequence[str], *, note: str, where: str) -> str:
    """Return the text without a table, its comment and the empty line above."""
    name = r"[ \t]*\.[ \t]*".join(rf'"?{one}"?' for one in keys)
    header = re.compile(rf"[ \t]*\[[ \t]*{name}[ \t]*\]")
    inner = re.compile(rf"[ \t]*\[[ \t]*{name}[ \t]*\.")
    lines = text.split("\n")
    rest = _without(parsed_toml(text, where), keys)
    for number, line in enumerate(lines):
        if not header.match(line):
            continue
        following = range(number + 1, len(lines))
        end = next(
            (one for one in following if _HEADER.match(lines[one]) and not inner.match(lines[one])), None
        )
        taken = _lines_without(lines, number, len(lines) if end is None else end, note)
        try:
            # A line within a string can look like a header.
            if tomllib.loads(taken) == rest:
                return taken
        except tomllib.TOMLDecodeError:
            continue
    raise ConfigError(f"{where}: [{'.'.join(keys)}] cannot be removed from here; remove it by hand")


def _lines_without(lines: list[str], start: int, end: int, note: str) -> str:
    """Return the text without the table between two lines; comments above the next table stay."""
    while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
        end -= 1
    start -= start > 0 and lines[start - 1].strip() == f"# {note}"
    start -= start > 0 and not lines[start - 1].strip()
    while start == 0 and end < len(lines) - 1 and not lines[end].strip():
        end += 1
    return "\n".join(lines[:start] + lines[end:])


def _literal(value: Json) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_literal(one)}" for key, one in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _without(document: JsonObject, keys: Sequence[str]) -> JsonObject:
    """Return a document without a table, and without one that it leaves empty."""
    first = document.get(keys[0])
    others = {key: one for key, one in first.items() if key != keys[1]} if isinstance(first, dict) else first
    rest = {key: one for key, one in document.items() if key != keys[0]}
    return {**rest, keys[0]: others} if others else rest
