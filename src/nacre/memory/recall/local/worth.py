"""How far each pick is worth attaching: the store is about what was asked, and this pick has a part in it."""

from __future__ import annotations

import math

from nacre.memory.recall.local.confidence import ENOUGH
from nacre.memory.recall.local.ranker import Ranking

WORTH_IT = ENOUGH
"""From here on a pick is attached; both parts of a pick's worth are scaled to it."""
RIVALS = 10
"""Among so many of the best a pick has its share: what lies behind them is noise, however large the store."""
LEAST_SHARE = 0.007
"""Tuned: leaves 3.2 (sessions) to 4.7 (single messages) of five picks and 97.5 % of recall@5 or more."""
_NONE = 1e-30
"""What a hopeless pick is given, so that it can be divided by."""


def worth(ranking: Ranking) -> list[float]:
    """For each pick the confidence that it helps, 0 to 1; the better placed is never the less sure."""
    about = ranking.confidence.relevance
    # Written so that rounding cannot turn two neighbours round.
    return [min(about, 1 / (1 + LEAST_SHARE / share)) for share in shares([p.score for p in ranking.picks])]


def shares(scores: list[float]) -> list[float]:
    """How the chance to be the answer divides among the picks; scores are best first, learnt for this."""
    if not scores:
        return []
    odds = [math.exp(score - scores[0]) for score in scores]
    total = sum(odds[:RIVALS])
    return [max(one / total, _NONE) for one in odds]
