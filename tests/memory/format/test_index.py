"""The index: pointers among other text, edits that keep every other byte, and its budget (M8, M9, M16c)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.format.entry import Entry
from nacre.memory.format.index import (
    NEWEST_LISTED,
    IndexUsage,
    MemoryIndex,
    index_usage,
    load_index,
    pointer_line,
    within_budget,
)

INDEX = """# Memory

Some words of the owner, with a [link](seen.md) in them.

## User
- [Profile](user_profile.md) — a pilot

## Feedback

* [No mocks](feedback_mocks.md): integration tests only

```markdown
- [Example](example.md) — in a fence
```
<!-- - [Hidden](hidden.md) — in a comment -->
"""


def pointers(text: str) -> list[tuple[str, str, str]]:
    return [(line.file, line.title, line.hook) for line in MemoryIndex.parse(text.encode()).pointers]


def test_pointers_are_told_from_other_text() -> None:
    """M8: what stands in code and comments points to nothing."""
    index = MemoryIndex.parse(INDEX.encode())
    assert pointers(INDEX) == [
        ("user_profile.md", "Profile", "a pilot"),
        ("feedback_mocks.md", "No mocks", "integration tests only"),
    ]
    assert index.mentions == {"seen.md", "user_profile.md", "feedback_mocks.md"}
    assert index.data == INDEX.encode()


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        ("- [T](f.md) — h", ("f.md", "T", "h")),
        ("- [T](f.md) - h", ("f.md", "T", "h")),
        ("  * [T](./f.md) – h  ", ("f.md", "T", "h")),
        ("- **[T](f.md)** — h", ("f.md", "T", "h")),
        ("- [T](f.md)", ("f.md", "T", "")),
        ("- [A [b] \\] c](f.md): h", ("f.md", "A [b] ] c", "h")),
        ("- [T](<a b.md>) — h", ("a b.md", "T", "h")),
        ("- [T](a%20b.md) — h", ("a b.md", "T", "h")),
        ("- [T](a(1).md) — h", ("a(1).md", "T", "h")),
        ("- [T](a\\).md) — h", ("a).md", "T", "h")),
        ("- [T](team/f.md#part) — h", ("team/f.md", "T", "h")),
        ("- [T](茶.md) — h — more", ("茶.md", "T", "h — more")),
    ],
)
def test_a_pointer_is_read_in_every_spelling(line: str, pointer: tuple[str, str, str]) -> None:
    assert pointers(line) == [pointer]
    assert pointers(f"\ufeff{line}\r\n") == [pointer]


@pytest.mark.parametrize(
    "line",
    [
        "- [T](https://x.y/f.md) — h",
        "- [T](/etc/f.md)",
        "- [T](../f.md)",
        "- [T](f.txt)",
        "see [T](f.md)",
        "- T",
    ],
)
def test_other_links_are_no_pointers(line: str) -> None:
    assert pointers(line) == []


def test_the_line_of_a_file_is_changed_in_place() -> None:
    index = MemoryIndex.parse(INDEX.encode())
    assert (
        index.with_pointer("feedback_mocks.md", "No mocks", "unit tests too")
        == INDEX.replace(
            "* [No mocks](feedback_mocks.md): integration tests only",
            "* [No mocks](feedback_mocks.md) — unit tests too",
        ).encode()
    )
    assert (
        index.with_pointer("user_profile.md", "Pilot", "") == INDEX.replace("[Profile]", "[Pilot]").encode()
    )
    assert index.with_pointer("user_profile.md", "Profile", "a pilot") == INDEX.encode()


def test_a_new_pointer_goes_where_its_kind_is_listed() -> None:
    """M8: grouped by topic."""
    index = MemoryIndex.parse(INDEX.encode())
    line = "- [New](new.md) — h\n"
    assert (
        index.with_pointer("new.md", "New", "h", kind="user")
        == INDEX.replace("a pilot\n", "a pilot\n" + line).encode()
    )
    assert (
        index.with_pointer("new.md", "New", "h", kind="feedback")
        == INDEX.replace("tests only\n", "tests only\n" + line).encode()
    )
    assert (
        index.with_pointer("new.md", "New", "h", kind="project")
        == (INDEX + "\n## Project\n\n" + line).encode()
    )
    assert index.with_pointer("seen.md", "Seen", "h") != INDEX.encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "# Memory\n\n- [N](n.md) — h\n"),
        ("\n\n", "# Memory\n\n- [N](n.md) — h\n"),
        ("- [A](a.md) — x", "- [A](a.md) — x\n- [N](n.md) — h\n"),
        ("- [A](a.md) — x\r\n", "- [A](a.md) — x\r\n- [N](n.md) — h\r\n"),
        ("# Index\n", "# Index\n- [N](n.md) — h\n"),
        ("# Index\n\n", "# Index\n\n- [N](n.md) — h\n"),
        ("# X\n\nProse.\n", "# X\n\nProse.\n\n- [N](n.md) — h\n"),
        ("- [A](a.md)\n\ntail\n", "- [A](a.md)\n- [N](n.md) — h\n\ntail\n"),
        ("# P\n- [A](user_a.md)\n# Q", "# P\n- [A](user_a.md)\n- [N](n.md) — h\n# Q"),
        ("```\nnever closed\n", "```\nnever closed\n\n- [N](n.md) — h\n"),
    ],
)  # fmt: skip
def test_a_new_pointer_leaves_all_other_bytes(old: str, new: str) -> None:
    for mark in ("", "\ufeff"):
        data = (mark + old).encode()
        assert MemoryIndex.parse(data).with_pointer("n.md", "N", "h", kind="user") == (mark + new).encode()


def test_a_pointer_is_removed_with_its_line_only() -> None:
    index = MemoryIndex.parse(INDEX.encode())
    assert (
        index.without("user_profile.md")
        == INDEX.replace("- [Profile](user_profile.md) — a pilot\n", "").encode()
    )
    assert index.without("example.md") == INDEX.encode()


def test_a_pointer_is_one_short_line_whatever_it_says() -> None:
    line = pointer_line("a (1) b.md", "A [b]\nc", "words " * 90)
    assert line.startswith(r"- [A \[b\] c](<a (1) b.md>) — words words")
    assert line.endswith("words…")
    assert len(line) <= 150
    assert "\n" not in line


FILES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20).filter(
    lambda name: name.isprintable() and not name.startswith(("/", "~", "<", "../", "./", " "))
    and ":" not in name and "#" not in name and "//" not in name and not name.endswith(" ")
)  # fmt: skip


@given(FILES, st.text(max_size=80), st.text(max_size=300))
def test_what_is_written_as_a_pointer_reads_as_one(stem: str, title: str, hook: str) -> None:
    file = f"{stem}.md"
    (line,) = MemoryIndex.parse(pointer_line(file, title, hook).encode()).pointers
    assert line.file == file
    if title.isprintable() and title.split():
        assert line.title == " ".join(title.split())


@given(
    st.lists(
        st.sampled_from(
            ["# H", "## User", "", "x", "- [A](a.md) — x", "- [B](b.md)", "```", "<!--", "-->", "[c](c.md)"]
        ),
        max_size=12,
    ),
    st.sampled_from([None, "user", "project"]),
    st.booleans(),
)  # fmt: skip
def test_adding_and_removing_a_pointer_gives_the_same_bytes_back(
    rows: list[str], kind: str | None, is_ended: bool
) -> None:
    data = ("\n".join(rows) + ("\n" if is_ended else "")).encode()
    index = MemoryIndex.parse(data)
    assert index.data == data
    added = MemoryIndex.parse(index.with_pointer("new.md", "New", "h", kind=kind))  # type: ignore[arg-type]
    assert [line.file for line in added.pointers].count("new.md") == 1
    assert added.with_pointer("new.md", "New", "h") == added.data
    left = added.without("new.md")
    headings = {b"# Memory", b"## User", b"## Project", b""}
    assert [row for row in left.split(b"\n") if row not in headings] == [
        row for row in data.split(b"\n") if row not in headings
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_an_index(data: bytes) -> None:
    index = MemoryIndex.parse(data)
    assert index.data == data
    assert index.without("x.md") == data
    MemoryIndex.parse(index.with_pointer("x.md", "T", "h"))
    load_index(data, max_lines=3, max_bytes=20)


def test_an_index_within_its_budget_is_loaded_as_it_is() -> None:
    """M9: blank lines at the end take no place."""
    text = "x\n" * 200
    assert load_index(text.encode()).text == text
    assert load_index((text + "\n" * 50).encode()).cut == ""
    assert load_index(b"\xef\xbb\xbfa\r\nb").text == "a\nb"
    assert load_index(b"y" * 25_000).cut == ""


def test_lines_are_cut_first_then_bytes_and_the_warning_says_so() -> None:
    """M9: one warning, with the limit that was hit and the true size."""
    many = load_index(b"x\n" * 312)
    assert many.text == "x\n" * 199 + f"x\n\n{many.warning}\n"
    assert "312 lines (limit 200)" in many.warning
    assert "bytes" not in many.warning
    assert many.cut == "lines"
    wide = load_index(b"z" * 99 + (b"\n" + b"z" * 99) * 290, max_lines=1000)
    assert wide.cut == "bytes"
    assert wide.text == "\n".join(["z" * 99] * 250) + f"\n\n{wide.warning}\n"
    assert "29,099 bytes (limit 25,000)" in wide.warning
    assert "lines" not in wide.warning
    both = load_index((b"z" * 985 + b"\n") * 201)
    assert both.cut == "lines and bytes"
    assert both.text.startswith("\n".join(["z" * 985] * 25) + f"\n\n{both.warning}")
    assert "topic files" in both.warning


def test_a_single_line_over_the_budget_is_cut_between_characters() -> None:
    """M9."""
    long = load_index(("茶" * 10).encode(), max_bytes=10)
    assert long.text == f"茶茶茶\n\n{long.warning}\n"
    assert load_index("a\n茶茶茶茶".encode(), max_bytes=10).text.startswith("a\n\nWARNING")


@given(st.text(st.sampled_from("ab茶😀\n")), st.integers(1, 6), st.integers(4, 24))
def test_what_is_loaded_is_the_longest_beginning_that_fits(text: str, max_lines: int, max_bytes: int) -> None:
    """M9: never over either limit, never a line fewer than fit."""
    result = load_index(text.encode(), max_lines=max_lines, max_bytes=max_bytes)
    said = text.rstrip()
    if not result.cut:
        assert (result.text, result.lines <= max_lines, result.bytes <= max_bytes) == (text, True, True)
        return
    shown = result.text.removesuffix(f"\n\n{result.warning}\n")
    assert said.startswith(shown)
    assert len(shown.encode()) <= max_bytes
    assert shown.count("\n") < max_lines
    rows = said.split("\n")
    longer = "\n".join(rows[: shown.count("\n") + 2])
    assert (
        len(longer.encode()) > max_bytes or longer.count("\n") >= max_lines or longer.rstrip() in {shown, ""}
    )


def test_the_writer_is_told_from_four_fifths_on() -> None:
    """M16c."""
    assert index_usage(b"x\n" * 160) == IndexUsage(lines=160, bytes=319, share=0.8)
    near = index_usage(b"x\n" * 161)
    assert "161 of 200 lines" in near.feedback
    assert "under 140 lines" in near.feedback
    full = index_usage(b"x\n" * 200)
    over = index_usage(b"x\n" * 201)
    assert "past its limit" not in full.feedback
    assert "past its limit" in over.feedback
    assert "26,000 of 25,000 bytes" in index_usage(b"y" * 26_000).feedback
    assert index_usage(b"").share == 0


def at(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


@given(st.integers(0, 30), st.integers(4, 20), st.integers(60, 900))
def test_what_stays_listed_fits_the_budget(count: int, max_lines: int, max_bytes: int) -> None:
    entries = [Entry(file=f"m{n}.md", description="words " * (n % 7)) for n in range(count)]
    data = b"# Memory\n\n"
    for entry in entries:
        data = MemoryIndex.parse(data).with_pointer(entry.file, entry.title, entry.description)
    kept, gone = within_budget(data, entries, max_lines=max_lines, max_bytes=max_bytes)
    assert index_usage(kept, max_lines=max_lines, max_bytes=max_bytes).share <= 1
    assert {*gone, *(line.file for line in MemoryIndex.parse(kept).pointers)} == {one.file for one in entries}


@pytest.mark.parametrize("limits", [{"max_lines": 4}, {"max_bytes": 50}])
def test_pointers_that_do_not_fit_leave_pinned_newest_and_useful_ones(limits: dict[str, int]) -> None:
    """M8: text, and pointers to other files, stay."""
    names = ["pinned", "useful", *(f"n{number:02}" for number in range(NEWEST_LISTED + 2))]
    entries = [Entry(file=f"{name}.md", written=at(1) + timedelta(days=n)) for n, name in enumerate(names)]
    entries[0] = replace(entries[0], pinned=True)
    data = b"# Memory\n\n" + b"".join(f"- [A]({one.file})\n".encode() for one in entries[:3])
    assert within_budget(data, entries, useful={"useful.md": 2.0}) == (data, ())
    kept, gone = within_budget(data, entries, useful={"useful.md": 2.0}, **limits)
    assert kept == data.replace(b"- [A](n00.md)\n", b"")
    assert gone == ("n00.md",)
    over, gone = within_budget(data, entries[:1], max_lines=1)
    assert over == data.replace(b"- [A](pinned.md)\n", b"")
    assert gone == ("pinned.md",)
