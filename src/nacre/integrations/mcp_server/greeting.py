"""Answer the first request on stdio before the vendor's SDK is loaded, which takes most of a second.

Only the plain handshake is answered here, exactly as the SDK would (a test compares them). The SDK then
receives the same request, and its answer is dropped. Everything else waits for the SDK.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from nacre import prompts
from nacre.messages.blocks import Json, JsonObject
from nacre.version import VERSION

INSTRUCTIONS = prompts.load("nacre.integrations.mcp_server", "instructions")
NAME = "nacre"
TITLE = "nacre memory"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions that begin with `initialize`; the SDK answers others."""
MAX_LINE_BYTES = 65_536
"""Maximum length of a first request; a longer one is no handshake."""
SAID_OF_CLIENTS = frozenset(("title", "description", "websiteUrl"))
"""Optional text fields of a client's description."""
FREE_FORM = ("experimental", "extensions")
"""Capabilities that may be any object."""
MAX_ID = 2**53
"""Largest integer that all programs represent exactly."""


@dataclass(frozen=True, slots=True)
class Greeted:
    """The line that was read, and the id of the request that was answered."""

    line: bytes = b""
    answered: str | int | None = None


def greet(source: int = 0, sink: int = 1) -> Greeted:
    """Read the first line and answer it if it is a handshake; nothing after that line is read."""
    line = _first_line(source)
    request = _handshake(line)
    if request is None:
        return Greeted(line)
    number, version = request
    _write(sink, json.dumps(answer(number, version), separators=(",", ":")).encode() + b"\n")
    return Greeted(line, number)


def answer(number: str | int, version: str) -> JsonObject:
    """Return the server's answer to the handshake."""
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
    # Byte by byte: what follows belongs to the next reader. The last line may lack its end.
    line = bytearray()
    while len(line) < MAX_LINE_BYTES and not line.endswith(b"\n"):
        byte = os.read(source, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _handshake(line: bytes) -> tuple[str | int, str] | None:
    """Return id and version of a valid `initialize`, or None.

    Valid is only what the SDK is sure to accept: a client that it refused after this answer would never be
    served.
    """
    try:
        text = line.decode()
        said: Json = json.loads(text)
        json.dumps(said, ensure_ascii=False).encode()  # no halves of letters
    except (ValueError, RecursionError):
        return None
    match said:
        case {
            "jsonrpc": "2.0",
            "id": str() | int() as number,
            "method": "initialize",
            "params": {
                "protocolVersion": str(version),
                "capabilities": {**abilities},
                "clientInfo": {"name": str(), "version": str(), **more},
                **others,
            },
            **rest,
        } if not (others or rest) and version in HANDSHAKES and more.keys() <= SAID_OF_CLIENTS:
            is_plain = all(_is_plain(name, one) for name, one in abilities.items())
            is_plain = is_plain and all(isinstance(one, str) for one in more.values())
            return (number, version) if is_plain and _is_sound_id(number) else None
        case _:
            return None


def _is_plain(name: object, ability: object) -> bool:
    """Whether a capability of the client has the form that the protocol defines."""
    if not isinstance(ability, dict):
        return False
    if name == "roots":
        return ability.keys() <= {"listChanged"} and all(isinstance(one, bool) for one in ability.values())
    if name in FREE_FORM:
        return all(isinstance(one, dict) for one in ability.values())
    return all(_is_plain("", one) for one in ability.values())  # objects in objects, and nothing else


def _is_sound_id(number: str | int) -> bool:
    return isinstance(number, str) or (not isinstance(number, bool) and abs(number) <= MAX_ID)


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]
