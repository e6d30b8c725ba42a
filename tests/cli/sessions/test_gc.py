"""`nacre gc`: what old sessions left is shown, then taken away, never from under a session in use (C8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from nacre.clock import SYSTEM_CLOCK
from nacre.inspect.prune import PruneRequest, plan, prune
from nacre.messages.blocks import JsonObject
from nacre.store.session_log import SessionLog, branch
from nacre.store.tool_results import FOLDER, TEMP_PREFIX, ToolResultStore
from tests.cli.program import nacre, world
from tests.cli.recorded import SESSION, conversation, written

DAY = 86_400


def session(cwd: Path, name: str, *results: tuple[str, int, float], log_age: float = 0) -> Path:
    """A closed session with results of these names, sizes and ages in days."""
    home = cwd / "home"
    with SessionLog.create(home, cwd, session=name) as log:
        shelf = ToolResultStore(log.folder / FOLDER, sync=False)
        for call, size, days in results:
            path = shelf.keep(call, "x" * size).path
            aged(path, days)
            log.append(json.dumps({"type": "note", "path": str(path)}).encode() + b"\n")
        path = log.path
    aged(path, log_age)
    return path


def aged(path: Path, days: float) -> None:
    then = SYSTEM_CLOCK.now().timestamp() - days * DAY
    os.utime(path, (then, then))


def left(cwd: Path) -> list[str]:
    return sorted(path.name for path in (cwd / "home").glob(f"projects/*/*/{FOLDER}/*"))


def found(cwd: Path, *args: str) -> JsonObject:
    ran = nacre(cwd, "gc", "--json", *args)
    assert ran.returncode == 0, ran.stderr
    result: JsonObject = json.loads(ran.stdout)
    return result


def test_without_yes_it_only_shows_what_would_go(tmp_path: Path) -> None:
    session(tmp_path, "aaaa", ("old", 1_000_000, 40), ("new", 500_000, 1))
    for args in ((), ("--dry-run",)):
        ran = nacre(tmp_path, "gc", *args)
        assert ran.returncode == 0
        assert "aaaa" in ran.stdout and "tool results" in ran.stdout
        assert (
            "Would remove 1 file, 1.0 MB; 500 kB of results and 1 session (0 kB) stay. "
            "Nothing was changed: add --yes to do it." in ran.stdout
        )
    assert left(tmp_path) == ["new.txt", "old.txt"]


def test_with_yes_it_goes_and_the_log_stays(tmp_path: Path) -> None:
    log = session(tmp_path, "aaaa", ("old", 1_000, 40), ("new", 500, 1), log_age=100)
    ran = nacre(tmp_path, "gc", "--yes")
    assert ran.returncode == 0 and "Removed 1 file" in ran.stdout
    assert left(tmp_path) == ["new.txt"] and log.exists()
    assert nacre(tmp_path, "gc", "--older-than", "0", "--yes").returncode == 0
    assert left(tmp_path) == [] and not log.with_suffix("").exists() and log.exists()
    assert nacre(tmp_path, "gc").stdout == "Nothing to remove; 0 kB of results and 1 session (0 kB) stay.\n"


def test_by_size_the_oldest_of_all_sessions_goes_first(tmp_path: Path) -> None:
    session(tmp_path, "aaaa", ("a1", 400_000, 9), ("a2", 400_000, 1))
    session(tmp_path, "bbbb", ("b1", 400_000, 5), ("b2", 400_000, 0))
    result = found(tmp_path, "--max-size", "0.9", "--yes")
    assert result["files"] == 2 and result["kept_bytes"] == 800_000
    assert left(tmp_path) == ["a2.txt", "b2.txt"]


def test_a_whole_session_goes_only_when_that_is_asked_for(tmp_path: Path) -> None:
    old = session(tmp_path, "aaaa", ("a1", 100, 1), log_age=50)
    new = session(tmp_path, "bbbb", ("b1", 100, 1), log_age=2)
    (old.with_suffix("") / "notes").mkdir()
    assert found(tmp_path)["files"] == 0
    result = found(tmp_path, "--transcripts", "--yes")
    assert [one["session"] for one in result["sessions"]] == ["aaaa"]  # type: ignore[union-attr,index,call-overload]
    assert not old.exists() and not old.with_suffix("").exists() and new.exists()
    assert left(tmp_path) == ["b1.txt"]


HOLD = """
import sys
from pathlib import Path
from nacre.store.session_log import SessionLog
log = SessionLog.open(Path(sys.argv[1]), home=Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_session_that_another_process_has_open_keeps_everything(tmp_path: Path) -> None:
    log = session(tmp_path, "aaaa", ("a1", 100, 90), log_age=90)
    session(tmp_path, "bbbb", ("b1", 100, 90))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(log), str(tmp_path / "home")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=world(tmp_path),
    )  # fmt: skip
    assert holder.stdin is not None and holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "held\n"
        result = found(tmp_path, "--older-than", "1", "--max-size", "0", "--transcripts", "--yes")
        holder.stdin.close()
    assert result["in_use"] == ["aaaa"]
    assert left(tmp_path) == ["a1.txt"] and log.exists()


def test_what_an_open_branch_points_to_stays(tmp_path: Path) -> None:
    """C8: never while a live session points to it, also when it lies in another session's folder."""
    log = session(tmp_path, "aaaa", ("a1", 100, 90))
    home, wish = tmp_path / "home", PruneRequest(older_than=timedelta(days=1))
    with branch(log, "cccc", home=home):
        planned = plan(home, wish, SYSTEM_CLOCK.now())
        assert planned.goes == () and planned.in_use == ("aaaa", "cccc")
    planned = plan(home, wish, SYSTEM_CLOCK.now())
    assert [piece.path.name for piece in planned.goes] == ["a1.txt"]


def test_a_session_opened_after_it_was_shown_is_left_alone(tmp_path: Path) -> None:
    log = session(tmp_path, "aaaa", ("a1", 100, 90))
    home = tmp_path / "home"
    planned = plan(home, PruneRequest(older_than=timedelta(days=1)), SYSTEM_CLOCK.now())
    with SessionLog.open(log, home=home):
        done = prune(home, planned)
    assert done.gone == () and "aaaa is open" in done.failed[0] and left(tmp_path) == ["a1.txt"]


def test_sessions_of_another_program_in_the_same_home_are_not_ours_to_prune(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "projects" / "-x" / "theirs" / FOLDER
    folder.mkdir(parents=True)
    (folder / "toolu_1.txt").write_text("theirs")
    log = folder.parent.with_suffix(".jsonl")
    log.write_text("{}\n")
    for path in (folder / "toolu_1.txt", log):
        aged(path, 400)
    result = found(tmp_path, "--older-than", "0", "--max-size", "0", "--transcripts", "--yes")
    assert result["files"] == 0 and (folder / "toolu_1.txt").exists() and log.exists()
    assert result["foreign"] == {"sessions": 1, "bytes": 3}
    assert "1 session (0 kB) of another program: skipped.\n" in nacre(tmp_path, "gc").stdout


def test_a_session_that_was_imported_is_ours_to_prune(tmp_path: Path) -> None:
    """T7: its bytes are a copy; what was there already stays the other program's."""
    written(tmp_path / "a.jsonl", conversation())
    theirs = written(tmp_path / "home/projects/-x/0b000000-0000-4000-8000-000000000002.jsonl", conversation())
    for name in ("a.jsonl", str(theirs)):
        assert nacre(tmp_path, "sessions", "import", name).returncode == 0
    result = found(tmp_path)
    size = (tmp_path / "a.jsonl").stat().st_size
    assert (result["files"], result["kept_sessions"]) == (0, {"sessions": 1, "bytes": size})
    result = found(tmp_path, "--transcripts", "--older-than", "0", "--yes")
    assert [one["session"] for one in result["sessions"]] == [SESSION]  # type: ignore[union-attr,index,call-overload]
    assert theirs.exists()


def test_a_session_that_goes_takes_its_locks_along(tmp_path: Path) -> None:
    """C8: also those of the agents it had; those of a session that stays are kept."""
    old = session(tmp_path, "aaaa", ("a1", 100, 1), log_age=50)
    session(tmp_path, "bbbb")
    SessionLog.create_at(old.with_suffix("") / "subagents" / "agent-1.jsonl", home=tmp_path / "home").close()
    locks = tmp_path / "home" / "locks"
    assert len(list(locks.iterdir())) == 3
    found(tmp_path, "--transcripts", "--yes")
    assert [path.name[:5] for path in locks.iterdir()] == ["bbbb-"]


def test_half_written_files_of_killed_processes_go_after_a_day(tmp_path: Path) -> None:
    log = session(tmp_path, "aaaa", ("a1", 100, 0))
    folder = log.with_suffix("") / FOLDER
    for name, days in (("old", 2.0), ("young", 0.1)):
        (folder / f"{TEMP_PREFIX}{name}").write_text("ha")
        aged(folder / f"{TEMP_PREFIX}{name}", days)
    assert found(tmp_path, "--yes")["files"] == 1
    assert left(tmp_path) == [f"{TEMP_PREFIX}young", "a1.txt"]


def test_links_lead_nowhere_out_of_the_session(tmp_path: Path) -> None:
    log = session(tmp_path, "aaaa", log_age=90)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file.txt").write_text("mine")
    aged(precious / "file.txt", 90)
    folder = log.with_suffix("")
    folder.mkdir(exist_ok=True)
    (folder / FOLDER).symlink_to(precious)
    found(tmp_path, "--transcripts", "--older-than", "0", "--yes")
    assert (precious / "file.txt").read_text() == "mine" and not log.exists()


@pytest.mark.parametrize(
    "args",
    [
        ("--older-than", "-1"),
        ("--older-than", "1e12"),
        ("--older-than", "nan"),
        ("--max-size", "inf"),
        ("--max-size", "much"),
        ("--older-than",),
    ],
)
def test_odd_wishes_are_refused_in_one_line(tmp_path: Path, args: tuple[str, ...]) -> None:
    ran = nacre(tmp_path, "gc", *args)
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1
