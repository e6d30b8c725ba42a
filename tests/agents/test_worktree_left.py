"""What a crash leaves of a worktree: found by the next who looks, removed only where nobody changed it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from nacre.agents.worktree import finish, leftovers, make, record_path, records, take_over, tidy
from nacre.clock import SYSTEM_CLOCK
from nacre.testing import FrozenClock
from tests.agents.repositories import AGENT, NAME, assert_no_trace, begun, git, own_settings, state

DIES = """
import asyncio, os, shutil, signal, sys
from pathlib import Path
from nacre.agents import worktree, worktree
repository, home, what, steps = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
left = [steps if what == "make" else 10**6]

def step():
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)

def counted(real):
    def call(*given, **named):
        step()
        return real(*given, **named)
    return call

worktree.run_git = counted(worktree.run_git)
worktree.write_record = counted(worktree.write_record)
worktree.shutil.rmtree = counted(shutil.rmtree)
Path.rename = counted(Path.rename)
Path.unlink = counted(Path.unlink)

async def main():
    tree = await worktree.make(repository, "0123456789abcdef", home=home, session="s9")
    if what == "finish":
        left[0] = steps
        await worktree.finish(tree)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_settings(tmp_path / "person", monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return begun(tmp_path / "the repository")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "nacre home"


def dies(repository: Path, home: Path, what: str, steps: int) -> bool:
    """Run until so many steps are done, then be killed; false where it ended before."""
    ran = subprocess.run(
        [sys.executable, "-c", DIES, str(repository), str(home), what, str(steps)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode in {0, -signal.SIGKILL}, ran.stderr
    return ran.returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize("what", ["make", "finish"])
async def test_killed_at_any_step_what_is_left_is_found_and_nothing_of_it_stays(
    what: str, repository: Path, home: Path
) -> None:
    """Spawning, worktree: kill -9 in mid-make and mid-finish; the next session tidies up."""
    before, found = state(repository), 0
    for steps in range(40):
        was_killed = dies(repository, home, what, steps)
        if what == "make" and not was_killed:
            break
        has_record = bool([*records(home)])
        gone, stays = await tidy(home)
        assert not stays
        assert len(gone) == int(has_record)
        assert all(one.record.session == "s9" for one in gone)
        found += len(gone)
        assert_no_trace(repository, home)
        if not was_killed:
            break
    assert not was_killed
    assert found > 1
    assert state(repository) == before


async def test_one_that_was_changed_before_its_process_was_killed_is_named_and_never_removed(
    repository: Path, home: Path
) -> None:
    """Spawning, worktree: whoever looks later finds it, with the session it belongs to."""
    assert dies(repository, home, "finish", 0)
    found = [*records(home)]
    (found[0].tree.path / "a.txt").write_text("mine\n", encoding="utf-8")
    gone, stays = await tidy(home)
    assert not gone
    assert [(one.record.session, one.left and one.left.files) for one in stays] == [("s9", 1)]
    assert found[0].tree.path.exists()
    git(repository, "worktree", "remove", "--force", str(found[0].tree.path))
    gone, stays = await tidy(home)
    assert (len(gone), stays) == (1, [])
    assert_no_trace(repository, home)


async def test_one_in_which_somebody_goes_on_belongs_to_who_does(repository: Path, home: Path) -> None:
    """Spawning, worktree: an agent that is resumed in another process must not lose its place to others."""
    assert dies(repository, home, "finish", 0)
    [found] = await leftovers(home)
    take_over(found.record.tree, session="s10")
    assert await leftovers(home) == []
    assert [(one.session, one.pid) for one in records(home)] == [("s10", os.getpid())]
    assert await finish(found.record.tree) is None
    assert_no_trace(repository, home)


async def test_worktrees_of_processes_at_work_and_of_other_machines_are_nobodys_business(
    repository: Path, home: Path
) -> None:
    """Spawning, worktree: only what is known to be without an owner is looked at."""
    tree = await make(repository, AGENT, home=home)
    assert await leftovers(home) == []
    path = record_path(tree.path)
    path.write_text(
        path.read_text(encoding="utf-8").replace(f'"pid": {os.getpid()}', '"pid": 999999999'),
        encoding="utf-8",
    )
    assert len(await leftovers(home)) == 1
    text = path.read_text(encoding="utf-8")
    host = os.uname().nodename
    path.write_text(text.replace(f'"host": "{host}"', '"host": "elsewhere"'), encoding="utf-8")
    assert await leftovers(home) == []
    path.write_text("{", encoding="utf-8")
    assert await leftovers(home) == []
    assert tree.path.exists()


async def test_where_the_repository_is_gone_its_worktree_stays(repository: Path, home: Path) -> None:
    """Spawning, worktree: nobody can tell any more what has changed."""
    assert dies(repository, home, "finish", 0)
    repository.rename(repository.with_name("moved"))
    gone, stays = await tidy(home)
    assert not gone
    assert stays[0].left is not None
    assert "cannot be read" in stays[0].left.why
    assert stays[0].record.tree.path.exists()


async def test_git_that_outlives_its_killed_parent_is_let_finish(
    tmp_path: Path, repository: Path, home: Path, settings: Path
) -> None:
    """Spawning, worktree: killed while files are laid out; half a worktree is no change."""
    go, slow = tmp_path / "go", tmp_path / "slow.sh"
    slow.write_text(f"while [ ! -e '{go}' ]; do sleep 0.02; done; cat\n", encoding="utf-8")
    with settings.open("a", encoding="utf-8") as file:
        file.write(f'[filter "slow"]\nsmudge = sh {slow}\n')
    (repository / ".git" / "info" / "attributes").write_text("* filter=slow\n", encoding="utf-8")
    child = subprocess.Popen([sys.executable, "-c", DIES, str(repository), str(home), "make", "1000"])
    lock = repository / ".git" / "worktrees" / NAME / "index.lock"
    try:
        async with asyncio.timeout(60):
            while not lock.exists():
                await asyncio.sleep(0.02)
        child.kill()
        child.wait()
        _, stays = await tidy(home)
        assert [one.left and one.left.why for one in stays] == ["git is still laying it out"]
        later = FrozenClock()
        later.advance((SYSTEM_CLOCK.now() - later.now() + timedelta(hours=1)).total_seconds())
        assert [one.left for one in await leftovers(home, clock=later)] == [None]
    finally:
        go.touch()
    async with asyncio.timeout(60):
        while lock.exists() or lock.with_name("locked").exists():
            await asyncio.sleep(0.02)
    gone, stays = await tidy(home)
    assert (len(gone), stays) == (1, [])
    assert not list((home / "worktrees").rglob("*agent-*"))
    assert "nacre" not in git(repository, "for-each-ref")
