"""The vectors of one memory directory as a matrix and as a file, and a ranking by words and vectors.

The file is read whole and never mapped: a mapped file that is truncated would crash the process. A memory
without a vector is scored by its words, on the scale of those with one, so that a store that is half encoded
ranks no worse than by words.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from hashlib import blake2b
from heapq import nlargest
from operator import mul
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from nacre.memory.recall.ranking import weights
from nacre.memory.recall.ranking.index import PassageIndex
from nacre.memory.recall.ranking.match import QuestionMatch, parse_question
from nacre.memory.recall.ranking.ranker import (
    CANDIDATES,
    EXPLAINED,
    FEATURES,
    TOP,
    FeatureExtractor,
    Ranker,
    Ranking,
    ScoredFile,
    assistants,
    confidence,
    unknown_share,
)
from nacre.store import disk

Floats: TypeAlias = npt.NDArray[np.float32]

MAGIC = b"nacre vectors 1\n"
"""The number changes with the format or the encoding; a file with another one is built again."""
_SIZES = 12
"""Bytes after the magic: a checksum of all that follows it, and the length of the header."""
MEAN_FROM = 20
"""Files of a store from which their mean tells what all files share; every store of the training has more."""
_LEAST = 1e-9
"""Avoids a division by zero: the vector of a single file equals the mean."""


@dataclass(frozen=True, slots=True)
class VectorSource:
    """The state of a file that a vector was computed from."""

    digest: str
    """Of the text that was encoded."""
    stamp: str = ""
    """The file's stamp; empty when the caller has none."""


@dataclass(frozen=True)
class Vectors:
    """A vector of unit length for each file, or zero where the model cannot read it; immutable."""

    files: Mapping[str, VectorSource]
    """In the order of the rows."""
    rows: Floats

    @classmethod
    def empty(cls, width: int) -> Vectors:
        return cls({}, np.zeros((0, width), np.float32))

    @classmethod
    def of(cls, found: Mapping[str, tuple[VectorSource, Floats]], width: int) -> Vectors:
        """Return the vectors of these files."""
        if not found:
            return cls.empty(width)
        return cls(
            {file: one[0] for file, one in found.items()}, np.stack([one[1] for one in found.values()])
        )

    def updated(self, newer: Vectors) -> Vectors:
        """Return these vectors with those of `newer` added or in place of the same files."""
        if not self.files or not newer.files:
            return newer if newer.files else self
        kept = [number for file, number in self.number.items() if file not in newer.files]
        files = {file: known for file, known in self.files.items() if file not in newer.files}
        return Vectors(files | dict(newer.files), np.concatenate([self.rows[kept], newer.rows]))

    @cached_property
    def names(self) -> list[str]:
        return list(self.files)

    @cached_property
    def number(self) -> dict[str, int]:
        """The row of each file."""
        return {file: number for number, file in enumerate(self.files)}

    @cached_property
    def by_digest(self) -> dict[str, int]:
        """The row of each text: a renamed or copied file need not be encoded again."""
        return {known.digest: number for number, known in enumerate(self.files.values())}

    def similarity(self, question: Floats) -> tuple[Floats, Floats]:
        """Return the similarity of each file to a question: without the mean of all files, and with it.

        The first distinguishes the files of one store, the second shows whether the store is relevant at all.
        NaN for a file whose vector is zero, which the model cannot read.
        """
        mean, lengths, to_mean = self._centre
        asked = question - mean
        size = np.float32(max(float(np.linalg.norm(asked)), _LEAST))
        cosines: Floats = self.rows @ question
        # (row - mean) . asked / |row - mean| / |asked|, without a second matrix of rows less their mean.
        scores: Floats = (cosines - to_mean - np.float32(mean @ asked)) / lengths / size
        return scores, cosines

    @cached_property
    def _centre(self) -> tuple[Floats, Floats, Floats]:
        """The mean of all vectors, the distance of each to it, and the product of each with it."""
        squares = np.einsum("ij,ij->i", self.rows, self.rows)
        is_read = squares > 0
        # Of a few files the mean is mostly each of them: less of it is taken off.
        mean = self.rows.sum(axis=0) / np.float32(max(1, int(is_read.sum()), MEAN_FROM))
        to_mean = self.rows @ mean
        lengths = np.sqrt(np.maximum(squares - 2 * to_mean + mean @ mean, np.float32(_LEAST)))
        lengths[~is_read] = np.nan
        return mean, lengths, to_mean


def unread(width: int) -> Floats:
    """Return the vector of a text that the model cannot read."""
    return np.zeros(width, np.float32)


def digest_of(text: str) -> str:
    """Return the digest of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def load_vectors(path: Path, model: str, width: int) -> Vectors:
    """Read vectors; raises OSError or ValueError when the file is missing, damaged or of another model."""
    descriptor = disk.open_regular(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as source:
        data = source.read()
    body = memoryview(data)[len(MAGIC) + 4 :]
    sizes = data[len(MAGIC) : len(MAGIC) + _SIZES]
    if not data.startswith(MAGIC) or len(sizes) < _SIZES:
        raise ValueError("no vectors")
    if zlib.crc32(body) != int.from_bytes(sizes[:4], "little"):
        raise ValueError("damaged vectors")
    start = len(MAGIC) + _SIZES + int.from_bytes(sizes[4:], "little")
    try:
        header = json.loads(data[len(MAGIC) + _SIZES : start])
        files = {file: VectorSource(digest, stamp) for file, digest, stamp in header["files"]}
        if header["model"] != model or header["width"] != width:
            raise ValueError("vectors of another model")
    except (KeyError, TypeError) as error:
        raise ValueError("no header of vectors") from error
    rows = np.frombuffer(data, np.float16, offset=start).reshape(len(files), width)
    return Vectors(files, rows.astype(np.float32))


def save_vectors(vectors: Vectors, path: Path, model: str) -> None:
    """Replace the file, in half precision, which does not change a ranking."""
    files = [[file, known.digest, known.stamp] for file, known in vectors.files.items()]
    header = json.dumps({"model": model, "width": vectors.rows.shape[1], "files": files}).encode()
    body = len(header).to_bytes(_SIZES - 4, "little") + header + vectors.rows.astype(np.float16).tobytes()
    disk.make_folder(path.parent)
    disk.replace_file(path, MAGIC + zlib.crc32(body).to_bytes(4, "little") + body, sync=False)


SEMANTIC_FEATURES = ("similar", "similar_before", "similar_after", "similar_around")
BESIDE = (-1, 1, -2, 2)
"""Steps to the neighbours whose similarity counts; the outer two are added up."""
SEMANTIC_CANDIDATES = 40
"""Most similar files that are candidates even when they share no word with the question."""
COMPARED = 10
"""The best files by words that show the difference of the two scales; 30 of them, or all, ranked alike."""

NO_VECTOR = "no_vector"
"""The part of a score that adapts it to the scale of files with a vector."""

Features: TypeAlias = Sequence[float]


@dataclass(frozen=True)
class Similarities:
    """The similarity of each file with a vector to a question; NaN for one that the model cannot read."""

    numbers: Mapping[str, int]
    names: Sequence[str]
    scores: npt.NDArray[np.float32]
    """Without the mean of all files: distinguishes them."""
    cosines: npt.NDArray[np.float32]
    """With the mean: shows whether the store is relevant at all."""

    def of(self, file: str) -> float | None:
        number = self.numbers.get(file)
        score = math.nan if number is None else float(self.scores[number])
        return None if math.isnan(score) else score

    def highest_cosine(self, files: Sequence[str]) -> float | None:
        """Return the highest cosine of these files; None while one of them has no vector."""
        numbers = [self.numbers[file] for file in files if self.of(file) is not None]
        return float(self.cosines[numbers].max()) if numbers and len(numbers) == len(files) else None

    def nearest(self, limit: int) -> list[str]:
        """Return the most similar files, unordered."""
        every = range(len(self.scores))
        best = every if len(every) <= limit else np.argpartition(-self.scores, limit)[:limit]
        return [self.names[i] for i in best if not math.isnan(self.scores[i])]


def rank_by_vectors(
    ranker: Ranker, text: str, similarities: Similarities, *, asked: date | None, limit: int
) -> Ranking:
    """Rank the files for a question by words and vectors."""
    index = ranker.index
    question = parse_question(text, index, asked)
    match = QuestionMatch(index, question, assistants(index))
    found = ranker.with_neighbours(match.best_files(CANDIDATES))
    near = (index.by_id.get(file) for file in similarities.nearest(SEMANTIC_CANDIDATES))
    numbers = list(dict.fromkeys([*found, *sorted(number for number in near if number is not None)]))
    lexical = FeatureExtractor(index, question, match).vectors(numbers)
    semantic = [_semantic_features(index, number, similarities) for number in numbers]
    column = 0 if question.names else 1
    names = (*FEATURES, *SEMANTIC_FEATURES)
    words = [weights.LEXICAL[name][column] for name in FEATURES]
    both = [weights.MINILM[name][column] for name in names]
    by_words = [sum(map(mul, words, vector)) for vector in lexical]
    scores = _scores(lexical, semantic, by_words, both)
    order = sorted(((score, -i) for i, score in enumerate(scores)), reverse=True)[:limit]
    picks = []
    for place, (score, i) in enumerate(order):
        meaning = semantic[-i]
        if meaning is None:
            parts = dict(zip(FEATURES, map(mul, words, lexical[-i]), strict=True))
            parts[NO_VECTOR] = score - by_words[-i]
        else:
            parts = dict(zip(names, map(mul, both, (*lexical[-i], *meaning)), strict=True))
        entry = index.entries[numbers[-i]]
        picks.append(
            ScoredFile(
                id=entry.id if entry else "",
                score=score,
                parts={name: round(value, 4) for name, value in parts.items() if value},
                subject=ranker.subject(numbers[-i], match, question) if place < EXPLAINED else None,
            )
        )
    first = nlargest(TOP, ((score, -i) for i, score in enumerate(scores)))
    similar = similarities.highest_cosine([e.id for _, i in first if (e := index.entries[numbers[-i]])])
    # By the words of the files that words found, and by vectors if there are any.
    scored = sorted(zip(by_words[: len(found)], lexical, strict=False), key=lambda one: -one[0])
    unknown = unknown_share(index, question)
    return Ranking(picks, confidence(question, unknown, scored, words, similar=similar))


def _semantic_features(index: PassageIndex, number: int, similarities: Similarities) -> list[float] | None:
    """Return the features of SEMANTIC_FEATURES; None for a file without a vector."""

    def similar(other: int | None) -> float | None:
        entry = None if other is None else index.entries[other]
        return None if entry is None else similarities.of(entry.id)

    own = similar(number)
    if own is None:
        return None
    before, after, *around = (similar(index.neighbour(number, step)) or 0.0 for step in BESIDE)
    return [own, before, after, sum(around)]


def _scores(
    lexical: Sequence[Features],
    semantic: Sequence[Features | None],
    by_words: Sequence[float],
    learnt: Features,
) -> list[float]:
    """Return scores by words and vectors; without a vector by words, on the same scale."""
    by_both = {
        i: sum(map(mul, learnt, (*words, *meaning)))
        for i, (words, meaning) in enumerate(zip(lexical, semantic, strict=True))
        if meaning is not None
    }
    foremost = nlargest(COMPARED, by_both, key=by_words.__getitem__)
    apart = sum(by_both[i] - by_words[i] for i in foremost) / max(1, len(foremost))
    return [by_both.get(i, score + apart) for i, score in enumerate(by_words)]
