"""A server written with the official SDK: `sdk_server.py` over its pipes, `sdk_server.py PORT` over HTTP."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
import time
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

server = MCPServer("everything", instructions="Ask for numbers, not for words.", log_level="ERROR")


class Weather(BaseModel):
    place: str
    degrees: float


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def weather(place: str) -> CallToolResult:
    """Only structured content."""
    return CallToolResult(content=[], structured_content={"place": place, "degrees": 21.5})


@server.tool()
def typed_weather(place: str) -> Weather:
    """Structured content with a schema."""
    return Weather(place=place, degrees=21.5)


@server.tool()
def rows(count: int) -> CallToolResult:
    """Return a long text between two short ones."""
    long = "\n".join(f"row {number} é\r" for number in range(count))
    parts = ["first part", long, "last part"]
    return CallToolResult(content=[TextContent(type="text", text=text) for text in parts])


@server.tool()
def mixed() -> CallToolResult:
    """Every kind of content."""
    blob = base64.b64encode(b"\0" * 90).decode()
    return CallToolResult(
        content=[
            TextContent(type="text", text="first"),
            TextContent(type="text", text="second"),
            ImageContent(type="image", data=PIXEL, mime_type="image/jpeg"),
            ImageContent(type="image", data="bm8=", mime_type="image/tiff"),
            ImageContent(type="image", data="no base64!", mime_type="image/png"),
            AudioContent(type="audio", data=blob, mime_type="audio/wav"),
            EmbeddedResource(
                type="resource", resource=TextResourceContents(uri="file:///a.txt", text="the text of a")
            ),
            EmbeddedResource(
                type="resource",
                resource=BlobResourceContents(uri="file:///b.bin", blob=blob, mime_type="application/zip"),
            ),
            ResourceLink(
                type="resource_link", uri="file:///c.txt", name="c", size=7, mime_type="text/plain",
                description="the third",
            ),
        ]
    )  # fmt: skip


@server.tool()
async def slow(mark: str, seconds: float = 60.0) -> str:
    """Take long; leaves a mark when it begins and when it is cancelled."""
    Path(mark + ".begun").touch()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        Path(mark + ".cancelled").touch()
        raise
    return "slept"


@server.tool()
async def busy(steps: int, pause: float, ctx: Context) -> str:
    """Take long, and say so."""
    for step in range(steps):
        await asyncio.sleep(pause)
        await ctx.report_progress(step, steps)
    return "arrived"


@server.tool()
def header(name: str, ctx: Context) -> str:
    """What a header of the request says."""
    return str((ctx.headers or {}).get(name))


@server.tool()
async def stuck(seconds: float) -> str:
    """Hold up the whole server."""
    time.sleep(seconds)
    return "moved"


@server.tool()
async def die(words: str, code: int = 3) -> str:
    """End the whole server in the middle of the call."""
    print(words, file=sys.stderr, flush=True)
    os._exit(code)


@server.tool()
def big(characters: int) -> str:
    """A lot of text."""
    return "word " * (characters // 5)


@server.tool()
def pid() -> str:
    """Which process this is."""
    return str(os.getpid())


@server.tool()
def helper() -> str:
    """Start a process that would outlive the server, and that no polite request ends."""
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    return str(subprocess.Popen([sys.executable, "-c", script]).pid)


@server.tool()
def variable(name: str) -> str:
    """What the environment says."""
    return os.environ.get(name, "(not set)")


@server.tool()
async def change(ctx: Context) -> str:
    """Exchange a tool for another."""
    server.remove_tool("weather")
    server.add_tool(lambda: "new", name="novelty", description="New.")
    await ctx.notify_tools_changed()
    return "changed"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
