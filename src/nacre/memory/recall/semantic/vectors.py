"""The vectors of one memory directory: in memory as one matrix, on disk as one file that may be thrown away.

The file is read whole and never mapped: a mapped file that somebody cuts short would end the process.
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
from tempfile import mkstemp
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from nacre.memory.recall.ranking import weights
from nacre.memory.recall.ranking.index import PassageIndex
from nacre.memory.recall.ranking.match import ParsedQuestion, QuestionMatch, parse_question
from nacre.memory.recall.ranking.ranker import (
    CANDIDATES,
    EXPLAINED,
    FEATURES,
    TOP,
    Confidence,
    FeatureExtractor,
    Ranker,
    Ranking,
    ScoredFile,
    assistants,
    confidence,
)
from nacre.store import disk

Floats: TypeAlias = npt.NDArray[np.float32]

MAGIC = b"nacre vectors 1\n"
"""Another form or another way to encode gets another number: what does not begin so is built again."""
_SIZES = 12
"""Bytes after the magic: a checksum of all that follows it, and the length of the header."""
_LEAST = 1e-9
"""Guards a division: a store of one file is its own mean, and nothing is left of its vector."""


@dataclass(frozen=True, slots=True)
class VectorSource:
    """Which state of a file a vector was made from."""

    digest: str
    """Of the text that was encoded."""
    stamp: str = ""
    """Of the file, as the caller tells states apart; empty when it does not."""


@dataclass(frozen=True)
class Vectors:
    """A vector of unit length for each file, or zero where the model cannot read it; only ever replaced."""

    files: Mapping[str, VectorSource]
    """In the order of the rows."""
    rows: Floats

    @classmethod
    def empty(cls, width: int) -> Vectors:
        return cls({}, np.zeros((0, width), np.float32))

    @classmethod
    def of(cls, found: Mapping[str, tuple[VectorSource, Floats]], width: int) -> Vectors:
        """The vectors of these files."""
        if not found:
            return cls.empty(width)
        return cls(
            {file: one[0] for file, one in found.items()}, np.stack([one[1] for one in found.values()])
        )

    def updated(self, newer: Vectors) -> Vectors:
        """These vectors, with those of `newer` added and in the place of the same files' own."""
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
        """A row with the vector of this text: a file that was renamed or copied need not be encoded."""
        return {known.digest: number for number, known in enumerate(self.files.values())}

    def likeness(self, question: Floats) -> tuple[Floats, Floats]:
        """How like each file is to a question, -1 to 1: with what all files share taken off, and with it.

        The first tells the files of one store apart, the second a store that the question is not about. NaN
        for a file whose vector is zero: the model cannot read it.
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
        """The mean of all vectors, how far each is from it, and the product of each with it."""
        squares = np.einsum("ij,ij->i", self.rows, self.rows)
        is_read = squares > 0
        mean = self.rows.sum(axis=0) / np.float32(max(1, int(is_read.sum())))
        to_mean = self.rows @ mean
        lengths = np.sqrt(np.maximum(squares - 2 * to_mean + mean @ mean, np.float32(_LEAST)))
        lengths[~is_read] = np.nan
        return mean, lengths, to_mean


def unread(width: int) -> Floats:
    """The vector of a text that the model cannot read."""
    return np.zeros(width, np.float32)


def digest_of(text: str) -> str:
    """What tells one text from another."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def load_vectors(path: Path, model: str, width: int) -> Vectors:
    """The vectors in a file; raises OSError or ValueError when they are not there or not this model's."""
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
    """Write the vectors aside and put them in the file's place, half as exact: ranking does not notice."""
    files = [[file, known.digest, known.stamp] for file, known in vectors.files.items()]
    header = json.dumps({"model": model, "width": vectors.rows.shape[1], "files": files}).encode()
    body = len(header).to_bytes(_SIZES - 4, "little") + header + vectors.rows.astype(np.float16).tobytes()
    disk.make_folder(path.parent)
    descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(descriptor, "wb") as target:
            target.write(MAGIC + zlib.crc32(body).to_bytes(4, "little"))
            target.write(body)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


SEMANTIC_FEATURES = ("similar", "similar_before", "similar_after", "similar_around")
BESIDE = (-1, 1, -2, 2)
"""The files whose meaning counts for the one between them; the outer two are added up."""
SEMANTIC_CANDIDATES = 40
"""Files nearest in meaning that are weighed even when they share no word with the question."""
COMPARED = 10
"""The best files by words show how far the two scales lie apart; 30 of them, or all, ranked alike."""

NO_VECTOR = "no_vector"
"""The part of a score that moves it to the scale of files with a vector."""

Features: TypeAlias = Sequence[float]
Weights: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class Similarities:
    """How like a question each file that has a vector is; NaN for one that the model cannot read."""

    numbers: Mapping[str, int]
    names: Sequence[str]
    scores: npt.NDArray[np.float32]
    """With what all files of the store share taken off: tells them apart."""
    cosines: npt.NDArray[np.float32]
    """With it: tells whether the question is about this store at all."""

    def of(self, file: str) -> float | None:
        number = self.numbers.get(file)
        score = math.nan if number is None else float(self.scores[number])
        return None if math.isnan(score) else score

    def plainly(self, files: Sequence[str]) -> float | None:
        """The cosine of the likest of these; None while one of them has no vector."""
        numbers = [self.numbers[file] for file in files if self.of(file) is not None]
        return float(self.cosines[numbers].max()) if numbers and len(numbers) == len(files) else None

    def nearest(self, limit: int) -> list[str]:
        """The files most like the question, in no order."""
        every = range(len(self.scores))
        best = every if len(every) <= limit else np.argpartition(-self.scores, limit)[:limit]
        return [self.names[i] for i in best if not math.isnan(self.scores[i])]


def rank(ranker: Ranker, text: str, likeness: Similarities, *, asked: date | None, limit: int) -> Ranking:
    """Rank a store for a question by its words and by what they mean."""
    index = ranker.index
    question = parse_question(text, index, asked)
    match = QuestionMatch(index, question, assistants(index))
    found = ranker.with_neighbours(match.best_files(CANDIDATES))
    near = (index.by_id.get(file) for file in likeness.nearest(SEMANTIC_CANDIDATES))
    numbers = list(dict.fromkeys([*found, *sorted(number for number in near if number is not None)]))
    said = FeatureExtractor(index, question, match).vectors(numbers)
    weighed = _WeightedCandidates.of(question, said, [_meant(index, number, likeness) for number in numbers])
    order = sorted(((score, -i) for i, score in enumerate(weighed.scores)), reverse=True)[:limit]
    picks = [
        ScoredFile(
            id=entry.id if (entry := index.entries[numbers[-i]]) else "",
            score=score,
            parts=weighed.parts(-i),
            subject=ranker.subject(numbers[-i], match, question) if place < EXPLAINED else None,
        )
        for place, (score, i) in enumerate(order)
    ]
    first = nlargest(TOP, ((score, -i) for i, score in enumerate(weighed.scores)))
    ids = [entry.id for _, i in first if (entry := index.entries[numbers[-i]])]
    return Ranking(picks, weighed.sure(index, question, len(found), likeness.plainly(ids)))


def _meant(index: PassageIndex, number: int, likeness: Similarities) -> list[float] | None:
    """Evidence of meaning, in the order of SEMANTIC_FEATURES; None for a file without a vector."""

    def similar(other: int | None) -> float | None:
        entry = None if other is None else index.entries[other]
        return None if entry is None else likeness.of(entry.id)

    own = similar(number)
    if own is None:
        return None
    before, after, *around = (similar(index.neighbour(number, step)) or 0.0 for step in BESIDE)
    return [own, before, after, sum(around)]


@dataclass(frozen=True)
class _WeightedCandidates:
    """The candidates of one question, weighed: by words all of them, by both those that have a vector."""

    said: Sequence[Features]
    meant: Sequence[Features | None]
    words: Weights
    both: Weights
    by_words: Sequence[float]
    scores: Sequence[float]

    @classmethod
    def of(
        cls, question: ParsedQuestion, said: Sequence[Features], meant: Sequence[Features | None]
    ) -> _WeightedCandidates:
        column = 0 if question.names else 1
        words = {name: weights.LEXICAL[name][column] for name in FEATURES}
        both = {name: weights.MINILM[name][column] for name in (*FEATURES, *SEMANTIC_FEATURES)}
        learnt = list(words.values())
        by_words = [sum(map(mul, learnt, vector)) for vector in said]
        return cls(said, meant, words, both, by_words, _scores(said, meant, by_words, list(both.values())))

    def parts(self, i: int) -> dict[str, float]:
        """What the score of a candidate is made of."""
        meant = self.meant[i]
        if meant is None:
            named = zip(self.words.items(), self.said[i], strict=True)
            missing = {NO_VECTOR: self.scores[i] - self.by_words[i]}
        else:
            named = zip(self.both.items(), (*self.said[i], *meant), strict=True)
            missing = {}
        parts = {name: weight * value for (name, weight), value in named} | missing
        return {name: round(value, 4) for name, value in parts.items() if value}

    def sure(
        self, index: PassageIndex, question: ParsedQuestion, count: int, similar: float | None
    ) -> Confidence:
        """How sure the words of the first `count` are, and what the first picks mean if all have vectors."""
        scored = sorted(zip(self.by_words[:count], self.said, strict=False), key=lambda one: -one[0])
        unknown = sum(term.weight for term in question.terms if term.text not in index.postings)
        learnt = list(self.words.values())
        return confidence(question, unknown / question.total, scored, learnt, similar=similar)


def _scores(
    said: Sequence[Features], meant: Sequence[Features | None], by_words: Sequence[float], learnt: Features
) -> list[float]:
    """Words and meaning together; for a file without a vector its words, moved to the others' scale."""
    by_both = {
        i: sum(map(mul, learnt, (*words, *meaning)))
        for i, (words, meaning) in enumerate(zip(said, meant, strict=True))
        if meaning is not None
    }
    foremost = nlargest(COMPARED, by_both, key=by_words.__getitem__)
    apart = sum(by_both[i] - by_words[i] for i in foremost) / max(1, len(foremost))
    return [by_both.get(i, score + apart) for i, score in enumerate(by_words)]
