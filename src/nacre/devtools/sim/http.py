"""HTTP/1.1 for one loopback address: requests bounded in size and time, answers whole or streamed.

Other modules use `HttpRequest` and `HttpResponse` only; an answer that raises `ConnectionDropped` closes the
connection, and an answer whose client has disconnected is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

import h11

from nacre.errors import ConfigError
from nacre.loopback import QUEUED_CONNECTIONS, ConnectionLimit, bind
from nacre.messages.blocks import Json
from nacre.messages.wire import canonical

READ_BYTES = 65_536
"""Bytes read from a socket at once; a usual pipe buffer."""
LINGER_SECONDS = 1.0
"""How long a refused client may still send: closing earlier would reset the connection and discard the error
message before it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Limits for clients of the server."""

    body_bytes: int = 32 * 1024 * 1024
    """The provider's own limit for a request body."""
    head_seconds: float = 10.0
    """Time for the head of a request; a new connection must send one within it."""
    request_seconds: float = 30.0
    """Time for the rest; an incomplete request is answered 408. Loopback needs far less."""
    idle_seconds: float = 120.0
    """A kept-alive connection without a new request is closed; longer than in any SDK."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One complete request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    too_large: bool = False
    """Whether the body exceeded the limit and was discarded."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One response; a streamed body is sent chunk by chunk."""

    status: int
    body: bytes | AsyncIterator[bytes]
    headers: tuple[tuple[str, str], ...] = ()


Answer: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]


class ConnectionDropped(Exception):  # noqa: N818 - it is what happens, on purpose, and never leaves this room
    """Raised to close the connection in mid-reply."""


def json_response(status: int, value: Json, headers: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    return HttpResponse(status, canonical(value), (("content-type", "application/json"), *headers))


class LoopbackServer:
    """Listens on a loopback address and passes every request to one function."""

    def __init__(self, answer: Answer, *, host: str, port: int, limits: HttpLimits) -> None:
        self._answer = answer
        self._host = loopback(host)
        self._port = port
        self._limits = limits
        self._connection_limit = ConnectionLimit()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Start to listen; return the port."""
        try:
            listening = bind(self._host, self._port)
            self._server = await asyncio.start_server(
                self._connected, sock=listening, backlog=self._connection_limit.accepted_at_once
            )
            listening.listen(QUEUED_CONNECTIONS)  # asyncio has set it to the number that it accepts at once
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port} ({reason}); choose another --port"
            ) from None
        return int(listening.getsockname()[1])

    async def close(self) -> None:
        """Stop listening and close every connection."""
        if self._server is None:
            return
        self._server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        self._connection_limit.add(peer, writer.transport)
        connection = _Connection(reader, writer, self._answer, self._limits, self._connection_limit)
        task = asyncio.create_task(connection.serve(), name="sim-connection")
        self._connections.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            # Not in the task itself: cancelled before its first step it would run none of its own code.
            self._connections.discard(done)
            self._connection_limit.remove(peer, writer.transport)
            writer.close()

        task.add_done_callback(ended)


def loopback(host: str) -> str:
    """Return the address to bind; refused unless only this machine can reach it."""
    address = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ConfigError(
            f"the simulator answers on this machine only: use --host 127.0.0.1 instead of {host!r}"
        )
    return address


class _Connection:
    """One client; its requests are handled one after the other."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Answer,
        limits: HttpLimits,
        connection_limit: ConnectionLimit,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._limits = limits
        self._connection_limit = connection_limit
        self._h11 = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        peer = self._writer.get_extra_info("peername")
        seconds = min(self._limits.head_seconds, self._limits.idle_seconds)
        try:
            while await self._has_begun(seconds):
                request = await self._request()
                if request is None:
                    return
                self._connection_limit.keep(peer)
                await self._respond_unless_gone(request)
                self._connection_limit.release(peer)
                seconds = self._limits.idle_seconds
                if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                    return
                self._h11.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._complain(error.error_status_hint, f"not HTTP: {error}")
        except (OSError, ConnectionDropped):
            return

    async def _has_begun(self, seconds: float) -> bool:
        """Wait for a request to begin; False if the client has closed or the time is over."""
        if self._h11.trailing_data[0]:
            return True
        try:
            async with asyncio.timeout(seconds):
                received = await self._reader.read(READ_BYTES)
        except TimeoutError:
            return False
        self._h11.receive_data(received)
        return bool(received)

    async def _request(self) -> HttpRequest | None:
        try:
            async with asyncio.timeout(self._limits.head_seconds) as limit:
                return await self._read_whole(limit)
        except TimeoutError:
            await self._complain(408, "the request did not arrive whole in time")
            return None

    async def _read_whole(self, limit: asyncio.Timeout) -> HttpRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        too_large = False
        while True:
            match event := await self._next_event():
                case h11.Request():
                    head = event
                    limit.reschedule(asyncio.get_running_loop().time() + self._limits.request_seconds)
                case h11.Data():
                    too_large = too_large or len(body) + len(event.data) > self._limits.body_bytes
                    # Read on and discard: closing now would hide the answer behind a connection reset.
                    if too_large:
                        body.clear()
                    else:
                        body += event.data
                case h11.EndOfMessage():
                    break
                case _:
                    return None
        assert head is not None
        headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            # Names are in lower case; a repeated header is joined to one list, as in HTTP.
            name = raw_name.decode("ascii")
            value = raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        try:
            parts = urlsplit(head.target.decode("ascii"))
        except ValueError as error:
            raise h11.RemoteProtocolError(f"no address: {error}") from error
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        return HttpRequest(head.method.decode("ascii"), parts.path, query, headers, bytes(body), too_large)

    async def _next_event(self) -> object:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            if self._h11.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._h11.receive_data(await self._reader.read(READ_BYTES))
        return event

    async def _respond_unless_gone(self, request: HttpRequest) -> None:
        answering = asyncio.create_task(self._respond(request), name="sim-answer")
        watching = asyncio.create_task(self._client_leaves(), name="sim-watch")
        try:
            await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answering.cancel()
            watching.cancel()
            await asyncio.gather(answering, watching, return_exceptions=True)
        if not answering.cancelled() and (error := answering.exception()):
            raise error

    async def _client_leaves(self) -> None:
        if received := await self._reader.read(READ_BYTES):
            # The next request came early: keep it for later, and read no more until then.
            self._h11.receive_data(received)
            await asyncio.Event().wait()

    async def _respond(self, request: HttpRequest) -> None:
        response = await self._answered(request)
        body = response.body
        length = (("content-length", str(len(body))),) if isinstance(body, bytes) else ()
        await self._send(h11.Response(status_code=response.status, headers=[*response.headers, *length]))
        if request.method == "HEAD":
            pass  # the headers are the answer
        elif isinstance(body, bytes):
            await self._send(h11.Data(data=body))
        else:
            async for chunk in body:
                await self._send(h11.Data(data=chunk))
        await self._send(h11.EndOfMessage())

    async def _answered(self, request: HttpRequest) -> HttpResponse:
        try:
            return await self._answer(request)
        except ConnectionDropped:
            raise
        except Exception as error:  # noqa: BLE001 - a task of its own: the client must learn why it got nothing
            said = f"the simulator could not answer: {type(error).__name__}: {error}"
            return json_response(500, {"type": "error", "error": {"type": "api_error", "message": said}})

    async def _complain(self, status: int, message: str) -> None:
        """Send the reason why the connection ends; the client may no longer read it."""
        if self._h11.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        body = canonical({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        with contextlib.suppress(OSError):
            await self._send(h11.Response(status_code=status, headers=headers))
            await self._send(h11.Data(data=body))
            await self._send(h11.EndOfMessage())
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(READ_BYTES):
                    pass

    async def _send(self, event: h11.Event) -> None:
        payload = self._h11.send(event)
        if payload:
            self._writer.write(payload)
            await self._writer.drain()


def parse_json(body: bytes) -> Json:
    """Parse the body with its key order; raise ValueError with the reason if it is not JSON."""

    def refuse(name: str) -> Json:
        raise ValueError(f"{name} is not a JSON number")

    try:
        value: Json = json.loads(body, parse_constant=refuse)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    return value
