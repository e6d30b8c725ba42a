"""`nacre sessions list`, `show`, `search` and `export`: what a person and a program get to see."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nacre.cli.main import main
from nacre.errors import StoreError
from nacre.inspect.export import markdown, new_file
from nacre.messages.blocks import JsonObject
from nacre.messages.jsonl import decode
from nacre.session import read_session as looking
from nacre.store import lease
from nacre.store.home import slug
from nacre.store.summaries import summarise
from tests.cli import recorded
from tests.cli.program import nacre
from tests.cli.recorded import SESSION, compacted, conversation, written

OTHER = "0b000000-0000-4000-8000-000000000002"


def placed(home: Path, cwd: Path, lines: list[JsonObject], *, session: str = SESSION) -> Path:
    mine = [line | {"cwd": str(cwd), "sessionId": session} for line in lines]
    return written(home / "projects" / slug(str(cwd)) / f"{session}.jsonl", mine)


def test_the_list_is_of_this_directory_unless_all_are_wanted(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(home, here, conversation())
    placed(home, Path("/else"), conversation(), session=OTHER)
    assert main(["sessions", "list", "--json"]) == 0
    assert [row["session"] for row in json.loads(capsys.readouterr().out)] == [SESSION]
    assert main(["sessions", "list", "--all", "--json"]) == 0
    assert {row["session"]: row["cwd"] for row in json.loads(capsys.readouterr().out)} == {
        SESSION: str(here),
        OTHER: "/else",
    }
    main(["sessions", "list"])
    assert capsys.readouterr().out.splitlines() == [
        "session   used  messages  tokens  compacted  title",
        "0a000000  now          4    4.1k          -  Where is the parser of pears?",
    ]


def test_an_empty_list_says_so_and_is_an_empty_document(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sessions", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["sessions", "list"]) == 0
    assert "There are no sessions in" in capsys.readouterr().out


def test_ids_are_shown_as_long_as_needed_to_tell_them_apart(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = SESSION[:-1] + "9"
    placed(home, here, conversation())
    placed(home, here, conversation(), session=twin)
    main(["sessions", "list"])
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]} == {SESSION, twin}


def test_show_tells_who_said_what_with_calls_and_results_in_one_line(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(home, here, conversation())
    asked = datetime(2026, 1, 5, 10, 0, 1, tzinfo=UTC).astimezone()  # people see their own time
    answered = asked + timedelta(seconds=1)
    assert main(["sessions", "show", "0a00"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "",
        f"user  {asked:%Y-%m-%d %H:%M:%S}  #1",
        "  Where is the parser of pears?",
        "",
        f"assistant  {answered:%Y-%m-%d %H:%M:%S}  #2",
        "  I will look.",
        "  -> Grep(pattern=pear, path=src)",
        "  <- src/pear.py:1:def parse src/pear.py:9:def parse_all  (2 lines)",
        "  In src/pear.py.",
    ]


def test_show_is_the_present_view_and_full_is_everything(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C23: originals stay in the log, and can be seen."""
    aside = recorded.user(8, "to the helper", isSidechain=True)
    placed(home, here, [*compacted(), aside, {"type": "summary", "summary": "Pears", "leafUuid": "x"}])
    main(["sessions", "show", "latest"])
    short = capsys.readouterr()
    assert "of 155,000 tokens was compacted" in short.out and "And of plums?" in short.out
    assert "I will look." not in short.out and "to the helper" not in short.out
    assert "1 compaction replaced is omitted" in short.err
    main(["sessions", "show", "--full", "latest"])
    full = capsys.readouterr()
    assert all(
        said in full.out for said in ("I will look.", "def parse_all", "(sub-agent)", "noted foreign/")
    )
    assert full.err == ""


def test_show_as_json_is_the_request_or_all_records(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = placed(home, here, compacted())
    main(["sessions", "show", SESSION, "--json"])
    view = json.loads(capsys.readouterr().out)
    assert view["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The parser of pears is in src/pear.py."},
                {"type": "text", "text": "And of plums?"},
            ],
        }
    ]
    main(["sessions", "show", SESSION, "--json", "--full"])
    everything = json.loads(capsys.readouterr().out)
    loaded = decode(path.read_bytes().splitlines(keepends=True))
    assert [row["id"] for row in everything["records"]] == [record.id for record in loaded.records]
    assert [row["record"] for row in everything["records"]] == ["Said"] * 4 + ["Compacted", "Said"]


@pytest.mark.parametrize("args", [[], ["--full"], ["--full", "--json"]])
def test_a_log_too_large_to_fold_is_shown_record_by_record(
    home: Path,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
) -> None:
    """T9. Patched: a log of the real limit would take minutes to write."""
    path = placed(home, here, conversation())
    monkeypatch.setattr(looking.read_view, "__kwdefaults__", {"most": 10})
    monkeypatch.setattr(looking.read_log, "__kwdefaults__", {"most": 10})
    assert looking.read_view(path) is None and looking.read_log(path) is None
    assert main(["sessions", "show", SESSION, *args]) == 0
    out = capsys.readouterr().out
    assert "I will look." in out and "In src/pear.py." in out
    if "--json" in args:
        assert len(json.loads(out)["records"]) == 4


def test_show_leaves_a_session_that_is_open_elsewhere_alone(home: Path, here: Path) -> None:
    path = placed(home, here, conversation())
    before = path.read_bytes(), path.stat().st_mtime_ns
    held = lease.take(home, path)
    try:
        assert main(["sessions", "show", SESSION]) == 0
        assert main(["sessions", "export", SESSION]) == 0
    finally:
        held.release()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert not path.with_suffix("").exists()


def test_text_cannot_repaint_the_terminal(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placed(home, here, [recorded.user(1, "a\x1b[2Jb"), recorded.assistant(2, [recorded.text("c\rd")])])
    main(["sessions", "show", SESSION])
    main(["sessions", "show", SESSION, "--full"])
    main(["sessions", "search", "a"])
    assert "\x1b" not in capsys.readouterr().out


def test_search_finds_or_exits_with_one(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """T7."""
    placed(home, here, conversation())
    placed(home, Path("/else"), [recorded.user(1, "quinces only")], session=OTHER)
    assert main(["sessions", "search", "PARSER OF"]) == 0
    assert capsys.readouterr().out == "0a000000 #1  user: Where is the parser of pears?\n"
    assert main(["sessions", "search", "PARSER OF", "--case"]) == 1
    assert "--all looks in every directory" in capsys.readouterr().err
    assert main(["sessions", "search", "quinces"]) == 1
    assert main(["sessions", "search", "qu.nces", "--regex", "--all", "--json"]) == 0
    (hit,) = json.loads(capsys.readouterr().out)
    assert (hit["session"], hit["line"], hit["role"], hit["snippet"]) == (OTHER, 1, "user", "quinces only")
    assert main(["sessions", "search", "nowhere at all", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == []
    assert main(["sessions", "search", "(", "--regex"]) == 1


def test_a_hit_has_the_number_that_show_prints_unless_it_is_out_of_view(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """T7, C23: one numbering for `search`, `show` and `compact --from`."""
    more = [recorded.assistant(8, [recorded.text("Nowhere.")]), recorded.user(9, "and now the pears again")]
    placed(home, here, [*compacted(), *more])
    main(["sessions", "show", SESSION])
    shown = capsys.readouterr().out
    assert main(["sessions", "search", "pears", "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)
    main(["sessions", "search", "pears"])
    lines = capsys.readouterr().out.splitlines()
    for hit, line in zip(hits, lines, strict=True):
        number = hit["number"]
        assert line.startswith(f"0a000000 #{number}  " if number else f"0a000000 line {hit['line']}  ")
    assert [hit["number"] for hit in hits] == [None, 1, 4]
    assert "#4\n  and now the pears again" in shown


def test_what_the_program_added_is_searched_only_when_asked_for(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """T7: the memories ahead of every conversation are in every log, and nobody said them."""
    added = recorded.user(1, "<system-reminder>the index: salt, pepper</system-reminder>") | {"isMeta": True}
    placed(home, here, [added, recorded.user(2, "Pass me the salt.")])
    assert main(["sessions", "search", "salt"]) == 0
    assert capsys.readouterr().out == "0a000000 #2  user: Pass me the salt.\n"
    assert main(["sessions", "search", "pepper"]) == 1
    capsys.readouterr()
    assert main(["sessions", "search", "pepper", "--added"]) == 0
    assert capsys.readouterr().out.startswith("0a000000 #1  user: <system-reminder>the index")


def test_export_as_jsonl_is_the_log_byte_for_byte(home: Path, here: Path) -> None:
    path = placed(home, here, compacted())
    path.write_bytes(path.read_bytes() + b'{"torn')
    assert main(["sessions", "export", SESSION, "--format", "jsonl", "-o", "out.jsonl"]) == 0
    assert Path("out.jsonl").read_bytes() == path.read_bytes()


def test_export_never_replaces_a_file_unless_told(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(home, here, conversation())
    Path("mine.md").write_text("precious")
    for target, said in (
        ("mine.md", "--force"),
        (".", "directory"),
        ("no/where.md", "there is no directory"),
    ):
        assert main(["sessions", "export", SESSION, "-o", target]) == 1
        assert said in capsys.readouterr().err
    assert Path("mine.md").read_text() == "precious"
    assert main(["sessions", "export", SESSION, "-o", "mine.md", "--force"]) == 0
    assert capsys.readouterr().out == f"wrote mine.md ({Path('mine.md').stat().st_size:,} bytes)\n"
    assert Path("mine.md").read_text().startswith("# Where is the parser of pears?\n")
    assert sorted(path.name for path in here.iterdir()) == ["mine.md"]


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> None:
        with new_file(tmp_path / "a.md") as file:
            file.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="disk full"):
        failing()
    assert not list(tmp_path.iterdir())


def test_markdown_holds_everything_said_and_no_text_can_break_its_fences(tmp_path: Path) -> None:
    lines = [
        *conversation()[:2],
        recorded.user(3, [recorded.result("toolu_1", "````\nfour ticks\n````")]),
        *compacted()[3:],
    ]
    path = written(tmp_path / f"{SESSION}.jsonl", lines)
    loaded = decode(path.read_bytes().splitlines(keepends=True))
    document = "".join(markdown(summarise(path), loaded.records))
    assert "`````\n````\nfour ticks\n````\n`````" in document
    assert '**Grep**\n\n```json\n{\n  "pattern": "pear",\n  "path": "src"\n}\n```' in document
    headings = [line for line in document.splitlines() if line.startswith("## ")]
    assert headings == ["## User", "## Assistant", "## User"]
    assert document.index("I will look.") < document.index("was compacted") < document.index("And of plums?")


def test_an_unknown_id_is_one_line_and_exit_code_one(tmp_path: Path) -> None:
    done = nacre(tmp_path, "sessions", "show", "nope")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "nacre: no session 'nope'; `nacre sessions list` shows what there is\n"
