"""Learns the data of the note ranker: `python -m bench.recall.everyday.train TERM_VECTORS [VECTORS]`.

Writes `concepts.txt` and `need.tsv` of the package and prints the weights for `ranking/weights.py`, and how
well people are served that were left out. TERM_VECTORS and VECTORS have vectors of each person's memories
and segments by a table of terms and by an encoder that did not see the person; those of notes with a vector
of the encoder are learnt only with VECTORS.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.recall.everyday.people import HERE, Person, own_people
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.ranking import need, notes
from nacre.memory.recall.ranking.term_vectors import SCALE, WIDTH, vector_of
from nacre.memory.recall.ranking.terms import STOP_TERMS, terms
from nacre.memory.recall.semantic.meaning import TEXT_CHARS, SemanticIndex, question_text, text_of

Floats = npt.NDArray[np.float64]
PACKAGE = Path(notes.__file__).parent
LEAST_SEEN = 2
"""Features of a single message are noise."""
STEPS = 400
LIST_STEPS = 150
LIST_DECAY = 3.0
GROUPS = 5
"""Of people: each is served by what was learnt on the other groups."""
VECTOR_DECAY = 10.0
LEAST_WEIGHT = 0.05
"""Weaker features of a message are left out of the table."""


def fit(rows: Floats, labels: Floats, *, decay: float, steps: int = 25) -> tuple[Floats, float]:
    """Return the weights and the bias of a logistic regression, by Newton's method on scaled features."""
    mean, spread = rows.mean(0), rows.std(0) + 1e-9
    scaled = np.column_stack([(rows - mean) / spread, np.ones(len(rows))])
    weights = np.zeros(scaled.shape[1])
    penalty = decay * np.diag([*np.ones(rows.shape[1]), 0.0])
    for _ in range(steps):
        chances = 1 / (1 + np.exp(-(scaled @ weights)))
        slope = scaled.T @ (chances - labels) + penalty @ weights
        weights -= np.linalg.solve((scaled * (chances * (1 - chances))[:, None]).T @ scaled + penalty, slope)
    return weights[:-1] / spread, float(weights[-1] - (mean / spread) @ weights[:-1])


def learn_need(messages: Sequence[tuple[str, bool]]) -> dict[str, float]:
    """Return the weight of each feature of a message, and the bias."""
    found = [need.grams(text) for text, _ in messages]
    seen = Counter(gram for one in found for gram in one)
    number = {gram: i for i, gram in enumerate(sorted(g for g, n in seen.items() if n >= LEAST_SEEN))}
    rows = [[number[gram] for gram in one if gram in number] for one in found]
    at = np.concatenate([np.array(row, int) for row in rows])
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    scale = np.array([max(1, len(row)) ** -0.5 for row in rows])[owner]
    labels = np.array([float(label) for _, label in messages])
    weights, bias = np.zeros(len(number)), 0.0
    moment, square = np.zeros(len(number) + 1), np.zeros(len(number) + 1)
    for step in range(1, STEPS + 1):
        odds = np.bincount(owner, weights[at] * scale, minlength=len(rows)) + bias
        wrong = 1 / (1 + np.exp(-odds)) - labels
        slope = np.bincount(at, wrong[owner] * scale, minlength=len(number)) + 0.1 * weights
        slope = np.append(slope, wrong.sum())
        moment = 0.9 * moment + 0.1 * slope
        square = 0.99 * square + 0.01 * slope**2
        change = 0.05 * (moment / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        weights -= change[:-1]
        bias -= float(change[-1])
    return {need.BIAS: bias, **{gram: float(weights[i]) for gram, i in number.items()}}


def labelled_messages() -> list[tuple[str, bool]]:
    lines = (HERE / "messages.txt").read_text(encoding="utf-8").splitlines()
    return [(line[2:].replace("\\n", "\n"), line[0] == "1") for line in lines]


class Kept:
    """Vectors of one person's memories and messages by an encoder that was trained without this person."""

    name = "left out"

    def __init__(self, person: Person, kept: Mapping[str, Floats]) -> None:
        rows = np.concatenate([kept[f"{person.key}.mem"], kept[f"{person.key}.seg"]]).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        texts = [text_of(one.doc)[:TEXT_CHARS] for one in person.memories]
        texts += [question_text(part) for one in person.messages for part in notes.encoded_segments(one.text)]
        self._rows = dict(zip(texts, rows, strict=True))
        self._needs = dict(
            zip((one.text for one in person.messages), kept[f"{person.key}.need"], strict=True)
        )
        self.width = rows.shape[1]

    def encode(self, text: str, *, tokens: int | None = None) -> Any:
        return self._rows[text]

    def need(self, vector: Any) -> float:
        raise NotImplementedError

    def need_of(self, text: str) -> float:
        return float(self._needs[text])


class Sample:
    """The features of every memory for every message of a person."""

    def __init__(self, person: Person, by_terms: Mapping[str, Floats], kept: Kept | None = None) -> None:
        """With the vectors of the person, those of similar vectors as well."""
        self.person = person
        self.kept = kept
        rows = by_terms[f"{person.key}.seg"] @ by_terms[f"{person.key}.mem"].T
        alike = iter([dict(zip([one.id for one in person.memories], row, strict=True)) for row in rows])
        sizes = [len(notes.segments(one.text)) for one in person.messages]
        self.segments = np.split(by_terms[f"{person.key}.seg"], np.cumsum(sizes)[:-1])
        """The vectors of the segments of each message by the table of terms."""
        self.needed: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "memory"
            directory.mkdir()
            ids = person.write(directory)
            meaning = SemanticIndex(Path(folder), encoder=kept, writes=False) if kept else None
            local = LocalIndex(directory, Path(folder), writes=False, meaning=meaning)
            local.refresh()
            if meaning is not None:
                meaning.catch_up(
                    {file: text_of(person.memory(id_).doc) for file, id_ in ids.items()}, seconds=math.inf
                )
            index = local._index
            heads = {one.id: (one.kind, one.name) for one in person.memories}
            files = {id_: file for file, id_ in sorted(ids.items(), key=lambda one: one[1])}
            read = notes.read_notes(index, {index.by_id[file]: heads[id_] for id_, file in files.items()})
            every = notes.NoteSet(
                index, {index.by_id[file]: read[index.by_id[file]] for file in files.values()}
            )
            self.ids = list(files)
            self.features = []
            for message in person.messages:
                parts = notes.segments(message.text)
                similar = meaning.similarities(notes.encoded_segments(message.text)) if meaning else {}
                rows = []
                for part in parts:
                    question = notes._Question.parse(index, part)
                    near = similar.get(part) or similar.get(parts[0]) or {}
                    cosine = next(alike)
                    rows.append(
                        [
                            [*row[: notes.ALIKE], cosine[id_], *(near.get(files[id_], ()) if meaning else ())]
                            for id_, row in zip(self.ids, every.features(question), strict=True)
                        ]
                    )
                self.features.append(np.array(rows))


class Rows:
    """The samples as arrays: a row for each memory, message and segment of it, segments innermost."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        features, segments, messages, memories = [], [], [], []
        right, helpful, sizes = [], [], []
        for sample in samples:
            for message, rows in zip(sample.person.messages, sample.features, strict=True):
                features.append(rows.transpose(1, 0, 2).reshape(-1, rows.shape[2]))
                segments += [len(rows)] * len(sample.ids)
                memories += [len(sizes)] * len(sample.ids)
                right += [one in message.needed for one in sample.ids]
                helpful += [one in message.helpful - message.needed for one in sample.ids]
                sizes.append(len(sample.ids))
                messages.append(message)
        self.features = np.concatenate(features).astype(np.float32)
        self.segments = np.array(segments)
        self.starts = np.concatenate([[0], np.cumsum(segments)[:-1]])
        self.message = np.array(memories)
        self.right, self.helpful = np.array(right), np.array(helpful)
        self.sizes = np.array(sizes)
        self.first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.asks = np.array([bool(one.needed) for one in messages])
        self.language = np.array([one.person.language for one in samples for _ in one.person.messages])
        self.needed = np.concatenate([one.needed for one in samples])

    def best(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the score of each memory by its best segment, and the features of that segment."""
        scores = self.features @ weights.astype(np.float32)
        best = np.maximum.reduceat(scores, self.starts)
        at = np.nonzero(scores == np.repeat(best, self.segments))[0]
        _, first = np.unique(np.repeat(np.arange(len(best)), self.segments)[at], return_index=True)
        return best.astype(float), self.features[at[first]].astype(float)


def learn_score(rows: Rows, *, rounds: int = 3) -> dict[str, float]:
    """Return the weights with which the needed memories come first.

    Each memory has the features of its best segment, which depends on the weights: a few rounds.
    """
    used = rows.asks[rows.message] & ~rows.helpful
    right = rows.right[used]
    owner = np.unique(rows.message[used], return_inverse=True)[1]
    spread = rows.features.std(0).astype(float) + 1e-9
    found = np.maximum.reduceat(rows.features, rows.starts, axis=0)[used].astype(float)
    weights, _ = fit(found, right.astype(float), decay=3.0)
    for _ in range(rounds):
        found = rows.best(weights)[1][used]
        weights = _first_in_list(found / spread, owner, right, weights * spread) / spread
    scale, bias = fit((found @ weights)[:, None], right.astype(float), decay=0.1)
    names = notes.SEMANTIC_FEATURES[: len(weights)]
    return {"bias": bias, **dict(zip(names, map(float, weights * scale[0]), strict=True))}


def _first_in_list(
    rows: Floats, owner: npt.NDArray[np.intp], right: npt.NDArray[np.bool_], weights: Floats
) -> Floats:
    """Return weights that raise the chance of the right memories among all memories of each message."""
    moment, square = np.zeros_like(weights), np.zeros_like(weights)
    starts = np.concatenate([[0], np.nonzero(np.diff(owner))[0] + 1])
    for step in range(1, LIST_STEPS + 1):
        scores = rows @ weights
        odds = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
        chances = odds / np.bincount(owner, odds)[owner]
        of_right = odds * right / np.bincount(owner, odds * right)[owner]
        slope = rows.T @ (chances - of_right) + LIST_DECAY * weights
        moment = 0.9 * moment + 0.1 * slope
        square = 0.99 * square + 0.01 * slope**2
        weights = weights - 0.05 * (moment / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weights


def signals(rows: Rows, score: dict[str, float]) -> Floats:
    """Return the signals of the confidence of every memory for every message, as `notes` computes them."""
    weights = np.array([score[name] for name in notes.SEMANTIC_FEATURES if name in score])
    scores, features = rows.best(weights)
    scores += score["bias"]
    best = np.maximum.reduceat(scores, rows.first)
    odds = np.exp(scores - best[rows.message])
    unrelated = np.maximum(0, notes.ORDINARY_STORE - rows.sizes) * np.exp(score["bias"] - best)
    shares = np.log(odds / (np.bincount(rows.message, odds) + unrelated)[rows.message] + notes.LEAST_SHARE)
    needed = np.clip(rows.needed, -6, 6)[rows.message]
    chance = 1 / (1 + np.exp(-needed))
    alike = features[:, notes.ALIKE]
    best_alike = np.maximum.reduceat(alike, rows.first)[rows.message]
    columns = (
        scores, best[rows.message] - scores, shares,
        needed, np.minimum(needed - 1, 0), np.minimum(needed + 1, 0),
        alike, best_alike, chance * shares, chance * alike,
    )  # fmt: skip
    return np.column_stack(columns)


def learn_need_by_vector(vectors: Floats, labels: Sequence[bool]) -> tuple[Floats, float]:
    """Return the weights of the numbers of a message's vector, and the bias."""
    return fit(vectors, np.array(labels, float), decay=VECTOR_DECAY)


def _need_of(weights: dict[str, float], text: str) -> float:
    known = [weights[gram] for gram in need.grams(text) if gram in weights]
    return weights[need.BIAS] + sum(known) / max(1, len(known)) ** 0.5


def _vectors(samples: Sequence[Sample]) -> Floats:
    """Return the vectors of all labelled messages, in the order of `_messages`."""
    labelled = np.array([vector_of(terms(text)) or [0] * WIDTH for text, _ in labelled_messages()]) / SCALE
    return np.array([*labelled, *(one[0] for sample in samples for one in sample.segments)])


def estimate_need(samples: Sequence[Sample]) -> None:
    """Set the need of each person's messages as learnt from the other people, as it will be for users."""
    for group in range(GROUPS):
        others = [one for number, one in enumerate(samples) if number % GROUPS != group]
        messages = _messages(others)
        learnt = learn_need(messages)
        weights, bias = learn_need_by_vector(_vectors(others), [label for _, label in messages])
        for sample in samples[group::GROUPS]:
            for message, rows in zip(sample.person.messages, sample.segments, strict=True):
                by_words = np.array([_need_of(learnt, part) for part in notes.segments(message.text)])
                both = (1 - need.VECTOR_SHARE) * by_words + need.VECTOR_SHARE * (rows @ weights + bias)
                kept, found = sample.kept, float(both.max())
                sample.needed.append((found + kept.need_of(message.text)) / 2 if kept else found)


def learn(rows: Rows) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of score and confidence."""
    score = learn_score(rows)
    used = ~rows.helpful
    weights, bias = fit(signals(rows, score)[used], rows.right[used].astype(float), decay=1.0)
    names = notes.confidence_signals(0.0, 0.0, 1.0, 0.0)
    return score, {"bias": bias, **dict(zip(names, map(float, weights), strict=True))}


def _messages(samples: Sequence[Sample]) -> list[tuple[str, bool]]:
    own = [(message.text, bool(message.needed)) for one in samples for message in one.person.messages]
    return labelled_messages() + own


def probabilities(rows: Rows, learnt: tuple[dict[str, float], dict[str, float]]) -> Floats:
    score, confidence = learnt
    weights = np.array([value for name, value in confidence.items() if name != "bias"])
    found: Floats = 1 / (1 + np.exp(-(signals(rows, score) @ weights) - confidence["bias"]))
    return found


def report(rows: Rows, chances: Floats, cut: float, language: str = "") -> str:
    """Return how many messages get what they need at a cut-off."""
    hits = ranked = asked = false = none = good = picked = 0
    for number, (first, size) in enumerate(zip(rows.first, rows.sizes, strict=True)):
        if language and rows.language[number] != language:
            continue
        own = slice(first, first + size)
        order = np.argsort(-chances[own])[:5] + first
        picks = [at for at in order if chances[at] >= cut]
        if not rows.asks[number]:
            none += 1
            false += bool(picks)
            continue
        asked += 1
        hits += any(rows.right[picks])
        ranked += any(rows.right[order])
        good += int((rows.right | rows.helpful)[picks].sum())
        picked += len(picks)
    return (
        f"{language or 'all'}, cut {cut:.2f}: needed attached {hits / asked:.1%}, "
        f"among the first five {ranked / asked:.1%}, attached in vain {false / max(1, none):.1%}, "
        f"precision {good / max(1, picked):.1%}"
    )


def stemmed_concepts() -> str:
    """Return `concepts.txt` of the package: the stems of each line of words."""
    found = []
    for line in (HERE / "concepts.txt").read_text(encoding="utf-8").splitlines():
        stems = (term for word in line.split() for term in terms(word.replace("_", " ")))
        found.append(" ".join(dict.fromkeys(term for term in stems if term not in STOP_TERMS)))
    return "".join(f"{line}\n" for line in found if line)


def left_out(samples: Sequence[Sample]) -> tuple[Rows, Floats]:
    """Return the chances of each person's memories as learnt from the others, in groups."""
    parts, found = [], []
    for group in range(GROUPS):
        learnt = learn(Rows([one for number, one in enumerate(samples) if number % GROUPS != group]))
        parts.append(samples[group::GROUPS])
        found.append(probabilities(Rows(parts[-1]), learnt))
    return Rows([one for part in parts for one in part]), np.concatenate(found)


def _write_need(samples: Sequence[Sample]) -> None:
    messages = _messages(samples)
    needed = learn_need(messages)
    weights, bias = learn_need_by_vector(_vectors(samples), [label for _, label in messages])
    of_vector = {need.VECTOR_BIAS: bias, **{f"#{place}": float(one) for place, one in enumerate(weights)}}
    strong = {gram: one for gram, one in sorted(needed.items()) if abs(one) >= LEAST_WEIGHT}
    lines = "".join(f"{gram}\t{one:.2f}\n" for gram, one in (of_vector | strong).items())
    (PACKAGE / "need.tsv").write_text(lines, encoding="utf-8")


def main(term_vectors: Path, vectors: Path | None) -> None:
    (PACKAGE / "concepts.txt").write_text(stemmed_concepts(), encoding="utf-8")
    people = own_people()
    by_terms = np.load(term_vectors)
    groups = {"": [Sample(person, by_terms) for person in people]}
    if vectors is not None:
        kept = np.load(vectors)
        groups["_BY_MEANING"] = [Sample(person, by_terms, Kept(person, kept)) for person in people]
    for suffix, samples in groups.items():
        estimate_need(samples)
        rows, chances = left_out(samples)
        for cut in (0.3, 0.35, notes.ATTACH_FROM, 0.45, 0.5):
            print(suffix, report(rows, chances, cut))
        for language in sorted(set(rows.language)):
            print(suffix, report(rows, chances, notes.ATTACH_FROM, language))
        for name, weights in zip(("NOTE_SCORE", "NOTE_CONFIDENCE"), learn(Rows(samples)), strict=True):
            print(f"{name}{suffix}: dict[str, float] = {{")
            print("".join(f'    "{key}": {round(value, 3)},\n' for key, value in weights.items()) + "}")
    _write_need(groups[""])


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: python -m bench.recall.everyday.train TERM_VECTORS [VECTORS]")
    main(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None)
