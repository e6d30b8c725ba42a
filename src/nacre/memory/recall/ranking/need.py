"""Estimates from the words of a message, and from its vector, whether it needs a memory at all.

"What does idempotent mean?" and "shorter, please" need none, whatever they share with a memory; "who signs
off on refunds?" and "add a test for the import" do. The weights of `need.tsv` are learnt from labelled
messages by `python -m bench.recall.everyday.train`.
"""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import pairwise
from operator import mul

from nacre.memory.recall.ranking.term_vectors import SCALE, WIDTH, vector_of
from nacre.memory.recall.ranking.terms import terms
from nacre.prompts import packaged_file

_TOKEN = re.compile(
    r"[^\W\d_\u3040-\u30ff\u4e00-\u9fff]+(?:'[^\W\d_]+)?|\d+|[\u3040-\u30ff\u4e00-\u9fff]|[?!]"
)
_CJK_FROM = "\u3040"
_CJK_TO = "\u9fff"
_NUMBER = "1"
"""Stands for every number."""
BIAS = "#bias"
VECTOR_BIAS = "#vector"
VECTOR_SHARE = 0.35
"""Weight of the vector beside the words. On people that were left out, words alone order a message that
needs a memory before one that does not in 95.5 of 100 cases, the vector alone in 88, both in 96.6."""


def need(text: str) -> float:
    """Return the log-odds that a message needs a memory."""
    weights, of_vector = _weights()
    known: list[float] = [weights[gram] for gram in grams(text) if gram in weights]
    by_words = weights[BIAS] + sum(known) / math.sqrt(max(1, len(known)))
    vector = vector_of(terms(text))
    by_vector = weights[VECTOR_BIAS] + (sum(map(mul, of_vector, vector)) / SCALE if vector else 0.0)
    return (1 - VECTOR_SHARE) * by_words + VECTOR_SHARE * by_vector


def grams(text: str) -> set[str]:
    """Return the features of a message: words, pairs of words, how it begins and ends.

    Its length is none: long questions about the world need no memory, either.
    """
    tokens = [
        _NUMBER if token.isdigit() else token
        for token in _TOKEN.findall(text.lower().replace("’", "'").replace("？", "?").replace("！", "!"))
    ]
    found = {*tokens, *(f"{one} {other}" for one, other in pairwise(tokens))}
    if tokens:
        found |= {f"^{tokens[0]}", f"^{' '.join(tokens[:2])}", f"${tokens[-1]}"}
    for at in range(len(tokens) - 2):
        three = tokens[at : at + 3]
        if all(_CJK_FROM <= token <= _CJK_TO for token in three):
            found.add("".join(three))
    if "\n" in text.strip():
        found.add("#lines")
    return found


@cache
def _weights() -> tuple[dict[str, float], list[float]]:
    """Return the weights of words, and those of the numbers of a vector."""
    text = packaged_file(__package__, "need.tsv").decode()
    weights = {gram: float(weight) for gram, weight in (line.split("\t") for line in text.splitlines())}
    return weights, [weights.pop(f"#{place}") for place in range(WIDTH)]
