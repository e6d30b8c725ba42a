"""A process that keeps a watch misses no edit; where the kernel lost count, all files are looked at (M15)."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from nacre.errors import StoreError
from nacre.memory.files import watch as watching
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import MemoryChange
from nacre.store.history import History
from tests.memory.chaos.saving import location, put, save

CHANGE = MemoryChange(author="agent", reason="save")


@pytest.fixture
def where(tmp_path: Path) -> Location:
    return location(tmp_path)


@pytest.fixture
def watch(where: Location) -> Iterator[Watch]:
    if watching._calls() is None:
        pytest.skip("this system tells nobody what was touched")
    watch = Watch(where.directory)
    yield watch
    watch.close()


async def watched_save(where: Location, watch: Watch, file: str, body: bytes) -> None:
    async with transact(where, CHANGE, watch=watch) as tx:
        put(tx, file, body)


def log(where: Location) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.author, one.files) for one in History(where.history).log(99)]


async def settled(where: Location, watch: Watch) -> None:
    """A directory with some files, a folder in it, and a watch that has seen them all."""
    await watched_save(where, watch, "a.md", b"one\n")
    await watched_save(where, watch, "deep/b.md", b"two\n")
    for number in range(2):
        await watched_save(where, watch, "c.md", b"%d\n" % number)


EDITS: dict[str, Callable[[Path], object]] = {
    "a.md": lambda root: (root / "a.md").write_bytes(b"in place\n"),
    "deep/b.md": lambda root: (root / "deep" / "b.md").write_bytes(b"in place\n"),
    "c.md": lambda root: (root / "c.md").unlink(),
    "new.md": lambda root: (root / "new.md").write_bytes(b"new\n"),
    "deep/new.md": lambda root: (root / "deep" / "new.md").write_bytes(b"new\n"),
    "other/new.md": lambda root: (
        (root / "other").mkdir() or (root / "other" / "new.md").write_bytes(b"new\n")
    ),
}


@pytest.mark.parametrize("file", EDITS)
async def test_every_edit_is_seen_without_looking_at_all_files(
    where: Location, watch: Watch, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patched to count, because what is not done cannot be seen otherwise."""
    await settled(where, watch)
    scans: list[Path] = []
    scan = Folder.scan
    monkeypatch.setattr(Folder, "scan", lambda self: scans.append(self.root) or scan(self))
    EDITS[file](where.directory)
    await watched_save(where, watch, "d.md", b"ours\n")
    assert log(where)[1] == ("user", (file,))
    assert log(where)[0] == ("agent", ("MEMORY.md", "d.md"))
    # Only a new folder needs a look at everything.
    assert bool(scans) == file.startswith("other/")


async def test_an_edit_by_rename_over_the_file_is_seen(where: Location, watch: Watch) -> None:
    await settled(where, watch)
    (where.directory / "a.tmp").write_bytes(b"theirs\n")
    (where.directory / "a.tmp").replace(where.directory / "a.md")
    await watched_save(where, watch, "d.md", b"ours\n")
    assert log(where)[1] == ("user", ("a.md",))


async def test_what_another_process_committed_is_no_edit(where: Location, watch: Watch) -> None:
    await settled(where, watch)
    await save(where, "d.md", b"theirs\n")
    before = len(log(where))
    await watched_save(where, watch, "e.md", b"ours\n")
    assert len(log(where)) == before + 1


async def test_an_edit_seen_in_a_change_that_failed_is_still_known_later(
    where: Location, watch: Watch
) -> None:
    await settled(where, watch)
    (where.directory / "a.md").write_bytes(b"theirs\n")
    broken = where.history.with_name("away")
    where.history.rename(broken)
    where.history.write_bytes(b"")
    with pytest.raises(StoreError, match="a part of this path is a file"):
        await watched_save(where, watch, "d.md", b"ours\n")
    where.history.unlink()
    broken.rename(where.history)
    await watched_save(where, watch, "d.md", b"ours\n")
    assert log(where)[1] == ("user", ("a.md",))


async def test_a_folder_that_was_replaced_is_looked_at_anew(where: Location, watch: Watch) -> None:
    await settled(where, watch)
    shutil.copytree(where.directory, where.directory.with_name("copy"))
    shutil.rmtree(where.directory)
    where.directory.with_name("copy").rename(where.directory)
    (where.directory / "a.md").write_bytes(b"theirs\n")
    await watched_save(where, watch, "d.md", b"ours\n")
    assert log(where)[1] == ("user", ("a.md",))


@pytest.mark.parametrize("mask", [0x4000, 0x2000, 0x8000, 0x800])
async def test_a_watch_that_lost_count_says_that_it_knows_nothing(
    where: Location, watch: Watch, mask: int
) -> None:
    await settled(where, watch)
    assert watch.touched() is not None
    os.close(watching._QUEUE._descriptor)
    read, write = os.pipe2(os.O_NONBLOCK)
    watching._QUEUE._descriptor = read
    os.write(write, struct.pack("iIII", -1, mask, 0, 0))
    assert watch.touched() is None
    os.close(write)
    (where.directory / "a.md").write_bytes(b"theirs\n")
    await watched_save(where, watch, "d.md", b"ours\n")
    assert log(where)[1] == ("user", ("a.md",))


async def test_where_nothing_can_be_watched_all_files_are_looked_at(
    where: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patched because a system without the call cannot be had here."""
    monkeypatch.setattr(watching, "_calls", lambda: None)
    watch = Watch(where.directory)
    await settled(where, watch)
    (where.directory / "a.md").write_bytes(b"theirs\n")
    await watched_save(where, watch, "d.md", b"ours\n")
    assert log(where)[1] == ("user", ("a.md",))


async def test_two_watches_of_one_process_share_a_descriptor_and_miss_nothing(
    where: Location, watch: Watch, tmp_path: Path
) -> None:
    """An event that one watch reads for another stays until the other has checked the file."""
    other = location(tmp_path / "other")
    with closing(Watch(other.directory)) as second, closing(Watch(where.directory)) as third:
        await settled(where, watch)
        await settled(where, third)
        await settled(other, second)
        assert sum("inotify" in one for one in descriptors()) == 1
        seen = watch.touched()
        (where.directory / "a.md").write_bytes(b"theirs\n")
        assert second.touched() is not None  # reads the event of the first
        watch.settled(watch.commit)
        assert "a.md" not in (seen or ())
        assert watch.touched() == {"a.md"}
        assert "a.md" in (third.touched() or ())
        await watched_save(where, watch, "d.md", b"ours\n")
        assert log(where)[1] == ("user", ("a.md",))
        third.close()
        (where.directory / "c.md").write_bytes(b"theirs\n")
        assert "c.md" in (watch.touched() or ())
    watch.close()
    assert not any("inotify" in one for one in descriptors())


async def test_a_forked_process_takes_no_event_from_its_parent(where: Location, watch: Watch) -> None:
    await settled(where, watch)
    (where.directory / "a.md").write_bytes(b"theirs\n")
    child = os.fork()
    if not child:
        os._exit(0 if watch.touched() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "a.md" in (watch.touched() or ())


def descriptors() -> list[str]:
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(one.readlink()))
    return found
