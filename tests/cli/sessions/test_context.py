"""`nacre context`: the parts add up, the figures are the log's, and looking changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.cache.models import cost, profile
from nacre.cli.main import main
from nacre.inspect.context_usage import calibrated
from nacre.messages.blocks import JsonObject
from nacre.messages.jsonl import decode
from nacre.messages.usage import Usage
from nacre.store import lease
from nacre.store.home import slug
from tests.cli import recorded
from tests.cli.program import nacre
from tests.cli.recorded import SESSION, compacted, conversation, dumped, written

ONE_REPLY = Usage(input=10, cache_write=1_000, cache_read=3_000, output=90)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def placed(home: Path, cwd: Path, lines: list[JsonObject], session: str = SESSION) -> Path:
    mine = [line | {"cwd": str(cwd), "sessionId": session} for line in lines]
    return written(home / "projects" / slug(str(cwd)) / f"{session}.jsonl", mine)


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> JsonObject:
    assert main([*args, "--json"]) == 0
    found: JsonObject = json.loads(capsys.readouterr().out)
    return found


def test_the_newest_session_of_the_directory_is_counted_by_the_providers_figures(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C1, C34."""
    placed(home, here, conversation())
    found = shown(capsys, "context")
    parts = found["parts"]
    assert isinstance(parts, dict)
    assert (found["session"], found["model"]) == (SESSION, "claude-opus-4-5-20251101")
    assert (found["window"], found["used"], found["counted"]) == (200_000, 4_100, True)
    assert found["thresholds"] == {
        "warning": 147_000,
        "autocompact": 167_000,
        "blocking": 177_000,
        "effective": 180_000,
    }
    assert sum(tokens for tokens in parts.values() if isinstance(tokens, int)) == 200_000
    assert all(parts[name] for name in ("system", "tools", "user_text", "assistant_text", "tool_results"))
    cache = found["cache"]
    assert isinstance(cache, dict)
    price = cost(profile("claude-opus-4-5"), ONE_REPLY)
    assert price is not None
    assert cache["cost_usd"] == pytest.approx(2 * price) and cache["requests"] == 2
    assert cache["hit_rate"] == pytest.approx(6_000 / 8_020, abs=1e-4)
    none = {"times": 0, "tokens": 0, "spent_usd": 0.0, "saved_usd": 0.0, "unpriced_requests": 0}
    told, untold = ("offload", "microcompact", "keep_warm"), ("notes", "compact", "extract", "recall")
    assert found["layers"] == dict.fromkeys(told, none) | dict.fromkeys(untold, none | {"saved_usd": None})
    assert found["out_of_view"] == {"offloaded": 0, "cleared": 0}


def test_after_a_compaction_only_what_is_left_fills_the_window_but_all_was_paid_for(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(home, here, compacted())
    found = shown(capsys, "context", SESSION)
    parts, cache = found["parts"], found["cache"]
    assert isinstance(parts, dict) and isinstance(cache, dict)
    assert found["counted"] is False and parts["tool_results"] == 0 and parts["summary"]
    assert cache["requests"] == 2


def test_without_a_session_it_is_what_a_new_one_starts_with(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = shown(capsys, "context")
    parts = found["parts"]
    assert isinstance(parts, dict)
    assert found["session"] is None and found["model"] == "embedded"
    filled = {name for name, tokens in parts.items() if tokens}
    assert filled == {"system", "tools", "instructions", "memory", "surroundings", "free"}
    assert main(["context"]) == 0
    assert "what a new one starts with" in capsys.readouterr().out


def test_the_window_is_that_of_the_model_that_is_asked_for(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: a named model comes before the one that answered; a ceiling lowers either."""
    placed(home, here, conversation())
    assert shown(capsys, "--model", "claude-opus-4-5[1m]", "context")["window"] == 1_000_000
    monkeypatch.setenv("NACRE_MAX_CONTEXT_TOKENS", "50000")
    assert shown(capsys, "context")["window"] == 50_000


def test_looking_takes_no_lease_and_changes_nothing(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C32: `nacre context` changes neither books nor log; the session may be open elsewhere."""
    path = placed(home, here, compacted())
    before = sorted((each, each.stat().st_mtime_ns) for each in path.parent.rglob("*"))
    held = lease.take(home, path)
    try:
        shown(capsys, "context", "latest")
    finally:
        held.release()
    assert sorted((each, each.stat().st_mtime_ns) for each in path.parent.rglob("*")) == before


def test_estimates_are_calibrated_between_neighbouring_requests() -> None:
    """C2: what stands before the conversation cancels out."""
    grown = recorded.assistant(4, [recorded.text("In src/pear.py.")])
    message = grown["message"]
    assert isinstance(message, dict)
    message["usage"] = recorded.USAGE | {"cache_read_input_tokens": 3_100}
    lines = [*conversation()[:3], grown]
    records = decode(dumped(lines).splitlines(keepends=True)).records
    found = calibrated(records)
    assert found.real == 100  # the prompt grew by so much
    assert 0 < found.estimated < 100 and found.error > 0


@pytest.mark.slow
def test_people_see_bars_limits_and_money(tmp_path: Path) -> None:
    placed(tmp_path / "home", tmp_path, conversation())
    done = nacre(tmp_path, "context")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"session {SESSION}"
    assert lines[1] == "model claude-opus-4-5-20251101"
    assert lines[2] == "4,100 of 200,000 tokens in use (2%, counted by the provider)"
    bars = [line.count("█") for line in lines if "█" in line]
    assert max(bars) == 40  # scaled to what is used: in a large window all bars would be a dot
    assert min(bars) >= 1
    assert any(line.startswith("free") and line.endswith("%") for line in lines)
    assert any(line.startswith("hard limit") for line in lines)
    assert any(line.startswith("compaction from") and "167,000" in line for line in lines)
    assert "75% of their prompts came from the cache" in done.stdout


def test_an_unknown_id_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "nope", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


@pytest.mark.slow
def test_people_see_what_layers_saved_in_a_terminal_of_80_columns(tmp_path: Path) -> None:
    """C34: about how much, and that it is an estimate."""
    first, *rest = conversation()
    facts: JsonObject = {"call": "nowhere", "tokens_kept_out": 100_000}
    left_out: JsonObject = {"type": "nacre", "id": "n", "kind": "offload", "facts": facts}
    placed(tmp_path / "home", tmp_path, [first, left_out | {"timestamp": first["timestamp"]}, *rest])
    done = nacre(tmp_path, "context")
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("offload ")]
    tier = profile("claude-opus-4-5").tier(0)
    assert tier is not None
    saved = (tier.write_5m + tier.read) / 10
    assert row.split() == ["offload", "1", "100,000", "-", f"${saved:.2f}"]
    assert "saved (about)" in done.stdout and "estimates" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_model_without_a_price_is_told_in_tokens_only(tmp_path: Path) -> None:
    """C34: no money is made up."""
    first, *rest = json.loads(json.dumps(conversation()).replace("claude-opus-4-5-20251101", "some-model"))
    facts: JsonObject = {"call": "nowhere", "tokens_kept_out": 500}
    left_out: JsonObject = {"type": "nacre", "id": "n", "kind": "offload", "facts": facts}
    placed(tmp_path / "home", tmp_path, [first, left_out | {"timestamp": first["timestamp"]}, *rest])
    done = nacre(tmp_path, "context")
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("offload ")]
    assert row.split() == ["offload", "1", "500", "no", "price", "no", "price"]
    offload = json.loads(nacre(tmp_path, "context", "--json").stdout)["layers"]["offload"]
    assert offload == {
        "times": 1, "tokens": 500, "spent_usd": None, "saved_usd": None, "unpriced_requests": 2
    }  # fmt: skip
