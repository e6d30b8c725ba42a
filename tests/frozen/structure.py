"""What a command printed as a structure: keys and types of JSON, and values only where they never vary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.frozen.commands import Ended

STABLE = {
    "action", "author", "by", "exists", "fixable", "format", "kind", "level", "mode", "model",
    "ok", "origin", "outcome", "policy", "provider", "role", "scope", "source", "status", "trigger",
    "type",
}  # fmt: skip
"""Keys whose short values are part of what programs rely on."""
STABLE_CHARS = 40


def described(command: str, ended: Ended) -> str:
    """A command with its exit code, and what it printed; words for people are only counted."""
    lines = [f"$ nacre {command}", f"exit code {ended.code}"]
    lines += [
        f"stderr: {'nothing' if not ended.err else 'one line' if ended.err.count(chr(10)) == 1 else 'lines'}"
    ]
    lines += list(_printed(ended.out))
    return "\n".join(lines) + "\n"


def _printed(out: str) -> Iterator[str]:
    if not out:
        yield "stdout: nothing"
        return
    try:
        documents = [json.loads(out)]
    except ValueError:
        try:
            documents = [json.loads(line) for line in out.splitlines()]
        except ValueError:
            yield "stdout: text"
            return
        yield "stdout: JSON lines"
    for document in documents:
        yield from _structure("", document)


def _structure(name: str, value: Any, indent: int = 0) -> Iterator[str]:
    head = f"{'  ' * indent}{name}: " if name else "  " * indent
    match value:
        case dict():
            yield f"{head}object"
            for key in sorted(value):
                yield from _structure(key, value[key], indent + 1)
        case list():
            yield f"{head}list"
            known: list[str] = []
            for one in value:
                shape = "\n".join(_structure("", one, indent + 1))
                if shape not in known:
                    known.append(shape)
            yield from sorted(known)
        case _:
            yield f"{head}{_scalar(name, value)}"


def _scalar(name: str, value: Any) -> str:
    kind = "null" if value is None else type(value).__name__
    is_stable = name in STABLE and len(str(value)) <= STABLE_CHARS and "/" not in str(value)
    return f"{kind} {value!r}" if is_stable and value is not None else kind
