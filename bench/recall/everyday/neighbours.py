"""Makes `neighbours.txt` of the note ranker: English words with similar vectors.

`python -m bench.recall.everyday.neighbours FOLDER`, with the folder of all-MiniLM-L6-v2 (Apache 2.0), needs
sentence-transformers and takes minutes. Each word of the model's vocabulary is encoded alone; the mean and
the six strongest directions, which all words share, are removed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from bench.recall.dense import encoder
from bench.recall.everyday.train import PACKAGE
from nacre.memory.recall.ranking.related import NEAR_FROM, NEAR_STEP
from nacre.memory.recall.ranking.terms import STOP_TERMS, stem
from nacre.memory.recall.semantic.minilm import VOCABULARY_FILE

SHARED = 6
WIDTH = 256
FREQUENT = 8_000
"""Words from which the directions are computed; the vocabulary is sorted by frequency."""
NEIGHBOURS = 16
SHORTEST = 3
AT_ONCE = 1_000
LAST_STEP = 25
"""The letter "z"."""


def main(folder: Path) -> None:
    vocabulary = (folder / VOCABULARY_FILE).read_text(encoding="utf-8").splitlines()
    words = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
    vectors = encoder()(words)
    vectors -= vectors.mean(0)
    directions = np.linalg.svd(vectors[:FREQUENT], full_matrices=False)[2]
    vectors = vectors @ directions[SHARED : SHARED + WIDTH].T
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    first: dict[str, int] = {}
    for number, word in enumerate(words):
        term = stem(word)
        if term not in STOP_TERMS and len(term) >= SHORTEST:
            first.setdefault(term, number)
    terms = list(first)
    chosen = vectors[list(first.values())]
    lines = []
    for start in range(0, len(terms), AT_ONCE):
        for row, cosines in enumerate(chosen[start : start + AT_ONCE] @ chosen.T):
            cosines[start + row] = 0
            best = [i for i in np.argsort(-cosines)[:NEIGHBOURS] if cosines[i] >= NEAR_FROM]
            steps = [min(LAST_STEP, int((cosines[i] - NEAR_FROM) / NEAR_STEP)) for i in best]
            near = [f"{terms[i]}{chr(ord('a') + step)}" for i, step in zip(best, steps, strict=True)]
            if near:
                lines.append(" ".join([terms[start + row], *near]))
    (PACKAGE / "neighbours.txt").write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
