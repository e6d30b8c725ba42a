"""Locks that two processes get at once or that the file system lacks, two machines, clocks that jump."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nacre.agents.registry import AgentState, with_process_status
from nacre.errors import ConfigError, MailError, NacreError, SessionBusy, StoreError, TranscriptError
from nacre.layers.l6_dream import lock as dream_lock
from nacre.layers.l6_dream.lock import DreamLock
from nacre.layers.l7_mail.mailbox import peek
from nacre.memory.files.transaction import recover, transact
from nacre.memory.format.entry import MemoryChange
from nacre.process import is_alive, start_time
from nacre.settings.trust import read_trusted, trust
from nacre.store import disk, locks
from nacre.store.history import History
from nacre.store.locks import FileLock, Timeout
from nacre.store.session_log import SessionLog
from nacre.testing import FrozenClock
from tests.faults.acts import inbox, letter
from tests.memory.chaos.saving import location, save

ROOT = Path(__file__).parents[2]
WRITERS = 4
ROUNDS = 8
WRITER = """
import asyncio, fcntl, sys
from pathlib import Path

fcntl.flock = lambda *_: None
from nacre.settings.trust import trust
from tests.faults.acts import inbox, letter
from tests.memory.chaos.saving import location, save

base, number = Path(sys.argv[1]), int(sys.argv[2])
for turn in range(int(sys.argv[3])):
    name = f"{number}-{turn}"
    print(asyncio.run(save(location(base), f"t{name}.md", name.encode() * 99)), flush=True)
    trust(base / "home", base / name)
    inbox(base).put(letter(100 * number + turn))
"""
FOREIGN = f"{os.getpid()} 0badb007:1@elsewhere 1a2b3c4d elsewhere"
"""The link of a process of another machine whose id is in use on this one."""


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every disk for one of several machines: none can be mounted here."""
    monkeypatch.setattr(disk, "is_shared", lambda folder: True)


@pytest.mark.slow
def test_writers_whose_locks_exclude_nothing_lose_nothing(tmp_path: Path) -> None:
    """`flock` returns success for all of them, as on some network file systems."""
    arguments = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen(
            [*arguments, str(number), str(ROUNDS)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    outputs = [one.communicate(timeout=300) for one in writers]
    assert [one.returncode for one in writers] == [0] * WRITERS, outputs
    where = location(tmp_path)
    asyncio.run(recover(where))
    acknowledged = {line for out, _ in outputs for line in out.split()}
    log = History(where.history).log(999)
    assert len(acknowledged) == WRITERS * ROUNDS
    assert acknowledged == {one.id for one in log}
    assert {one.author for one in log} == {"agent"}
    names = {f"t{number}-{turn}.md" for number in range(WRITERS) for turn in range(ROUNDS)}
    assert {path.name for path in where.directory.glob("t*.md")} == names
    assert len(read_trusted(tmp_path / "home").directories) == WRITERS * ROUNDS
    assert len(peek(inbox(tmp_path).path).waiting) == WRITERS * ROUNDS
    assert not list(tmp_path.rglob(f"*{locks.HELD}"))


def test_a_second_holder_is_refused_although_the_kernel_grants_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    path = tmp_path / "lock"
    with FileLock(path, foreign_seconds=60).acquire(timeout=0) as first:
        with pytest.raises(Timeout):
            FileLock(path, foreign_seconds=60).acquire(timeout=0)
        assert first.is_locked
    FileLock(path, foreign_seconds=60).acquire(timeout=0).release()
    assert [one.name for one in tmp_path.iterdir()] == ["lock"]


def open_log(base: Path) -> None:
    SessionLog.create(base / "home", base, session="s-1").close()


CHANGES: dict[str, tuple[Callable[[Path], object], type[NacreError]]] = {
    "save": (lambda base: asyncio.run(save(location(base), "a.md", b"one\n")), StoreError),
    "trust": (lambda base: trust(base / "home", base), ConfigError),
    "mail": (lambda base: inbox(base).put(letter(1)), MailError),
    "session": (open_log, TranscriptError),
    "dream": (lambda base: DreamLock(base, base / "cache").acquire(), StoreError),
}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
@pytest.mark.parametrize("change", CHANGES)
def test_without_locks_nothing_is_written_and_one_line_says_so(
    change: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    act, kind = CHANGES[change]
    began = time.monotonic()
    with pytest.raises(kind, match="keep it on a disk of this machine") as raised:
        act(tmp_path)
    assert "\n" not in str(raised.value)
    assert time.monotonic() - began < 5, "waited for a lock that never comes"
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "lock" not in path.name]
    assert written == []


@pytest.mark.usefixtures("shared")
def test_a_holder_on_another_machine_is_not_judged_by_local_processes(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    link = tmp_path / f"lock{locks.HELD}"
    for pid in (os.getpid(), 4_000_000):
        link.symlink_to(FOREIGN.replace(str(os.getpid()), str(pid), 1))
        with pytest.raises(Timeout):
            FileLock(path, foreign_seconds=60).acquire(timeout=0)
        old = time.time() - 61
        os.utime(link, (old, old), follow_symlinks=False)
        FileLock(path, foreign_seconds=60).acquire(timeout=0).release()
        assert not os.path.lexists(link)


def test_after_a_restart_of_this_machine_its_old_link_does_not_hold(tmp_path: Path) -> None:
    """On a disk of this machine the kernel's lock is free, so its holder is gone."""
    link = tmp_path / f"lock{locks.HELD}"
    link.symlink_to(f"{os.getpid()} 0badb007:1 1a2b3c4d {socket.gethostname()}")
    FileLock(tmp_path / "lock", foreign_seconds=60).acquire(timeout=0).release()
    assert not os.path.lexists(link)


@pytest.mark.usefixtures("shared")
def test_a_session_that_is_open_on_another_machine_is_busy(tmp_path: Path) -> None:
    open_log(tmp_path)
    (lock,) = (tmp_path / "home" / "locks").glob("*.lock")
    link = Path(f"{lock}{locks.HELD}")
    link.symlink_to(FOREIGN)
    old = time.time() - 86_400
    os.utime(link, (old, old), follow_symlinks=False)
    (path,) = (tmp_path / "home" / "projects").glob("*/*.jsonl")
    with pytest.raises(SessionBusy, match="s-1 is open"):
        SessionLog.open(path, home=tmp_path / "home")


def test_an_agent_on_another_machine_is_not_called_stopped() -> None:
    here = start_time(os.getpid())
    if not here:
        pytest.skip("this system says no start of a process")
    assert is_alive(4_000_000, "0badb007:1@elsewhere")
    assert not is_alive(4_000_000, here)
    assert not is_alive(os.getpid(), f"0badb007:1@{os.uname().nodename}"), "before a restart of this machine"
    assert is_alive(os.getpid(), here)
    assert is_alive(os.getpid(), here.partition("@")[0]), "written by an older version"
    state = AgentState(id="a", name="a", type="general", started=datetime.now(UTC), pid=4_000_000)
    assert with_process_status(replace(state, process_start="0badb007:1@elsewhere")).status == "running"
    assert with_process_status(replace(state, process_start=here)).status == "stopped"


@pytest.mark.parametrize("jump", [timedelta(days=-365), timedelta(days=3_650)])
def test_a_clock_that_jumps_between_two_writes_changes_no_order(tmp_path: Path, jump: timedelta) -> None:
    clock = FrozenClock(datetime(2026, 11, 1, tzinfo=UTC))
    where = location(tmp_path)

    async def write(number: int) -> None:
        async with transact(
            where, MemoryChange(author="agent", reason=f"change {number}"), clock=clock
        ) as tx:
            tx.write("a.md", b"%d\n" % number)

    for number in range(4):
        asyncio.run(write(number))
        inbox(tmp_path).put(replace(letter(number), at=clock.now()))
        if number == 1:
            clock.advance(jump.total_seconds())
    assert [one.reason for one in History(where.history).log(9)] == [f"change {n}" for n in (3, 2, 1, 0)]
    assert (where.directory / "a.md").read_bytes() == b"3\n"
    assert [one.id for one in inbox(tmp_path).waiting().letters] == [f"l-{n}" for n in range(4)]


@pytest.mark.parametrize("jump", [timedelta(days=-365), timedelta(days=3_650)])
def test_of_two_dreams_after_a_jump_of_the_clock_only_one_may_write(tmp_path: Path, jump: timedelta) -> None:
    """The lock seems to be old, but the process that holds it lives."""
    clock = FrozenClock()
    lock = DreamLock(tmp_path, tmp_path / "cache", clock=clock)
    first = lock.acquire()
    assert first is not None
    clock.advance(jump.total_seconds())
    assert lock.acquire() is None
    assert not lock.recover()
    assert first.is_ours
    first.finish()
    assert lock.acquire() is not None


@pytest.mark.parametrize("jump", [timedelta(days=-365), timedelta(days=3_650)])
def test_where_the_start_of_a_process_is_unknown_a_dream_loses_an_old_lock_and_writes_no_more(
    tmp_path: Path, jump: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second dream takes the lock, also in the same process."""
    monkeypatch.setattr(dream_lock, "start_time", lambda _: "")
    clock = FrozenClock()
    lock = DreamLock(tmp_path, tmp_path / "cache", clock=clock)
    first = lock.acquire()
    assert first is not None
    assert lock.acquire() is None
    clock.advance(jump.total_seconds())
    second = lock.acquire()
    assert second is not None
    assert second.is_ours
    assert not first.is_ours
    first.give_back()
    assert second.is_ours
