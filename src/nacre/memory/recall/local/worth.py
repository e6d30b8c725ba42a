"""How far each pick is worth attaching: the store is about what was asked, and this pick has a part in it."""

from __future__ import annotations

import math

from nacre.memory.recall.local.confidence import Confidence
from nacre.memory.recall.local.ranker import Ranking
from nacre.memory.recall.local.weights import CUT

WORTH_IT = 0.5
"""From here on a pick is attached; both parts of a pick's worth are scaled to it."""
RIVALS = 10
"""Among so many of the best a pick has its share: what lies behind them is noise, however large the store."""
LEAST_SHARE = 0.015
"""Tuned: leaves 3.8 to 4.3 of five picks, four fifths of the tokens and 95 % or more of recall@5."""
_NONE = 1e-30
"""What a hopeless pick is given, so that it can be divided by."""


def worth(ranking: Ranking) -> list[float]:
    """For each pick the confidence that it helps, 0 to 1; the better placed is never the less sure."""
    about = _about(ranking.confidence)
    # Written so that rounding cannot turn two neighbours round.
    return [min(about, 1 / (1 + LEAST_SHARE / share)) for share in shares([p.score for p in ranking.picks])]


def shares(scores: list[float]) -> list[float]:
    """How the chance to be the answer divides among the picks; scores are best first, learnt for this."""
    if not scores:
        return []
    odds = [math.exp(score - scores[0]) for score in scores]
    total = sum(odds[:RIVALS])
    return [max(one / total, _NONE) for one in odds]


def _about(sure: Confidence) -> float:
    """The store's relevance, scaled so that its cut, one for each kind of question, stands at one half."""
    low, high = min(CUT), max(CUT)
    if sure.is_enough:
        return WORTH_IT + (1 - WORTH_IT) * max(0.0, sure.relevance - low) / (1 - low)
    return WORTH_IT * min(sure.relevance / high, math.nextafter(1.0, 0.0))
