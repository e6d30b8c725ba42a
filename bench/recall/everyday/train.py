"""Learns the data of the note ranker from the invented people: `python -m bench.recall.everyday.train`.

Writes `concepts.txt` and `need.tsv` of the package and prints the weights for `ranking/weights.py`, and how
well people are served that were left out.
"""

from __future__ import annotations

import math
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
from nacre.memory.recall.semantic.meaning import Encoder, SemanticIndex, model_folder, packaged_encoder

Floats = npt.NDArray[np.float64]
PACKAGE = Path(notes.__file__).parent
LEAST_SEEN = 2
"""Features of a single message are noise."""
STEPS = 400
LIST_STEPS = 150
LIST_DECAY = 3.0


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


class Sample:
    """The features of every memory for every message of a person."""

    def __init__(self, person: Person, encoder: Encoder | None = None) -> None:
        """With an encoder, those of similar vectors as well, for people whose language it reads."""
        self.person = person
        self.needed: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "memory"
            directory.mkdir()
            ids = person.write(directory)
            meaning = SemanticIndex(Path(folder), encoder=encoder, writes=False) if encoder else None
            local = LocalIndex(directory, Path(folder), writes=False, meaning=meaning)
            local.refresh()
            local.deepen(seconds=math.inf)
            index = local._index
            heads = {one.id: (one.kind, one.name) for one in person.memories}
            files = {id_: file for file, id_ in sorted(ids.items(), key=lambda one: one[1])}
            read = notes.read_notes(index, {index.by_id[file]: heads[id_] for id_, file in files.items()})
            every = {id_: read[index.by_id[file]] for id_, file in files.items()}
            self.ids = list(every)
            self.features = []
            for message in person.messages:
                parts = notes.segments(message.text)
                similar = meaning.similarities(notes.encoded_segments(message.text)) if meaning else {}
                rows = []
                for part in parts:
                    question = notes._Question.parse(index, part)
                    near = similar.get(part) or similar.get(parts[0]) or {}
                    rows.append(
                        [
                            [*note.features(index, question), *(near.get(files[id_], ()) if meaning else ())]
                            for id_, note in every.items()
                        ]
                    )
                self.features.append(np.array(rows))


def learn_score(samples: Sequence[Sample], *, rounds: int = 3) -> dict[str, float]:
    """Return the weights with which the needed memories come first.

    Each memory has the features of its best sentence, which depends on the weights: a few rounds.
    """
    asked: list[tuple[Floats, npt.NDArray[np.bool_]]] = []
    for sample in samples:
        for message, features in zip(sample.person.messages, sample.features, strict=True):
            if message.needed:
                keep = [i for i, id_ in enumerate(sample.ids) if id_ not in message.helpful]
                asked.append((features[:, keep], np.array([sample.ids[i] in message.needed for i in keep])))
    first = np.concatenate([features.max(0) for features, _ in asked])
    right = np.concatenate([is_needed for _, is_needed in asked])
    owner = np.repeat(np.arange(len(asked)), [len(is_needed) for _, is_needed in asked])
    spread = np.concatenate([features.reshape(-1, features.shape[2]) for features, _ in asked]).std(0) + 1e-9
    weights, _ = fit(first, right.astype(float), decay=3.0)
    for _ in range(rounds):
        rows = np.concatenate(
            [features[(features @ weights).argmax(0), np.arange(features.shape[1])] for features, _ in asked]
        )
        weights = _first_in_list(rows / spread, owner, right, weights * spread) / spread
    scale, bias = fit((rows @ weights)[:, None], right.astype(float), decay=0.1)
    names = notes.SEMANTIC_FEATURES[: len(weights)]
    return {"bias": bias, **dict(zip(names, map(float, weights * scale[0]), strict=True))}


def _first_in_list(
    rows: Floats, owner: npt.NDArray[np.intp], right: npt.NDArray[np.bool_], weights: Floats
) -> Floats:
    """Return weights that raise the chance of the right memories among all memories of each message."""
    moment, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, LIST_STEPS + 1):
        scores = rows @ weights
        odds = np.exp(scores - scores.max())
        chances = odds / np.bincount(owner, odds)[owner]
        of_right = odds * right / np.bincount(owner, odds * right)[owner]
        slope = rows.T @ (chances - of_right) + LIST_DECAY * weights
        moment = 0.9 * moment + 0.1 * slope
        square = 0.99 * square + 0.01 * slope**2
        weights = weights - 0.05 * (moment / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weights


def signals(sample: Sample, score: dict[str, float]) -> list[Floats]:
    """Return the signals of the confidence of every memory for every message."""
    weights = np.array([score[name] for name in notes.SEMANTIC_FEATURES if name in score])
    found = []
    for needed, features in zip(sample.needed, sample.features, strict=True):
        scores = (features @ weights + score["bias"]).max(0)
        unrelated = max(0, notes.ORDINARY_STORE - len(scores)) * np.exp(score["bias"] - scores.max())
        shares = np.exp(scores - scores.max())
        shares /= shares.sum() + unrelated
        rows = [
            notes.confidence_signals(float(s), float(scores.max()), float(share), needed)
            for s, share in zip(scores, shares, strict=True)
        ]
        found.append(np.array([list(row.values()) for row in rows]))
    return found


def _need_of(weights: dict[str, float], text: str) -> float:
    known = [weights[gram] for gram in need.grams(text) if gram in weights]
    return weights[need.BIAS] + sum(known) / max(1, len(known)) ** 0.5


def estimate_need(samples: Sequence[Sample]) -> None:
    """Set the need of each person's messages as learnt from the other people, as it will be for users."""
    for sample in samples:
        learnt = learn_need(_messages([one for one in samples if one is not sample]))
        sample.needed = [
            max(_need_of(learnt, part) for part in notes.segments(message.text))
            for message in sample.person.messages
        ]


def learn(samples: Sequence[Sample]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of score and confidence."""
    score = learn_score(samples)
    rows, labels = [], []
    for sample in samples:
        for message, values in zip(sample.person.messages, signals(sample, score), strict=True):
            keep = [i for i, id_ in enumerate(sample.ids) if id_ not in message.helpful]
            rows.append(values[keep])
            labels.extend(float(sample.ids[i] in message.needed) for i in keep)
    names = list(notes.confidence_signals(0.0, 0.0, 1.0, 0.0))
    weights, bias = fit(np.concatenate(rows), np.array(labels), decay=1.0)
    return score, {"bias": bias, **dict(zip(names, map(float, weights), strict=True))}


def _messages(samples: Sequence[Sample]) -> list[tuple[str, bool]]:
    own = [(message.text, bool(message.needed)) for one in samples for message in one.person.messages]
    return labelled_messages() + own


def probabilities(sample: Sample, learnt: tuple[dict[str, float], dict[str, float]]) -> list[Floats]:
    score, confidence = learnt
    weights = np.array([value for name, value in confidence.items() if name != "bias"])
    found = []
    for needed, rows in zip(sample.needed, signals(sample, score), strict=True):
        idle = notes.IDLE_ODDS if needed < notes.NEEDED_FROM else 0.0
        found.append(1 / (1 + np.exp(idle - rows @ weights - confidence["bias"])))
    return found


def report(served: Sequence[tuple[Sample, list[Floats]]], cut: float, further: float) -> str:
    """Return how many messages get what they need at a cut-off for the best note, and one for the others."""
    hits = ranked = asked = false = none = good = picked = 0
    for sample, found in served:
        for message, chances in zip(sample.person.messages, found, strict=True):
            order = [sample.ids[i] for i in np.argsort(-chances)[:5]]
            cuts = [cut, further, further, further, further]
            picks = [
                id_
                for id_, least in zip(order, cuts, strict=False)
                if chances[sample.ids.index(id_)] >= least
            ]
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
        f"cut {cut:.2f}, {further:.2f}: needed attached {hits / asked:.1%}, "
        f"among the first five {ranked / asked:.1%}, attached in vain {false / none:.1%}, "
        f"precision {good / max(1, picked):.1%}"
    )


def stemmed_concepts() -> str:
    """Return `concepts.txt` of the package: the stems of each line of words."""
    found = []
    for line in (HERE / "concepts.txt").read_text(encoding="utf-8").splitlines():
        stems = (term for word in line.split() for term in terms(word.replace("_", " ")))
        found.append(" ".join(dict.fromkeys(term for term in stems if term not in STOP_TERMS)))
    return "".join(f"{line}\n" for line in found if line)


def left_out(samples: Sequence[Sample]) -> list[tuple[Sample, list[Floats]]]:
    """Return the probabilities for each person as learnt from the others."""
    return [
        (one, probabilities(one, learn([other for other in samples if other is not one]))) for one in samples
    ]


def main() -> None:
    (PACKAGE / "concepts.txt").write_text(stemmed_concepts(), encoding="utf-8")
    people = own_people()
    groups = {"": [Sample(person) for person in people]}
    if model_folder() is not None:
        # The model reads English best; Chinese messages are ranked by words.
        readable = [person for person in people if person.language != "zh"]
        groups["_BY_MEANING"] = [Sample(person, packaged_encoder()) for person in readable]
    for suffix, samples in groups.items():
        estimate_need(samples)
        served = left_out(samples)
        for languages in (("en",), ("zh",), ("de",), ("de", "en", "zh")):
            if some := [one for one in served if one[0].person.language in languages]:
                for cut in (0.25, 0.28, 0.3, 0.32, 0.35):
                    print(suffix, *languages, report(some, cut, max(cut, notes.FURTHER_FROM)))
        score, confidence = learn(samples)
        for name, weights in (("NOTE_SCORE", score), ("NOTE_CONFIDENCE", confidence)):
            print(f"{name}{suffix}: dict[str, float] = {{")
            print("".join(f'    "{key}": {round(value, 3)},\n' for key, value in weights.items()) + "}")
    needed = learn_need(_messages(groups[""]))
    rows = "".join(f"{gram}\t{weight:.3f}\n" for gram, weight in sorted(needed.items()))
    (PACKAGE / "need.tsv").write_text(rows, encoding="utf-8")


if __name__ == "__main__":
    main()
