"""Add values to another program's JSON file and remove them; every other byte stays unchanged.

Comments and trailing commas are kept; `parsed` refuses them unless the program allows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject

UNIT = "  "
"""Indentation for a file that shows none."""
_BLANK = re.compile(r"[ \t\n\r]*")
_INDENT = re.compile(r'\n([ \t]+)"')
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_EXTRA_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]*(?:,|/\*.*?\*/|//[^\r\n]*))*", re.DOTALL)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A value to add: for the last key, or as an element of the list there."""

    keys: tuple[str, ...]
    value: Json
    is_listed: bool = False


@dataclass(frozen=True, slots=True)
class _JsonSpan:
    """Position of a member or an element in a text."""

    start: int
    value: int
    """Where its value begins; for an element the same as `start`."""
    end: int
    key: str = ""


def parsed(text: str, where: str, *, has_comments: bool = False) -> JsonObject:
    """Parse a file; raises `ConfigError` if it is no JSON object."""
    text = plain(text) if has_comments else text
    try:
        value: Json = json.loads(text, parse_constant=_refuse) if text.strip() else {}
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{place}: not valid JSON ({error.msg}); correct it, then try again") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{where}: holds a value that is not JSON; correct it, then try again") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must hold a JSON object; correct it, then try again")
    return value


def plain(text: str) -> str:
    """Return the text with blanks for comments and trailing commas, so that every position stays the same."""
    return _EXTRA_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else " ", _without_comments(text))


def _without_comments(text: str) -> str:
    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == '"' else re.sub(r"[^\r\n]", " ", found[0])

    return _COMMENT.sub(blank, text)


def add(text: str, addition: Addition, where: str) -> str:
    """Return the text with an addition."""
    if not plain(text).strip():
        text = (text.rstrip() + "\n" if text.strip() else "") + "{}\n"
    bare = plain(text)
    at = _past_blank(bare, 0)
    depth = 1
    for number, key in enumerate(addition.keys):
        if text[at] != "{":
            raise ConfigError(f"{where}: {_named(addition.keys[:number])} must be a JSON object; correct it")
        found = _member(bare, at, key)
        if found is None:
            value = _nested(addition, addition.keys[number + 1 :])
            return _inserted(text, at, value, key=key, depth=depth)
        at = found.value
        depth = depth + 1
    if not addition.is_listed:
        end = _DECODER.raw_decode(bare, at)[1]
        return text[:at] + _rendered(addition.value, text, depth - 1) + text[end:]
    if text[at] != "[":
        raise ConfigError(f"{where}: {_named(addition.keys)} must be a JSON list; correct it")
    return _inserted(text, at, addition.value, key=None, depth=depth)


def missing(document: JsonObject, keys: Sequence[str]) -> int:
    """Return how many of the keys, from the left, exist."""
    here: Json = document
    for number, key in enumerate(keys):
        if not isinstance(here, dict) or key not in here:
            return number
        here = here[key]
    return len(keys)


def at(document: JsonObject, keys: Sequence[str]) -> Json:
    """Return the value at the keys, or None."""
    here: Json = document
    for key in keys:
        if not isinstance(here, dict):
            return None
        here = here.get(key)
    return here


def take_element(text: str, keys: Sequence[str], place: int) -> str:
    """Return the text without one element of a list."""
    bare = plain(text)
    at = _where(bare, keys)
    spans = _spans(bare, at)[0]
    return _without(text, at, spans, place)


def take_member(text: str, keys: Sequence[str]) -> str:
    """Return the text without the last of the keys and its value."""
    bare = plain(text)
    at = _where(bare, keys[:-1])
    spans = _spans(bare, at)[0]
    places = [number for number, one in enumerate(spans) if one.key == keys[-1]]
    return _without(text, at, spans, places[-1])


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _named(keys: Sequence[str]) -> str:
    return ".".join(keys) or "the file"


def _where(text: str, keys: Sequence[str]) -> int:
    at = _past_blank(text, 0)
    for key in keys:
        found = _member(text, at, key)
        assert found is not None, "the caller has looked"
        at = found.value
    return at


def _member(text: str, at: int, key: str) -> _JsonSpan | None:
    """Return the position of a key in an object; of several the last, which is the one that counts."""
    return next((one for one in reversed(_spans(text, at)[0]) if one.key == key), None)


def _spans(text: str, at: int) -> tuple[list[_JsonSpan], int]:
    """Return the members or elements of a container and the position of its closing bracket."""
    closing = "}" if text[at] == "{" else "]"
    is_object = text[at] == "{"
    spans: list[_JsonSpan] = []
    place = _past_blank(text, at + 1)
    while text[place] != closing:
        start = value = place
        key = ""
        if is_object:
            key, place = _DECODER.raw_decode(text, place)
            value = _past_blank(text, _past_blank(text, place) + 1)
        end = _DECODER.raw_decode(text, value)[1]
        spans.append(_JsonSpan(start, value, end, key))
        place = _past_blank(text, end)
        if text[place] == ",":
            place = _past_blank(text, place + 1)
    return spans, place


def _past_blank(text: str, place: int) -> int:
    return _BLANK.match(text, place).end()  # type: ignore[union-attr]


def _nested(addition: Addition, keys: Sequence[str]) -> Json:
    value: Json = [addition.value] if addition.is_listed else addition.value
    for key in reversed(keys):
        value = {key: value}
    return value


def _inserted(text: str, at: int, value: Json, *, key: str | None, depth: int) -> str:
    """Insert after the last element, in its layout."""
    bare = plain(text)
    spans, closing = _spans(bare, at)
    name = "" if key is None else f"{json.dumps(key)}: "
    is_flat = "\n" not in text.strip() if not spans else "\n" not in text[at : spans[0].start]
    if is_flat and (spans or text.strip() != "{}"):
        piece = name + json.dumps(value, ensure_ascii=False)
        end = spans[-1].end if spans else at + 1
        return text[:end] + (", " if spans else "") + piece + text[end:]
    unit = _unit(text)
    line_end = "\r\n" if "\r\n" in text else "\n"
    piece = name + _rendered(value, text, depth)
    if spans:
        lead = text[text.rfind("\n", 0, spans[-1].start) + 1 : spans[-1].start]
        indent = lead if not lead.strip() else unit * depth
        end = spans[-1].end
        rest = _REST_OF_LINE.match(text, end)[0]  # type: ignore[index]
        comma = "" if "," in _without_comments(text)[end:closing] else ","
        return f"{text[:end]}{comma}{rest}{line_end}{indent}{piece}{text[end + len(rest) :]}"
    kept = text[at + 1 : closing].rstrip() if bare != text else ""
    return (
        f"{text[: at + 1]}{kept}{line_end}{unit * depth}{piece}{line_end}{unit * (depth - 1)}{text[closing:]}"
    )


def _rendered(value: Json, text: str, depth: int) -> str:
    unit = _unit(text)
    written = json.dumps(value, ensure_ascii=False, indent=unit)
    return written.replace("\n", ("\r\n" if "\r\n" in text else "\n") + unit * depth)


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else UNIT


def _without(text: str, at: int, spans: Sequence[_JsonSpan], place: int) -> str:
    bare = plain(text)
    closing = _spans(bare, at)[1]
    start = spans[place - 1].end if place else at + 1
    end = spans[place + 1].start if place + 1 < len(spans) else closing
    if text[start:end] != bare[start:end]:
        return _without_but_comments(text, spans, place)
    if place:
        return text[:start] + text[spans[place].end :]
    if len(spans) > 1:
        return text[: spans[0].start] + text[spans[1].start :]
    return text[: at + 1] + text[closing:]


def _without_but_comments(text: str, spans: Sequence[_JsonSpan], place: int) -> str:
    """Remove an element and one comma beside it; comments around it stay."""
    start, end = spans[place].start, spans[place].end
    bare = _without_comments(text)
    comma = _past_blank(bare, end)
    if bare[comma] == ",":
        text = text[:comma] + text[comma + 1 :]
    elif place:
        comma = bare.index(",", spans[place - 1].end)
        text, start, end = text[:comma] + text[comma + 1 :], start - 1, end - 1
    line = text.rfind("\n", 0, start) + 1
    after = text.find("\n", end)
    if after >= 0 and not text[line:start].strip() and not text[end:after].strip():
        return text[:line] + text[after + 1 :]
    return text[:start] + text[end:]
