"""Links that are exchanged between the check of a path and its use: nothing outside is read or written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nacre.errors import ToolError
from nacre.messages.blocks import JsonObject
from nacre.tools import default_tools
from nacre.tools.files import LinkInPathError, open_real
from nacre.tools.guard import Guard
from nacre.tools.policy import PermissionPolicy
from nacre.tools.workspace import Copies, Workspace
from tests.scale import scaled

SECRET = "the secret of another place"
SWAPPER = """
import os, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    # `door` is a directory of the project, then a link to the one outside, and back; `file` likewise.
    os.rename("door", "door.real")
    os.rename("door.link", "door")
    os.rename("file", "file.real")
    os.rename("file.link", "file")
    os.rename("door", "door.link")
    os.rename("door.real", "door")
    os.rename("file", "file.link")
    os.rename("file.real", "file")
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    outside = tmp_path / "outside"
    for folder in (root / "door", outside):
        folder.mkdir(parents=True)
    (outside / "words.txt").write_text(f"{SECRET}\n")
    (outside / "named (deleted)").write_text(f"{SECRET}\n")
    (root / "door" / "words.txt").write_text("words of the project\n")
    (root / "file").write_text("words of the project\n")
    (root / "door.link").symlink_to(outside)
    (root / "file.link").symlink_to(outside / "words.txt")
    return Workspace(root)


@contextmanager
def swapped(root: Path) -> Iterator[None]:
    """Exchange the links in another process within the block, as fast as it can."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SWAPPER, str(root)], stdout=subprocess.PIPE, text=True
    ) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield
        finally:
            swapper.kill()


def exchanging(workspace: Workspace, name: str) -> Copies:
    """Exchange a name for its link once the path was checked, before the tool opens it."""

    def exchange(path: Path) -> None:
        (workspace.root / name).rename(workspace.root / f"{name}.real")
        (workspace.root / f"{name}.link").rename(workspace.root / name)

    def same(path: Path) -> Path:
        return path

    async def write(path: Path, content: bytes) -> None:
        raise ToolError("no copy is written here")

    return Copies(workspace.root / "copies", same, same, exchange, write)


CALLS: list[tuple[str, str, JsonObject]] = [
    ("file", "Read", {"file_path": "file"}),
    ("door", "Read", {"file_path": "door/words.txt"}),
    ("door", "Write", {"file_path": "door/new.txt", "content": "x"}),
    ("door", "Write", {"file_path": "door/deep/er/new.txt", "content": "x"}),
    ("door", "Grep", {"pattern": "words|secret", "path": "door", "output_mode": "content"}),
    ("door", "Grep", {"pattern": "words|secret", "path": "door/words.txt", "output_mode": "content"}),
    ("file", "Grep", {"pattern": "words|secret", "path": "file", "output_mode": "content"}),
    ("door", "Grep", {"pattern": "words|secret", "output_mode": "content"}),
    ("door", "Glob", {"pattern": "**/*"}),
    ("door", "Glob", {"pattern": "*", "path": "door"}),
    ("door", "Glob", {"pattern": "door/*"}),
]


@pytest.mark.parametrize(("name", "tool", "arguments"), CALLS)
async def test_a_link_that_is_put_there_after_the_check_is_not_followed(
    workspace: Workspace, tmp_path: Path, name: str, tool: str, arguments: JsonObject
) -> None:
    tools = {one.name: one for one in default_tools(workspace)}
    workspace.copies = exchanging(workspace, name)
    before = sorted(tmp_path.glob("outside/**/*"))
    try:
        said = str(await tools[tool].call(arguments))
    except ToolError as error:
        said = str(error)
        assert "\n" not in said
    assert SECRET not in said
    assert "named (deleted)" not in said
    assert sorted(tmp_path.glob("outside/**/*")) == before


@pytest.mark.parametrize(("name", "path"), [("file", "file"), ("door", "door/words.txt"), ("door", "door")])
async def test_grep_with_ripgrep_follows_no_link_either(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    """A stand-in that, like ripgrep, follows links that are named and none that it finds."""
    (programs := tmp_path / "programs").mkdir()
    (program := programs / "rg").write_text('#!/bin/bash\nexec grep -rHnE "words|secret" -- "${@: -1}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    tools = {one.name: one for one in default_tools(workspace)}
    workspace.copies = exchanging(workspace, name)
    try:
        said = str(
            await tools["Grep"].call({"pattern": "words|secret", "path": path, "output_mode": "content"})
        )
    except ToolError as error:
        said = str(error)
    assert SECRET not in said


async def test_an_edit_behind_an_exchanged_link_changes_nothing_outside(workspace: Workspace) -> None:
    tools = {one.name: one for one in default_tools(workspace)}
    await tools["Read"].call({"file_path": "door/words.txt"})
    workspace.copies = exchanging(workspace, "door")
    with pytest.raises(ToolError, match="symbolic link was put"):
        await tools["Edit"].call({"file_path": "door/words.txt", "old_string": "words", "new_string": "x"})
    assert (workspace.root.parent / "outside" / "words.txt").read_text() == f"{SECRET}\n"


def test_a_name_that_looks_like_a_deleted_file_opens_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """The kernel names the descriptor of a deleted file so; a file can have that name as well."""
    place = workspace.root / "file"
    place.unlink()
    place.symlink_to(tmp_path / "outside" / "named (deleted)")
    with pytest.raises(LinkInPathError):
        open_real(place, os.O_RDONLY)


def test_a_resolved_path_is_opened_and_missing_directories_are_created(tmp_path: Path) -> None:
    real = tmp_path.resolve()
    os.close(open_real(real / "a" / "b", os.O_RDONLY | os.O_DIRECTORY, make=True))
    assert (real / "a" / "b").is_dir()
    os.close(open_real(Path("/"), os.O_RDONLY | os.O_DIRECTORY))
    for missing in (real / "x", real / "x" / "y"):
        with pytest.raises(FileNotFoundError):
            open_real(missing, os.O_RDONLY)
    (real / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        open_real(real / "file" / "x", os.O_RDONLY, make=True)


async def storm(workspace: Workspace, calls: int, *names: str) -> tuple[int, int]:
    """Call tools while links are exchanged; return how many calls were made and how many were refused."""
    guard = Guard(PermissionPolicy(root=workspace.root, mode="acceptEdits"), workspace)
    tools = {one.name: one for one in guard.wrap(default_tools(workspace))}
    outside = workspace.root.parent / "outside"
    before = sorted(outside.glob("**/*"))
    made = refused = 0
    chosen = [(tool, arguments) for _, tool, arguments in CALLS if tool in names]
    with swapped(workspace.root):
        for number in range(calls):
            tool, arguments = chosen[number % len(chosen)]
            given = dict(arguments)
            if tool == "Write":
                given["file_path"] = f"{arguments['file_path']}-{number}"
            made += 1
            try:
                said = str(await tools[tool].call(given))
            except ToolError as error:
                refused += 1
                said = str(error)
            assert SECRET not in said, (tool, given)
            assert "named (deleted)" not in said, (tool, given)
    assert sorted(outside.glob("**/*")) == before
    assert (outside / "words.txt").read_text() == f"{SECRET}\n"
    return made, refused


@pytest.mark.soak
async def test_a_storm_of_exchanged_links_leads_no_reader_and_no_writer_out(workspace: Workspace) -> None:
    made, refused = await storm(workspace, scaled(2_000, at_least=400), "Read", "Write")
    assert 0 < refused < made, "some calls met a link, and some did not"


@pytest.mark.slow
@pytest.mark.soak
async def test_a_storm_of_exchanged_links_leads_no_search_out(workspace: Workspace) -> None:
    made, refused = await storm(workspace, scaled(200, at_least=20), "Grep", "Glob")
    assert refused < made
