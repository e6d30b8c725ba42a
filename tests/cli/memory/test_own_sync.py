"""`nacre memory sync` of one's own memory: two homes, the real program (M18b)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import begin, world


def said(tmp_path: Path, machine: str, *args: str, code: int = 0, remote: str = "") -> tuple[str, str]:
    project = tmp_path / machine
    project.mkdir(exist_ok=True)
    given = {"NACRE_MEMORY_SYNC_REMOTE": remote} if remote else {}
    environ = world(tmp_path / f"home-{machine}", NACRE_HOME=str(tmp_path / f"home-{machine}"), **given)
    process = begin(
        [sys.executable, "-m", "nacre", *args], project, environ, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, (args, out, err)
    return out, err


@pytest.mark.slow
def test_two_machines_keep_one_memory_and_sessions_sync_it(tmp_path: Path) -> None:
    place = f"folder:{tmp_path / 'shared'}"
    (tmp_path / "shared").mkdir()
    said(tmp_path, "laptop", "memory", "save", "I prefer tabs.", "--name", "Tabs", "--scope", "user")
    out, _ = said(tmp_path, "laptop", "memory", "sync", "--json", "--scope", "user", "--remote", place)
    report = json.loads(out)
    assert {"pulled", "pushed", "merged", "conflicts"} <= report.keys()
    assert len(report["pushed"]) == 2
    # A session on the other machine receives it at its start, and sends what it saved at its end.
    said(tmp_path, "desktop", "-p", "remember for all projects that I prefer dark themes", remote=place)
    listed, _ = said(tmp_path, "desktop", "memory", "list", "--scope", "user")
    assert "user_tabs.md" in listed


def test_a_place_that_is_missing_is_one_line_that_names_the_setting(tmp_path: Path) -> None:
    _, err = said(tmp_path, "laptop", "memory", "sync", "--scope", "user", code=3)
    assert "memory.syncRemote" in err
    assert len(err.splitlines()) == 1
    _, err = said(tmp_path, "laptop", "memory", "sync", "--scope", "project", "--remote", "folder:/x", code=3)
    assert "--name" in err
    said(tmp_path, "laptop", "memory", "sync", "--name", "shop", "--scope", "user", code=2)
