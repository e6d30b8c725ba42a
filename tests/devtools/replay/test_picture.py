"""The picture of the context and the figures beside it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.devtools.replay.chart import Drawing, check, draw, svg, ticks
from nacre.devtools.replay.policies import NACRE, NONE
from nacre.devtools.replay.report import as_json, columns, kept_rows, rows, sentences
from nacre.devtools.replay.run import Replayed, ReplayTerms, replay, totals
from nacre.devtools.replay.schema import ChartPoint, LayerAction, PolicyTotals, Recorded, Used
from nacre.errors import ConfigError, StoreError
from nacre.messages.usage import Usage
from tests.devtools.replay.made_up import rounds

TERMS = ReplayTerms(model="claude-opus-5-5", window=60_000)
SVG = "{http://www.w3.org/2000/svg}"


def drawn() -> list[Replayed]:
    return replay([rounds(40, chars=9_000)], [NONE, NACRE], TERMS)


def test_a_picture_has_a_line_for_each_policy_and_a_mark_for_each_deed(tmp_path: Path) -> None:
    """P7: what each layer did is marked under the request it did it for."""
    path = tmp_path / "context.svg"
    done = drawn()
    draw(done, path, TERMS)
    picture = ElementTree.fromstring(path.read_text())
    lines = picture.findall(f"{SVG}polyline")
    assert [len((line.get("points") or "").split()) for line in lines] == [40, 40]
    words = [text.text or "" for text in picture.findall(f"{SVG}text")]
    assert {"none", "nacre", "window", "1 session, claude-opus-5-5, window 60,000 tokens"} <= set(words)
    marks = Counter(path.get("class") for path in picture.findall(f"{SVG}path"))
    for kind in ("offload", "compact"):
        deeds = sum(any(deed.kind == kind for deed in p.actions) for one in done for p in one.points)
        assert marks[f"deed {kind}"] == deeds
    assert marks["deed offload"] > 0
    assert marks["key offload"] == 1


def test_deeds_for_one_request_do_not_cover_each_other() -> None:
    points = [
        ChartPoint(
            at=0, tokens=5, actions=(LayerAction("compact"), LayerAction("clear"), LayerAction("clear"))
        )
    ]
    picture = ElementTree.fromstring(svg(Drawing(lines={"ours": points}, window=10)))
    spots = [one.get("transform") for one in picture.iter(f"{SVG}path") if "deed" in (one.get("class") or "")]
    assert len(spots) == len(set(spots)) == 2


def test_nothing_in_a_picture_stands_outside_of_it() -> None:
    """Many sessions, and a window that is far above or below the lines."""
    for window in (1, 10**7):
        lines = {
            f"policy-{n}": [ChartPoint(at=0, tokens=9_000, actions=(LayerAction("clear"),))] * 3
            for n in range(5)
        }
        picture = ElementTree.fromstring(svg(Drawing(lines=lines, window=window, ends=(1, 2))))
        _, _, width, height = map(float, (picture.get("viewBox") or "").split())
        for text in picture.iter(f"{SVG}text"):
            assert 0 <= float(text.get("x") or -1) <= width
            assert 0 <= float(text.get("y") or -1) <= height
        for line in picture.iter(f"{SVG}polyline"):
            spots = [tuple(map(float, spot.split(","))) for spot in (line.get("points") or "").split()]
            assert all(0 <= across <= width and 0 <= down <= height for across, down in spots)


@given(st.floats(min_value=0, max_value=1e9), st.integers(min_value=2, max_value=12))
def test_ticks_are_round_few_and_within_what_there_is(most: float, about: int) -> None:
    found = ticks(most, about=about)
    assert found[0] == 0
    assert found[-1] <= most
    assert len(found) <= about + 1
    assert all(str(step).rstrip("0") in {"1", "2", "5"} for step in found[1:2])


def test_a_name_in_a_picture_cannot_break_it() -> None:
    picture = svg(
        Drawing(lines={"<b>&": [ChartPoint(at=0, tokens=5, actions=(LayerAction("other"),))]}, window=10)
    )
    assert "<b>&" in [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_a_png_without_its_package_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"\[plot\]"):
        check(Path("a.png"))


def test_a_png_is_drawn_where_its_package_is_there(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    path = tmp_path / "context.png"
    draw(drawn(), path, TERMS)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_picture_nobody_can_write_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        check(tmp_path / "nowhere" / "a.svg")
    (tmp_path / "a.svg").mkdir()
    with pytest.raises(StoreError):
        draw(drawn(), tmp_path / "a.svg", TERMS)
    with pytest.raises(ConfigError, match=r"\.svg or \.png"):
        check(Path("a.gif"))


def made_tally() -> PolicyTotals:
    return PolicyTotals(
        requests=4,
        usage=Usage(input=100, cache_read=700, cache_write=200, output=9),
        cost_usd=2.0,
        refetch_usd=0.5,
        view_tokens=1_000,
        used=Used(pairs=4, pairs_kept=3, edits=2, edits_kept=2),
        cpu_seconds=(0.001, 0.002, 0.003, 0.010),
    )


def test_the_json_holds_what_its_readers_were_promised() -> None:
    """The shape of cli.md."""
    document = as_json({"none": made_tally()}, [rounds(1)], TERMS)
    assert (document["sessions"], document["window"], document["model"]) == (1, 60_000, "claude-opus-5-5")
    policies = document["policies"]
    assert isinstance(policies, list)
    (policy,) = policies
    assert isinstance(policy, dict)
    promised = {
        "policy": "none", "requests": 4, "input_tokens": 100, "cache_read": 700, "cache_write": 200,
        "output_tokens": 9, "cost_usd": 2.0, "hit_rate": 0.7, "peak_tokens": 0, "overflow": 0,
        "compactions": 0, "prefix_breaks": 0, "retention_pairs": 0.75, "retention_edits": 1.0,
        "retention_identifiers": None, "refetch_usd": 0.5, "cpu_ms_p50": 3.0, "cpu_ms_p99": 10.0,
    }  # fmt: skip
    assert promised.items() <= policy.items()
    assert policy["pairs_per_1000_tokens"] == 3.0


def test_the_figures_add_up() -> None:
    """P7: requests and money are those of the conversation, beside it, and for what was fetched again."""
    session = rounds(60, chars=9_000, pause=400)
    sums = totals(replay([session], [NONE, NACRE], TERMS))
    document = as_json(sums, [session], TERMS)
    assert isinstance(document["policies"], list)
    none, ours = document["policies"]
    assert isinstance(none, dict) and isinstance(ours, dict)
    assert none["requests"] == len(session.steps)
    assert ours["side_requests"] and ours["refetches"] is not None
    assert ours["requests"] == len(session.steps) + ours["side_requests"] + ours["refetches"]  # type: ignore[operator]
    prompt = ours["input_tokens"] + ours["cache_read"] + ours["cache_write"]  # type: ignore[operator]
    assert ours["hit_rate"] == round(ours["cache_read"] / prompt, 4)  # type: ignore[operator]
    assert 0 < ours["side_usd"] + ours["refetch_usd"] < ours["cost_usd"]  # type: ignore[operator]


def test_without_a_price_only_tokens_are_compared() -> None:
    terms = ReplayTerms(model="somebody-1")
    assert as_json({"none": made_tally()}, [], terms)["policies"][0]["cost_usd"] is None  # type: ignore[index, call-overload]
    assert rows({"none": made_tally()}, terms)[0][1:4] == ["1,000", "-", "-"]
    assert columns(terms)[1] == "sent"
    assert "price of somebody-1 is not known" in " ".join(sentences({"none": made_tally()}, [], terms))


def test_the_sentences_say_what_the_figures_rest_on() -> None:
    timed = Recorded(name="a", steps=(), base_tokens=9_000, error=0.02)
    timeless = Recorded(name="b", steps=(), has_times=False)
    sums = {"none": made_tally(), "nacre": made_tally()}
    said = " ".join(sentences(sums, [timed, timeless], TERMS))
    assert "You would have paid $2.00" in said
    assert "9,000 tokens" in said
    assert "2.0%" in said
    assert "1 recording holds no times" in said
    assert "left out" in " ".join(
        sentences(sums, [timed], ReplayTerms(model="claude-opus-5-5", with_base=False))
    )


def test_the_sentences_say_what_was_paid_beside_the_conversation_and_what_would_not_have_fitted() -> None:
    ours = replace(made_tally(), sides=3, side_usd=0.25, refetches=2)
    said = " ".join(sentences({"none": replace(made_tally(), overflow=1), "nacre": ours}, [], TERMS))
    assert "$0.75 went into 5 requests beside" in said
    assert "1 request of 'none' would not have fitted" in said
    assert kept_rows({"nacre": ours}, TERMS) == [["nacre", "75.0%", "100.0%", "-", "2", "$0.50"]]


def test_results_that_are_gone_are_told() -> None:
    gone = Recorded(name="a", steps=(), lost_results=2)
    assert "2 results are no longer on disk" in " ".join(sentences({"none": made_tally()}, [gone], TERMS))


def test_a_replay_of_nothing_has_no_shares_and_no_division_by_zero() -> None:
    sums = totals([])
    assert sums == {}
    assert as_json({"none": PolicyTotals()}, [], TERMS)["policies"][0]["hit_rate"] is None  # type: ignore[index, call-overload]
    assert rows({"none": PolicyTotals()}, TERMS)[0][0] == "none"
