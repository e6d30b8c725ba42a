"""What every store promises, whatever it keeps its bytes in."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.errors import OutsideStore, StoreError, VersionConflict
from nacre.store.base import Blob, Store
from nacre.store.files import HASHED_UP_TO, FileStore
from nacre.store.memory import DictStore

KINDS: dict[str, Callable[[Path], Store]] = {
    "files": lambda folder: FileStore(folder / "root"),
    "dict": lambda folder: DictStore(),
}


@pytest.fixture(params=sorted(KINDS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return KINDS[request.param](tmp_path)


async def read(store: Store, key: str) -> Blob:
    blob = await store.read(key)
    assert blob is not None
    return blob


async def test_what_was_written_is_read_back_with_its_version_and_size(store: Store) -> None:
    version = await store.write("notes/today.md", b"hello")
    blob = await read(store, "notes/today.md")
    assert (blob.data, blob.version, blob.size) == (b"hello", version, 5)
    assert blob.modified.tzinfo is not None


async def test_a_missing_key_reads_as_none_and_deletes_as_false(store: Store) -> None:
    await store.write("there", b"x")
    assert await store.read("nowhere/at/all") is None
    assert await store.read("there/below") is None
    assert await store.delete("nowhere") is False
    assert await store.delete("there/below") is False


@pytest.mark.parametrize("size", [26, HASHED_UP_TO + 26])
async def test_a_range_is_cut_out_and_the_size_is_still_the_whole(store: Store, size: int) -> None:
    data = (b"abcdefghijklmnopqrstuvwxyz" * (size // 26 + 1))[:size]
    await store.write("k", data)
    whole = await read(store, "k")
    assert whole.data == data
    for start, length in [(0, 3), (5, None), (size - 2, 10), (size + 5, 1), (3, 0)]:
        part = await store.read("k", start=start, length=length)
        expected = data[start:] if length is None else data[start : start + length]
        assert part == Blob(expected, whole.version, whole.modified, size)


async def test_a_range_before_the_start_is_refused(store: Store) -> None:
    await store.write("k", b"abc")
    with pytest.raises(ValueError, match="range"):
        await store.read("k", start=-1)
    with pytest.raises(ValueError, match="range"):
        await store.read("k", length=-1)


async def test_a_write_on_an_old_version_is_a_conflict_and_changes_nothing(store: Store) -> None:
    first = await store.write("k", b"one")
    second = await store.write("k", b"two", if_version=first)
    with pytest.raises(VersionConflict, match="read it again"):
        await store.write("k", b"three", if_version=first)
    blob = await read(store, "k")
    assert (blob.data, blob.version) == (b"two", second)


async def test_the_empty_version_means_the_key_must_be_new(store: Store) -> None:
    await store.write("k", b"one", if_version="")
    with pytest.raises(VersionConflict):
        await store.write("k", b"two", if_version="")
    await store.delete("k")
    await store.write("k", b"three", if_version="")
    with pytest.raises(VersionConflict):
        await store.write("never", b"x", if_version="some-version")
    assert await store.read("never") is None


async def test_of_many_writers_on_one_version_exactly_one_wins(store: Store) -> None:
    start = await store.write("k", b"start")
    results = await asyncio.gather(
        *(store.write("k", b"%d" % i, if_version=start) for i in range(12)), return_exceptions=True
    )
    won = [result for result in results if isinstance(result, str)]
    assert len(won) == 1
    assert all(isinstance(result, str | VersionConflict) for result in results)
    assert (await read(store, "k")).version == won[0]


async def test_two_quick_writes_of_one_size_have_two_versions(store: Store) -> None:
    versions = [await store.write("k", b"%04d" % i) for i in range(50)]
    assert len(set(versions)) == 50


async def test_appends_add_up_and_return_the_new_size(store: Store) -> None:
    assert await store.append("log", b"one\n") == 4
    before = (await read(store, "log")).version
    assert await store.append("log", b"two\n", sync=True) == 8
    blob = await read(store, "log")
    assert blob.data == b"one\ntwo\n"
    assert blob.version != before


async def test_appends_from_many_tasks_are_never_mixed(store: Store) -> None:
    lines = [b"%03d" % i + b"x" * 5_000 + b"\n" for i in range(30)]
    await asyncio.gather(*(store.append("log", line) for line in lines))
    assert sorted((await read(store, "log")).data.splitlines(keepends=True)) == lines


async def test_a_listing_is_sorted_and_a_prefix_is_a_folder(store: Store) -> None:
    for key in ["b", "a/2", "a/10", "a-b/1", "a/c/d"]:
        await store.write(key, key.encode())
    assert [item.key for item in await store.list()] == ["a-b/1", "a/10", "a/2", "a/c/d", "b"]
    listed = await store.list("a")
    assert [(item.key, item.size) for item in listed] == [("a/10", 4), ("a/2", 3), ("a/c/d", 5)]
    assert await store.list("a/") == listed
    assert await store.list("nothing") == []
    assert await store.list("b") == []


async def test_a_deleted_key_is_gone(store: Store) -> None:
    await store.write("a/b", b"x")
    assert await store.delete("a/b") is True
    assert await store.delete("a/b") is False
    assert await store.read("a/b") is None
    assert await store.list() == []


async def test_a_name_is_a_value_or_a_folder_but_not_both(store: Store) -> None:
    await store.write("value", b"x")
    await store.write("folder/value", b"x")
    for key in ["value/below", "folder"]:
        with pytest.raises(StoreError, match=r"choose another|move it away"):
            await store.write(key, b"y")
        with pytest.raises(StoreError, match=r"choose another|move it away"):
            await store.append(key, b"y")
    assert [item.key for item in await store.list()] == ["folder/value", "value"]


async def test_a_lock_is_held_by_one_at_a_time_and_the_holder_can_still_write(store: Store) -> None:
    inside = 0
    most = 0

    async def work() -> None:
        nonlocal inside, most
        async with store.lock("name"):
            inside += 1
            most = max(most, inside)
            await store.append("name", b".")
            await asyncio.sleep(0.002)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(8)))
    assert most == 1
    assert (await read(store, "name")).data == b"." * 8


async def test_a_lock_that_is_not_given_up_in_time_is_an_error_that_names_the_key(store: Store) -> None:
    async with store.lock("name"), store.lock("other"):
        with pytest.raises(StoreError, match="name is locked"):
            async with store.lock("name", timeout=0.05):
                pytest.fail("two held one lock")
    async with store.lock("name", timeout=0.05):
        pass


REFUSED = [
    "", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "./a", "a//b", "a/", "a\0b", "a\\b", "..\\x",
    "C:/x", "c:x", "%2e%2e/x", "a/%2E%2e", "a%2fb", "%252e%252e/x", "．．/x", "a／b", "‥/x", "a％2fb",
    "\ud800",
    ".locks/x", ".locks", ".LOCKS/x", "a/.nacre-tmp-1", "x" * 201, "字" * 67,
]  # fmt: skip


@pytest.mark.parametrize("key", REFUSED, ids=ascii)
async def test_a_key_that_could_lead_out_is_refused_by_every_call(store: Store, key: str) -> None:
    """M6: relative, plain, no `..` in any disguise."""
    with pytest.raises(OutsideStore, match="cannot be a key"):
        await store.read(key)
    with pytest.raises(OutsideStore):
        await store.write(key, b"x")
    with pytest.raises(OutsideStore):
        await store.append(key, b"x")
    with pytest.raises(OutsideStore):
        await store.delete(key)
    with pytest.raises(OutsideStore):
        async with store.lock(key):
            pytest.fail("locked a bad key")
    assert await store.list() == []


@given(key=st.one_of(st.text(max_size=12), st.text("./\\%2ef:a．\0", max_size=10)))
@settings(max_examples=150, deadline=None)
def test_both_stores_agree_on_any_key_and_the_disk_never_writes_outside(key: str) -> None:
    """M6: whatever the key, either both refuse it or both keep it, and nothing appears beside the root."""

    async def outcome(store: Store) -> object:
        try:
            await store.write(key, b"v")
            blob = await store.read(key)
            return blob and blob.data, [item.key for item in await store.list()]
        except OutsideStore:
            return "refused"

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        on_disk = asyncio.run(outcome(FileStore(root)))
        assert on_disk == asyncio.run(outcome(DictStore()))
        assert on_disk in ("refused", (b"v", [key]))
        assert [path.name for path in Path(folder).iterdir()] == ["root"]
