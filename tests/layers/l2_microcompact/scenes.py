"""What the tests of layer 2 share: conversations with many tool results, and moments before a request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nacre.cache.models import profile
from nacre.cache.warmth import Warmth
from nacre.layers.l2_microcompact.policy import ClearInputs
from nacre.messages.blocks import Block, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.view import View

START = datetime(2026, 1, 1, tzinfo=UTC)
FREE, BINDING = "claude-sonnet-4-6", "claude-opus-5-5"
"""A model that takes client-side edits, and one that binds its thinking."""


def words(n: int, chars: int = 4_000) -> str:
    return (f"result {n}: " + "lorem ipsum dolor sit amet " * (chars // 27 + 1))[:chars]


def rounds(count: int, *, tool: str = "Bash", chars: int = 4_000, thinking: bool = False) -> list[Record]:
    """One user text, then so many calls with their results, ten seconds apart, and a closing reply."""
    records: list[Record] = [_said("u", 0, "user", Text("go"))]
    for n in range(count):
        thought: tuple[Block, ...] = (Thinking(f"thought {n}", "signed"),) if thinking else ()
        records += [
            _said(f"a{n}", 10 * n + 1, "assistant", *thought, ToolCall(f"c{n}", tool, {"n": n})),
            _said(f"r{n}", 10 * n + 2, "user", ToolResult(f"c{n}", (Text(words(n, chars)),))),
        ]
    return [*records, _said("end", 10 * count + 1, "assistant", Text("done"))]


def work_on(*calls: tuple[str, str], chars: int = 4_000) -> View:
    """A view in which tools were called with files, in this order; the ids are c0, c1 and so on."""
    records: list[Record] = [_said("u", 0, "user", Text("go"))]
    for n, (tool, path) in enumerate(calls):
        call = ToolCall(f"c{n}", tool, {"file_path": path})
        records += [
            _said(f"a{n}", 10 * n + 1, "assistant", call),
            _said(f"r{n}", 10 * n + 2, "user", ToolResult(call.id, (Text(words(n, chars)),))),
        ]
    return View.of([*records, _said("end", 10 * len(calls) + 1, "assistant", Text("done"))])


def _said(record_id: str, second: int, role: str, *blocks: Block) -> Said:
    at = START + timedelta(seconds=second)
    return Said(id=record_id, at=at, role=role, blocks=blocks)  # type: ignore[arg-type]


def noted(kind: str, second: int = 0, **facts: object) -> Noted:
    at = START + timedelta(seconds=second)
    return Noted(id=f"{kind}-{second}-{sorted(facts.items())}", at=at, kind=kind, facts=facts)  # type: ignore[arg-type]


def view_of(count: int, *more: Record, **given: object) -> View:
    return View.of([*rounds(count, **given), *more])  # type: ignore[arg-type]


def moment(idle: float = 301.0, *, model: str = FREE, **given: object) -> ClearInputs:
    """A moment so many seconds after the last request, which was half an hour after the start."""
    touched = START + timedelta(minutes=30)
    warmth = Warmth(now=touched + timedelta(seconds=idle), touched_at=touched)
    return ClearInputs(warmth=warmth, profile=profile(model), **given)  # type: ignore[arg-type]
