"""Kill a change at every act on the disk: afterwards there is the old state or the new one (M14, M15)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.memory.files.location import Location
from nacre.memory.files.transaction import recover
from nacre.store.history import History
from tests.histories import pending_edits
from tests.memory.chaos.saving import forget, location, save

PROGRAM = Path(__file__).with_name("saving.py")
KILLED = 9
NEEDS_GIT = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed, and it judges the history"
)
MOST_ACTS = 400
"""Far more than any change takes, so that a test that never gets to the end fails."""


class Server:
    """A process that does acts in forks of itself, so that a kill costs little."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, act: str, base: Path, *arguments: object) -> int:
        assert self._process.stdin and self._process.stdout
        print(json.dumps([act, str(base), *map(str, arguments)]), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        assert code in {0, KILLED}
        return code

    def until_whole(self, act: str, start: Path, kind: str, *arguments: str) -> Iterator[Path]:
        """The memory after a kill at each act on the disk in turn, and at last after none."""
        for count in range(1, MOST_ACTS):
            base = start.with_name(f"{start.name}-{act}-{kind}-{count}")
            shutil.copytree(start, base, symlinks=True)
            code = self.run(act, base, kind, count, *arguments)
            yield base
            shutil.rmtree(base)
            if code == 0:
                return
        raise AssertionError("the change never came to its end")

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def state(where: Location) -> dict[str, bytes]:
    """What is in the memory directory, every file of it."""
    return {
        str(path.relative_to(where.directory)): path.read_bytes()
        for path in where.directory.rglob("*")
        if path.is_file()
    }


def paired(files: dict[str, bytes]) -> bool:
    """Whether the index and the topics name each other, none left over."""
    listed = set(re.findall(r"\(([^)]+)\)", files.get("MEMORY.md", b"").decode()))
    return listed == files.keys() - {"MEMORY.md"}


def recorded(where: Location) -> dict[str, bytes]:
    """The files as the newest commit has them."""
    history = History(where.history)
    return {file: history.read(history.newest, file) or b"" for file in history.tree(history.newest)}


def checked(where: Location, old: dict[str, bytes], new: dict[str, bytes]) -> bool:
    """Recover; then all is old or all is new. Says whether it is new."""
    asyncio.run(recover(where))
    files = state(where)
    assert files in (old, new)
    assert paired(files)
    assert recorded(where) == files
    assert asyncio.run(pending_edits(where)) == {}
    assert not [path for path in where.cache.rglob("*") if path.parent.name == "aside"]
    fsck = subprocess.run(
        ["git", "-C", str(where.history), "fsck", "--strict", "--no-dangling"], capture_output=True, text=True
    )
    assert (fsck.returncode, fsck.stderr) == (0, "")
    return files == new


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """Two topics, one of them older."""
    base = tmp_path / "start"
    where = location(base)
    asyncio.run(save(where, "kept.md", b"kept\n"))
    asyncio.run(save(where, "other.md", b"other\n"))
    return base


CHANGES = [
    ("save", "new.md", "a new one\n"),
    ("save", "kept.md", "kept, but better\n"),
    pytest.param(("save", "deep/er/new.md", "a new one\n"), marks=pytest.mark.slow),
    ("forget", "kept.md"),
]


@NEEDS_GIT
@pytest.mark.parametrize("kind", ["after", pytest.param("before", marks=pytest.mark.slow), "torn"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change[0]}-{change[1]}")
def test_a_change_killed_anywhere_is_wholly_there_or_not_at_all(
    change: tuple[str, ...], kind: str, tmp_path: Path, start: Path, server: Server
) -> None:
    act, file, *body = change
    expected = tmp_path / "expected"
    shutil.copytree(start, expected)
    done = save(location(expected), file, body[0].encode()) if body else forget(location(expected), file)
    asyncio.run(done)
    old, new = state(location(start)), state(location(expected))
    assert old != new
    outcomes = [
        checked(location(base), old, new) for base in server.until_whole(act, start, kind, file, *body)
    ]
    assert outcomes == sorted(outcomes), "once a change is made for good, a later kill cannot lose it"
    assert not outcomes[0] and outcomes[-1]


@pytest.mark.slow
@NEEDS_GIT
def test_recovery_can_be_killed_anywhere_too(tmp_path: Path, start: Path, server: Server) -> None:
    """The journal is flushed at the third flush of a save; a kill right after it leaves most to do."""
    old = state(location(start))
    whole = tmp_path / "whole"
    shutil.copytree(start, whole)
    asyncio.run(save(location(whole), "new.md", b"a new one\n"))
    new = state(location(whole))
    for broken in server.until_whole("save", start, "after", "new.md", "a new one\n"):
        if state(location(broken)) == old and asyncio.run(_is_unsettled(location(broken))):
            break
    else:
        raise AssertionError("no kill left anything to recover")
    outcomes = [checked(location(base), old, new) for base in server.until_whole("recover", broken, "after")]
    assert all(outcomes)


async def _is_unsettled(where: Location) -> bool:
    from nacre.memory.files.recovery import Journal

    journal = Journal(where.cache / "journal")
    return not journal.is_settled() and bool(journal.intents()[0])


@pytest.mark.slow
@NEEDS_GIT
def test_packing_the_history_can_be_killed_anywhere(tmp_path: Path, start: Path, server: Server) -> None:
    files = state(location(start))
    for base in server.until_whole("pack", start, "after"):
        assert checked(location(base), files, files)
        assert [commit.reason for commit in History(location(base).history).log(9)] == [
            "save other.md",
            "save kept.md",
        ]


@NEEDS_GIT
@pytest.mark.slow
def test_a_purge_killed_anywhere_leaves_the_old_history_or_the_new_one(
    tmp_path: Path, start: Path, server: Server
) -> None:
    """M14b: and a later purge still leaves nothing."""
    where = location(start)
    asyncio.run(save(where, "secret.md", b"hidden words\n"))
    asyncio.run(forget(where, "secret.md"))
    files = state(where)
    for base in server.until_whole("purge", start, "after", "secret.md", "secret.md"):
        assert checked(location(base), files, files)
        assert list(location(base).history.parent.iterdir()) == [location(base).history]
        assert server.run("purge", base, "after", MOST_ACTS, "secret.md", "secret.md") == 0
        assert not _holds(base, b"hidden words")


def _holds(base: Path, text: bytes) -> bool:
    import zlib

    for path in base.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if text in data or text in _unpacked(zlib, data):
                return True
    return False


def _unpacked(zlib: object, data: bytes) -> bytes:
    """Everything in a file that zlib can make sense of, wherever it starts."""
    import zlib as z

    found = []
    for at in (match.start() for match in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data)):
        try:
            found.append(z.decompressobj().decompress(data[at:]))
        except z.error:
            continue
    return b"\n".join(found)


def test_a_power_cut_that_tore_unflushed_objects_is_mended_from_the_journal(
    tmp_path: Path, start: Path
) -> None:
    """Objects and the branch are not flushed one by one; after another start of the machine all come back."""
    where = location(start)
    files = state(where)
    before = [commit.id for commit in History(where.history).log(9)]
    journal = where.cache / "journal"
    data = bytearray(journal.read_bytes())
    data[20:30] = b"0000000000"  # the journal of an earlier start
    journal.write_bytes(bytes(data))
    for path in (where.history / "objects").glob("??/*"):
        os.truncate(path, 0)
    (where.history / "refs" / "heads" / "main").unlink()
    assert checked(where, files, files)
    assert [commit.id for commit in History(where.history).log(9)] == before
