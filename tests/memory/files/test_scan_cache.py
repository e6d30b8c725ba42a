"""A scan with a cache finds what one without it finds, and leaves nothing behind that it should not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.memory.files.location import Location
from nacre.memory.files.scan import WORTH_KEEPING, ScanCache, scan
from nacre.memory.format.entry import MemoryChange
from nacre.memory.memory import Memory
from nacre.memory.purge.memory import erase
from nacre.store.derived import DerivedCache
from nacre.store.locks import FileLock
from tests.scale import scaled

UNTIL_OLD = 0.12
"""A little more than the tick within which a stamp is not believed."""


def put(directory: Path, file: str, said: str = "tea") -> None:
    path = directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {said}\ndescription: about {said}\ntype: user\n---\n\nbody\n")


def opened(base: Path, *, worth: int = 0, writes: bool = True) -> ScanCache:
    """A cache that is written at once, unless a test says otherwise."""
    directory, folder = base / "memory", base / "cache"
    directory.mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "lock").touch()
    return ScanCache(folder, directory, writes=writes, worth=worth)


def warm(base: Path, *files: str) -> ScanCache:
    """A cache that holds these files."""
    cache = opened(base)
    for file in files:
        put(cache.directory, file)
    time.sleep(UNTIL_OLD)
    scan(cache.directory, cache)
    assert set(cache.read()) == set(files)
    return cache


def names(cache: ScanCache) -> dict[str, str]:
    return {entry.file: entry.name for entry in scan(cache.directory, cache).entries}


def test_what_is_kept_comes_back_whole(tmp_path: Path) -> None:
    """R3: every field, for both shapes of frontmatter (M11)."""
    cache = opened(tmp_path)
    (cache.directory / "all.md").write_text(
        "---\nname: All\ndescription: of it\ntype: feedback\ncreated: 2026-01-02\n"
        "modified: 2026-01-03T04:05:06Z\nsource: [s, m]\norigin: untrusted\npinned: true\n"
        "local-only: true\nverified: 2026-01-04\nindexed: false\n---\n\nbody\n"
    )
    (cache.directory / "nested.md").write_text(
        "---\nname: nested\nmetadata: \n  node_type: memory\n  type: user\n  originSessionId: abc\n---\n\nx\n"
    )
    put(cache.directory, "below/plain.md")
    (cache.directory / "MEMORY.md").write_text("- [All](all.md)\n")
    time.sleep(UNTIL_OLD)
    cold = scan(cache.directory)
    assert scan(cache.directory, cache) == cold
    assert len(cache.read()) == 3
    assert scan(cache.directory, cache) == cold


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "sub/c.md", "sub/d.md"]),
        st.sampled_from(["tea", "gin", "cocoa", "gone", "backdated", "swapped", "link"]),
    ),
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=scaled(12), deadline=None)
@given(EDITS, EDITS)
def test_whatever_is_edited_a_warm_scan_agrees_with_a_cold_one(
    tmp_path_factory: pytest.TempPathFactory, before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    base = tmp_path_factory.mktemp("scan")
    cache = warm(base, "a.md", "sub/c.md")
    for edits in (before, after):
        for file, what in edits:
            _edit(cache.directory, file, what)
            assert scan(cache.directory, cache) == scan(cache.directory)
        time.sleep(UNTIL_OLD)
        assert scan(cache.directory, cache) == scan(cache.directory)


def _edit(directory: Path, file: str, what: str) -> None:
    path = directory / file
    if path.is_symlink():  # a write through it would change its target, or find none
        path.unlink()
    match what:
        case "gone":
            path.unlink(missing_ok=True)
        case "backdated":  # other words, as long as before, with the time they had before
            times = path.stat() if path.exists() else None
            put(directory, file, "rum")
            if times:
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        case "swapped":
            put(directory, "new.tmp", "ale")
            path.parent.mkdir(exist_ok=True)
            (directory / "new.tmp").replace(path)
        case "link":
            path.unlink(missing_ok=True)
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(directory / "a.md")
        case words:
            put(directory, file, words)


def test_a_file_is_kept_only_once_its_stamp_is_old(tmp_path: Path) -> None:
    """Two writes within one tick can leave the same stamp, so a young one is not believed."""
    cache = opened(tmp_path)
    put(cache.directory, "old.md")
    time.sleep(UNTIL_OLD)
    put(cache.directory / "sub", "young.md")
    time.sleep(UNTIL_OLD)
    (cache.directory / "sub" / "young.md").write_text("---\nname: tee\n---\n")  # the folder stays old
    assert names(cache) == {"old.md": "tea", "sub/young.md": "tee"}
    assert set(cache.read()) == {"old.md"}
    put(cache.directory, "another.md")
    time.sleep(UNTIL_OLD)
    names(cache)
    assert set(cache.read()) == {"old.md", "another.md", "sub/young.md"}


def test_nothing_is_kept_of_a_folder_that_has_just_changed(tmp_path: Path) -> None:
    """A file that was removed within the same tick would not show in the folder's time (M14b)."""
    cache = opened(tmp_path)
    put(cache.directory, "a.md")
    time.sleep(UNTIL_OLD)
    put(cache.directory, "b.md")
    assert names(cache) == {"a.md": "tea", "b.md": "tea"}
    assert cache.read() == {}


def test_a_file_written_again_at_once_is_read_again(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    for number in range(100):
        put(cache.directory, "a.md", f"{number:03}")
        assert names(cache) == {"a.md": f"{number:03}"}


@pytest.mark.parametrize("damage", [b"", b"\0" * 4_096, b"abcd" + b"\xff" * 99])
def test_a_damaged_cache_is_as_good_as_none(tmp_path: Path, damage: bytes) -> None:
    cache = warm(tmp_path, "a.md")
    path = DerivedCache(cache.folder).path
    whole = path.read_bytes()
    for data in (damage, whole.replace(b"tea", b"gin")):
        path.write_bytes(data)
        assert cache.read() == {}
        assert names(cache) == {"a.md": "tea"}


def test_rows_of_another_directory_are_not_believed(tmp_path: Path) -> None:
    cache = warm(tmp_path, "a.md")
    assert ScanCache(cache.folder, tmp_path / "other").read() == {}


def test_a_small_directory_needs_no_cache(tmp_path: Path) -> None:
    cache = opened(tmp_path, worth=WORTH_KEEPING)
    put(cache.directory, "a.md")
    time.sleep(UNTIL_OLD)
    assert names(cache) == {"a.md": "tea"}
    assert [path.name for path in cache.folder.iterdir()] == ["lock"]


def test_who_only_looks_leaves_no_trace(tmp_path: Path) -> None:
    """Incognito and foreign directories: a cache is used, never written."""
    looking = opened(tmp_path, writes=False)
    put(looking.directory, "a.md")
    time.sleep(UNTIL_OLD)
    scan(looking.directory, looking)
    assert [path.name for path in looking.folder.iterdir()] == ["lock"]
    scan(looking.directory, ScanCache(tmp_path / "absent", looking.directory, writes=True, worth=0))
    assert not (tmp_path / "absent").exists()


def test_the_cache_is_for_its_owner_only_and_apart_from_the_memories(tmp_path: Path) -> None:
    """M15, M27."""
    cache = warm(tmp_path, "a.md")
    assert DerivedCache(cache.folder).path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in cache.directory.iterdir()] == ["a.md"]


def test_nothing_is_written_while_someone_changes_memory(tmp_path: Path) -> None:
    """M14b: what a purge takes out meanwhile does not come back by a scan that began before."""
    cache = warm(tmp_path, "a.md")
    rows = dict(cache.read())
    DerivedCache(cache.folder).clear()
    at = {str(cache.directory): cache.directory.stat().st_mtime_ns}
    with FileLock(cache.folder / "lock"):
        cache.keep(rows, at)
    assert cache.read() == {}
    (cache.directory / "a.md").unlink()
    cache.keep(rows, at)
    assert cache.read() == {}


async def test_a_purge_takes_the_cache_too(tmp_path: Path) -> None:
    """M14b."""
    where = Location(
        directory=tmp_path / "memory", source="user", history=tmp_path / "h.git", cache=tmp_path / "cache"
    )
    memory = await Memory.at(where, tmp_path)
    for number in range(WORTH_KEEPING + 1):
        put(where.directory, f"about_{number}.md", f"subject {number}")
    time.sleep(UNTIL_OLD)
    await memory.scan()
    derived = DerivedCache(where.cache).path
    assert b"about_7.md" in derived.read_bytes()
    await erase(memory, "about_7.md", MemoryChange(author="user", reason="asked"))
    assert b"about_7.md" not in derived.read_bytes()
    assert b"subject 7\n" not in derived.read_bytes()
    assert "about_7.md" not in {entry.file for entry in (await memory.scan()).entries}
