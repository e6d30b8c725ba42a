"""`nacre memory forget --purge` after real conversations: nothing is left, or what is left is told (M14b)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nacre.store.session_log import SessionLog
from tests.cli.program import nacre

FACT = "the build server is called hopper and lives in the basement of house 12"
FILE = "project_hopper.md"


@pytest.fixture
def talked(tmp_path: Path) -> Path:
    """A home in which a memory was told by the person, and recalled in a second session."""
    assert nacre(tmp_path, "memory", "save", FACT, "--name", "hopper").returncode == 0
    assert "basement" in nacre(tmp_path, "-p", "recall the build server").stdout
    return tmp_path


def holding(home: Path, *words: str) -> list[str]:
    """Files of a home with one of these words in them, packed histories aside."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(word.encode() in path.read_bytes() for word in words)]


@pytest.mark.slow
def test_nothing_is_left_in_any_file_of_the_home(talked: Path) -> None:
    assert holding(talked / "home", "basement")
    ended = nacre(talked, "memory", "forget", FILE, "--purge", "--yes")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.search(
        r"Searched \d+ files and the history .* 1 rare word .*: nothing was found\.", ended.stdout
    )
    assert "Not searched: its common words one by one" in ended.stdout
    assert "files outside the home" in ended.stdout
    assert holding(talked / "home", "basement", "hopper") == []
    assert nacre(talked, "-p", "hello", "--continue").returncode == 0


def test_a_password_that_a_tool_printed_and_the_model_repeated_is_erased_too(tmp_path: Path) -> None:
    secret = "kF9#qLz2!mVw"
    (tmp_path / "staging.conf").write_text(f"DB_PASSWORD={secret}\n")
    memory = f"The staging database password is {secret} as of today."
    assert nacre(tmp_path, "memory", "save", memory, "--name", "staging", "--allow-secret").returncode == 0
    assert secret in nacre(tmp_path, "-p", "read staging.conf").stdout
    assert holding(tmp_path / "home" / "projects", f"DB_PASSWORD={secret}")
    ended = nacre(tmp_path, "memory", "forget", "project_staging.md", "--purge", "--yes")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "2 rare words of it" in ended.stdout
    assert holding(tmp_path / "home", secret) == []


def test_what_is_left_is_never_said_to_be_gone(talked: Path) -> None:
    (talked / "home" / "todo.txt").write_text(FACT)
    ended = nacre(talked, "memory", "forget", FILE, "--purge", "--yes")
    assert ended.returncode == 1
    assert "todo.txt" in ended.stderr
    assert "what was found is named above" in ended.stdout
    assert "nothing was found" not in ended.stdout


def test_a_dry_run_names_every_place_and_changes_nothing(talked: Path) -> None:
    before = {path: path.read_bytes() for path in (talked / "home").rglob("*.jsonl")}
    ended = nacre(talked, "memory", "forget", FILE, "--purge", "--dry-run", "--json")
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["dry_run"], told["remaining"]) == (0, True, [])
    assert {each["line"] for each in told["erased"] if each["session"]} >= {1}
    assert {path: path.read_bytes() for path in (talked / "home").rglob("*.jsonl")} == before
    assert nacre(talked, "memory", "show", FILE).returncode == 0


@pytest.mark.slow
def test_words_the_person_typed_are_left_and_told_or_erased_when_asked(tmp_path: Path) -> None:
    nacre(tmp_path, "-p", f"remember that {FACT}")
    file = json.loads(nacre(tmp_path, "memory", "list", "--json").stdout)[0]["file"]
    seen = nacre(tmp_path, "memory", "forget", file, "--purge", "--dry-run")
    assert seen.returncode == 1
    assert "you typed these words yourself" in seen.stderr
    ended = nacre(tmp_path, "memory", "forget", file, "--purge", "--yes", "--own-words")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert holding(tmp_path / "home", "basement", "hopper") == []


@pytest.mark.slow
def test_a_session_that_is_open_stops_the_purge_before_anything_is_erased(talked: Path) -> None:
    log = next((talked / "home").rglob("*.jsonl"))
    with SessionLog.open(log, home=talked / "home"):
        ended = nacre(talked, "memory", "forget", FILE, "--purge", "--yes")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"nacre: nothing was erased: session {log.stem} is open in process")
    assert nacre(talked, "memory", "show", FILE).returncode == 0
    assert nacre(talked, "memory", "forget", FILE, "--purge", "--yes").returncode == 0


def test_what_goes_with_a_purge_is_refused_without_one(talked: Path) -> None:
    assert nacre(talked, "memory", "forget", FILE, "--dry-run").returncode == 2
