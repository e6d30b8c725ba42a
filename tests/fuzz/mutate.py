"""Mutations of seeds: bytes, words and JSON values, chosen by a random generator with a fixed seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random

from nacre.messages.blocks import Json

MAX_BYTES = 20_000
"""Longer cases are cut, so that a case of a parser in linear time takes milliseconds."""
TOKENS: tuple[bytes, ...] = (
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b" ",
    b"---\n",
    b"-",
    b"- ",
    b"#",
    b'"',
    b"'",
    b"\\",
    b"`",
    b"$(",
    b"${",
    b"<<EOF\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[" * 2_000,
    b'{"a":' * 500,
    b"(",
    b")",
    b"*",
    b"**/",
    b"?",
    b":",
    b",",
    b"|",
    b"&",
    b"=",
    b"~",
    b"../",
    b"/",
    b"null",
    b"true",
    b"NaN",
    b"-1",
    b"0",
    b"1e999",
    b"9" * 30,
    b"9" * 5_000,
    b"\\ud800",
    b"\\u0000",
    b"\xed\xa0\x80",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    "\u2028".encode(),
    "\u202e".encode(),
    "\u0301".encode() * 50,
    "\U0001f600".encode(),
    "³".encode(),
    "一月三十二日".encode(),
    "二〇二六年".encode(),
    b"a" * 3_000,
    b"Monday 31 February 99999",
    b"%s%n{0}",
)
VALUES: tuple[Json, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "\0",
    "\ud800",
    "x" * 2_000,
    "2026-13-40T99:99:99Z",
    [],
    [None],
    [[[[[[]]]]]],
    {},
    {"": None},
    {"type": "text"},
    {"type": None},
)


def mutated(seeds: Sequence[bytes], chooser: Random) -> bytes:
    """Return one of the seeds after one to six mutations."""
    data = chooser.choice(seeds)
    for _ in range(chooser.choice((1, 1, 1, 2, 3, 6))):
        data = chooser.choice(_MUTATIONS)(data, seeds, chooser)[:MAX_BYTES]
    return data


def _span(data: bytes, chooser: Random) -> tuple[int, int]:
    start = chooser.randint(0, len(data))
    return start, min(len(data), start + chooser.choice((1, 1, 2, 4, 16, 64, 256)))


def _flip(data: bytes, _: Sequence[bytes], chooser: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chooser.randint(1, 4)):
        if changed:
            changed[chooser.randrange(len(changed))] = chooser.randrange(256)
    return bytes(changed)


def _delete(data: bytes, _: Sequence[bytes], chooser: Random) -> bytes:
    start, end = _span(data, chooser)
    return data[:start] + data[end:]


def _repeat(data: bytes, _: Sequence[bytes], chooser: Random) -> bytes:
    start, end = _span(data, chooser)
    return data[:end] + data[start:end] * chooser.choice((1, 2, 10, 200)) + data[end:]


def _insert(data: bytes, _: Sequence[bytes], chooser: Random) -> bytes:
    start, end = _span(data, chooser)
    return data[:start] + chooser.choice(TOKENS) + data[end if chooser.random() < 0.5 else start :]


def _truncate(data: bytes, _: Sequence[bytes], chooser: Random) -> bytes:
    return data[: chooser.randint(0, len(data))]


def _splice(data: bytes, seeds: Sequence[bytes], chooser: Random) -> bytes:
    other = chooser.choice(seeds)
    return data[: chooser.randint(0, len(data))] + other[chooser.randint(0, len(other)) :]


def _change_json(data: bytes, seeds: Sequence[bytes], chooser: Random) -> bytes:
    """Replace, remove or rename one value of a JSON document, or of one of its lines."""
    lines = data.split(b"\n")
    places = [place for place, line in enumerate(lines) if b"{" in line or b"[" in line]
    if not places:
        return _insert(data, seeds, chooser)
    place = chooser.choice(places)
    start = min(at for at in (lines[place].find(b"{"), lines[place].find(b"[")) if at >= 0)
    for text, put in ((data, None), (lines[place][start:], place)):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        changed = json.dumps(_changed(value, chooser), ensure_ascii=chooser.random() < 0.5)
        raw = changed.encode("utf-8", "surrogatepass")
        if put is None:
            return raw
        lines[put] = lines[put][:start] + raw
        return b"\n".join(lines)
    return _insert(data, seeds, chooser)


def _changed(value: Json, chooser: Random) -> Json:
    if isinstance(value, dict) and value and chooser.random() < 0.85:
        key = chooser.choice(list(value))
        rest = {name: one for name, one in value.items() if name != key}
        match chooser.randrange(8):
            case 0:
                return rest
            case 1:
                return {**rest, str(chooser.choice(VALUES)): value[key]}
            case _:
                return {**value, key: _changed(value[key], chooser)}
    if isinstance(value, list) and value and chooser.random() < 0.85:
        place = chooser.randrange(len(value))
        match chooser.randrange(6):
            case 0:
                return [*value[:place], *value[place + 1 :]]
            case 1:
                return [*value, *value[place:]]
            case _:
                return [*value[:place], _changed(value[place], chooser), *value[place + 1 :]]
    return chooser.choice(VALUES)


_MUTATIONS: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    _flip,
    _delete,
    _repeat,
    _insert,
    _insert,
    _truncate,
    _splice,
    _change_json,
    _change_json,
    _change_json,
)
