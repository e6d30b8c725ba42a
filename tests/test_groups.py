"""Whether a process is the one that was meant."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nacre.process import is_alive, started


def test_a_process_is_told_from_a_later_one_of_its_number() -> None:
    """D2, A6: numbers are given out again, the moment of the start is not."""
    if not (start := started(os.getpid())):
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
        start = started(process.pid)
        if not start:
            pytest.skip("this system does not say what became of a process")
        assert is_alive(process.pid, start)
        process.kill()
        # Waits for the end and leaves the process uncollected: it stays in the table of processes.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(process.pid, start)
