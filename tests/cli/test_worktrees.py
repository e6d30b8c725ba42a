"""Worktrees that agents left behind: `nacre doctor` names them, `nacre gc` removes those nobody changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.repositories import begun, git, own_settings
from tests.cli.program import nacre

LEAVES = """
import asyncio, os, signal, sys
from pathlib import Path
from nacre.agents.worktree import make
asyncio.run(make(Path(sys.argv[1]), sys.argv[3], home=Path(sys.argv[2])))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two worktrees of a process that was killed; in one of them something has changed."""
    own_settings(tmp_path / "person", monkeypatch)
    root = begun(tmp_path / "repository")
    for agent in ("aaaaaaaa", "bbbbbbbb"):
        subprocess.run([sys.executable, "-c", LEAVES, str(root), str(root / "home"), agent], check=False)
    [changed] = (root / "home" / "worktrees").rglob("agent-bbbbbbbb")
    (changed / "a.txt").write_text("mine\n", encoding="utf-8")
    return root


def trees(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "home" / "worktrees").glob("*/*") if path.is_dir())


@pytest.mark.slow
def test_doctor_names_both_and_the_commands_that_remove_them(repository: Path) -> None:
    """Spawning, worktree: nothing is wrong, and nothing is changed."""
    ran = nacre(repository, "doctor", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = [check["message"] for check in json.loads(ran.stdout)["checks"] if check["name"] == "worktrees"]
    assert len(said) == 2
    assert "1 worktree of agents that are gone, with nothing in them" in said[0]
    assert said[0].endswith("nacre gc --yes")
    assert "(branch nacre/agent-bbbbbbbb): 1 changed file" in said[1]
    assert trees(repository) == ["agent-aaaaaaaa", "agent-bbbbbbbb"]
    command = said[1].partition("once you have what you need of it: ")[2]
    subprocess.run(command, shell=True, check=True, capture_output=True)  # as a person would
    assert trees(repository) == ["agent-aaaaaaaa"]
    assert "bbbbbbbb" not in git(repository, "for-each-ref")


@pytest.mark.slow
def test_gc_shows_them_removes_the_unchanged_one_when_told_and_keeps_the_other(repository: Path) -> None:
    """Spawning, worktree: what has changed is never removed by itself."""
    shown = nacre(repository, "gc")
    assert "Would remove 1 unchanged worktree of agents that are gone: add --yes" in shown.stdout
    assert trees(repository) == ["agent-aaaaaaaa", "agent-bbbbbbbb"]
    done = json.loads(nacre(repository, "gc", "--yes", "--json").stdout)
    assert [Path(path).name for path in done["worktrees"]] == ["agent-aaaaaaaa"]
    assert ["1 changed file" in line for line in done["worktrees_kept"]] == [True]
    assert trees(repository) == ["agent-bbbbbbbb"]
    assert "aaaaaaaa" not in git(repository, "for-each-ref")
    again = nacre(repository, "gc", "--yes")
    assert "Removed 0 files" in again.stdout
    assert "Kept: " in again.stdout


def test_where_there_are_none_nobody_speaks_of_them(tmp_path: Path) -> None:
    """Spawning, worktree: most people never have one."""
    assert "worktree" not in nacre(tmp_path, "gc").stdout + nacre(tmp_path, "doctor").stdout
