"""Child processes are bounded and end whole; a process is told from a later one with its id."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from nacre.process import (
    ProcessOutput,
    ProcessSpec,
    group_is_alive,
    is_alive,
    run,
    run_sync,
    start_detached,
    start_time,
)


def test_a_process_is_told_from_a_later_one_of_its_number() -> None:
    """D2, A6: numbers are given out again, the moment of the start is not."""
    if not (start := start_time(os.getpid())):
        pytest.skip("this system does not say when a process began")
    assert is_alive(os.getpid(), start)
    assert not is_alive(os.getpid(), "another:1")
    assert is_alive(os.getpid())


def test_nobody_is_asked_about_who_has_no_number() -> None:
    assert not is_alive(0)
    assert not is_alive(-1)
    assert not is_alive(2**70)


def test_who_was_killed_and_not_collected_does_not_live() -> None:
    """A6: a teammate that died is gone even where its parent has not looked after it yet."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = start_time(process.pid)
        if not start:
            pytest.skip("this system does not say what became of a process")
        assert is_alive(process.pid, start)
        process.kill()
        # Waits for the end and leaves the process uncollected: it stays in the table of processes.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(process.pid, start)


async def test_input_output_and_errors_are_kept_apart() -> None:
    output = bytearray()
    errors = ProcessOutput(head=3)
    spec = ProcessSpec(argv=("sh", "-c", "cat; echo wrong >&2"), stdin=b"\xff1", seconds=30, max_bytes=100)
    ended = await run(spec, output.extend, feed_errors=errors.feed)
    assert (ended.why, ended.exit_code, bytes(output), errors.head) == ("exited", 0, b"\xff1", "wro")


async def test_errors_without_end_in_a_file_end_the_command() -> None:
    with tempfile.TemporaryFile() as errors:
        spec = ProcessSpec(argv=("sh", "-c", "yes >&2"), seconds=30, max_bytes=1000, stderr=errors)
        assert (await run(spec, bytearray().extend)).why == "flood"


@pytest.mark.slow
def test_a_synchronous_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo $$ > pid; trap '' TERM; sleep 60 & wait"]
    with pytest.raises(TimeoutError):
        run_sync(command, cwd=tmp_path, environ=dict(os.environ), seconds=1)
    group = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while group_is_alive(group) and time.monotonic() < until:
        time.sleep(0.02)  # killed, but not yet reaped
    assert not group_is_alive(group)


def test_a_detached_process_reads_its_input_in_a_session_of_its_own(tmp_path: Path) -> None:
    pid = start_detached(["sh", "-c", "cat > got; mv got done"], cwd=tmp_path, stdin=b"word")
    assert os.getsid(pid) == pid
    until = time.monotonic() + 30
    while not (tmp_path / "done").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert (tmp_path / "done").read_bytes() == b"word"
    os.waitpid(pid, 0)
