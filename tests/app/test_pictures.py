"""Pictures that are dropped into a terminal, or in the clipboard."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.app.pictures import clipboard_picture, dropped_pictures, named_pictures

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("form", ["plain", "quoted", "escaped", "address", "double"])
@pytest.mark.parametrize("name", ["shot.png", "my shot's.PNG", "ähre 1.jpeg"])
def test_a_dropped_file_is_found_as_every_terminal_pastes_it(tmp_path: Path, form: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(PNG)
    text = {
        "plain": str(path),
        "quoted": shlex.quote(str(path)),
        "escaped": "".join(f"\\{char}" if char in " '" else char for char in str(path)),
        "address": path.as_uri(),
        "double": f'"{path}"',
    }[form]
    if form == "plain" and "'" in name:
        return  # no shell reads it, and no terminal pastes it
    assert dropped_pictures(f"{text} \n") == [path]
    assert named_pictures(f"what is on {text} here?") in ([path], [] if form == "plain" else [path])


def test_several_files_are_dropped_at_once_and_all_must_be_pictures(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.txt"):
        (tmp_path / name).write_bytes(PNG)
    a, b, c = (str(tmp_path / name) for name in ("a.png", "b.png", "c.txt"))
    assert dropped_pictures(f"{a} {b}") == [Path(a), Path(b)]
    assert dropped_pictures(f"{a} {c}") == []
    assert dropped_pictures(f"look at {a}") == []
    assert dropped_pictures("a.png") == []  # relative: typed, not dropped
    assert dropped_pictures(f"{tmp_path}/nowhere.png") == []


@given(st.text())
def test_no_other_text_is_a_picture(text: str) -> None:
    assert dropped_pictures(text) == []
    assert dropped_pictures(f"/{text}") == []
    assert named_pictures(text) == []


async def test_the_picture_in_the_clipboard_is_read_by_a_program(tmp_path: Path) -> None:
    assert await clipboard_picture(tmp_path, {"PATH": str(tmp_path)}) is None
    program = tmp_path / "xclip"
    program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/shot\n")
    program.chmod(0o755)
    (tmp_path / "shot").write_bytes(b"text, no picture")
    assert await clipboard_picture(tmp_path, {"PATH": str(tmp_path)}) is None
    (tmp_path / "shot").write_bytes(PNG)
    picture = await clipboard_picture(tmp_path, {"PATH": str(tmp_path)})
    assert picture is not None
    assert "image/png" in str(picture)
