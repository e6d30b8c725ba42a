"""What a changed model, system prompt or tool costs, and that it is noticed across processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nacre import Base, Session
from nacre.errors import PrefixMoved
from nacre.messages.blocks import JsonObject, Message, Text, Thinking
from nacre.messages.events import Reply
from nacre.messages.jsonl import Envelope, decode, encode
from nacre.messages.records import Noted, Record
from nacre.messages.usage import Usage
from nacre.session.base_change import BASE, base_change, base_facts
from nacre.session.settings import SessionSettings
from nacre.testing import FrozenClock

SONNET = "claude-sonnet-5-5"
OLDER = "claude-sonnet-4-6"
CACHED = Usage(input=10, cache_read=9_000, cache_write=3_000, output=20)


def tool(name: str, words: str = "Does it.") -> JsonObject:
    return {"name": name, "description": words, "input_schema": {"type": "object"}}


def resumed(records: Sequence[Record], base: Base, clock: FrozenClock) -> Session:
    """A session on records that went through a log."""
    envelope = Envelope(session_id="s", cwd="/", git_branch="", version="0")
    lines = [encode(one, envelope=envelope, parent=None) for one in records]
    return Session(base, decode(iter(lines), session_id="s").records, clock=clock)


async def answered(base: Base, clock: FrozenClock, usage: Usage = CACHED) -> Session:
    session = Session(base, clock=clock)
    await session.add_user("first")
    await session.prepare()
    words = Message("assistant", (Thinking("hm", "sig"), Text("one")))
    await session.record(Reply(message=words, usage=usage, stop_reason="end_turn", id="r1", model=base.model))
    return session


def thinks(session: Session) -> bool:
    return any(isinstance(one.block, Thinking) for item in session.view.items for one in item.parts)


async def test_the_log_notes_the_base_once(clock: FrozenClock) -> None:
    base = Base(SONNET, "Be brief.", [tool("Read"), tool("Bash")])
    session = await answered(base, clock)
    await session.add_user("second")
    await session.prepare()
    again = resumed(session.transcript.records, base, clock)
    assert again.announce_base_change() == ""
    await again.prepare()
    notes = [one for one in again.transcript.records if isinstance(one, Noted) and one.kind == BASE]
    assert len(notes) == 1
    assert thinks(again)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (Base(SONNET, "Be brief.", [tool("Read")]), "the tools changed (removed Bash)"),
        (
            Base(SONNET, "Be brief.", [tool("Bash", "No."), tool("Read")]),
            "the tools changed (changed Bash)",
        ),
        (
            Base(SONNET, "Be brief.", [tool("Bash"), *map(tool, "abcde"), tool("Read")]),
            "the tools changed (added a, b, c and 2 more)",
        ),
        (Base(SONNET, "Be long.", [tool("Bash"), tool("Read")]), "the system prompt changed"),
        (Base(SONNET, "Be brief.", [tool("Read"), tool("Bash")]), "the order of the tools changed"),
        (
            Base(SONNET, "Be long.", [tool("Bash")]),
            "the tools changed (removed Read) and the system prompt changed",
        ),
    ],
)
async def test_a_resumed_session_says_what_changed_and_what_it_loses(
    changed: Base, why: str, clock: FrozenClock
) -> None:
    before = await answered(Base(SONNET, "Be brief.", [tool("Bash"), tool("Read")]), clock)
    session = resumed(before.transcript.records, changed, clock)
    line = f"The prompt cache of 12,000 tokens cannot be used, because {why}."
    assert session.announce_base_change() == line
    await session.add_user("second")
    await session.prepare()
    assert session.notices() == [], "it is said once"
    assert not thinks(session)


async def test_an_expired_cache_is_no_loss(clock: FrozenClock) -> None:
    before = await answered(Base(SONNET, "Be brief.", [tool("Bash")]), clock)
    clock.advance(4_000)
    session = resumed(before.transcript.records, Base(SONNET, "Be brief."), clock)
    assert session.announce_base_change() == ""


async def test_a_change_while_the_session_is_open_is_said_with_the_next_request(clock: FrozenClock) -> None:
    session = await answered(Base(OLDER, "Be brief.", [tool("Bash")]), clock)
    session.base = Base(OLDER, "Be brief.")
    await session.add_user("second")
    await session.prepare()
    assert [one.text for one in session.notices()] == [
        "The prompt cache of 12,000 tokens cannot be used, because the tools changed (removed Bash)."
    ]
    assert thinks(session), "this model does not bind thinking"
    reply = Message("assistant", (Text("two"),))
    await session.record(Reply(message=reply, usage=Usage(input=12_100), stop_reason="end_turn", id="r2"))
    assert session.notices() == [], "the drop of cache reads is explained"


async def test_strict_sessions_refuse_a_changed_base(clock: FrozenClock) -> None:
    base = Base(SONNET, "Be brief.")
    session = Session(base, settings=SessionSettings(strict_prefix=True), clock=clock)
    await session.add_user("first")
    await session.prepare()
    session.base = Base(SONNET, "Be long.")
    with pytest.raises(PrefixMoved, match="system prompt"):
        await session.prepare()


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("claude-opus-5-5", ", about $0.06"),
        ("gpt-6.1-terra", ", about $0.015"),
        ("gpt-5.5", ", about $0.060"),
        ("a-local-model", ""),
    ],
)
async def test_another_model_says_what_it_reads_anew(model: str, price: str, clock: FrozenClock) -> None:
    before = await answered(Base(SONNET, "Be brief."), clock)
    session = resumed(before.transcript.records, Base(model, "Be brief."), clock)
    line = session.announce_base_change()
    head = f"{model} continues a conversation with {SONNET}: about 12,0"
    assert line.startswith(head)
    assert f"tokens are sent without the prompt cache{price}" in line
    assert bool(price) == ("$" in line)
    await session.add_user("second")
    await session.prepare()
    assert not thinks(session), "another model cannot read it"


def test_notes_of_other_forms_are_a_change_and_no_error(clock: FrozenClock) -> None:
    facts = base_facts(SONNET, [], [tool("Bash")])
    for odd in ({}, {"tools": 3}, {"tools": [1, ["Bash"], ["Bash", 4]]}):
        change = base_change(Noted(id="n", at=clock.now(), kind=BASE, facts=dict(odd)), facts)
        assert change is not None
        assert change.is_model_changed
