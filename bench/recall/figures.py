"""What the rows of a set come to: quality per ranker, paired differences, what is attached, and wrongly."""

from __future__ import annotations

from collections.abc import Sequence

from bench.recall.asking import PICKS, Row
from bench.recall.metrics import Measure, auroc, average, cut_that_loses, difference, mean, measure
from bench.recall.schema import HALVES, Half
from nacre.messages.blocks import JsonObject

LOSS = 0.03
"""Points of any@5 that a cut may cost; the peers' cuts are set on the tuning half to cost just that."""
COMPARED = ("recall@10", "any@5")
OURS = ("nacre", "nacre_embed")
PEER_SIGNALS = ("bm25s_per_word", "minilm_cosine")


def quality(rows: Sequence[Row]) -> JsonObject:
    """Per half: each ranker's averages, nacre's lead over each peer, and what nacre attaches."""
    return {half: _half(answerable(rows, half)) for half in HALVES if answerable(rows, half)}


def answerable(rows: Sequence[Row], half: Half) -> list[Row]:
    return [r for r in rows if r.question.half == half and r.question.is_answerable and r.question.gold]


def _half(rows: Sequence[Row]) -> JsonObject:
    found = {name: [measure(row.ranked[name], row.question.gold) for row in rows] for name in rows[0].ranked}
    ours = [name for name in OURS if name in found]
    leads: JsonObject = {
        name: {peer: _lead(found[name], theirs) for peer, theirs in found.items() if peer not in OURS}
        for name in ours
    }
    return {
        "questions": len(rows),
        "rankers": {
            name: {**mean(measures), "tokens": _tokens(rows, name)} for name, measures in found.items()
        },
        "lead": leads,
        "attached": attached(rows),
        "attached_embed": attached(rows, "nacre_embed") if "nacre_embed" in found else None,
    }


def _lead(ours: Sequence[Measure], theirs: Sequence[Measure]) -> JsonObject:
    return {
        key: dict(difference([one[key] for one in ours], [one[key] for one in theirs])) for key in COMPARED
    }


def _tokens(rows: Sequence[Row], name: str) -> float:
    return round(average([row.tokens[name] for row in rows]), 1)


def attached(rows: Sequence[Row], ranker: str = "nacre") -> JsonObject:
    """What the cut costs and saves on questions that something answers."""
    shown = [row.attached if ranker == "nacre" else row.attached_embed or row.attached for row in rows]
    before = [measure(row.ranked[ranker], row.question.gold) for row in rows]
    after = [measure(one.ids, row.question.gold) for one, row in zip(shown, rows, strict=True)]
    found = average([one["recall@5"] for one in before])
    kept = average([one["recall@5"] for one in after])
    return {
        "picks": round(average([len(one.ids) for one in shown]), 2),
        "tokens": round(average([one.tokens for one in shown]), 1),
        "any": round(average([one["any@5"] for one in after]), 4),
        "any_lost": round(average([b["any@5"] - a["any@5"] for b, a in zip(before, after, strict=True)]), 4),
        "all": round(average([one["all@5"] for one in after]), 4),
        "recall": round(kept, 4),
        "recall_kept": round(kept / found, 4) if found else 0.0,
    }


def nothing_relevant(rows: Sequence[Row], foreign: Sequence[Row]) -> JsonObject:
    """How often something is attached to a question nothing answers, and how well each signal could tell."""
    cuts = _cuts(answerable(rows, "tune"))
    return {half: _unanswered(rows, foreign, half, cuts) for half in HALVES}


def _cuts(tuned: Sequence[Row]) -> dict[str, float]:
    names = {"bm25s_per_word": "bm25s", "minilm_cosine": "minilm"}
    return {
        signal: cut_that_loses(
            [
                (r.signals[signal], bool(set(r.ranked[names[signal]][:PICKS]) & r.question.gold))
                for r in tuned
            ],
            LOSS,
        )
        for signal in PEER_SIGNALS
        if tuned and signal in tuned[0].signals
    }


def _unanswered(
    rows: Sequence[Row], foreign: Sequence[Row], half: Half, cuts: dict[str, float]
) -> JsonObject:
    good = answerable(rows, half)
    traps = [row for row in rows if row.question.half == half and not row.question.is_answerable]
    others = [row for row in foreign if row.question.half == half]
    return {
        "another_store": _false_attach(good, others, cuts) if others else None,
        "same_store": _false_attach(good, traps, cuts) if traps else None,
    }


def _false_attach(good: Sequence[Row], bad: Sequence[Row], cuts: dict[str, float]) -> JsonObject:
    return {
        "questions": len(bad),
        "attached": {
            "nacre": round(average([float(bool(row.attached.ids)) for row in bad]), 4),
            **{
                signal: round(average([float(row.signals[signal] >= cut) for row in bad]), 4)
                for signal, cut in cuts.items()
            },
        },
        "picks": round(average([len(row.attached.ids) for row in bad]), 2),
        "tokens": round(average([row.attached.tokens for row in bad]), 1),
        "auroc": {
            signal: auroc([row.signals[signal] for row in good], [row.signals[signal] for row in bad])
            for signal in bad[0].signals
        },
    }


def newer_first(rows: Sequence[Row]) -> JsonObject:
    """Of two facts that contradict, how often the newer one stands first; only the older found is a miss."""
    return {half: _newer([row for row in rows if row.question.half == half]) for half in HALVES}


def _newer(rows: Sequence[Row]) -> JsonObject:
    pairs = [row for row in rows if row.question.newer and row.question.older]
    by_ranker: JsonObject = {}
    for name in pairs[0].ranked if pairs else ():
        found = [_is_newer_first(row.ranked[name][:PICKS], row) for row in pairs]
        by_ranker[name] = _share(found)
    return {
        "pairs": len(pairs),
        "by_relevance": by_ranker,
        "attached": _share([_is_newer_first(row.attached.ids, row) for row in pairs]),
    }


def _share(found: Sequence[bool | None]) -> JsonObject:
    told = [one for one in found if one is not None]
    return {"first": round(average([float(one) for one in told]), 4), "of": len(told)}


def _is_newer_first(ids: Sequence[str], row: Row) -> bool | None:
    newer = [place for place, name in enumerate(ids) if name in row.question.newer]
    older = [place for place, name in enumerate(ids) if name in row.question.older]
    if not newer and not older:
        return None
    return bool(newer) and (not older or newer[0] < older[0])
