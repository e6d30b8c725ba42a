"""Many processes save and forget on one directory while others kill them (M14, M15)."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from nacre.memory.files.recovery import Journal
from nacre.memory.files.transaction import recover
from nacre.store.history import History
from tests.histories import pending_edits
from tests.memory.chaos.saving import location
from tests.scale import scaled

PROGRAM = Path(__file__).with_name("saving.py")
ROOT = Path(__file__).parents[3]


class Storm:
    """Processes that are started again when they are killed, until all have done their share."""

    def __init__(self, base: Path, *, processes: int, saves: int, seed: int) -> None:
        self.base = base
        self.saves = saves
        self.chance = Random(seed)
        self.kills = 0
        self.outputs: list[Path] = []
        self.running = [self._started(number) for number in range(processes)]

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        output = self.base / f"said-{number}-{len(self.outputs)}"
        self.outputs.append(output)
        arguments = [output.name, str(self.saves), str(self.chance.randrange(10**6))]
        with output.open("wb") as said:
            return subprocess.Popen(
                [sys.executable, str(PROGRAM), "storm", str(self.base), *arguments], stdout=said, cwd=ROOT
            )

    def blow(self, *, kills: int) -> None:
        """Kill at random moments, then let the rest come to their end."""
        try:
            while self.kills < kills and any(process.poll() is None for process in self.running):
                time.sleep(0.2 + self.chance.random() / 2)
                number = self.chance.randrange(len(self.running))
                if self.running[number].poll() is None:
                    self.running[number].kill()
                    self.running[number].wait()
                    self.kills += 1
                    self.running[number] = self._started(number)
            codes = [process.wait(timeout=600) for process in self.running]
        finally:
            for process in self.running:
                process.kill()
                process.wait()
        assert codes == [0] * len(codes)

    def said(self) -> list[str]:
        """Every commit a process was told of; a kill may have cut the last line."""
        lines = [line for output in self.outputs for line in output.read_text().splitlines()]
        return [line for line in lines if len(line) == 40]


def check(base: Path, said: list[str]) -> int:
    """Every commit is there, whole and paired; returns how many there are."""
    where = location(base)
    asyncio.run(recover(where))
    history = History(where.history)
    commits = history.log(10**6)
    assert {one for one in said if one} <= {one.id for one in commits}
    reasons = [one.reason for one in commits]
    assert len(reasons) == len(set(reasons)), "a change was made twice"
    # Nobody but nacre wrote here, so that a commit of edits would be a half-made change.
    assert {one.author for one in commits} == {"agent"}
    for one in commits:
        tree = history.tree(one.id)
        index = (history.read(one.id, "MEMORY.md") or b"").decode()
        assert set(re.findall(r"\(([^)]+)\)", index)) == tree.keys() - {"MEMORY.md"}
        if one.reason.endswith(" save"):
            [topic] = set(one.files) - {"MEMORY.md"}
            body = history.read(one.id, topic) or b""
            said_by = one.reason.removesuffix("save").encode()
            assert body == said_by * (len(body) // len(said_by)), "a torn entry"
    present = {path.name: path.read_bytes() for path in where.directory.iterdir()}
    assert present == {file: history.read(history.newest, file) for file in history.tree(history.newest)}
    assert asyncio.run(pending_edits(where)) == {}
    assert Journal(where.cache / "journal").is_settled()
    assert not list((where.cache / "aside").iterdir())
    assert {path.name for path in where.cache.iterdir()} <= {
        "lock",
        "journal",
        "aside",
        "seen",
        "live",
        "times",
    }
    if shutil.which("git"):
        fsck = ["git", "-C", str(where.history), "fsck", "--strict", "--no-dangling"]
        assert subprocess.run(fsck, capture_output=True, check=False).returncode == 0
    return len(commits)


@pytest.mark.slow
def test_a_few_processes_lose_nothing_though_some_are_killed(tmp_path: Path) -> None:
    storm = Storm(tmp_path, processes=3, saves=25, seed=1)
    storm.blow(kills=3)
    assert check(tmp_path, storm.said()) >= 25


@pytest.mark.slow
@pytest.mark.soak
def test_eight_processes_with_two_hundred_changes_each_lose_nothing(tmp_path: Path) -> None:
    storm = Storm(tmp_path, processes=8, saves=scaled(200), seed=2)
    storm.blow(kills=scaled(40))
    count = check(tmp_path, storm.said())
    print(f"{count} commits, {storm.kills} kills")
    assert storm.kills and count > scaled(800)
