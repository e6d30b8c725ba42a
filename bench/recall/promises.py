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
NEWER_FIRST = 0.90
ADVERSARIAL = 0.85


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
        yield bar(f"{name}: AUROC on adversarial questions", told["match"], at_least=ADVERSARIAL)
        if "bm25s_ratio" in told:
            yield bar(
                f"{name}: the same above that of BM25's ratio", told["match"], at_least=told["bm25s_ratio"]
            )


def _table(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
