"""The Anthropic adapter against real bytes on loopback (P1, P5, Q3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from nacre.errors import AuthError, InvalidRequest, Overloaded, PromptTooLong, ProviderError, StreamBroken
from nacre.messages.blocks import Message, Opaque, Text, Thinking, ToolCall
from nacre.messages.events import ProviderEvent, Reply, ReplyStarted, TextDelta, ThinkingDelta, ToolCallEvent
from nacre.messages.usage import Usage
from nacre.providers.anthropic import AnthropicProvider, AnthropicReplyBuilder
from nacre.providers.base import Request, complete

HELLO = Request(model="claude-sonnet-5-5", messages=[{"role": "user", "content": "hello"}])


def started(**usage: Any) -> dict[str, Any]:
    head = {"id": "msg_1", "model": "claude-sonnet-5-5", "role": "assistant", "content": [], "usage": usage}
    return {"type": "message_start", "message": head}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def ended(reason: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9, **usage}},
        {"type": "message_stop"},
    ]


def text_delta(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}


@pytest.fixture
async def provider(canned: Any) -> AsyncIterator[AnthropicProvider]:
    adapter = AnthropicProvider(api_key="k", base_url=canned.url)
    yield adapter
    await adapter.close()


async def heard(provider: AnthropicProvider, request: Request = HELLO) -> list[ProviderEvent]:
    return [event async for event in provider.stream(request)]


async def test_a_stream_becomes_deltas_then_calls_then_the_exact_reply(
    canned: Any, provider: AnthropicProvider
) -> None:
    """P1, P5: key order, signature and unknown blocks survive; the three input counters stay apart."""
    odd = {"type": "novelty", "zeta": 1, "alpha": {"deep": [None]}}
    canned.events(
        started(
            input_tokens=3,
            cache_creation_input_tokens=50,
            cache_read_input_tokens=700,
            cache_creation={"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 40},
            output_tokens=1,
        ),
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "let me "},
            {"type": "thinking_delta", "thinking": "see"},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *block(1, {"type": "text", "text": ""}, text_delta("Hel"), text_delta("lo")),
        *block(
            2,
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"z": 1, '},
            {"type": "input_json_delta", "partial_json": '"a": "é"}'},
        ),
        *block(3, odd),
        {"type": "a_kind_of_event_from_the_future", "x": 1},
        *ended("tool_use"),
    )
    call = ToolCall("toolu_1", "read", {"z": 1, "a": "é"})
    begun, *events = await heard(provider)
    assert isinstance(begun, ReplyStarted)
    assert events == [
        ThinkingDelta("let me "),
        ThinkingDelta("see"),
        TextDelta("Hel"),
        TextDelta("lo"),
        ToolCallEvent(call),
        Reply(
            message=Message(
                "assistant", (Thinking("let me see", "c2ln"), Text("Hello"), call, Opaque("novelty", odd))
            ),
            usage=Usage(input=3, cache_write=50, cache_read=700, output=9, cache_write_1h=40),
            stop_reason="tool_use",
            id="msg_1",
            model="claude-sonnet-5-5",
        ),
    ]
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert list(reply.message.tool_calls[0].input) == ["z", "a"]


async def test_a_compaction_block_and_citations_are_put_together(
    canned: Any, provider: AnthropicProvider
) -> None:
    cited = {"type": "char_location", "cited_text": "x"}
    canned.events(
        started(),
        *block(
            0,
            {"type": "compaction", "content": None},
            {"type": "compaction_delta", "content": "so far", "encrypted_content": "zz"},
        ),
        *block(
            1,
            {"type": "text", "text": "", "citations": []},
            text_delta("x"),
            {"type": "citations_delta", "citation": cited},
        ),
        *ended(),
    )
    reply = await complete(provider, HELLO)
    assert reply.message.blocks == (
        Opaque("compaction", {"type": "compaction", "content": "so far", "encrypted_content": "zz"}),
        Text("x", (("citations", [cited]),)),
    )


async def test_arguments_cut_short_are_kept_as_they_came(canned: Any, provider: AnthropicProvider) -> None:
    canned.events(
        started(),
        *block(
            0,
            {"type": "tool_use", "id": "t", "name": "write", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"text": "once up'},
        ),
        *ended("max_tokens"),
    )
    reply = await complete(provider, HELLO)
    assert reply.message.tool_calls == (ToolCall("t", "write", {"_malformed": '{"text": "once up'}),)


async def test_the_request_goes_out_as_it_is(canned: Any, provider: AnthropicProvider) -> None:
    """P1: markers, thinking and options pass untouched; the key order inside tool input is kept."""
    canned.events(started(), *ended())
    request = Request(
        model="claude-opus-5-5[1m]",
        messages=[
            {
                "role": "user",
                "content": [{"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}],
            },
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "r", "input": {"z": 1, "a": 2}}],
            },
        ],
        system=[{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        tools=[{"name": "r", "description": "d", "input_schema": {"type": "object"}}],
        max_tokens=77,
        thinking={"type": "adaptive"},
        output_schema={"type": "object"},
        options={"output_config": {"effort": "low"}, "metadata": {"user_id": "u"}},
    )
    await complete(provider, request)
    assert canned.asked == [
        {
            "model": "claude-opus-5-5",
            "system": request.system,
            "tools": request.tools,
            "messages": request.messages,
            "thinking": {"type": "adaptive"},
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {"type": "object"}},
            },
            "max_tokens": 77,
            "stream": True,
            "metadata": {"user_id": "u"},
        }
    ]
    assert b'"input":{"z":1,"a":2}' in canned.raw[0].replace(b": ", b":").replace(b", ", b",")
    assert "anthropic-beta" not in canned.heads[0].lower()


async def test_betas_are_named_in_the_header_only_when_there_are_some(
    canned: Any, provider: AnthropicProvider
) -> None:
    canned.events(started(), *ended())
    await complete(provider, Request(model="claude-opus-5-5", messages=[], betas=("b-1", "b-2")))
    assert "anthropic-beta: b-1,b-2" in canned.heads[0].lower()
    assert "post /v1/messages?beta=true" in canned.heads[0].lower()


BROKEN = {
    "an early end": lambda canned: canned.events(started(), *block(0, {"type": "text", "text": "half"})),
    "an end inside a block": lambda canned: canned.events(
        started(), *block(0, {"type": "text", "text": ""}, text_delta("half"))[:2], *ended()
    ),
    "nothing at all": lambda canned: canned.text(""),
    "no JSON": lambda canned: canned.text('event: message_start\ndata: {"type": "mess\n\n'),
    "a damaged event": lambda canned: canned.events(started(), {"type": "content_block_delta", "index": "x"}),
    "a delta of no block": lambda canned: canned.events(
        started(), {"type": "content_block_delta", "index": 4, "delta": text_delta("?")}
    ),
    "a block begun twice": lambda canned: canned.events(
        started(),
        *block(0, {"type": "text", "text": "a"}),
        *block(0, {"type": "text", "text": "b"}),
        *ended(),
    ),
    "a bare list": lambda canned: canned.text("event: message_start\ndata: [1]\n\n"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_malformed_stream_is_a_broken_stream(
    what: str, canned: Any, provider: AnthropicProvider
) -> None:
    BROKEN[what](canned)
    with pytest.raises(StreamBroken):
        await heard(provider)


async def test_silence_breaks_the_stream(canned: Any) -> None:
    canned.events(started(), hold=True)
    provider = AnthropicProvider(api_key="k", base_url=canned.url, timeout=0.05)
    with pytest.raises(StreamBroken, match=r"sent nothing for 0\.05 seconds"):
        await heard(provider)
    await provider.close()


async def test_leaving_a_stream_hangs_up(canned: Any, provider: AnthropicProvider) -> None:
    canned.events(started(), *block(0, {"type": "text", "text": "a"}), hold=True)
    stream = provider.stream(HELLO)
    assert isinstance(await anext(stream), ReplyStarted)
    assert await anext(stream) == TextDelta("a")
    await stream.aclose()
    await canned.closed.wait()


REFUSALS = [
    (400, "invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum", PromptTooLong),
    (400, "invalid_request_error", "messages: bad", InvalidRequest),
    (401, "authentication_error", "invalid x-api-key", AuthError),
    (403, "permission_error", "no", AuthError),
    (404, "not_found_error", "model: x", InvalidRequest),
    (408, "timeout_error", "slow", Overloaded),
    (409, "conflict", "again", Overloaded),
    (413, "request_too_large", "32 MB", PromptTooLong),
    (422, "invalid_request_error", "no", InvalidRequest),
    (429, "rate_limit_error", "slow down", Overloaded),
    (500, "api_error", "oops", Overloaded),
    (529, "overloaded_error", "Overloaded", Overloaded),
]


@pytest.mark.parametrize(("status", "kind", "said", "wanted"), REFUSALS)
async def test_each_refusal_has_its_error(
    status: int, kind: str, said: str, wanted: type[ProviderError], canned: Any, provider: AnthropicProvider
) -> None:
    """Q3."""
    canned.fails(status, {"type": kind, "message": said}, retry_after="7")
    with pytest.raises(ProviderError) as caught:
        await heard(provider)
    assert type(caught.value) is wanted
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    if isinstance(caught.value, Overloaded):
        assert caught.value.retry_after == 7
    if isinstance(caught.value, AuthError):
        assert "ANTHROPIC_API_KEY" in str(caught.value)
    assert len(canned.asked) == 1  # the SDK's own retries are off


async def test_a_prompt_too_long_says_by_how_much(canned: Any, provider: AnthropicProvider) -> None:
    canned.fails(
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 205000 tokens > 200000 maximum"},
    )
    with pytest.raises(PromptTooLong) as caught:
        await heard(provider)
    assert (caught.value.tokens, caught.value.limit) == (205_000, 200_000)


async def test_an_error_inside_the_stream_is_told_by_its_type(
    canned: Any, provider: AnthropicProvider
) -> None:
    canned.events(
        started(), {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    )
    with pytest.raises(Overloaded, match="529: Overloaded"):
        await heard(provider)


async def test_a_host_that_is_not_there_is_named() -> None:
    provider = AnthropicProvider(api_key="k", base_url="http://127.0.0.1:1")
    with pytest.raises(Overloaded, match=r"cannot reach anthropic at http://127\.0\.0\.1:1"):
        await heard(provider)
    await provider.close()


async def test_without_any_key_the_error_names_the_variable(
    canned: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    provider = AnthropicProvider(base_url=canned.url)
    with pytest.raises(AuthError, match="ANTHROPIC_API_KEY"):
        await heard(provider)
    await provider.close()


async def test_tokens_are_counted_by_the_provider_when_it_can(
    canned: Any, provider: AnthropicProvider
) -> None:
    canned.answer({"input_tokens": 1234})
    canned.fails(404, {"type": "not_found_error", "message": "no such path"})
    request = Request(
        model="claude-sonnet-5-5",
        messages=[{"role": "user", "content": "q"}],
        options={"metadata": {}, "tool_choice": {"type": "auto"}},
    )
    assert await provider.count_tokens(request) == 1234
    assert await provider.count_tokens(request) is None
    assert set(canned.asked[0]) == {"model", "messages", "tool_choice"}


async def test_an_equal_prefix_has_equal_bytes(canned: Any, provider: AnthropicProvider) -> None:
    """The prefix is sacred: what was sent is sent again byte for byte."""
    messages: list[Any] = [
        {"role": "user", "content": "é\ud800"},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
    ]
    for end in ([], [{"role": "user", "content": "more"}]):
        canned.events(started(), *ended())
        await complete(provider, Request(model="m", messages=[*messages, *end]))
    assert canned.asked[0]["messages"][0] == {"role": "user", "content": "é?"}
    assert canned.raw[1].startswith(canned.raw[0][: canned.raw[0].index(b'"ok"')])


async def test_what_a_reply_has_used_so_far_is_known_while_it_streams() -> None:
    """Input as the provider reports it at the start; output by what was received, until that is reported."""
    assembly = AnthropicReplyBuilder()
    (begun,) = assembly.take(started(input_tokens=7, cache_read_input_tokens=90, output_tokens=1))
    assert isinstance(begun, ReplyStarted)
    assert begun.usage_so_far() == Usage(input=7, cache_read=90, output=1, approximate=True)
    block = {"type": "tool_use", "id": "t", "name": "Write", "input": {}}
    events: list[Any] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 400}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"content": "' + "y" * 187},
        },
    ]
    for event in events:
        assembly.take(event)
    assert begun.usage_so_far().output == 100 + 100
    assembly.take(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 60}}
    )
    assert begun.usage_so_far().output == 60, "the provider's own count"
