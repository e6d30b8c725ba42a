"""OpenAI's Responses API: what is sent, what is kept of a reply, and what a refusal teaches (P1, Q3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from nacre.devtools.sim import Simulator
from nacre.errors import (
    AuthError,
    InvalidRequest,
    Overloaded,
    PromptTooLong,
    StreamBroken,
    ThinkingMismatch,
)
from nacre.messages.blocks import Json, JsonObject, Text, Thinking
from nacre.messages.events import Reply, ThinkingDelta
from nacre.messages.wire import render_blocks
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Request, complete
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.providers.openai_responses import translate_message
from tests.providers.conftest import Canned

TOOLS: list[JsonObject] = [{"name": "read", "description": "reads", "input_schema": {"type": "object"}}]
ASKED: list[JsonObject] = [{"role": "user", "content": "look"}]
REASONED: JsonObject = {"thinking": "Which one?", "tool_calls": [{"id": "c1", "name": "read", "input": {}}]}
REQUEST = Request(model="gpt-5.3-codex", messages=ASKED, tools=TOOLS, cache_key="session-1")


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


@pytest.fixture
async def provider(sim: Simulator) -> AsyncIterator[OpenAICompatibleProvider]:
    made = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1", timeout=5)
    yield made
    await made.close()


def grown(reply: Reply, *after: JsonObject) -> list[JsonObject]:
    return [*ASKED, {"role": "assistant", "content": render_blocks(reply.message.blocks)}, *after]


RESULT: JsonObject = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "AAA"}],
}


async def test_a_request_is_stateless_and_names_its_session(
    sim: Simulator, provider: OpenAICompatibleProvider
) -> None:
    await complete(
        provider, replace(REQUEST, system=[{"type": "text", "text": "be kind"}], options={"temperature": 0})
    )
    (line,) = sim.log
    assert line.route == "POST /v1/responses"
    assert line.body == {
        "model": "gpt-5.3-codex",
        "instructions": "be kind",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "reads",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "input": [{"role": "user", "content": "look"}],
        "max_output_tokens": 8_192,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "session-1",
        "stream": True,
        "temperature": 0,
    }


async def test_reasoning_goes_back_as_it_came(sim: Simulator, provider: OpenAICompatibleProvider) -> None:
    sim.extend([{**REASONED, "output_tokens": 900}, "Done."])
    first = await complete(provider, REQUEST)
    thinking, _ = first.message.blocks
    assert isinstance(thinking, Thinking)
    assert (first.stop_reason, first.usage.discarded) == ("tool_use", 0)
    second = await complete(provider, replace(REQUEST, messages=grown(first, RESULT)))
    assert second.message.text == "Done."
    sent = sim.log[1].body["input"]
    assert isinstance(sent, list)
    assert [item.get("type") for item in sent if isinstance(item, dict)] == [
        None, "reasoning", "function_call", "function_call_output"
    ]  # fmt: skip
    assert sent[1] == dict(thinking.extra)["openai"]
    assert second.usage.prompt > first.usage.prompt + 800, "the provider counts it"


async def test_reasoning_without_its_reply_is_left_out() -> None:
    """The API refuses a reasoning item that nothing follows."""
    own: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    block: JsonObject = {"type": "thinking", "thinking": "", "openai": own}
    assert translate_message({"role": "assistant", "content": [block]}) == []
    foreign: JsonObject = {"type": "thinking", "thinking": "hm", "signature": "of another provider"}
    said: JsonObject = {"type": "text", "text": "Yes."}
    items = translate_message({"role": "assistant", "content": [block, foreign, said]})
    assert items == [own, {"role": "assistant", "content": "Yes."}]


async def test_reasoning_that_was_cut_off_is_not_kept(
    sim: Simulator, provider: OpenAICompatibleProvider
) -> None:
    sim.extend([{"thinking": "hm " * 99, "stop_reason": "max_tokens", "output_tokens": 300}])
    reply = await complete(provider, REQUEST)
    assert (reply.message.blocks, reply.stop_reason) == ((), "max_tokens")
    assert reply.usage.discarded == reply.usage.output == 300


async def test_a_refused_reasoning_item_is_a_thinking_mismatch(
    sim: Simulator, provider: OpenAICompatibleProvider
) -> None:
    sim.extend([REASONED])
    first = await complete(provider, REQUEST)
    thinking = first.message.blocks[0]
    assert isinstance(thinking, Thinking)
    own = dict(thinking.extra)["openai"]
    assert isinstance(own, dict)
    broken = Thinking("", None, (("openai", {**own, "encrypted_content": "of another key"}),))
    message = replace(first.message, blocks=(broken, *first.message.blocks[1:]))
    with pytest.raises(ThinkingMismatch):
        await complete(provider, replace(REQUEST, messages=grown(replace(first, message=message), RESULT)))


async def test_a_refusal_of_the_model_is_told_from_an_answer(
    sim: Simulator, provider: OpenAICompatibleProvider
) -> None:
    sim.extend([{"text": "I cannot help with that.", "stop_reason": "refusal"}])
    reply = await complete(provider, REQUEST)
    assert (reply.message.text, reply.stop_reason) == ("I cannot help with that.", "refusal")


async def test_another_provider_gets_no_reasoning_of_this_one(sim: Simulator) -> None:
    """A model switched in mid-conversation: what only OpenAI reads stays behind."""
    own: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    content: list[Json] = [
        {"type": "thinking", "thinking": "", "openai": own},
        {"type": "text", "text": "Yes.", "openai": {"phase": "final_answer"}},
    ]
    alone: list[Json] = [{"type": "thinking", "thinking": "", "openai": own}]
    messages: list[JsonObject] = [
        *ASKED,
        {"role": "assistant", "content": content},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": alone},
        {"role": "user", "content": "well?"},
    ]
    sim.extend(["ok"])
    claude = AnthropicProvider(api_key="k", base_url=sim.url)
    request = Request(model="claude-sonnet-5-5", messages=messages)
    assert (await complete(claude, request)).message.text == "ok"
    assert await claude.count_tokens(request)
    await claude.close()
    assert sim.log[0].body["messages"] == [
        ASKED[0],
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        {"role": "user", "content": "and?"},
        {"role": "user", "content": "well?"},
    ]


def item_done(index: int, item: JsonObject) -> JsonObject:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


COMPLETED: JsonObject = {
    "type": "response.completed",
    "response": {"id": "resp_1", "model": "m", "usage": {"input_tokens": 9, "output_tokens": 4}},
}


async def test_a_phase_is_kept_for_the_next_request(canned: Canned) -> None:
    """The API's reference asks that the phase of every assistant message is sent back."""
    part: JsonObject = {"type": "output_text", "text": "Looking."}
    said: JsonObject = {"type": "message", "role": "assistant", "phase": "commentary", "content": [part]}
    reasoning: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
    delta: JsonObject = {"type": "response.reasoning_summary_text.delta", "delta": "hm"}
    canned.events({"type": "response.created"}, delta, item_done(0, reasoning), item_done(1, said), COMPLETED)
    provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url)
    events = [event async for event in provider.stream(REQUEST)]
    await provider.close()
    assert ThinkingDelta("hm") in events
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message.blocks == (Text("Looking.", (("openai", {"phase": "commentary"}),)),)
    assert translate_message(grown(reply)[1]) == [
        {"role": "assistant", "content": "Looking.", "phase": "commentary"}
    ]


async def test_a_stream_that_ends_early_is_broken(canned: Canned) -> None:
    canned.events({"type": "response.created"}, {"type": "response.future_event", "x": 1})
    provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url)
    with pytest.raises(StreamBroken):
        await complete(provider, REQUEST)
    canned.events({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"})
    with pytest.raises(Overloaded, match="slow down"):
        await complete(provider, REQUEST)
    await provider.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("server_error", Overloaded),
        ("rate_limit_exceeded", Overloaded),
        ("invalid_prompt", InvalidRequest),
        ("invalid_image_format", InvalidRequest),
        ("context_length_exceeded", PromptTooLong),
        ("insufficient_quota", AuthError),
    ],
)
async def test_a_reply_that_fails_in_mid_stream_is_tried_again_only_where_that_helps(
    canned: Canned, code: str, error: type[Exception]
) -> None:
    failed: JsonObject = {"status": "failed", "error": {"code": code, "message": "no"}, "output": []}
    canned.events({"type": "response.created"}, {"type": "response.failed", "response": failed})
    provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url)
    with pytest.raises(error):
        await complete(provider, REQUEST)
    await provider.close()


class TestForms:
    """The server says which form of a request it takes; the next request has it from the start."""

    async def test_a_model_of_the_other_api_is_asked_there(self, sim: Simulator) -> None:
        """A model newer than the table, of which chat completions say that it is not theirs."""
        sim.extend(["Hello.", "Again."])
        provider = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1", api="chat")
        for wanted in ("Hello.", "Again."):
            assert (await complete(provider, REQUEST)).message.text == wanted
        await provider.close()
        assert [(line.route, line.status) for line in sim.log] == [
            ("POST /v1/chat/completions", 404),
            ("POST /v1/responses", 200),
            ("POST /v1/responses", 200),
        ]

    async def test_a_server_without_the_api_is_asked_by_chat_completions(self, canned: Canned) -> None:
        canned.fails(404, "404 page not found")
        canned.chunks({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]})
        provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url)
        assert (await complete(provider, replace(REQUEST, model="o3"))).message.text == "Hi."
        await provider.close()
        assert [head.split()[1] for head in canned.heads] == ["/responses", "/chat/completions"]

    async def test_the_name_of_the_limit_follows_the_model(self, canned: Canned) -> None:
        """A deployment with a name of its own behind a proxy: nothing but the refusal tells."""
        said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        canned.fails(400, {"message": said, "code": "unsupported_parameter"})
        for _ in range(2):
            canned.chunks({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]})
        provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url)
        for _ in range(2):
            await complete(provider, replace(REQUEST, model="our-deployment"))
        await provider.close()
        limits = [[name for name in body if name.startswith("max_")] for body in canned.asked]
        assert limits == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]

    async def test_a_model_without_encrypted_reasoning_is_asked_without_it(self, canned: Canned) -> None:
        canned.fails(400, {"message": "Encrypted content is not supported with this model."})
        canned.events({"type": "response.created"}, COMPLETED)
        provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url, api="responses")
        await complete(provider, replace(REQUEST, model="gpt-next"))
        await provider.close()
        assert ["include" in body for body in canned.asked] == [True, False]

    async def test_any_other_refusal_is_told_at_once(self, canned: Canned) -> None:
        canned.fails(400, {"message": "max_tokens is too large: 9999999"})
        provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url)
        with pytest.raises(InvalidRequest, match="too large"):
            await complete(provider, replace(REQUEST, model="our-deployment"))
        await provider.close()

    async def test_chat_completions_of_openai_name_the_session_unless_a_proxy_refuses_it(
        self, canned: Canned
    ) -> None:
        said = "Unrecognized request argument supplied: prompt_cache_key"
        canned.fails(400, {"message": said, "type": "invalid_request_error"})
        for _ in range(2):
            canned.chunks({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]})
        provider = OpenAICompatibleProvider(api_key="k", base_url=canned.url)
        request = Request(model="gpt-5.5", messages=ASKED, cache_key="session")
        for _ in range(2):
            assert (await complete(provider, request)).message.text == "Hi."
        await provider.close()
        assert [body.get("prompt_cache_key") for body in canned.asked] == ["session", None, None]
