"""Edit and Write: only what was read is changed, and everything else stays byte for byte."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ToolError
from nacre.tools.edit import edit_tool, replaced, write_tool
from nacre.tools.files import MAX_WHOLE_BYTES
from nacre.tools.read import read_tool
from nacre.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path)


async def read(workspace: Workspace, name: str) -> None:
    await read_tool(workspace).call({"file_path": name})


async def edit(workspace: Workspace, name: str, old: str, new: str, *, everywhere: bool = False):
    arguments = {"file_path": name, "old_string": old, "new_string": new, "replace_all": everywhere}
    return await edit_tool(workspace).call(arguments)


async def write(workspace: Workspace, name: str, content: str):
    return await write_tool(workspace).call({"file_path": name, "content": content})


async def refusal(work) -> str:
    with pytest.raises(ToolError) as caught:
        await work
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_unique_match_is_replaced_and_the_next_edit_needs_no_new_read(workspace, tmp_path):
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    await read(workspace, "a")
    assert await edit(workspace, "a", "two", "2") == "Edited a: 1 place, line 2."
    assert await edit(workspace, "a", "2\nthree", "II\nIII") == "Edited a: 1 place, line 2."
    assert (tmp_path / "a").read_text() == "one\nII\nIII\n"


async def test_a_file_must_be_read_in_its_current_version(workspace, tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    assert await refusal(edit(workspace, "a", "one", "two")) == "Read a before changing it."
    assert await refusal(write(workspace, "a", "two")) == "Read a before changing it."
    await read(workspace, "a")
    before = path.stat()
    path.write_text("One")  # same size, and the same time below: only the content tells
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (
        await refusal(edit(workspace, "a", "One", "two")) == "a has changed since it was read; read it again."
    )
    assert await refusal(write(workspace, "a", "two")) == "a has changed since it was read; read it again."
    assert path.read_text() == "One"


async def test_a_file_that_was_only_touched_is_still_current(workspace, tmp_path):
    (tmp_path / "a").write_text("one")
    await read(workspace, "a")
    os.utime(tmp_path / "a", (1, 1))
    await edit(workspace, "a", "one", "two")
    assert (tmp_path / "a").read_text() == "two"


async def test_a_file_read_by_one_name_can_be_edited_by_another(workspace, tmp_path):
    (tmp_path / "a").write_text("one")
    (tmp_path / "link").symlink_to("a")
    await read(workspace, "link")
    await edit(workspace, str(tmp_path / "a"), "one", "two")
    await edit(workspace, "link", "two", "three")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "three"


async def test_unclear_edits_are_refused_with_what_to_do(workspace, tmp_path):
    (tmp_path / "a").write_text("x\ny\nx\n" + "z\n" * 12)
    await read(workspace, "a")
    assert await refusal(edit(workspace, "a", "q", "r")) == (
        "old_string is not in a; copy it exactly as Read shows it, without the line numbers."
    )
    assert await refusal(edit(workspace, "a", "x", "r")) == (
        "old_string is in a 2 times (lines 1, 3); add lines around it to make it unique, or set replace_all."
    )
    assert "(lines 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 …)" in await refusal(edit(workspace, "a", "z", "r"))
    assert await refusal(edit(workspace, "a", "x", "x")) == (
        "old_string and new_string are identical; nothing would change."
    )
    assert await refusal(edit(workspace, "a", "", "x")) == (
        "old_string is empty; use Write to create a file or replace it whole."
    )
    assert "lone surrogate" in await refusal(edit(workspace, "a", "y", "\ud800"))
    assert "There is no file b." in await refusal(edit(workspace, "b", "y", "n"))
    assert (tmp_path / "a").read_text() == "x\ny\nx\n" + "z\n" * 12


async def test_replace_all_changes_every_place(workspace, tmp_path):
    (tmp_path / "a").write_text("x\ny\nx x\n")
    await read(workspace, "a")
    assert await edit(workspace, "a", "x", "z", everywhere=True) == "Edited a: 3 places, lines 1, 3, 3."
    assert (tmp_path / "a").read_text() == "z\ny\nz z\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", b"1\r\n2\r\n3\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "z", b"z\r\n"),
        (b"a\nb\r\nc\nd\n", "c", "c\nc", b"a\nb\r\nc\nc\nd\n"),
        (b"a\nb\r\nc\nd\n", "b\nc", "x\ny", b"a\nx\r\ny\nd\n"),
        (b"a\nb\n", "a", "a\r\nc", b"a\nc\nb\n"),
        (b"\xef\xbb\xbfa\nb", "a", "\u00e9", b"\xef\xbb\xbf\xc3\xa9\nb"),
        (b"caf\xe9 a\n", "a\n", "b\n", b"caf\xe9 b\n"),
        ("héa".encode("utf-16"), "é", "珍😀", "h珍😀a".encode("utf-16")),
        ("\ufeffab".encode("utf-16-be"), "b", "c", "\ufeffac".encode("utf-16-be")),
        (b"no end", "end", "tail", b"no tail"),
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_line_ends_encoding_and_mark_stay(workspace, tmp_path, before, old, new, after):
    (tmp_path / "f").write_bytes(before)
    await read(workspace, "f")
    await edit(workspace, "f", old, new)
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444, 0o4711])
async def test_the_mode_stays_and_nothing_is_left_beside_the_file(workspace, tmp_path, mode):
    (tmp_path / "a").write_text("one")
    (tmp_path / "a").chmod(mode)
    await read(workspace, "a")
    await edit(workspace, "a", "one", "two")
    await write(workspace, "a", "three")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


async def test_a_reader_with_the_old_file_open_keeps_the_whole_old_content(workspace, tmp_path):
    """The file is renamed into place, so nobody ever sees half of it."""
    (tmp_path / "a").write_text("old content")
    await read(workspace, "a")
    with (tmp_path / "a").open() as held:
        await edit(workspace, "a", "old", "new")
        assert held.read() == "old content"


async def test_a_file_too_large_to_hold_is_refused(workspace, tmp_path):
    with (tmp_path / "big").open("wb") as target:
        target.write(b"x\n")
        target.truncate(MAX_WHOLE_BYTES + 1)
    assert "change it with a command in Bash" in await refusal(edit(workspace, "big", "x", "y"))


async def test_a_new_file_is_created_with_its_directories_and_can_be_edited_at_once(workspace, tmp_path):
    umask = os.umask(0o027)
    try:
        assert await write(workspace, "x/y/a.txt", "hé\r\n") == "Created x/y/a.txt (5 bytes)."
    finally:
        os.umask(umask)
    path = tmp_path / "x/y/a.txt"
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"h\xc3\xa9\r\n", 0o640)
    await edit(workspace, "x/y/a.txt", "h", "H")
    assert await write(workspace, "x/y/a.txt", "") == "Replaced x/y/a.txt (0 bytes)."


async def test_what_cannot_be_written_is_refused_in_one_line(workspace, tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    assert "is a directory" in await refusal(write(workspace, "dir", "x"))
    assert "is a named pipe" in await refusal(write(workspace, "pipe", "x"))
    assert "is a device" in await refusal(write(workspace, "/dev/null", "x"))
    assert await refusal(write(workspace, "file/x", "x")) == (
        f"Cannot write {workspace.root / 'file/x'}: not a directory."
    )
    assert "file name too long" in await refusal(write(workspace, "n" * 300, "x"))
    assert "lone surrogate" in await refusal(write(workspace, "new", "\udc80"))
    assert not (tmp_path / "new").exists()


letters = st.text(alphabet="ab\n é珍", max_size=30)


@given(text=letters, old=letters.filter(bool), new=letters)
def test_replacing_is_what_str_replace_does(text: str, old: str, new: str):
    edited, lines = replaced(text, old, new)
    assert edited == text.replace(old, new)
    assert len(lines) == text.count(old)


@given(text=letters, old=letters.filter(bool), new=letters)
def test_replacing_in_a_crlf_file_is_the_same_with_other_line_ends(text: str, old: str, new: str):
    edited, lines = replaced("top\r\n" + text.replace("\n", "\r\n"), old, new)
    assert edited == ("top\n" + text).replace(old, new).replace("\n", "\r\n")
    assert len(lines) == ("top\n" + text).count(old)


@given(text=letters, old=letters.filter(bool), new=letters)
async def test_what_edit_writes_is_what_is_read_back(text: str, old: str, new: str):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a")
        path.write_text(text, newline="")
        workspace = Workspace(Path(directory))
        await read(workspace, "a")
        try:
            await edit(workspace, "a", old, new, everywhere=True)
        except ToolError:
            assert old not in text or old == new
        else:
            assert path.read_bytes().decode() == text.replace(old, new)


async def test_unsaved_text_of_an_editor_is_read_and_changed_in_place_of_the_file(
    workspace: Workspace,
) -> None:
    path = workspace.root / "app.py"
    path.write_text("saved = 1\n")
    texts = {path: b"unsaved = 1\n"}

    async def unsaved(file: Path) -> bytes | None:
        return texts.get(file)

    async def put(file: Path, content: bytes) -> None:
        texts.pop(file, None)
        file.write_bytes(content)

    workspace.unsaved = unsaved
    workspace.owned[workspace.root] = put
    shown = await read_tool(workspace).call({"file_path": "app.py"})
    assert "unsaved = 1" in str(shown)
    await edit(workspace, "app.py", "unsaved", "done")
    assert path.read_text() == "done = 1\n"
    texts[path] = b"typed meanwhile\n"
    assert "has changed since it was read" in await refusal(edit(workspace, "app.py", "done", "over"))
    assert "has changed since it was read" in await refusal(write(workspace, "app.py", "over"))
    assert path.read_text() == "done = 1\n"
