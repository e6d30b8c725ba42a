"""The bell between processes: it costs nothing, loses nothing, leaves nothing behind (A3)."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.layers.l7_mail.policy import MailSettings
from nacre.layers.l7_mail.wakeup import notify
from tests.layers.l7_mail.apart import apart, fork_with_a_bell, hang_a_bell_and_die, put
from tests.layers.l7_mail.letters import letter, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inboxes" / "bob.jsonl"


@pytest.fixture
def bells(path: Path) -> Path:
    return path.with_name("bob.bell")


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


async def test_a_letter_of_another_process_rings(path: Path) -> None:
    box = Mailbox(path)
    with box.wakeup() as wakeup:
        waiter = asyncio.create_task(wakeup.wait())
        assert (await asyncio.to_thread(apart, put, path)).returncode == 0
        assert await asyncio.wait_for(waiter, 20)
    assert texts(box) == ["letter 1"]


async def test_who_waits_uses_no_time_of_the_processor(path: Path) -> None:
    with Mailbox(path).wakeup() as wakeup:
        before = resource.getrusage(resource.RUSAGE_SELF)
        assert not await wakeup.wait(0.5)
        after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.1


async def test_bells_leave_no_file_and_no_descriptor(path: Path, bells: Path) -> None:
    box = Mailbox(path)
    box.put(letter(0))
    await asyncio.sleep(0)
    before = descriptors()
    for _ in range(20):
        with box.wakeup() as one, box.wakeup() as other:
            box.put(letter(1))
            assert await one.wait(20)
            assert await other.wait(20)
    assert descriptors() == before
    assert not bells.exists()


@pytest.mark.slow
async def test_a_bell_that_is_forgotten_takes_itself_down(path: Path, bells: Path) -> None:
    gc.collect()  # of what tests before this one left open
    before = descriptors()
    wakeup = Mailbox(path).wakeup()
    assert len(list(bells.iterdir())) == 1
    del wakeup
    gc.collect()
    assert descriptors() == before
    assert not bells.exists()


@pytest.mark.slow
def test_a_bell_of_a_killed_process_is_taken_away_by_the_next_ring(path: Path, bells: Path) -> None:
    box = Mailbox(path)
    assert apart(hang_a_bell_and_die, path).returncode == -signal.SIGKILL
    assert len(list(bells.iterdir())) == 1
    box.put(letter(0))
    assert list(bells.iterdir()) == []


def test_a_fork_writes_too_and_does_not_take_its_parents_bell_down(path: Path) -> None:
    done = apart(fork_with_a_bell, path)
    assert done.stdout == "0 True ['letter 0', 'letter 1', 'letter 2']\n", done.stderr


async def test_a_bell_that_got_lost_is_made_good_by_a_slow_look(path: Path, bells: Path) -> None:
    box = Mailbox(path, settings=MailSettings(slow_look_seconds=0.05))
    with box.wakeup() as wakeup:
        for fifo in bells.iterdir():
            fifo.unlink()
        waiter = asyncio.create_task(wakeup.wait())
        await asyncio.sleep(0.01)
        box.put(letter(0))
        assert await asyncio.wait_for(waiter, 20)


@pytest.mark.parametrize("spoiled", ["no fifos", "file", "link"])
async def test_without_fifos_there_is_the_slow_look(
    path: Path, bells: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: str
) -> None:
    """Patched because this system has FIFOs."""
    path.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    match spoiled:
        case "no fifos":
            monkeypatch.delattr(os, "mkfifo")
        case "file":
            bells.write_text("")
        case "link":
            elsewhere.mkdir()
            bells.symlink_to(elsewhere)
    box = Mailbox(path, settings=MailSettings(slow_look_seconds=0.05))
    with box.wakeup() as wakeup:
        waiter = asyncio.create_task(wakeup.wait(20))
        await asyncio.sleep(0.01)
        box.put(letter(0))
        assert await waiter
    assert not elsewhere.exists() or list(elsewhere.iterdir()) == []


def test_what_is_no_bell_is_not_written_to(path: Path, bells: Path, tmp_path: Path) -> None:
    bells.mkdir(parents=True)
    (bells / "file").write_text("theirs")
    (tmp_path / "victim").write_text("theirs")
    (bells / "link").symlink_to(tmp_path / "victim")
    (bells / "folder").mkdir()
    Mailbox(path).put(letter(0))
    assert (bells / "file").read_text() == (tmp_path / "victim").read_text() == "theirs"
    assert sorted(entry.name for entry in bells.iterdir()) == ["file", "folder", "link"]


@pytest.mark.slow
async def test_ringing_often_never_blocks(path: Path, bells: Path) -> None:
    with Mailbox(path).wakeup() as wakeup:
        for _ in range(70_000):
            notify(bells)
        assert await wakeup.wait(20)
        assert not await wakeup.wait(0.01)


def test_loops_in_several_threads_each_hear_their_own_bell(path: Path) -> None:
    box = Mailbox(path)
    heard: list[bool] = []
    hung = threading.Barrier(4)

    def listen() -> None:
        with box.wakeup() as wakeup:
            hung.wait()
            heard.append(asyncio.run(wakeup.wait(20)))

    listeners = [threading.Thread(target=listen) for _ in range(3)]
    for listener in listeners:
        listener.start()
    hung.wait()
    box.put(letter(0))
    for listener in listeners:
        listener.join()
    assert heard == [True] * 3
