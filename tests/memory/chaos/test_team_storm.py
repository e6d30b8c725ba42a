"""Three people save, forget and sync all at once, through one place, while somebody kills them (M18)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from nacre.clock import SYSTEM_CLOCK
from nacre.memory.checks.lint import lint
from nacre.store.history import History
from tests.memory.clones import BRANCH, Clone, bare_repository, git
from tests.scale import scaled

PROGRAM = Path(__file__).with_name("syncing.py")
ROOT = Path(__file__).parents[3]
NAMES = ("ana", "bo", "cy")
WORKERS = 2
"""For each person: two of their processes sync the same directory."""


def started(base: Path, name: str, place: str, seed: int) -> subprocess.Popen[bytes]:
    arguments = [str(base), name, place, "6", str(seed)]
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )


def blow(base: Path, place: str, *, kills: int, seed: int) -> None:
    """Kill at random moments and start again, then let all come to their end."""
    chance = Random(seed)
    running = {
        (name, number): started(base, name, place, chance.randrange(10**6))
        for name in NAMES
        for number in range(WORKERS)
    }
    try:
        for _ in range(kills):
            time.sleep(0.2 + chance.random() / 2)
            who = chance.choice(sorted(running))
            running[who].kill()
            running[who].wait()
            running[who] = started(base, who[0], place, chance.randrange(10**6))
        codes = [process.wait(timeout=300) for process in running.values()]
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    assert codes == [0] * len(codes)


def texts(one: Clone) -> tuple[set[str], set[str]]:
    """What this person wrote, and what they changed or forgot knowingly, as their history tells it."""
    history = History(one.location.history)
    wrote: set[str] = set()
    ended: set[str] = set()
    for commit in history.log(10**6):
        assert commit.author in {"user", "team"}
        if commit.author == "user":
            parent = history.head(commit.id).parent
            for file in commit.files:
                if not file.endswith("MEMORY.md"):
                    wrote |= body(history.read(commit.id, file))
                    ended |= body(history.read(parent, file) if parent else None)
    return wrote, ended


def body(data: bytes | None) -> set[str]:
    return set() if data is None else {data.decode().rpartition("---\n")[2].strip()}


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["git", "folder"])
async def test_no_text_is_lost_in_a_storm_and_all_end_alike(tmp_path: Path, kind: str) -> None:
    """M18: pushes that come second are made anew; a kill -9 at any moment leaves nothing half-done."""
    (tmp_path / "shared").mkdir()
    place = str(bare_repository(tmp_path / "shared.git"))
    if kind == "folder":
        place = f"folder:{tmp_path / 'shared'}"
    blow(tmp_path, place, kills=scaled(5), seed=7)
    people = [await Clone.made(tmp_path, name, place, SYSTEM_CLOCK) for name in NAMES]
    for one in people * 3:
        await one.sync()
    told = [texts(one) for one in people]
    wrote = set[str]().union(*(one for one, _ in told))
    ended = set[str]().union(*(one for _, one in told))
    assert len(wrote) > len(NAMES)
    assert wrote - ended <= set(people[0].bodies.values()) <= wrote
    assert people[0].files == people[1].files == people[2].files
    kinds = {problem.kind for problem in lint(people[0].location.directory)}
    assert not kinds & {"dangling-pointer", "unlisted", "odd-file"}
    if kind == "git":
        commits = git("-C", place, "rev-list", "--parents", BRANCH).splitlines()
        assert all(len(line.split()) <= 2 for line in commits)  # one after the other, none thrown away
