"""Two indexes become one by their pointers; no index is ever in conflict (M18)."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from nacre.memory.format.index import MemoryIndex
from nacre.memory.team.merge import filtered_index, merged_index

BASE = b"# Memory\n\n- [A](a.md) - one\n- [B](b.md) - two\n"


def merged(mine: bytes, theirs: bytes, base: bytes = BASE, *, gone: str = "") -> bytes:
    return filtered_index(merged_index(mine, theirs, base), lambda file: file != gone)


def test_lines_that_either_side_added_are_there_and_lines_either_removed_are_not() -> None:
    mine = BASE.replace(b"- [A](a.md) - one\n", b"- [C](c.md) - three\n")
    theirs = BASE + b"- [D](d.md) - four\n"
    found = merged(mine, theirs)
    assert {line.file for line in MemoryIndex.parse(found).pointers} == {"b.md", "c.md", "d.md"}
    assert found.startswith(b"# Memory\n\n")


def test_new_words_hold_whoever_wrote_them_and_ours_where_both_did() -> None:
    mine, theirs = BASE.replace(b"one", b"mine"), BASE.replace(b"two", b"theirs")
    assert merged(mine, theirs) == b"# Memory\n\n- [A](a.md) \xe2\x80\x94 mine\n- [B](b.md) - theirs\n"
    both = merged(BASE.replace(b"one", b"mine"), BASE.replace(b"one", b"theirs"))
    assert [line.hook for line in MemoryIndex.parse(both).pointers] == ["mine", "two"]


def test_headings_and_words_of_both_sides_are_kept() -> None:
    mine, theirs = BASE.replace(b"# Memory", b"# Ours"), BASE + b"\nKeep it short.\n- [D](d.md) - four\n"
    found = merged(mine, theirs).decode()
    assert found.startswith("# Ours\n")
    assert "Keep it short." in found
    assert "(d.md)" in found
    assert merged(BASE, theirs) == theirs
    assert merged(mine, BASE) == mine


def test_what_both_begin_with_is_there_once() -> None:
    found = merged(b"# Memory\n\n- [A](a.md) - one\n", b"# Memory\n\n- [B](b.md) - two\n", b"")
    assert found.count(b"# Memory") == 1
    assert {line.file for line in MemoryIndex.parse(found).pointers} == {"a.md", "b.md"}


def test_a_line_of_a_file_that_is_gone_goes_too() -> None:
    """M14: an index never points to nothing."""
    assert merged(BASE, BASE, gone="a.md") == b"# Memory\n\n- [B](b.md) - two\n"


def test_a_line_tells_so_it_is_only_shared_with_its_file() -> None:
    """M27."""
    assert filtered_index(BASE, lambda file: file == "a.md") == b"# Memory\n\n- [A](a.md) - one\n"


lines = st.lists(
    st.one_of(
        st.builds(
            lambda file, hook: f"- [T](f{file}.md) - {hook}\n",
            st.integers(0, 5), st.sampled_from(["x", "y", "z"]),
        ),
        st.sampled_from(["# Memory\n", "\n", "words\n", "## More\n", "other words\n"]),
    ),
    max_size=8,
).map(lambda raws: "".join(raws).encode())  # fmt: skip


TWICE = b"- [T](f0.md) - x\n- [T](f0.md) - y\n"
"""Somebody points to one file twice, and both have it."""


@given(lines, lines, lines, st.sets(st.integers(0, 5)))
@example(TWICE, TWICE, b"- [T](f0.md) - x\n", {0})
@example(b"", TWICE, b"# Memory\n", {0})
@example(b"", b"- [T](f0.md) - y\n- [T](f1.md) - x\n", b"- [T](f0.md) - x\n# Memory\n", {0})
def test_merging_once_more_changes_nothing_and_no_word_is_lost(
    mine: bytes, theirs: bytes, base: bytes, here: set[int]
) -> None:
    """M18: a sync that was killed after it wrote the index begins again from there."""

    def is_listed(file: str) -> bool:
        return int(file[1]) in here

    found = filtered_index(merged_index(mine, theirs, base), is_listed)
    assert filtered_index(merged_index(found, theirs, theirs), is_listed) == found
    assert _pointers(filtered_index(merged_index(found, theirs, base), is_listed)) == _pointers(found)
    files = {line.file for line in MemoryIndex.parse(found).pointers}
    assert all(map(is_listed, files))
    added = {line.file for data in (mine, theirs) for line in MemoryIndex.parse(data).pointers}
    added -= {line.file for line in MemoryIndex.parse(base).pointers}
    assert {file for file in added if is_listed(file)} <= files
    for data in (mine, theirs):
        prose = {line.raw.strip() for line in MemoryIndex.parse(data).lines if line.kind != "pointer"}
        old = {line.raw.strip() for line in MemoryIndex.parse(base).lines if line.kind != "pointer"}
        kept = {line.raw.strip() for line in MemoryIndex.parse(found).lines}
        assert prose - old - {""} <= kept


def _pointers(data: bytes) -> set[tuple[str, str]]:
    return {(line.file, line.hook) for line in MemoryIndex.parse(data).pointers}
