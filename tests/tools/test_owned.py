"""Directories whose files somebody else writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.errors import ToolError
from nacre.messages.blocks import ToolCall
from nacre.tools import default_tools
from nacre.tools.run import run_all
from nacre.tools.workspace import Workspace


async def test_edit_and_write_into_an_owned_directory_go_through_its_writer(tmp_path: Path) -> None:
    """Owned roots: whatever path form the model uses."""
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "a.md").write_text("old")
    (tmp_path / "link").symlink_to(memory)
    written: list[tuple[str, bytes]] = []

    async def write(path: Path, content: bytes) -> None:
        written.append((path.name, content))
        path.write_bytes(content)

    workspace = Workspace(tmp_path)
    workspace.owned[memory] = write
    tools = {one.name: one for one in default_tools(workspace)}
    results = await run_all(
        [
            ToolCall("1", "Read", {"file_path": "link/a.md"}),
            ToolCall(
                "2", "Edit", {"file_path": "memory/../link/a.md", "old_string": "old", "new_string": "new"}
            ),
            ToolCall("3", "Write", {"file_path": "link/b.md", "content": "b"}),
            ToolCall("4", "Write", {"file_path": "elsewhere.md", "content": "c"}),
        ],
        tools,
    )
    assert [result.is_error for result in results] == [False] * 4
    assert written == [("a.md", b"new"), ("b.md", b"b")]
    assert (tmp_path / "elsewhere.md").read_text() == "c"


async def test_an_owner_that_refuses_is_heard_and_nothing_is_written(tmp_path: Path) -> None:
    async def refuse(path: Path, content: bytes) -> None:
        raise ToolError("a secret stands on line 1")

    workspace = Workspace(tmp_path)
    workspace.owned[tmp_path / "memory"] = refuse
    tools = {one.name: one for one in default_tools(workspace)}
    [result] = await run_all([ToolCall("1", "Write", {"file_path": "memory/a.md", "content": "x"})], tools)
    assert result.is_error
    assert result.text == "a secret stands on line 1"
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize("name", ["memory-not", "memo"])
async def test_a_directory_beside_is_not_owned(tmp_path: Path, name: str) -> None:
    async def refuse(path: Path, content: bytes) -> None:
        raise AssertionError("not its file")

    workspace = Workspace(tmp_path)
    workspace.owned[tmp_path / "memory"] = refuse
    tools = {one.name: one for one in default_tools(workspace)}
    [result] = await run_all([ToolCall("1", "Write", {"file_path": f"{name}/a.md", "content": "x"})], tools)
    assert not result.is_error
