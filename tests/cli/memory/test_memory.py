"""`nacre memory` on one directory: what a person and a program get to see, and what is on disk after it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nacre.cli.main import main
from nacre.memory.files.scan import moment_of
from nacre.memory.format.entry import read_entry
from nacre.memory.recall.recall import age_in_days
from nacre.store.home import slug
from tests.cli import recorded
from tests.cli.program import ended, world

Capture = pytest.CaptureFixture[str]
SECRET = "AKIA" + "QYLPMN5HFIQR7BBB"


def said(capture: Capture, *args: str, code: int = 0) -> str:
    """What a command prints, once it has ended with this code."""
    capture.readouterr()
    ended = main(["memory", *args])
    out, err = capture.readouterr()
    assert ended == code, err
    return out


def document(capture: Capture, *args: str, code: int = 0) -> Any:
    return json.loads(said(capture, *args, "--json", code=code))


def directory(capture: Capture, *args: str) -> Path:
    return Path(document(capture, "path", *args)["path"])


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_the_path_is_told_without_making_it(home: Path, here: Path, capsys: Capture) -> None:
    """M2, M7b: the project's by its slug, the user's in the home."""
    told = document(capsys, "path")
    assert {key: told[key] for key in ("path", "source")} == {
        "path": str(home / "projects" / slug(str(here)) / "memory"),
        "source": "default",
    }
    assert document(capsys, "path", "--scope", "user")["path"] == str(home / "memory")
    assert said(capsys, "path") == told["path"] + "\n"
    assert list(home.iterdir()) == []


def test_the_path_says_what_decided_it(
    home: Path, here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M4: a home for memory alone, the strongest source of it first."""
    settings, elsewhere = home / "settings.json", here / "elsewhere"
    settings.write_text(json.dumps({"memoryHome": str(elsewhere)}))
    told = document(capsys, "path")
    assert told["path"] == str(elsewhere / "projects" / slug(str(here)) / "memory")
    assert (told["source"], told["decided_by"]) == ("memoryHome", f"memoryHome: user {settings}")
    user = document(capsys, "path", "--scope", "user")
    assert (user["path"], user["decided_by"]) == (str(elsewhere / "memory"), told["decided_by"])
    monkeypatch.setenv("NACRE_MEMORY_HOME", str(home))
    assert document(capsys, "path", "--scope", "team")["decided_by"] == (
        "memoryHome: environment NACRE_MEMORY_HOME"
    )
    monkeypatch.setenv("NACRE_AUTO_MEMORY_DIRECTORY", str(here / "notes"))
    assert document(capsys, "path", "--scope", "team")["decided_by"] == (
        "autoMemoryDirectory: environment NACRE_AUTO_MEMORY_DIRECTORY"
    )


def test_looking_at_nothing_says_so_and_leaves_no_trace(home: Path, here: Path, capsys: Capture) -> None:
    assert document(capsys, "list") == []
    assert "There are no memories yet" in said(capsys, "list")
    assert document(capsys, "log") == []
    assert document(capsys, "lint") == {"problems": [], "fixed": [], "commit": ""}
    assert document(capsys, "search", "tea", code=1) == []
    for command in (["diff"], ["show", "tea"], ["why", "tea"], ["export"]):
        said(capsys, *command, code=1)
    assert list(home.iterdir()) == []


def test_what_is_saved_is_listed_shown_and_found(here: Path, capsys: Capture) -> None:
    """M14: the file, its line in the index, a commit."""
    saved = document(
        capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day", "--type", "project",
        "--description", "when the service is released", "--pin",
    )  # fmt: skip
    assert saved["file"] == "project_deploy_day.md"
    assert [each["commit"] for each in document(capsys, "log")] == [saved["commit"]]
    (row,) = document(capsys, "list")
    assert row.pop("modified")
    assert row.pop("bytes") == len((directory(capsys) / "project_deploy_day.md").read_bytes())
    assert row == {
        "file": "project_deploy_day.md", "name": "Deploy day", "description": "when the service is released",
        "type": "project", "origin": "user", "indexed": True, "pinned": True, "state": "listed", "why": "",
        "unconfirmed": False,
    }  # fmt: skip
    assert "project_deploy_day.md" in said(capsys, "list")
    assert (
        said(capsys, "show", "Deploy day").encode()
        == (directory(capsys) / "project_deploy_day.md").read_bytes()
    )
    assert document(capsys, "show", "deploy_day")["body"] == "Deploys happen on Monday.\n"
    assert "project_deploy_day.md" in said(capsys, "show", "MEMORY.md")
    assert [each["file"] for each in document(capsys, "search", "when", "do", "we", "deploy")] == [
        "project_deploy_day.md"
    ]


def test_what_is_to_stay_here_is_marked_so_and_can_be_unmarked_by_hand_only(
    here: Path, capsys: Capture
) -> None:
    """M27: a later save without the switch lets nothing out."""
    document(capsys, "save", "The salary is high.", "--name", "Pay", "--local-only")
    assert b"local-only: true" in (directory(capsys) / "project_pay.md").read_bytes()
    document(capsys, "save", "The salary is very high.", "--file", "project_pay.md")
    text = (directory(capsys) / "project_pay.md").read_text()
    assert "local-only: true" in text
    assert "very high" in text
    document(capsys, "save", "Tea is green.", "--name", "Tea")
    assert b"local-only" not in (directory(capsys) / "project_tea.md").read_bytes()


def test_in_daily_mode_a_save_is_a_line_of_todays_log(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M17: said twice it stands there once; with a name or another scope it is a memory of its own."""
    monkeypatch.setenv("NACRE_MEMORY_MODE", "daily")
    logged = document(capsys, "save", "The demo is\non Friday.", "--type", "project")
    file = directory(capsys) / logged["file"]
    assert re.fullmatch(r"logs/\d{4}/\d\d/\d{4}-\d\d-\d\d\.md", logged["file"])
    assert re.fullmatch(r"- \d\d:\d\d project: The demo is on Friday\.\n", file.read_text())
    assert (logged["line"], logged["commit"]) == (1, document(capsys, "log")[0]["commit"])
    told = said(capsys, "save", "The demo is on Friday.", "--type", "project")
    assert told == f"{logged['file']}:1 says so already\n"
    assert said(capsys, "save", "Lunch is at noon.") == f"logged in {logged['file']}:2\n"
    assert not (directory(capsys) / "MEMORY.md").exists()
    assert document(capsys, "save", "Tea is green.", "--name", "Tea")["file"] == "project_tea.md"
    assert document(capsys, "save", "Likes tea.", "--scope", "user")["file"] == "project_likes_tea.md"


def test_the_text_may_come_from_stdin(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for args in (["-"], []):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Tee ist grün.\n".encode())))
        saved = document(capsys, "save", *args)
        assert document(capsys, "show", saved["file"])["body"] == "Tee ist grün.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b" \n")))
    said(capsys, "save", code=1)


def test_the_scopes_are_two_directories(here: Path, capsys: Capture) -> None:
    """M7b."""
    said(capsys, "save", "I like green tea most of all.", "--scope", "user")
    assert document(capsys, "list") == []
    assert len(document(capsys, "list", "--scope", "user")) == 1


def test_a_second_word_on_a_subject_supersedes_and_says_so(here: Path, capsys: Capture) -> None:
    """M14c: where nobody can be asked, the old words stay in the history."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    told = said(capsys, "save", "Deploys happen on Tuesday.", "--name", "Deploy day")
    assert "updated project_deploy_day.md" in told
    assert "before, it said: Deploys happen on Monday." in told
    assert "-Deploys happen on Monday." in said(capsys, "diff")
    said(capsys, "undo")
    assert document(capsys, "show", "deploy_day")["body"] == "Deploys happen on Monday.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "bodies"),
    [
        ("r\n", 0, {"Deploys happen on Tuesday."}),
        ("k\n", 0, {"Deploys happen on Monday.", "Deploys happen on Tuesday."}),
        ("c\n", 1, {"Deploys happen on Monday."}),
        ("\n", 1, {"Deploys happen on Monday."}),
        ("\x04", 1, {"Deploys happen on Monday."}),
    ],
    ids=["replace", "keep", "cancel", "nothing", "end"],
)
def test_at_a_terminal_a_conflict_is_asked_about(
    tmp_path: Path, answer: str, code: int, bodies: set[str]
) -> None:
    """M14c: both are shown; no clear word changes nothing."""
    in_terminal(tmp_path, "Deploys happen on Monday.", "")
    ended, shown = in_terminal(tmp_path, "Deploys happen on Tuesday.", answer)
    assert ended == code
    assert "now | Deploys happen on Monday." in shown
    assert "new | Deploys happen on Tuesday." in shown
    files = (tmp_path / "home" / "projects" / slug(str(tmp_path)) / "memory").glob("project_deploy*.md")
    assert {file.read_text().split("---\n")[2].strip() for file in files} == bodies


def in_terminal(cwd: Path, text: str, answer: str) -> tuple[int, str]:
    """Save with a terminal on both sides; returns the exit code and what was on the screen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre", "memory", "save", text, "--name", "Deploy day"],
        cwd=cwd, env=world(cwd), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    sent = not answer
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # what Linux says when the other side is closed
            break
        if not piece:
            break
        shown += piece
        if not sent and b"ancel:" in shown:
            os.write(ours, answer.encode())
            sent = True
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


def test_the_same_text_again_changes_nothing_and_says_so(here: Path, capsys: Capture) -> None:
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    again = said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    assert again.startswith("unchanged: project_deploy_day.md") and "undo" not in again


def test_binary_input_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nacre", "memory", "save", "-"]
    done = ended(command, tmp_path, world(tmp_path), given="a\0b")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nacre: the input is binary") and done.stderr.count("\n") == 1


def test_a_secret_is_refused_by_kind_and_line_unless_allowed(here: Path, capsys: Capture) -> None:
    """M16: never the value."""
    assert main(["memory", "save", f"first line\nkey {SECRET}"]) == 1
    told = capsys.readouterr().err
    assert "AWS access key in line 2" in told
    assert "--allow-secret" in told
    assert SECRET not in told
    assert document(capsys, "list") == []
    said(capsys, "save", f"key {SECRET}", "--allow-secret")
    assert len(document(capsys, "list")) == 1
    said(capsys, "save", f"the deploy key {SECRET} is in the vault", "--pointer", "--file", "pointer")
    assert "--pointer" in told
    pointer = Path(document(capsys, "path")["path"]) / "pointer.md"
    assert pointer.read_text().endswith("\nthe deploy key (not saved) is in the vault\n")


@pytest.mark.parametrize(
    ("option", "part"),
    [("--name", "the name"), ("--description", "the description"), ("--file", "the file name")],
)
def test_a_refusal_names_the_part_with_the_secret(
    here: Path, capsys: Capture, option: str, part: str
) -> None:
    """M16: not a line of a text that has fewer lines."""
    assert main(["memory", "save", "one line", option, SECRET]) == 1
    told = capsys.readouterr().err
    assert f"AWS access key in {part}" in told and "in line" not in told
    assert SECRET not in told


def test_a_title_of_a_saved_secret_does_not_call_it_unsaved(here: Path, capsys: Capture) -> None:
    """M16: the value is only in the body, and the index does not say otherwise."""
    said(capsys, "save", f"key {SECRET}", "--allow-secret")
    directory = Path(document(capsys, "path")["path"])
    [file] = [path for path in directory.glob("*.md") if path.name != "MEMORY.md"]
    assert SECRET in file.read_text()
    both = file.read_text() + (directory / "MEMORY.md").read_text()
    assert "(not saved)" not in both and both.count(SECRET) == 1
    assert main(["memory", "save", f"key {SECRET}", "--allow-secret", "--pointer"]) == 2
    assert "exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "code", "kept"),
    [("s\n", 0, f"key {SECRET}"), ("p\n", 0, "key (not saved)"), ("\n", 1, None)],
)
def test_at_a_terminal_a_secret_is_asked_about(
    tmp_path: Path, answer: str, code: int, kept: str | None
) -> None:
    """M16: save anyway, save a pointer instead, or nothing; the value is not shown."""
    ended, shown = in_terminal(tmp_path, f"key {SECRET}", answer)
    assert ended == code
    assert "AWS access key in line 1" in shown and SECRET not in shown
    files = (tmp_path / "home" / "projects" / slug(str(tmp_path)) / "memory").glob("project_deploy*.md")
    assert [file.read_text().split("---\n")[2].strip() for file in files] == ([kept] if kept else [])


def test_a_name_that_leaves_the_directory_is_refused(home: Path, here: Path, capsys: Capture) -> None:
    """M6."""
    said(capsys, "save", "something to keep", "--file", "../../out", code=1)
    assert not list(home.rglob("out*"))
    assert document(capsys, "list") == []


def test_lint_finds_and_mends_what_other_writers_left(here: Path, capsys: Capture) -> None:
    """M14: one commit for all of it, and no problem that could be fixed is left."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day", "--type", "project")
    folder = directory(capsys)
    (folder / "project_lost.md").write_text("---\nname: lost\n---\n\nNobody points to this file at all.\n")
    append(folder / "MEMORY.md", "- [Gone](gone.md) — nothing\n")
    problems = document(capsys, "lint", code=1)["problems"]
    assert {(each["file"], each["kind"]) for each in problems if each["fixable"]} == {
        ("MEMORY.md", "dangling-pointer"),
        ("project_lost.md", "unlisted"),
        ("project_lost.md", "untyped"),
        ("project_lost.md", "no-description"),
    }
    mended = document(capsys, "lint", "--fix")
    assert mended["problems"] == []
    newest = document(capsys, "log")[0]
    assert newest["commit"] == mended["commit"]
    assert newest["files"] == ["MEMORY.md", "project_lost.md"]
    assert "no problems found" in said(capsys, "lint")


def test_the_log_tells_an_edit_by_other_means_and_undo_takes_it_back(here: Path, capsys: Capture) -> None:
    """M15."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    file = directory(capsys) / "project_deploy_day.md"
    before = file.read_bytes()
    file.write_bytes(before + b"\nAt noon.\n")
    newest = document(capsys, "log")[0]
    assert (newest["author"], newest["files"]) == ("user", ["project_deploy_day.md"])
    assert "+At noon." in document(capsys, "diff")["files"][0]["diff"]
    undone = document(capsys, "undo")
    assert undone["undone"] == newest["commit"]
    assert file.read_bytes() == before
    assert document(capsys, "log", "--limit", "1")[0]["commit"] == undone["commit"]
    said(capsys, "undo", "ffffffff", code=1)


def test_undo_takes_back_the_newest_change_although_nobody_committed_it(here: Path, capsys: Capture) -> None:
    """M15: a hand edit is the newest change, not the save before it."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    file = directory(capsys) / "project_deploy_day.md"
    before = file.read_bytes()
    append(file, "At noon.\n")
    assert document(capsys, "undo")["files"] == ["project_deploy_day.md"]
    assert file.read_bytes() == before


def test_an_edit_in_the_persons_editor_is_one_commit(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i s/Monday/Friday/")
    said(capsys, "edit", "deploy_day")
    assert "Friday" in document(capsys, "show", "deploy_day")["body"]
    newest = document(capsys, "log")[0]
    assert (newest["author"], newest["reason"]) == ("user", "edited by hand")
    said(capsys, "edit", "deploy_day")  # nothing to change any more
    monkeypatch.setenv("EDITOR", "false")
    said(capsys, "edit", "deploy_day", code=1)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    said(capsys, "edit", "deploy_day", code=3)
    assert document(capsys, "log")[0] == newest


def test_an_edit_that_cannot_be_saved_keeps_the_persons_words(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M16: refused, and what was typed is still somewhere."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"sed -i s/Monday/{SECRET}/")
    assert main(["memory", "edit", "deploy_day"]) == 1
    kept = Path(capsys.readouterr().err.strip().rpartition(" ")[2])
    assert SECRET in kept.read_text()
    kept.unlink()
    assert "Monday" in document(capsys, "show", "deploy_day")["body"]


def test_what_is_forgotten_can_be_brought_back(here: Path, capsys: Capture) -> None:
    """M14b."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    gone = document(capsys, "forget", "deploy_day")
    assert document(capsys, "list") == []
    assert len(document(capsys, "log", "project_deploy_day")) == 2
    said(capsys, "undo", gone["commit"][:10])
    assert [each["indexed"] for each in document(capsys, "list")] == [True]
    said(capsys, "forget", "no such thing", code=1)


def test_a_purge_leaves_nothing_and_says_so(home: Path, here: Path, capsys: Capture) -> None:
    """M14b: topics, index and history; the other memories and their history stay."""
    said(capsys, "save", "The mascot is rutabaga.", "--name", "Mascot")
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    append(directory(capsys) / "project_mascot.md", "Also: parsnip.\n")
    said(capsys, "forget", "mascot", "--purge", code=2)
    assert len(document(capsys, "list")) == 2
    erased = document(capsys, "forget", "mascot", "--purge", "--yes")
    assert (erased["left"], erased["sessions"]) == ([], [])
    assert erased["commits"] > 0
    history = next((home / "history").glob("*.git"))
    shown = subprocess.run(
        ["git", "--git-dir", str(history), "log", "-p", "--all"], capture_output=True, check=True
    ).stdout.decode()
    assert "Deploys happen on Monday" in shown
    assert [word for word in ("rutabaga", "parsnip", "mascot", "Mascot") if word in shown] == []
    assert [each["file"] for each in document(capsys, "list")] == ["project_deploy_day.md"]


def test_a_purge_follows_a_memory_that_was_moved(home: Path, here: Path, capsys: Capture) -> None:
    """M14b: nothing is left on the side it came from, either."""
    said(capsys, "save", "The mascot is rutabaga.", "--name", "Mascot")
    said(capsys, "move", "mascot", "--to", "user")
    said(capsys, "forget", "mascot", "--scope", "user", "--purge", "--yes")
    for history in (home / "history").glob("*.git"):
        shown = subprocess.run(
            ["git", "--git-dir", str(history), "log", "-p", "--all"], capture_output=True, check=False
        ).stdout
        assert b"rutabaga" not in shown


def test_what_was_forgotten_already_can_still_be_purged(here: Path, capsys: Capture) -> None:
    said(capsys, "save", "The mascot is rutabaga.", "--name", "Mascot")
    said(capsys, "forget", "mascot")
    assert document(capsys, "forget", "project_mascot", "--purge", "--yes")["left"] == []
    said(capsys, "log", "project_mascot", code=1)


def test_a_purge_never_guesses_what_is_meant(here: Path, capsys: Capture) -> None:
    said(capsys, "save", "The mascot is rutabaga.", "--name", "Mascot")
    said(capsys, "forget", "rutabaga", "--purge", "--yes", code=1)
    assert len(document(capsys, "list")) == 1
    said(capsys, "forget", "MASCOT", "--purge", "--yes")
    assert document(capsys, "list") == []


def test_a_purge_names_the_sessions_that_still_speak_of_it(home: Path, here: Path, capsys: Capture) -> None:
    said(capsys, "save", "Deploys happen on Monday.", "--name", "parser.py")
    lines = [line | {"cwd": str(here)} for line in recorded.conversation()]
    text = json.dumps(lines).replace("parser of pears", "project_parser_py.md of pears")
    recorded.written(home / "projects" / slug(str(here)) / f"{recorded.SESSION}.jsonl", json.loads(text))
    erased = document(capsys, "forget", "project_parser_py", "--purge", "--yes", code=1)
    assert erased["sessions"] == [recorded.SESSION]


def test_a_memory_moves_with_one_commit_on_either_side(here: Path, capsys: Capture) -> None:
    """M7b: byte for byte, and the way back is the same."""
    said(capsys, "save", "I like green tea most of all.", "--name", "Tea", "--type", "user")
    data = (directory(capsys) / "user_tea.md").read_bytes()
    moved = document(capsys, "move", "tea", "--to", "user")
    assert document(capsys, "list") == []
    assert (directory(capsys, "--scope", "user") / "user_tea.md").read_bytes() == data
    assert [row["indexed"] for row in document(capsys, "list", "--scope", "user")] == [True]
    assert document(capsys, "log")[0]["commit"] == moved["removed"]
    assert document(capsys, "log", "--scope", "user")[0]["commit"] == moved["added"]
    said(capsys, "move", "tea", "--to", "project")
    assert (directory(capsys) / "user_tea.md").read_bytes() == data
    assert document(capsys, "list", "--scope", "user") == []


@pytest.mark.parametrize("scope", ["project", "user"])
def test_a_move_is_taken_back_on_either_side_and_so_is_that(scope: str, here: Path, capsys: Capture) -> None:
    """M7b, M15: whichever side is named, the memory is in one place afterwards."""
    said(capsys, "save", "The lamp is on.", "--name", "Lamp", "--scope", "user")
    said(capsys, "save", "I like green tea most of all.", "--name", "Tea")
    said(capsys, "move", "tea", "--to", "user")

    def places() -> list[list[str]]:
        scopes = (("--scope", "project"), ("--scope", "user"))
        return [sorted(row["file"] for row in document(capsys, "list", *each)) for each in scopes]

    assert places() == [[], ["project_lamp.md", "user_tea.md"]]
    made = document(capsys, "undo", "--scope", scope)["commit"]
    assert places() == [["user_tea.md"], ["project_lamp.md"]]
    document(capsys, "undo", made, "--scope", scope)
    assert places() == [[], ["project_lamp.md", "user_tea.md"]]


@pytest.mark.slow
@pytest.mark.parametrize("fields", ["", "modified: 2026-03-02T10:00:00Z\n", "modified: some day\n"])
def test_a_memory_stays_as_old_as_it_is(
    fields: str, here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Moved, moved back, forgotten, taken back, exported and imported; `list` and recall say the same."""
    at = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    path = directory(capsys) / "old.md"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"---\nname: Old port\ndescription: the old port\ntype: project\n{fields}---\n\nPort 5433.\n"
    )
    os.utime(path, (at, at))

    def ages(scope: str = "project") -> set[object]:
        found = document(capsys, "list", "--scope", scope)
        files = (directory(capsys, "--scope", scope) / str(one["file"]) for one in found)
        entries = (
            read_entry(one.name, one.read_bytes(), written=moment_of(one.stat().st_mtime_ns)) for one in files
        )
        days = {age_in_days(one, datetime(2026, 1, 12, tzinfo=UTC)) for one in entries}
        return {str(one["modified"])[:10] for one in found} | days

    same = {"2026-01-02", 10}
    assert ages() == same
    said(capsys, "forget", "old.md")
    said(capsys, "undo")
    assert ages() == same
    said(capsys, "move", "old.md", "--to", "user")
    assert ages("user") == same
    said(capsys, "move", "old.md", "--to", "project")
    assert ages() == same
    said(capsys, "undo")
    assert ages("user") == same
    said(capsys, "export", "--scope", "user", str(tmp_path / "m.tar.gz"))
    said(capsys, "export", "--scope", "user", str(tmp_path / "folder"))
    for source in ("m.tar.gz", "folder"):
        new = tmp_path / f"from {source}"
        new.mkdir()
        monkeypatch.chdir(new)
        said(capsys, "import", str(tmp_path / source))
        assert ages() == same


def test_a_packed_file_with_no_possible_time_is_new(here: Path, capsys: Capture, tmp_path: Path) -> None:
    packed = tmp_path / "odd.tar"
    with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, mtime in (("inf", "inf"), ("nan", "nan"), ("far", "4e9"), ("past", "-5")):
            data = (
                f"---\nname: {name} tea\ndescription: {name}\ntype: user\n---\n\nThe {name} tea.\n".encode()
            )
            member = tarfile.TarInfo(f"memory/{name}.md")
            member.size, member.pax_headers = len(data), {"mtime": mtime}
            tar.addfile(member, io.BytesIO(data))
    said(capsys, "import", str(packed))
    found = document(capsys, "list")
    today = datetime.now(UTC)
    assert len(found) == 4
    assert all(today - datetime.fromisoformat(one["modified"]) < timedelta(days=1) for one in found)
    assert all(datetime.fromisoformat(one["modified"]) <= today for one in found)


def test_a_moved_memory_that_changed_since_is_not_lost_by_taking_the_move_back(
    here: Path, capsys: Capture
) -> None:
    """M15: what changed since stays, and the person is told."""
    said(capsys, "save", "I like green tea most of all.", "--name", "Tea")
    said(capsys, "move", "tea", "--to", "user")
    said(capsys, "save", "I like black tea most of all.", "--name", "Tea", "--scope", "user")
    assert main(["memory", "undo"]) == 0
    assert "its copy in user memory changed since and stays" in capsys.readouterr().err
    assert "green" in document(capsys, "show", "tea")["body"]
    assert "black" in document(capsys, "show", "tea", "--scope", "user")["body"]


def test_each_undo_goes_one_further_back_and_says_how_to_bring_it_back(here: Path, capsys: Capture) -> None:
    """M15: an undo is not taken for the newest change; a redo names its commit."""
    for day in ("Monday", "Tuesday", "Friday"):
        said(capsys, "save", f"Deploys happen on {day}.", "--name", "Deploy day")

    def body() -> str:
        return str(document(capsys, "show", "deploy_day")["body"])

    told = said(capsys, "undo")
    assert body() == "Deploys happen on Tuesday.\n"
    made = document(capsys, "log", "--limit", "1")[0]["commit"]
    assert told.splitlines()[-1] == f"`nacre memory undo {made[:10]}` brings it back."
    said(capsys, "undo")
    assert body() == "Deploys happen on Monday.\n"
    said(capsys, "undo")
    assert document(capsys, "list") == []
    assert main(["memory", "undo"]) == 1
    assert "everything is undone already" in capsys.readouterr().err


def test_what_was_brought_back_is_the_first_to_be_taken_back_again(here: Path, capsys: Capture) -> None:
    """M15: an undo that was undone itself has taken nothing back."""
    for day in ("Monday", "Tuesday"):
        said(capsys, "save", f"Deploys happen on {day}.", "--name", "Deploy day")
    for _ in range(2):
        made = document(capsys, "undo")["commit"]
        assert "Monday" in document(capsys, "show", "deploy_day")["body"]
        said(capsys, "undo", made)
        assert "Tuesday" in document(capsys, "show", "deploy_day")["body"]


def test_a_move_onto_a_taken_name_takes_another(here: Path, capsys: Capture) -> None:
    said(capsys, "save", "Mine is green.", "--name", "Tea")
    said(capsys, "save", "Everybody's is black.", "--name", "Tea", "--scope", "user")
    assert document(capsys, "move", "tea", "--to", "user")["file"] == "project_tea_2.md"
    assert len(document(capsys, "list", "--scope", "user")) == 2


def test_why_tells_who_wrote_it_and_the_words_it_came_from(home: Path, here: Path, capsys: Capture) -> None:
    """M11, M15: the sources lead to the log as long as it has them."""
    lines = [line | {"cwd": str(here)} for line in recorded.conversation()]
    recorded.written(home / "projects" / slug(str(here)) / f"{recorded.SESSION}.jsonl", lines)
    first = next(line for line in lines if line.get("type") == "user")
    said(capsys, "save", "Pears are parsed.", "--name", "Pears")
    file = directory(capsys) / "project_pears.md"
    ids = f"[{recorded.SESSION}, {first['uuid']}]"
    file.write_text(file.read_text().replace("created:", f"source: {ids}\ncreated:"))
    told = document(capsys, "why", "pears")
    assert told["sources"] == [recorded.SESSION, first["uuid"]]
    assert [each["author"] for each in told["history"]] == ["user", "user"]
    assert [(each["role"], each["text"]) for each in told["words"]] == [
        ("user", "Where is the parser of pears?")
    ]
    shown = said(capsys, "why", "pears")
    assert "saved by hand" in shown
    assert "user said: Where is the parser of pears?" in shown
    said(capsys, "forget", "pears")
    assert document(capsys, "why", "project_pears")["exists"] is False


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["save", "x", "--type", "odd"],
        ["save", "x", "--file", "MEMORY.md"],
        ["move", "x"],
        ["list", "--scope", "galaxy"],
        ["show"],
    ],
)
def test_a_line_that_cannot_be_understood_is_a_usage_error(
    here: Path, capsys: Capture, args: list[str]
) -> None:
    assert main(["memory", *args]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_directory_that_is_refused_is_a_configuration_error(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M5."""
    monkeypatch.setenv("NACRE_MEMORY_PATH_OVERRIDE", "relative/place")
    assert main(["memory", "path"]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_a_list_says_which_memories_a_conversation_starts_with(here: Path, capsys: Capture) -> None:
    """M16c: quiet while all is well; what was cut or left out is named, with the reason."""
    said(capsys, "save", "Deploys happen on Monday.", "--name", "Deploy day")
    told = said(capsys, "list")
    assert "cut off" not in told and "left out" not in told
    assert [(row["state"], row["why"]) for row in document(capsys, "list")] == [("listed", "")]
    lines = "".join(f"- [Other {n}](other_{n}.md)\n" for n in range(250))
    index = directory(capsys) / "MEMORY.md"
    index.write_text(lines + index.read_text())
    (directory(capsys) / "odd.md").write_bytes(b"\xff")
    told = said(capsys, "list")
    assert "cut off with the end of the index: project_deploy_day.md" in told
    assert "left out: odd.md is not UTF-8" in told
    assert document(capsys, "list")[0]["state"] == "cut"
