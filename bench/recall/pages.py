"""The figures for people: tables in Markdown and two charts."""

from __future__ import annotations

from typing import Any

from bench.machine import bars
from bench.plot import chart
from bench.recall.figures import OURS
from bench.recall.metrics import REPORTED
from nacre.messages.blocks import JsonObject

CHARTED = ("nacre_embed", "nacre", "bm25s", "rrf", "mem0")
_INTRO = """# Recall without a model, beside other rankers

Written by `python -m bench.run recall`; what is measured and how stands in `bench/recall/`. `tune` is the
half that weights and cuts were chosen on; `score` was ranked once with those weights before this benchmark
existed, its relevance judged twice, and once more when that had been learnt anew on `tune`; every run shows
it again: a check, not a held-out test. `nacre` is its lexical core over real files: no vectors, no model;
`nacre_embed` has the packaged encoder beside the words (the extra `embed`). `tokens` is what the first five
cost, each cut to 4,096 bytes under the same header; in brackets 95 % of the paired bootstrap.
"""
_NOTHING = """
## Nothing relevant

A cut for bm25s (score per word asked) and MiniLM (cosine) was set on the tuning half to cost 3 points of
any@5. `another store`: a question put to a store of its half that is not its own. `same store`: adversarial
(LoCoMo) or abstention questions. `relevance` is the confidence that cuts; where a question names an
author, it is at most what `match` (whether it is about the one asked about) allows.
"""
_EVERYDAY = """
## Everyday messages

Invented people that nothing was tuned on, their memories and messages; the people of `bench/recall/everyday`
were used for tuning. `attached`: a needed memory is; `ranked`: one is among the first five; `in_vain`:
something is attached where nothing helps; `precision`: of what is attached, needed or helpful; `wrapped`:
direct questions with other text around them. Peers always show their first five.
"""


def pages(figures: JsonObject) -> dict[str, str]:
    """File names and what stands in them."""
    found: Any = figures
    drawn = {
        f"recall_{name}.svg": _chart(name, found["sets"][name]["score"])
        for name in ("locomo_turns", "beam_messages", "made_up")
        if name in found["sets"]
    }
    return {"recall.md": "\n".join(_lines(found)) + "\n"} | drawn


def _lines(figures: Any) -> list[str]:
    older = [figures["older"] + "\n"] if "older" in figures else []
    out = [_INTRO, *older, "## Promises (score half)", "", "| | measured | bar | |", "|---|---|---|---|"]
    for one in bars(figures):
        limit = f"at most {one['at_most']}" if "at_most" in one else f"at least {one['at_least']}"
        out.append(
            f"| {one['what']} | {one['measured']} | {limit} | {'met' if one['met'] else '**missed**'} |"
        )
    out += ["", "Peers: " + "; ".join(f"{name}: {state}" for name, state in figures["peers"].items()) + "."]
    for name, halves in figures["sets"].items():
        for half, one in halves.items():
            out += _set(name, half, one)
    out += _nothing(figures["nothing_relevant"])
    out += _newer(figures["newer_first"])
    return out + _everyday(figures["everyday"], figures["evidence_shown"])


def _set(name: str, half: str, one: Any) -> list[str]:
    columns = (*REPORTED, "tokens")
    out = ["", f"## {name}, {half}: {one['questions']} questions", ""]
    out += [f"| ranker | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for ranker, row in one["rankers"].items():
        cells = [f"{row[key]:.3f}" for key in REPORTED]
        out.append(f"| {ranker} | {' | '.join(cells)} | {row['tokens']:.0f} |")
    out.append("")
    for ours, key in zip(OURS, ("attached", "attached_embed"), strict=True):
        if cut := one[key]:
            out.append(
                f"{ours} attaches after the cut {cut['picks']} picks, {cut['tokens']:.0f} tokens; any "
                f"{cut['any']:.3f}, all {cut['all']:.3f}, recall {cut['recall']:.3f} "
                f"({cut['recall_kept']:.1%} of recall@5 uncut).\n"
            )
    for ours, peers in one["lead"].items():
        for peer, leads in peers.items():
            told = (f"{key} {v['mean']:+.3f} [{v['low']:+.3f}, {v['high']:+.3f}]" for key, v in leads.items())
            out.append(f"- {ours} over {peer}: {', '.join(told)}")
    return out


def _nothing(figures: Any) -> list[str]:
    columns = "| set | half | kind | n | attached (nacre, bm25s, MiniLM) | picks | tokens | AUROC |"
    out = [_NOTHING, columns, "|---" * 8 + "|"]
    for name, halves in figures.items():
        for half, kinds in halves.items():
            for kind, one in kinds.items():
                if one:
                    shares = ", ".join(f"{share:.3f}" for share in one["attached"].values())
                    told = ", ".join(f"{signal} {value}" for signal, value in one["auroc"].items())
                    row = (name, half, kind.replace("_", " "), one["questions"], shares, one["picks"])
                    out.append("| " + " | ".join(str(c) for c in (*row, one["tokens"], told)) + " |")
    return out


def _newer(figures: Any) -> list[str]:
    out = [
        "",
        "## The newer of two facts first",
        "",
        "| set | half | attached | by relevance alone |",
        "|---" * 4 + "|",
    ]
    for name, halves in figures.items():
        for half, one in halves.items():
            alone = ", ".join(f"{ranker} {v['first']:.3f}" for ranker, v in one["by_relevance"].items())
            ours = one["attached"]
            out.append(f"| {name} | {half} | {ours['first']:.3f} of {ours['of']}/{one['pairs']} | {alone} |")
    return out


def _everyday(figures: Any, shown: Any) -> list[str]:
    rows = {name: row for name, row in figures.items() if isinstance(row, dict)}
    columns = list(next(iter(rows.values()))) if rows else []
    out = [_EVERYDAY, f"| ranker | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, row in rows.items():
        out.append(f"| {name} | {' | '.join(str(row[key]) for key in columns)} |")
    if shown:
        told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())
        out += ["", f"Of long files (a pool of 1,500 LongMemEval sessions): {told}."]
    return out


def _chart(name: str, one: Any) -> str:
    lines = {
        ranker: {float(k): one["rankers"][ranker][f"any@{k}"] for k in (1, 5, 10)}
        for ranker in CHARTED
        if ranker in one["rankers"]
    }
    return chart(f"{name}: something that answers among the first k", lines, x="k", y="share of questions")
