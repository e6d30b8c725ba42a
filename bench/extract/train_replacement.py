"""Fit the model of corrections: `python -m bench.extract.train_replacement`; prints `WEIGHTS` to paste.

Pairs of a statement and what was said before: the corrections of `corrections.jsonl` (with `old`: which of
the earlier messages it replaces), the statements of `not_corrections.jsonl`, and the pairs of statements
within the conversations of `sentences.txt`. `--without FILE` leaves a file out; `--misses` shows what is
decided wrongly.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, product
from pathlib import Path

import numpy as np

from bench.extract.train import examples
from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.layers.l5_extract.changes import MIN_OWN
from nacre.layers.l5_extract.replacement import features
from nacre.messages.facts import UserQuote

FOLDER = Path(__file__).parent
AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
WEIGHT = {"corrections": 6.0, "not_corrections": 5.0, "sentences": 1.0}
EVERY = 4
"""Of the pairs within conversations every fourth is used."""
PENALTY = 1.0
STEPS = 60


@dataclass(frozen=True, slots=True)
class Pair:
    """What was said before, what was said later, and whether it replaces it."""

    source: str
    statement: str
    change: str
    corrects: bool
    is_replaced: bool

    @property
    def features(self) -> dict[str, float]:
        return features(self.change, self.statement, corrects=self.corrects)


def stated(text: str) -> list[tuple[str, bool]]:
    """Return the statements that extraction finds in a message."""
    facts = stated_facts([UserQuote("m", AT, text)], zone=UTC)
    return [(one.text, one.corrects) for one in facts if one.text]


def written(text: str) -> str:
    """Return a message as its memory has it."""
    return " ".join(one for one, _ in stated(text)) or text


def pairs(without: str = "") -> Iterator[Pair]:
    for name in ("corrections", "not_corrections"):
        if name == without:
            continue
        for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            *before, last = row["said"]
            for change, corrects in stated(last):
                for number, said in enumerate(before):
                    old = written(said)
                    is_old = any(
                        one.casefold() in text.casefold()
                        for one in row.get("old", ())
                        for text in (said, old)
                    )
                    if is_old or number == 0:
                        yield Pair(name, old, change, corrects, is_old)
    if without != "sentences":
        for _, chat in groupby(examples(), key=lambda one: one.chat):
            said = [(one.label, *found) for one in chat for found in stated(one.text)[:1]]
            kept = [(text, number) for number, (label, text, _) in enumerate(said) if label > 0]
            every = [
                (old, change, corrects)
                for old, number in kept
                for _, change, corrects in said[number + 1 :]
                if change not in old and old not in change
            ]
            for old, change, corrects in every[::EVERY]:
                yield Pair("sentences", old, change, corrects, is_replaced=False)


def is_compared(pair: Pair) -> bool:
    """Whether the model is asked at all: something of the two texts meets."""
    return any(pair.features[name] for name in ("shared", "value", "denied", "elliptic"))


def is_found(pair: Pair, weights: dict[str, float]) -> bool:
    total = sum(weights[name] * value for name, value in pair.features.items())
    return 1 / (1 + math.exp(-total)) >= MIN_OWN


def fit(rows: list[Pair]) -> dict[str, float]:
    """Return the weights of a logistic regression."""
    found = [one.features for one in rows]
    names = list(found[0])
    x = np.array([[one[name] for name in names] for one in found])
    y = np.array([one.is_replaced for one in rows], dtype=float)
    count = np.array([WEIGHT[one.source] for one in rows])
    weights = np.zeros(len(names))
    for _ in range(STEPS):
        share = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (count * (share - y)) + PENALTY * weights
        bend = (x * (count * share * (1 - share))[:, None]).T @ x + PENALTY * np.eye(len(names))
        weights -= np.linalg.solve(bend, slope)
    return {name: round(float(one), 2) for name, one in zip(names, weights, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", default="")
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    rows = [one for one in pairs(options.without) if is_compared(one)]
    weights = fit(rows)
    print(json.dumps(weights, indent=4))
    for source, is_replaced in product(WEIGHT, (True, False)):
        these = [one for one in rows if one.source == source and one.is_replaced is is_replaced]
        wrong = [one for one in these if is_found(one, weights) is not is_replaced]
        right = len(these) - len(wrong)
        print(f"{source}, {'replaced' if is_replaced else 'not replaced'}: {right} of {len(these)} right")
        if options.misses:
            print(*(f"    {one.change} | {one.statement}" for one in wrong), sep="\n")


if __name__ == "__main__":
    main()
