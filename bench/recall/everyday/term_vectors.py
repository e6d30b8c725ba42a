"""Makes the vectors of terms of the note ranker: `python -m bench.recall.everyday.term_vectors WORK DATA`.

WORK has `pairs.tsv.gz` of `bench.recall.encoder.pairs`, DATA the public sets. The sum of a text's rows
learns to have the direction of the text's vector by the packaged encoder, and then to be near the notes
that a message needs. Writes `term_vectors.txt` and `.bin` to the package, and to WORK
`term_vectors_left_out.npz`: the vectors of each person's memories and segments by a table that was learnt
without this person. Needs scipy, and for the texts that are not in the cache of vectors some 30 ms each;
the training takes ten minutes of one core.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from bench.recall.dense import Vectors, packaged
from bench.recall.encoder.pairs import read_pairs
from bench.recall.everyday.people import Person, own_people
from bench.recall.everyday.train import GROUPS, PACKAGE, labelled_messages
from bench.recall.quality import HELD
from bench.recall.schema import full_text
from nacre.memory.recall.ranking import notes
from nacre.memory.recall.ranking.term_vectors import WIDTH, ZERO, parts_of
from nacre.memory.recall.ranking.terms import stem, terms
from nacre.memory.recall.semantic.meaning import MODEL_FOLDER
from nacre.memory.recall.semantic.minilm import NAME, VOCABULARY_FILE

Floats = npt.NDArray[np.float32]
LEFT_OUT_FILE = "term_vectors_left_out.npz"
MAX_PAIRS = {"zh": 7_000, "ja": 1_500, "de": 3_500, "es": 1_200, "fr": 1_200}
MAX_CHARS = 70
DOC_CHARS = 1_100
"""About what the encoder reads of a document."""
LEAST_SEEN = 2
ORDINARY = 5
"""Texts with a term from which its row begins as the vector of its word."""
SEED = 1
STEPS, BATCH, RATE, SCALE = 900, 768, 0.01, 14.0
"""Of the training on texts; SCALE sharpens the choice of a text's own vector among those of the batch."""
NOTE_STEPS, NOTE_RATE, NOTE_SCALE, KEPT_AT_ONCE = 140, 0.003, 16.0, 256
"""Of the training on people; in each step KEPT_AT_ONCE texts keep their vectors."""
PEOPLE_AT_ONCE, MESSAGES_AT_ONCE = 4, 16
DROP = 0.3
"""Share of terms that the training on people leaves out."""
_OUT = -99.0


def note_terms(name: str, description: str, body: str) -> list[str]:
    """Return the terms of a note that are compared."""
    return parts_of([*terms(f"{name}. {description}"), *terms(body)[: notes.COMPARED_TERMS]])


class Bags:
    """Texts as rows of a matrix with a column for each term."""

    def __init__(self, number: dict[str, int]) -> None:
        self.number = number

    def rows(self, texts: Sequence[Sequence[str]]) -> Any:
        found = [[self.number[term] for term in text if term in self.number] for text in texts]
        ends = np.cumsum([0, *map(len, found)])
        flat = np.array([one for row in found for one in row], np.int32)
        return sparse.csr_matrix(
            (np.ones(len(flat), np.float32), flat, ends), shape=(len(found), len(self.number))
        )


class Adam:
    """Changes only the rows that a step has seen."""

    def __init__(self, table: Floats) -> None:
        self.table = table
        self.moment, self.square = np.zeros_like(table), np.zeros_like(table)

    def step(self, parts: Sequence[tuple[Any, Floats]], rate: float) -> None:
        """Add the slopes of texts to those of their terms."""
        bags = sparse.vstack([bag for bag, _ in parts])
        rows = np.unique(bags.indices)
        slope = np.asarray(bags[:, rows].T @ np.concatenate([one for _, one in parts]))
        self.moment[rows] = 0.9 * self.moment[rows] + 0.1 * slope
        self.square[rows] = 0.98 * self.square[rows] + 0.02 * slope**2
        self.table[rows] -= rate * self.moment[rows] / (np.sqrt(self.square[rows]) + 1e-6)


def unit(rows: Floats) -> tuple[Floats, Floats]:
    length = np.linalg.norm(rows, axis=1, keepdims=True) + 1e-6
    return rows / length, length


def slope_of(vectors: Floats, length: Floats, slope: Floats) -> Floats:
    """Return the slope before the vectors were scaled to unit length."""
    found: Floats = (slope - vectors * (slope * vectors).sum(1, keepdims=True)) / length
    return found


class Texts:
    """Texts with the vectors that they should have."""

    def __init__(self, work: Path, data: Path) -> None:
        chance = random.Random(SEED)
        found: list[tuple[str, str]] = []
        by_language: dict[str, list[tuple[str, str]]] = {}
        for language, _, english, other in read_pairs(work):
            if len(english) <= MAX_CHARS:
                by_language.setdefault(language, []).append((english, other))
        for language, most in MAX_PAIRS.items():
            chance.shuffle(by_language[language])
            for english, other in by_language[language][:most]:
                found += [(other, english), (english, english)]
        found += [(text, text) for text, _ in labelled_messages()]
        for folder, load in HELD.values():
            for store in load(data / folder):
                found += [(text[:DOC_CHARS], text) for text in map(full_text, store.docs)]
                found += [(one.text, one.text) for one in store.questions]
        read = {text: number for number, text in enumerate(dict.fromkeys(text for _, text in found))}
        self.terms = [parts_of(terms(text)) for text, _ in found]
        vectors = Vectors(name=NAME, load=packaged).of(list(read))
        directions = np.linalg.svd(vectors[::2], full_matrices=False)[2][:WIDTH]
        self.directions = directions.T
        self.wanted, _ = unit(vectors @ directions.T)
        self.place = np.array([read[text] for _, text in found])

    def loss(self, bags: Any, table: Floats, chosen: npt.NDArray[np.intp]) -> tuple[Any, Floats]:
        """Return some texts and the slopes by which they come nearer to their vectors, not to others."""
        some = bags[chosen]
        vectors, length = unit(some @ table)
        place = self.place[chosen]
        wanted = self.wanted[place]
        odds = SCALE * vectors @ wanted.T
        own = np.arange(len(chosen))
        is_same = place[:, None] == place[None]
        is_same[own, own] = False
        odds[is_same] = _OUT
        chances = np.exp(odds - odds.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        chances[own, own] -= 1
        slope = 0.3 * SCALE * chances @ wanted - 4 * wanted
        return some, slope_of(vectors, length, slope / len(chosen))


@dataclass(frozen=True)
class PersonBags:
    """The memories and the segments of the messages of a person."""

    person: Person
    memories: Any
    messages: list[Any]

    @classmethod
    def of(cls, person: Person, bags: Bags) -> PersonBags:
        memories = [note_terms(one.name, one.description, one.body) for one in person.memories]
        messages = [
            bags.rows([parts_of(terms(part)) for part in notes.segments(one.text)]) for one in person.messages
        ]
        return cls(person, bags.rows(memories), messages)

    def loss(self, table: Floats, chance: random.Random) -> list[tuple[Any, Floats]]:
        """Return segments and memories, and the slopes by which messages come nearer to what they need."""
        asked = [number for number, one in enumerate(self.person.messages) if one.needed]
        chosen = chance.sample(asked, min(MESSAGES_AT_ONCE, len(asked)))
        segments = thinned(sparse.vstack([self.messages[number] for number in chosen]))
        memories = thinned(self.memories)
        owner = np.repeat(np.arange(len(chosen)), [self.messages[number].shape[0] for number in chosen])
        ours, our_length = unit(segments @ table)
        theirs, their_length = unit(memories @ table)
        cosines = ours @ theirs.T
        our_slope, their_slope = np.zeros_like(ours), np.zeros_like(theirs)
        place = {one.id: number for number, one in enumerate(self.person.memories)}
        for number, at in enumerate(chosen):
            message = self.person.messages[at]
            rows = np.nonzero(owner == number)[0]
            best = rows[cosines[rows].argmax(0)]
            odds = NOTE_SCALE * cosines[rows].max(0)
            odds[[place[one] for one in (message.helpful | message.stale) - message.needed]] = _OUT
            chances = np.exp(odds - odds.max())
            chances /= chances.sum()
            right = np.zeros_like(chances)
            needed = [place[one] for one in message.needed]
            right[needed] = chances[needed] / (chances[needed].sum() + 1e-9)
            change = NOTE_SCALE * (chances - right) / len(chosen)
            np.add.at(our_slope, best, change[:, None] * theirs)
            their_slope += change[:, None] * ours[best]
        return [
            (segments, slope_of(ours, our_length, our_slope)),
            (memories, slope_of(theirs, their_length, their_slope)),
        ]


def thinned(bags: Any) -> Any:
    """Return rows without some of their terms."""
    found = bags.copy()
    found.data = found.data * (np.random.rand(len(found.data)) > DROP)
    return found


def rate_of(step: int, steps: int, rate: float) -> float:
    return rate * min(1.0, (step + 1) / 25) * max(0.05, 1 - step / steps)


def learn_texts(table: Floats, texts: Texts, bags: Any) -> None:
    optimizer = Adam(table)
    for step in range(STEPS):
        chosen = np.random.choice(len(texts.terms), BATCH, replace=False)
        optimizer.step([texts.loss(bags, table, chosen)], rate_of(step, STEPS, RATE))


def learn_people(start: Floats, people: Sequence[PersonBags], texts: Texts, bags: Any) -> Floats:
    """Return a table that puts messages near the notes they need."""
    table = start.copy()
    optimizer = Adam(table)
    chance = random.Random(SEED)
    for step in range(NOTE_STEPS):
        parts = [
            part
            for one in chance.sample(people, min(PEOPLE_AT_ONCE, len(people)))
            for part in one.loss(table, chance)
        ]
        some, slope = texts.loss(bags, table, np.random.randint(0, len(texts.terms), KEPT_AT_ONCE))
        optimizer.step([*parts, (some, 4 * slope)], rate_of(step, NOTE_STEPS, NOTE_RATE))
    return table


def words_of_encoder() -> dict[str, str]:
    """Return the terms of the words and ideographs that are pieces of the encoder, with the first word."""
    found: dict[str, str] = {}
    for word in (MODEL_FOLDER / VOCABULARY_FILE).read_text(encoding="utf-8").splitlines():
        if word.isascii() and word.isalpha() and len(word) > 2:
            found.setdefault(stem(word), word)
        elif len(word) == 1 and "\u4e00" <= word <= "\u9fff":
            found[word] = word
    return found


def first_table(number: dict[str, int], texts: Texts, counts: Counter[str]) -> Floats:
    """Return a table with the vectors of the terms as texts of their own, shorter for frequent ones."""
    words = {term: word for term, word in words_of_encoder().items() if counts[term] >= ORDINARY}
    vectors = Vectors(name=NAME, load=packaged).of(list(words.values()))
    vectors = (vectors - vectors.mean(0)) @ texts.directions
    table = np.random.RandomState(SEED).randn(len(number), WIDTH).astype(np.float32) * 0.02
    for word, vector in zip(words, vectors, strict=True):
        rarity = np.log((len(texts.terms) + 1) / (counts[word] + 1)) / 9
        table[number[word]] = vector * min(1.0, rarity)
    return table


def write_package(table: Floats, number: dict[str, int]) -> None:
    """Write the table in bytes, its terms in order; the largest numbers of a few rows are cut off."""
    order = sorted(number)
    scale = (ZERO - 1) / np.quantile(np.abs(table), 0.9999)
    rows = np.clip(np.round(table[[number[term] for term in order]] * scale), 1 - ZERO, ZERO - 1) + ZERO
    (PACKAGE / "term_vectors.bin").write_bytes(rows.astype(np.uint8).tobytes())
    (PACKAGE / "term_vectors.txt").write_text("".join(f"{term}\n" for term in order), encoding="utf-8")


def main(work: Path, data: Path) -> None:
    np.random.seed(SEED)
    texts = Texts(work, data)
    people = own_people()
    counts = Counter(term for one in texts.terms for term in one)
    own = Counter[str]()
    for person in people:
        for memory in person.memories:
            own.update(note_terms(memory.name, memory.description, memory.body))
        for message in person.messages:
            own.update(parts_of(terms(message.text)))
    number = {
        term: at for at, term in enumerate(t for t in counts | own if counts[t] >= LEAST_SEEN or own[t])
    }
    bags = Bags(number)
    rows = bags.rows(texts.terms)
    table = first_table(number, texts, counts)
    learn_texts(table, texts, rows)
    asked = [PersonBags.of(person, bags) for person in people]
    left_out: dict[str, Floats] = {}
    for group in range(GROUPS):
        others = [one for at, one in enumerate(asked) if at % GROUPS != group]
        learnt = learn_people(table, others, texts, rows)
        for one in asked[group::GROUPS]:
            left_out[f"{one.person.key}.mem"] = unit(one.memories @ learnt)[0]
            left_out[f"{one.person.key}.seg"] = unit(sparse.vstack(one.messages) @ learnt)[0]
    np.savez(work / LEFT_OUT_FILE, **left_out)
    write_package(learn_people(table, asked, texts, rows), number)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m bench.recall.everyday.term_vectors WORK DATA")
    main(*map(Path, sys.argv[1:3]))
