"""WebFetch: fetch one page within limits, and never from this machine or its local network."""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import os
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urljoin, urlsplit

from nacre import prompts
from nacre.errors import ToolError
from nacre.process import ProcessSpec, run
from nacre.tools.base import Tool, tool
from nacre.tools.output import OpenOutput, ToolOutput
from nacre.tools.workspace import Workspace
from nacre.version import VERSION

if TYPE_CHECKING:
    import httpx2

DESCRIPTION = prompts.load("nacre.tools", "web_fetch")
PAGE = Path(__file__).with_name("page.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Limits of one fetch."""

    seconds: float = 30.0
    """The longest wait for a page."""
    max_bytes: int = 5 * 1024 * 1024
    """More than any page of text: larger HTML is converted in part; other text is cut if it is not kept."""
    max_chars: int = 50_000
    """Of a page in the view; about 12,500 tokens."""
    read_seconds: float = 10.0
    """The largest page takes two; one that takes longer is hostile."""
    max_redirects: int = 5
    allows_private: bool = False
    """Allows addresses of this machine and its network; for tests."""


def web_fetch_tool(settings: WebSettings | None = None, *, workspace: Workspace | None = None) -> Tool:
    """Return the tool that fetches web pages; with a workspace, long ones are kept in files."""
    limits = settings or WebSettings()

    @tool(name="WebFetch", description=DESCRIPTION, read_only=True)
    async def web_fetch(url: Annotated[str, "The address, beginning with http:// or https://."]) -> str:
        try:
            async with asyncio.timeout(limits.seconds):
                return await _fetch(url, limits, workspace.opens_output if workspace else None)
        except TimeoutError:
            raise ToolError(f"{url} did not answer within {limits.seconds:g} s.") from None

    return web_fetch


async def _fetch(url: str, limits: WebSettings, opens: OpenOutput | None) -> str:
    import httpx2  # noqa: PLC0415 - imported by the first fetch

    headers = {"user-agent": f"nacre/{VERSION}", "accept": "text/html, text/*;q=0.9, application/json;q=0.8"}
    try:
        async with httpx2.AsyncClient(
            headers=headers, timeout=limits.seconds, follow_redirects=False
        ) as client:
            for _ in range(limits.max_redirects + 1):
                await _check_address(url, limits)
                async with client.stream("GET", url) as response:
                    if not response.is_redirect:
                        return await _shown(response, url, limits, opens)
                    target = urljoin(url, response.headers.get("location", ""))
                if urlsplit(target).hostname != urlsplit(url).hostname:
                    return f"{url} redirects to another host: {target}. Fetch that address if you want it."
                url = target
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise ToolError(f"{url} cannot be fetched: {str(error) or type(error).__name__}.") from None
    raise ToolError(f"{url} redirects more than {limits.max_redirects} times.")


async def _check_address(url: str, limits: WebSettings) -> None:
    """Refuse what is no web address, and addresses of this machine or its network."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = parts.port
    except ValueError:
        raise ToolError(f"{url!r} is no address.") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ToolError("Give an address that begins with http:// or https://.")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port or 443, type=socket.SOCK_STREAM)
    except OSError:
        raise ToolError(f"There is no host {host}.") from None
    addresses = {ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found}
    if not limits.allows_private and not all(address.is_global for address in addresses):
        raise ToolError(f"{host} is an address of this machine or its network, which is not fetched from.")


async def _shown(response: httpx2.Response, url: str, limits: WebSettings, opens: OpenOutput | None) -> str:
    kind = response.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or kind.endswith(("json", "xml"))):
        raise ToolError(f"{url} is {kind}, which cannot be shown.")
    is_html = "html" in kind
    head = limits.max_bytes if is_html else limits.max_chars
    with ToolOutput(opens, head=head, max_bytes=limits.max_bytes) as body:
        is_whole = await _receive(response, body)
        if body.is_long:
            await body.finish()
        if not is_html:
            page = body
        else:
            page = ToolOutput(
                None if body.whole else opens, head=limits.max_chars, max_bytes=limits.max_bytes * 4
            )
        with page:
            if is_html:
                await _convert(body.text.head, url, limits, page)
            if response.is_error:
                raise ToolError(f"{url} answered {response.status_code}: {page.text.head[:500]}")
            if is_html and page.is_long:
                await page.finish()
            return _with_note(page, body, limits, is_whole=is_whole) or f"{url} is empty."


async def _receive(response: httpx2.Response, body: ToolOutput) -> bool:
    """Receive a page; False if it has more than can be kept."""
    encoding = response.encoding or "utf-8"
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    # A page in UTF-8 is kept with the very bytes that were sent.
    is_utf_8 = codecs.lookup(encoding).name in {"utf-8", "ascii"}
    async for piece in response.aiter_bytes():
        if not body.feed(piece if is_utf_8 else decoder.decode(piece).encode()):
            return False
    body.feed(decoder.decode(b"", final=True).encode())
    body.feed(b"")
    return True


def _with_note(page: ToolOutput, body: ToolOutput, limits: WebSettings, *, is_whole: bool) -> str:
    """Return the text for the view, and a note if the page has more."""
    cut = page.text.head[: limits.max_chars]
    if body is not page and body.whole is not None:
        return f"{cut}\n\n{body.whole.note('cut: the HTML source has more than is shown')}"
    if not is_whole and body.whole is None:
        return f"{cut}\n\n[cut: this is the beginning of a page of more than {limits.max_bytes:,} bytes]"
    more = page.text.characters - len(cut)
    return f"{cut}\n\n{page.note(f'cut: {more:,} more characters')}" if more else cut


async def _convert(html: str, url: str, limits: WebSettings, page: ToolOutput) -> None:
    """Convert a page to text in a process that can be killed: some pages are hostile."""
    with tempfile.TemporaryFile() as source:
        source.write(html.encode("utf-8", "surrogatepass"))
        source.seek(0)
        spec = ProcessSpec(
            argv=(sys.executable, "-I", "-S", os.fspath(PAGE), str(source.fileno())),
            cwd=Path("/"),
            seconds=limits.read_seconds,
            max_bytes=limits.max_bytes * 4,
            pass_fds=(source.fileno(),),
        )
        ended = await run(spec, page.feed)
    if ended.why != "exited" or ended.exit_code != 0:
        raise ToolError(f"{url} cannot be read: it is not written like a page.")
