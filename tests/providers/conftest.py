"""A tiny HTTP server that answers with canned bytes, for streams no honest server would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from nacre.messages.blocks import Json, JsonObject


@dataclass
class Canned:
    """Answers requests in turn and keeps what they asked."""

    url: str = ""
    answers: list[tuple[int, dict[str, str], bytes, bool]] = field(default_factory=list)
    asked: list[JsonObject] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client hung up on a held stream."""

    def events(self, *events: Json, hold: bool = False) -> None:
        """A stream in Anthropic's form."""
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]  # type: ignore[index,call-overload]
        self.text("".join(lines), hold=hold)

    def chunks(self, *chunks: Json, done: bool = True) -> None:
        """A stream in OpenAI's form."""
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self.text("".join(lines) + ("data: [DONE]\n\n" if done else ""))

    def text(self, body: str, *, hold: bool = False) -> None:
        self.answers.append((200, {"content-type": "text/event-stream"}, body.encode(), hold))

    def fails(self, status: int, error: Json, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = {"content-type": "application/json"}
        self.answers.append((status, kind | named, json.dumps({"error": error}).encode(), False))

    def answer(self, body: Json) -> None:
        self.answers.append((200, {"content-type": "application/json"}, json.dumps(body).encode(), False))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line.split(":")[1])
                for line in head.lower().splitlines()
                if line.startswith("content-length")
            )
            body = await reader.readexactly(length)
            self.heads.append(head)
            self.raw.append(body)
            self.asked.append(json.loads(body))
            status, headers, answer, hold = self.answers.pop(0)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {status} X\r\n{lines}connection: close\r\n\r\n".encode() + answer)
            await writer.drain()
            if hold:
                await reader.read()
                self.closed.set()
        finally:
            writer.close()


@pytest.fixture
async def canned() -> AsyncIterator[Canned]:
    server = Canned()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    yield server
    listening.close()
    await listening.wait_closed()


@pytest.fixture
def count_ids() -> Callable[[], str]:
    seen: list[int] = []

    def new_id() -> str:
        seen.append(0)
        return str(len(seen))

    return new_id
