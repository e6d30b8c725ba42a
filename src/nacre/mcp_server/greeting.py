"""The first answer on stdio, given before the vendor's SDK is loaded, which takes most of a second.

Only the plain handshake is answered here, word for word as the SDK would (a test compares them). The SDK is
then given the same request, and its answer to it is dropped. Everything else waits for the SDK.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from nacre import prompts
from nacre.messages.blocks import Json, JsonObject
from nacre.version import VERSION

INSTRUCTIONS = prompts.load("nacre.mcp_server", "instructions")
NAME, TITLE = "nacre", "nacre memory"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions of the protocol that begin with `initialize`; another one is the SDK's to answer."""
MAX_LINE_BYTES = 65_536
"""Of a first request; a longer one is no handshake."""


@dataclass(frozen=True, slots=True)
class Greeted:
    """What was read, and the id of the request that has its answer already."""

    line: bytes = b""
    answered: str | int | None = None


def greet(source: int = 0, sink: int = 1) -> Greeted:
    """Read the first line and answer it if it is a handshake; nothing behind that line is read."""
    line = _first_line(source)
    request = _handshake(line)
    if request is None:
        return Greeted(line)
    number, version = request
    _write(sink, json.dumps(answer(number, version), separators=(",", ":")).encode() + b"\n")
    return Greeted(line, number)


def answer(number: str | int, version: str) -> JsonObject:
    """What the server says of itself."""
    return {
        "jsonrpc": "2.0",
        "id": number,
        "result": {
            "protocolVersion": version,
            "capabilities": {
                "prompts": {"listChanged": False},
                "resources": {"subscribe": False, "listChanged": True},
                "tools": {"listChanged": False},
            },
            "serverInfo": {"name": NAME, "title": TITLE, "version": VERSION},
            "instructions": INSTRUCTIONS,
        },
    }


def _first_line(source: int) -> bytes:
    # Byte by byte: what follows belongs to whoever reads next. A line may be whole without its end.
    line = bytearray()
    while len(line) < MAX_LINE_BYTES and not line.endswith(b"\n"):
        byte = os.read(source, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _handshake(line: bytes) -> tuple[str | int, str] | None:
    """The id and version of a sound `initialize`; none for anything else."""
    try:
        said: Json = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match said:
        case {
            "jsonrpc": "2.0",
            "id": str() | int() as number,
            "method": "initialize",
            "params": {
                "protocolVersion": str(version),
                "capabilities": {},
                "clientInfo": {"name": str(), "version": str()},
            },
        } if version in HANDSHAKES and not isinstance(number, bool):
            return number, version
        case _:
            return None


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]
