"""Read: numbered lines, always bounded, and one clear line for what cannot be read."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from nacre.errors import ToolError
from nacre.messages.media import media_bytes, media_facts
from nacre.tools.files import MAX_WHOLE_BYTES
from nacre.tools.read import ReadSettings, read_tool
from nacre.tools.workspace import Workspace
from tests.pictures import gif, jpeg, pdf, png, webp


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path)


async def read(
    workspace: Workspace, file_path: str, settings: ReadSettings | None = None, **arguments
) -> str:
    answer = await read_tool(workspace, settings).call({"file_path": file_path, **arguments})
    assert isinstance(answer, str)
    return answer


async def refusal(workspace: Workspace, file_path: str, **arguments) -> str:
    with pytest.raises(ToolError) as caught:
        await asyncio.wait_for(read(workspace, file_path, **arguments), 10)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"one\ntwo\n", b"one\ntwo", b"one\r\ntwo\r\n", b"\xef\xbb\xbfone\ntwo\n", "one\ntwo".encode("utf-16")],
    ids=["lf", "no final newline", "crlf", "bom", "utf-16"],
)
async def test_lines_carry_their_numbers_whatever_the_encoding_and_line_ends(workspace, tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    assert await read(workspace, "a.txt") == "1\tone\n2\ttwo"


async def test_a_range_is_returned_and_says_how_to_go_on(workspace, tmp_path):
    (tmp_path / "a").write_text("".join(f"l{number}\n" for number in range(1, 10)))
    assert await read(workspace, "a", offset=3, limit=2) == (
        "3\tl3\n4\tl4\n[More lines follow; go on with offset=5.]"
    )
    assert await read(workspace, "a", offset=8, limit=2) == "8\tl8\n9\tl9"


async def test_two_thousand_lines_are_the_default(workspace, tmp_path):
    (tmp_path / "a").write_text("x\n" * 2_001)
    lines = (await read(workspace, "a")).split("\n")
    assert (len(lines), lines[-2:]) == (2_001, ["2000\tx", "[More lines follow; go on with offset=2001.]"])


async def test_an_empty_file_and_a_range_past_the_end_are_said(workspace, tmp_path):
    (tmp_path / "empty").write_text("")
    (tmp_path / "short").write_text("a\nb\n")
    assert await read(workspace, "empty") == "[The file is empty.]"
    assert (
        await read(workspace, "short", offset=9) == "[The file has only 2 lines; offset=9 is past its end.]"
    )
    (tmp_path / "line").write_text("a\n")
    assert await read(workspace, "line", offset=2) == "[The file has only 1 line; offset=2 is past its end.]"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_a_long_line_is_cut_and_says_by_how_much(workspace, tmp_path, end):
    (tmp_path / "a").write_bytes(("x" * 2_000 + end).encode())
    (tmp_path / "b").write_bytes(("x" * 200_000 + end).encode())
    assert await read(workspace, "a") == "1\t" + "x" * 2_000
    assert (
        await read(workspace, "b")
        == "1\t" + "x" * 2_000 + " [… 198,000 more characters in this line; go on with offset=1 column=2001]"
    )


async def test_the_whole_answer_is_bounded_in_tokens(workspace, tmp_path):
    (tmp_path / "a").write_text(("y" * 1_000 + "\n") * 2_000)
    text = await read(workspace, "a", offset=1)
    assert len(text) < 25_000 * 4
    assert text.endswith("[Stopped here: one call returns 25,000 tokens; go on with offset=100.]")


async def test_a_huge_file_is_streamed_and_never_held(workspace, tmp_path):
    """Bad input: a file larger than memory; only its first lines are ever read."""
    path = tmp_path / "huge.log"
    with path.open("wb") as target:
        target.write(b"first\n" * 5_000)
        target.truncate(200 * 1024**3)  # sparse: takes no space, and reading it all would take minutes
    assert (await read(workspace, "huge.log", limit=2)).startswith("1\tfirst\n2\tfirst\n[More lines")
    assert (await read(workspace, "huge.log", offset=5_000, limit=1)).endswith("go on with offset=5001.]")
    endless = await read(workspace, "huge.log", offset=5_000)
    assert endless.startswith("5000\tfirst\n5001\t") and "… more than 10," in endless
    assert endless.endswith("go on with offset=5001 column=2001]")


async def test_column_reaches_every_character_of_a_long_line(workspace, tmp_path):
    line = "".join(f"<{number}>" for number in range(60_000))
    (tmp_path / "a").write_text(f"first\n{line}\nlast\n")
    shown = ""
    column = 1
    while column <= len(line):
        row, *rest = (await read(workspace, "a", offset=2, column=column)).removeprefix("2\t").split("\n")
        piece, _, note = row.partition(" [… ")
        shown += piece
        column += len(piece)
        assert not note or note.endswith(f"go on with offset=2 column={column}]")
        assert rest == ["3\tlast"]
    assert shown == line
    assert await read(workspace, "a", offset=2, limit=1, column=len(line) + 1) == (
        f"2\t[This line has only {len(line):,} characters.]\n[More lines follow; go on with offset=3.]"
    )


async def test_stopping_a_long_read_ends_it(workspace, tmp_path):
    """Q2: cancelling does not leave a thread reading on."""
    path = tmp_path / "huge.log"
    with path.open("wb") as target:
        target.write(b"a\n" * (MAX_WHOLE_BYTES * 4))
    reading = asyncio.create_task(read(workspace, "huge.log", offset=10**9))
    await asyncio.sleep(0.1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(reading, 5)


async def test_broken_bytes_are_shown_as_replacement_characters(workspace, tmp_path):
    (tmp_path / "a").write_bytes(b"caf\xe9 \xff\n")
    assert await read(workspace, "a") == "1\tcaf� �"


async def test_only_newlines_end_lines(workspace, tmp_path):
    (tmp_path / "a").write_text("a\x0cb\u2028c\rd\n", newline="")
    assert await read(workspace, "a") == "1\ta\x0cb\u2028c\rd"


async def test_what_is_no_text_file_is_refused_in_one_line(workspace, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dir").mkdir()
    (tmp_path / "bin").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "odd").write_bytes(b"\xff\xfea")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.close()
    (tmp_path / "i.ico").write_bytes(b"\0\0\1\0")
    (tmp_path / "n.ipynb").write_bytes(b"{}")
    (tmp_path / "p.png").write_bytes(png()[:12])
    (tmp_path / "wide.dat").write_bytes(webp(9_000, 5))
    (tmp_path / "d.pdf").write_bytes(pdf(101))
    assert {
        name: await refusal(workspace, name)
        for name in (
            "pipe",
            "dir",
            "bin",
            "odd",
            "s",
            "/dev/zero",
            "p.png",
            "wide.dat",
            "d.pdf",
            "i.ico",
            "n.ipynb",
        )
    } == {
        "pipe": "pipe is a named pipe, not a file.",
        "dir": "dir is a directory; list it with Glob, or with ls in Bash.",
        "bin": "bin is a binary file; look at it with a command in Bash, such as file or xxd.",
        "odd": "odd is not valid utf-16-le text.",
        "s": "Cannot open s: no such device or address.",
        "/dev/zero": "/dev/zero is a device or socket, not a file.",
        "p.png": (
            "p.png cannot be shown: the picture is damaged: its size cannot be read; "
            "convert it in Bash first."
        ),
        "wide.dat": (
            "wide.dat cannot be shown: it has 9000x5 pixels, and at most 8,000 a side can be shown; "
            "convert it in Bash first."
        ),
        "d.pdf": (
            "d.pdf cannot be shown: it has 101 pages, and at most 100 can be shown; "
            "try pdftotext in Bash, or take out pages."
        ),
        "i.ico": "Only PNG, JPEG, GIF and WebP pictures can be shown; convert it in Bash: i.ico.",
        "n.ipynb": "Notebooks cannot be read yet; try jq in Bash: n.ipynb.",
    }


async def test_pictures_and_pdf_files_are_shown_whatever_their_name(workspace, tmp_path):
    files = {"a.txt": png(30, 20), "b.png": jpeg(3, 4), "c": gif(5, 6), "d.webp": webp(7, 8), "e.pdf": pdf(2)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        result = await read_tool(workspace).call({"file_path": name})
        line, block = result.content
        assert media_bytes(block) == data and line.text == f"[{name}: {media_facts(block).text}]"
    assert line.text.startswith("[e.pdf: PDF file, 2 pages, ")


async def test_text_in_a_file_named_like_a_picture_is_read_as_text(workspace, tmp_path):
    (tmp_path / "a.png").write_text("no picture\n")
    assert await read(workspace, "a.png") == "1\tno picture"


async def test_a_missing_file_suggests_names_like_it(workspace, tmp_path):
    for name in ("settings.py", "setings.py", "settings.toml", "other.txt"):
        (tmp_path / name).write_text("")
    assert await refusal(workspace, "settings.pi") == (
        "There is no file settings.pi. Similar names there: settings.py, settings.toml, setings.py."
    )
    assert await refusal(workspace, "nowhere/x") == (
        f"There is no file nowhere/x. The directory {tmp_path}/nowhere does not exist either."
    )


@pytest.mark.parametrize("file_path", ["", "a\0b"])
async def test_a_path_that_is_none_is_refused(workspace, file_path):
    assert "empty or holds a zero byte" in await refusal(workspace, file_path)


async def test_a_limit_must_be_positive(workspace, tmp_path):
    (tmp_path / "a").write_text("x")
    assert await refusal(workspace, "a", limit=0) == "limit must be at least 1."


async def test_relative_paths_start_at_the_working_directory_and_a_tilde_at_home(
    workspace, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("sub", "home"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(folder)
    workspace.cwd = tmp_path / "sub"
    assert (await read(workspace, "a"), await read(workspace, "~/a")) == ("1\tsub", "1\thome")


async def test_what_was_read_is_remembered_newest_first_and_a_clone_goes_its_own_way(workspace, tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(name)
        await read(workspace, name)
    await read(workspace, "a")
    twin = workspace.clone()
    (tmp_path / "d").write_text("d")
    await read(twin, "d")
    assert [path.name for path in workspace.recently_seen()] == ["a", "c", "b"]
    assert [path.name for path in twin.recently_seen()] == ["d", "a", "c", "b"]
    assert twin.seen(Path(tmp_path / "b")) == workspace.seen(tmp_path / "b")
