"""Undo and purge on a real directory, and any sequence of changes against a model (M14b, M15)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import TIMES, pick_up, transact
from nacre.memory.files.undo import purge, reversed_text, undo
from nacre.memory.format.entry import MemoryChange
from nacre.store.history import History, holding
from tests.histories import without_lines
from tests.memory.chaos.saving import forget, location, pointer, save
from tests.scale import scaled

UNDO = MemoryChange(author="user", reason="undo", session="s-2")


@pytest.fixture
def where(tmp_path: Path) -> Location:
    return location(tmp_path)


def files(where: Location) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in where.directory.iterdir()}


async def test_the_newest_change_is_undone_by_default_and_undoing_that_brings_it_back(
    where: Location,
) -> None:
    await save(where, "a.md", b"one\n")
    before = files(where)
    await forget(where, "a.md")
    made = await undo(where, change=UNDO)
    assert files(where) == before
    assert History(where.history).one(made).reason == "undo"
    await undo(where, change=UNDO)
    assert files(where) == {"MEMORY.md": b""}
    assert len(History(where.history).log(9)) == 4


def written(where: Location, file: str) -> int:
    return (where.directory / file).stat().st_mtime_ns


@pytest.mark.parametrize("how", ["removed", "changed"])
async def test_an_undo_gives_a_memory_back_the_time_it_had(where: Location, how: str) -> None:
    """Its age is the time of its file, unless its frontmatter says more."""
    await save(where, "a.md", b"one\n")
    os.utime(where.directory / "a.md", ns=(5 * 10**18 // 3, 5 * 10**18 // 3))
    if how == "removed":
        await forget(where, "a.md")
    else:
        await save(where, "a.md", b"two\n")
        assert written(where, "a.md") > 5 * 10**18 // 3
    await undo(where, change=UNDO)
    assert (where.directory / "a.md").read_bytes() == b"one\n"
    assert written(where, "a.md") == 5 * 10**18 // 3


async def test_a_purge_forgets_the_times_of_files(where: Location) -> None:
    await save(where, "plum.md", b"one\n")
    await forget(where, "plum.md")
    assert b"plum" in (where.cache / TIMES).read_bytes()
    await purge(where, ["plum.md"])
    assert not (where.cache / TIMES).exists()


async def test_an_older_change_is_taken_out_of_the_index_that_went_on(where: Location) -> None:
    await save(where, "a.md", b"one\n")
    made = await save(where, "b.md", b"two\n")
    await save(where, "c.md", b"three\n")
    await undo(where, made[:12], change=UNDO)
    assert files(where) == {
        "MEMORY.md": pointer("a.md") + pointer("c.md"),
        "a.md": b"one\n",
        "c.md": b"three\n",
    }


async def test_the_first_change_can_be_undone_after_others(where: Location) -> None:
    made = await save(where, "a.md", b"one\n")
    await save(where, "b.md", b"two\n")
    await undo(where, made, change=UNDO)
    assert files(where) == {"MEMORY.md": pointer("b.md"), "b.md": b"two\n"}


async def test_a_change_that_others_built_on_is_not_undone_and_the_files_are_named(where: Location) -> None:
    made = await save(where, "a.md", b"one\n")
    await save(where, "a.md", b"two\n")
    before = files(where)
    with pytest.raises(VersionConflict, match=r"cannot be undone: a\.md changed since"):
        await undo(where, made, change=UNDO)
    assert files(where) == before
    assert len(History(where.history).log(9)) == 2


async def test_an_edit_made_by_hand_since_is_kept(where: Location) -> None:
    await save(where, "a.md", b"one\ntwo\nthree\nfour\n")
    await save(where, "a.md", b"one\nTWO\nthree\nfour\n")
    (where.directory / "a.md").write_bytes(b"one\nTWO\nthree\nfour\nby hand\n")
    await undo(where, change=UNDO)
    assert files(where)["a.md"] == b"one\ntwo\nthree\nfour\nby hand\n"
    assert [one.author for one in History(where.history).log(9)] == ["user", "user", "agent", "agent"]


async def test_there_must_be_something_to_undo(where: Location) -> None:
    with pytest.raises(StoreError, match="nothing to undo"):
        await undo(where, change=UNDO)
    await save(where, "a.md", b"one\n")
    with pytest.raises(StoreError, match="not in the history"):
        await undo(where, "0000000", change=UNDO)


@pytest.mark.parametrize(
    ("present", "after", "before", "expected"),
    [
        (b"a\nb\nc\n", b"a\nb\n", b"a\n", b"a\nc\n"),
        (b"x\na\n", b"a\n", b"a\nb\n", b"x\na\nb\n"),
        (b"a\nB\n", b"a\nb\n", b"a\n", None),
        (b"a\nb\nx\nc\n", b"a\nb\nc\n", b"a\n", None),
        (b"x", b"", b"a\n", None),
        (b"", b"a\n", b"", None),
        (b"a", b"a", b"a\nb\n", b"a\nb\n"),
    ],
)
def test_a_text_is_taken_back_only_where_nothing_else_changed(
    present: bytes, after: bytes, before: bytes, expected: bytes | None
) -> None:
    assert reversed_text(present, after=after, before=before) == expected


lines = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=6).map(b"".join)


@given(after=lines, before=lines)
def test_a_text_nobody_touched_since_goes_back_to_what_it_was(after: bytes, before: bytes) -> None:
    assert reversed_text(after, after=after, before=before) == before


@given(after=lines, before=lines, tail=lines)
def test_lines_added_far_away_survive_an_undo(after: bytes, before: bytes, tail: bytes) -> None:
    anchor = b"one\ntwo\nthree\n"
    present = after + anchor + tail
    assert reversed_text(present, after=after + anchor, before=before + anchor) == before + anchor + tail


async def test_a_purge_leaves_nothing_in_history_journal_or_cache(where: Location) -> None:
    """M14b."""
    await save(where, "a.md", b"one\n")
    await save(where, "plum.md", b"Plum likes tea\n")
    scrub = without_lines("plum.md")
    with pytest.raises(StoreError, match="forget it first"):
        await purge(where, ["plum.md"], scrub=scrub)
    await forget(where, "plum.md")
    report = await purge(where, ["plum.md"], scrub=scrub)
    assert (report.commits, report.files, report.left) == (2, ("MEMORY.md", "plum.md"), ())
    assert holding(History(where.history), ["plum.md"], scrub=scrub) == ()
    rest = [path for path in where.directory.parent.rglob("*") if path.is_file()]
    assert not [path for path in rest if b"plum" in path.read_bytes().lower()]
    assert (where.cache / "journal").read_bytes() == b""
    await save(where, "b.md", b"two\n")
    assert [one.reason for one in History(where.history).log(9)] == ["save b.md", "save a.md"]


names = st.sampled_from(["a.md", "b.md", "deep/c.md"])
bodies = st.sampled_from([b"", b"one\n", b"one\ntwo\n", b"\xff\x00"])
steps = st.lists(
    st.tuples(st.just("write"), st.dictionaries(names, bodies | st.none(), min_size=1))
    | st.tuples(st.just("edit"), st.dictionaries(names, bodies | st.none(), min_size=1))
    | st.tuples(st.just("undo"), st.just({})),
    max_size=8,
)


@settings(max_examples=scaled(60), deadline=None)
@given(steps=steps)
def test_any_sequence_of_changes_is_what_a_dict_says(
    steps: list[tuple[str, dict[str, bytes | None]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(_play(location(tmp_path_factory.mktemp("m")), steps))


async def _play(where: Location, steps: list[tuple[str, dict[str, bytes | None]]]) -> None:
    """The model: every commit's files, the newest last."""
    states: list[dict[str, bytes]] = [{}]
    for act, changes in steps:
        now = {file: data for file, data in {**states[-1], **changes}.items() if data is not None}
        if act == "undo":
            if len(states) == 1:
                continue
            await undo(where, change=UNDO)
            now = states[-2]
        elif act == "edit":
            _edit(where.directory, changes)
            await pick_up(where)
        else:
            async with transact(where, UNDO) as tx:
                for file, data in changes.items():
                    if data is None:
                        tx.delete(file)
                    else:
                        tx.write(file, data)
        if now != states[-1]:
            states.append(now)
        assert _present(where.directory) == now
    history = History(where.history)
    told = history.log(99)[::-1]
    assert len(told) == len(states) - 1
    for one, state in zip(told, states[1:], strict=True):
        assert {file: history.read(one.id, file) for file in history.tree(one.id)} == state


def _edit(directory: Path, changes: dict[str, bytes | None]) -> None:
    for file, data in changes.items():
        path = directory / file
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _present(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }
