"""Lines of a daily log from the command line: shown, found, forgotten, erased for good (M14b, M17)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre.memory.files.location import MemoryPaths, locate
from nacre.store.history import History, holding
from tests.cli.program import nacre
from tests.histories import without_lines

DEMO, LUNCH = "The demo for the orca team is on Friday.", "Lunch is at noon in the garden."


def run(cwd: Path, *args: str, code: int = 0) -> str:
    ended = nacre(cwd, "memory", *args, NACRE_MEMORY_MODE="daily")
    assert ended.returncode == code, (args, ended.stdout, ended.stderr)
    return ended.stdout if code == 0 else ended.stdout + ended.stderr


def document(cwd: Path, *args: str, code: int = 0) -> Any:
    return json.loads(run(cwd, *args, "--json", code=code))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a day with two facts, and a memory beside it."""
    run(tmp_path, "save", DEMO, "--type", "project")
    file = str(document(tmp_path, "save", LUNCH)["file"])
    run(tmp_path, "save", "Green tea, always.", "--name", "Tea")
    return Path(run(tmp_path, "path").strip()) / file


def place(log: Path, number: int) -> str:
    return f"logs/{log.parent.parent.name}/{log.parent.name}/{log.name}:{number}"


@pytest.mark.slow
def test_a_line_is_shown_by_its_place_or_its_words_and_found_by_a_search(log: Path, tmp_path: Path) -> None:
    """M17"""
    assert run(tmp_path, "show", place(log, 2)) == run(tmp_path, "show", "lunch garden") == f"{LUNCH}\n"
    shown = document(tmp_path, "show", place(log, 1))
    assert (shown["file"], shown["type"], shown["body"]) == (place(log, 1), "project", DEMO)
    assert [one["file"] for one in document(tmp_path, "search", "orca", "demo")] == [place(log, 1)]
    assert [one["file"] for one in document(tmp_path, "search", "green", "tea")] == ["project_tea.md"]
    assert run(tmp_path, "show", "tea").startswith("---\n")


@pytest.mark.slow
def test_a_line_that_is_forgotten_can_be_brought_back(log: Path, tmp_path: Path) -> None:
    """M14b, M17: the other line stays byte for byte."""
    before = log.read_bytes()
    forgotten = document(tmp_path, "forget", "orca demo")
    assert forgotten["file"] == place(log, 1)
    assert log.read_bytes() == before.splitlines(keepends=True)[1]
    run(tmp_path, "undo", forgotten["commit"])
    assert log.read_bytes() == before


@pytest.mark.slow
def test_a_purged_line_is_in_no_commit_and_in_no_session_any_more(log: Path, tmp_path: Path) -> None:
    """M14b, M17: the other line stays, in the log and in the history."""
    location = locate(MemoryPaths(home=tmp_path / "home", cwd=tmp_path))
    assert "would erase" in run(tmp_path, "forget", place(log, 1), "--purge", "--dry-run")
    assert DEMO in log.read_text()
    purged = document(tmp_path, "forget", place(log, 1), "--purge", "--yes")
    assert (purged["file"], purged["left"]) == (place(log, 1), [])
    assert purged["commits"] >= 2
    assert DEMO not in log.read_text()
    assert LUNCH in log.read_text()
    history = History(location.history)
    assert holding(history, scrub=without_lines("orca")) == ()
    assert holding(history, scrub=without_lines("garden")) != ()
    assert not [
        path for path in (tmp_path / "home").rglob("*") if path.is_file() and b"orca" in path.read_bytes()
    ]


@pytest.mark.slow
def test_a_purge_of_a_line_is_never_guessed(log: Path, tmp_path: Path) -> None:
    """M14b: its place or its exact words, and a memory of that very name comes first."""
    assert "no memory and no file of the history is called 'orca demo'" in run(
        tmp_path, "forget", "orca demo", "--purge", "--yes", code=1
    )
    assert DEMO in log.read_text()
    run(tmp_path, "save", "tea")
    assert document(tmp_path, "forget", "tea", "--purge", "--yes")["file"] == "project_tea.md"
    log.write_text(log.read_text() + f"- 23:59 {LUNCH}\n")
    assert "stands in several places" in run(tmp_path, "forget", LUNCH, "--purge", "--yes", code=1)
    assert document(tmp_path, "forget", DEMO.upper(), "--purge", "--yes")["file"] == place(log, 1)
