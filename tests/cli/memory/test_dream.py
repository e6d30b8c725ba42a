"""`nacre dream`: by hand, looked at, ended and taken back, through the real program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nacre.layers.l6_dream.lock import FILE
from tests.cli.program import ended, nacre, world
from tests.layers.l6_dream.made import FILES, topic

SLOW = """
import sys, time
from nacre.layers.l6_dream import dream as dreams
real = dreams.by_rule
def slow(copy, rules):
    time.sleep(20)
    real(copy, rules)
dreams.by_rule = slow
from nacre.cli.main import main
sys.exit(main(["dream", "--force", "--by-rule", "--json"]))
"""


def memory(cwd: Path, files: dict[str, bytes] | None = None) -> Path:
    """The project's memory directory with these files."""
    directory = Path(nacre(cwd, "memory", "path").stdout.strip())
    directory.mkdir(parents=True, exist_ok=True)
    for file, data in (files or dict(FILES)).items():
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_bytes(data)
    return directory


def chat(cwd: Path, *lines: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nacre", "chat"]
    return ended(command, cwd, world(cwd, **environ), given="".join(f"{line}\n" for line in lines))


def bytes_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.md")}


def test_a_dream_by_hand_tells_what_changed_and_why_and_is_taken_back_to_the_byte(tmp_path: Path) -> None:
    directory = memory(tmp_path)
    done = nacre(tmp_path, "dream", "--force")
    assert done.returncode == 0, done.stderr
    assert "removed deploys_again.md: merged into deploys.md" in done.stdout
    assert "`nacre dream undo` takes it back" in done.stdout
    assert not (directory / "deploys_again.md").exists()
    undone = nacre(tmp_path, "dream", "undo", "--json")
    assert json.loads(undone.stdout).keys() == {"undone", "commit"}
    assert bytes_in(directory) == dict(FILES)
    again = nacre(tmp_path, "dream", "undo")
    assert again.returncode == 1 and "no dream to undo" in again.stderr


STORE = b"""---
name: store
description: "%s"
type: project
---

The store is opened in `src/app/ancient.py`.
"""


def recalled(cwd: Path) -> str:
    return nacre(cwd, "recall", "how is the store opened?").stdout


@pytest.mark.slow
def test_edits_that_nacre_makes_by_itself_keep_the_age_of_a_memory(tmp_path: Path) -> None:
    """A memory whose references are gone is the last that may seem to be written today."""
    path = memory(tmp_path, {"store.md": STORE % b"The store is opened"}) / "store.md"
    long_ago = time.time() - 40 * 86_400
    os.utime(path, (long_ago, long_ago))
    assert ", 40 days old," in recalled(tmp_path)
    (tmp_path / "main.py").write_text("x = 1\n")
    done = nacre(tmp_path, "dream", "--force", "--by-rule")
    assert done.returncode == 0 and b"drift:" in path.read_bytes()
    assert ", 40 days old," in recalled(tmp_path) and "gone: src/app/ancient.py" in recalled(tmp_path)
    assert nacre(tmp_path, "dream", "undo").returncode == 0 and b"drift:" not in path.read_bytes()
    assert ", 40 days old," in recalled(tmp_path)


def test_lint_keeps_the_age_of_what_it_fixes(tmp_path: Path) -> None:
    odd = (STORE % b"The store: opened").replace(b'"', b"")
    path = memory(tmp_path, {"store.md": odd}) / "store.md"
    long_ago = time.time() - 40 * 86_400
    os.utime(path, (long_ago, long_ago))
    assert nacre(tmp_path, "memory", "lint", "--fix").returncode == 0
    assert path.read_bytes() != odd
    assert ", 40 days old," in recalled(tmp_path)


def test_the_json_has_the_shape_that_programs_rely_on(tmp_path: Path) -> None:
    memory(tmp_path)
    told = json.loads(nacre(tmp_path, "dream", "--force", "--json").stdout)
    assert (told["status"], told["phase"], told["sessions"]) == ("completed", "updating", [])
    assert len(told["commit"]) == 40
    assert told["changes"] == [
        {
            "file": "MEMORY.md",
            "action": "changed",
            "reason": "put the index in order; dropped the line [Gone](gone.md): the file is gone",
        },
        {"file": "deploys_again.md", "action": "removed", "reason": "merged into deploys.md"},
    ]
    soon = json.loads(nacre(tmp_path, "dream", "--json").stdout)
    assert (soon["status"], soon["changes"], soon["commit"]) == ("skipped", [], None)
    assert "too soon" in soon["error"]


def test_a_dry_run_shows_the_diff_and_leaves_no_trace(tmp_path: Path) -> None:
    directory = memory(tmp_path)
    done = nacre(tmp_path, "dream", "--dry-run")
    assert "--- a/deploys_again.md\n+++ /dev/null" in done.stdout
    assert "nothing was changed" in done.stdout
    assert bytes_in(directory) == dict(FILES) and not (directory / FILE).exists()
    assert not (tmp_path / "home" / "history").exists()


def test_without_force_too_few_sessions_are_no_reason_to_dream(tmp_path: Path) -> None:
    """D1."""
    directory = memory(tmp_path)
    assert "not due: too soon" in nacre(tmp_path, "dream").stdout
    (first,) = tmp_path.rglob("dream/first")
    os.utime(first, (0, 0))
    assert "not due: too few sessions" in nacre(tmp_path, "dream").stdout
    for number in range(5):
        (directory.parent / f"s{number}.jsonl").write_text("{}\n", encoding="utf-8")
    told = json.loads(nacre(tmp_path, "dream", "--json").stdout)
    assert told["status"] == "completed"
    assert sorted(told["sessions"]) == [f"s{number}" for number in range(5)]


@pytest.mark.slow
def test_status_says_what_became_of_the_last_dream(tmp_path: Path) -> None:
    memory(tmp_path)
    assert "last consolidated: never" in nacre(tmp_path, "dream", "status").stdout
    nacre(tmp_path, "dream", "--force")
    told = json.loads(nacre(tmp_path, "dream", "status", "--json").stdout)
    assert (told["status"], told["by"], told["failures"]) == ("completed", "rules", 0)
    assert told["files"] == ["MEMORY.md", "deploys_again.md"]
    assert told["last"] is not None and told["gates"] == {}
    assert "completed, by rules" in nacre(tmp_path, "dream", "status").stdout
    nacre(tmp_path, "dream", "--force")  # once more, with nothing left to do
    told = json.loads(nacre(tmp_path, "dream", "status", "--json").stdout)
    assert (told["status"], told["files"]) == ("completed", [])
    assert "completed, by rules" in nacre(tmp_path, "dream", "status").stdout


def under_way(cwd: Path) -> Any:
    """What is told of a dream once it has begun; the lock is there a moment before that is written down."""
    until = time.monotonic() + 30
    while True:
        told = json.loads(nacre(cwd, "dream", "status", "--json").stdout)
        if told["status"] != "never" or time.monotonic() > until:
            return told


@pytest.mark.slow
def test_a_dream_in_another_process_is_seen_and_killed(tmp_path: Path) -> None:
    """D5."""
    directory = memory(tmp_path)
    none = nacre(tmp_path, "dream", "kill")
    assert none.returncode == 1 and "no dream is running" in none.stderr
    other = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        cwd=tmp_path,
        env=world(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        seen = under_way(tmp_path)
        assert (seen["status"], seen["pid"]) == ("running", other.pid)
        second = json.loads(nacre(tmp_path, "dream", "--force", "--json").stdout)
        assert second["status"] == "skipped"
        killed = nacre(tmp_path, "dream", "kill")
        assert killed.returncode == 0, killed.stderr
        assert "has ended: killed" in killed.stdout
    finally:
        other.kill()
        other.communicate()
    assert bytes_in(directory) == dict(FILES) and not (directory / FILE).exists()


@pytest.mark.slow
def test_a_dream_whose_process_was_killed_is_found_out(tmp_path: Path) -> None:
    directory = memory(tmp_path)
    other = subprocess.Popen([sys.executable, "-c", SLOW], cwd=tmp_path, env=world(tmp_path))
    assert under_way(tmp_path)["status"] == "running"
    assert (directory / FILE).exists()
    other.kill()
    other.wait()
    told = json.loads(nacre(tmp_path, "dream", "status", "--json").stdout)
    assert (told["status"], told["error"]) == ("killed", "its process is gone")
    assert told["last"] is None
    assert json.loads(nacre(tmp_path, "dream", "--force", "--json").stdout)["status"] == "completed"


def test_changes_are_asked_about_one_by_one(tmp_path: Path) -> None:
    directory = memory(tmp_path, {**FILES, "choice.md": topic("Choice", "We chose Postgres yesterday.")})
    command = [sys.executable, "-m", "nacre", "dream", "--force", "--pick"]
    done = ended(command, tmp_path, world(tmp_path), given="y\nn\n")
    assert done.returncode == 0, done.stderr
    assert b"2026-03-01" in (directory / "choice.md").read_bytes()
    assert (directory / "deploys_again.md").exists()


def test_the_nightly_dream_points_to_the_logs_once_a_day_and_keeps_them(tmp_path: Path) -> None:
    """D9, M17."""
    log = b"- 10:00 the platform group wants three approvals for deploys\n"
    name = "logs/2026/11/2026-11-03.md"
    directory = memory(tmp_path, {**FILES, name: log})
    done = nacre(tmp_path, "dream", "--nightly", "--json")
    assert json.loads(done.stdout)["status"] == "completed", done.stderr
    assert name in (directory / "MEMORY.md").read_text(encoding="utf-8")
    assert name in (directory / "deploys.md").read_text(encoding="utf-8")
    assert (directory / name).read_bytes() == log
    assert json.loads(nacre(tmp_path, "dream", "--nightly", "--json").stdout)["status"] == "skipped"


@pytest.mark.slow
def test_a_dream_can_be_begun_in_a_chat_beside_the_conversation(tmp_path: Path) -> None:
    directory = memory(tmp_path)
    done = chat(tmp_path, "/dream kill", "/dream")
    assert done.stdout.splitlines() == [
        "no dream is running here",
        "a dream has started in the background; /dream status shows its progress",
    ]
    assert not (directory / "deploys_again.md").exists()
    told = chat(tmp_path, "/dream status").stdout
    assert "completed" in told and "removed deploys_again.md: merged into deploys.md" in told
    off = chat(tmp_path, "/dream", NACRE_DREAM="0")
    assert "dreams are switched off" in off.stderr


def test_without_memory_there_is_nothing_to_dream_of(tmp_path: Path) -> None:
    done = nacre(tmp_path, "dream", "--force", NACRE_DISABLE_AUTO_MEMORY="1")
    assert done.returncode == 3 and "memory is switched off" in done.stderr


def test_a_directory_that_cannot_be_written_to_is_said_in_one_line(tmp_path: Path) -> None:
    directory = memory(tmp_path)
    (directory / FILE).mkdir()
    done = nacre(tmp_path, "dream", "--force")
    assert done.returncode == 1 and done.stdout == ""
    assert "changed nothing" in done.stderr and "not a regular file" in done.stderr
    assert bytes_in(directory) == dict(FILES)
