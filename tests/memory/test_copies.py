"""Copies of memories: a rule against a file holds for its copy, whatever name leads to it (E5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nacre.errors import ToolError
from nacre.memory.copies import ChangedFile, MemoryCopies
from nacre.memory.files.location import MemoryPaths, locate
from nacre.memory.memory import Memory
from nacre.tools import default_tools
from nacre.tools.guard import Guard
from nacre.tools.policy import Narrowing, PermissionPolicy
from nacre.tools.rules import parse_rule
from nacre.tools.workspace import Workspace

TOOLS = frozenset({"Bash", "Edit", "Grep", "Read", "Write"})
WORDS = "the plan is called heron"
BY_ANY_NAME = ("memory/private.md", "shortcut/private.md", "note.md")


def anything(change: ChangedFile) -> None:
    return None


@contextmanager
def at_work(base: Path, *denied: str) -> Iterator[tuple[Callable[..., Awaitable[object]], Path, Path]]:
    """Tools on copies as a fork has them; with the folder of the copies and the real one."""
    project = base / "project"
    project.mkdir()
    location = locate(MemoryPaths(home=base / "home", cwd=project))
    directory = location.directory
    directory.mkdir(parents=True)
    (directory / "private.md").write_text(f"{WORDS}\n")
    (directory / "open.md").write_text("tea is served at four\n")
    (project / "memory").symlink_to(directory)
    (project / "shortcut").symlink_to(directory)
    (project / "note.md").symlink_to(directory / "private.md")
    scratch = (base / "scratch").resolve()
    with MemoryCopies([Memory(location)], scratch, anything) as desk:
        workspace = Workspace(project)
        workspace.copies = desk.copies
        rules = tuple(parse_rule(one.format(directory.resolve()), "deny", "settings") for one in denied)
        may = Narrowing(tools=TOOLS, writes_in=desk.places)
        guard = Guard(PermissionPolicy(root=project, rules=rules).narrowed(may), workspace)
        tools = {one.name: one for one in guard.wrap(default_tools(workspace))}

        async def called(name: str, **arguments: str) -> object:
            return await tools[name].call(dict(arguments))

        yield called, scratch, directory


@pytest.mark.parametrize("name", BY_ANY_NAME)
async def test_a_file_nobody_may_read_is_not_read_as_a_copy_through_a_link(tmp_path: Path, name: str) -> None:
    """E5: a rule names where the file really is; the link and the copy are other names of it."""
    with at_work(tmp_path, "Read(/{}/private.md)") as (called, _, _):
        with pytest.raises(ToolError, match="says deny"):
            await called("Read", file_path=name)
        assert "tea" in str(await called("Read", file_path="shortcut/open.md"))


@pytest.mark.parametrize("name", BY_ANY_NAME)
async def test_a_file_nobody_may_edit_is_not_written_as_a_copy_through_a_link(
    tmp_path: Path, name: str
) -> None:
    """E5."""
    with at_work(tmp_path, "Edit(/{}/private.md)") as (called, _, _):
        await called("Read", file_path=name)
        with pytest.raises(ToolError, match="says deny"):
            await called("Write", file_path=name, content="gone\n")


async def test_what_was_refused_has_no_copy_that_a_command_or_a_search_could_find(tmp_path: Path) -> None:
    """E5: the copy is made for a call that was allowed, and a rule holds for the copy by its own name."""
    with at_work(tmp_path, "Read(/{}/private.md)") as (called, scratch, _):
        with pytest.raises(ToolError):
            await called("Read", file_path="shortcut/private.md")
        assert not list(scratch.rglob("*.md"))
        (scratch / "0").mkdir()
        (scratch / "0" / "private.md").write_text(WORDS)
        with pytest.raises(ToolError, match="says deny"):
            await called("Read", file_path=str(scratch / "0" / "private.md"))
        with pytest.raises(ToolError, match="says deny"):
            await called("Bash", command=f"cat {scratch}/0/private.md")


async def test_what_is_written_to_a_copy_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    """E5."""
    with at_work(tmp_path) as (called, scratch, directory):
        await called("Read", file_path="shortcut/private.md")
        await called("Write", file_path="shortcut/private.md", content="other\n")
        assert (directory / "private.md").read_text() == f"{WORDS}\n"
        assert (scratch / "0" / "private.md").read_text() == "other\n"
