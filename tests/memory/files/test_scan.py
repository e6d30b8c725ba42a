"""A scan of a memory directory: newest first, odd files left out with a reason, nothing blocks (R3, R4)."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.files.scan import MAX_TOPIC_BYTES, Scan, SkippedFile, head_fields, manifest_line, scan
from nacre.memory.format.entry import Entry
from nacre.memory.format.frontmatter import MarkdownFile

TEA = "---\nname: Tea\ndescription: likes tea\ntype: user\n---\n\nGreen.\n"


def put(directory: Path, file: str, text: str | bytes = TEA, *, day: int = 1) -> Path:
    path = directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    when = datetime(2026, 1, day, tzinfo=UTC).timestamp()
    os.utime(path, (when, when))
    return path


def files(found: Scan) -> list[str]:
    return [entry.file for entry in found.entries]


def test_topic_files_are_found_newest_first(tmp_path: Path) -> None:
    """R3: recursive, `*.md` but the index; daily logs (M17) and the team's memory (M18) are apart."""
    put(tmp_path, "old.md", day=1)
    put(tmp_path, "new.md", day=3)
    put(tmp_path, "ops/team/middle.md", day=2)
    put(tmp_path, "MEMORY.md", "- [Old](old.md) — tea\n")
    put(tmp_path, "ops/team/MEMORY.md", "- [Middle](middle.md)\n")
    put(tmp_path, "team/theirs.md", day=2)
    put(tmp_path, "team/MEMORY.md", "- [Theirs](theirs.md)\n")
    put(tmp_path, "logs/2026/01/2026-01-01.md")
    put(tmp_path, ".git/x.md")
    put(tmp_path, ".old.md.tmp.md")
    put(tmp_path, "notes.txt")
    found = scan(tmp_path)
    assert files(found) == ["new.md", "ops/team/middle.md", "old.md"]
    assert [entry.indexed for entry in found.entries] == [False, True, True]
    assert found.skipped == ()
    assert found.entries[0] == Entry(
        file="new.md",
        name="Tea",
        description="likes tea",
        kind="user",
        written=datetime(2026, 1, 3, tzinfo=UTC),
        bytes=len(TEA),
    )


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert scan(tmp_path / "none") == Scan((), ())
    assert scan(put(tmp_path, "file")) == Scan((), ())


def test_only_the_first_thirty_lines_are_read(tmp_path: Path) -> None:
    """R3."""
    put(tmp_path, "late.md", "---\n" + "# c\n" * 40 + "type: user\n---\n")
    put(tmp_path, "wide.md", f"---\nname: {'茶' * 30_000}\ntype: user\n---\n")
    put(
        tmp_path, "long.md", "---\nname: L\n" + "".join(f"k{n}: v\n" for n in range(40)) + "type: user\n---\n"
    )
    read = {entry.file: (entry.name[:1], entry.kind) for entry in scan(tmp_path).entries}
    assert read == {"late.md": ("", None), "wide.md": ("茶", None), "long.md": ("L", None)}


def test_what_is_no_memory_is_left_out_with_a_reason(tmp_path: Path) -> None:
    """The table of bad input: a pipe never blocks, nothing is fatal."""
    outside = put(tmp_path, "outside/secret.md")
    memory = tmp_path / "memory"
    put(memory, "good.md")
    put(memory, "latin.md", "---\nname: caf\xe9\n---\n".encode("latin-1"))
    put(memory, "latin_body.md", TEA.encode() + b"caf\xe9")
    put(memory, "utf16.md", TEA.encode("utf-16"))
    with put(memory, "huge.md").open("r+b") as file:
        file.truncate(100_000_000)
    os.mkfifo(memory / "pipe.md")
    (memory / "folder.md").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(memory / "socket.md"))
    (memory / "leaves.md").symlink_to(outside)
    (memory / "dangling.md").symlink_to(memory / "gone.md")
    (memory / "loop.md").symlink_to(memory / "loop.md")
    (memory / "elsewhere").symlink_to(tmp_path / "outside")
    (memory / "inside.md").symlink_to(memory / "good.md")
    (memory / "line\nbreak.md").write_text(TEA)
    found = scan(memory)
    assert sorted(files(found)) == ["good.md", "inside.md"]
    assert {one.file: one.why for one in found.skipped} == {
        "latin.md": "is not UTF-8",
        "latin_body.md": "is not UTF-8",
        "utf16.md": "is not UTF-8",
        "huge.md": f"is 100,000,000 bytes; a memory has at most {MAX_TOPIC_BYTES:,}",
        "pipe.md": "is a named pipe, not a file",
        "folder.md": "is a folder, not a file",
        "socket.md": "is a socket, not a file",
        "leaves.md": "is a symlink that leaves the memory directory",
        "dangling.md": "is a symlink to no file",
        "loop.md": "cannot be read: Too many levels of symbolic links",
        "elsewhere": "is a symlink to a folder; only real folders are looked into",
        "line?break.md": "has a name with characters that cannot be shown",
    }


def test_a_name_that_is_no_text_is_left_out(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.md"
    try:
        with open(path, "wb") as file:  # noqa: PTH123 (a path that only bytes can spell)
            file.write(TEA.encode())
    except OSError:
        pytest.skip("this file system takes only names that are text")
    assert scan(tmp_path) == Scan(
        (), (SkippedFile("caf?.md", "has a name with characters that cannot be shown"),)
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "closed.md").chmod(0)
    put(tmp_path, "sub/x.md")
    (tmp_path / "sub").chmod(0)
    try:
        why = {one.file: one.why for one in scan(tmp_path).skipped}
    finally:
        (tmp_path / "sub").chmod(0o700)
    assert why == {
        "closed.md": "cannot be read: Permission denied",
        "sub": "cannot be listed: Permission denied",
    }


def test_a_bottomless_tree_ends(tmp_path: Path) -> None:
    put(tmp_path, "a/" * 12 + "deep.md")
    put(tmp_path, "a/" * 8 + "shallow.md")
    found = scan(tmp_path)
    assert files(found) == ["a/" * 8 + "shallow.md"]
    assert [one.file for one in found.skipped] == ["a/" * 8 + "a"]


def test_a_file_time_that_no_calendar_holds_is_harmless(tmp_path: Path) -> None:
    os.utime(put(tmp_path, "x.md"), ns=(0, 2**62))
    assert len(scan(tmp_path).entries) == 1


def test_a_manifest_line_says_what_is_known() -> None:
    """R4."""
    at = datetime(2026, 8, 1, 17, 44, 47, 812_000, tzinfo=UTC)
    full = Entry(file="team/tea.md", kind="user", description="likes tea", written=at)
    assert manifest_line(full) == "- [user] team/tea.md (2026-08-01T17:44:47.812Z): likes tea"
    assert manifest_line(Entry(file="tea.md", written=at)) == "- tea.md (2026-08-01T17:44:47.812Z)"
    assert len(manifest_line(Entry(file="tea.md", description="x" * 9_000))) < 600


KEYS = st.sampled_from(
    ["name", "description", "type", "metadata", "own-key", "  type", "  modified", " odd", "a b"]
)
VALUES = st.one_of(
    st.sampled_from(["", " x", " a b ", ' "q"', ' "q" # c', " 'q'", " x # c", " x #1"]),
    st.sampled_from([" [a]", " {a: b}", " |", ' "', "\tx", " - x", " &a"]),
    st.text(max_size=8).map(lambda text: " " + text),
)  # fmt: skip


@given(
    st.lists(
        st.builds("{}:{}".format, KEYS, VALUES) | st.sampled_from(["", "# c", "- a", "  more", "---"]),
        max_size=8,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["---", "--- ", ""]),
)  # fmt: skip
def test_the_quick_reader_agrees_with_the_thorough_one(lines: list[str], end: str, fence: str) -> None:
    text = end.join(["---", *lines, fence, "body", ""])
    assert dict(head_fields(text)) == dict(MarkdownFile.parse(text.encode()).fields)
