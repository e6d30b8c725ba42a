"""A start from a loaded process is a start: the same answers, ends and world as of a fresh Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.main import COMMANDS
from tests.cli import warm
from tests.cli.program import begin, ended, world

pytestmark = pytest.mark.skipif(not warm.IS_POSSIBLE, reason="this system has no descriptors of processes")

PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def cold(cwd: Path, *args: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nacre", *args],
        cwd=cwd, env=world(cwd), input=given, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_can_be_loaded_by_itself(name: str, tmp_path: Path) -> None:
    """What is loaded already would hide that a command lacks an import, so each begins once with nothing."""
    fresh = cold(tmp_path, name, "--help")
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert fresh.stdout.startswith(f"Usage: nacre {name}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "given"),
    [
        (("--version",), ""),
        (("nonsense",), ""),
        (("doctor",), ""),
        (("memory", "path"), ""),
        (("memory", "save", "-"), "Deploys happen on Mönday.\r\n"),
        (("chat",), "/tasks\n/nothing\n"),
        (("-p", "-"), "what can you do?"),
    ],
)
def test_a_fresh_start_says_the_same(args: tuple[str, ...], given: str, tmp_path: Path) -> None:
    fresh = cold(tmp_path, *args, given=given)
    (tmp_path / "home").rename(tmp_path / "put away") if (tmp_path / "home").exists() else None
    again = ended([sys.executable, "-m", "nacre", *args], tmp_path, world(tmp_path), given=given)
    assert (again.returncode, again.stdout, again.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


def simulator(cwd: Path) -> subprocess.Popen[Any]:
    return begin([sys.executable, "-m", "nacre", "sim", "--json"], cwd, world(cwd), **PIPES)


def test_the_process_is_one_of_its_own_and_ends_by_a_signal(tmp_path: Path) -> None:
    with simulator(tmp_path) as process:
        assert json.loads(process.stdout.readline())["event"] == "ready"
        assert process.pid != os.getpid()
        assert process.poll() is None
        assert Path(f"/proc/{process.pid}/cwd").resolve() == tmp_path.resolve()
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL
        assert process.poll() == -signal.SIGKILL


def test_two_starts_in_a_row_order_sets_differently(tmp_path: Path) -> None:
    """Otherwise an order that changes from process to process would look as if it did not."""
    with simulator(tmp_path) as one, simulator(tmp_path) as other:
        seeds = [
            line
            for process in (one, other)
            for line in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if line.startswith(b"PYTHONHASHSEED=")
        ]
        one.kill()
        other.kill()
    assert len(seeds) == len(set(seeds)) == 2
