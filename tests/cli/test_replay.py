"""`nacre replay`: policies side by side, in words, as JSON and as a picture; refusals are explained."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nacre.cli.main import main
from nacre.store.home import slug
from tests.cli.recorded import SESSION, conversation, user, written

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("NACRE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def log(folder: Path) -> Path:
    return written(folder / "talk.jsonl", conversation())


def test_policies_stand_side_by_side_with_a_sentence_on_what_they_mean(
    tmp_path: Path, home: Path, capsys: Capture
) -> None:
    """P7."""
    assert main(["replay", str(log(tmp_path))]) == 0
    said = capsys.readouterr().out
    policies = ["none", "truncate", "claude-code", "nacre", "nacre-model", "nacre-tools", "nacre-chat"]
    first = [line.split()[0] for line in said.splitlines()[2:19] if line]
    assert first == ["policy", *policies, "still", *policies]
    assert max(map(len, said.splitlines())) <= 80
    assert "You would have paid $" in said
    assert "1 session, claude-opus-4-5-20251101, window 200,000" in said


def test_json_is_one_document_with_the_terms_in_it(tmp_path: Path, home: Path, capsys: Capture) -> None:
    command = ["replay", str(log(tmp_path)), "--json", "--policy", "nacre", "--policy", "none"]
    assert main([*command, "--model", "claude-sonnet-5-5", "--window", "50000", "--no-base"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["model"] == "claude-sonnet-5-5"
    assert (document["window"], document["with_base"], document["sessions"]) == (50_000, False, 1)
    assert [each["policy"] for each in document["policies"]] == ["none", "nacre"]
    assert all(each["requests"] == 2 for each in document["policies"] if each["policy"] == "none")


def test_the_lifetime_asked_for_is_what_is_paid(tmp_path: Path, home: Path, capsys: Capture) -> None:
    costs = {}
    for ttl in ("5m", "1h"):
        assert (
            main(
                [
                    "replay",
                    str(log(tmp_path)),
                    "--json",
                    "--policy",
                    "none",
                    "--ttl",
                    ttl,
                    "--model",
                    "claude-opus-5-5",
                ]
            )
            == 0
        )
        costs[ttl] = json.loads(capsys.readouterr().out)["policies"][0]["cost_usd"]
    assert costs["1h"] > costs["5m"] > 0


def test_a_session_of_the_home_is_named_by_its_id(home: Path, capsys: Capture) -> None:
    written(home / "projects" / slug("/srv/project") / f"{SESSION}.jsonl", conversation())
    assert main(["replay", SESSION[:8], "--policy", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == 1


def test_the_newest_session_of_the_directory_is_named_latest(home: Path, capsys: Capture) -> None:
    assert main(["replay", "latest"]) == 1
    assert "there is no session in" in capsys.readouterr().err
    written(home / "projects" / slug(str(Path.cwd())) / f"{SESSION}.jsonl", conversation())
    assert main(["replay", "latest", "--policy", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == 1


def test_sessions_of_a_model_that_costs_nothing_are_compared_by_another_ones_prices(
    tmp_path: Path, home: Path, capsys: Capture
) -> None:
    lines = conversation()
    for line in lines:
        if line["type"] == "assistant":
            line["message"]["model"] = "embedded"  # type: ignore[index, call-overload]
    assert main(["replay", str(written(tmp_path / "talk.jsonl", lines))]) == 0
    said = capsys.readouterr().out
    assert "claude-sonnet-5-5" in said
    assert "paid $0.00 with 'none'; $0.00 with" not in said


def test_a_window_that_the_system_prompt_fills_is_refused(
    tmp_path: Path, home: Path, capsys: Capture
) -> None:
    """No policy can make room there, and what it would be charged for trying means nothing."""
    lines = conversation()
    lines[1]["message"]["usage"] = {"input_tokens": 30_000, "output_tokens": 5}  # type: ignore[index, call-overload]
    path = written(tmp_path / "talk.jsonl", lines)
    assert main(["replay", str(path), "--window", "20000"]) == 3
    told = capsys.readouterr().err
    assert "--no-base" in told and told.count("\n") == 1
    assert main(["replay", str(path), "--window", "20000", "--no-base"]) == 0


def test_in_a_folder_what_is_no_transcript_is_passed_over_and_counted(
    tmp_path: Path, home: Path, capsys: Capture
) -> None:
    folder = tmp_path / "logs"
    log(folder)
    written(folder / "more" / "other.jsonl.gz", conversation(), packed=True)
    (folder / "index.jsonl").write_text('{"n": 1}\n')
    (folder / "empty.jsonl").write_text("")
    assert main(["replay", str(folder), "--policy", "none", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["sessions"] == 2
    assert said.err.startswith("skipped: ")
    assert "1 more" in said.err


def test_a_picture_is_written_beside_the_table(tmp_path: Path, home: Path, capsys: Capture) -> None:
    assert main(["replay", str(log(tmp_path)), "--plot", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert capsys.readouterr().out.endswith(f"The chart is in {tmp_path / 'a.svg'}.\n")
    assert main(["replay", str(log(tmp_path)), "--plot", str(tmp_path / "no" / "a.svg")]) == 3
    assert "there is no folder" in capsys.readouterr().err


def test_without_a_price_the_tokens_are_compared_and_it_says_so(
    tmp_path: Path, home: Path, capsys: Capture
) -> None:
    assert main(["replay", str(log(tmp_path)), "--model", "somebody-1"]) == 0
    assert "The price of somebody-1 is not known" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("hello\n", "not a transcript"),
        (json.dumps(user(1, "Hello?")) + "\n", "holds no reply"),
    ],
)
def test_what_cannot_be_replayed_is_explained_in_one_line(
    tmp_path: Path, home: Path, capsys: Capture, content: str, words: str
) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(content)
    assert main(["replay", str(path)]) == 1
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


def test_a_name_that_is_neither_file_nor_session_is_refused(home: Path, capsys: Capture) -> None:
    assert main(["replay", "nowhere.jsonl"]) == 1
    assert "there is no file nowhere.jsonl" in capsys.readouterr().err


def test_a_folder_without_transcripts_is_refused(tmp_path: Path, home: Path, capsys: Capture) -> None:
    (tmp_path / "logs").mkdir()
    assert main(["replay", str(tmp_path / "logs")]) == 1
    assert "there is no transcript in" in capsys.readouterr().err


def test_a_png_without_its_package_is_refused_before_any_work(
    tmp_path: Path, home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["replay", str(log(tmp_path)), "--plot", str(tmp_path / "a.png")]) == 3
    assert "[plot]" in capsys.readouterr().err


def test_nothing_of_the_recording_or_the_home_is_changed(tmp_path: Path, home: Path, capsys: Capture) -> None:
    path = log(tmp_path)
    before = path.read_bytes()
    assert main(["replay", str(path)]) == 0
    assert path.read_bytes() == before
    assert not home.exists()
