"""How good a ranking is, how far two signals tell things apart, and what a difference is worth."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

Measure = dict[str, float]
REPORTED = ("any@1", "any@5", "any@10", "all@5", "recall@5", "recall@10", "mrr")
ROUNDS = 2_000
SEED = 7


def measure(ranking: Sequence[str], gold: frozenset[str]) -> Measure:
    """How well one ranking finds what answers."""
    hits = [place for place, name in enumerate(ranking) if name in gold]

    def within(limit: int) -> int:
        return sum(place < limit for place in hits)

    return {
        "any@1": float(within(1) > 0),
        "any@5": float(within(5) > 0),
        "any@10": float(within(10) > 0),
        "all@5": float(within(5) == len(gold)),
        "recall@5": within(5) / len(gold),
        "recall@10": within(10) / len(gold),
        "mrr": 1 / (hits[0] + 1) if hits else 0.0,
    }


def mean(rows: Sequence[Mapping[str, float]]) -> Measure:
    """The average of each measure."""
    return {key: round(average([row[key] for row in rows]), 4) for key in rows[0]} if rows else {}


def average(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """The chance that a positive has more of it than a negative, ties counted half; none without both."""
    if not positive or not negative:
        return None
    ranked = sorted([(value, 1) for value in positive] + [(value, 0) for value in negative])
    rank_sum, first = 0.0, 0
    while first < len(ranked):
        last = first
        while last < len(ranked) and ranked[last][0] == ranked[first][0]:
            last += 1
        rank_sum += (first + last + 1) / 2 * sum(label for _, label in ranked[first:last])
        first = last
    n, m = len(positive), len(negative)
    return round((rank_sum - n * (n + 1) / 2) / (n * m), 4)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """The mean of the paired differences, and the middle 95 % of it when the questions are drawn again."""
    chance = random.Random(SEED)
    gaps = [one - other for one, other in zip(ours, theirs, strict=True)]
    n = len(gaps)
    means = sorted(sum(chance.choices(gaps, k=n)) / n for _ in range(ROUNDS))
    return {
        "mean": round(sum(gaps) / n, 4),
        "low": round(means[int(ROUNDS * 0.025)], 4),
        "high": round(means[int(ROUNDS * 0.975)], 4),
    }


def cut_that_loses(answered: Sequence[tuple[float, bool]], loss: float) -> float:
    """The highest cut on a signal that loses at most this share of the questions that had their answer."""
    had = average([float(has) for _, has in answered])
    best = float("-inf")
    for cut in sorted({signal for signal, _ in answered}):
        kept = average([float(has and signal >= cut) for signal, has in answered])
        if had - kept <= loss + 1e-9:
            best = cut
    return best
