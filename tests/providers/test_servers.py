"""Gemini and local servers: how they differ from OpenAI, replayed from the shapes they send (P9)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nacre.cache.models import cost, profile
from nacre.errors import AuthError, ConfigError, InvalidRequest, Overloaded, PromptTooLong
from nacre.messages.blocks import JsonObject, Text, ToolCall
from nacre.messages.usage import Usage
from nacre.messages.wire import render_blocks
from nacre.providers.anthropic import _own_body
from nacre.providers.base import Request, complete
from nacre.providers.choose import address_of, build, choose, is_remote_model, small_model
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.providers.openai_translate import UNSIGNED
from nacre.providers.servers import (
    COMPATIBLE,
    GEMINI,
    LLAMA_CPP,
    OLLAMA,
    OPENAI,
    VLLM,
    ServerProfile,
    server_at,
)

TOOLS: list[JsonObject] = [{"name": "read", "description": "", "input_schema": {"type": "object"}}]
HELLO: list[JsonObject] = [{"role": "user", "content": "hello"}]
JSON = {"content-type": "application/json"}
SIGNED = {"google": {"thought_signature": "CrYBAVSoXO6..."}}


def ask(model: str, **more: Any) -> Request:
    return Request(**{"model": model, "messages": HELLO, "tools": TOOLS, "cache_key": "s", **more})


async def heard(canned: Any, server: ServerProfile, request: Request) -> Any:
    adapter = OpenAICompatibleProvider(api_key="k", base_url=f"{canned.url}/v1", server=server)
    try:
        return await complete(adapter, request)
    finally:
        await adapter.close()


def gemini_chunk(delta: JsonObject, finish: str | None = None, usage: JsonObject | None = None) -> JsonObject:
    choice: JsonObject = {"delta": {"role": "assistant", **delta}, "index": 0}
    if finish:
        choice["finish_reason"] = finish
    chunk: JsonObject = {
        "choices": [choice],
        "created": 1763500000,
        "id": "LJ8caZ",
        "model": "gemini-3.8-flash",
        "object": "chat.completion.chunk",
    }
    return {**chunk, "usage": usage} if usage else chunk


def gemini_call(name: str, number: int, extra: Mapping[str, Any] | None = None) -> JsonObject:
    """A call as Gemini streams it: whole, and every one with index 0."""
    call: JsonObject = {
        "index": 0,
        "id": f"function-call-{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps({"path": f"{number}.txt"})},
    }
    return {**call, "extra_content": dict(extra)} if extra else call


async def test_gemini_gets_the_signatures_of_its_calls_back(canned: Any) -> None:
    usage: JsonObject = {
        "prompt_tokens": 5_000,
        "completion_tokens": 20,
        "total_tokens": 5_320,
        "prompt_tokens_details": {"cached_tokens": 4_096},
    }
    canned.chunks(
        gemini_chunk({"tool_calls": [gemini_call("read", 1, SIGNED), gemini_call("read", 2)]}),
        gemini_chunk({}, "stop", usage),
    )
    reply = await heard(canned, GEMINI, ask("gemini-3.8-flash"))
    assert [call.input for call in reply.message.tool_calls] == [{"path": "1.txt"}, {"path": "2.txt"}]
    assert reply.stop_reason == "tool_use"
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output) == (904, 4_096, 320)
    assert reply.usage.discarded == 300, "thinking is paid for and not kept"

    said: JsonObject = {"role": "assistant", "content": render_blocks(reply.message.blocks)}
    results: JsonObject = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": "x"}
            for call in reply.message.tool_calls
        ],
    }
    canned.chunks(gemini_chunk({"content": "Done."}, "stop"))
    await heard(canned, GEMINI, ask("gemini-3.8-flash", messages=[*HELLO, said, results]))
    body = canned.asked[-1]
    first, second = body["messages"][1]["tool_calls"]
    assert first["extra_content"] == SIGNED
    assert "extra_content" not in second
    assert not {"prompt_cache_key", "max_completion_tokens"} & set(body), "unknown fields are refused"
    assert body["max_tokens"] == 8_192
    own = _own_body({"messages": [said], "model": "claude-opus-5-5"}, "claude-opus-5-5")
    assert "thought_signature" not in json.dumps(own), "another provider does not get them"


async def test_calls_of_another_model_get_the_placeholder_that_gemini_accepts(canned: Any) -> None:
    calls: list[Any] = [{"type": "tool_use", "id": f"c{n}", "name": "read", "input": {}} for n in (1, 2)]
    results: list[Any] = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": "x"} for n in (1, 2)]
    messages: list[JsonObject] = [
        *HELLO,
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    for model, extra in (
        ("gemini-3.8-flash", {"google": {"thought_signature": UNSIGNED}}),
        ("gemini-2.5-flash", None),
        ("llama", None),
    ):
        canned.chunks(gemini_chunk({"content": "Done."}, "stop"))
        await heard(canned, GEMINI, ask(model, messages=messages))
        first, second = canned.asked[-1]["messages"][1]["tool_calls"]
        assert first.get("extra_content") == extra
        assert "extra_content" not in second


def test_gemini_has_prices_and_windows_and_a_new_one_has_none() -> None:
    known = profile("gemini-3.8-flash")
    assert (known.provider, known.window, known.max_output) == ("google", 1_048_576, 65_536)
    assert known.prices
    assert profile("gemini-9-ultra").prices == ()
    assert profile("gemini-9-ultra").signs_calls
    assert cost(profile("gemini-9-ultra"), Usage(input=10)) is None


def error(message: str, code: Any = 400, kind: str | None = None, **more: Any) -> JsonObject:
    return {"error": {"code": code, "message": message, **({"type": kind} if kind else {}), **more}}


LONG_GEMINI = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
LONG_LLAMA = "the request exceeds the available context size, try increasing it"
FIGURES = {"n_prompt_tokens": 9_000, "n_ctx": 8_192}
LONG_VLLM = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the "
    "messages, 500 in the completion). Please reduce the length of the messages or completion."
)
LONGER_VLLM = "The decoder prompt (length 5000) is longer than the maximum model length of 4096."
LONG_OLLAMA = "the input length exceeds the maximum context length"


@pytest.mark.parametrize(
    ("server", "body", "tokens", "limit"),
    [
        (GEMINI, [error(LONG_GEMINI, status="INVALID_ARGUMENT")], 1_200_000, 1_048_576),
        (LLAMA_CPP, error(LONG_LLAMA, kind="exceed_context_size_error", **FIGURES), 9_000, 8_192),
        (
            VLLM,
            {"object": "error", "message": LONG_VLLM, "type": "BadRequestError", "code": 400},
            5_000,
            4_096,
        ),
        (VLLM, error(LONGER_VLLM, kind="BadRequestError"), 5_000, 4_096),
        (OLLAMA, error(LONG_OLLAMA, None, "api_error"), None, None),
    ],
)
async def test_each_server_says_that_a_prompt_is_too_long(
    canned: Any, server: ServerProfile, body: Any, tokens: int | None, limit: int | None
) -> None:
    canned.answers.append((400, JSON, json.dumps(body).encode(), False))
    with pytest.raises(PromptTooLong) as caught:
        await heard(canned, server, ask("m"))
    assert (caught.value.tokens, caught.value.limit) == (tokens, limit)


async def test_a_reply_that_has_less_room_than_its_limit_is_asked_with_that(canned: Any) -> None:
    """vLLM refuses a limit that does not fit beside the prompt; a shorter conversation would not help."""
    said = (
        "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is "
        "8192 tokens and your request has 3000 input tokens (8192 > 8192 - 3000)."
    )
    canned.fails(400, {"message": said, "type": "BadRequestError", "param": None, "code": 400})
    canned.chunks(gemini_chunk({"content": "Hello."}, "stop"), gemini_chunk({"content": ""}))
    adapter = OpenAICompatibleProvider(base_url=f"{canned.url}/v1", server=VLLM)
    reply = await complete(adapter, ask("m"))
    assert reply.message.blocks == (Text("Hello."),)
    canned.chunks(gemini_chunk({"content": "Again."}, "stop"))
    await complete(adapter, ask("m"))
    await adapter.close()
    assert [body["max_tokens"] for body in canned.asked] == [8_192, 5_192, 8_192]


async def test_a_model_that_is_loading_is_tried_again_and_a_missing_one_is_named(canned: Any) -> None:
    canned.fails(503, {"code": 503, "message": "Loading model", "type": "unavailable_error"})
    with pytest.raises(Overloaded, match="llamacpp is busy"):
        await heard(canned, LLAMA_CPP, ask("m"))
    said = 'model "qwen9" not found, try pulling it first'
    canned.fails(404, {"message": said, "type": "api_error", "param": None, "code": None})
    with pytest.raises(InvalidRequest, match=r"ollama refuses.*try pulling it first"):
        await heard(canned, OLLAMA, ask("qwen9"))
    listed = [error("Method doesn't allow unregistered callers", 403, status="PERMISSION_DENIED")]
    canned.answers.append((403, JSON, json.dumps(listed).encode(), False))
    with pytest.raises(AuthError, match=r"gemini refuses the key.*GEMINI_API_KEY or GOOGLE_API_KEY"):
        await heard(canned, GEMINI, ask("gemini-3.8-flash"))


def ollama_chunk(delta: JsonObject, finish: str | None = None, **more: Any) -> JsonObject:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "qwen3",
        "system_fingerprint": "fp_ollama",
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": "", **delta}, "finish_reason": finish}
        ],
        **more,
    }


async def test_the_reasoning_and_the_calls_of_ollama_are_read(canned: Any) -> None:
    call = {"id": "call_1", "index": 0, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    canned.chunks(
        ollama_chunk({"reasoning": "Hm."}),
        ollama_chunk({"tool_calls": [call]}),
        ollama_chunk({}, "tool_calls"),
        {
            "id": "c",
            "choices": [],
            "usage": {"prompt_tokens": 30, "completion_tokens": 9, "total_tokens": 39},
        },
    )
    reply = await heard(canned, OLLAMA, ask("qwen3", thinking="off"))
    assert reply.message.blocks == (ToolCall("call_1", "read", {}),)
    assert canned.asked[0]["reasoning_effort"] == "none"
    assert canned.asked[0]["max_tokens"] == 8_192


@pytest.mark.parametrize(("server", "field"), [(LLAMA_CPP, "reasoning_content"), (VLLM, "reasoning")])
async def test_servers_of_open_models_take_thinking_for_the_chat_template(
    canned: Any, server: ServerProfile, field: str
) -> None:
    for level, values in (
        ("off", {"enable_thinking": False}),
        ("high", {"enable_thinking": True, "reasoning_effort": "high"}),
    ):
        canned.chunks(
            gemini_chunk({field: "Hm."}),
            gemini_chunk({"content": "Yes."}, "stop"),
        )
        reply = await heard(canned, server, ask("qwen3", thinking=level))
        assert reply.message.blocks == (Text("Yes."),)
        assert canned.asked[-1]["chat_template_kwargs"] == values
    canned.chunks(gemini_chunk({"content": "Yes."}, "stop"))
    await heard(canned, server, ask("qwen3"))
    assert not {"chat_template_kwargs", "reasoning_effort", "prompt_cache_key"} & set(canned.asked[-1])


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://api.openai.com/v1", OPENAI),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", GEMINI),
        ("http://localhost:11434/v1", OLLAMA),
        ("http://127.0.0.1:8000/v1", COMPATIBLE),
        ("http://host:port/v1", COMPATIBLE),
    ],
)
def test_a_server_is_recognised_by_its_address_where_that_tells(url: str, server: ServerProfile) -> None:
    assert server_at(url) is server


KEY = {"GEMINI_API_KEY": "g"}


@pytest.mark.parametrize(
    ("model", "environ", "server", "address", "leaves"),
    [
        ("gemini:gemini-3.8-flash", KEY, "gemini", GEMINI.base_url, True),
        ("gemini-3.8-flash", {"GOOGLE_API_KEY": "g"}, "gemini", GEMINI.base_url, True),
        ("gemini-3.8-flash", KEY | {"OPENAI_BASE_URL": "http://x/v1"}, "gemini", GEMINI.base_url, True),
        ("ollama:qwen3:8b", {}, "ollama", "http://localhost:11434/v1", False),
        ("ollama/qwen3", {"OLLAMA_BASE_URL": "http://box:11434/v1"}, "ollama", "http://box:11434/v1", True),
        ("vllm:qwen3", {"OPENAI_BASE_URL": "http://localhost:9/v1"}, "vllm", "http://localhost:9/v1", False),
        ("llamacpp:any", {}, "llamacpp", "http://localhost:8080/v1", False),
        ("gemini-x", {"OPENAI_BASE_URL": "http://localhost:9/v1"}, None, "http://localhost:9/v1", False),
    ],
)
async def test_a_prefix_names_the_server(
    model: str, environ: dict[str, str], server: str | None, address: str, leaves: bool
) -> None:
    choice = choose(model, environ)
    assert (choice.provider_name, choice.server) == ("openai", server)
    assert address_of(choice, environ) == address
    assert is_remote_model(choice, environ) is leaves
    assert choice.model == model.removeprefix(f"{server}:").removeprefix(f"{server}/")
    assert small_model(choice) == choice.model
    await build(choice, environ).close()


def test_gemini_without_a_key_is_one_line_of_advice() -> None:
    with pytest.raises(ConfigError, match="set GEMINI_API_KEY or GOOGLE_API_KEY"):
        choose("gemini:gemini-3.8-flash", {"OPENAI_API_KEY": "k"})
