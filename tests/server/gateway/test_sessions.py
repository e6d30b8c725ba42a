from __future__ import annotations

import json
from typing import Any

import pytest

from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage
from nacre.server.gateway.client_sessions import MAX_SESSIONS, Arrival, SessionTracker, settle
from nacre.server.gateway.conversation import Conversation, parse_conversation
from nacre.testing import FrozenClock

MODEL = "claude-sonnet-5-5"


def said(*texts: str, system: str = "You help.", model: str = MODEL, **more: Any) -> Conversation:
    """A request in which user and assistant take turns."""
    messages = [
        {"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)
    ]
    body = {"model": model, "system": system, "messages": messages, **more}
    found = parse_conversation("messages", json.dumps(body).encode())
    assert found is not None
    return found


class Followed:
    """A tracker with a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.tracker = SessionTracker(self.clock)

    def arrive(self, request: Conversation, *, after: float = 1.0, key: bytes = b"k") -> Arrival:
        self.clock.advance(after)
        return self.tracker.arrive(key, request, self.clock.now())


def test_a_growing_conversation_is_one_session() -> None:
    followed = Followed()
    first = followed.arrive(said("hi"))
    second = followed.arrive(said("hi", "hello", "what now?"), after=40)
    assert second.session is first.session
    assert (second.idle_seconds, second.changed) == (40.0, None)
    assert second.session.pauses == [40.0]


def test_the_same_first_words_with_other_answers_are_two_sessions() -> None:
    followed = Followed()
    one = followed.arrive(said("hi", "hello", "a"))
    other = followed.arrive(said("hi", "good day", "a"))
    assert other.session is not one.session
    assert followed.arrive(said("hi", "hello", "a", "b", "c")).session is one.session
    assert followed.arrive(said("hi", "good day", "a", "b", "c")).session is other.session


def test_another_key_is_another_session() -> None:
    followed = Followed()
    one = followed.arrive(said("hi", "hello", "a"))
    assert followed.arrive(said("hi", "hello", "a", "b", "c"), key=b"other").session is not one.session


def test_a_side_request_with_the_same_words_and_another_system_prompt_is_a_session_of_its_own() -> None:
    followed = Followed()
    main = followed.arrive(said("fix the bug"))
    title = followed.arrive(said("fix the bug", system="Make a title."))
    assert title.session is not main.session
    assert followed.arrive(said("fix the bug", "done", "thanks")).session is main.session


def test_a_moving_system_prompt_stays_one_session_and_is_named() -> None:
    followed = Followed()
    first = followed.arrive(said("hi", "hello", "a", system="It is 10:01."))
    second = followed.arrive(said("hi", "hello", "a", "b", "c", system="It is 10:02."))
    assert second.session is first.session
    assert second.changed is not None
    assert (second.changed.path, second.changed.kind) == ("system[0]", "text")


def test_a_changed_message_and_a_changed_tool_are_named() -> None:
    followed = Followed()
    tools = [{"name": "look", "input_schema": {}}]
    followed.arrive(said("hi", "hello", "a", "b", "c", tools=tools))
    edited = followed.arrive(said("hi", "hello", "A", "b", "c", "d", "e", tools=tools))
    assert edited.changed is not None
    assert edited.changed.path == "messages[2].content[0]"
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    changed = followed.arrive(said("hi", "hello", "A", "b", "c", "d", "e", "f", "g", tools=tools)).changed
    assert changed is not None
    assert (changed.path, changed.kind) == ("tools[0]", "look")


def test_moved_cache_markers_change_nothing() -> None:
    followed = Followed()
    text = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    body: JsonObject = {
        "model": MODEL,
        "system": "You help.",
        "messages": [{"role": "user", "content": [text]}],
    }
    first = parse_conversation("messages", json.dumps(body).encode())
    assert first is not None
    one = followed.arrive(first)
    later = followed.arrive(said("hi", "hello", "a"))
    assert (later.session, later.changed) == (one.session, None)


def test_a_conversation_that_the_provider_holds_is_followed_by_the_ids_of_its_replies() -> None:
    followed = Followed()

    def asked(given: object, previous: str | None = None) -> Conversation:
        body = {"model": "gpt-6-sol", "input": given, "previous_response_id": previous}
        found = parse_conversation("responses", json.dumps(body).encode())
        assert found is not None
        return found

    first = followed.arrive(asked("hi")).session
    followed.tracker.answered(first, "resp_1")
    assert followed.arrive(asked("and now?", "resp_1")).session is first
    assert followed.arrive(asked("and now?", "resp_unknown")).session is not first


@pytest.mark.parametrize(
    ("api", "body", "is_persons"),
    [
        ("chat", {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]}, True),
        ("chat", {"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "x"}]}, False),
        ("responses", {"input": "hi"}, True),
        ("responses", {"input": [{"type": "function_call_output", "output": "x"}]}, False),
        ("messages", {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, False),
    ],
)
def test_the_result_of_a_tool_is_no_return_of_the_person(
    api: Any, body: JsonObject, is_persons: bool
) -> None:
    found = parse_conversation(api, json.dumps(body).encode())
    assert found is not None
    assert found.is_persons is is_persons


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b"{}", b'{"messages": 5}', b'{"messages": []}', b"[" * 9_000]
)
def test_a_body_without_a_conversation_is_left_alone(raw: bytes) -> None:
    assert parse_conversation("messages", raw) is None


def test_what_idle_time_cost_is_told_from_what_a_change_cost() -> None:
    followed = Followed()
    texts = ["hi", "hello", "a"]
    first = followed.arrive(said(*texts))
    assert settle(first, Usage(cache_write=50_000, output=10), MODEL) is None
    texts += ["b", "c"]
    late = settle(followed.arrive(said(*texts), after=400), Usage(cache_write=51_000), MODEL)
    assert late is not None
    assert (late.cause, late.tokens) == ("pause", 50_000)
    assert late.usd == pytest.approx(50_000 * (2.5 - 0.1) / 1e6)
    texts += ["d", "e"]
    changed = settle(followed.arrive(said(*texts, system="You helped.")), Usage(cache_write=52_000), MODEL)
    assert changed is not None
    assert changed.cause == "system[0] (text)"
    texts += ["f", "g"]
    unknown = settle(followed.arrive(said(*texts, system="You helped.")), Usage(cache_write=53_000), MODEL)
    assert unknown is not None
    assert unknown.cause == "unknown"
    step_back = settle(followed.arrive(said("hi", "hello", "x")), Usage(cache_read=900, input=50), MODEL)
    assert step_back is None


def test_forgotten_sessions_leave_nothing_behind() -> None:
    followed = Followed()
    for number in range(MAX_SESSIONS + 50):
        followed.arrive(said(f"task {number}"))
    assert len(followed.tracker._recent) == len(followed.tracker._by_opening) == MAX_SESSIONS
