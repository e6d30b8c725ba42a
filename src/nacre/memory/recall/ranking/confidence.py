"""How sure a ranking is: is the store about this at all, and about the one who was asked about?

Two logistic sums over what the whole list of candidates shows. Rank fusion could not feed them:
they need the size of the evidence, not its order. That somebody of the name asked about wrote here is no
evidence that anything answers: two stores may well share a first name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nacre.memory.recall.ranking.features import FEATURES
from nacre.memory.recall.ranking.question import Question
from nacre.memory.recall.ranking.weights import MATCH, RELEVANCE, RELEVANCE_BY_MEANING

AT = {name: i for i, name in enumerate(FEATURES)}
BY_ASKED = AT["by_asked_author"]
OWN_AUTHOR = frozenset(AT[name] for name in ("by_asked_author", "asked_passage", "mentions_asked"))
"""Left out of relevance, and where the asked author's files are compared with the others'."""
COMPARED = ("covered", "pairs", "passage", "window_covered")
TOP = 5
ENOUGH = 0.5
"""Relevance from which on something is attached; the weights are scaled to it."""
LONG_FROM = 5.0
"""Logarithm of the words of an ordinary memory, some 150 at most: a passage of a longer one covers less."""

Vector = Sequence[float]


@dataclass(frozen=True)
class Confidence:
    """Probabilities, 0 to 1."""

    relevance: float
    """That anything here answers; below the cut nothing is attached."""
    match: float
    """That it is about whom was asked, not the same thing said of someone else."""

    is_enough: bool
    """Whether to attach at all."""


NOTHING = Confidence(0.0, 0.0, is_enough=False)


def confidence(
    question: Question,
    unknown: float,
    scored: Sequence[tuple[float, Vector]],
    learnt: Vector,
    *,
    similar: float | None = None,
) -> Confidence:
    """How sure a ranking is; `scored` is best first, `unknown` the share asked that no file holds.

    `similar` is how like the question the likest of the first picks is, where all of them have vectors.
    """
    if not scored:
        return NOTHING
    signs = evidence(question, unknown, scored, learnt)
    if similar is None:
        relevance = logistic(RELEVANCE, signs)
    else:
        meant = {"similar": similar, "similar_long": similar * signs["long"]}
        relevance = logistic(RELEVANCE_BY_MEANING, signs | meant)
    return Confidence(relevance, logistic(MATCH, signs), is_enough=relevance >= ENOUGH)


def evidence(
    question: Question, unknown: float, scored: Sequence[tuple[float, Vector]], learnt: Vector
) -> dict[str, float]:
    """What a ranking shows of its own worth."""
    score, best = scored[0]
    top = [vector for _, vector in scored[:TOP]]
    signs = {
        "score": score,
        "margin": score - scored[min(TOP, len(scored)) - 1][0],
        "covered": best[AT["covered"]],
        "passage": best[AT["passage"]],
        "pairs": best[AT["pairs"]],
        "window_covered": best[AT["window_covered"]],
        "score_of_words": _without_author(score, best, learnt),
        "covered_top": max(vector[AT["covered"]] for vector in top),
        "pairs_top": max(vector[AT["pairs"]] for vector in top),
        "window_covered_top": max(vector[AT["window_covered"]] for vector in top),
        "unknown": unknown,
        "named": float(bool(question.names)),
        "terms": len(question.terms) / 10,
        "log_terms": math.log1p(len(question.terms)),
        "long": max(0.0, best[AT["document_length"]] - LONG_FROM),
    }
    return signs | _asked_against_others(question, scored, learnt)


def _asked_against_others(
    question: Question, scored: Sequence[tuple[float, Vector]], learnt: Vector
) -> dict[str, float]:
    """How much better the asked author's files match than everyone else's; 0 when nobody is named."""
    if not question.names:
        return {f"asked_{name}": 0.0 for name in (*COMPARED, "score")}
    asked = [(s, v) for s, v in scored if v[BY_ASKED]]
    others = [(s, v) for s, v in scored if not v[BY_ASKED]]
    gaps = {f"asked_{name}": _highest(asked, AT[name]) - _highest(others, AT[name]) for name in COMPARED}
    return gaps | {"asked_score": _best_without_author(asked, learnt) - _best_without_author(others, learnt)}


def _highest(scored: Sequence[tuple[float, Vector]], at: int) -> float:
    return max((vector[at] for _, vector in scored), default=0.0)


def _best_without_author(scored: Sequence[tuple[float, Vector]], learnt: Vector) -> float:
    return max((_without_author(score, vector, learnt) for score, vector in scored), default=0.0)


def _without_author(score: float, vector: Vector, learnt: Vector) -> float:
    return score - sum(learnt[i] * vector[i] for i in OWN_AUTHOR)


def logistic(weights: dict[str, float], signs: dict[str, float]) -> float:
    total = weights.get("bias", 0.0) + sum(weights.get(name, 0.0) * value for name, value in signs.items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))
