from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre import loopback
from nacre.devtools.sim.simulator import Simulator
from nacre.errors import ConfigError
from nacre.server.gateway import proxy as proxy_module
from nacre.server.gateway.proxy import MAX_OBSERVED_BYTES
from nacre.server.gateway.records import read_records
from nacre.server.gateway.upstream import Upstream, end_to_end
from tests.scale import scaled
from tests.server.gateway.proxying import answer, gateway, raw_upstream

ASKED = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
KEY = {"x-api-key": "sk-ant-api-secret", "anthropic-version": "2023-06-01"}


def head_lines(head: bytes) -> list[bytes]:
    return [line.lower() for line in head.split(b"\r\n")[1:] if line]


async def test_upstream_receives_the_clients_bytes_and_headers() -> None:
    body = b'{ "model":"claude-sonnet-4-5",\n "unknown": [1.50, "\\u00e9"],  "messages":[] }'
    sent = {**KEY, "anthropic-beta": "a-2026,b-2026", "x-of-tomorrow": "yes", "user-agent": "an agent/1"}
    async with (
        raw_upstream(answer(b"{}")) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client() as client,
    ):
        await client.post("/v1/messages?beta=true&x=%2F", content=body, headers=sent)
    assert upstream.bodies == [body]
    assert upstream.heads[0].startswith(b"POST /v1/messages?beta=true&x=%2F HTTP/1.1\r\n")
    lines = head_lines(upstream.heads[0])
    for name, value in sent.items():
        assert f"{name}: {value}".encode().lower() in lines
    assert f"host: {upstream.url.removeprefix('http://')}".encode() in lines
    assert not [line for line in lines if line.startswith((b"connection", b"via", b"x-forwarded"))]


async def test_a_compressed_body_stays_compressed_and_is_read_for_the_report() -> None:
    body = gzip.compress(json.dumps(ASKED).encode())
    said = json.dumps({"model": "claude-sonnet-4-5", "usage": {"input_tokens": 7, "output_tokens": 2}})
    packed = gzip.compress(said.encode())
    head = b"content-type: application/json\r\ncontent-encoding: gzip\r\n"
    async with (
        raw_upstream(answer(packed, head=head)) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client() as client,
    ):
        headers = {**KEY, "content-encoding": "gzip"}
        async with client.stream("POST", "/v1/messages", content=body, headers=headers) as reply:
            received = b"".join([part async for part in reply.aiter_raw()])
        [session] = await proxy.sessions(1)
    assert upstream.bodies == [body]
    assert received == packed
    assert session.usage.input == 7


async def test_a_body_of_unknown_length_arrives_whole_on_any_path() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for number in range(50):
            yield b"%d " % number * 1_000

    whole = b"".join([part async for part in parts()])
    async with (
        raw_upstream(answer(b"{}")) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client() as client,
    ):
        for path in ("/v1/files", "/v1/messages"):
            await client.post(path, content=parts(), headers=KEY)
    assert upstream.bodies == [whole, whole]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_other_methods_and_paths_pass(method: str) -> None:
    reply = answer(b"" if method == "HEAD" else b"seen", status=b"418 I'm a teapot", head=b"x-own: 1\r\n")
    async with raw_upstream(reply) as upstream, gateway(upstream.url) as proxy, proxy.client() as client:
        seen = await client.request(method, "/v1/models/a:b%20c", headers=KEY)
    assert upstream.heads[0].startswith(f"{method} /v1/models/a:b%20c ".encode())
    assert (seen.status_code, seen.headers["x-own"]) == (418, "1")
    assert "date" not in seen.headers  # nothing is added that the provider did not send


async def test_an_error_of_the_provider_passes_with_its_headers() -> None:
    async with Simulator(["hello"]) as sim, gateway(sim.url) as proxy, proxy.client(KEY) as client:
        headers = {"x-sim-fault": "rate_limit; retry_after=7"}
        refused = await client.post("/v1/messages", json=ASKED, headers=headers)
        [session] = await proxy.sessions(1)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert session.failed == 1


async def test_a_provider_without_an_answer_is_an_error_of_the_api() -> None:
    async with gateway("http://127.0.0.1:9") as proxy, httpx2.AsyncClient(base_url=proxy.url) as client:
        ours = await client.post("/v1/messages", json=ASKED, headers=KEY)
        theirs = await client.post("/v1/chat/completions", json=ASKED)
    assert ours.status_code == theirs.status_code == 502
    assert ours.json()["type"] == "error"
    assert ours.json()["error"]["message"].startswith("nacre gateway: the provider gave no answer")
    assert theirs.json()["error"]["code"] is None
    assert ours.headers["x-nacre-gateway"] == "error"


async def test_a_reply_that_breaks_off_does_not_end_in_order() -> None:
    async with Simulator(["hello " * 50]) as sim, gateway(sim.url) as proxy, proxy.client(KEY) as client:
        headers = {"x-sim-fault": "disconnect; after=4"}
        body = {**ASKED, "stream": True}
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post("/v1/messages", json=body, headers=headers)
        [session] = await proxy.sessions(1)
    assert session.failed == 1
    assert session.usage.input > 0  # the provider had reported it with the first event


async def test_a_client_that_leaves_ends_its_request_at_the_provider() -> None:
    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        while True:
            writer.write(b"8\r\n: ping\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with raw_upstream(endless) as upstream, gateway(upstream.url) as proxy, proxy.client(KEY) as client:
        async with client.stream("POST", "/v1/messages", json=ASKED) as reply:
            await anext(reply.aiter_raw())
        async with asyncio.timeout(5):
            await upstream.closed.wait()
        [session] = await proxy.sessions(1)
    assert session.failed == 1


async def test_a_reply_is_read_no_faster_than_its_client_takes_it() -> None:
    sent = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            writer.write(bytes(65_536))
            await writer.drain()
            sent += 65_536

    async with (
        raw_upstream(flood) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client(KEY) as client,
        client.stream("GET", "/v1/files/big/content"),
    ):
        before = -1
        while before != sent:  # until the buffers of all sockets are full
            before = sent
            await asyncio.sleep(0.3)
        assert 0 < sent < 32 * 1024 * 1024


async def test_a_body_above_the_limit_passes_unobserved() -> None:
    part = bytes(1_000_000)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(MAX_OBSERVED_BYTES // len(part) + 5):
            yield part

    async with (
        raw_upstream(answer(b"{}")) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client(KEY) as client,
    ):
        assert (await client.post("/v1/messages", content=parts())).status_code == 200
        await client.post("/v1/messages", json=ASKED)
        [session] = await proxy.sessions(1)
    assert len(upstream.bodies[0]) > MAX_OBSERVED_BYTES
    assert session.requests == 1


async def test_each_of_many_clients_gets_its_own_reply() -> None:
    async def echo(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = json.loads(upstream.bodies[-1])["messages"][0]["content"]
        usage = {"input_tokens": int(said), "output_tokens": 1}
        event = {"type": "message_start", "message": {"model": "claude-sonnet-4-5", "usage": usage}}
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for char in f"data: {json.dumps(event)}\n\ndata: {said}\n\n".encode():
            writer.write(bytes([char]))
            await writer.drain()
            await asyncio.sleep(0)

    async def talk(number: int) -> None:
        headers = {**KEY, "x-api-key": f"key {number}"}
        body = {**ASKED, "messages": [{"role": "user", "content": str(number)}]}
        reply = await client.post("/v1/messages", json=body, headers=headers)
        assert reply.text.endswith(f"data: {number}\n\n")

    async with raw_upstream(echo) as upstream, gateway(upstream.url) as proxy, proxy.client() as client:
        await asyncio.gather(*(talk(number) for number in range(1, 61)))
        sessions = await proxy.sessions(60)
    assert sorted(one.usage.input for one in sessions) == list(range(1, 61))


async def test_a_client_that_takes_nothing_does_not_hold_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Patched, because the real limits are minutes.
    monkeypatch.setattr(proxy_module, "SLOW_CLIENT_SECONDS", 0.3)
    monkeypatch.setattr(proxy_module, "LOOK_SECONDS", 0.1)

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            writer.write(bytes(65_536))
            await writer.drain()

    async with raw_upstream(flood) as upstream, gateway(upstream.url) as proxy:
        port = int(proxy.url.rsplit(":", 1)[1])
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
        writer.write(b"GET /v1/files/big HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % port)
        async with asyncio.timeout(10):
            await upstream.closed.wait()
        writer.transport.abort()


@pytest.mark.parametrize("path", [b"/v1/messages", b"/v1/files"])
async def test_half_sent_bodies_keep_no_client_out(monkeypatch: pytest.MonkeyPatch, path: bytes) -> None:
    # Patched, because the real limit is hundreds of connections.
    monkeypatch.setattr(loopback, "MAX_CONNECTIONS", 16)
    async with raw_upstream(answer(b"{}")) as upstream, gateway(upstream.url) as proxy:
        port = int(proxy.url.rsplit(":", 1)[1])
        held = []
        for _ in range(40):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST %b HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % (path, port))
            writer.write(b"content-length: 9\r\n\r\n{")
            held.append(writer)
        await asyncio.sleep(0.2)
        async with proxy.client(KEY) as client:
            reply = await client.post("/v1/messages", json=ASKED)
        for writer in held:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    assert reply.status_code == 200


async def test_a_provider_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "SILENCE_SECONDS", 0.3)  # patched, because the real limit is minutes

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_upstream(silent) as upstream, gateway(upstream.url) as proxy, proxy.client(KEY) as client:
        reply = await client.post("/v1/messages", json=ASKED)
        [session] = await proxy.sessions(1)
    assert reply.status_code == 504
    assert "silent" in reply.json()["error"]["message"]
    assert session.failed == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1"}, 421),
    ],
)
async def test_pages_in_a_browser_are_refused(headers: dict[str, str], status: int) -> None:
    async with (
        raw_upstream(answer(b"{}")) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client() as client,
    ):
        refused = await client.post("/v1/messages", json=ASKED, headers={**KEY, **headers})
    assert refused.status_code == status
    assert upstream.heads == []


async def test_a_target_that_is_no_path_cannot_change_the_host() -> None:
    async with raw_upstream(answer(b"{}")) as upstream, gateway(upstream.url) as proxy:
        port = int(proxy.url.rsplit(":", 1)[1])
        for target in (b"@evil.example/v1/messages", b"http://evil.example/v1/messages", b"*"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET " + target + b" HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % port)
            assert (await reader.readline()).startswith(b"HTTP/1.1 400")
            writer.close()
    assert upstream.heads == []


async def test_a_status_that_http_does_not_have_is_an_error_of_the_provider() -> None:
    odd = answer(b"{}", status=b"999 Odd")
    async with raw_upstream(odd) as upstream, gateway(upstream.url) as proxy, proxy.client(KEY) as client:
        reply = await client.get("/v1/models")
    assert (reply.status_code, reply.headers["x-nacre-gateway"]) == (502, "error")


async def test_a_giant_head_of_the_provider_is_an_answer_without_a_traceback() -> None:
    giant = answer(b"{}", head=b"x-big: " + b"a" * 1_000_000 + b"\r\n")
    async with raw_upstream(giant) as upstream, gateway(upstream.url) as proxy, proxy.client() as client:
        assert (await client.get("/v1/models")).status_code == 502


async def test_a_client_cannot_take_the_length_from_its_body() -> None:
    named = {**KEY, "connection": "close, content-length"}
    async with (
        raw_upstream(answer(b"{}")) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client(named) as client,
    ):
        reply = await client.post("/v1/files", content=b"a body")
    assert (reply.status_code, upstream.bodies) == (200, [b"a body"])


async def test_a_record_holds_no_long_text_of_a_client_or_provider() -> None:
    odd = json.dumps({"error": {"code": "e" * 9_000, "type": "t"}}).encode()
    upstream_answer = answer(odd, status=b"400 Bad Request", head=b"content-type: application/json\r\n")
    async with raw_upstream(upstream_answer) as upstream, gateway(upstream.url) as proxy:
        async with proxy.client(KEY) as client:
            await client.post("/v1/messages", json={**ASKED, "model": "m" * 9_000})
        await proxy.sessions(1)
        [record] = read_records(proxy.home)
    assert len(json.dumps(record)) < 1_000
    assert record["error"] == "e" * 120


def test_only_headers_of_one_connection_are_removed() -> None:
    received = [
        (b"connection", b"keep-alive, X-Own"), (b"x-own", b"1"), (b"te", b"trailers"), (b"upgrade", b"h2c"),
        (b"keep-alive", b"5"), (b"transfer-encoding", b"chunked"), (b"proxy-authorization", b"Basic eA=="),
        (b"authorization", b"Bearer k"), (b"cookie", b"a=b"), (b"cookie", b"c=d"), (b"expect", b"1"),
    ]  # fmt: skip
    assert end_to_end(received) == received[7:]


@pytest.mark.parametrize(
    ("url", "path", "headers", "wanted"),
    [
        (None, b"/v1/messages", [], "https://api.anthropic.com/v1/messages"),
        (None, b"/v1/models", [(b"anthropic-version", b"1")], "https://api.anthropic.com/v1/models"),
        (None, b"/v1/models", [(b"authorization", b"Bearer k")], "https://api.openai.com/v1/models"),
        (None, b"/v1/completions", [], "https://api.openai.com/v1/completions"),
        ("https://host/api/v1/", b"/v1/responses", [], "https://host/api/v1/responses"),
        ("https://host/api", b"/v1/responses", [], "https://host/api/v1/responses"),
        ("http://host:8080", b"/v1beta/x", [], "http://host:8080/v1beta/x"),
    ],
)
def test_the_provider_follows_from_the_request(
    url: str | None, path: bytes, headers: list[tuple[bytes, bytes]], wanted: str
) -> None:
    target = Upstream(url).target(path, b"", headers)
    assert target.origin + target.path.decode() == wanted


@pytest.mark.parametrize(
    "url", ["", "api.anthropic.com", "ftp://host", "https://", "https://k@host", "http://h:x"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--upstream takes the address"):
        Upstream(url)


@settings(max_examples=scaled(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200_000), reply=st.binary(max_size=200_000), is_chunked=st.booleans())
async def test_any_bytes_pass_in_both_directions(body: bytes, reply: bytes, is_chunked: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 7_001):
            yield body[start : start + 7_001]

    async with (
        raw_upstream(answer(reply)) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client(KEY) as client,
    ):
        seen = await client.post("/v1/messages", content=parts() if is_chunked else body)
    assert upstream.bodies == [body]
    assert seen.content == reply


PIECES = st.sampled_from([
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 999 \r\n", b"content-length: 5\r\n", b"content-length: -1\r\n",
    b"transfer-encoding: chunked\r\n", b"\r\n", b"ffffffffffffffff\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n",
    b"content-type: text/event-stream\r\n", b"content-encoding: gzip\r\n", b"data: {\n\n", b"\x00\xff" * 50,
])  # fmt: skip


@pytest.mark.slow
@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PIECES | st.binary(max_size=60), max_size=8))
async def test_whatever_a_provider_answers_the_client_gets_an_answer_or_a_closed_connection(
    parts: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    garbage = b"".join(parts)
    async with raw_upstream(garbage) as upstream, gateway(upstream.url) as proxy, proxy.client(KEY) as client:
        try:
            reply = await client.post("/v1/messages", json=ASKED)
            assert reply.status_code >= 100
        except (httpx2.RemoteProtocolError, httpx2.DecodingError):
            pass
        await proxy.sessions(1)
    assert "Traceback" not in caplog.text


@pytest.mark.slow
@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(st.binary(max_size=80) | st.just(b"POST /v1/messages HTTP/1.1\r\n"), max_size=5))
async def test_whatever_a_client_sends_the_next_one_is_answered(sent: list[bytes]) -> None:
    async with (
        raw_upstream(answer(b"{}")) as upstream,
        gateway(upstream.url) as proxy,
        proxy.client(KEY) as client,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))
        writer.write(b"".join(sent))
        writer.write_eof()
        assert b"Traceback" not in await reader.read(65_536)
        writer.close()
        assert (await client.post("/v1/messages", json=ASKED)).status_code == 200
