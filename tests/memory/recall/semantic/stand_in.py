"""A stand-in for the model: a word's vector follows from its letters, and a few words mean the same."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest

from nacre.memory.recall.ranking.analysis import Doc
from nacre.testing import FrozenClock

if TYPE_CHECKING:
    from nacre.memory.recall.semantic.vectors import Floats

np = pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

WIDTH = 64
SAME = {"automobile": "car", "vehicle": "car", "physician": "doctor", "feline": "cat"}


class StandIn:
    """Sums up the vectors of a text's words, and counts what it was asked."""

    name, width = "stand-in", WIDTH

    def __init__(self, clock: FrozenClock | None = None, *, costs: float = 0.0) -> None:
        self.encoded: list[str] = []
        self._clock, self._costs = clock, costs

    def encode(self, text: str, *, tokens: int | None = None) -> Floats:
        self.encoded.append(text)
        if self._clock is not None:
            self._clock.advance(self._costs)
        words = re.findall(r"\w+", text.lower())[:tokens]
        total: Floats = np.sum([_word(word) for word in ["", *words]], axis=0, dtype=np.float32)
        unit: Floats = total / np.linalg.norm(total)
        return unit

    def need(self, vector: Floats) -> float:
        return 2.0


def _word(word: str) -> Floats:
    seed = blake2b(SAME.get(word, word).encode(), digest_size=WIDTH).digest()
    vector: Floats = np.frombuffer(seed, np.uint8).astype(np.float32) - np.float32(127.5)
    return vector


def docs(*bodies: str) -> list[Doc]:
    """Memories with these bodies, each in a file of its own."""
    return [Doc(id=f"{number}.md", body=body) for number, body in enumerate(bodies)]
