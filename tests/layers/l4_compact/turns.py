"""What the tests of snip and collapse share: turns with numbered messages, and what makes a request valid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from nacre.layers.experimental.snip import NUMBERED, TAG
from nacre.messages.blocks import Block, JsonObject, Text, Thinking, ToolCall, ToolResult
from nacre.messages.jsonl import Envelope, chained_id, decode, encode
from nacre.messages.records import Noted, Record, ReplyFacts, Said

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(name: str, role: str, *blocks: Block, meta: bool = False) -> Said:
    reply = ReplyFacts(id=f"m-{name}") if role == "assistant" else None
    at = START + timedelta(seconds=1)
    return Said(id=name, at=at, role=role, blocks=blocks, meta=meta, reply=reply)  # type: ignore[arg-type]


def numbered(one: Said, number: int) -> list[Record]:
    tag = said(f"{one.id}-tag", "user", Text(TAG.format(number=number)), meta=True)
    facts: JsonObject = {"number": number, "message": one.id, "record": tag.id}
    return [one, tag, Noted(id=f"{one.id}-n", at=START, kind=NUMBERED, facts=facts)]


def turn(n: int, first: int, *, rounds: int = 2, thinking: bool = False) -> list[Record]:
    """A person's words, so many calls with results, a closing reply; numbered from `first` on."""
    records = numbered(said(f"u{n}", "user", Text(f"question {n}")), first)
    for i in range(rounds):
        thought: tuple[Block, ...] = (Thinking("hm", "signed"),) if thinking else ()
        call = ToolCall(f"c{n}.{i}", "Bash", {"n": i})
        result = ToolResult(call.id, (Text(f"result {n}.{i} " * 100),))
        records.append(said(f"a{n}.{i}", "assistant", *thought, Text("let me see"), call))
        records += numbered(said(f"r{n}.{i}", "user", result), first + 1 + i)
    return [*records, said(f"end{n}", "assistant", Text(f"answer {n}"))]


def talk(turns: int, **given: bool) -> list[Record]:
    """So many whole turns of two rounds, numbered 1 to 3, 4 to 6 …, and a question at the end."""
    records = [record for n in range(turns) for record in turn(n, 3 * n + 1, **given)]
    return [*records, *numbered(said("now", "user", Text("and now?")), 3 * turns + 1)]


def is_valid(messages: Sequence[JsonObject]) -> bool:
    """T6: roles alternate from the user's on, and every call has its result in the next message."""
    roles = [message["role"] for message in messages]
    in_turn = roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)
    paired = all(
        _ids(one, "id") == _ids(after, "tool_use_id")
        for one, after in zip(messages, [*messages[1:], {}], strict=True)
        if one["role"] == "assistant"
    )
    return in_turn and roles[-1] == "user" and paired


def _ids(message: JsonObject, name: str) -> list[object]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return sorted(str(one[name]) for one in blocks if isinstance(one, dict) and name in one)


def on_disk(records: Sequence[Record]) -> list[Record]:
    """What a reader finds of these records."""
    envelope = Envelope(session_id="s", cwd="/w")
    parent, written = None, b""
    for record in records:
        written += encode(record, envelope=envelope, parent=parent)
        parent = chained_id(record) or parent
    return decode(written.splitlines(keepends=True), session_id="s").records
