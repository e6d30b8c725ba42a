"""The Responses API as the official SDK sees it, over real HTTP (P6)."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from nacre.devtools.sim import Simulator
from nacre.devtools.sim.responses_api import is_sealed, seal
from nacre.messages.blocks import JsonObject

MODEL = "gpt-5.5"
STATELESS: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
READ: JsonObject = {"name": "read", "input": {"path": "/a"}}
REASONED: JsonObject = {
    "thinking": "Which file? The first.",
    "text": "Let me look at it.",
    "tool_calls": [{"id": "c1", **READ}],
}


async def test_a_whole_reply_holds_its_items_in_order(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend([REASONED])
    reply = await gpt.responses.create(model=MODEL, input="Hello.", reasoning={"summary": "auto"})
    reasoning, message, call = reply.output
    assert (reply.status, reply.output_text) == ("completed", "Let me look at it.")
    assert [part.text for part in reasoning.summary] == ["Which file? The first."]
    assert is_sealed(reasoning.encrypted_content)
    assert (message.role, call.call_id, call.arguments) == ("assistant", "c1", '{"path":"/a"}')
    assert reply.usage.output_tokens_details.reasoning_tokens > 0
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens


async def test_a_streamed_reply_adds_up_to_the_whole_one(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend([REASONED])
    async with gpt.responses.stream(
        model=MODEL, input="Hello.", reasoning={"summary": "auto"}, **STATELESS
    ) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    thought = "".join(
        event.delta for event in events if event.type == "response.reasoning_summary_text.delta"
    )
    arguments = "".join(
        event.delta for event in events if event.type == "response.function_call_arguments.delta"
    )
    assert (said, thought, arguments) == ("Let me look at it.", "Which file? The first.", '{"path":"/a"}')
    added = next(e for e in events if e.type == "response.output_item.added" and e.output_index == 0)
    done = next(e for e in events if e.type == "response.output_item.done" and e.output_index == 0)
    assert not is_sealed(added.item.encrypted_content), "not complete when it is announced"
    assert is_sealed(done.item.encrypted_content)
    assert final.usage.output_tokens == sim.log[-1].usage.output


async def test_a_tool_round_reads_the_cache_and_counts_its_reasoning(
    sim: Simulator, gpt: AsyncOpenAI
) -> None:
    """P5: input tokens are inclusive; reasoning that goes back is part of the prompt."""
    sim.extend([{**REASONED, "output_tokens": 5_000}, "Done."])
    ask: list[Any] = [{"role": "user", "content": "Look. " * 1_500}]
    model = "gpt-6.1-terra"
    first = await gpt.responses.create(model=model, input=ask, prompt_cache_key="s1", **STATELESS)
    kept = [item.model_dump(exclude_none=True) for item in first.output]
    output = {"type": "function_call_output", "call_id": "c1", "output": "AAA"}
    second = await gpt.responses.create(
        model=model, input=[*ask, *kept, output], prompt_cache_key="s1", **STATELESS
    )
    assert first.usage.input_tokens_details.cache_write_tokens > 2_000
    assert (
        second.usage.input_tokens_details.cached_tokens == first.usage.input_tokens_details.cache_write_tokens
    )
    assert second.usage.input_tokens - first.usage.input_tokens > 4_900
    other = await gpt.responses.create(model=model, input=ask, prompt_cache_key="s2", **STATELESS)
    assert other.usage.input_tokens_details.cached_tokens == 0


async def test_earlier_reasoning_is_not_shown_to_a_model_of_the_current_turn(
    sim: Simulator, gpt: AsyncOpenAI
) -> None:
    sim.extend([{"thinking": "hm", "text": "Yes.", "output_tokens": 5_000}, "Done.", "Done."])
    ask: list[Any] = [{"role": "user", "content": "Well?"}]
    first = await gpt.responses.create(model="o3", input=ask, **STATELESS)
    kept = [item.model_dump(exclude_none=True) for item in first.output]
    grown = [*ask, *kept, {"role": "user", "content": "And?"}]
    plain = await gpt.responses.create(model="o3", input=grown, **STATELESS)
    every = await gpt.responses.create(
        model="o3", input=grown, reasoning={"context": "all_turns"}, **STATELESS
    )
    assert plain.usage.input_tokens < 100 < 4_900 < every.usage.input_tokens


async def test_a_reply_that_reaches_the_limit_is_incomplete(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend(["word " * 50])
    reply = await gpt.responses.create(model=MODEL, input="Hello.", max_output_tokens=5)
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert reply.usage.output_tokens == 5


async def test_a_refusal_is_a_part_of_its_own(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend([{"text": "I cannot help with that.", "stop_reason": "refusal"}])
    reply = await gpt.responses.create(model=MODEL, input="Hello.")
    assert [part.type for part in reply.output[0].content] == ["refusal"]
    assert reply.output[0].content[0].refusal == "I cannot help with that."


async def test_a_schema_is_followed(sim: Simulator, gpt: AsyncOpenAI) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    sim.extend(["no json"])
    shape = {"format": {"type": "json_schema", "name": "answer", "schema": schema}}
    reply = await gpt.responses.create(model=MODEL, input="Hello.", text=shape)
    assert json.loads(reply.output_text) == {"n": 3}


async def test_a_stored_response_can_be_continued(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend(["First.", "Second.", "Third."])
    first = await gpt.responses.create(model=MODEL, input="A long question. " * 100)
    second = await gpt.responses.create(model=MODEL, input="More?", previous_response_id=first.id)
    assert second.usage.input_tokens > first.usage.input_tokens
    unstored = await gpt.responses.create(model=MODEL, input="Hello.", store=False)
    with pytest.raises(openai.BadRequestError) as caught:
        await gpt.responses.create(model=MODEL, input="More?", previous_response_id=unstored.id)
    assert caught.value.code == "previous_response_not_found"


RS: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal(3, "x")}
CALL: JsonObject = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
OUTPUT: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": "x"}
HELLO: JsonObject = {"role": "user", "content": "Hello."}


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "'input'"),
        ([HELLO, OUTPUT], "No tool call found for function call output with call_id c1"),
        ([HELLO, CALL], "No tool output found for function call c1"),
        ([HELLO, CALL, HELLO, OUTPUT], "No tool output found for function call c1"),
        ([HELLO, RS], "'rs_1' of type 'reasoning' was provided without its required following item"),
        ([HELLO, RS, HELLO], "without its required following item"),
        ([HELLO, {**RS, "encrypted_content": "tampered"}, CALL, OUTPUT], "could not be verified"),
        ([HELLO, {**RS, "encrypted_content": None}, CALL, OUTPUT], "Items are not persisted"),
    ],
)
async def test_broken_conversations_are_refused(gpt: AsyncOpenAI, items: list[Any], words: str) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        await gpt.responses.create(model=MODEL, input=items, **STATELESS)
    assert words in caught.value.message


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_parameters_of_chat_completions_are_refused(gpt: AsyncOpenAI, name: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await gpt.responses.create(model=MODEL, input="Hello.", extra_body={name: 5})
    assert caught.value.code == "unsupported_parameter"
    assert "max_output_tokens" in caught.value.message


async def test_a_failure_in_mid_stream_is_an_event(sim: Simulator, gpt: AsyncOpenAI) -> None:
    sim.extend([{"text": "never whole, for it breaks", "fault": {"kind": "overloaded", "after": 3}}])
    stream = await gpt.responses.create(model=MODEL, input="Hello.", stream=True)
    events = [event async for event in stream]
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "server_error"


async def test_chat_completions_refuse_what_only_responses_take(gpt: AsyncOpenAI) -> None:
    messages: list[Any] = [HELLO]
    with pytest.raises(openai.NotFoundError) as absent:
        await gpt.chat.completions.create(model="gpt-5.1-codex-max", messages=messages)
    assert "only supported in v1/responses" in absent.value.message
    with pytest.raises(openai.BadRequestError) as old:
        await gpt.chat.completions.create(model=MODEL, messages=messages, max_tokens=5)
    assert "max_completion_tokens" in old.value.message
    assert await gpt.chat.completions.create(model="some-local-model", messages=messages, max_tokens=5)
