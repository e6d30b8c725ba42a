"""A real `nacre mcp` process, with the SDK's own client or by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.session import ListRootsFnT
from mcp.client.stdio import stdio_client

from nacre.integrations.mcp_server.base import ServerOptions
from nacre.integrations.mcp_server.server import McpServer
from nacre.memory.format.entry import Kind, MemoryChange, MemoryDraft
from nacre.memory.memory import Memory

BY_HAND = MemoryChange(author="user", reason="by hand")


def environment() -> dict[str, str]:
    return {
        "NACRE_HOME": os.environ["NACRE_HOME"],
        "PATH": os.environ["PATH"],
        "HOME": os.environ["NACRE_HOME"],
    }


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "nacre", "mcp", *args]


TOKEN = "a-token-for-this-test-only"


@contextmanager
def http_server(cwd: Path, *before: str) -> Iterator[str]:
    """Yield the address of a server that runs in `cwd`; it prints nothing else and ends when interrupted."""
    server = subprocess.Popen(
        [*before, *command("--http")],
        cwd=cwd,
        env={**environment(), "NACRE_MCP_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    yield server.stdout.readline().strip()
    server.send_signal(signal.SIGINT)
    rest, errors = server.communicate(timeout=30)
    assert (server.returncode, rest, errors) == (0, "", "")


@asynccontextmanager
async def client(
    cwd: Path, *args: str, roots: Sequence[Path] = (), mode: str = "legacy", name: str = "tester"
) -> AsyncIterator[Client]:
    """The SDK's client on a server of its own, which runs in `cwd`."""
    program, *rest = command(*args)
    server = StdioServerParameters(command=program, args=rest, cwd=cwd, env=environment())

    who = types.Implementation(name=name, version="1")
    with Path(os.devnull).open("w") as nowhere:
        talk = Client(
            stdio_client(server, errlog=nowhere),
            mode=mode,
            client_info=who,
            list_roots_callback=_naming(roots) if roots else None,
        )
        async with talk as connected:
            yield connected


@asynccontextmanager
async def inside(
    cwd: Path, *, name: str = "tester", roots: Sequence[Path] = (), options: ServerOptions | None = None
) -> AsyncIterator[Client]:
    """The same without a process of its own: for what does not depend on one, and many times as fast."""
    server = McpServer(options or ServerOptions(cwd=cwd)).server()
    who = types.Implementation(name=name, version="1")
    answer = _naming(roots) if roots else None
    async with Client(server, mode="legacy", client_info=who, list_roots_callback=answer) as connected:
        yield connected


def _naming(roots: Sequence[Path]) -> ListRootsFnT:
    async def named(_: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=one.as_uri()) for one in roots])

    return named


async def said(talk: Client, tool: str, **arguments: object) -> str:
    """What a tool answers; it must not be an error."""
    answer = await talk.call_tool(tool, dict(arguments))
    assert not answer.is_error, text_of(answer)
    return text_of(answer)


async def refused(talk: Client, tool: str, **arguments: object) -> str:
    """The one line by which a tool refuses."""
    answer = await talk.call_tool(tool, dict(arguments))
    assert answer.is_error, text_of(answer)
    assert "\n" not in text_of(answer)
    return text_of(answer)


def text_of(answer: types.CallToolResult) -> str:
    [block] = answer.content
    assert isinstance(block, types.TextContent)
    return block.text


async def kept(
    cwd: Path, body: str, *, name: str = "", kind: Kind = "project", local: bool = False
) -> Memory:
    """A memory that the person saved, as `nacre memory save` does."""
    memory = await Memory.open(cwd)
    draft = MemoryDraft(body=body, kind=kind, name=name, local_only=True if local else None)
    await memory.save(draft, BY_HAND)
    return memory


class ByHand:
    """The protocol line by line, for what no well-behaved client does."""

    def __init__(self, cwd: Path, *args: str) -> None:
        self.process = subprocess.Popen(
            command(*args),
            cwd=cwd,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def ask(self, number: int, method: str, params: object = None) -> None:
        request = {"jsonrpc": "2.0", "id": number, "method": method}
        self.send(json.dumps(request | ({} if params is None else {"params": params})).encode() + b"\n")

    def heard(self) -> dict[str, object]:
        assert self.process.stdout is not None
        found: dict[str, object] = json.loads(self.process.stdout.readline())
        return found

    def greeted(self, version: str = "2025-06-18") -> dict[str, object]:
        info = {"name": "by-hand", "version": "1"}
        self.ask(1, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})
        answer = self.heard()
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return answer

    def ended(self) -> tuple[int, bytes, bytes]:
        """Close its stdin and wait: exit code, the rest of stdout, and stderr."""
        rest, told = self.process.communicate(timeout=30)
        return self.process.returncode, rest, told
