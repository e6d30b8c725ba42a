"""Requests and session logs as text: a hash of all bytes, and enough of the content to read a difference."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.frozen.scenes import Scene

Body = Mapping[str, Any]
WHOLE_CHARS, WHOLE_LINES = 900, 25
"""A longer text is shown by its beginning and its end."""
HEAD_CHARS, HEAD_LINES = 600, 12
TAIL_CHARS, TAIL_LINES = 200, 6
PARTS = ("tools", "system", "messages")
DIGEST = re.compile(r"\b[0-9a-f]{16,}\b")
"""In the name of a file: over something that holds the path of the scene."""
COUNTED = re.compile(r"00000000-0000-4000-8000-\d{12}")
"""An id of the frozen clock."""
BESIDE = ("nacre/side_query",)
LEFT_OUT = {"cache", "locks", "objects"}
ENVELOPE = {
    "parentUuid", "isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch", "type", "uuid",
    "timestamp", "message",
}  # fmt: skip
"""The keys of every line of a conversation."""


def rendered(voices: Mapping[str, Sequence[bytes]], scene: Scene) -> str:
    """All requests of a story, by who was asked; what one shares with an earlier one is not repeated."""
    lines: list[str] = []
    seen: list[tuple[str, list[str]]] = []
    before: list[str] = []
    ids = Ids()
    for voice, sent in voices.items():
        for number, raw in enumerate(sent, 1):
            text, name = ids.plain(scene.plain(raw.decode())), f"{voice} {number}"
            body = json.loads(text)
            lines += [f"== {name} ==", f"sha256 {_hash(text)}, {len(text):,} characters"]
            head = list(_head(body))
            lines += ["tools and system as before"] if head == before else head
            before = head
            lines += _request(body, seen)
            seen.append((name, _pieces(body)))
    return "\n".join(lines) + "\n"


class Ids:
    """Ids of records by the order in which requests name them: how many others were made does not matter."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def plain(self, text: str) -> str:
        return COUNTED.sub(lambda found: self._known.setdefault(found[0], f"ID-{len(self._known) + 1}"), text)


def files(scene: Scene) -> str:
    """Every file of the home but locks, caches and git objects; of session logs each line, too."""
    paths = [path for path in scene.home.rglob("*") if path.is_file() and not LEFT_OUT & {*path.parts}]
    found = sorted(
        (DIGEST.sub("DIGEST", scene.plain(str(path.relative_to(scene.root)))), _log(path)) for path in paths
    )
    return "\n".join(line for name, log in found for line in (name, *log)) + "\n"


def _log(path: Path) -> list[str]:
    if path.suffix != ".jsonl":
        return []
    lines = [_log_line(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    # Written at the next boundary behind a request in the background, and which one that is depends on speed.
    beside = sorted(line for line in lines if line.startswith(BESIDE))
    return [f"    {line}" for line in (*(one for one in lines if one not in beside), *beside)]


def _head(body: Body) -> Iterator[str]:
    yield f"tools: {' '.join(_tool(one) for one in body.get('tools') or ()) or 'none'}"
    for block in _blocks(body.get("system")):
        yield f"system: {_short(_text_of(block))}"


def _request(body: Body, seen: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    rest = {key: value for key, value in body.items() if key not in PARTS and value not in (None, {}, [])}
    yield json.dumps(rest, ensure_ascii=False)
    marked = [place for place, piece in _placed(body) if "cache_control" in piece]
    yield f"cache markers: {', '.join(marked) or 'none'}"
    mine = _pieces(body)
    shared, earlier = max(((_shared(mine, other), name) for name, other in seen), default=(0, ""))
    if shared:
        yield f"messages: blocks 1 to {shared} as in {earlier}"
    for (place, block), piece in list(zip(_message_blocks(body), mine, strict=True))[shared:]:
        yield f"{place} {_described(block)} {_hash(piece)[:12]}"
        yield from (f"    | {line}" for line in _shown(_text_of(block)).split("\n"))


def _placed(body: Body) -> Iterator[tuple[str, Body]]:
    yield from ((f"tool {n}", one) for n, one in enumerate(body.get("tools") or (), 1))
    yield from ((f"system {n}", one) for n, one in enumerate(_blocks(body.get("system")), 1))
    yield from _message_blocks(body)


def _message_blocks(body: Body) -> Iterator[tuple[str, Body]]:
    for number, message in enumerate(body["messages"], 1):
        others = {key: value for key, value in message.items() if key not in {"role", "content"}}
        for n, block in enumerate([*_blocks(message.get("content")), *([others] if others else [])], 1):
            yield f"message {number} {message['role']} {n}", block


def _pieces(body: Body) -> list[str]:
    """Each block of the messages without its cache marker, which may move."""
    return [
        json.dumps([place, {key: value for key, value in block.items() if key != "cache_control"}])
        for place, block in _message_blocks(body)
    ]


def _blocks(content: Any) -> list[Any]:
    if content is None or content == "":
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _described(block: Body) -> str:
    named = [str(block.get("type", "")), str(block.get("name") or block.get("tool_use_id") or "")]
    failed = ["error"] if block.get("is_error") else []
    return " ".join([*filter(None, named), *failed, f"{len(_text_of(block)):,} characters"])


def _text_of(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            return text
        case {"type": "tool_result", "content": str(text)}:
            return text
        case {"type": "tool_result", "content": list(parts)}:
            return "\n".join(map(_text_of, parts))
        case {"type": "tool_use", "input": dict(arguments)}:
            return json.dumps(arguments, ensure_ascii=False)
        case _:
            return json.dumps(block, ensure_ascii=False)


def _shown(text: str) -> str:
    lines = text.split("\n")
    if len(text) <= WHOLE_CHARS and len(lines) <= WHOLE_LINES:
        return text
    head = "\n".join(lines[:HEAD_LINES])[:HEAD_CHARS]
    tail = "\n".join(lines[-TAIL_LINES:])[-TAIL_CHARS:]
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters …\n{tail}"


def _short(text: str) -> str:
    return f"{_hash(text)[:12]} {len(text):,} characters {text[:60]!r}"


def _tool(definition: Any) -> str:
    named = definition.get("function", definition)
    return f"{named['name']}:{_hash(json.dumps(definition))[:8]}"


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _log_line(line: Body) -> str:
    """The kind of a line, which keys of the usual envelope it lacks, and which others it has."""
    kind = "/".join(str(line[key]) for key in ("type", "subtype", "kind") if key in line)
    lacks = sorted(ENVELOPE - line.keys()) if "uuid" in line else []
    more = [key for key in line if key not in ENVELOPE]
    return " ".join([kind, *(f"-{key}" for key in lacks), *(f"+{key}" for key in more), *_within(line)])


def _within(line: Body) -> Iterator[str]:
    """The keys of what a note says, or of a boundary with the kinds of notes that it carries."""
    for name in ("facts", "compactMetadata"):
        if isinstance(line.get(name), dict):
            yield f"{name}: {' '.join(line[name])}"
    carried = line.get("compactMetadata", {}).get("nacre", {}).get("carries", ())
    if carried:
        yield f"carries: {' '.join(sorted(one['kind'] for one in carried))}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
