"""Train the classifier of statements from `sentences.txt`: `python -m bench.extract.train`.

`--check` only cross-validates, with whole conversations held out.
"""

from __future__ import annotations

import argparse
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from nacre.layers.l5_extract import classifier
from nacre.layers.l5_extract.by_rule import MIN_KEPT, MIN_OUTRIGHT
from nacre.layers.l5_extract.classifier import BUCKETS, LABELS, SCALE, features
from nacre.layers.l5_extract.grammar import OUTRIGHT
from nacre.layers.l5_extract.statements import statements

SENTENCES = Path(__file__).parent / "sentences.txt"
TARGET = Path(classifier.__file__).parent / "data" / classifier.WEIGHTS
CODES = {"n": "none", "u": "user", "f": "feedback", "p": "project", "r": "reference", "w": "reason"}
EPOCHS = 4
RATE = 0.1
RUNS = 5
FOLDS = 10
SEED = 7
_PART = re.compile(r"\{([nufprw])\}")


@dataclass(frozen=True, slots=True)
class Example:
    """One statement of the training data."""

    chat: str
    message: int
    text: str
    label: int
    is_part: bool = False
    """A part of a statement that has several labels: only used for training."""


def examples(path: Path = SENTENCES) -> Iterator[Example]:
    """Yield every statement, divided as the product divides messages; the longest label of a span counts."""
    chat = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        if line.startswith("== "):
            chat = line[3:]
        elif line and not line.startswith("# "):
            yield from _labelled(chat, number, line)


def _labelled(chat: str, number: int, line: str) -> Iterator[Example]:
    pieces = _PART.split(line)
    plain = pieces[0]
    codes = ["n"] * len(plain)
    for code, part in zip(pieces[1::2], pieces[2::2], strict=True):
        plain += part
        codes += [code] * len(part)
    end = 0
    for statement in statements(plain):
        start = plain.find(statement.text, end)
        end = start + len(statement.text)
        span = codes[start:end]
        # A rule with its reason is a rule.
        code = max(sorted(set(span) - {"w"}) or ["w"], key=span.count)
        yield Example(chat, number, statement.text, LABELS.index(CODES[code]))
        if len(set(span)) > 1:
            for part_code, run in groupby(range(start, end), key=lambda at: codes[at]):
                places = list(run)
                text = plain[places[0] : places[-1] + 1].strip(" ,，")
                yield Example(chat, number, text, LABELS.index(CODES[part_code]), is_part=True)


def train(rows: Sequence[tuple[list[int], int]]) -> np.ndarray:
    """Return the mean weights of several runs, each in another order of the statements."""
    return np.mean([_run(rows, seed=seed) for seed in range(RUNS)], axis=0)


def _run(rows: Sequence[tuple[list[int], int]], *, seed: int) -> np.ndarray:
    """Return weights by stochastic gradient descent (Adagrad) on the cross entropy."""
    shuffle = random.Random(seed)
    weights = np.zeros((BUCKETS, len(LABELS)), dtype=np.float32)
    squares = np.full_like(weights, 1e-2)
    arrays = [(np.array(found), label) for found, label in rows]
    for _ in range(EPOCHS):
        shuffle.shuffle(arrays)
        for found, label in arrays:
            logits = weights[found].sum(axis=0)
            share = np.exp(logits - logits.max())
            share /= share.sum()
            share[label] -= 1
            squares[found] += share * share
            weights[found] -= RATE * share / np.sqrt(squares[found])
    return weights


def packed(weights: np.ndarray) -> bytes:
    whole = np.clip(np.rint(weights * SCALE), -127, 127).astype(np.int8)
    return zlib.compress(whole.tobytes(), 9)


def held_out(every: Sequence[Example], folds: int = FOLDS) -> list[tuple[Example, list[float]]]:
    """Return each statement with its probabilities by weights that never saw its conversation."""
    chats = sorted({one.chat for one in every})
    random.Random(SEED).shuffle(chats)
    fold_of = {chat: place % folds for place, chat in enumerate(chats)}
    cache = {id(one): features(one.text) for one in every}
    results = []
    for fold in range(folds):
        weights = train([(cache[id(one)], one.label) for one in every if fold_of[one.chat] != fold])
        for one in every:
            if fold_of[one.chat] == fold and not one.is_part:
                logits = weights[cache[id(one)]].sum(axis=0)
                results.append((one, classifier.softmax([float(value) for value in logits])))
    return results


def statement_figures(folds: int = FOLDS) -> dict[str, object]:
    """Return how well held-out statements are kept, by the thresholds of the product."""
    every = list(examples())
    results = held_out(every, folds)
    kept = [(one, shares) for one, shares in results if _is_kept(one.text, shares)]
    right = [(one, shares) for one, shares in kept if one.label]
    worth = sum(one.label != 0 for one, _ in results)
    typed = sum(one.label == _best(shares) for one, shares in right)
    return {
        "statements": len(results),
        "conversations": len({one.chat for one in every}),
        "kept": len(kept),
        "precision": round(len(right) / len(kept), 3),
        "recall": round(len(right) / worth, 3),
        "right_kind": round(typed / len(right), 3),
        "by_kind": {
            name: [
                sum(one.label == label and _best(shares) == label for one, shares in kept),
                sum(_best(shares) == label for _, shares in kept),
                sum(one.label == label for one, _ in results),
            ]
            for label, name in enumerate(LABELS)
            if label
        },
    }


def _is_kept(text: str, shares: Sequence[float]) -> bool:
    return 1 - shares[0] >= (MIN_OUTRIGHT if OUTRIGHT.search(text) else MIN_KEPT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="cross-validate, write nothing")
    parser.add_argument("--errors", action="store_true", help="also print what was wrong")
    asked = parser.parse_args()
    every = list(examples())
    print(f"{len(every)} statements of {len({one.chat for one in every})} conversations")
    if asked.check or asked.errors:
        print(statement_figures())
        _report(held_out(every), with_errors=asked.errors)
        return
    data = packed(train([(features(one.text), one.label) for one in every]))
    TARGET.write_bytes(data)
    print(f"wrote {TARGET.name}: {len(data):,} bytes")


def _report(results: Sequence[tuple[Example, list[float]]], *, with_errors: bool) -> None:
    for least in (0.4, 0.5, 0.6, 0.7, 0.8):
        kept = [one for one in results if 1 - one[1][0] >= least]
        right = sum(one.label != 0 for one, _ in kept)
        worth = sum(one.label != 0 for one, _ in results)
        typed = sum(one.label == _best(shares) for one, shares in kept if one.label)
        precision = right / len(kept)
        print(f"at {least}: precision {precision:.3f} recall {right / worth:.3f} kind {typed / right:.3f}")
    for label, name in enumerate(LABELS):
        given = sum(_top(shares) == label for _, shares in results)
        mine = sum(one.label == label for one, _ in results)
        hit = sum(one.label == label == _top(shares) for one, shares in results)
        print(f"{name:10} {mine:5} precision {hit / max(1, given):.3f} recall {hit / mine:.3f}")
    if with_errors:
        for one, shares in sorted(results, key=lambda row: -row[1][0] if row[0].label else row[1][0]):
            if (one.label != 0) != (shares[0] < 0.5):
                print(f"{shares[0]:.2f} {LABELS[one.label]:9} {one.text}")


def _top(shares: Sequence[float]) -> int:
    return max(range(len(shares)), key=lambda label: shares[label])


def _best(shares: Sequence[float]) -> int:
    """The most likely label of those that are kept."""
    return max(range(1, len(shares)), key=lambda label: shares[label])


if __name__ == "__main__":
    main()
