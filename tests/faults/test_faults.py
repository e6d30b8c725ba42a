"""A fault at every call on the disk: afterwards there is the old state or the new one, and a retry works.

Each act is done once to count its calls on the disk. Then one fails (EIO, a full or read-only disk, an
interrupted call, a short write) or the process is killed there. `make test-all` takes a sample of calls and
faults, `make soak` takes all of them.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.acts import ACTS
from tests.faults.injected import KINDS
from tests.scale import scaled

SAMPLE = 12
"""Faults per act in `make test-all`; twenty times as many, or all, in `make soak`."""
ROOT = Path(__file__).parents[2]
IDS = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{38,}|(?<=/review/)[0-9a-f]{8}"
)
KEPT = re.compile(r"/objects/|/torn-\d|/locks/|/usage/|projects/[^/]*/ID")
"""Files that a fault may add: objects without a reference, torn bytes, notes on leases, uses, sessions."""


class Server:
    """A process that does each step in a fork of itself."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.acts"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, name: str, step: str, base: Path, kind: str = "", at: int = 0) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        print(json.dumps([name, step, str(base), kind, at]), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@dataclass(frozen=True, slots=True)
class Trial:
    """An act, its start on disk, and what it must lead to."""

    name: str
    server: Server
    base: Path
    start: Path
    old: Any
    new: Any
    points: int
    files: frozenset[str]

    def reset(self) -> None:
        shutil.rmtree(self.base)
        shutil.copytree(self.start, self.base, symlinks=True)

    def check(self, kind: str, at: int) -> None:
        """Inject one fault, and compare what a reader finds then."""
        self.reset()
        act = ACTS[self.name]
        ended = self.server.ask(self.name, "run", self.base, kind, at)
        assert "trace" not in ended, ended["trace"]
        error = ended.get("error", "")
        # One line; a turn also prints what its layers could not do, one line each.
        assert not [line for line in error.splitlines()[1:] if not (act.grows and line.startswith("nacre: "))]
        assert "unexpected" not in error
        found = self.server.ask(self.name, "state", self.base)
        assert found["ok"], found
        if act.grows:
            # A tool that fails is a reply of the turn; its memories are the old or the new ones.
            assert found["state"]["memories"] in (self.old["memories"], self.new["memories"])
            assert not ended["ok"] or len(found["state"]["said"]) > len(self.old["said"])
        else:
            assert found["state"] in (self.old, self.new)
        if ended["ok"] and not act.repeats and not act.grows:
            assert found["state"] == self.new, "what was acknowledged is lost"
        for history in (self.base / "home").glob("history/*.git"):
            check_history(history)
        again = self.server.ask(self.name, "run", self.base)
        if found["state"] != self.new:
            assert again["ok"], again
            if not act.grows:
                assert self.server.ask(self.name, "state", self.base)["state"] == self.new
        added = {file for file in listed(self.base) - self.files if not KEPT.search(file)}
        assert not added, "temporary files stay after the next change"


def check_history(history: Path) -> None:
    if not (history / "refs" / "heads" / "main").exists():
        return  # before the first commit, which git does not call sound
    command = ["git", "-C", str(history), "fsck", "--strict", "--no-dangling"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def listed(base: Path) -> frozenset[str]:
    return frozenset(
        IDS.sub("ID", f"/{path.relative_to(base)}") for path in base.rglob("*") if path.is_file()
    )


def prepared(name: str, server: Server, folder: Path) -> Trial:
    base = folder / "base"
    start = folder / "start"
    base.mkdir()
    assert server.ask(name, "prepare", base)["ok"]
    shutil.copytree(base, start, symlinks=True)
    old = server.ask(name, "state", base)["state"]
    before = listed(base)
    shutil.rmtree(base)
    shutil.copytree(start, base, symlinks=True)
    ended = server.ask(name, "run", base)
    assert ended["ok"], ended
    new = server.ask(name, "state", base)["state"]
    assert old != new
    server.ask(name, "run", base)
    return Trial(name, server, base, start, old, new, len(ended["points"]), before | listed(base))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed, and it judges the history")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the injected layer finds paths in /proc")
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", ACTS)
def test_a_fault_at_any_call_leaves_the_old_state_or_the_new_one(
    name: str, server: Server, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    trial = prepared(name, server, tmp_path)
    faults = [(kind, at) for kind in KINDS for at in range(1, trial.points + 1)]
    chosen = random.Random(trial.points).sample(faults, min(len(faults), scaled(SAMPLE)))
    record_property("calls", trial.points)
    record_property("faults", len(chosen))
    for kind, at in sorted(chosen, key=faults.index):
        try:
            trial.check(kind, at)
        except AssertionError as error:
            raise AssertionError(f"{name} with {kind} at call {at} of {trial.points}: {error}") from error


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the injected layer finds paths in /proc")
@pytest.mark.parametrize("name", ["trust", "log", "mail-send", "offload"])
def test_faults_in_small_acts(name: str, server: Server, tmp_path: Path) -> None:
    trial = prepared(name, server, tmp_path)
    for at in range(1, trial.points + 1):
        trial.check(("broken", "kill-torn", "full")[at % 3], at)
