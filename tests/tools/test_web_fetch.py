"""Fetching a page, from real servers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from nacre.messages.blocks import ToolCall, ToolResult
from nacre.tools.page import page_text
from nacre.tools.run import run_all
from nacre.tools.web_fetch import WebSettings, web_fetch_tool


@asynccontextmanager
async def server(answer: bytes, *, hangs: bool = False) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.clear()
        # On a busy machine whoever waits only a moment may hang up before a word is said.
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            if hangs:
                await reader.read()
            writer.write(answer)
            writer.close()
            await writer.wait_closed()
        writer.close()
        served.set()

    served = asyncio.Event()
    served.set()  # nobody came

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        listening.close()
        await served.wait()


def response(body: str, kind: str = "text/html", status: str = "200 OK", extra: str = "") -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n{extra}"
    return f"{head}connection: close\r\n\r\n".encode() + data


async def fetch(url: str, **settings: object) -> ToolResult:
    tool = web_fetch_tool(WebSettings(**{"allows_private": True, **settings}))  # type: ignore[arg-type]
    [result] = await run_all([ToolCall("c", "WebFetch", {"url": url})], {"WebFetch": tool})
    return result


async def test_a_page_comes_as_text_with_headings_lists_and_links() -> None:
    html = (
        "<head><title>t</title></head><h2>Top</h2><p>Hello <a href='/x'>there</a></p>"
        "<script>evil()</script><ul><li>a<li>b</ul>"
    )
    async with server(response(html)) as url:
        assert (await fetch(url)).text == "## Top\n\nHello [there](/x)\n\n- a\n- b"


async def test_long_pages_are_cut_and_say_so() -> None:
    async with server(response("x" * 1_000, "text/plain")) as url:
        assert (await fetch(url, max_chars=100)).text == "x" * 100 + "\n\n[cut: 900 more characters]"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (response("\x00", "image/png"), "image/png"),
        (response("gone", status="404 Not Found"), "404"),
        (b"this is not http at all\r\n\r\n", "cannot be fetched"),
    ],
)
async def test_what_cannot_be_shown_is_one_line(answer: bytes, word: str) -> None:
    async with server(answer) as url:
        result = await fetch(url)
    assert result.is_error
    assert word in result.text
    assert "\n" not in result.text


async def test_a_redirect_to_another_host_is_named_and_not_followed() -> None:
    moved = response("", status="302 Found", extra="location: http://elsewhere.example/x\r\n")
    async with server(moved) as url:
        assert "http://elsewhere.example/x" in (await fetch(url)).text


async def test_a_silent_server_costs_one_error() -> None:
    async with server(b"", hangs=True) as url:
        result = await fetch(url, seconds=0.2)
    assert result.is_error
    assert "did not answer" in result.text


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://localhost/",
        "http://[::1]/",
        "http://169.254.169.254/",
        "http://10.0.0.1/",
    ],
)
async def test_nothing_is_fetched_from_inside(url: str) -> None:
    """A page must not be able to make the agent read what only this machine can reach."""
    result = await fetch(url, allows_private=False)
    assert result.is_error
    assert "this machine or its network" in result.text


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x.example", "nonsense", "http://", "http://[bad"]
)
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    assert (await fetch(url)).is_error


def test_broken_html_is_read_as_far_as_it_goes() -> None:
    assert page_text("<p>a<b>b</p><script>x") == "ab"
    assert page_text(f"<p>a<![x]>b<![CDATA[c]]>&#{'9' * 5_000};</p>") == "ab\ufffd"


async def test_a_page_made_to_be_parsed_for_ever_is_given_up() -> None:
    """Python's parser takes hours over this one, on the thread where everything else runs."""
    async with server(response("<a " * 400_000)) as url:
        result = await fetch(url, read_seconds=0.3)
    assert result.is_error
    assert "cannot be read" in result.text
