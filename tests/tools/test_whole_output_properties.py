"""No byte of a tool result is lost: generated outputs of real processes, files, MCP and web servers."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.app.build_toolset import mcp_tools
from nacre.mcp_client import Servers, parse_servers
from nacre.messages.blocks import ToolResult
from nacre.messages.results import cut_of
from nacre.store.disk import ResultSettings
from nacre.store.tool_results import FOLDER
from nacre.tools.base import Tool
from nacre.tools.read import read_tool
from nacre.tools.search_tools import grep_tool
from nacre.tools.squeeze import without_escapes
from nacre.tools.web_fetch import WebSettings, web_fetch_tool
from tests.scale import scaled
from tests.tools.test_whole_output import Desk, unfolded

T = TypeVar("T")
PAGE_HOST = "127.0.0.1"
few = settings(
    max_examples=scaled(25, at_least=8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""Every example starts a process or a search."""

UNITS = st.sampled_from(
    [
        b"x",
        b"caf\xc3\xa9",
        "漢字".encode(),
        "😀".encode(),
        b"\n",
        b"\r\n",
        b"\0",
        b"\xff\xfe",
        b"\xc3",
        b"\x1b[31m",
    ]
)
SIZES = st.sampled_from([0, 1, 2, 3, 100, 4_095, 9_999, 10_001, 29_999, 30_001, 65_535, 65_537, 140_000])


@st.composite
def data(draw: st.DrawFn) -> bytes:
    """Bytes of a size near a limit, cut anywhere: in a character, with or without a newline at the end."""
    unit = b"".join(draw(st.lists(UNITS, min_size=1, max_size=6)))
    size = draw(SIZES)
    return (unit * (size // len(unit) + 1))[:size] + draw(st.sampled_from([b"", b"\n"]))


WRITER = """
import json, os, sys, time
for stream, start, end, pause in json.load(open("schedule.json")):
    piece = open("payload.bin", "rb").read()[start:end]
    while piece:
        piece = piece[os.write(stream, piece):]
    time.sleep(pause)
sys.exit(int(sys.argv[1]))
"""


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[int, int, int, float]]:
    """Which piece of the payload goes to which stream, up to a share of it, with a pause behind it."""
    shares = sorted(draw(st.lists(st.integers(0, 1_000), max_size=5)))
    borders = [0, *shares, 1_000]
    return [
        (draw(st.sampled_from([1, 2])), first, last, draw(st.sampled_from([0, 0, 0.002])))
        for first, last in pairwise(borders)
    ]


@few
@given(data(), schedules(), st.sampled_from([0, 3]), st.sampled_from([None, 1, 10_000, 50_000]))
def test_both_streams_of_a_command_are_kept_in_the_order_of_their_writes(
    tmp_path: Path, payload: bytes, schedule: list[tuple[int, int, int, float]], code: int, most: int | None
) -> None:
    desk = fresh(tmp_path, most)
    places = [
        (stream, first * len(payload) // 1_000, last * len(payload) // 1_000, pause)
        for stream, first, last, pause in schedule
    ]
    (desk.cwd / "payload.bin").write_bytes(payload)
    (desk.cwd / "schedule.json").write_text(json.dumps(places))
    (desk.cwd / "writer.py").write_text(WRITER)
    result = asyncio.run(desk.bash(f"{shlex.quote(sys.executable)} -I -S writer.py {code}"))
    assert_whole(desk, result, payload, most, tool="Bash")


def fresh(folder: Path, most: int | None = None) -> Desk:
    """A desk without results of an earlier example; a file may have `most` bytes."""
    desk = Desk(folder, limits=ResultSettings(max_bytes=most) if most else None)
    for one in desk.store._listed():
        one.path.unlink()
    return desk


def assert_whole(desk: Desk, result: ToolResult, payload: bytes, most: int | None, *, tool: str) -> None:
    """All of the payload is in the file, or its beginning and the text says so, or it is shown whole."""
    assert not desk.store.leavings()
    if not desk.store.held():
        shown = payload.decode(errors="replace").removesuffix("\n")
        shown = without_escapes(shown) if tool == "Bash" else shown
        assert shown in unfolded(result.text) or not shown.strip("\n")
        assert cut_of(tool, result) is None
        return
    whole = desk.whole(result)
    kept = desk.kept(result)
    assert whole.bytes == len(kept)
    if most is None or len(payload) <= most:
        assert kept == payload
        assert not whole.missing
        assert whole.chars == len(payload.decode(errors="replace"))
    else:
        assert kept == payload[:most]
        assert f"only the first {most:,} bytes are in" in result.text
        assert "(results.maxBytes)" in whole.missing
        assert "All of it" not in desk.pointer(tool, result)


LINES = st.lists(
    st.one_of(
        st.sampled_from(["match", "a match and a match", "matchmatch", "no", "", "mätch", "漢match😀"]),
        st.integers(1, 600).map(lambda length: "match " + "é" * length),
        st.integers(1, 3_000).map(lambda length: "y" * length + " match " + "漢" * length),
    ),
    min_size=1,
    max_size=6,
)


@few
@given(LINES, st.sampled_from([1, 60, 400]), st.booleans(), st.booleans())
def test_every_matching_line_of_a_search_is_shown_or_kept(
    tmp_path: Path, lines: list[str], times: int, ends: bool, by_name: bool
) -> None:
    """With ripgrep, if it is installed, where a directory is searched; both engines say the same."""
    desk = fresh(tmp_path)
    all_lines = lines * times
    # A file that ends with an empty line has one line less.
    text = "\n".join([*all_lines, "end" if ends else "match at the end"]) + "\n" * ends
    (desk.cwd / "a").mkdir(exist_ok=True)
    (desk.cwd / "a" / "many.txt").write_text(text)
    place = "a/many.txt" if by_name else "a"
    search = grep_tool(desk.workspace)
    result = asyncio.run(desk.call(search, pattern="match", path=place, output_mode="content"))
    found = desk.kept(result).decode() if desk.store.held() else result.text
    written = text.split("\n")
    numbers = [number for number, line in enumerate(written, start=1) if "match" in line]
    rows = [row for row in found.removesuffix("\n").split("\n") if row not in {"No matches.", "a/many.txt"}]
    seen = [int(row.removeprefix("a/many.txt:").partition(":")[0]) for row in rows]
    assert sorted(set(seen)) == numbers
    for row in rows:
        number, _, shown = row.removeprefix("a/many.txt:").partition(":")
        line = written[int(number) - 1]
        assert "match" in shown
        if len(line) <= 500:
            assert shown == line
        else:
            start = int(shown.removeprefix("[column ").partition("]")[0])
            piece = shown.partition("] ")[2].removesuffix("…")
            assert line[start - 1 :].startswith(piece)


CHARS = st.sampled_from(["x", "é", "漢", "😀"])


@few
@given(CHARS, CHARS, st.integers(0, 2_200_000), st.integers(0, 3_000), st.booleans())
def test_search_and_read_reach_any_place_of_a_long_line(
    tmp_path: Path, before: str, after: str, ahead: int, behind: int, ends: bool
) -> None:
    """Also where a character or the match lies across two pieces of the line."""
    desk = fresh(tmp_path)
    line = before * ahead + "NEEDLE" + after * behind
    path = desk.cwd / "line.txt"
    path.write_text(f"first\n{line}" + "\nlast\n" * ends)
    found = asyncio.run(
        desk.call(grep_tool(desk.workspace), pattern="NEEDLE", path=str(path), output_mode="content")
    )
    [row] = [one for one in found.text.split("\n") if "NEEDLE" in one]
    assert row.startswith("2:")
    column = 1
    if len(line) > 500:
        column = int(row.partition("[column ")[2].partition("]")[0])
        assert column <= ahead + 1 < column + 500
    read = asyncio.run(desk.call(read_tool(desk.workspace), file_path="line.txt", offset=2, column=column))
    shown = read.text.removeprefix("2\t").partition(" [… ")[0].partition("\n")[0]
    assert shown.startswith(line[column - 1 : column + 400])
    at = asyncio.run(desk.call(read_tool(desk.workspace), file_path="line.txt", offset=2, column=ahead + 1))
    assert at.text.startswith("2\tNEEDLE")


@contextmanager
def loop_thread() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """Run coroutines of many examples in one event loop, so that a server outlives an example."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(timeout=60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


MCP_SERVER = """
import json, sys
from mcp.server import MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent

server = MCPServer("parts", log_level="ERROR")

@server.tool()
def parts(path: str) -> CallToolResult:
    content = [
        TextContent(type="text", text=one) if one is not None
        else ImageContent(type="image", data=sys.argv[1], mime_type="image/png")
        for one in json.load(open(path))
    ]
    return CallToolResult(content=content)

server.run()
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXTS = st.one_of(
    st.none(),
    st.text(alphabet=st.characters(codec="utf-8"), max_size=20),
    st.tuples(
        st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=8),
        st.sampled_from([100, 20_000, 60_000]),
    ).map(lambda one: one[0] * one[1]),
    st.just("{" + '"key": [1, 2, 3], ' * 20_000 + "}"),
)


@pytest.mark.soak
def test_every_text_of_an_mcp_server_is_shown_or_kept(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(MCP_SERVER)
    argv = {"command": sys.executable, "args": [str(tmp_path / "server.py"), PIXEL]}
    with loop_thread() as run:
        servers = Servers(parse_servers({"p": argv}, environ=os.environ))
        run(servers.__aenter__())
        try:

            @few
            @given(st.lists(TEXTS, min_size=1, max_size=4), st.sampled_from([None, 100, 70_000]))
            def holds(parts: list[str | None], most: int | None) -> None:
                desk = fresh(tmp_path, most)
                (desk.cwd / "parts.json").write_text(json.dumps(parts))
                [tool] = mcp_tools(servers, desk.workspace)
                result = run(desk.call(tool, path=str(desk.cwd / "parts.json")))
                texts = [one for one in parts if one]
                if desk.store.held():
                    expected = joined(parts).encode()
                    assert_whole(desk, result, expected, most, tool=tool.name)
                else:
                    assert all(text in result.text for text in texts)

            holds()
        finally:
            run(servers.__aexit__(None, None, None))


def joined(parts: list[str | None]) -> str:
    """The texts as they are joined: adjacent ones, and those around a picture, by a newline."""
    groups: list[list[str]] = [[]]
    for one in parts:
        if one is None:
            groups.append([])
        else:
            groups[-1].append(one)
    return "\n".join(text for group in groups if (text := "\n".join(group)))


class Pages:
    """A loopback web server that sends one body in chunks that end anywhere."""

    def __init__(self) -> None:
        self.body = b""
        self.kind = "text/plain; charset=utf-8"
        self.cuts: list[int] = []
        self.url = ""

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("content-type", self.kind)
        handler.send_header("transfer-encoding", "chunked")
        handler.send_header("connection", "close")
        handler.end_headers()
        places = [0, *sorted(cut * len(self.body) // 1_000 for cut in self.cuts), len(self.body)]
        pieces = [self.body[start:end] for start, end in pairwise(places)]
        try:
            for piece in filter(None, pieces):
                handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                handler.wfile.flush()
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass  # a client that may not keep more hangs up


@contextmanager
def pages() -> Iterator[Pages]:
    local = Pages()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            local.send(self)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer((PAGE_HOST, 0), Handler) as listening:
        local.url = f"http://{PAGE_HOST}:{listening.server_address[1]}/page"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield local
        finally:
            listening.shutdown()
            thread.join()


def web_tool(desk: Desk) -> Tool:
    return web_fetch_tool(WebSettings(allows_private=True, max_chars=20_000), workspace=desk.workspace)


@pytest.mark.soak
def test_every_byte_of_a_page_is_shown_or_kept(tmp_path: Path) -> None:
    with pages() as local:

        @few
        @given(data(), st.lists(st.integers(0, 1_000), max_size=6), st.sampled_from([None, 100, 50_000]))
        def holds(body: bytes, cuts: list[int], most: int | None) -> None:
            desk = fresh(tmp_path, most)
            local.body = body
            local.cuts = cuts
            result = asyncio.run(desk.call(web_tool(desk), url=local.url))
            if body:
                assert_whole(desk, result, body, most, tool="WebFetch")

        holds()


@pytest.mark.parametrize("floor", [False, True], ids=["incognito", "no space"])
def test_what_cannot_be_kept_is_named_by_every_tool_and_nothing_is_written(
    tmp_path: Path, floor: bool
) -> None:
    """Without a store, and with one on a disk below the floor of free space."""
    limits = ResultSettings(free_bytes=1 << 60) if floor else None
    desk = Desk(tmp_path, limits=limits, keeps=floor)
    (desk.cwd / "many.txt").write_text("match\n" * 5_000)
    (desk.cwd / "parts.json").write_text(json.dumps(["z" * 200_000]))
    (tmp_path / "server.py").write_text(MCP_SERVER)
    argv = {"command": sys.executable, "args": [str(tmp_path / "server.py"), PIXEL]}
    results: dict[str, ToolResult] = {}

    async def call_all(url: str) -> None:
        results["Bash"] = await desk.bash("seq 1 100000")
        search = grep_tool(desk.workspace)
        results["Grep"] = await desk.call(search, pattern="match", path=".", output_mode="content")
        results["WebFetch"] = await desk.call(web_tool(desk), url=url)
        async with Servers(parse_servers({"p": argv}, environ=os.environ)) as servers:
            [tool] = mcp_tools(servers, desk.workspace)
            results[tool.name] = await desk.call(tool, path=str(desk.cwd / "parts.json"))

    with pages() as local:
        local.body = b"w" * 100_000
        asyncio.run(call_all(local.url))
    left_out = {
        "Bash": "558,895 more characters left out",
        "Grep": "more lines",
        "WebFetch": "cut: 80,000 more characters",
        "mcp__p__parts": "text of 200,000 characters",
    }
    assert not desk.store._listed()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name == FOLDER]
    for name, result in results.items():
        assert left_out[name] in result.text, name
        assert ("could not be kept: the disk of" in result.text) == floor, name
        assert cut_of(name, result) is not None, name
