"""Credentials in sessions: named by kind and line where they lie, and taken out of exports (M27)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.inspect.credentials import flagged_in, redacted_line, survey
from nacre.store.home import slug
from nacre.testing import FrozenClock
from tests.cli.program import nacre

AWS = "AKIA" + "QX7ZP2M4N6R5T3WV"
SESSION = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session with an access key in a tool result, and one in an offloaded result beside it."""
    folder = tmp_path / "home" / "projects" / slug(str(tmp_path))
    (folder / SESSION / "tool-results").mkdir(parents=True)
    (folder / SESSION / "tool-results" / "t1.txt").write_text(f"one\ntwo {AWS}\n")
    lines = [
        {"type": "user", "content": "what is in .env?"},
        {
            "type": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": f"KEY={AWS}\nü"}],
        },
    ]
    body = "".join(
        json.dumps(
            {
                "parentUuid": None,
                "type": each["type"],
                "uuid": f"u{number}",
                "sessionId": SESSION,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "cwd": str(tmp_path),
                "message": {"role": "user", "content": each["content"]},
            },
            ensure_ascii=False,
        )
        + "\n"
        for number, each in enumerate(lines)
    )
    (folder / f"{SESSION}.jsonl").write_text(body)
    return tmp_path / "home"


@pytest.mark.parametrize("form", ["md", "jsonl"])
def test_an_export_holds_the_kind_and_never_the_value(home: Path, form: str) -> None:
    ended = nacre(home.parent, "sessions", "export", SESSION, "--format", form)
    assert ended.returncode == 0
    assert AWS not in ended.stdout
    assert "[removed: " in ended.stdout
    kept = nacre(home.parent, "sessions", "export", SESSION, "--format", form, "--keep-secrets")
    assert AWS in kept.stdout


def test_of_a_log_only_the_credential_differs(home: Path) -> None:
    log = next(home.rglob("*.jsonl"))
    ended = nacre(home.parent, "sessions", "export", SESSION, "--format", "jsonl")
    before, after = log.read_text().splitlines(), ended.stdout.splitlines()
    assert after[0] == before[0]
    assert json.loads(after[1]) != json.loads(before[1])
    assert after[1].startswith(before[1].partition("KEY=")[0])
    assert after[1].endswith(before[1].partition(AWS)[2])


def test_a_check_names_kind_and_line_and_never_the_value(home: Path) -> None:
    ended = nacre(home.parent, "sessions", "check", SESSION, "--json")
    told = json.loads(ended.stdout)
    assert AWS not in ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert [(Path(one["path"]).name, one["line"]) for one in told["secrets"]] == [
        (f"{SESSION}.jsonl", 2),
        ("t1.txt", 2),
    ]
    shown = nacre(home.parent, "sessions", "check", SESSION)
    assert f"{SESSION}.jsonl:2: " in shown.stderr
    assert AWS not in shown.stdout + shown.stderr


def test_a_survey_stops_when_its_time_is_over(home: Path) -> None:
    whole = survey(home)
    assert len(whole.found) == 2 and whole.looked == whole.total > 0
    none = survey(home, seconds=0.0, clock=FrozenClock())
    assert (none.found, none.looked, none.total) == ((), 0, whole.total)


def test_a_line_that_is_no_json_is_redacted_as_text(tmp_path: Path) -> None:
    assert AWS.encode() not in redacted_line(f"torn {AWS} \xff".encode("latin-1"))
    (tmp_path / "x.jsonl").write_text(f"torn {AWS}\n")
    assert [one.line for one in flagged_in(tmp_path / "x.jsonl")] == [1]
