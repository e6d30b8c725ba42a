"""Where replies come from: scripts, recorded messages, another provider; and what a bad script is told."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anthropic import AsyncAnthropic, InternalServerError
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI

from nacre.devtools.sim import (
    Fault,
    Script,
    ScriptedReply,
    Simulator,
    parse_script,
    read_script,
    replies_from_messages,
    replies_from_provider,
)
from nacre.errors import ConfigError, Overloaded
from nacre.messages.blocks import Json, JsonObject, Message, Text, ToolCall
from nacre.messages.events import ProviderEvent, Reply, TextDelta
from nacre.messages.usage import Usage
from nacre.providers.base import Capabilities, Request

MODEL = "claude-opus-5-5"
HELLO: list[JsonObject] = [{"role": "user", "content": "Hello."}]

SCRIPT = [
    "Plain.",
    {
        "thinking": "Hm.",
        "text": "Well.",
        "tool_calls": [{"name": "read", "input": {"b": 1, "a": 2}}],
        "stop_reason": "tool_use",
        "output_tokens": 77,
        "delay": 1.5,
        "duration": 2,
        "fault": {"kind": "disconnect", "after": 2},
    },
    {"content": [{"type": "redacted_thinking", "data": "…"}]},
]
PARSED = [
    ScriptedReply(content=({"type": "text", "text": "Plain."},)),
    ScriptedReply(
        content=(
            {"type": "thinking", "thinking": "Hm."},
            {"type": "text", "text": "Well."},
            {"type": "tool_use", "name": "read", "input": {"b": 1, "a": 2}},
        ),
        stop_reason="tool_use",
        output_tokens=77,
        delay=1.5,
        duration=2,
        fault=Fault(kind="disconnect", after=2),
    ),
    ScriptedReply(content=({"type": "redacted_thinking", "data": "…"},)),
]
YAML = """
- Plain.
- thinking: Hm.
  text: Well.
  tool_calls: [{name: read, input: {b: 1, a: 2}}]
  stop_reason: tool_use
  output_tokens: 77
  delay: 1.5
  duration: 2
  fault: {kind: disconnect, after: 2}
- content: [{type: redacted_thinking, data: …}]
"""


def test_a_script_is_read_from_json_and_from_yaml(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(SCRIPT), encoding="utf-8")
    (tmp_path / "s.yaml").write_text(YAML, encoding="utf-8")
    assert read_script(tmp_path / "s.json") == read_script(tmp_path / "s.yaml") == Script(PARSED)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"text": "x"}, "a script is a list of replies, not dict"),
        (None, "a script is a list of replies, not NoneType"),
        (["ok", 3], "script item 2: is a text or an object, not 3"),
        ([{"text": 3}], "script item 1: text is a text"),
        ([{"delay": -1}], "script item 1: delay is a number from 0 up"),
        ([{"delay": "soon"}], "script item 1: delay is a number from 0 up"),
        ([{"output_tokens": True}], "script item 1: output_tokens is a number"),
        ([{"tool_calls": {"name": "x"}}], "script item 1: tool_calls is a list"),
        ([{"tool_calls": [{"input": {}}]}], "script item 1: a tool call is {name, input}"),
        ([{"tool_calls": [{"name": "x", "input": []}]}], "script item 1: the input of x is an object"),
        ([{"fault": "oops"}], "script item 1: unknown fault 'oops'"),
        ([{"stop_reason": 1}], "script item 1: stop_reason is a text"),
        ([{"content": 1}], "script item 1: content is a text or a list"),
        ([{"texts": "x"}], "script item 1: unknown field 'texts'"),
    ],
)
def test_a_bad_script_is_told_what_is_wrong_where(script: Json, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_script(script)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "text"), [("s.json", "[1,"), ("s.yaml", "- {a: ]"), ("s.json", "\x00")])
def test_a_file_that_is_neither_json_nor_yaml_is_told_so_in_one_line(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="is not JSON or YAML") as caught:
        read_script(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_missing_script_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the script"):
        read_script(tmp_path / "none.yaml")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["text", "thinking", "tool_calls", "content", "stop_reason", "output_tokens", "delay", "fault"]


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4) | JSON, max_size=3) | JSON)
def test_any_json_is_a_script_or_one_line(value: Json) -> None:
    try:
        replies = parse_script(value)
    except ConfigError as error:
        assert "\n" not in str(error).replace("\\n", "")
    else:
        assert all(reply.tokens >= 0 and reply.delay >= 0 for reply in replies)


def said(text: str) -> tuple[JsonObject, ...]:
    return ({"type": "text", "text": text},)


def test_recorded_messages_give_the_assistant_s_replies_in_order() -> None:
    messages: list[JsonObject] = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello.", "usage": {"output_tokens": 7}},
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {}}]},
    ]
    expected = [
        ScriptedReply(content=said("Hello."), output_tokens=7),
        ScriptedReply(content=({"type": "tool_use", "id": "t", "name": "read", "input": {}},)),
    ]
    assert replies_from_messages(messages) == expected
    assert replies_from_messages([{"message": message} for message in messages]) == expected


def test_lines_that_share_a_message_id_are_one_reply() -> None:
    """Session logs hold one line per block, results of parallel calls in between."""
    call: JsonObject = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    lines: list[JsonObject] = [
        {"id": "m1", "role": "assistant", "content": "a", "usage": {"output_tokens": 2}},
        {"id": "m1", "role": "assistant", "content": [call], "usage": {"output_tokens": 2}},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
        {
            "id": "m1",
            "role": "assistant",
            "content": "b",
            "stop_reason": "tool_use",
            "usage": {"output_tokens": 9},
        },
        {"msg": 2, "role": "assistant", "content": "c", "usage": {"output": 5}},
    ]
    first = ScriptedReply(content=(*said("a"), call, *said("b")), stop_reason="tool_use", output_tokens=9)
    assert replies_from_messages(lines) == [first, ScriptedReply(content=said("c"), output_tokens=5)]


def test_a_count_taken_at_the_start_of_a_stream_is_not_believed() -> None:
    line: JsonObject = {"role": "assistant", "content": "word " * 100, "usage": {"output_tokens": 3}}
    assert [reply.tokens for reply in replies_from_messages([line])] == [125]


def test_side_conversations_and_error_notes_are_left_out() -> None:
    aside: JsonObject = {"isSidechain": True, "message": {"role": "assistant", "content": "aside"}}
    lean: JsonObject = {"sidechain": True, "role": "assistant", "content": "aside"}
    note: JsonObject = {"role": "assistant", "model": "<synthetic>", "content": "API Error"}
    assert replies_from_messages([aside, lean, note]) == []


@pytest.mark.real_data
def test_a_real_session_gives_back_every_call_once() -> None:
    folder = Path(__file__).parents[4] / "shared" / "data" / "claude_code_sessions"
    if not folder.is_dir():
        pytest.skip("needs the folder ../shared/data beside the repository")
    for path in sorted((folder / "raw").glob("*.jsonl.gz")):
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        replies = replies_from_messages(lines)
        calls = [block["id"] for reply in replies for block in reply.content if block["type"] == "tool_use"]
        answered = {
            block["tool_use_id"]
            for line in lines
            if not line.get("isSidechain") and isinstance(line.get("message"), dict)
            for block in line["message"]["content"]
            if isinstance(block, dict) and block.get("type") == "tool_result"
        }
        assert len(calls) == len(set(calls)) > 0, path.name
        assert answered <= set(calls), path.name


async def test_a_recorded_session_is_said_again(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend(replies_from_messages([{"role": "assistant", "content": "As before."}]))
    reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=HELLO)
    assert reply.content[0].text == "As before."


class Parrot:
    """A provider that calls the first tool it is offered, and otherwise repeats what it was told."""

    name = "parrot"

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def capabilities(self, model: str) -> Capabilities:
        return Capabilities()

    async def stream(self, request: Request) -> AsyncIterator[ProviderEvent]:
        self.asked.append(request)
        last = request.messages[-1]["content"]
        words = last if isinstance(last, str) else json.dumps(last)
        yield TextDelta(words)
        calls = [ToolCall("t1", str(request.tools[0]["name"]), {"x": 1})] if request.tools else []
        message = Message("assistant", (Text(words), *calls))
        yield Reply(message=message, usage=Usage(output=3), stop_reason="tool_use" if calls else "end_turn")

    async def count_tokens(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None


async def test_another_provider_answers_when_the_script_has_run_out() -> None:
    parrot = Parrot()
    tool = {"name": "look", "input_schema": {"type": "object"}}
    async with (
        Simulator(["Scripted."], source=replies_from_provider(parrot)) as sim,
        AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client,
    ):
        first = await client.messages.create(model=MODEL, max_tokens=99, messages=HELLO)
        second = await client.messages.create(
            model=MODEL, max_tokens=98, messages=HELLO, system="Repeat.", tools=[tool]
        )
    assert first.content[0].text == "Scripted."
    assert [block.type for block in second.content] == ["text", "tool_use"]
    assert (second.content[0].text, second.stop_reason, second.usage.output_tokens) == (
        "Hello.",
        "tool_use",
        3,
    )
    assert parrot.asked == [
        Request(
            model=MODEL,
            max_tokens=98,
            messages=HELLO,
            system=[{"type": "text", "text": "Repeat."}],
            tools=[tool],
        )
    ]


async def test_another_provider_hears_openai_s_requests_in_blocks() -> None:
    parrot = Parrot()
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"it"}'}}
    messages = [
        {"role": "developer", "content": "Repeat."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    ]
    function = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
    async with (
        Simulator(source=replies_from_provider(parrot)) as sim,
        AsyncOpenAI(api_key="any", base_url=f"{sim.url}/v1", max_retries=0) as client,
    ):
        reply = await client.chat.completions.create(
            model="gpt-5.5",
            messages=messages,
            tools=[{"type": "function", "function": function}],
            max_completion_tokens=50,
        )
    assert reply.choices[0].message.tool_calls[0].function.name == "look"
    assert parrot.asked == [
        Request(
            model="gpt-5.5",
            max_tokens=50,
            system=[{"type": "text", "text": "Repeat."}],
            tools=[{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}],
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "Look."}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "seen"}],
                        }
                    ],
                },
            ],
        )
    ]


class Broken(Parrot):
    """A provider that cannot be reached."""

    async def stream(self, request: Request) -> AsyncIterator[ProviderEvent]:
        raise Overloaded("still busy")
        yield


async def test_a_provider_that_fails_is_an_error_of_the_server() -> None:
    async with (
        Simulator(source=replies_from_provider(Broken())) as sim,
        AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client,
    ):
        with pytest.raises(InternalServerError, match="no reply to give: still busy"):
            await client.messages.create(model=MODEL, max_tokens=99, messages=HELLO)
        assert sim.log[-1].status == 500
