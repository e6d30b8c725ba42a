"""Histories that a client never shortens: what the provider gets is small, valid and the same each time."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic

from nacre.app.open_memory import open_memory
from nacre.cache.prefix_monitor import message_blocks
from nacre.devtools.sim.simulator import Simulator
from nacre.integrations.framework_session import Layers
from nacre.integrations.request_shrinker import RequestShrinker
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage
from nacre.settings import load
from tests.server.gateway.proxying import Running, answer, gateway, raw_upstream

KEY = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
READ: JsonObject = {"name": "read_file", "input_schema": {"type": "object"}}
LONG = "a long line of a file, number {n}\n"


def shrinker(tmp_path: Path, window: int | None = None) -> RequestShrinker:
    return RequestShrinker(tmp_path / "results", Layers(window=window))


@asynccontextmanager
async def shrinking(
    tmp_path: Path, script: list[Json], *, window: int | None = None, **changes: Any
) -> AsyncIterator[tuple[Simulator, Running]]:
    made = shrinker(tmp_path, window)
    async with Simulator(script) as sim, gateway(sim.url, shrinker=made, **changes) as proxy:
        yield sim, proxy


def text_of_file(number: int, lines: int) -> str:
    return f"file {number}\n" + "".join(LONG.format(n=n) for n in range(lines))


def history(api: str, rounds: int, lines: int) -> list[Any]:
    """Return a conversation in which the model reads a file in each round, as a client stores it."""
    said: list[Any] = [{"role": "user", "content": "Read all the files and tell me what they hold."}]
    for number in range(rounds):
        call, text = f"call_{number}", text_of_file(number, lines)
        arguments = json.dumps({"path": f"src/{number}.txt"})
        match api:
            case "messages":
                use = {"type": "tool_use", "id": call, "name": "read_file", "input": json.loads(arguments)}
                result = {"type": "tool_result", "tool_use_id": call, "content": text, "x_own": number}
                said += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
            case "chat":
                function = {"name": "read_file", "arguments": arguments}
                calls = [{"id": call, "type": "function", "function": function}]
                said += [
                    {"role": "assistant", "content": None, "tool_calls": calls},
                    {"role": "tool", "tool_call_id": call, "content": text, "name": "read_file"},
                ]
            case _:
                kind = {"type": "function_call", "call_id": call, "name": "read_file"}
                said += [
                    {**kind, "arguments": arguments},
                    {"type": "function_call_output", "call_id": call, "output": text},
                ]
        if number % 3 == 2:
            said += [{"role": "assistant", "content": f"I have read file {number}."}]
            said += [{"role": "user", "content": f"Go on with file {number + 1}, please."}]
    return said


def request(api: str, said: list[Any]) -> tuple[str, JsonObject]:
    """Return path and body of a request with this history."""
    function: JsonObject = {"name": "read_file", "parameters": {"type": "object"}}
    match api:
        case "messages":
            return "/v1/messages", {
                "model": "claude-sonnet-5-5", "max_tokens": 500, "tools": [READ], "messages": said,
            }  # fmt: skip
        case "chat":
            rules = [{"role": "system", "content": "Be brief."}]
            tools: list[Json] = [{"type": "function", "function": function}]
            return "/v1/chat/completions", {"model": "gpt-6-sol", "tools": tools, "messages": [*rules, *said]}
        case _:
            listed: list[Json] = [{"type": "function", **function}]
            return "/v1/responses", {
                "model": "gpt-6-sol", "instructions": "Be brief.", "tools": listed, "input": said,
            }  # fmt: skip


async def play(proxy: Running, api: str, said: list[Any]) -> None:
    """Send the history as it grows: one request at each point at which the model is asked."""
    asked = {"user", "tool", "function_call_output"}
    async with proxy.client(KEY) as client:
        for length in range(1, len(said) + 1):
            last = said[length - 1]
            if (last.get("role") or last.get("type")) in asked:
                path, body = request(api, said[:length])
                reply = await client.post(path, json=body)
                assert reply.status_code == 200, reply.text


def sent_messages(body: JsonObject) -> list[Any]:
    found = body["input"] if "input" in body else body["messages"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
async def test_a_history_stays_within_its_window_and_grows_between_compactions(
    api: str, tmp_path: Path
) -> None:
    """The simulator refuses results without calls, calls without results and prompts that are too long."""
    said = history(api, 24, 90)
    async with shrinking(tmp_path, ["So."] * 60, window=12_000) as (sim, proxy):
        await play(proxy, api, said)
        reported = sum(one.shrunk_bytes for one in await proxy.sessions(len(sim.log)))
    sizes = [len(json.dumps(sent_messages(line.body))) for line in sim.log]
    whole = len(json.dumps(said))
    assert max(sizes) < 12_000 * 4 < whole
    assert reported > 0
    bodies = [[json.dumps(one) for one in sent_messages(line.body)] for line in sim.log]
    grown = [new[: len(old)] == old for old, new in pairwise(bodies)]
    assert 1 <= grown.count(False) <= 4  # compactions, and nothing else
    assert "Read all the files" in json.dumps(sim.log[-1].body)


@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
async def test_a_long_result_goes_to_a_file_that_the_clients_tool_can_read(api: str, tmp_path: Path) -> None:
    said = history(api, 1, 4_000)
    async with shrinking(tmp_path, ["So."]) as (sim, proxy):
        path, body = request(api, said)
        async with proxy.client(KEY) as client:
            assert (await client.post(path, json=body)).status_code == 200
    sent = json.dumps(sim.log[0].body)
    [kept] = (tmp_path / "results").glob("*/*")
    assert kept.read_text() == text_of_file(0, 4_000)
    assert str(kept) in sent
    assert "read_file" in json.dumps(sent_messages(sim.log[0].body)[-1])
    assert len(sent) < 10_000
    if api == "messages":
        assert sim.log[0].body["messages"][-1]["content"][0]["x_own"] == 0  # type: ignore[index,call-overload]


@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
async def test_the_same_history_gives_the_same_bytes_in_another_process(api: str, tmp_path: Path) -> None:
    path, body = request(api, history(api, 20, 60))
    sent = []
    for _ in range(2):
        async with shrinking(tmp_path, ["So."] * 2, window=12_000) as (sim, proxy):
            async with proxy.client(KEY) as client:
                for _ in range(2):  # a repeated request, too
                    assert (await client.post(path, json=body)).status_code == 200
            sent += [json.dumps(line.body) for line in sim.log]
    first, repeated, restarted, _ = sent
    assert first == repeated
    # Ids of nacre's own records are no part of a request.
    assert first == restarted
    assert len(first) < len(json.dumps(body)) / 2


async def test_what_needs_no_shrinking_passes_byte_for_byte(tmp_path: Path) -> None:
    said = b'"messages":[ {"role":"user", "content":"hi", "x":1e2} ]'
    data = b'{"model":"claude-sonnet-5-5","max_tokens":9, ' + said + b',"x_new":{"a":[1.0]}}'
    async with (
        raw_upstream(answer(b"{}", head=b"content-type: application/json\r\n")) as upstream,
        gateway(upstream.url, shrinker=shrinker(tmp_path)) as proxy,
        proxy.client(KEY) as client,
    ):
        await client.post("/v1/messages", content=data)
    assert upstream.bodies == [data]


async def test_without_a_tool_that_reads_files_results_stay_in_the_history(tmp_path: Path) -> None:
    said = history("messages", 1, 4_000)
    _, body = request("messages", said)
    async with shrinking(tmp_path, ["So."]) as (sim, proxy), proxy.client(KEY) as client:
        await client.post("/v1/messages", json={**body, "tools": [{**READ, "name": "look_up"}]})
    assert sim.log[0].body["messages"] == said
    assert not (tmp_path / "results").exists()


async def test_the_client_gets_the_providers_usage_and_the_next_decision_rests_on_it(tmp_path: Path) -> None:
    async with shrinking(tmp_path, ["One.", "Two."], window=12_000) as (sim, proxy):
        client = AsyncAnthropic(base_url=proxy.url, api_key="k", max_retries=0)
        said: list[Any] = [{"role": "user", "content": "Hello there, how are you?"}]
        first = await client.messages.create(model="claude-sonnet-5-5", max_tokens=99, messages=said)
        await client.close()
    assert first.usage.input_tokens == sim.log[0].usage.input
    made = shrinker(tmp_path, 12_000)
    body: JsonObject = {"model": "claude-sonnet-5-5", "messages": said}
    shrunk = await made.shrink("messages", body)
    assert shrunk is not None
    shrunk.answered(Usage(input=7_000, output=10))
    more = [*said, {"role": "assistant", "content": "One."}, {"role": "user", "content": "And now the rest?"}]
    again = await made.shrink("messages", {**body, "messages": more})
    assert again is not None
    assert again.following.session.tokens > 7_000


async def test_a_history_that_the_provider_holds_is_left_alone(tmp_path: Path) -> None:
    body: JsonObject = {"model": "gpt-6-sol", "input": [], "previous_response_id": "r1"}
    assert await shrinker(tmp_path).shrink("responses", body) is None


async def test_items_of_codex_keep_their_order_and_reasoning(tmp_path: Path) -> None:
    """Reasoning, custom tools and tools in a namespace pass as they are."""
    namespace = {
        "type": "namespace",
        "name": "functions",
        "tools": [{"type": "custom", "name": "exec_command"}],
    }
    items: list[Any] = [
        {"type": "additional_tools", "role": "developer", "tools": [namespace]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be good."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look around."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "exec_command", "input": "cat a"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": LONG * 4_000},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Seen."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ]
    shrunk = await shrinker(tmp_path).shrink("responses", {"model": "gpt-6-sol", "input": items})
    assert shrunk is not None
    assert shrunk.body is not None
    sent = sent_messages(shrunk.body)
    assert [one for one in sent if one is not sent[5]] == [one for one in items if one is not items[5]]
    assert {**sent[5], "output": ""} == {**items[5], "output": ""}
    assert "exec_command" in sent[5]["output"]


async def test_memories_stay_where_they_are_in_a_history_that_is_shrunk(tmp_path: Path) -> None:
    settings = load(tmp_path, os.environ)
    await (await open_memory(settings, scope="user")).save("All the files hold is tested with pytest only.")
    async with shrinking(tmp_path, ["So."] * 60, memory=settings) as (sim, proxy):
        await play(proxy, "messages", history("messages", 4, 4_000))
    first, *_, last = (line.body for line in sim.log)
    assert "pytest only" in json.dumps(first)
    before, after = (
        [data for _, data in message_blocks(body["messages"])]  # type: ignore[arg-type]
        for body in (first, last)
    )
    assert after[: len(before)] == before
