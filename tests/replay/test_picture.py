"""The picture of the context and the figures beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nacre.errors import ConfigError, StoreError
from nacre.messages.usage import Usage
from nacre.replay.picture import check, draw, svg
from nacre.replay.policies import NACRE, NONE
from nacre.replay.report import as_json, rows, sentences
from nacre.replay.run import Replayed, Terms, replay, totals
from nacre.replay.schema import Action, Point, Recorded, Tally, Used
from tests.replay.made_up import rounds

TERMS = Terms(model="claude-opus-5-5", window=60_000)
SVG = "{http://www.w3.org/2000/svg}"


def drawn() -> list[Replayed]:
    return replay([rounds(40, chars=9_000)], [NONE, NACRE], TERMS)


def test_a_picture_has_a_line_for_each_policy_and_a_mark_for_each_deed(tmp_path: Path) -> None:
    """P7: what each layer did is marked on the line."""
    path = tmp_path / "context.svg"
    done = drawn()
    draw(done, path, window=TERMS.window)
    picture = ElementTree.fromstring(path.read_text())
    lines = picture.findall(f"{SVG}polyline")
    assert [len((line.get("points") or "").split()) for line in lines] == [40, 40]
    words = [text.text or "" for text in picture.findall(f"{SVG}text")]
    assert {"none", "nacre", "window"} <= set(words)
    offloads = sum(any(action.kind == "offload" for action in p.actions) for one in done for p in one.points)
    assert words.count("▾") == offloads > 0


def test_a_name_in_a_picture_cannot_break_it() -> None:
    picture = svg({"<b>&": [Point(at=0, tokens=5, actions=(Action("other"),))]}, window=10)
    assert "<b>&" in [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_a_png_without_its_package_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"nacre\[plot\]"):
        check(Path("a.png"))


def test_a_png_is_drawn_where_its_package_is_there(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    path = tmp_path / "context.png"
    draw(drawn(), path, window=TERMS.window)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_picture_nobody_can_write_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        draw(drawn(), tmp_path / "nowhere" / "a.svg", window=1)
    with pytest.raises(ConfigError, match=r"\.svg or \.png"):
        check(Path("a.gif"))


def made_tally() -> Tally:
    return Tally(
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


def test_without_a_price_only_tokens_are_compared() -> None:
    terms = Terms(model="somebody-1")
    assert as_json({"none": made_tally()}, [], terms)["policies"][0]["cost_usd"] is None  # type: ignore[index, call-overload]
    assert rows({"none": made_tally()}, terms)[0][1] == "-"
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
    assert "left out" in " ".join(sentences(sums, [timed], Terms(model="claude-opus-5-5", with_base=False)))


def test_a_replay_of_nothing_has_no_shares_and_no_division_by_zero() -> None:
    sums = totals([])
    assert sums == {}
    assert as_json({"none": Tally()}, [], TERMS)["policies"][0]["hit_rate"] is None  # type: ignore[index, call-overload]
    assert rows({"none": Tally()}, TERMS)[0][0] == "none"
