"""What recall without a model must reach, and whether this run did, on the half it was not tuned on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.machine import bar
from bench.recall.figures import OURS
from nacre.messages.blocks import JsonObject

AIMS = {
    ("locomo_turns", "recall@10"): 0.82,
    ("locomo_turns", "any@1"): 0.52,
    ("beam_messages", "recall@10"): 0.60,
    ("beam_messages", "any@5"): 0.72,
    ("longmemeval_merged", "any@5"): 0.80,
    ("longmemeval_merged", "all@5"): 0.55,
}
"""Where recall is to end up."""
AHEAD = {"locomo_turns": "recall@10", "beam_messages": "recall@10"}
"""Where the lower bound of the lead over every peer must be above zero."""
FALSE_ATTACH = 0.15
ANY_LOST = 0.03
RECALL_KEPT = 0.95
NEWER_FIRST = 0.95
NEAR_MISS = 0.80
SHOWN = 0.80
EVERYDAY = {
    "nacre": {"attached": 0.45, "ranked": 0.80},
    "nacre_embed": {"attached": 0.55, "ranked": 0.88},
}
EVERYDAY_FALSE = 0.10
EVERYDAY_PRECISION = 0.60
EVERYDAY_WRAPPED = 0.95
LANGUAGES_APART = 0.10


def bars(sets: JsonObject, nothing: JsonObject, newer: JsonObject) -> Iterator[JsonObject]:
    """Every promise about the score half; where a set was not run, what was."""
    half = "score"
    for name, one in sets.items():
        if half in (figures := _table(one)):
            yield from _ahead(name, figures[half])
            yield from _aims(name, figures[half])
            yield from _kept(name, figures[half])
    for name, one in nothing.items():
        yield from _nothing(name, _table(one)[half])
        if half in (figures := _table(sets[name])):
            lost = figures[half]["attached"]["any_lost"]
            yield bar(f"{name}: points of any@5 lost by the cut", lost, at_most=ANY_LOST)
    for name, one in newer.items():
        found = _table(one)[half]["attached"]
        yield bar(
            f"{name}: the newer of two facts first, of {found['of']}", found["first"], at_least=NEWER_FIRST
        )


def everyday_bars(everyday: JsonObject, shown: JsonObject) -> Iterator[JsonObject]:
    """Every promise about people whose memories and messages were not used for tuning."""
    for name, aims in EVERYDAY.items():
        if name not in everyday:
            continue
        found = _table(everyday[name])
        for key, least in aims.items():
            yield bar(f"everyday: needed memory {key}, {name}", found[key], at_least=least)
        yield bar(f"everyday: attached in vain, {name}", found["in_vain"], at_most=EVERYDAY_FALSE)
        yield bar(f"everyday: needed or helpful, {name}", found["precision"], at_least=EVERYDAY_PRECISION)
        yield bar(f"everyday: direct with text around, {name}", found["wrapped"], at_least=EVERYDAY_WRAPPED)
        yield bar(f"everyday: stale before newer, {name}", found["stale_first"], at_most=0)
        apart = round(found["attached_en"] - found["attached_zh"], 4)
        yield bar(f"everyday: English ahead of Chinese, {name}", apart, at_most=LANGUAGES_APART)
    if "evidence_shown" in shown:
        what = "longmemeval_pool: evidence inside what is shown"
        yield bar(what, _table(shown)["evidence_shown"], at_least=SHOWN)


def _ahead(name: str, figures: dict[str, Any]) -> Iterator[JsonObject]:
    for ours, peers in figures["lead"].items():
        for peer, leads in peers.items():
            if name in AHEAD:
                what = f"{name}: lower bound of {ours}'s lead over {peer} in {AHEAD[name]}"
                yield bar(what, leads[AHEAD[name]]["low"], at_least=0.0001)
            elif name == "longmemeval_merged":
                yield bar(f"{name}: {ours}'s lead over {peer} in any@5", leads["any@5"]["mean"], at_least=0.0)


def _aims(name: str, figures: dict[str, Any]) -> Iterator[JsonObject]:
    for (where, key), aim in AIMS.items():
        for ours in OURS:
            if where == name and ours in figures["rankers"]:
                yield bar(f"{name}: {key} of {ours}", figures["rankers"][ours][key], at_least=aim)


def _kept(name: str, figures: dict[str, Any]) -> Iterator[JsonObject]:
    for ours, key in zip(OURS, ("attached", "attached_embed"), strict=True):
        if figures[key]:
            what = f"{name}: share of {ours}'s recall@5 that the cut leaves"
            yield bar(what, figures[key]["recall_kept"], at_least=RECALL_KEPT)


def _nothing(name: str, figures: dict[str, Any]) -> Iterator[JsonObject]:
    elsewhere, trap = figures["another_store"], figures["same_store"]
    if elsewhere:
        wrong = elsewhere["attached"]["nacre"]
        yield bar(f"{name}: attached to another store's questions", wrong, at_most=FALSE_ATTACH)
    if trap and name == "locomo_turns":
        told = trap["auroc"]
        what = f"{name}: AUROC of the confidence that cuts, on adversarial questions"
        yield bar(what, told["relevance"], at_least=NEAR_MISS)
        if "bm25s_ratio" in told:
            least = told["bm25s_ratio"]
            yield bar(f"{name}: the same above that of BM25's ratio", told["relevance"], at_least=least)


def _table(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
