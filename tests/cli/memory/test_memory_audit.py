"""`nacre memory audit` on real folders and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.cli.main import main

Capture = pytest.CaptureFixture[str]
HEAD = "---\nname: Lock\ndescription: where the lock is taken\ntype: project\n---\n"
BAD = f"{HEAD}The lock is in `src/gone.py`.\n"


def told(capture: Capture, *args: str, code: int = 0) -> str:
    capture.readouterr()
    ended = main(["memory", "audit", *args])
    out, err = capture.readouterr()
    assert ended == code, err
    return out


def test_this_projects_memory_is_judged_without_a_path(here: Path, capsys: Capture) -> None:
    """R12: against the directory that one stands in."""
    main(["memory", "save", "The lock is taken in `src/gone.py` first.", "--name", "Lock"])
    (here / "src").mkdir()
    (here / "src" / "here.py").touch()
    out = told(capsys)
    assert "lock.md:" in out
    assert "no longer in the working tree: `src/gone.py`" in out
    assert out.splitlines()[-2] == "1 memory, 0 without a finding: score 50 of 100"


def test_the_exit_code_follows_the_level_that_is_asked_for(here: Path, capsys: Capture) -> None:
    export = here / "mem0.json"
    export.write_text(json.dumps([{"id": "a", "memory": "Moved to Berlin last month"}]))
    assert "mem0:a:1: warning: `last month`" in told(capsys, str(export))
    told(capsys, str(export), "--fail-on", "warning", code=1)
    told(capsys, str(export), "--fail-on", "info", code=1)
    told(capsys, str(export), "--fail-on", "never")


def test_json_has_every_finding_and_how_the_score_comes_about(here: Path, capsys: Capture) -> None:
    export = here / "mem0.json"
    export.write_text(json.dumps([{"id": "a", "memory": "Moved to Berlin last month"}]))
    document = json.loads(told(capsys, str(export), "--json"))
    assert document == {
        "path": str(export),
        "tree": None,
        "memories": 1,
        "sound": 0,
        "score": 50,
        "counts": {"relative-date": 1},
        "findings": [
            {
                "file": "mem0:a",
                "line": 1,
                "kind": "relative-date",
                "level": "warning",
                "message": "`last month` means another day to every reader; "
                "and the memory has no date itself",
                "advice": "write the date instead",
                "others": [],
            }
        ],
    }


def test_a_committed_folder_is_judged_against_its_own_repository(here: Path, capsys: Capture) -> None:
    """R12: but what lies in a program's home is about another place, whatever repository that home is in."""
    for folder in ("docs/memory", ".claude/projects/x/memory"):
        (here / folder).mkdir(parents=True)
        (here / folder / "lock.md").write_text(BAD)
        (here / folder / "MEMORY.md").write_text("- [Lock](lock.md) — where\n")
    (here / ".git").mkdir()
    (here / "src").mkdir()
    (here / "src" / "here.py").touch()
    assert json.loads(told(capsys, "docs/memory", "--json"))["counts"] == {"stale": 1}
    assert json.loads(told(capsys, ".claude/projects/x/memory", "--json"))["counts"] == {}
    again = told(capsys, ".claude/projects/x/memory", "--tree", str(here), "--json")
    assert json.loads(again)["counts"] == {"stale": 1}


def test_a_path_without_memories_is_one_line(here: Path, capsys: Capture) -> None:
    assert main(["memory", "audit", str(here)]) != 0
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "no memories in" in err
