"""Results that a tool cut are known by the tool's own note; the tools are the real ones."""

from __future__ import annotations

import shutil
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult, ImageContent, TextContent

from nacre.mcp_client.translate import ADVICE, to_outcome
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.results import UNKNOWN, cut_of
from nacre.tools.base import Tool
from nacre.tools.bash import bash_tool
from nacre.tools.read import read_tool
from nacre.tools.run import run_all
from nacre.tools.search_tools import GrepSettings, glob_tool, grep_tool
from nacre.tools.web_fetch import WebSettings, web_fetch_tool
from nacre.tools.workspace import Workspace
from tests.pictures import png
from tests.tools.test_web_fetch import response, server


async def cut(tool: Tool, **arguments: object) -> str | None:
    call = ToolCall("c", tool.name, arguments)  # type: ignore[arg-type]
    [result] = await run_all([call], {tool.name: tool})
    return cut_of(tool.name, result)


@pytest.mark.parametrize(
    ("command", "returned"),
    [
        ("seq 1 100000", "30,000 of 588,895 characters"),
        ("seq 1 100000; (sleep 3 >/dev/null 2>&1 </dev/null &)", "30,000 of 588,895 characters"),
        ("seq 1 5000", None),
        ("seq 1 5; false", None),
    ],
)
async def test_output_of_a_command(tmp_path: Path, command: str, returned: str | None) -> None:
    assert await cut(bash_tool(Workspace(tmp_path)), command=command) == returned


async def test_output_of_a_command_that_failed(tmp_path: Path) -> None:
    returned = await cut(bash_tool(Workspace(tmp_path)), command="seq 1 100000; exit 3")
    assert returned is not None and returned.startswith("10,0") and " of 588,9" in returned


@pytest.mark.parametrize("has_ripgrep", [True, False])
async def test_lines_of_a_search(tmp_path: Path, has_ripgrep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_ripgrep and not shutil.which("rg"):
        pytest.skip("ripgrep is not installed")
    if not has_ripgrep:
        monkeypatch.setattr("nacre.tools.search_tools.shutil.which", lambda _: None)
    workspace = Workspace(tmp_path)
    (tmp_path / "many").write_text("match\n" * 1_000)
    (tmp_path / "long").write_text("other\n" + "x" * 3_000)
    grep: JsonObject = {"output_mode": "content"}
    assert await cut(grep_tool(workspace), pattern="match", **grep) == "250 of 1,000 lines"
    assert await cut(grep_tool(workspace), pattern="match", head_limit=2_000, **grep) is None
    assert await cut(grep_tool(workspace), pattern="other", after=1, **grep) == UNKNOWN
    few = GrepSettings(max_bytes=1_000)
    assert await cut(grep_tool(workspace, few), pattern="match", **grep) == UNKNOWN


async def test_lists_of_files_and_files_read_in_part(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for number in range(101):
        (tmp_path / f"{number}.txt").touch()
    assert await cut(glob_tool(workspace), pattern="*.txt") == "100 of 101 files"
    assert await cut(glob_tool(workspace), pattern="1*.txt") is None
    (tmp_path / "long").write_text("a line of some length\n" * 100_000)
    assert await cut(read_tool(workspace), file_path=str(tmp_path / "long"), limit=90_000) == UNKNOWN
    assert await cut(read_tool(workspace), file_path=str(tmp_path / "long"), limit=3) is None
    (tmp_path / "long.py").write_text("import os\n" * 3_000 + "def last(): ...\n" * 9)
    assert await cut(read_tool(workspace), file_path=str(tmp_path / "long.py")) == "114 of 3,009 lines"


async def test_pages() -> None:
    async with server(response("x" * 1_000, "text/plain")) as url:
        some = web_fetch_tool(WebSettings(allows_private=True, max_chars=100))
        assert await cut(some, url=url) == "100 of 1,000 characters"
        fewer = web_fetch_tool(WebSettings(allows_private=True, max_bytes=300))
        assert await cut(fewer, url=url) == UNKNOWN
        assert await cut(web_fetch_tool(WebSettings(allows_private=True)), url=url) is None


def test_results_of_mcp_servers() -> None:
    words = TextContent(type="text", text="a row of numbers\n" * 1_000)
    picture = ImageContent(type="image", data=b64encode(png()).decode(), mime_type="image/png")

    def returned(*content: TextContent | ImageContent, tokens: int) -> str | None:
        parts = to_outcome(CallToolResult(content=list(content)), max_tokens=tokens).parts
        return cut_of("mcp__db__query", ToolResult("c", parts))

    assert returned(words, tokens=100) == "400 of 17,000 characters"
    assert returned(words, words, tokens=6_000) == "24,000 of 34,001 characters"
    assert returned(words, picture, words, tokens=5_000) == UNKNOWN
    assert returned(words, picture, tokens=6_000) is None, "pictures do not count against the limit of text"
    assert returned(words, tokens=6_000) is None
    older = (Text("some words"), Text(f"[result cut here: 1 images do not fit; {ADVICE}]"))
    assert cut_of("mcp__db__query", ToolResult("c", older)) == UNKNOWN, "as version 0.1 wrote it"


@given(st.sampled_from(["Bash", "Grep", "Glob", "Read", "WebFetch", "mcp__a__b", "mine"]), st.text())
def test_any_other_text_is_whole(tool: str, text: str) -> None:
    assert cut_of(tool, ToolResult("c", (Text(text),))) is None
    assert cut_of(tool, ToolResult("c", ())) is None
