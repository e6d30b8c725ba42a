"""`nacre memory verify` on a real directory and a real checkout (M20, R12)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src/store.py").write_text("def open_store(): ...\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    monkeypatch.chdir(folder)
    return folder


def said(capture: Capture, *args: str, code: int = 0) -> str:
    capture.readouterr()
    ended = main(["memory", *args])
    out, err = capture.readouterr()
    assert ended == code, err
    return out


def saved(capture: Capture, name: str, text: str) -> None:
    said(capture, "save", text, "--name", name, "--type", "project")


def document(capture: Capture, *args: str, code: int = 0) -> Any:
    return json.loads(said(capture, "verify", *args, "--json", code=code))


def test_memories_that_hold_are_fine(here: Path, capsys: Capture) -> None:
    saved(capsys, "Store", "Call `open_store()` in `src/store.py`.")
    assert said(capsys, "verify") == "1 memory, 2 references, none missing\n"


def test_a_variable_of_another_program_is_not_gone(here: Path, capsys: Capture) -> None:
    """R12: a repository need not mention a variable that only its deployment sets."""
    saved(capsys, "Proxy", "The environment variable `BUILDKITE_AGENT_TOKEN` must be set for `open_store()`.")
    assert said(capsys, "verify") == "1 memory, 1 reference, none missing\n"


def test_a_variable_with_the_prefix_of_the_project_is_checked_and_called_so(
    here: Path, capsys: Capture
) -> None:
    """R12: this one the project should read."""
    (here / "src/settings.py").write_text('PREFIX = "SHOP_"\n')
    saved(capsys, "Region", "Set the environment variable SHOP_REGION.")
    (one,) = document(capsys, code=1)["memories"]
    assert one["references"] == [{"kind": "variable", "text": "SHOP_REGION", "exists": False}]


def test_what_is_gone_is_listed_by_memory_and_fails_a_build(here: Path, capsys: Capture) -> None:
    saved(capsys, "Store", "Call `open_store()` in `src/store.py`, never `close_store()`.")
    saved(capsys, "Old ways", "Everything is in `src/ancient.py`.")
    out = said(capsys, "verify", code=1)
    assert [line.split() for line in out.splitlines()[:3]] == [
        ["file", "gone"],
        ["project_old_ways.md", "path", "src/ancient.py"],
        ["project_store.md", "symbol", "close_store"],
    ]
    assert "2 memories of 2: 2 references gone" in out
    assert "nothing that project_old_ways.md names is left" in out


def test_programs_get_every_reference_with_its_answer(here: Path, capsys: Capture) -> None:
    saved(capsys, "Store", "Call `open_store()`, never `close_store()`.")
    assert document(capsys, code=1) == {
        "root": str(here),
        "memories": [
            {
                "file": "project_store.md",
                "gone": 1,
                "broken": False,
                "references": [
                    {"kind": "symbol", "text": "open_store", "exists": True},
                    {"kind": "symbol", "text": "close_store", "exists": False},
                ],
            }
        ],
    }


def test_only_the_named_memories_are_checked(here: Path, capsys: Capture) -> None:
    saved(capsys, "Store", "Call `open_store()`.")
    saved(capsys, "Old ways", "Everything is in `src/ancient.py`.")
    assert [one["file"] for one in document(capsys, "store", "project_store.md")["memories"]] == [
        "project_store.md"
    ]
    said(capsys, "verify", "no such memory", code=1)


def test_the_tree_is_the_checkout_around_the_working_directory(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(capsys, "Store", "See `src/store.py`.")
    monkeypatch.chdir(here / "src")
    assert document(capsys)["root"] == str(here)


def test_without_memories_nothing_is_gone_and_no_trace_is_left(
    home: Path, here: Path, capsys: Capture
) -> None:
    assert said(capsys, "verify") == "0 memories, 0 references, none missing\n"
    assert document(capsys, "--scope", "user")["memories"] == []
    assert list(home.iterdir()) == []
