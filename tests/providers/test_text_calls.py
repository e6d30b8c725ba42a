"""P11: calls that a model writes as text are understood, only if it fails the test of native calls."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.blocks import JsonObject, Text
from nacre.messages.events import ProviderEvent, Reply, TextDelta, ToolCallEvent
from nacre.providers.base import Request
from nacre.providers.scripted import ScriptedProvider, call, say
from nacre.providers.text_calls import (
    PROBE_TOOL,
    TextCallsProvider,
    ToolSupport,
    parse_text_calls,
    probe,
    probe_request,
)

TOOLS: list[JsonObject] = [
    {
        "name": "remember",
        "input_schema": {"properties": {"text": {"type": "string"}, "days": {"type": "integer"}}},
    },
    PROBE_TOOL,
]
CALL = '{"name": "remember", "arguments": {"text": "Deploy on Tuesdays."}}'
EXPECTED: list[tuple[str, JsonObject]] = [("remember", {"text": "Deploy on Tuesdays."})]


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"  \n{CALL}\n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tools>{CALL}</tools>",
        f"[TOOL_CALLS][{CALL}]",
        f"<|tool_call|>{CALL}<|end|>",
        '{"name": "remember", "parameters": {"text": "Deploy on Tuesdays."}}',
        '{"type": "function", "function": {"name": "remember", "arguments": '
        '"{\\"text\\": \\"Deploy on Tuesdays.\\"}"}}',
        "<tool_call><function=remember><parameter=text>\nDeploy on Tuesdays.\n</parameter></function>"
        "</tool_call>",
        '<function_calls><invoke name="remember"><parameter name="text">Deploy on Tuesdays.</parameter>'
        "</invoke></function_calls>",
    ],
)
def test_a_text_of_nothing_but_a_call_is_one(text: str) -> None:
    assert parse_text_calls(text, TOOLS) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello.",
        f"Here is an example: {CALL}",
        f"{CALL} That would save it.",
        '{"name": "other_tool", "arguments": {}}',
        f'{CALL}{{"name": "other_tool", "arguments": {{}}}}',
        '{"name": "remember"}',
        '{"name": "remember", "arguments": "no object"}',
        '{"answer": 42}',
        "[1, 2]",
        CALL[:-3],
    ],
)
def test_anything_else_is_text(text: str) -> None:
    assert parse_text_calls(text, TOOLS) == []


def test_several_calls_and_values_of_other_types_are_read() -> None:
    assert parse_text_calls(f"{CALL}\n{CALL}", TOOLS) == EXPECTED * 2
    xml = "<function=remember><parameter=text>12</parameter><parameter=days>12</parameter></function>"
    assert parse_text_calls(xml, TOOLS) == [("remember", {"text": "12", "days": 12})]


@given(
    st.text()
    | st.text(alphabet='{}[]"<>/`,: \nnametoolcal=_|')
    | st.recursive(st.none() | st.text(), st.lists).map(json.dumps)
)
def test_no_text_breaks_the_parser(text: str) -> None:
    assert all(name in {"remember", "report_number"} for name, _ in parse_text_calls(text, TOOLS))


def request() -> Request:
    words: JsonObject = {"type": "text", "text": "Remember: deploy on Tuesdays."}
    return Request(model="small", messages=[{"role": "user", "content": [words]}], tools=TOOLS)


async def events_of(provider: TextCallsProvider) -> list[ProviderEvent]:
    return [event async for event in provider.stream(request())]


def calls_in(events: list[ProviderEvent]) -> list[str]:
    return [event.call.name for event in events if isinstance(event, ToolCallEvent)]


@pytest.mark.moves_prefix(reason="a test of the model stands where the reply would")
async def test_an_untested_model_is_tested_when_its_reply_looks_like_a_call() -> None:
    """It calls nothing natively: from then on its text is understood, and none of it is shown."""
    learnt: list[ToolSupport] = []
    inner = ScriptedProvider([say(CALL), say("I cannot."), say(CALL)])
    provider = TextCallsProvider(inner, None, on_learnt=learnt.append)
    events = await events_of(provider)
    assert calls_in(events) == ["remember"]
    assert not [one for one in events if isinstance(one, TextDelta)]
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.stop_reason == "tool_use"
    assert [block.input for block in reply.message.tool_calls] == [EXPECTED[0][1]]
    assert learnt == ["text"]
    assert calls_in(await events_of(provider)) == ["remember"]
    assert inner.calls == 3, "the test is made once"


@pytest.mark.moves_prefix(reason="a test of the model stands where the reply would")
async def test_a_model_that_calls_natively_may_quote_a_call() -> None:
    inner = ScriptedProvider([say(CALL), call("report_number", number=7), say(CALL)])
    provider = TextCallsProvider(inner, None)
    for _ in range(2):
        events = await events_of(provider)
        assert calls_in(events) == []
        assert "".join(one.text for one in events if isinstance(one, TextDelta)) == CALL
    assert provider.support == "native"
    assert inner.calls == 3


async def test_a_native_call_needs_no_test() -> None:
    provider = TextCallsProvider(ScriptedProvider([call("remember", text="x")]), None)
    assert calls_in(await events_of(provider)) == ["remember"]
    assert provider.support == "native"


async def test_words_are_shown_as_they_come() -> None:
    provider = TextCallsProvider(ScriptedProvider([say("Hello, you.")]), "text")
    events = await events_of(provider)
    assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "Hello, you."
    assert isinstance(events[-1], Reply)
    assert events[-1].message.blocks == (Text("Hello, you."),)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (call("report_number", number=7), "native"),
        (say('{"name": "report_number", "arguments": {"number": 7}}'), "text"),
        (say("The number is 7."), "none"),
    ],
)
async def test_the_test_tells_how_a_model_calls(reply: object, expected: str) -> None:
    provider = ScriptedProvider([reply])  # type: ignore[list-item]
    assert await probe(provider, probe_request("small")) == expected
