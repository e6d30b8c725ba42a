"""Chat completions as the official SDK sees them, over real HTTP (P6)."""

from __future__ import annotations

import json

import openai
import pytest
from openai import AsyncOpenAI

from nacre.devtools.sim import Simulator
from nacre.messages.blocks import JsonObject

MODEL = "gpt-5.5"
HELLO: list[JsonObject] = [{"role": "user", "content": "Hello."}]
CALL: JsonObject = {
    "id": "c1",
    "type": "function",
    "function": {"name": "read", "arguments": '{"path":"/a"}'},
}


async def test_a_whole_reply_carries_text_and_calls(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend([{"text": "Looking.", "tool_calls": [{"id": "c1", "name": "read", "input": {"path": "/a"}}]}])
    reply = await gpt.chat.completions.create(model=MODEL, messages=HELLO)
    message = reply.choices[0].message
    assert (message.content, reply.choices[0].finish_reason) == ("Looking.", "tool_calls")
    assert [call.model_dump() for call in message.tool_calls] == [CALL]
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.prompt_tokens > 0


async def test_a_streamed_reply_adds_up_to_the_whole_one(sim: Simulator, gpt: AsyncOpenAI) -> None:
    calls = [{"name": "read", "input": {"path": "/a/b/c/d/e"}}, {"name": "ls", "input": {}}]
    sim.extend([{"text": "Looking at both of them now.", "tool_calls": calls}])
    stream = await gpt.chat.completions.create(
        model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    text, arguments, finished, usage = "", {}, None, None
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finished = choice.finish_reason or finished
            for call in choice.delta.tool_calls or []:
                name, so_far = arguments.get(call.index, (call.function.name, ""))
                arguments[call.index] = (name, so_far + (call.function.arguments or ""))
    assert text == "Looking at both of them now."
    assert arguments == {0: ("read", '{"path":"/a/b/c/d/e"}'), 1: ("ls", "{}")}
    assert (finished, usage.completion_tokens, usage.prompt_tokens > 0) == (
        "tool_calls",
        sim.log[-1].usage.output,
        True,
    )


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}])
async def test_usage_is_streamed_only_when_asked_for(gpt: AsyncOpenAI, options: JsonObject) -> None:
    stream = await gpt.chat.completions.create(model=MODEL, messages=HELLO, stream=True, **options)
    assert [chunk.usage async for chunk in stream if chunk.usage or not chunk.choices] == []


async def test_a_schema_is_followed(sim: Simulator, gpt: AsyncOpenAI) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    sim.extend(["no json", '{"n": 5}'])
    answers = []
    for _ in range(2):
        reply = await gpt.chat.completions.create(model=MODEL, messages=HELLO, response_format=shape)
        answers.append(json.loads(reply.choices[0].message.content))
    assert answers == [{"n": 3}, {"n": 5}]


async def test_the_limit_cuts_the_reply(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend(["word " * 50])
    reply = await gpt.chat.completions.create(model=MODEL, messages=HELLO, max_completion_tokens=5)
    assert (reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("length", 5)


async def test_an_answered_call_is_accepted(gpt: AsyncOpenAI) -> None:
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "file contents"},
    ]
    assert (await gpt.chat.completions.create(model=MODEL, messages=messages)).object == "chat.completion"


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "non-empty"),
        ([{"role": "robot", "content": "Hi."}], "role"),
        ([*HELLO, {"role": "assistant", "tool_calls": [CALL]}, *HELLO], "did not have response messages: c1"),
        ([*HELLO, {"role": "assistant", "tool_calls": [CALL]}], "did not have response messages: c1"),
        ([{"role": "tool", "tool_call_id": "c1", "content": "x"}], "preceding message with 'tool_calls'"),
    ],
)
async def test_broken_conversations_are_refused(
    gpt: AsyncOpenAI, messages: list[JsonObject], words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await gpt.chat.completions.create(model=MODEL, messages=messages)
    assert words in caught.value.message


async def test_a_prompt_over_the_window_names_its_code(gpt: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await gpt.chat.completions.create(
            model="some-local-model", messages=[{"role": "user", "content": "x" * 2_000_000}]
        )
    assert caught.value.code == "context_length_exceeded"


async def test_models_lists_openai_s_rows(gpt: AsyncOpenAI) -> None:
    assert MODEL in {model.id for model in (await gpt.models.list()).data}
