"""The lock on consolidating: who holds it, who may take it over, and what a crash leaves to be put right."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from nacre.layers.l6_dream.lock import DONE, FILE, HELD, DreamLock, LockHolder
from nacre.process import is_alive, start_time
from nacre.testing import FrozenClock
from tests.layers.l6_dream.made import NOW

NS = 1_000_000_000
DAY = 86_400


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(NOW)


@pytest.fixture
def lock(tmp_path: Path, clock: FrozenClock) -> DreamLock:
    (tmp_path / "memory").mkdir()
    return DreamLock(tmp_path / "memory", tmp_path / "cache", clock=clock)


@pytest.fixture
def gone() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def put(lock: DreamLock, body: bytes, *, seconds_ago: float, clock: FrozenClock) -> int:
    at = int((clock.now().timestamp() - seconds_ago) * NS)
    lock.path.write_bytes(body)
    os.utime(lock.path, ns=(at, at))
    return at


def body(
    pid: int, *, host: str = "", start: str = "", previous: int | None = None, state: str = HELD
) -> bytes:
    return LockHolder(pid, host or socket.gethostname(), start, previous, state).data


def test_success_leaves_the_time_at_now_and_failure_puts_the_old_one_back(
    lock: DreamLock, clock: FrozenClock
) -> None:
    """D2."""
    assert lock.last() is None
    held = lock.acquire()
    assert held is not None
    held.give_back()
    assert not lock.path.exists()
    held = lock.acquire()
    assert held is not None
    held.finish()
    first = lock.last()
    assert first == NOW
    before = lock.path.read_bytes()
    clock.advance(2 * DAY)
    held = lock.acquire()
    assert held is not None and held.last == first
    held.give_back()
    assert lock.last() == first
    assert lock.path.read_bytes() == before


def test_the_first_lines_name_the_process_the_host_and_the_time_before(lock: DreamLock) -> None:
    """D2: the first line is the process alone, as other programs write it."""
    lock.acquire()
    lines = lock.path.read_text().splitlines()
    assert lines[:5] == [str(os.getpid()), socket.gethostname(), start_time(os.getpid()), "-", HELD]


def test_who_is_alive_and_recent_holds_it(lock: DreamLock, clock: FrozenClock) -> None:
    held = lock.acquire()
    assert held is not None
    assert lock.acquire() is None
    clock.advance(3_599)
    assert lock.acquire() is None
    clock.advance(2 * DAY)
    assert lock.acquire() is None, "a process that is alive keeps it, however old it is"
    assert lock.last_finished() is None, "what was not finished is not the last dream"
    held.give_back()
    assert lock.acquire() is not None


def test_the_last_finished_dream_is_not_the_one_that_is_running(lock: DreamLock, clock: FrozenClock) -> None:
    held = lock.acquire()
    assert held is not None
    held.finish()
    clock.advance(2 * DAY)
    assert lock.acquire() is not None
    assert (lock.last_finished(), lock.last()) == (NOW, NOW + timedelta(days=2))


def test_who_was_taken_for_dead_finds_that_out_and_changes_nothing(
    lock: DreamLock, clock: FrozenClock
) -> None:
    """A machine that slept for two hours comes back to a lock that is another's."""
    slept = lock.acquire()
    assert slept is not None
    lock.path.write_bytes(body(1, previous=None))
    assert not slept.is_ours
    there = lock.path.read_bytes()
    slept.finish()
    slept.give_back()
    assert lock.path.read_bytes() == there


def test_a_dead_process_is_not_waited_for(lock: DreamLock, clock: FrozenClock, gone: int) -> None:
    put(lock, body(gone), seconds_ago=10, clock=clock)
    assert lock.holder() is None
    assert lock.acquire() is not None


def test_a_number_that_was_given_out_again_is_another_process(lock: DreamLock, clock: FrozenClock) -> None:
    """D2: the start of the process tells."""
    put(lock, body(os.getpid(), start="another:1"), seconds_ago=10, clock=clock)
    if not start_time(os.getpid()):
        pytest.skip("this system does not say when a process began")
    assert not is_alive(os.getpid(), "another:1")
    assert lock.acquire() is not None


def test_of_another_machines_process_only_time_tells(lock: DreamLock, clock: FrozenClock, gone: int) -> None:
    put(lock, body(gone, host="elsewhere"), seconds_ago=3_500, clock=clock)
    assert lock.acquire() is None
    assert not lock.recover()
    put(lock, body(gone, host="elsewhere"), seconds_ago=3_700, clock=clock)
    assert lock.acquire() is not None


def test_after_a_crash_the_old_time_is_put_back(lock: DreamLock, clock: FrozenClock, gone: int) -> None:
    """D2: else a dream that never was would keep the next one away for a day."""
    previous = int((NOW - timedelta(days=3)).timestamp() * NS)
    put(lock, body(gone, previous=previous), seconds_ago=10, clock=clock)
    assert lock.recover()
    assert lock.last() == NOW - timedelta(days=3)
    assert not lock.recover(), "once is enough"
    put(lock, body(gone), seconds_ago=10, clock=clock)
    assert lock.recover()
    assert not lock.path.exists()


def test_what_is_finished_or_another_programs_is_left_as_it_is(
    lock: DreamLock, clock: FrozenClock, gone: int
) -> None:
    for text in (body(gone, state=DONE), str(gone).encode(), b"what is this", b""):
        at = put(lock, text, seconds_ago=10, clock=clock)
        assert not lock.recover()
        assert lock.path.stat().st_mtime_ns == at


def test_another_programs_lock_is_heeded_while_its_process_lives(lock: DreamLock, clock: FrozenClock) -> None:
    put(lock, str(os.getpid()).encode(), seconds_ago=10, clock=clock)
    assert lock.acquire() is None
    at = put(lock, str(os.getpid()).encode(), seconds_ago=4_000, clock=clock)
    held = lock.acquire()
    assert held is not None
    held.give_back()
    assert (lock.path.read_bytes(), lock.path.stat().st_mtime_ns) == (str(os.getpid()).encode(), at)


def test_a_clock_that_jumps_does_not_lock_anybody_out(lock: DreamLock, clock: FrozenClock, gone: int) -> None:
    put(lock, body(gone, host="elsewhere"), seconds_ago=-2 * DAY, clock=clock)
    assert lock.acquire() is not None


def test_a_lock_that_is_no_file_is_an_error_in_words(tmp_path: Path, clock: FrozenClock) -> None:
    (tmp_path / "memory" / FILE).mkdir(parents=True)
    lock = DreamLock(tmp_path / "memory", tmp_path / "cache", clock=clock)
    with pytest.raises(Exception, match="not a regular file"):
        lock.acquire()


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", ["²\n", "7\nhost\n\n--5\nheld\n", f"7\nhost\n\n{'9' * 30}\nheld\n", f"{'9' * 400}\n"]
)
def test_a_lock_that_nobody_can_have_written_is_taken_over(
    lock: DreamLock, clock: FrozenClock, data: str
) -> None:
    """D2: a torn or foreign body keeps nobody from dreaming for ever."""
    put(lock, data.encode(), seconds_ago=2 * DAY, clock=clock)
    lock.recover()
    held = lock.acquire()
    assert held is not None
    held.give_back()
    assert lock.acquire() is not None
