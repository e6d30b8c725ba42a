"""The gateway as an ASGI application: requests and replies pass through unchanged, as they arrive (G1).

A reply is read no faster than its client takes it. A client that leaves ends its request at the provider. A
reply that breaks off there breaks off here, so that nobody takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

import httpx2

from nacre.asgi import Receive, Scope, Send, header_values, read_refused
from nacre.loopback import ConnectionLimit
from nacre.server.gateway.upstream import (
    PROJECT_HEADER,
    Api,
    Headers,
    Target,
    Upstream,
    conversation_api,
    end_to_end,
    is_anthropic,
)

_LOG = logging.getLogger("nacre.gateway")

CONNECT_SECONDS = 15.0
UPLOAD_SECONDS = 60.0
"""Time for the provider to take a part of a request."""
SILENCE_SECONDS = 900.0
"""Time without a byte from the provider; longer than the time limits of the clients, which decide."""
SLOW_CLIENT_SECONDS = 300.0
"""Time for a client to take a part of a reply; a connection that is only half there ends after it."""
LOOK_SECONDS = 60.0
"""How often this is checked."""
MAX_OBSERVED_BYTES = 32 * 1024 * 1024
"""The provider's own limit for a conversation; a larger body passes unobserved."""
MAX_HELD_BYTES = 256 * 1024 * 1024
"""Of all bodies that are observed at one time; above it, further ones pass unobserved."""
MAX_STATUS = 599
IDLE_CONNECTIONS = 20
"""Kept open to the provider; the pool looks at each of them with every request."""


class ClientGoneError(Exception):
    """The client closed its connection."""


class ObservedReply(Protocol):
    """Sees one conversation request and its reply; raises nothing."""

    @property
    def body(self) -> bytes | None:
        """What is sent on instead of the client's bytes; None: those."""
        ...

    def start(self, status: int, headers: Headers) -> None: ...

    def feed(self, chunk: bytes) -> None: ...

    async def finish(self, ending: str) -> None:
        """`complete`, `client left`, `upstream broke` or `no answer`."""


class Observer(Protocol):
    """Watches the conversations that pass."""

    async def begin(self, call: ClientRequest, body: bytes) -> ObservedReply: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """A request on its way."""

    api: Api
    target: Target
    headers: Headers
    """As they are sent on."""
    project: str = ""
    """The directory of its project, if the client names it to the gateway."""


def upstream_request(
    method: str, target: Target, headers: Headers, body: httpx2.AsyncByteStream
) -> httpx2.Request:
    """Return a request for the provider with exactly these headers, but for the name of its host."""
    url = httpx2.URL(target.origin)
    host = (b"host", url.netloc)
    seconds = {
        "connect": CONNECT_SECONDS,
        "read": SILENCE_SECONDS,
        "write": UPLOAD_SECONDS,
        "pool": CONNECT_SECONDS,
    }
    return httpx2.Request(
        method,
        url,
        headers=[host, *((name, value) for name, value in headers if name != b"host")],
        stream=body,
        extensions={"timeout": seconds, "target": target.path},
    )


class Gateway:
    """Passes requests on."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        port: int,
        limit: ConnectionLimit | None = None,
        observer: Observer | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._upstream = upstream
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        self._origins = {b"http://" + host for host in self._hosts}
        self._limit = limit
        self._observer = observer
        self.transport = transport or upstream_transport(upstream)
        self.held_bytes = 0
        """Of all bodies that are observed now; zero when every request is recorded."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            exchange = _Exchange(scope, receive, send, on_body=lambda: self._keep(scope))
            if (refusal := self._refusal(scope)) is not None:
                await read_refused(receive)
                await exchange.answer_error(*refusal)
                return
            try:
                await self._pass_on(exchange)
            finally:
                if self._limit is not None:
                    self._limit.release(scope["client"])

    def _keep(self, scope: Scope) -> None:
        """Keep a connection whose request has arrived; half a body keeps none."""
        if self._limit is not None:
            self._limit.keep(scope["client"])

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def close(self) -> None:
        """End what is done in the background, and the connections to the provider."""
        if self._observer is not None:
            await self._observer.close()
        await self.transport.aclose()

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Refuse pages in a browser: another name for this address, another origin, another site."""
        headers: Headers = scope["headers"]
        if not scope["raw_path"].startswith(b"/"):
            return 400, "a request names a path"  # anything else could become a part of the host's name
        hosts = header_values(headers, b"host")
        if not hosts or hosts - self._hosts:
            return 421, "this gateway answers to its loopback address only"
        is_foreign = header_values(headers, b"sec-fetch-site") - {b"none", b"same-origin"}
        if is_foreign or header_values(headers, b"origin") - self._origins:
            return 403, "pages in a browser may not use this gateway"
        return None

    async def _pass_on(self, exchange: _Exchange) -> None:
        api = conversation_api(exchange.method, exchange.path)
        observed: ObservedReply | None = None
        held = 0
        try:
            if api is None or self._observer is None:
                await self._exchange(exchange, None)
                return
            held = await exchange.read_ahead(lambda: MAX_HELD_BYTES - self.held_bytes)
            self.held_bytes += held
            if exchange.has_whole_body:
                call = ClientRequest(
                    api=api,
                    target=self._target(exchange),
                    headers=exchange.forwarded_headers(),
                    project=exchange.project(),
                )
                observed = await self._observer.begin(call, exchange.head)
                if observed.body is not None:
                    exchange.replace_body(observed.body)
            await self._exchange(exchange, observed)
        except ClientGoneError:
            exchange.ending = "client left"
        finally:
            try:
                if observed is not None:
                    await observed.finish(exchange.ending)
            finally:
                self.held_bytes -= held

    def _target(self, exchange: _Exchange) -> Target:
        scope = exchange.scope
        return self._upstream.target(scope["raw_path"], scope["query_string"], scope["headers"])

    async def _exchange(self, exchange: _Exchange, observed: ObservedReply | None) -> None:
        """Send the request on and its reply back, until one of both sides has gone."""
        sending = asyncio.create_task(self._send_on(exchange, observed), name="gateway request")
        watching = asyncio.create_task(exchange.client_leaves(), name="gateway client")
        both = {sending, watching}
        try:
            while not exchange.is_stuck():
                done, _ = await asyncio.wait(both, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    break
            exchange.ending = exchange.ending if sending.done() else "client left"
        finally:
            sending.cancel()
            watching.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()):
            raise error

    async def _send_on(self, exchange: _Exchange, observed: ObservedReply | None) -> None:
        try:
            body = _Body(exchange.body())
            request = upstream_request(
                exchange.method, self._target(exchange), exchange.forwarded_headers(), body
            )
            response = await self.transport.handle_async_request(request)
        except httpx2.TransportError as error:
            _LOG.warning("no answer from the provider: %s", type(error).__name__)
            exchange.ending = "no answer"
            status = 504 if isinstance(error, httpx2.TimeoutException) else 502
            await exchange.answer_error(status, f"the provider gave no answer ({_reason(error)}); try again")
            return
        try:
            if response.status_code <= MAX_STATUS:
                await exchange.pass_reply(response, observed)
            else:
                exchange.ending = "no answer"
                await exchange.answer_error(
                    502, "the provider answered with a status that HTTP does not have"
                )
        finally:
            await response.aclose()


def upstream_transport(upstream: Upstream) -> httpx2.AsyncHTTPTransport:
    """Return connections to the provider, through the proxy that the environment names, if any."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS)
    return httpx2.AsyncHTTPTransport(limits=limits, proxy=upstream.proxy())


class _Exchange:
    """One request of a client and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, on_body: Callable[[], None]) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.head = b""
        """What was read of the body before the request is sent on."""
        self.has_whole_body = False
        self.ending = "complete"
        self._is_replaced = False
        self._receive = receive
        self._send = send
        self._on_body = on_body
        self._body_ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._sending_since = 0.0
        """When the part began that the client is taking now; 0 while none is sent."""

    async def read_ahead(self, room: Callable[[], int]) -> int:
        """Read the body, up to the limits, and return its size."""
        parts: list[bytes] = []
        size = 0
        while size <= min(MAX_OBSERVED_BYTES, room()):
            part, more = await self._next_part()
            parts.append(part)
            size += len(part)
            if not more:
                self.has_whole_body = True
                break
        self.head = b"".join(parts)
        return size

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body as the client sends it."""
        if self.head:
            yield self.head
        more = not self.has_whole_body
        while more:
            part, more = await self._next_part()
            if part:
                yield part

    def replace_body(self, body: bytes) -> None:
        """Send another body than the client's."""
        self.head = body
        self._is_replaced = True

    def project(self) -> str:
        """Return the directory that the client names as its project."""
        named = header_values(self.scope["headers"], PROJECT_HEADER)
        return min(named, default=b"").decode("utf-8", "replace").strip()

    async def _next_part(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        more = bool(message.get("more_body"))
        if not more:
            self._body_ended.set()
            self._on_body()
        return message.get("body", b""), more

    async def client_leaves(self) -> None:
        """Wait until the client has closed its connection; its body is read elsewhere."""
        await self._body_ended.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def forwarded_headers(self) -> Headers:
        """Return the headers for the provider; a body of unknown length stays one unless it was read."""
        received: Headers = list(self.scope["headers"])
        headers = end_to_end(received)
        if self._is_replaced:
            gone = {b"content-length", b"content-encoding"}
            headers = [(name, value) for name, value in headers if name not in gone]
            return [*headers, (b"content-length", str(len(self.head)).encode())]
        is_chunked = any(name == b"transfer-encoding" for name, _ in received)
        if is_chunked:
            headers = [(name, value) for name, value in headers if name != b"content-length"]
            known = (b"content-length", str(len(self.head)).encode())
            headers.append(known if self.has_whole_body else (b"transfer-encoding", b"chunked"))
        return headers

    async def pass_reply(self, response: httpx2.Response, observed: ObservedReply | None) -> None:
        headers = end_to_end(response.headers.raw)
        if observed is not None:
            observed.start(response.status_code, headers)
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": [(name.lower(), value) for name, value in headers],
            }
        )
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        time = self._loop.time
        try:
            async for chunk in stream:
                if observed is not None:
                    observed.feed(chunk)
                self._sending_since = time()
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                self._sending_since = 0.0
        except httpx2.TransportError as error:
            # Without the last part: the server closes the connection, as the provider did.
            _LOG.warning("a reply of the provider broke off: %s", type(error).__name__)
            self.ending = "upstream broke"
            return
        await self._send({"type": "http.response.body", "body": b""})

    def is_stuck(self) -> bool:
        """Return whether the client has taken nothing for too long; its connection may be half open."""
        waited = self._loop.time() - self._sending_since if self._sending_since else 0.0
        return waited > SLOW_CLIENT_SECONDS

    async def answer_error(self, status: int, reason: str) -> None:
        """Answer with an error of the gateway in the words of the API."""
        message = f"nacre gateway: {reason}"
        error: dict[str, object] = {"type": "api_error", "message": message}
        if not is_anthropic(self.path, self.scope["headers"]):
            error |= {"code": None, "param": None}
        body = json.dumps({"type": "error", "error": error}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"x-nacre-gateway", b"error"),
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


class _Body(httpx2.AsyncByteStream):
    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part


def _reason(error: httpx2.TransportError) -> str:
    """Return a reason without addresses or headers."""
    match error:
        case httpx2.ConnectTimeout():
            return "it did not accept the connection in time"
        case httpx2.ConnectError():
            return "no connection"
        case httpx2.TimeoutException():
            return "it was silent for too long"
        case _:
            return "the connection broke"
