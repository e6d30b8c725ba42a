"""The requests of a session: what layers did before each, where the bytes changed, and what the model saw."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nacre.cache.models import cost, profile
from nacre.inspect.session_requests import compared, request_places, session_requests, view_blocks
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.records import Change, Compacted, Record, Replaced, ReplyFacts, ResultOf, Said, Undone
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.read_session import read_log
from nacre.store.sessions import Sessions
from tests.server.console.home import demo_settings, fill

START = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = "claude-opus-5-5"


def user(n: int, text: str, *, minutes: float = 0) -> Said:
    return Said(id=f"u{n}", at=START + timedelta(minutes=minutes), role="user", blocks=(Text(text),))


def reply(n: int, *blocks: Text | ToolCall, read: int = 0, minutes: float = 0, model: str = MODEL) -> Said:
    facts = ReplyFacts(id=f"m{n}", model=model, usage=Usage(cache_read=read, cache_write=1_000, output=5))
    at = START + timedelta(minutes=minutes)
    return Said(id=f"a{n}-{len(blocks)}", at=at, role="assistant", blocks=blocks, reply=facts)


def result(call: str, text: str) -> Said:
    return Said(id=f"r{call}", at=START, role="user", blocks=(ToolResult(call, (Text(text),)),))


def test_a_reply_in_several_records_answered_one_request() -> None:
    records: list[Record] = [
        user(1, "look"),
        reply(1, Text("Looking.")),
        reply(1, ToolCall("c1", "Read", {}), Text("x")),
        result("c1", "text"),
        reply(2, Text("Done."), read=1_000),
    ]
    assert request_places(records) == [1, 4]
    one, two = session_requests(records)
    assert [len(one.replies), len(two.replies)] == [2, 1]
    assert one.cost_usd == cost(profile(MODEL), Usage(cache_write=1_000, output=5))
    assert (two.changed_at, two.is_cold) == (None, False)


def test_the_first_changed_block_and_its_reason_are_named() -> None:
    """C32: a cleared result changes the bytes at its block; what is ahead of it can still be read."""
    records: list[Record] = [
        user(1, "look"),
        reply(1, ToolCall("c1", "Read", {})),
        result("c1", "long " * 300),
        reply(2, Text("Seen."), read=1_000),
        user(2, "go on", minutes=60),
        Replaced(
            id="x", at=START, reason="clear",
            changes=(Change(ResultOf("c1"), (ToolResult("c1", (Text("[cleared]"),)),)),),
        ),
        reply(3, Text("Yes."), read=0, minutes=61),
    ]  # fmt: skip
    third = session_requests(records)[2]
    assert (third.changed_at, third.reason, third.is_cold) == (2, "clear", True)
    assert third.pause_seconds == 61 * 60
    states = [(one.state, one.kind, one.mark) for one in compared(third, session_requests(records)[1])]
    assert states[2:4] == [("removed", "tool_results", None), ("added", "cleared", "cleared")]
    assert [state for state, _, _ in states] == ["same", "same", "removed", "added", "added", "added"]


def test_another_model_and_a_message_taken_back_change_the_prefix() -> None:
    records: list[Record] = [
        user(1, "one"),
        reply(1, Text("1")),
        user(2, "two"),
        reply(2, Text("2"), read=1_000),
        Undone(id="z", at=START, target="u2"),
        Undone(id="y", at=START, target="a2-1"),
        user(3, "three"),
        reply(3, Text("3"), read=1_000),
        user(4, "four"),
        reply(4, Text("4"), model="claude-sonnet-5-5"),
    ]
    found = session_requests(records)
    assert [(one.changed_at, one.reason) for one in found] == [
        (None, ""),
        (None, ""),
        (2, "undo"),
        (0, "model"),
    ]
    assert [event.kind for event in found[2].events] == ["undone", "undone"]


def test_every_request_has_the_view_that_the_records_before_it_fold_to() -> None:
    records: list[Record] = []
    for n in range(30):
        records += [user(n, f"question {n}"), reply(n, Text(f"answer {n}"), read=n * 1_000)]
        if n == 20:
            records.append(Compacted(id="c", at=START, summary=(Text("short"),), summary_id="s"))
    for one in session_requests(records):
        assert one.view.messages == View.of(records[: one.place]).messages
        blocks = [block for message in one.view.messages for block in message["content"]]  # type: ignore[union-attr]
        assert [block.block for block in view_blocks(one.view)] == blocks


@pytest.mark.moves_prefix(reason="the made-up session is cleared and compacted")
def test_what_layers_did_to_a_real_session_is_marked_in_place(tmp_path: Path) -> None:
    """C34: offloaded, cleared, compacted, attached and restored, each at the request that it changed."""
    settings = demo_settings(tmp_path)
    asyncio.run(fill(settings))
    loaded = read_log(Sessions(settings.home).list(settings.cwd)[0].path)
    assert loaded is not None
    found = session_requests(loaded.records)
    first_with: dict[str, int] = {}
    for one in found:
        for block in view_blocks(one.view):
            if block.mark:
                first_with.setdefault(block.mark, one.number)
    assert first_with == {"attached": 1, "offloaded": 3, "cleared": 11, "compacted": 13, "restored": 13}
    assert [one.number for one in found if one.changed_at is not None] == [11, 13]
    assert {event.kind for one in found for event in one.events} == {
        "offloaded", "cleared", "compacted", "attached",
    }  # fmt: skip
