"""`nacre sessions import` and `check`: every form is read, every problem told, nothing overwritten."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.cli.main import main
from nacre.errors import ForeignTranscript, TranscriptError
from nacre.inspect.import_sessions import ImportDestination, ImportedSession, check_file, import_file
from nacre.inspect.sources import SourceLimits
from nacre.messages.blocks import JsonObject
from nacre.messages.foreign import read_foreign
from nacre.messages.jsonl import decode
from nacre.messages.view import View
from nacre.store.session_log import SessionLog
from nacre.store.summaries import summarise
from tests.cli import recorded
from tests.cli.program import nacre
from tests.cli.recorded import PROJECT, SESSION, conversation, dumped, written

DATA = Path(__file__).parents[4] / "shared" / "data"
SETS = ("claude_code_sessions", "openhands_style_trajs", "swe_agent_trajs", "tau_bench")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder of recorded sessions is not here")

OPENAI_LIST: list[JsonObject] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Book a flight."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "book", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "booked"},
    {"role": "assistant", "content": "Done."},
]


@pytest.fixture
def place(home: Path, tmp_path: Path) -> ImportDestination:
    return ImportDestination(home=home, here=tmp_path)


def only(imported: list[ImportedSession]) -> ImportedSession:
    (one,) = imported
    return one


@pytest.mark.parametrize("packed", [False, True])
def test_a_claude_code_log_keeps_its_bytes_under_its_id_and_directory(
    place: ImportDestination, tmp_path: Path, packed: bool
) -> None:
    """T7: copied whole, plain or gzipped, to where its own directory's sessions lie."""
    source = written(tmp_path / f"anything.jsonl{'.gz' * packed}", conversation(), packed=packed)
    one = only(import_file(source, place))
    assert one.path == place.home / "projects" / "-srv-project" / f"{SESSION}.jsonl"
    assert one.path.read_bytes() == dumped(conversation())
    assert (one.session, one.records, one.messages, one.problems) == (SESSION, 4, 4, [])
    assert one.status == "imported" and one.path.stat().st_mode & 0o077 == 0


def test_the_same_log_again_is_left_alone_even_when_it_has_gone_on(
    place: ImportDestination, tmp_path: Path
) -> None:
    source = written(tmp_path / "a.jsonl", conversation())
    path = only(import_file(source, place)).path
    grown = dumped(conversation()) + dumped([recorded.user(5, "Thanks.")])
    path.write_bytes(grown)
    again = only(import_file(source, place))
    assert (again.status, again.path) == ("unchanged", path)
    assert path.read_bytes() == grown


def test_another_log_with_the_same_id_gets_a_new_one_and_the_same_one_every_time(
    place: ImportDestination, tmp_path: Path
) -> None:
    first = only(import_file(written(tmp_path / "a.jsonl", conversation()), place))
    other = written(tmp_path / "b.jsonl", [recorded.user(1, "Something else.")])
    second, third = only(import_file(other, place)), only(import_file(other, place))
    assert first.path.read_bytes() == dumped(conversation())
    assert second.status == "renamed" and second.session != SESSION and SESSION in second.notices[0]
    assert (third.status, third.session) == ("unchanged", second.session)
    assert second.path.read_bytes() == other.read_bytes()


def test_a_torn_last_line_is_put_aside_and_can_be_put_back(place: ImportDestination, tmp_path: Path) -> None:
    """T5, T8: the log holds whole lines only; no byte is lost."""
    whole, torn = dumped(conversation()), b'{"type":"user","uuid":"x","mess'
    source = tmp_path / "a.jsonl"
    source.write_bytes(whole + torn)
    one = only(import_file(source, place))
    assert one.path.read_bytes() == whole
    assert (one.path.with_suffix("") / "torn-1.bin").read_bytes() == torn
    assert [problem.kind for problem in one.problems] == ["torn_line"]
    assert only(import_file(source, place)).status == "unchanged"
    with SessionLog.open(one.path, home=place.home) as log:
        assert log.repaired is None


@given(cut=st.integers(min_value=1, max_value=len(dumped(conversation()))))
def test_a_log_cut_anywhere_is_read_or_refused_and_never_loses_a_byte(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    source = folder / "a.jsonl"
    source.write_bytes(dumped(conversation())[:cut])
    try:
        one = only(import_file(source, ImportDestination(home=folder / "home", here=folder)))
    except ForeignTranscript:
        assert not (folder / "home").exists()  # nothing was recognisable, and nothing was written
        return
    aside = sorted(one.path.with_suffix("").glob("torn-*.bin"))
    kept = one.path.read_bytes() + b"".join(path.read_bytes() for path in aside)
    assert kept == source.read_bytes()


def test_a_sub_agents_log_becomes_a_session_of_its_own(place: ImportDestination, tmp_path: Path) -> None:
    lines = [line | {"isSidechain": True} for line in conversation()]
    one = only(import_file(written(tmp_path / "agent-7f.jsonl", lines), place))
    assert one.session != SESSION
    view = View.of(decode(one.path.read_bytes().splitlines(keepends=True)).records)
    assert len(view.messages) == 5  # four, and one that hands the turn back to the model


def test_an_id_that_would_leave_the_folder_is_replaced(place: ImportDestination, tmp_path: Path) -> None:
    lines = [line | {"sessionId": "../../../etc/passwd"} for line in conversation()]
    one = only(import_file(written(tmp_path / "a.jsonl", lines), place))
    assert one.path.parent == place.home / "projects" / "-srv-project"
    assert one.status == "renamed" and "cannot be a session id" in one.notices[0]


def test_a_directory_can_be_given_and_foreign_ones_are_not_looked_up(home: Path, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [line | {"cwd": "C:\\work\\x"} for line in conversation()])
    one = only(import_file(source, ImportDestination(home=home / "1", here=tmp_path)))
    assert one.path.parent.name == "C--work-x"
    given_one = only(
        import_file(source, ImportDestination(home=home / "2", here=tmp_path, cwd=Path("/else/where")))
    )
    assert given_one.path.parent.name == "-else-where"


def test_a_foreign_list_is_written_in_our_form_and_reads_back_the_same(
    place: ImportDestination, tmp_path: Path
) -> None:
    source = tmp_path / "list.json"
    source.write_text(json.dumps(OPENAI_LIST))
    one = only(import_file(source, place))
    (expected,) = read_foreign(source.read_bytes(), name="list.json")
    loaded = decode(one.path.read_bytes().splitlines(keepends=True), session_id=one.session)
    assert loaded.records == expected.records
    assert [problem.kind for problem in one.problems] == ["made_up_times"]
    assert (one.form, one.messages, summarise(one.path).messages) == ("openai-messages", 4, 4)


def test_one_file_may_hold_many_sessions(place: ImportDestination, tmp_path: Path) -> None:
    source = tmp_path / "runs.jsonl.gz"
    source.write_bytes(
        gzip.compress(b"\n".join(json.dumps({"traj": OPENAI_LIST}).encode() for _ in range(3)))
    )
    imported = import_file(source, place)
    assert len({one.session for one in imported}) == 3
    assert [one.status for one in import_file(source, place)] == ["unchanged"] * 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (bytes(4_000), "binary"),
        (os.urandom(64) * 9 + b"\n", "not a transcript"),
        (b"hello there\n", "not a transcript"),
        (b'{"a": 1}\n', "not a transcript"),
        (b"PK\x03\x04 and so on", "zip archive"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(dumped(conversation()) * 50, mtime=0)[:300], "truncated"),
        (gzip.compress(dumped(conversation()), mtime=0)[:40] + b"damage" * 9, "compressed"),
    ],
)
def test_what_is_no_transcript_is_refused_in_one_line_and_nothing_is_written(
    place: ImportDestination, tmp_path: Path, content: bytes, said: str
) -> None:
    source = tmp_path / "file"
    source.write_bytes(content)
    with pytest.raises(TranscriptError, match=said) as refused:
        import_file(source, place)
    assert str(source) in str(refused.value) and "\n" not in str(refused.value)
    assert not list(place.home.rglob("*.*"))
    with pytest.raises(TranscriptError, match=said):
        check_file(source)


def test_a_fifo_a_directory_and_a_missing_file_are_refused_without_waiting(
    place: ImportDestination, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, said in (("fifo", "not a regular file"), (".", "a directory"), ("gone", "there is no file")):
        with pytest.raises(TranscriptError, match=said):
            import_file(tmp_path / name, place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(place: ImportDestination, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", conversation())
    source.chmod(0)
    with pytest.raises(TranscriptError, match="no permission"):
        import_file(source, place)


def test_a_file_that_unpacks_to_too_much_is_refused_and_leaves_nothing(
    place: ImportDestination, tmp_path: Path
) -> None:
    """A small packed file must not be able to fill the disk."""
    bomb = written(tmp_path / "bomb.jsonl.gz", conversation() * 5_000, packed=True)
    limits = SourceLimits(max_unpacked=1_000_000)
    assert bomb.stat().st_size < 200_000
    with pytest.raises(TranscriptError, match="unpacks to more than 1,000,000 bytes"):
        import_file(bomb, place, limits=limits)
    assert not [path for path in place.home.rglob("*") if path.is_file()]


def test_a_file_packed_to_burst_is_refused_by_its_ratio(place: ImportDestination, tmp_path: Path) -> None:
    """Lines of nothing take long to read and little to pack: the sum alone would stop them too late."""
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(dumped(conversation()) + b"\n" * 1_000_000))
    with pytest.raises(TranscriptError, match="200 times its size"):
        import_file(bomb, place, limits=SourceLimits(ratio_from=100_000))
    assert not [path for path in place.home.rglob("*") if path.is_file()]


def test_a_single_line_without_end_is_refused(place: ImportDestination, tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", [recorded.user(1, "x" * 5_000)])
    with pytest.raises(TranscriptError, match="a line of more than 1,000 bytes"):
        import_file(source, place, limits=SourceLimits(max_line=1_000))


def test_zeros_that_a_crash_left_behind_do_not_hide_the_log(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(dumped(conversation()) + bytes(500))
    form, (found,) = check_file(source)
    assert form == "claude-code" and found.messages == 4
    assert [problem.kind for problem in found.problems] == ["torn_line"]


def test_check_tells_lines_chain_and_pairing_all_at_once(tmp_path: Path) -> None:
    """T5, T6."""
    lines = dumped(conversation()).splitlines(keepends=True)
    odd = dumped(
        [
            recorded.user(3, "again"),
            recorded.user(5, [recorded.result("toolu_none", "whose?")]),
            recorded.assistant(6, [recorded.call("toolu_2", "Bash", command="ls")]),
            recorded.user(7, "go on"),
            recorded.assistant(8, [recorded.call("toolu_3", "Read")]),
        ]
    )
    source = tmp_path / "a.jsonl"
    source.write_bytes(b"".join([*lines, b"not json\n", odd]))
    _, (found,) = check_file(source)
    assert {(problem.kind, problem.where) for problem in found.problems} == {
        ("bad_line", "line 5"),
        ("repeated_id", recorded.uuid(3)),
        ("orphan_result", "toolu_none"),
        ("call_without_result", "toolu_2"),
        ("open_call", "toolu_3"),
    }


def test_what_check_keeps_of_long_texts_changes_no_finding(tmp_path: Path) -> None:
    """T9: a log is checked by its structure, so a large one finds the same as a small one."""
    long = [*conversation(), recorded.user(5, " " * 900), recorded.user(6, "y" * 9_000)]
    source = written(tmp_path / "a.jsonl", long)
    _, (found,) = check_file(source)
    loaded = decode(source.read_bytes().splitlines(keepends=True))
    assert found.problems == [*loaded.problems, *View.of(loaded.records).problems]
    assert [problem.kind for problem in found.problems] == ["blank_text", "blank_text"]


def test_the_commands_print_the_documented_shapes(tmp_path: Path) -> None:
    """The real program, from import to check to list."""
    written(tmp_path / "a.jsonl", conversation())
    done = nacre(tmp_path, "sessions", "import", "a.jsonl", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [found[name] for name in ("session", "records", "messages", "problems")] == [SESSION, 4, 4, []]
    assert found["sessions"][0]["status"] == "imported"
    checked = nacre(tmp_path, "sessions", "check", SESSION[:5])
    assert (checked.returncode, checked.stdout) == (
        0,
        f"{SESSION}.jsonl (claude-code): 4 records, 4 messages, no problems\n",
    )
    listed = json.loads(nacre(tmp_path, "sessions", "list", "--all", "--json").stdout)
    names = ("session", "cwd", "started", "messages", "tokens", "compactions")
    assert [[row[name] for name in names] for row in listed] == [
        [SESSION, PROJECT, "2026-01-05T10:00:01+00:00", 4, 4_100, 0]
    ]


def test_one_bad_file_does_not_keep_the_good_ones_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "good.jsonl", conversation())
    (tmp_path / "bad").write_text("no")
    assert main(["sessions", "import", "bad", "good.jsonl", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["session"] == SESSION
    assert [error["file"] for error in json.loads(out)["errors"]] == ["bad"]
    assert err.count("\n") == 1 and err.startswith("nacre: bad is not a transcript")
    assert main(["sessions", "import", "bad", "--json"]) == 1
    assert capsys.readouterr().out == ""
    assert main(["sessions", "import"]) == 2


def test_a_folder_is_imported_with_all_below_it_and_told_in_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """T7: what is no transcript is passed over, a damaged file is told, sub-agents are no sessions."""
    monkeypatch.chdir(tmp_path)
    logs = tmp_path / "logs"
    for number in range(12):
        name = f"{SESSION[:-2]}{number + 10}"
        lines = [line | {"sessionId": name} for line in conversation()]
        written(logs / "deep" / f"{name}.jsonl", lines, packed=number % 2 == 0)
    written(logs / "deep" / SESSION / "subagents" / "agent-1.jsonl", conversation())
    (logs / "package.json").write_text('{"name": "shop"}')
    (logs / "torn.jsonl.gz").write_bytes(gzip.compress(dumped(conversation()))[:-20])
    assert main(["sessions", "import", "logs"]) == 1
    out, err = capsys.readouterr()
    assert "... and 2 more sessions\n12 imported\n" in out
    assert err.splitlines() == [
        "nacre: logs/torn.jsonl.gz is compressed and truncated; copy it again",
        "nacre: skipped, because they contain no transcript: package.json",
        "nacre: skipped: 1 log of sub-agents; name one to import it",
    ]
    (logs / "torn.jsonl.gz").unlink()
    assert main(["sessions", "import", "logs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["status"] for each in found["sessions"]] == ["unchanged"] * 12
    assert (found["passed_over"], found["subagents_left_out"]) == (["logs/package.json"], 1)
    (tmp_path / "empty").mkdir()
    assert main(["sessions", "import", "empty"]) == 1
    assert capsys.readouterr().err.startswith("nacre: empty holds no transcript; ")


def test_check_exits_with_one_when_there_is_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(dumped(conversation()) + b"{torn")
    assert main(["sessions", "check", "a.jsonl", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["format"], found["messages"]) == (False, "claude-code", 4)
    assert found["problems"][0] | {"session": None} == {
        "kind": "torn_line",
        "where": "line 5",
        "message": "the last line was cut off and is left out",
        "session": None,
    }
    assert main(["sessions", "check", "a.jsonl"]) == 1
    assert capsys.readouterr().out.startswith(
        "line 5: the last line was cut off and is left out [torn_line]\n"
    )
    assert main(["sessions", "check", "nowhere"]) == 1


def _recorded_files() -> list[Path]:
    return sorted(path for name in SETS for path in (DATA / name).rglob("*.gz"))


@needs_data
@pytest.mark.real_data
@pytest.mark.parametrize("name", SETS)
@pytest.mark.slow
def test_every_recorded_session_imports_with_all_it_holds(home: Path, tmp_path: Path, name: str) -> None:
    """T5, T7: counts agree with a listing, views with the recording, and raw logs with their bytes."""
    for source in (path for path in _recorded_files() if name in path.parts):
        imported = import_file(source, ImportDestination(home=home, here=tmp_path))
        data = gzip.decompress(source.read_bytes())
        recordings = read_foreign(data, name=source.name.removesuffix(".gz"))
        assert len(imported) == len(recordings), source
        for one, recording in zip(imported, recordings, strict=True):
            assert one.status == "imported"
            assert one.records == len(recording.records)
            assert one.messages == summarise(one.path).messages, source
            view = View.of(recording.records)
            unread = [
                problem for problem in (*recording.problems, *view.problems) if problem not in one.problems
            ]
            assert not unread, source
            loaded = decode(one.path.read_bytes().splitlines(keepends=True), session_id=one.session)
            assert View.of(loaded.records).messages == view.messages, source
            if one.form == "claude-code":
                assert one.path.read_bytes() == data


@needs_data
@pytest.mark.real_data
def test_every_raw_session_is_checked_as_it_is_read() -> None:
    for source in sorted((DATA / "claude_code_sessions" / "raw").glob("*.gz")):
        form, (found,) = check_file(source)
        loaded = decode(gzip.decompress(source.read_bytes()).splitlines(keepends=True))
        assert form == "claude-code" and found.records == len(loaded.records)
        assert found.problems[: len(loaded.problems)] == loaded.problems
