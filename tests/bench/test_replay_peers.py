"""Other libraries are told sizes by the books that charge them, and where nacre itself would compact (P7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from bench.replay.agent_framework_peer import Tokens
from bench.replay.peer import Peer, Room
from nacre.cache.models import profile, thresholds
from nacre.devtools.replay.costs import accounts
from nacre.devtools.replay.other_policies import filler
from nacre.devtools.replay.schema import ReplayStep, Setting, WireRequest
from nacre.messages.blocks import JsonObject, Text
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.usage import Usage

MODEL, WINDOW, BASE, RATIO = "claude-opus-5-5", 100_000, 30_000, 1.3
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Parrot:
    """A library that changes nothing."""

    compactions = 0

    def __init__(self, room: Room) -> None:
        self.room = room
        self.messages: list[JsonObject] = []

    def take(self, message: JsonObject) -> None:
        self.messages.append(message)

    def sends(self) -> list[JsonObject]:
        return list(self.messages)


def rooms() -> Room:
    """What a library is told at the start of a session with a large base."""
    found: list[Room] = []

    def make(room: Room) -> Parrot:
        found.append(room)
        return Parrot(room)

    base: JsonObject = {"type": "text", "text": filler(BASE, ratio=RATIO)}
    Peer("parrot", make).start(Setting(model=MODEL, window=WINDOW, base=(base,), ratio=RATIO))
    return found[0]


def test_a_library_is_told_in_real_tokens_where_nacre_would_compact() -> None:
    """P7: the same limits for everybody; what is left for the reply is taken off once."""
    limits, room = thresholds(WINDOW, max_output=profile(MODEL).max_output), rooms()
    assert abs(room.compact_at - (limits.autocompact - BASE)) <= 1
    assert abs(room.window - room.max_output - (limits.effective - BASE)) <= 1
    assert room.window - room.max_output > room.compact_at


def test_a_library_counts_a_block_as_the_books_do() -> None:
    """P7: a call's arguments take more tokens for their bytes than words do."""
    room = rooms()
    call: JsonObject = {
        "type": "tool_use",
        "id": "c1",
        "name": "Edit",
        "input": {"old_string": "a b c " * 50},
    }
    words: JsonObject = {"type": "text", "text": "Some words. " * 40}
    sent = WireRequest(at=START, messages=[{"role": "assistant", "content": [call, words]}])
    billed = accounts(profile(MODEL), ratio=RATIO).bill(sent, 0).usage.prompt
    assert room.tokens(call) + room.tokens(words) == billed
    assert room.tokens(words) == room.tokens_of(str(words["text"]))


def test_a_message_that_agent_framework_writes_down_is_counted_by_its_parts() -> None:
    """P7: the names and quotes of its own notation are sent to nobody."""
    room = rooms()
    arguments: JsonObject = {"command": "make test", "n": 3}
    contents = [
        {"type": "text", "text": "I look. " * 20},
        {"type": "function_call", "call_id": "c1", "name": "Bash", "arguments": arguments},
        {"type": "function_result", "call_id": "c1", "result": "ok\n" * 90},
    ]
    call: JsonObject = {"type": "tool_use", "id": "c1", "name": "Bash", "input": arguments}
    counted = Tokens(room).count_tokens(json.dumps({"role": "assistant", "contents": contents}))
    assert counted == room.tokens_of("I look. " * 20) + room.tokens(call) + room.tokens_of("ok\n" * 90)


def test_a_library_is_given_every_message_once() -> None:
    """P7: heard and answered, in order, and nothing that was not said yet."""
    made: list[Parrot] = []

    def make(room: Room) -> Parrot:
        made.append(Parrot(room))
        return made[0]

    policy = Peer("parrot", make).start(Setting(model=MODEL, window=WINDOW))
    for number in range(3):
        heard = Said(id=f"u{number}", at=START, role="user", blocks=(Text(f"question {number}"),))
        reply = Said(
            id=f"a{number}",
            at=START,
            role="assistant",
            blocks=(Text(f"answer {number}"),),
            reply=ReplyFacts(id=f"m{number}"),
        )
        step = ReplayStep(at=START, heard=(heard,), reply=reply, output_tokens=1)
        policy.ask(step)
        policy.hear(step, Usage())
    said = [str(one["content"]) for one in made[0].messages]
    assert [("question" in one, one.count("text")) for one in said] == [
        (place % 2 == 0, said[0].count("text")) for place in range(6)
    ]
