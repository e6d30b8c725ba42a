"""`nacre stats`: the figures are the logs', the history's and the ledger's; what they cannot tell is said."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nacre.cache.models import cost, profile
from nacre.cli.main import main
from nacre.cli.sessions.stats import COLUMNS
from nacre.clock import SYSTEM_CLOCK
from nacre.inspect import stats as gathering
from nacre.memory.files.location import MemoryPaths, locate
from nacre.memory.recall.usage import EventKind, UsageEvent, record
from nacre.messages.blocks import JsonObject
from nacre.messages.jsonl_encode import Envelope, encode
from nacre.messages.records import Noted
from nacre.messages.usage import Usage
from nacre.store.home import slug
from tests.cli.program import nacre, world
from tests.cli.recorded import SESSION, assistant, compacted, text, user, written

Capture = pytest.CaptureFixture[str]
ONE_REPLY = Usage(input=10, cache_write=1_000, cache_read=3_000, output=90)
OTHER = SESSION[:-1] + "2"


def ago(days: int) -> datetime:
    return SYSTEM_CLOCK.now() - timedelta(days=days)


def day(days: int) -> str:
    return ago(days).astimezone().date().isoformat()


def placed(home: Path, cwd: Path, lines: list[JsonObject], *, days: int = 0, session: str = SESSION) -> Path:
    at = ago(days).isoformat().replace("+00:00", "Z")
    mine = [line | {"cwd": str(cwd), "sessionId": session, "timestamp": at} for line in lines]
    path = written(home / "projects" / slug(str(cwd)) / f"{session}.jsonl", mine)
    os.utime(path, (ago(days).timestamp(), ago(days).timestamp()))
    return path


def told(capture: Capture, *args: str) -> Any:
    capture.readouterr()
    assert main(["stats", *args, "--json"]) == 0
    return json.loads(capture.readouterr().out)


def memory(capture: Capture, *args: str) -> Any:
    capture.readouterr()
    assert main(["memory", *args, "--json"]) == 0
    return json.loads(capture.readouterr().out)


def counted(home: Path, cwd: Path, *events: tuple[str, EventKind, int]) -> None:
    location = locate(MemoryPaths(home=home, cwd=cwd))
    asyncio.run(
        record(
            location,
            [UsageEvent(file=file, kind=kind, at=ago(days), tokens=7) for file, kind, days in events],
        )
    )


def test_nothing_is_told_of_nothing_and_leaves_no_trace(home: Path, here: Path, capsys: Capture) -> None:
    found = told(capsys)
    assert (found["requests"], found["hit_rate"], found["compactions_per_100_requests"]) == (0, None, None)
    assert found["by_day"] == []
    assert set(found["memories"]["shares"].values()) == {None}
    assert found["unknown"]
    assert main(["stats"]) == 0
    assert "No request and no change of memory" in capsys.readouterr().out
    assert list(home.iterdir()) == []


def test_tokens_money_hits_and_compactions_are_the_logs(home: Path, here: Path, capsys: Capture) -> None:
    """The contract of `nacre stats`: tokens, money, cache hit rate, compactions per 100 requests, by day."""
    placed(home, here, compacted(), days=1)
    placed(home, here, [user(1, "and now?"), assistant(8, [text("Yes.")])], session=OTHER)
    found = told(capsys)
    price = cost(profile("claude-opus-4-5-20251101"), ONE_REPLY)
    assert price is not None
    sums = {key: found[key] for key in ("sessions", "requests", "input_tokens", "cache_read", "cache_write")}
    assert sums == {
        "sessions": 2,
        "requests": 3,
        "input_tokens": 30,
        "cache_read": 9_000,
        "cache_write": 3_000,
    }
    assert (found["output_tokens"], found["cost_usd"]) == (270, pytest.approx(3 * price, abs=1e-6))
    assert found["hit_rate"] == pytest.approx(3_000 / 4_010, abs=1e-4)
    assert (found["compactions"], found["compactions_per_100_requests"]) == (1, 33.33)
    assert [(each["day"], each["requests"], each["compactions"]) for each in found["by_day"]] == [
        (day(1), 2, 1),
        (day(0), 1, 0),
    ]


def test_other_settings_are_tried_on_the_logs_without_a_request(
    home: Path, here: Path, capsys: Capture
) -> None:
    """P7: your settings first, then the changes with an effect; the others are named."""
    placed(home, here, compacted(), days=1)
    placed(home, here, [user(1, "and now?"), assistant(8, [text("Yes.")])], session=OTHER)
    assert main(["stats", "--what-if"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 sessions, claude-opus-4-5-20251101, window 200,000")
    rows = [line.split("  ")[0] for line in said.split("\n\n")[1].splitlines()]
    assert rows[:2] == ["setting", "your settings"] and "extract.mode off" in rows
    assert "No difference: " in said and max(map(len, said.splitlines())) <= 80
    found = told(capsys, "--what-if")
    assert found["policies"][0]["policy"] == "your settings"
    assert len(found["policies"]) > len(rows) - 1
    assert main(["stats", "--what-if", "--days", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 session,")


def test_other_settings_of_no_session_are_an_error_of_one_line(
    home: Path, here: Path, capsys: Capture
) -> None:
    assert main(["stats", "--what-if"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_what_kept_the_cache_warm_is_counted_and_told_apart(home: Path, here: Path, capsys: Capture) -> None:
    """C8b: its own line, within the sums."""
    model, usage = "claude-sonnet-5-5", Usage(cache_read=50_000)
    facts: JsonObject = {"purpose": "keep_warm", "model": model, "usage": usage.as_json()}
    noted = Noted(id="note-1", at=ago(0), kind="side_query", facts=facts)
    note = json.loads(encode(noted, envelope=Envelope(session_id=SESSION, cwd=str(here)), parent=None))
    placed(home, here, [user(1, "hello"), assistant(8, [text("Yes.")]), note])
    found = told(capsys)
    price = cost(profile(model), usage)
    assert (found["requests"], found["refreshes"], found["refresh_cost_usd"]) == (2, 1, price)
    assert main(["stats"]) == 0
    assert "kept the cache warm 1 times for $0.0050 of that" in capsys.readouterr().out


def test_forks_are_counted_by_purpose_with_what_they_read_from_the_cache(
    home: Path, here: Path, capsys: Capture
) -> None:
    """F4: forks, requests, tokens, money and the three shares; within the sums."""
    model = "claude-sonnet-5-5"
    asked = [
        ("extract_memories", "f1", Usage(cache_read=900, cache_write=60, input=40, output=5)),
        ("extract_memories", "f1", Usage(cache_read=1_000, output=5)),
        ("extract_memories", "f2", Usage(cache_read=1_000, output=5)),
        ("session_memory", "f3", Usage(cache_write=10, output=1)),
        ("selector", None, Usage(input=2)),
    ]
    notes: list[JsonObject] = []
    for number, (purpose, fork, usage) in enumerate(asked):
        facts: JsonObject = {"purpose": purpose, "model": model, "usage": usage.as_json(), "fork": fork}
        noted = Noted(id=f"note-{number}", at=ago(0), kind="side_query", facts=facts)
        envelope = Envelope(session_id=SESSION, cwd=str(here))
        notes.append(json.loads(encode(noted, envelope=envelope, parent=None)))
    placed(home, here, [user(1, "hello"), assistant(8, [text("Yes.")]), *notes])
    found = told(capsys)
    beside = [(each["purpose"], each["forks"], each["requests"]) for each in found["beside"]]
    assert beside == [("extract_memories", 2, 3), ("session_memory", 1, 1), ("selector", 0, 1)]
    first = found["beside"][0]
    assert first["cache_shares"] == {
        "read": round(2_900 / 3_000, 4),
        "creation": round(60 / 3_000, 4),
        "input": round(40 / 3_000, 4),
    }
    price = sum(cost(profile(model), usage) or 0.0 for name, _, usage in asked if name == "extract_memories")
    assert (first["output_tokens"], first["cost_usd"]) == (15, pytest.approx(price, abs=1e-6))
    assert found["requests"] == 6
    assert main(["stats"]) == 0
    line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("extract_memories"))
    assert line.split()[1:3] == ["2", "3"]
    assert line.split()[5:8] == ["97%", "2%", "1%"]


def test_only_the_days_that_are_asked_for_count(home: Path, here: Path, capsys: Capture) -> None:
    placed(home, here, [assistant(1, [text("Old.")])], days=9)
    # The log was written to today, but what it holds is older.
    os.utime(placed(home, here, [assistant(2, [text("Odd.")])], days=8, session=OTHER))
    assert told(capsys, "--days", "3")["requests"] == 0
    assert told(capsys, "--days", "9")["requests"] == 1
    assert told(capsys, "--days", "10")["requests"] == 2
    assert main(["stats", "--days", "0"]) == 2


def test_a_reply_in_pieces_or_in_two_logs_counts_once(home: Path, here: Path, capsys: Capture) -> None:
    pieces = [assistant(1, [text("One")]), assistant(2, [text("reply.")])]
    message = pieces[1]["message"]
    assert isinstance(message, dict)
    message["id"] = "msg_1"
    log = placed(home, here, pieces)
    branched = log.with_name(f"{OTHER}.jsonl")
    branched.write_text(log.read_text().replace(SESSION, OTHER))
    found = told(capsys)
    assert (found["requests"], found["sessions"]) == (1, 1)


def test_the_same_question_in_two_sessions_was_asked_twice(tmp_path: Path) -> None:
    """The embedded engine names its replies by the request, and some servers use a name again."""
    for _ in range(2):
        assert nacre(tmp_path, "-p", "hello").returncode == 0
    found = json.loads(nacre(tmp_path, "stats", "--json").stdout)
    assert (found["requests"], found["sessions"]) == (2, 2)
    assert [each["requests"] for each in found["by_day"]] == [2]


def test_other_directories_count_only_when_asked_for(
    home: Path, here: Path, tmp_path: Path, capsys: Capture
) -> None:
    placed(home, tmp_path / "elsewhere", [assistant(1, [text("Hi.")])])
    assert told(capsys)["requests"] == 0
    assert told(capsys, "--all")["requests"] == 1


def test_a_model_without_a_price_and_damaged_lines_are_owned_up_to(
    home: Path, here: Path, capsys: Capture
) -> None:
    line = assistant(1, [text("Hi.")])
    assert isinstance(line["message"], dict)
    line["message"]["model"] = "nobody-knows-9"
    log = placed(home, here, [line])
    log.write_bytes(log.read_bytes() + b'{"usage" torn\n\xff"compact_boundary"\n{"type": "assistant", "usa')
    found = told(capsys)
    assert (found["requests"], found["cost_usd"], found["unpriced_requests"]) == (1, None, 1)
    assert any("without a known price" in line for line in found["unknown"])


def test_reading_stops_at_a_bound_and_says_so(
    home: Path, here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(home, here, [assistant(1, [text("Old.")])], days=2)
    log = placed(home, here, [assistant(2, [text("New.")])], session=OTHER)
    monkeypatch.setattr(gathering, "MAX_BYTES", log.stat().st_size)
    found = told(capsys)
    assert (found["requests"], found["unread_sessions"]) == (1, 1)
    assert found["by_day"][0]["day"] == day(0)
    assert any("too much to read" in line for line in found["unknown"])


def test_memories_saved_forgotten_and_undone_are_the_historys(
    home: Path, here: Path, capsys: Capture
) -> None:
    """The contract of `nacre stats`: saved, forgotten by day, share undone."""
    memory(capsys, "save", "Tea is green.", "--name", "Tea")
    memory(capsys, "save", "The parser is slow.", "--name", "Parser")
    memory(capsys, "save", "I like plums.", "--name", "Plums", "--scope", "user")
    undone = memory(capsys, "save", "Deploys are on Monday.", "--name", "Deploys")["commit"]
    memory(capsys, "undo", undone)
    memory(capsys, "forget", "project_parser.md")
    memory(capsys, "move", "project_tea.md", "--to", "user")
    found = told(capsys)
    (today,) = found["by_day"]
    assert {key: today[key] for key in ("day", "saved", "forgotten", "requests")} == {
        "day": day(0), "saved": 4, "forgotten": 1, "requests": 0,
    }  # fmt: skip
    memories = found["memories"]
    assert (memories["undone"], memories["rejected"]) == (1, 0)
    assert memories["shares"] == {"undone": 0.25, "contradicted": None, "rejected": 0.0, "any": 0.25}
    assert told(capsys, "--all")["memories"] == memories


def test_an_undo_that_is_undone_has_taken_nothing_back(home: Path, here: Path, capsys: Capture) -> None:
    saved = memory(capsys, "save", "Tea is green.", "--name", "Tea")["commit"]
    memory(capsys, "undo", memory(capsys, "undo", saved)["commit"])
    assert told(capsys)["memories"]["undone"] == 0


@pytest.mark.slow
def test_what_a_person_forgets_of_an_agents_memories_was_rejected(tmp_path: Path) -> None:
    def ran(*args: str) -> Any:
        done = nacre(tmp_path, *args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ran("-p", "remember that the parser of pears is slow", "--output-format", "json")
    (kept,) = ran("memory", "list", "--json")
    assert ran("stats", "--json")["memories"]["shares"]["rejected"] == 0.0
    ran("memory", "forget", kept["file"], "--json")
    shares = ran("stats", "--json")["memories"]["shares"]
    assert (shares["rejected"], shares["any"]) == (1.0, 1.0)


def test_recalls_and_contradictions_are_the_ledgers(home: Path, here: Path, capsys: Capture) -> None:
    """The contract of `nacre stats`: recalled by day, share contradicted."""
    memory(capsys, "save", "Tea is green.", "--name", "Tea")
    counted(
        home,
        here,
        ("project_tea.md", "attached", 0),
        ("project_tea.md", "cited", 0),
        ("gone.md", "attached", 2),
    )
    counted(
        home, here, ("project_tea.md", "attached", 0), ("gone.md", "contradicted", 0), ("x.md", "offered", 0)
    )
    counted(home, here, ("old.md", "attached", 90))
    found = told(capsys)
    assert [(each["day"], each["recalled"]) for each in found["by_day"]] == [(day(2), 1), (day(0), 2)]
    memories = found["memories"]
    assert {key: memories[key] for key in ("recalled", "cited", "contradicted")} == {
        "recalled": 3, "cited": 1, "contradicted": 1,
    }  # fmt: skip
    assert memories["shares"] == {"undone": 0.0, "contradicted": 0.5, "rejected": 0.0, "any": 0.5}


def test_a_damaged_history_costs_its_own_figures_only(home: Path, here: Path, capsys: Capture) -> None:
    placed(home, here, [assistant(1, [text("Hi.")])])
    memory(capsys, "save", "Tea is green.", "--name", "Tea")
    location = locate(MemoryPaths(home=home, cwd=here))
    for path in (location.history / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"garbage")
    found = told(capsys)
    assert found["requests"] == 1
    assert any("cannot be read" in line for line in found["unknown"])


def test_people_get_a_table_with_a_last_line_for_all_and_what_is_not_known(
    home: Path, here: Path, capsys: Capture
) -> None:
    placed(home, here, compacted(), days=1)
    counted(home, here, ("project_tea.md", "attached", 0))
    capsys.readouterr()
    assert main(["stats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [*COLUMNS]
    assert [line.split()[0] for line in lines[1:3]] == [day(1), day(0)]
    assert lines[3].split()[:4] == ["in", "all", "2", "8.0k"]
    assert "1 session, 50.0 compactions per 100 requests" in lines
    assert lines[-1].startswith("- ")


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    placed(tmp_path / "home", tmp_path, [assistant(1, [text("Hi.")])])
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nacre", "stats", "--json"]
    env = world(tmp_path, TERM="xterm")
    try:
        out = subprocess.run(
            command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=theirs, check=True
        )
        assert json.loads(out.stdout)["requests"] == 1
        assert b"reading sessions" in os.read(ours, 10_000)
    finally:
        os.close(ours)
        os.close(theirs)
    quiet = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)
    assert quiet.stderr == b""
