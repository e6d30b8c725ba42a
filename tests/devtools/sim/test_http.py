"""The server as raw bytes see it: keep-alive, limits, garbage, half requests, loopback only."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anthropic
import h11
import httpx2
import pytest
from anthropic import AsyncAnthropic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.devtools.sim import SimClock, SimSettings, Simulator, serve
from nacre.devtools.sim.http import HttpLimits, HttpRequest, HttpResponse, LoopbackServer, loopback
from nacre.errors import ConfigError
from nacre.loopback import MAX_CONNECTIONS
from nacre.messages.blocks import JsonObject
from tests.integrations.hostile_clients import attacked
from tests.scale import scaled

MODEL = "claude-opus-5-5"
HELLO: list[JsonObject] = [{"role": "user", "content": "Hello."}]
KEY = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
BODY: JsonObject = {"model": MODEL, "max_tokens": 9, "messages": HELLO}


@asynccontextmanager
async def line(sim: Simulator) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sim.url.rsplit(":", 1)[1]))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def last_words(sim: Simulator, sent: bytes) -> bytes:
    """Everything the server says until it hangs up."""
    async with line(sim) as (reader, writer):
        writer.write(sent)
        return await asyncio.wait_for(reader.read(-1), 5)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_one_connection_serves_many_requests(sim: Simulator) -> None:
    ports = set()
    async with httpx2.AsyncClient(headers=KEY) as client:
        for _ in range(3):
            answer = await client.post(f"{sim.url}/v1/messages", json=BODY)
            stream = answer.extensions["network_stream"]
            ports.add(stream.get_extra_info("client_addr"))
            assert answer.status_code == 200
    assert len(ports) == 1


async def test_a_connection_survives_a_stream_and_a_refusal(sim: Simulator) -> None:
    ports = set()
    async with httpx2.AsyncClient(headers=KEY) as client:
        for body, status in (({**BODY, "stream": True}, 200), ({"model": MODEL}, 400), (BODY, 200)):
            answer = await client.post(f"{sim.url}/v1/messages", json=body)
            ports.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
            assert answer.status_code == status
    assert len(ports) == 1


async def test_requests_sent_ahead_are_answered_in_order(sim: Simulator) -> None:
    asked = b"GET /first HTTP/1.1\r\nhost: x\r\n\r\n"
    closing = b"GET /second HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = await last_words(sim, asked + closing)
    assert answer.count(b"HTTP/1.1 404") == 2
    assert answer.index(b"/first") < answer.index(b"/second")


async def test_many_clients_at_once_each_get_their_answer(sim: Simulator, claude: AsyncAnthropic) -> None:
    sim.extend([f"Reply {number}." for number in range(30)])

    async def ask(number: int) -> str:
        if number % 2:
            reply = await claude.messages.create(model=MODEL, max_tokens=99, messages=HELLO)
        else:
            async with claude.messages.stream(model=MODEL, max_tokens=99, messages=HELLO) as stream:
                reply = await stream.get_final_message()
        return reply.content[0].text

    said = await asyncio.gather(*(ask(number) for number in range(30)))
    assert sorted(said) == sorted(f"Reply {number}." for number in range(30))


async def test_a_missing_key_is_unauthorised(sim: Simulator) -> None:
    async with httpx2.AsyncClient() as client:
        claude = await client.post(f"{sim.url}/v1/messages", json=BODY)
        gpt = await client.post(f"{sim.url}/v1/chat/completions", json=BODY)
    assert (claude.status_code, claude.json()["error"]["type"]) == (401, "authentication_error")
    assert (gpt.status_code, gpt.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b'{"a":NaN}', "NaN"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 100_000, "JSON"),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(sim: Simulator, body: bytes, words: str) -> None:
    async with httpx2.AsyncClient(headers=KEY) as client:
        answer = await client.post(f"{sim.url}/v1/messages", content=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert words in answer.json()["error"]["message"]


async def test_the_version_header_is_required(sim: Simulator) -> None:
    async with httpx2.AsyncClient(headers={"x-api-key": "any"}) as client:
        answer = await client.post(f"{sim.url}/v1/messages", json=BODY)
    assert "anthropic-version" in answer.json()["error"]["message"]


async def test_a_header_sent_twice_is_one_list(sim: Simulator) -> None:
    editing = {**BODY, "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
    beta = [("anthropic-beta", "something-else"), ("anthropic-beta", "context-management-2025-06-27")]
    async with httpx2.AsyncClient(headers=[*KEY.items(), *beta]) as client:
        assert (await client.post(f"{sim.url}/v1/messages", json=editing)).status_code == 200
    async with httpx2.AsyncClient(headers=[*KEY.items(), beta[0]]) as client:
        assert (await client.post(f"{sim.url}/v1/messages", json=editing)).status_code == 400


async def test_an_unknown_route_is_not_found_in_the_provider_s_shape(sim: Simulator) -> None:
    async with httpx2.AsyncClient() as client:
        claude = await client.get(f"{sim.url}/v1/nothing", headers=KEY)
        gpt = await client.post(f"{sim.url}/v1/embeddings", json={})
        wrong_method = await client.get(f"{sim.url}/v1/messages", headers=KEY)
    assert (claude.status_code, claude.json()["error"]["type"]) == (404, "not_found_error")
    assert (gpt.status_code, gpt.json()["error"]["code"]) == (404, "not_found_error")
    assert "type" not in gpt.json()
    assert wrong_method.status_code == 404


SMALL = SimSettings(
    limits=HttpLimits(body_bytes=10_000, head_seconds=0.1, request_seconds=0.1, idle_seconds=0.1)
)


@pytest.fixture
async def small() -> AsyncIterator[Simulator]:
    async with Simulator(settings=SMALL) as running:
        yield running


async def test_a_body_over_the_limit_is_too_large(small: Simulator) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 1000

    big = [{"role": "user", "content": "x" * 20_000}]
    async with AsyncAnthropic(api_key="any", base_url=small.url, max_retries=0) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(model=MODEL, max_tokens=9, messages=big)
    assert (caught.value.status_code, caught.value.body["error"]["type"]) == (413, "request_too_large")
    async with httpx2.AsyncClient(headers=KEY) as raw:
        assert (await raw.post(f"{small.url}/v1/messages", content=chunks())).status_code == 413


def test_the_default_limit_is_the_provider_s() -> None:
    """Provider facts 1.5: 32 MB."""
    assert HttpLimits().body_bytes == 33_554_432


@pytest.mark.parametrize(
    "begun",
    [
        b"POST /v1/messages HT",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-slow: ",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
    ],
)
async def test_half_a_request_is_given_up_after_a_while(small: Simulator, begun: bytes) -> None:
    assert status_of(await last_words(small, begun)) == 408


async def test_a_request_that_drips_in_does_not_buy_time(small: Simulator) -> None:
    async with line(small) as (reader, writer):
        answering = asyncio.create_task(reader.read(-1))
        for letter in b"GET / HTTP/1.1\r\nx-drip: " + b"a" * 200:
            if answering.done() or writer.is_closing():
                break
            writer.write(bytes([letter]))
            with suppress(OSError):
                await writer.drain()
            await asyncio.sleep(0.01)
        answer = await asyncio.wait_for(answering, 5)
    assert status_of(answer) == 408


async def test_a_silent_connection_is_closed(small: Simulator) -> None:
    assert await last_words(small, b"") == b""


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello?\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"b" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_answered_with_an_error_and_closed(
    small: Simulator, garbage: bytes
) -> None:
    answer = await last_words(small, garbage)
    assert status_of(answer) in {400, 408, 431}
    async with httpx2.AsyncClient() as client:
        assert (await client.get(f"{small.url}/sim/log")).status_code == 200


async def test_an_address_that_cannot_be_split_is_no_http(small: Simulator) -> None:
    assert status_of(await last_words(small, b"GET //[ HTTP/1.1\r\nhost: x\r\n\r\n")) == 400


async def test_connections_above_the_limit_drop_the_oldest_that_is_not_answered() -> None:
    hanging: JsonObject = {"fault": "hang"}
    async with Simulator([hanging, "Hello."]) as sim, AsyncExitStack() as opened:
        busy = await opened.enter_async_context(httpx2.AsyncClient(headers=KEY, timeout=30))
        asked = asyncio.create_task(busy.post(f"{sim.url}/v1/messages", json=BODY))
        await sim.arrivals(1)
        readers = []
        for _ in range(MAX_CONNECTIONS + 20):
            reader, writer = await opened.enter_async_context(line(sim))
            writer.write(b"POST /v1/messages HT")
            readers.append(reader)
        async with AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client:
            reply = await asyncio.wait_for(
                client.messages.create(model=MODEL, max_tokens=9, messages=HELLO), 5
            )
        assert reply.content[0].text == "Hello."
        dropped = [reader.at_eof() or reader.exception() is not None for reader in readers]
        assert dropped == [True] * sum(dropped) + [False] * (len(dropped) - sum(dropped))
        assert 20 <= sum(dropped) <= 30
        assert not asked.done()
        asked.cancel()


@pytest.mark.slow
async def test_a_client_is_answered_during_an_attack() -> None:
    program = f"ulimit -n 256; exec {sys.executable} -m nacre sim --port 0"
    server = subprocess.Popen(["/bin/sh", "-c", program], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert url is not None
        with attacked(int(url[0].rpartition(":")[2]), 1_000):
            for _ in range(5):
                async with AsyncAnthropic(api_key="any", base_url=url[0], max_retries=0) as client:
                    asked = client.messages.create(model=MODEL, max_tokens=9, messages=HELLO)
                    await asyncio.wait_for(asked, 2)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    garbage=st.binary(max_size=300), head=st.sampled_from([b"", b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n"])
)
def test_no_bytes_can_bring_the_server_down(garbage: bytes, head: bytes) -> None:
    async def story() -> None:
        quick = SimSettings(limits=HttpLimits(head_seconds=0.02, request_seconds=0.02, idle_seconds=0.02))
        async with Simulator(settings=quick) as sim:
            async with line(sim) as (reader, writer):
                writer.write(head + garbage)
                with suppress(OSError):
                    await asyncio.wait_for(reader.read(-1), 5)
            assert (
                b"200"
                in (await last_words(sim, b"GET /sim/log HTTP/1.1\r\nhost: x\r\n\r\n")).split(b"\r\n")[0]
            )

    asyncio.run(story())


async def test_a_client_that_waits_for_permission_is_given_it(sim: Simulator) -> None:
    async with line(sim) as (reader, writer):
        body = json.dumps(BODY).encode()
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 1\r\n"
            b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def is_waiting(task: asyncio.Task[object]) -> bool:
    """Nothing comes however long one waits; a short while must do."""
    done, _ = await asyncio.wait({task}, timeout=0.05)
    return not done


async def test_a_stream_begins_and_ends_when_the_script_says() -> None:
    slow: JsonObject = {"text": "Begun.", "delay": 30, "duration": 60}
    async with (
        Simulator([slow], clock=SimClock(manual=True)) as sim,
        AsyncAnthropic(api_key="any", base_url=sim.url, max_retries=0) as client,
    ):
        opening = asyncio.create_task(
            client.messages.create(model=MODEL, max_tokens=99, messages=HELLO, stream=True)
        )
        await sim.arrivals(1)
        assert await is_waiting(opening)
        sim.clock.advance(30)
        async with await opening as stream:
            seen = [(await anext(stream)).type for _ in range(5)]
            ending = asyncio.create_task(anext(stream))
            assert await is_waiting(ending)
            sim.clock.advance(60)
            seen.append((await ending).type)
    assert seen[2:] == ["content_block_delta", "content_block_stop", "message_delta", "message_stop"]


async def test_an_answer_ends_when_its_client_leaves() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait_forever(request: HttpRequest) -> HttpResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    server = LoopbackServer(wait_forever, host="127.0.0.1", port=0, limits=HttpLimits())
    port = await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await begun.wait()
    writer.close()
    await writer.wait_closed()
    await asyncio.wait_for(ended.wait(), 5)
    await server.close()


async def test_closing_ends_requests_that_hang() -> None:
    async with Simulator([{"fault": "hang"}]) as sim, httpx2.AsyncClient(headers=KEY) as client:
        hanging = asyncio.create_task(client.post(f"{sim.url}/v1/messages", json=BODY))
        await sim.arrivals(1)
        await sim.__aexit__(None, None, None)
        with pytest.raises(httpx2.HTTPError):
            await hanging


async def test_an_answer_that_fails_is_said_to_have_failed() -> None:
    async def fail(request: HttpRequest) -> HttpResponse:
        raise RuntimeError("no idea")

    server = LoopbackServer(fail, host="127.0.0.1", port=0, limits=HttpLimits())
    port = await server.start()
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/")
    await server.close()
    assert (answer.status_code, "RuntimeError: no idea" in answer.text) == (500, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", "", "8.8.8.8"])
def test_only_loopback_may_be_bound(host: str) -> None:
    with pytest.raises(ConfigError, match=r"this machine only: use --host 127\.0\.0\.1") as caught:
        Simulator(settings=SimSettings(host=host))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "bound"), [("localhost", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("[::1]", "::1")]
)
def test_loopback_has_several_names(host: str, bound: str) -> None:
    assert loopback(host) == bound


async def test_a_port_in_use_is_said_in_one_line(sim: Simulator) -> None:
    taken = int(sim.url.rsplit(":", 1)[1])
    with pytest.raises(ConfigError, match="choose another --port"):
        async with Simulator(settings=SimSettings(port=taken)):
            pass


async def test_serve_says_where_it_listens_and_runs_until_cancelled(tmp_path: object) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    running = asyncio.create_task(serve(SimSettings(), ready=told.put_nowait))
    url = await asyncio.wait_for(told.get(), 5)
    async with httpx2.AsyncClient(headers=KEY) as client:
        assert (await client.post(f"{url}/v1/messages", json=BODY)).status_code == 200
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_the_url_needs_a_running_server() -> None:
    with pytest.raises(ConfigError, match="async with"):
        _ = Simulator().url


def test_h11_bounds_the_head() -> None:
    """The head of a request is bounded by h11 itself; a change there should be noticed here."""
    assert h11.Connection(h11.SERVER)._max_incomplete_event_size <= 65_536
