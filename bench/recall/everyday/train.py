"""Learns the data of the note ranker from the invented people: `python -m bench.recall.everyday.train`.

Writes `concepts.txt` and `need.tsv` of the package and prints the weights for `ranking/weights.py`, and how
well people are served that were left out.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.recall.everyday.people import HERE, Person, own_people
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.ranking import need, notes
from nacre.memory.recall.ranking.terms import STOP_TERMS, terms

Floats = npt.NDArray[np.float64]
PACKAGE = Path(notes.__file__).parent
LEAST_SEEN = 2
"""Features of a single message are noise."""
STEPS = 400


def fit(rows: Floats, labels: Floats, *, decay: float, steps: int = 3_000) -> tuple[Floats, float]:
    """Return the weights and the bias of a logistic regression, by gradient descent on scaled features."""
    mean, spread = rows.mean(0), rows.std(0) + 1e-9
    scaled = (rows - mean) / spread
    weights, bias = np.zeros(rows.shape[1]), float(np.log(labels.mean() / (1 - labels.mean())))
    speed, rate = np.zeros(rows.shape[1]), 1.0
    for _ in range(steps):
        wrong = 1 / (1 + np.exp(-(scaled @ weights + bias))) - labels
        speed = 0.9 * speed + scaled.T @ wrong / len(labels) + decay * weights / len(labels)
        weights -= rate * 0.3 * speed
        bias -= rate * float(wrong.mean())
    return weights / spread, bias - float((mean / spread) @ weights)


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
    return [(line[2:], line[0] == "1") for line in lines]


class Sample:
    """The features of every memory for every message of a person."""

    def __init__(self, person: Person) -> None:
        self.person = person
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "memory"
            directory.mkdir()
            ids = person.write(directory)
            local = LocalIndex(directory, Path(folder), writes=False)
            local.refresh()
            index = local._index
            kinds = {one.id: one.kind for one in person.memories}
            spans = {ids[file]: notes._passages(index, number) for file, number in index.by_id.items()}
            every = {id_: notes._Note.read(index, spans[id_], kinds[id_]) for id_ in sorted(spans)}
            self.ids = list(every)
            self.features = [
                np.array(
                    [
                        [note.features(index, notes._Question.parse(index, part)) for note in every.values()]
                        for part in notes.segments(message.text)
                    ]
                )
                for message in person.messages
            ]


def learn_score(samples: Sequence[Sample]) -> dict[str, float]:
    rows, labels = [], []
    for sample in samples:
        for message, features in zip(sample.person.messages, sample.features, strict=True):
            if message.needed:
                keep = [i for i, id_ in enumerate(sample.ids) if id_ not in message.helpful]
                rows.append(features.max(0)[keep])
                labels.extend(float(sample.ids[i] in message.needed) for i in keep)
    weights, bias = fit(np.concatenate(rows), np.array(labels), decay=10.0)
    return {"bias": bias, **dict(zip(notes.FEATURES, map(float, weights), strict=True))}


def signals(sample: Sample, score: dict[str, float], needed: dict[str, float]) -> list[Floats]:
    """Return the signals of the confidence of every memory for every message."""
    names = [score[name] for name in notes.FEATURES]
    found = []
    for message, features in zip(sample.person.messages, sample.features, strict=True):
        scores = (features @ np.array(names) + score["bias"]).max(0)
        odds = max(_need_of(needed, part) for part in notes.segments(message.text))
        unrelated = max(0, notes.ORDINARY_STORE - len(scores)) * np.exp(score["bias"] - scores.max())
        shares = np.exp(scores - scores.max())
        shares /= shares.sum() + unrelated
        rows = [
            notes.confidence_signals(float(s), float(scores.max()), float(share), odds)
            for s, share in zip(scores, shares, strict=True)
        ]
        found.append(np.array([list(row.values()) for row in rows]))
    return found


def _need_of(weights: dict[str, float], text: str) -> float:
    known = [weights[gram] for gram in need.grams(text) if gram in weights]
    return weights[need.BIAS] + sum(known) / max(1, len(known)) ** 0.5


def learn(samples: Sequence[Sample]) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return the weights of need, score and confidence.

    The need of a person's messages is estimated by the other people, as it will be for users.
    """
    score = learn_score(samples)
    rows, labels = [], []
    for sample in samples:
        needed = learn_need(_messages([one for one in samples if one is not sample]))
        for message, values in zip(sample.person.messages, signals(sample, score, needed), strict=True):
            keep = [i for i, id_ in enumerate(sample.ids) if id_ not in message.helpful]
            rows.append(values[keep])
            labels.extend(float(sample.ids[i] in message.needed) for i in keep)
    names = list(notes.confidence_signals(0.0, 0.0, 1.0, 0.0))
    weights, bias = fit(np.concatenate(rows), np.array(labels), decay=1.0)
    confidence = {"bias": bias, **dict(zip(names, map(float, weights), strict=True))}
    return learn_need(_messages(samples)), score, confidence


def _messages(samples: Sequence[Sample]) -> list[tuple[str, bool]]:
    own = [(message.text, bool(message.needed)) for one in samples for message in one.person.messages]
    return labelled_messages() + own


def probabilities(sample: Sample, learnt: tuple[dict[str, float], ...]) -> list[Floats]:
    needed, score, confidence = learnt
    weights = np.array([value for name, value in confidence.items() if name != "bias"])
    return [
        1 / (1 + np.exp(-(rows @ weights + confidence["bias"]))) for rows in signals(sample, score, needed)
    ]


def report(served: Sequence[tuple[Sample, list[Floats]]], cut: float) -> str:
    """Return how many messages get what they need at a cut-off."""
    hits = ranked = asked = false = none = good = picked = 0
    for sample, found in served:
        for message, chances in zip(sample.person.messages, found, strict=True):
            order = [sample.ids[i] for i in np.argsort(-chances)[:5]]
            picks = [id_ for id_ in order if chances[sample.ids.index(id_)] >= cut]
            if not message.needed:
                none += 1
                false += bool(picks)
                continue
            asked += 1
            hits += bool(message.needed & set(picks))
            ranked += bool(message.needed & set(order))
            good += len((message.needed | message.helpful) & set(picks))
            picked += len(picks)
    return (
        f"cut {cut:.2f}: needed attached {hits / asked:.1%}, among the first five {ranked / asked:.1%}, "
        f"attached in vain {false / none:.1%}, precision {good / max(1, picked):.1%}"
    )


def stemmed_concepts() -> str:
    """Return `concepts.txt` of the package: the stems of each line of words."""
    found = []
    for line in (HERE / "concepts.txt").read_text(encoding="utf-8").splitlines():
        stems = (term for word in line.split() for term in terms(word.replace("_", " ")))
        found.append(" ".join(dict.fromkeys(term for term in stems if term not in STOP_TERMS)))
    return "".join(f"{line}\n" for line in found if line)


def main() -> None:
    (PACKAGE / "concepts.txt").write_text(stemmed_concepts(), encoding="utf-8")
    samples = [Sample(person) for person in own_people()]
    served = []
    for left_out in samples:
        learnt = learn([one for one in samples if one is not left_out])
        served.append((left_out, probabilities(left_out, learnt)))
    for languages in (("en",), ("zh",), ("de",), ("de", "en", "zh")):
        some = [one for one in served if one[0].person.language in languages]
        for cut in (0.1, 0.15, 0.2, 0.25, 0.3):
            print(*languages, report(some, cut))
    needed, score, confidence = learn(samples)
    rows = "".join(f"{gram}\t{weight:.3f}\n" for gram, weight in sorted(needed.items()))
    (PACKAGE / "need.tsv").write_text(rows, encoding="utf-8")
    for name, weights in (("NOTE_SCORE", score), ("NOTE_CONFIDENCE", confidence)):
        print(f"{name}: dict[str, float] = {{")
        print("".join(f'    "{key}": {round(value, 3)},\n' for key, value in weights.items()) + "}")


if __name__ == "__main__":
    main()
