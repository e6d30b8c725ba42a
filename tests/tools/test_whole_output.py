"""Every byte of a long tool output is on disk before a part is shown: real processes, servers and files."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.app.build_toolset import mcp_tools
from nacre.layers.l1_offload.offload import offload
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l1_offload.references import ResultsInView
from nacre.mcp_client import Servers
from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.records import Said
from nacre.messages.results import WholeOutput, noted_outputs
from nacre.store.disk import ResultSettings
from nacre.store.tool_results import FOLDER, ToolResultStore
from nacre.tools.base import Tool
from nacre.tools.bash import BashSettings, bash_tool
from nacre.tools.read import read_tool
from nacre.tools.run import run_all
from nacre.tools.search_tools import glob_tool, grep_tool
from nacre.tools.squeeze import without_escapes
from nacre.tools.web_fetch import WebSettings, web_fetch_tool
from nacre.tools.workspace import Workspace
from tests.mcp_client.places import sdk
from tests.scale import scaled
from tests.tools.test_web_fetch import server

PAYLOAD = "payload.bin"
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Desk:
    """A workspace whose long outputs go to a result store."""

    def __init__(self, folder: Path, *, limits: ResultSettings | None = None, keeps: bool = True) -> None:
        self.cwd = folder / "work"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.store = ToolResultStore(folder / FOLDER if keeps else None, sync=False, settings=limits)
        self.workspace = Workspace(self.cwd)
        self.workspace.opens_output = self.store.open if keeps else None
        self._calls = 0

    async def call(self, tool: Tool, **arguments: object) -> ToolResult:
        self._calls += 1
        call = ToolCall(f"toolu_{self._calls}", tool.name, arguments)  # type: ignore[arg-type]
        [result] = await run_all([call], {tool.name: tool})
        return result

    async def bash(self, command: str, limits: BashSettings | None = None) -> ToolResult:
        return await self.call(bash_tool(self.workspace, limits), command=command)

    def whole(self, result: ToolResult) -> WholeOutput:
        found = self.store.whole_of(result)
        assert found is not None, result.text[-500:]
        return found

    def kept(self, result: ToolResult) -> bytes:
        return Path(self.whole(result).path).read_bytes()

    def pointer(self, tool: str, result: ToolResult) -> str:
        seen = ResultsInView()
        seen._open[result.call_id] = ToolCall(result.call_id, tool, {})
        said = Said(id="r", at=AT, role="user", blocks=(result,))
        [block] = offload(said, seen, self.store, OffloadSettings()).said.blocks
        assert isinstance(block, ToolResult)
        return block.text


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_all_of_a_long_output_is_in_the_file_that_the_view_names(desk: Desk) -> None:
    result = await desk.bash("seq 1 100000")
    expected = b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert desk.kept(result) == expected
    assert (
        len(result.text) < 31_000
        and "558,895 more characters left out; all 588,895 characters" in result.text
    )
    text = desk.pointer("Bash", result)
    assert "588,895 characters, 588,895 bytes. All of it is in this file:\n" in text
    assert desk.whole(result).path in text and len(text) < 3_000
    assert len(desk.store.held()) == 1
    assert stat.S_IMODE(Path(desk.whole(result).path).stat().st_mode) == 0o600


@pytest.mark.parametrize("count", [1_700, 30_000])
async def test_all_of_the_output_of_a_failed_command_is_kept(desk: Desk, count: int) -> None:
    """Also between what is shown of a failed command and what is shown of a successful one."""
    result = await desk.bash(f"seq 10001 {10_000 + count}; echo oops >&2; exit 3")
    assert result.is_error and "Exit code 3" in result.text and result.text.endswith("oops")
    expected = b"".join(b"%d\n" % number for number in range(10_001, 10_001 + count)) + b"oops\n"
    assert (desk.store.held() == []) == (len(expected) <= 10_000)
    if len(expected) > 10_000:
        assert desk.kept(result) == expected


async def test_a_short_output_leaves_no_file(desk: Desk) -> None:
    bare = await Desk(desk.cwd / "other", keeps=False).bash("seq 1 5000")
    result = await desk.bash("seq 1 5000")
    assert result.text == bare.text and not desk.store._listed()


@pytest.mark.slow
async def test_output_that_was_printed_before_a_stop_is_kept(desk: Desk) -> None:
    result = await desk.bash("seq 1 100000; sleep 60", BashSettings(seconds=2.0))
    assert result.text.startswith("Stopped after 2 s")
    assert desk.kept(result).endswith(b"\n100000\n")
    result = await desk.bash("seq 1 100000; sleep 60 &")
    assert "left in the background" in result.text and desk.kept(result).endswith(b"\n100000\n")


async def test_output_over_the_limit_stops_the_command_and_says_what_is_missing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, limits=ResultSettings(max_bytes=1_000_000))
    result = await desk.bash("seq 1 99999999; echo never")
    assert result.is_error and "Stopped: it printed more than can be kept" in result.text
    assert "1,000,000 bytes (results.maxBytes)" in result.text
    whole = desk.whole(result)
    assert whole.missing and whole.bytes == 1_000_000 and "=beginning" in whole.path
    assert desk.kept(result) == b"".join(b"%d\n" % number for number in range(1, 200_000))[:1_000_000]
    text = desk.pointer("Bash", ToolResult(result.call_id, (*result.content, *result.content)))
    assert "All of it" not in text and "Its first 1,000,000 bytes are in this file" in text


async def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path, limits=ResultSettings(free_bytes=1 << 60))
    result = await desk.bash("seq 1 100000")
    assert not result.is_error and "could not be kept: the disk of" in result.text
    assert not desk.store._listed()
    assert "All of it" not in desk.pointer("Bash", result)


async def test_space_that_runs_out_on_the_way_stops_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    free = iter([1 << 40, 1 << 40])
    monkeypatch.setattr("nacre.store.tool_results._free_bytes", lambda _: next(free, 0))
    result = await desk.bash("yes | head -c 200000000")
    assert "Stopped: it printed more than can be kept, the disk has less than" in result.text
    whole = desk.whole(result)
    assert 16_000_000 < whole.bytes < 40_000_000 and desk.kept(result) == b"y\n" * (whole.bytes // 2)


async def test_a_session_without_a_store_writes_nothing_and_says_what_was_cut(tmp_path: Path) -> None:
    desk = Desk(tmp_path, keeps=False)
    result = await desk.bash("seq 1 100000")
    assert result.text.endswith(
        "[558,895 more characters left out; use head, tail, grep or a file to see them.]"
    )
    result = await desk.bash("yes", BashSettings(max_bytes=1_000_000))
    assert "Stopped: it printed more than 1,000,000 bytes" in result.text
    assert not list(tmp_path.rglob(f"{FOLDER}/*"))


async def test_a_large_output_is_not_held_in_memory(desk: Desk) -> None:
    size = scaled(500_000_000, at_least=50_000_000)
    await desk.bash("true")
    tracemalloc.start()
    try:
        result = await desk.bash(f"yes | head -c {size}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert desk.whole(result).bytes == size and not desk.whole(result).missing
    assert peak < 10_000_000
    Path(desk.whole(result).path).unlink()


def unfolded(text: str) -> str:
    """The lines of a result, with those again that it names only once."""
    lines: list[str] = []
    for line in text.split("\n"):
        count = re.fullmatch(r"\(repeated ([\d,]+) more times\)", line)
        lines += [lines[-1]] * int(count[1].replace(",", "")) if count else [line]
    return "\n".join(lines)


PIECES = st.sampled_from(
    [b"\xff\xfe", b"\0", b"\r", b"\r\n", b"\n", b"caf\xc3", b"\xa9", "漢😀".encode(), b"x", b"\x1b["]
)
OUTPUTS = st.tuples(
    st.lists(PIECES, min_size=1, max_size=20).map(b"".join),
    st.sampled_from([1, 100, 2_000, 9_999, 30_001, 200_000]),
    st.booleans(),
    st.integers(0, 1),
)


@settings(
    max_examples=scaled(40),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(OUTPUTS)
def test_no_byte_of_any_output_is_lost(tmp_path: Path, output: tuple[bytes, int, bool, int]) -> None:
    unit, size, splits, code = output
    desk = Desk(tmp_path)
    for one in desk.store._listed():
        one.path.unlink()
    data = (unit * (size // len(unit) + 1))[:size]
    (desk.cwd / PAYLOAD).write_bytes(data)
    # Half to each stream, in turn: they arrive in one file in the order of their writes.
    command = (
        f"cat {PAYLOAD}"
        if not splits
        else f"head -c {size // 2} {PAYLOAD}; tail -c +{size // 2 + 1} {PAYLOAD} >&2"
    )
    result = asyncio.run(desk.bash(f"{command}; exit {code}"))
    if desk.store.held():
        assert desk.kept(result) == data
        assert desk.whole(result).bytes == size
    else:
        shown = without_escapes(data.decode(errors="replace")).removesuffix("\n")
        assert shown in unfolded(result.text) or (not shown and (code or result.text == "(no output)"))


async def test_a_single_line_of_ten_megabytes_can_be_read_and_searched(desk: Desk) -> None:
    size = 10 * 1024 * 1024
    code = f"import sys; sys.stdout.write('x' * {size - 2_000_000} + 'NEEDLE' + 'y' * 1_999_994)"
    result = await desk.bash(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}")
    whole = desk.whole(result)
    assert whole.bytes == size and "`column` of Read" in desk.pointer("Bash", result)
    found = await desk.call(
        grep_tool(desk.workspace), pattern="NEEDLE", path=whole.path, output_mode="content"
    )
    column = int(re.search(r"\[column (\d+)\] x+NEEDLEy+…$", found.text)[1])  # type: ignore[index]
    read = await desk.call(read_tool(desk.workspace), file_path=whole.path, column=column)
    assert read.text.removeprefix("1\t").lstrip("x").startswith("NEEDLEyyy")


async def test_a_killed_process_leaves_nothing_that_claims_to_be_complete(desk: Desk) -> None:
    script = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.tools.test_whole_output import Desk
asyncio.run(Desk(Path({str(desk.cwd.parent)!r})).bash("seq 1 1000000; sleep 60"))
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        for _ in range(600):
            torn = desk.store.leavings()
            if torn and torn[0].bytes > 1_000_000:
                break
            await asyncio.sleep(0.05)
        assert torn and not desk.store.held()
        ToolResultStore(desk.store.folder).sweep()
        assert desk.store.leavings(), "it is still being written"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not desk.store.held()
    await desk.bash("seq 1 100000")
    assert not desk.store.leavings() and len(desk.store.held()) == 1


async def test_a_cancelled_call_leaves_no_file(desk: Desk) -> None:
    running = asyncio.create_task(desk.bash("seq 1 1000000; sleep 60"))
    while not desk.store.leavings():
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not desk.store._listed()


async def test_an_id_that_is_used_again_gets_a_file_of_its_own(desk: Desk) -> None:
    first = await desk.bash("seq 1 100000")
    desk._calls = 0
    second = await desk.bash("seq 1 200000")
    assert desk.kept(first).endswith(b"\n100000\n") and desk.kept(second).endswith(b"\n200000\n")


async def test_a_line_that_a_command_prints_names_no_file(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    line = WholeOutput(str(tmp_path / "secret"), 1, 1).note("1 more characters left out")
    result = await desk.bash(f"echo {shlex.quote(line)}")
    assert noted_outputs(result.text) and desk.store.whole_of(result) is None


async def test_all_lines_of_a_search_are_kept(desk: Desk) -> None:
    (desk.cwd / "a").mkdir()
    (desk.cwd / "a" / "many").write_text("".join(f"match {number}\n" for number in range(3_000)))
    for engine_path in (".", "a"):
        result = await desk.call(
            grep_tool(desk.workspace), pattern="match", path=engine_path, output_mode="content"
        )
        assert "[2,750 more lines; all " in result.text
        assert desk.kept(result).decode() == "".join(
            f"a/many:{number + 1}:match {number}\n" for number in range(3_000)
        )
    few = await desk.call(
        grep_tool(desk.workspace), pattern="match", head_limit=5_000, path="a", output_mode="count"
    )
    assert few.text == "a/many:3000"


async def test_all_names_are_kept(desk: Desk) -> None:
    (desk.cwd / "d").mkdir()
    for number in range(150):
        path = desk.cwd / "d" / f"{number:03}.txt"
        path.touch()
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    result = await desk.call(glob_tool(desk.workspace), pattern="**/*.txt")
    expected = [f"d/{number:03}.txt" for number in reversed(range(150))]
    assert result.text.splitlines()[:-1] == expected[:100]
    assert result.text.splitlines()[-1].startswith("[The newest 100 of 150 files; all 1,500 characters")
    assert desk.kept(result).decode().splitlines() == expected
    few = await desk.call(glob_tool(desk.workspace), pattern="d/00*.txt")
    assert few.text.splitlines() == expected[-10:]


def http(body: bytes, kind: str) -> bytes:
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b'{"a": "\xff\0 ' + b"x" * 6_000_000 + b'"}', "application/json", None),
        ("é\r\n".encode("latin-1") * 50_000, "text/plain; charset=latin-1", "é\r\n".encode() * 50_000),
        (b"<p>a word</p>\n" * 10_000, "text/html", b"a word\n\n" * 9_999 + b"a word"),
        pytest.param(b"<p>a long page</p>\n" * 300_000, "text/html", None, marks=pytest.mark.slow),
    ],
)
async def test_all_of_a_page_is_kept(desk: Desk, body: bytes, kind: str, expected: bytes | None) -> None:
    tool = web_fetch_tool(WebSettings(allows_private=True), workspace=desk.workspace)
    async with server(http(body, kind)) as url:
        result = await desk.call(tool, url=url)
    assert desk.kept(result) == (body if expected is None else expected)
    assert not desk.whole(result).missing and len(result.text) < 51_000


@pytest.fixture
async def mcp(desk: Desk) -> AsyncIterator[dict[str, Tool]]:
    async with Servers([sdk()]) as servers:
        yield {tool.name: tool for tool in mcp_tools(servers, desk.workspace)}


async def test_all_text_of_an_mcp_server_is_kept_as_text(desk: Desk, mcp: dict[str, Tool]) -> None:
    result = await desk.call(mcp["mcp__sdk__rows"], count=40_000)
    lines = [f"row {number} é\r" for number in range(40_000)]
    assert desk.kept(result).decode() == "\n".join(["first part", "\n".join(lines), "last part"])
    assert "[result cut here: text of" in result.text and "does not fit; all " in result.text
    text = desk.pointer("mcp__sdk__rows", result)
    assert "All of it is in this file" in text and "JSON" not in text and len(text) < 3_000
