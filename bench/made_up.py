"""A made-up conversation, the same every time: a person's words, replies, calls and results in turn."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from nacre.messages.blocks import Block, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import Record, ReplyFacts, Said
from nacre.messages.usage import Usage

PERIOD = 8
"""Records until the mix begins again; histories that differ by whole periods hold the same mix."""
MODEL = "claude-opus-5-5"
START = datetime(2026, 1, 1, tzinfo=UTC)
LINES = (
    "The reader keeps the last line when a write was cut off, so nothing is lost. ",
    "def total(rows: list[Row]) -> int: return sum(row.amount for row in rows)\n",
    "Es geht auch mit Umlauten: größer, schöner, früher. ",
    "2026-01-01T00:00:00Z INFO worker 3 finished job in 0.52 s, 118 rows written\n",
)


def records(count: int, *, start: int = 0, size: int = 600, prompt: int = 0) -> Iterator[Record]:
    """So many records of about `size` bytes, from number `start` on; replies report `prompt` tokens."""
    for number in range(start, start + count):
        yield record(number, size=size, prompt=prompt)


def record(number: int, *, size: int = 600, prompt: int = 0) -> Said:
    role, blocks = _said(number, size)
    usage = Usage(input=3, cache_read=max(0, prompt - 900), cache_write=900, output=150)
    facts = ReplyFacts(id=f"msg_{number:08d}", model=MODEL, stop_reason="tool_use", usage=usage)
    return Said(
        id=f"00000000-0000-4000-8000-{number:012d}",
        at=START + timedelta(seconds=number),
        role="assistant" if role == "assistant" else "user",
        blocks=blocks,
        reply=facts if role == "assistant" else None,
    )


def words(number: int, size: int) -> str:
    """Text of about so many bytes, different for every number."""
    line = LINES[number % len(LINES)]
    return (f"[{number}] " + line * (size // len(line) + 1))[:size]


def _said(number: int, size: int) -> tuple[str, tuple[Block, ...]]:
    place = number % PERIOD
    if place == 0:
        return "user", (Text(words(number, size)),)
    if place == PERIOD - 1:
        return "assistant", (
            Thinking(words(number, size // 3), f"sig{number}"),
            Text(words(number, size // 2)),
        )
    if place % 2 == 0:
        return "user", (ToolResult(f"toolu_{number - 1:012d}", (Text(words(number, size)),)),)
    call = ToolCall(
        f"toolu_{number:012d}", "Edit", {"file_path": f"src/{number}.py", "text": words(number, size // 3)}
    )
    return "assistant", (Text(words(number + 1, size // 2)), call)
