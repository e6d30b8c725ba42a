"""Every benchmark runs at a tiny size and gives the figures its README promises; nothing here is timed."""

from __future__ import annotations

import json
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench import run
from bench.machine import bar, keep, spread
from bench.plot import LABEL_HEIGHT, bar_chart, chart
from bench.real_sessions import measure as measure_real_sessions

ROOT = Path(__file__).parents[2]
ALWAYS = [name for name in run.NAMES if name != "real_sessions"]


def documented(name: str) -> set[str]:
    """The fields in a benchmark's row of the table."""
    text = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
    return set(re.findall(r"`(\w+)`", row.split("|")[3])) | {"bars"}


MOVES = pytest.mark.moves_prefix(reason="full compaction, or one scripted model for several forks")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=MOVES) if one in {"compaction.faults", "purge"} else one for one in ALWAYS],
)
def test_a_tiny_run_gives_the_documented_fields(name: str) -> None:
    module = import_module(f"bench.{name}")
    figures = module.measure(module.TINY)
    assert set(figures) == documented(name)
    assert figures["bars"]
    assert all({"what", "measured", "met"} < set(one) for one in figures["bars"])
    json.dumps(figures)


@pytest.mark.parametrize("name", ALWAYS)
def test_the_committed_results_have_the_documented_fields_and_say_where_they_come_from(name: str) -> None:
    kept = json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    rows_of_earlier_runs = {"older", "measured_before"} & kept.keys()
    assert set(kept) == documented(name) | {"benchmark", "date", "version", "machine"} | rows_of_earlier_runs
    if "older" in kept:
        assert re.match(r"Measured on \d{4}-\d\d-\d\d", kept["older"])
    assert {"cpu", "cores", "load", "python", "system", "memory_gb"} == set(kept["machine"])


def test_folding_is_measured_at_every_length() -> None:
    fold: Any = import_module("bench.fold")
    figures = fold.measure(fold.TINY)
    lengths = {str(length) for length in fold.TINY.lengths}
    assert set(figures["fold"]) == set(figures["append_to_log"]) == lengths
    assert all(one["samples"] == fold.TINY.samples for one in figures["fold"].values())
    assert fold.plot(figures).count("<circle") == 2 * len(lengths)


def test_the_same_request_is_sent_both_ways() -> None:
    """The comparison would be worth nothing if the SDK alone had less to send."""
    prepare: Any = import_module("bench.prepare")
    figures = prepare.measure(prepare.TINY)
    for vendor in ("anthropic", "openai"):
        assert figures[vendor]["same_bytes"] is True
        assert figures[vendor]["body_bytes"] > 10_000


@pytest.mark.slow
def test_a_large_log_without_a_boundary_is_refused_in_one_line() -> None:
    opening: Any = import_module("bench.opening")
    figures = opening.measure(opening.TINY)
    assert all(one["messages"] > 1 for one in figures["with_a_boundary_near_the_end"])
    refusals = [one["refused"] for one in figures["without_any_boundary"]]
    assert len(refusals) == 2
    assert not any("\n" in refusal for refusal in refusals)


def test_without_real_sessions_the_benchmark_says_so(tmp_path: Path) -> None:
    assert "skipped" in measure_real_sessions(folder=tmp_path)


@pytest.mark.real_data
def test_real_sessions_give_the_documented_fields() -> None:
    module: Any = import_module("bench.real_sessions")
    figures = module.measure(module.TINY)
    if "skipped" in figures:
        pytest.skip(figures["skipped"])
    assert set(figures) == documented("real_sessions")


def test_results_are_kept_with_date_version_and_machine(tmp_path: Path) -> None:
    keep("one", {"figure": 1}, folder=tmp_path)
    kept = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert kept["figure"] == 1
    assert set(kept) == {"benchmark", "date", "version", "machine", "figure"}


def test_a_bar_says_whether_it_was_met() -> None:
    assert bar("slow", 3.0, at_most=2.0)["met"] is False
    assert bar("fast", 300.0, at_least=150.0)["met"] is True


def test_times_are_told_by_their_middle_and_their_slow_end() -> None:
    assert spread([1_000] * 98 + [5_000, 9_000]) == {"p50_us": 1.0, "p99_us": 9.0, "samples": 100}


def test_a_chart_is_whole_svg_with_its_words_escaped() -> None:
    drawn = chart("a < b", {"one": {10.0: 1.0, 100.0: 2.0}}, x="x", y="y")
    assert drawn.startswith("<svg") and drawn.endswith("</svg>\n")
    assert "a &lt; b" in drawn


def test_the_names_of_lines_that_end_together_do_not_overlap() -> None:
    drawn = chart("t", {name: {1.0: 0.5, 9.0: 0.5} for name in ("one", "two", "three")}, x="x", y="y")
    downs = sorted(float(down) for down in re.findall(r'y="([\d.]+)"[^>]*>(?:one|two|three)<', drawn))
    assert [after - before for before, after in pairwise(downs)] == [LABEL_HEIGHT] * 2


def test_bars_are_as_long_as_their_figures_and_ours_stand_out() -> None:
    drawn = bar_chart("t", {"nacre": 100.0, "other": 25.0}, x="percent", ours=["nacre"])
    (ours, colour), (other, plain) = re.findall(r'width="([\d.]+)" height="18" fill="(\S+)"', drawn)
    assert float(ours) == 4 * float(other) and colour != plain


def test_an_unknown_name_is_an_error_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["nonsense"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_tiny_run_keeps_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.run("ledger_sim", is_tiny=True, folder=tmp_path) == 0
    assert "the whole session" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
