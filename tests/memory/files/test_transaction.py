"""Changes to a memory directory: together or not at all, nobody's text lost, each on record (M14, M15)."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nacre.errors import OutsideStore, StoreError, VersionConflict
from nacre.memory.agent_memory import agent_live
from nacre.memory.files.folder import MAX_BYTES
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import LIVE, pick_up, recover, transact
from nacre.memory.files.undo import undo
from nacre.memory.format.entry import MemoryChange
from nacre.store import disk as exchange
from nacre.store.derived import DerivedCache
from nacre.store.history import History
from tests.histories import pending_edits
from tests.memory.chaos.saving import forget, location, pointer, save

CHANGE = MemoryChange(author="agent", reason="because", session="s-1")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def where(tmp_path: Path) -> Location:
    return location(tmp_path)


@pytest.fixture(params=["exchange", "no exchange"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched because a system without the call cannot be had here."""
    if request.param == "no exchange":
        monkeypatch.setattr(exchange, "_renameat2", lambda: None)


def files(where: Location) -> dict[str, bytes]:
    return {
        str(path.relative_to(where.directory)): path.read_bytes()
        for path in where.directory.rglob("*")
        if not path.is_dir()
    }


def log(where: Location) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.author, one.reason, one.files) for one in History(where.history).log(99)]


def is_tidy(where: Location) -> bool:
    """Nothing of ours lies in the folder, and nothing waits aside."""
    hidden = list(where.directory.rglob(".*"))
    aside = where.cache / "aside"
    return not hidden and not (aside.exists() and list(aside.iterdir()))


async def test_a_change_is_made_at_the_end_and_recorded(where: Location, either_way: None) -> None:
    async with transact(where, CHANGE) as tx:
        assert tx.read("a.md") == (None, "")
        tx.write("a.md", b"one\n")
        tx.write("deep/b.md", b"two\n", "")
        assert tx.read("a.md")[0] == b"one\n"
        assert tx.files() == ["a.md", "deep/b.md"]
        assert not (where.directory / "a.md").exists()
    first = tx.commit
    async with transact(where, CHANGE) as tx:
        data, version = tx.read("a.md")
        tx.write("a.md", (data or b"") + b"more\n", version)
        assert tx.delete("deep/b.md")
        assert not tx.delete("never.md")
    assert files(where) == {"a.md": b"one\nmore\n"}
    assert log(where) == [
        ("agent", "because", ("a.md", "deep/b.md")),
        ("agent", "because", ("a.md", "deep/b.md")),
    ]
    history = History(where.history)
    assert history.newest == tx.commit
    assert history.one(tx.commit).session == "s-1"
    assert history.read(first, "deep/b.md") == b"two\n"
    assert is_tidy(where)


async def test_an_exception_changes_nothing(where: Location) -> None:
    await save(where, "a.md", b"one\n")
    before = files(where), log(where)
    with pytest.raises(RuntimeError):
        async with transact(where, CHANGE) as tx:
            tx.write("a.md", b"two\n")
            tx.write("b.md", b"new\n")
            raise RuntimeError
    assert (files(where), log(where)) == before


async def test_a_change_that_changes_nothing_is_no_commit(where: Location) -> None:
    await save(where, "a.md", b"one\n")
    async with transact(where, CHANGE) as tx:
        tx.write("a.md", b"one\n")
        tx.write("b.md", b"new\n")
        tx.delete("b.md")
    assert tx.commit == ""
    assert len(log(where)) == 1


async def test_a_version_read_earlier_must_still_be_there(where: Location) -> None:
    """M15: two writers on one topic; the second is told."""
    await save(where, "a.md", b"one\n")
    async with transact(where, CHANGE) as tx:
        _, version = tx.read("a.md")
    await save(where, "a.md", b"two\n")
    with pytest.raises(VersionConflict, match=r"a\.md was changed"):
        async with transact(where, CHANGE) as tx:
            tx.write("a.md", b"three\n", version)
    with pytest.raises(VersionConflict):
        async with transact(where, CHANGE) as tx:
            tx.write("a.md", b"three\n", "")
    with pytest.raises(VersionConflict):
        async with transact(where, CHANGE) as tx:
            tx.delete("a.md", version)
    assert files(where)["a.md"] == b"two\n"


def replaced(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
    else:
        temp = path.with_name("~temp")
        temp.write_bytes(data)
        temp.replace(path)


@pytest.mark.parametrize("theirs", [b"theirs\n", None])
@pytest.mark.parametrize("ours", [b"ours\n", None])
async def test_what_others_wrote_meanwhile_stays(
    where: Location, either_way: None, theirs: bytes | None, ours: bytes | None
) -> None:
    """Neither their file nor any other of the change is touched, and their text is on record next time."""
    await save(where, "a.md", b"one\n")
    await save(where, "z.md", b"z\n")
    index = files(where)["MEMORY.md"]
    with pytest.raises(VersionConflict, match=r"z\.md was changed"):
        async with transact(where, CHANGE) as tx:
            tx.write("a.md", b"ours\n")
            tx.write("MEMORY.md", b"ours\n")
            if ours is None:
                tx.delete("z.md")
            else:
                tx.write("z.md", ours)
            replaced(where.directory / "z.md", theirs)
    expected = {"a.md": b"one\n", "MEMORY.md": index, "z.md": theirs}
    assert files(where) == {file: data for file, data in expected.items() if data is not None}
    assert is_tidy(where)
    await pick_up(where)
    assert log(where)[0] == ("user", "edited by other means: z.md", ("z.md",))
    assert [one[1] for one in log(where)[1:]] == ["save z.md", "save a.md"]


async def test_a_new_name_that_others_took_meanwhile_stays_theirs(where: Location, either_way: None) -> None:
    with pytest.raises(VersionConflict, match=r"new\.md was changed"):
        async with transact(where, CHANGE) as tx:
            tx.write("a.md", b"ours\n")
            tx.write("new.md", b"ours\n")
            where.directory.mkdir(parents=True, exist_ok=True)
            (where.directory / "new.md").write_bytes(b"theirs\n")
    assert files(where) == {"new.md": b"theirs\n"}
    assert log(where) == []


async def test_a_file_that_became_a_link_or_a_folder_is_left_alone(where: Location, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_bytes(b"precious\n")
    await save(where, "a.md", b"one\n")
    for plant in (lambda path: path.symlink_to(outside), lambda path: path.mkdir()):
        with pytest.raises(StoreError):
            async with transact(where, CHANGE) as tx:
                tx.write("a.md", b"ours\n")
                (where.directory / "a.md").unlink(missing_ok=True)
                plant(where.directory / "a.md")
        assert outside.read_bytes() == b"precious\n"
        if (where.directory / "a.md").is_symlink():
            (where.directory / "a.md").unlink()
    assert (where.directory / "a.md").is_dir()


@pytest.mark.parametrize(
    "name", ["../a.md", "/etc/a.md", "a.txt", ".a.md", "d/.e/a.md", "team/a.md", "a\0.md", "%2e%2e/a.md", ""]
)
async def test_a_name_that_is_no_memory_file_is_refused(where: Location, name: str) -> None:
    """M6: nothing is written."""
    with pytest.raises(OutsideStore):
        async with transact(where, CHANGE) as tx:
            tx.write(name, b"x")
    assert not where.directory.exists()


async def test_what_is_far_too_large_is_refused(where: Location) -> None:
    with pytest.raises(StoreError, match="shorten"):
        async with transact(where, CHANGE) as tx:
            tx.write("a.md", b"x" * (MAX_BYTES + 1))


async def test_everything_is_for_the_owner_only(where: Location) -> None:
    """M27."""
    old = os.umask(0)
    try:
        async with agent_live(where):
            await save(where, "deep/a.md", b"one\n")
            await save(where, "deep/a.md", b"two\n")
    finally:
        os.umask(old)
    base = where.directory.parent
    folders = {path.stat().st_mode & 0o777 for path in base.rglob("*") if path.is_dir()}
    modes = {path.stat().st_mode & 0o777 for path in base.rglob("*") if path.is_file()}
    assert (folders, modes) == ({0o700}, {0o600})


async def test_edits_by_other_means_are_committed_first_as_the_users(where: Location) -> None:
    """M15."""
    await save(where, "a.md", b"one\n")
    await save(where, "b.md", b"two\n")
    (where.directory / "a.md").write_bytes(b"ONE\n")
    (where.directory / "b.md").unlink()
    (where.directory / "logs").mkdir()
    (where.directory / "logs" / "c.md").write_bytes(b"three\n")
    (where.directory / "not ours.txt").write_bytes(b"x")
    (where.directory / ".hidden.md").write_bytes(b"x")
    (where.directory / "huge.md").write_bytes(b"x" * (MAX_BYTES + 1))
    os.mkfifo(where.directory / "fifo.md")
    (where.directory / "link.md").symlink_to("a.md")
    assert await pending_edits(where) == {"a.md": b"ONE\n", "b.md": None, "logs/c.md": b"three\n"}
    await save(where, "d.md", b"four\n")
    assert log(where)[:2] == [
        ("agent", "save d.md", ("MEMORY.md", "d.md")),
        ("user", "edited by other means: a.md and 2 more", ("a.md", "b.md", "logs/c.md")),
    ]
    assert await pending_edits(where) == {}


async def test_an_edit_that_hides_behind_the_old_size_and_time_is_found(where: Location) -> None:
    await save(where, "a.md", b"one\n")
    for number in range(20):  # enough files for the stamps to be kept
        (where.directory / f"t{number}.md").write_bytes(b"x")
    await pick_up(where)
    await asyncio.sleep(0.3)
    await pick_up(where)
    await pick_up(where)
    assert DerivedCache(where.cache).get("seen", "1")
    path = where.directory / "a.md"
    was = path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert await pending_edits(where) == {"a.md": b"two\n"}


async def test_edits_while_an_agent_is_live_are_unconfirmed(where: Location) -> None:
    """M15: an agent's shell could have made them; what was edited before it came is the user's."""
    await save(where, "a.md", b"one\n")
    (where.directory / "a.md").write_bytes(b"before\n")
    async with agent_live(where):
        (where.directory / "a.md").write_bytes(b"meanwhile\n")
        await save(where, "b.md", b"two\n")
        (where.directory / "a.md").write_bytes(b"at the end\n")
    (where.directory / "a.md").write_bytes(b"after\n")
    await pick_up(where)
    assert [one[0] for one in log(where)] == ["user", "unconfirmed", "agent", "unconfirmed", "user", "agent"]
    assert list((where.cache / LIVE).iterdir()) == []


async def test_a_second_agent_keeps_edits_unconfirmed(where: Location) -> None:
    await save(where, "a.md", b"one\n")
    async with agent_live(where):
        async with agent_live(where):
            pass
        (where.directory / "a.md").write_bytes(b"meanwhile\n")
        await pick_up(where)
    assert log(where)[0][0] == "unconfirmed"


LIVE_AGENT = """
    import asyncio, sys
    from pathlib import Path
    from nacre.memory.agent_memory import agent_live
    from tests.memory.chaos.saving import location

    async def main():
        async with agent_live(location(Path(sys.argv[1]))):
            print("live", flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
"""

HOLDER = """
    import asyncio, sys
    from pathlib import Path
    from nacre.memory.format.entry import MemoryChange
    from nacre.memory.files.transaction import transact
    from tests.memory.chaos.saving import location

    async def main():
        async with transact(location(Path(sys.argv[1])), MemoryChange(author="user", reason="hold")):
            print("held", flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
"""

FOREIGN = """
    import os, sys, time
    from pathlib import Path

    path = Path(sys.argv[1])
    for number in range(int(sys.argv[2])):
        theirs = b"theirs %d\\n" % number
        temp = path.with_name("foreign.tmp")
        temp.write_bytes(theirs)
        os.replace(temp, path)
        time.sleep(0.003)
        # Ours may stand on theirs, and then it says so. It may also be there by itself for a moment.
        for _ in range(200):
            found = path.read_bytes()
            if theirs in found:
                break
            time.sleep(0.01)
        else:
            sys.exit(f"lost {number}: {found!r}")
        if number == 0:
            print("writing", flush=True)
"""


@contextmanager
def started(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_what_a_killed_agent_may_have_done_is_unconfirmed_once(where: Location) -> None:
    await save(where, "a.md", b"one\n")
    with started(LIVE_AGENT, where.directory.parent) as agent:
        (where.directory / "a.md").write_bytes(b"its shell\n")
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    await pick_up(where)
    (where.directory / "a.md").write_bytes(b"the user\n")
    await pick_up(where)
    assert [one[0] for one in log(where)] == ["user", "unconfirmed", "agent"]


async def test_a_held_lock_is_told_and_a_killed_holder_gives_it_up(where: Location) -> None:
    with started(HOLDER, where.directory.parent) as holder:
        with pytest.raises(StoreError, match=r"another process has held .* for over 0\.05 s; try again"):
            async with transact(where, CHANGE, timeout=0.05):
                raise AssertionError("two hold the lock")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    await save(where, "a.md", b"one\n")
    assert log(where) == [("agent", "save a.md", ("MEMORY.md", "a.md"))]


@pytest.mark.slow
async def test_a_program_that_writes_all_the_time_never_loses_its_text(where: Location) -> None:
    """Bad input: two writers on one topic; nothing is lost, and each of our texts stands on what it says."""
    if exchange._renameat2() is None:
        pytest.skip("this system cannot exchange two names, so a moment of risk remains")
    await save(where, "a.md", b"ours\n")
    made = conflicts = 0
    with started(FOREIGN, where.directory / "a.md", 200) as foreign:
        while foreign.poll() is None:
            try:
                async with transact(where, CHANGE) as tx:
                    data, version = tx.read("a.md")
                    tx.write("a.md", b"ours on " + (data or b"")[-40:], version)
                made += 1
            except VersionConflict:
                conflicts += 1
        assert foreign.stderr is not None
        assert foreign.returncode == 0, foreign.stderr.read()
    assert made
    history = History(where.history)
    for one in history.log(10_000)[:-1]:
        if one.author == "agent":
            before = history.read(history.head(one.id).parent, "a.md") or b""
            assert history.read(one.id, "a.md") == b"ours on " + before[-40:]


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("ours", [b"ours\n", None])
async def test_whoever_writes_in_between_two_renames_keeps_the_last_word(
    where: Location, monkeypatch: pytest.MonkeyPatch, writes: int, ours: bytes | None
) -> None:
    """Patched, because nobody else can be made to write at exactly that moment."""
    if exchange._renameat2() is None:
        pytest.skip("this system cannot exchange two names, so a moment of risk remains")
    await save(where, "a.md", b"one\n")
    path, said = where.directory / "a.md", 0

    def speak() -> None:
        nonlocal said
        if said < writes:
            said += 1
            replaced(path, b"theirs %d\n" % said)

    renamed = exchange._renamed

    def interrupted(source: Any, target: Any, flags: int) -> bool:
        speak()
        result = renamed(source, target, flags)
        speak()
        return result

    monkeypatch.setattr(exchange, "_renamed", interrupted)
    with pytest.raises(VersionConflict):
        async with transact(where, CHANGE) as tx:
            if ours is None:
                tx.delete("a.md")
            else:
                tx.write("a.md", ours)
    assert path.read_bytes() == b"theirs %d\n" % said
    assert is_tidy(where)


async def test_tasks_of_one_process_take_turns(where: Location) -> None:
    async def add(number: int) -> None:
        async with transact(where, CHANGE) as tx:
            data, version = tx.read("a.md")
            await asyncio.sleep(0)
            tx.write("a.md", (data or b"") + b"%d\n" % number, version)

    await asyncio.gather(*(add(number) for number in range(20)))
    assert sorted(files(where)["a.md"].split()) == sorted(b"%d" % number for number in range(20))
    assert len(log(where)) == 20


async def test_a_cancelled_change_is_finished_or_not_begun(where: Location) -> None:
    """The lock is not given up while something is still being written."""
    await save(where, "a.md", b"one\n")
    outcomes = set()
    for delay in range(0, 30):
        task = asyncio.create_task(save(where, "b.md", b"%d\n" % delay))
        await asyncio.sleep(delay / 2000)
        task.cancel()
        await asyncio.wait([task])
        async with transact(where, CHANGE):
            found = files(where)
        assert (pointer("b.md") in found["MEMORY.md"]) == ("b.md" in found)
        outcomes.add(found.get("b.md") == b"%d\n" % delay)
        assert await pending_edits(where) == {}
    assert False in outcomes


@contextmanager
def failing_from(count: int, error: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """From the count-th on, acts that need room on the disk fail, or with another error all do.

    Patched, because a disk that fails at a chosen moment cannot be had.
    """
    done = 0

    def guarded(act: Callable[..., Any], *, needs_room: Callable[..., bool]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if needs_room(*args):
                done += 1
                if done >= count:
                    raise OSError(error, os.strerror(error))
            return act(*args, **kwargs)

        return call

    def makes(path: object, flags: int = 0, *_: object) -> bool:
        return bool(flags & os.O_CREAT) and not str(path).endswith("lock")

    def names(_: object, target: object, __: int) -> bool:
        # An exchange needs no room, nor does a way back to where a name just was: only a new name does.
        return error != errno.ENOSPC or (isinstance(target, exchange.NameInFolder) and target.name == "c.md")

    with monkeypatch.context() as patch:
        for name in ("write", "fsync", "mkdir", "link"):
            patch.setattr(os, name, guarded(getattr(os, name), needs_room=lambda *_: True))
        patch.setattr(os, "open", guarded(os.open, needs_room=makes))
        patch.setattr(exchange, "_renamed", guarded(exchange._renamed, needs_room=names))
        yield lambda: done


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
async def test_a_disk_that_fails_at_any_moment_leaves_the_old_content(
    where: Location, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad input: disk full, read-only; a clear error, the old content intact, no temp files left."""
    await save(where, "a.md", b"one\n")
    await save(where, "b.md", b"two\n")
    before = files(where), log(where)
    states = [before]
    for count in range(1, 100):
        with failing_from(count, error, monkeypatch) as acts:
            try:
                async with transact(where, CHANGE) as tx:
                    tx.write("a.md", b"changed\n")
                    tx.write("c.md", b"new\n")
                    tx.delete("b.md")
                    tx.write("MEMORY.md", pointer("a.md") + pointer("c.md"))
            except StoreError as told:
                assert "\n" not in str(told)
            else:
                break
        assert acts() >= count
        if error == errno.ENOSPC:
            assert (files(where), log(where)) == before
            assert is_tidy(where)
        # Where not even the way back works, the change is completed later instead.
        await recover(where)
        states.append((files(where), log(where)))
        assert is_tidy(where)
        if states[-1] != before:
            await undo(where, change=CHANGE)
            assert files(where) == before[0]
            shutil.rmtree(where.directory.parent)
            await save(where, "a.md", b"one\n")
            await save(where, "b.md", b"two\n")
    assert count > 10
    new = {"MEMORY.md": pointer("a.md") + pointer("c.md"), "a.md": b"changed\n", "c.md": b"new\n"}
    await recover(where)
    assert files(where) == new
    assert all(state == before or state[0] == new for state in states)
    assert len(log(where)) == 3


FULL = """
    import asyncio, resource, signal, sys
    sys.dont_write_bytecode = True  # half a compiled file would break every later process
    from pathlib import Path
    from nacre.errors import StoreError
    from tests.memory.chaos.saving import location, save

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    where = location(Path(sys.argv[1]))
    asyncio.run(save(where, "a.md", b"one\\n"))
    print("ready", flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        asyncio.run(save(where, "b.md", b"text " * 2000))
    except StoreError as error:
        print(error, flush=True)
"""


@pytest.mark.parametrize("limit", [0, 300, 3_000])
async def test_a_really_full_disk_is_told_in_one_line(where: Location, limit: int) -> None:
    with started(FULL, where.directory.parent, limit) as process:
        assert process.stdout is not None
        told = process.stdout.read()
    assert told.startswith("disk full: ") and told.count("\n") == 1
    assert files(where) == {"a.md": b"one\n", "MEMORY.md": pointer("a.md")}
    assert is_tidy(where)
    await save(where, "b.md", b"two\n")
    assert len(log(where)) == 2


async def test_a_folder_that_vanishes_meanwhile_is_told(where: Location) -> None:
    await save(where, "a.md", b"one\n")
    with pytest.raises(StoreError, match=r"a\.md was changed"):
        async with transact(where, CHANGE) as tx:
            tx.write("a.md", b"two\n")
            shutil.rmtree(where.directory)
    await save(where, "b.md", b"three\n")
    assert [one[0] for one in log(where)] == ["agent", "user", "agent"]
    assert History(where.history).read(log_ids(where)[-1], "a.md") == b"one\n"


def log_ids(where: Location) -> list[str]:
    return [one.id for one in History(where.history).log(99)]


async def test_a_cache_on_another_file_system_leaves_nothing_in_the_folder(
    where: Location, tmp_path: Path
) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    cache = other / f"nacre-test-{os.getpid()}"
    apart = Location(directory=where.directory, source="default", history=where.history, cache=cache)
    try:
        await save(apart, "a.md", b"one\n")
        await save(apart, "a.md", b"two\n")
        await forget(apart, "a.md")
    finally:
        shutil.rmtree(cache)
    assert files(where) == {"MEMORY.md": b""}
    assert is_tidy(apart)


async def test_the_journal_of_a_newer_nacre_is_not_touched(where: Location) -> None:
    """M27: older nacre refuses to write newer formats."""
    await save(where, "a.md", b"one\n")
    journal = where.cache / "journal"
    journal.write_bytes(b"nacre journal 2 something else altogether")
    with pytest.raises(StoreError, match="update nacre"):
        await save(where, "a.md", b"two\n")
    assert files(where)["a.md"] == b"one\n"
    assert journal.read_bytes().startswith(b"nacre journal 2")


SAVES = """
    import asyncio, sys
    from pathlib import Path
    from tests.memory.chaos.saving import location, save

    async def main():
        for number in range(int(sys.argv[2])):
            await save(location(Path(sys.argv[1])), f"t{number % 7}.md", b"%d\\n" % number)

    asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
async def test_a_save_costs_at_most_four_flushes(where: Location, tmp_path: Path) -> None:
    """A topic, the index, the journal, the folder; the history's own objects wait for the next packing."""
    await save(where, "a.md", b"one\n")
    counts = []
    for saves in (0, 10):
        trace = tmp_path / f"trace-{saves}"
        done = subprocess.run(
            ["strace", "-f", "-e", "trace=fsync,fdatasync,sync,syncfs,sync_file_range", "-o", str(trace),
             sys.executable, "-c", textwrap.dedent(SAVES), str(where.directory.parent), str(saves)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"strace cannot trace here: {done.stderr[:100]}")
        counts.append(sum("sync" in line and "(" in line for line in trace.read_text().splitlines()))
    assert counts[0] == 0
    assert counts[1] <= 4 * 10
