"""Arbitrary logs: records in any order, with every kind of block and every kind of disorder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from nacre.messages.blocks import Block, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.records import (
    BlockOf,
    Change,
    Compacted,
    Noted,
    Record,
    Replaced,
    ReplyFacts,
    ResultOf,
    Said,
    Undone,
)
from nacre.messages.usage import Usage

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

call_ids = st.sampled_from([f"call_{n}" for n in range(6)])
texts = st.sampled_from(["", "  \n", "hello", "你好", '{"a": 1}', "x" * 50])

user_blocks = st.one_of(
    texts.map(Text),
    st.builds(lambda i, t: ToolResult(i, (Text(t),) if t else ()), call_ids, texts),
    st.builds(lambda i, t: ToolResult(i, (Text(t),), True), call_ids, texts),
    st.just(Image({"type": "base64", "media_type": "image/png", "data": ""})),
    st.builds(lambda i: ToolCall(i, "Read", {}), call_ids),
)
assistant_blocks = st.one_of(
    texts.map(Text),
    texts.map(lambda text: Thinking(text, "signature")),
    st.builds(lambda i: ToolCall(i, "Read", {"file_path": i}), call_ids),
    st.just(Opaque("redacted_thinking", {"type": "redacted_thinking", "data": "x"})),
)
usages = st.none() | st.builds(
    lambda i, o: Usage(input=i, output=o), st.integers(1, 1000), st.integers(0, 50)
)


def moment(n: int) -> datetime:
    return EPOCH + timedelta(seconds=n)


@st.composite
def logs(draw: st.DrawFn, *, rewrites: bool = True, max_size: int = 14) -> list[Record]:
    """A log of any shape; rewrites address records that may or may not exist."""
    kinds = ["user", "user", "assistant", "assistant", "system", "noted"]
    if rewrites:
        kinds += ["replaced", "compacted", "undone"]
    records: list[Record] = []
    for n in range(draw(st.integers(0, max_size))):
        records.append(_record(draw, draw(st.sampled_from(kinds)), n))
    return records


def _record(draw: st.DrawFn, kind: str, n: int) -> Record:
    earlier = st.sampled_from([f"r{i}" for i in range(n + 1)])
    at, name = moment(n), f"r{n}"
    match kind:
        case "user":
            return Said(id=name, at=at, role="user", blocks=_blocks(draw, user_blocks))
        case "assistant":
            facts = ReplyFacts(id=draw(st.sampled_from([None, "m1", "m2", "m3"])), usage=draw(usages))
            return Said(id=name, at=at, role="assistant", blocks=_blocks(draw, assistant_blocks), reply=facts)
        case "system":
            return Said(id=name, at=at, role="system", blocks=(Text("from now on, be brief"),))
        case "noted":
            return Noted(id=name, at=at, kind=draw(st.sampled_from(["title", "cursor"])), facts={"n": n})
        case "replaced":
            return Replaced(id=name, at=at, changes=_changes(draw, earlier), reason="clear")
        case "compacted":
            keeps = draw(st.none() | earlier)
            first = draw(st.none() | earlier)
            summary = (Text(f"summary {n}"),)
            carried = (Noted(id=f"c{n}", at=at, kind="title", facts={"n": n}),) * draw(st.integers(0, 1))
            return Compacted(
                id=name,
                at=at,
                summary=summary,
                first=first,
                keeps_from=keeps,
                summary_id=f"s{n}",
                carries=carried,
            )
        case _:
            return Undone(id=name, at=at, target=draw(earlier))


def _blocks(draw: st.DrawFn, strategy: st.SearchStrategy[Block]) -> tuple[Block, ...]:
    return tuple(draw(st.lists(strategy, max_size=4)))


def _changes(draw: st.DrawFn, earlier: st.SearchStrategy[str]) -> tuple[Change, ...]:
    def cleared(call_id: str, *, gone: bool) -> Change:
        return Change(ResultOf(call_id), () if gone else (ToolResult(call_id, (Text("[cleared]"),)),))

    def blanked(record_id: str, index: int) -> Change:
        return Change(BlockOf(record_id, index), ())

    change = st.one_of(
        st.builds(cleared, call_ids, gone=st.booleans()), st.builds(blanked, earlier, st.integers(0, 3))
    )
    return tuple(draw(st.lists(change, min_size=1, max_size=3)))
