"""The OpenAI-compatible adapter on loopback, fed as strangely as real servers do (P1, P5, Q3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from nacre.errors import AuthError, InvalidRequest, Overloaded, PromptTooLong, ProviderError, StreamBroken
from nacre.messages.blocks import Message, Text, ToolCall
from nacre.messages.events import ProviderEvent, Reply, ReplyStarted, TextDelta, ThinkingDelta, ToolCallEvent
from nacre.messages.usage import Usage
from nacre.providers.base import Request, complete
from nacre.providers.openai import OpenAICompatibleProvider, OpenAIReplyBuilder

HELLO = Request(model="gpt-6.1-terra", messages=[{"role": "user", "content": "hello"}])


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "model": "gpt",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def piece(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = ""
) -> dict[str, Any]:
    named = {} if index is None else {"index": index}
    return {**named, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.fixture
async def provider(canned: Any) -> AsyncIterator[OpenAICompatibleProvider]:
    adapter = OpenAICompatibleProvider(api_key="k", base_url=f"{canned.url}/v1")
    yield adapter
    await adapter.close()


async def heard(provider: OpenAICompatibleProvider, request: Request = HELLO) -> list[ProviderEvent]:
    return [event async for event in provider.stream(request)]


def calls_of(*fragments: Any) -> list[ToolCall]:
    """The calls of a reply whose chunks carry these tool-call fragments."""
    ids = iter("123456789")
    assembly = OpenAIReplyBuilder(lambda: next(ids))
    for fragment in fragments:
        assembly.take(chunk({"tool_calls": [fragment]}))
    assembly.take(chunk({}, "tool_calls"))
    reply = assembly.finish()[-1]
    assert isinstance(reply, Reply)
    return list(reply.message.tool_calls)


async def test_a_stream_becomes_deltas_then_calls_then_the_reply(canned: Any, provider: Any) -> None:
    """P5: the prompt counter includes the cached tokens; ours exclude each other."""
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 20,
        "total_tokens": 1020,
        "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
    }
    canned.chunks(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({"tool_calls": [piece(0, "a", "read", "")]}),
        chunk({"tool_calls": [piece(0, None, None, '{"p": ')]}),
        chunk({"tool_calls": [piece(0, None, None, "1}")]}),
        chunk({"tool_calls": [piece(1, "b", "read", '{"p": 2}')]}),
        chunk({}, "tool_calls"),
        {"id": "c1", "choices": [], "usage": usage},
    )
    first, second = ToolCall("a", "read", {"p": 1}), ToolCall("b", "read", {"p": 2})
    begun, *events = await heard(provider)
    assert isinstance(begun, ReplyStarted)
    assert events == [
        ThinkingDelta("hm"),
        TextDelta("Hel"),
        TextDelta("lo"),
        ToolCallEvent(first),
        ToolCallEvent(second),
        Reply(
            message=Message("assistant", (Text("Hello"), first, second)),
            usage=Usage(input=100, cache_write=300, cache_read=600, output=20, discarded=8),
            stop_reason="tool_use",
            id="c1",
            model="gpt",
        ),
    ]


async def test_the_request_is_translated(canned: Any, provider: Any) -> None:
    canned.chunks(chunk({"content": "ok"}, "stop"))
    request = Request(
        model="gpt-6.1-terra",
        messages=[{"role": "user", "content": "q"}],
        system=[{"type": "text", "text": "be kind"}],
        tools=[{"name": "r", "description": "d", "input_schema": {"type": "object"}}],
        max_tokens=77,
        thinking={"type": "adaptive"},
        output_schema={"type": "object"},
        options={"temperature": 0},
    )
    await complete(provider, request)
    assert canned.asked == [
        {
            "model": "gpt-6.1-terra",
            "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "q"}],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "r", "description": "d", "parameters": {"type": "object"}},
                }
            ],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": False},
            },
            "max_completion_tokens": 77,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
        }
    ]
    assert canned.heads[0].startswith("POST /v1/chat/completions ")


async def test_a_server_without_key_usage_or_proper_deltas_works(canned: Any) -> None:
    """Null deltas, no usage, no ids, content in parts, calls whole and finish said as "stop"."""
    canned.chunks(
        chunk(None),
        {"choices": None},
        chunk({"content": None, "tool_calls": None}),
        chunk({"content": [{"type": "text", "text": "look"}]}),
        chunk({"tool_calls": [piece(0, None, "read", {"p": "é"})]}, "stop", usage=None),
    )
    provider = OpenAICompatibleProvider(base_url=canned.url)
    reply = await complete(provider, Request(model="llama", messages=[]))
    await provider.close()
    assert reply.message.text == "look"
    assert [(call.name, call.input) for call in reply.message.tool_calls] == [("read", {"p": "é"})]
    assert reply.message.tool_calls[0].id.startswith("call_")
    assert (reply.usage, reply.stop_reason) == (Usage(), "tool_use")


def test_calls_that_share_an_index_are_told_apart_by_id() -> None:
    assert calls_of(piece(0, "a", "read", '{"p":1}'), piece(0, "b", "read", '{"p":2}')) == [
        ToolCall("a", "read", {"p": 1}),
        ToolCall("b", "read", {"p": 2}),
    ]


def test_calls_that_share_an_index_and_have_no_id_are_told_apart_when_the_first_is_whole() -> None:
    assert calls_of(
        piece(0, "", "read", '{"p":1}'), piece(0, "", "read", '{"p":2}'), piece(0, "", "list", "{}")
    ) == [
        ToolCall("call_1", "read", {"p": 1}),
        ToolCall("call_2", "read", {"p": 2}),
        ToolCall("call_3", "list", {}),
    ]


def test_a_server_that_repeats_id_and_name_in_every_fragment_makes_one_call() -> None:
    assert calls_of(
        piece(0, "a", "read", '{"p"'), piece(0, "a", "read", ":1}"), piece(0, "a", "read", "")
    ) == [ToolCall("a", "read", {"p": 1})]


def test_a_server_that_sends_a_new_id_with_every_fragment_makes_one_call() -> None:
    assert calls_of(piece(0, "a", "read", '{"p"'), piece(0, "b", None, ":1}")) == [
        ToolCall("a", "read", {"p": 1})
    ]


def test_fragments_without_index_belong_to_the_last_call() -> None:
    assert calls_of(
        piece(None, "a", "read", '{"p":'), piece(None, None, None, "1}"), piece(None, "b", "list", "{}")
    ) == [
        ToolCall("a", "read", {"p": 1}),
        ToolCall("b", "list", {}),
    ]


def test_interleaved_fragments_find_their_calls() -> None:
    assert calls_of(
        piece(0, "a", "read", '{"p"'),
        piece(1, "b", "read", '{"p"'),
        piece(0, None, None, ":1}"),
        piece(1, None, None, ":2}"),
    ) == [ToolCall("a", "read", {"p": 1}), ToolCall("b", "read", {"p": 2})]


def test_two_calls_never_share_an_id() -> None:
    assert [call.id for call in calls_of(piece(0, "same", "read", "{}"), piece(1, "same", "read", "{}"))] == [
        "same",
        "call_1",
    ]


async def test_a_call_never_takes_the_id_of_an_earlier_one_in_the_conversation(
    canned: Any, provider: Any
) -> None:
    """T6: some servers count from nought in every reply."""
    earlier = {"type": "tool_use", "id": "call_0", "name": "read", "input": {}}
    canned.chunks(chunk({"tool_calls": [piece(0, "call_0", "read", "{}")]}, "tool_calls"))
    request = Request(model="llama", messages=[{"role": "assistant", "content": [earlier]}])
    [call] = (await complete(provider, request)).message.tool_calls
    assert call.id != "call_0"


def test_arguments_that_are_no_object_are_kept_as_they_came() -> None:
    assert calls_of(
        piece(0, "a", "read", '{"p": oops'), piece(1, "b", "read", "[1]"), piece(2, "c", "read", "")
    ) == [
        ToolCall("a", "read", {"_malformed": '{"p": oops'}),
        ToolCall("b", "read", {"_malformed": "[1]"}),
        ToolCall("c", "read", {}),
    ]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("novel", "novel")],
)
async def test_why_a_reply_ended_is_said_in_our_words(
    finish: str, reason: str, canned: Any, provider: Any
) -> None:
    canned.chunks(chunk({"content": "x"}, finish))
    assert (await complete(provider, HELLO)).stop_reason == reason


BROKEN = {
    "an early end": lambda canned: canned.chunks(chunk({"content": "half"}), done=False),
    "nothing at all": lambda canned: canned.text(""),
    "no JSON": lambda canned: canned.text('data: {"choices": [\n\n'),
    "a bare list": lambda canned: canned.text("data: [1]\n\n"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_malformed_stream_is_a_broken_stream(what: str, canned: Any, provider: Any) -> None:
    BROKEN[what](canned)
    with pytest.raises(StreamBroken):
        await heard(provider)


async def test_silence_breaks_the_stream(canned: Any) -> None:
    canned.text('data: {"choices": []}\n\n', hold=True)
    provider = OpenAICompatibleProvider(base_url=canned.url, timeout=0.05)
    with pytest.raises(StreamBroken, match="sent nothing for"):
        await heard(provider)
    await provider.close()


async def test_leaving_a_stream_hangs_up(canned: Any, provider: Any) -> None:
    canned.text('data: {"choices": [{"delta": {"content": "a"}}]}\n\n', hold=True)
    stream = provider.stream(HELLO)
    assert isinstance(await anext(stream), ReplyStarted)
    assert await anext(stream) == TextDelta("a")
    await stream.aclose()
    await canned.closed.wait()


REFUSALS = [
    (400, "context_length_exceeded", "Your input exceeds the context window of this model.", PromptTooLong),
    (400, "exceed_context_size_error", "the request is too big", PromptTooLong),
    (400, "invalid_value", "bad tool", InvalidRequest),
    (401, "invalid_api_key", "Incorrect API key", AuthError),
    (403, "forbidden", "no", AuthError),
    (404, "model_not_found", "no such model", InvalidRequest),
    (413, "too_large", "too large", PromptTooLong),
    (422, "unprocessable", "no", InvalidRequest),
    (429, "rate_limit_exceeded", "slow down", Overloaded),
    (429, "insufficient_quota", "You exceeded your current quota", AuthError),
    (503, "overloaded", "busy", Overloaded),
]


@pytest.mark.parametrize(("status", "code", "said", "wanted"), REFUSALS)
async def test_each_refusal_has_its_error(
    status: int, code: str, said: str, wanted: type[ProviderError], canned: Any, provider: Any
) -> None:
    """Q3."""
    canned.fails(status, {"code": code, "message": said, "type": "t"}, retry_after_ms="1500")
    with pytest.raises(ProviderError) as caught:
        await heard(provider)
    assert type(caught.value) is wanted
    assert said in str(caught.value)
    if isinstance(caught.value, Overloaded):
        assert caught.value.retry_after == 1.5
    if isinstance(caught.value, AuthError):
        assert "OPENAI_API_KEY" in str(caught.value)
    assert len(canned.asked) == 1


async def test_a_prompt_too_long_says_by_how_much(canned: Any, provider: Any) -> None:
    said = (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    )
    canned.fails(400, {"code": "context_length_exceeded", "message": said})
    with pytest.raises(PromptTooLong) as caught:
        await heard(provider)
    assert (caught.value.tokens, caught.value.limit) == (9000, 8192)


async def test_an_error_inside_the_stream_can_be_tried_again_unless_the_prompt_is_too_long(
    canned: Any, provider: Any
) -> None:
    canned.chunks(chunk({"content": "a"}), {"error": {"message": "engine crashed", "code": "server_error"}})
    with pytest.raises(Overloaded, match="engine crashed"):
        await heard(provider)
    canned.chunks({"error": {"message": "too long", "code": "context_length_exceeded"}})
    with pytest.raises(PromptTooLong):
        await heard(provider)


async def test_tokens_are_not_counted(provider: Any) -> None:
    assert await provider.count_tokens(HELLO) is None


@pytest.mark.parametrize(
    ("delta", "details", "discarded"),
    [
        ({"reasoning_content": "hm"}, {"reasoning_tokens": 24_990}, 24_990),
        ({}, {"reasoning_tokens": 24_990}, 24_990),
        ({}, {"reasoning_tokens": 99_999}, 25_000),
        ({"reasoning_content": "hm"}, {"reasoning_tokens": 0}, 24_998),
        ({"reasoning_content": "hm"}, None, 24_998),
        ({}, None, 24_994),
        ({}, {"reasoning_tokens": 0}, 0),
    ],
)
def test_reasoning_that_is_not_kept_is_no_part_of_the_context(
    delta: dict[str, Any], details: dict[str, int] | None, discarded: int
) -> None:
    usage: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 25_000}
    assembly = OpenAIReplyBuilder(lambda: "id")
    assembly.take(chunk(delta))
    assembly.take(chunk({"content": "answer"}, "stop"))
    assembly.take(
        {"choices": [], "usage": usage | ({"completion_tokens_details": details} if details else {})}
    )
    (reply,) = assembly.finish()
    assert isinstance(reply, Reply)
    assert reply.usage == Usage(input=100, output=25_000, discarded=discarded)
    assert (reply.usage.total, reply.usage.context) == (25_100, 25_100 - discarded)


def test_a_model_without_reasoning_keeps_its_whole_output_in_the_context() -> None:
    """An estimate that is off is no sign of reasoning."""
    assembly = OpenAIReplyBuilder(lambda: "id")
    assembly.take(chunk({"content": "word " * 40}, "stop"))
    assembly.take({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 100}})
    (reply,) = assembly.finish()
    assert isinstance(reply, Reply)
    assert reply.usage.discarded == 0


def test_what_a_reply_has_used_so_far_is_estimated_until_it_is_reported() -> None:
    assembly = OpenAIReplyBuilder(lambda: "id")
    begun, _ = assembly.take(chunk({"reasoning_content": "r" * 400}))
    assert isinstance(begun, ReplyStarted)
    assembly.take(chunk({"content": "x" * 400}))
    assembly.take(chunk({"tool_calls": [piece(0, "a", "Write", '{"content": "' + "y" * 187)]}))
    assert begun.usage_so_far() == Usage(output=300, approximate=True)
    assembly.take({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 250}})
    assert begun.usage_so_far() == Usage(input=9, output=250, approximate=True)
