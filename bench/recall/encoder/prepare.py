"""Turns the texts into numbers: `python -m bench.recall.encoder.prepare BASE LONGMEMEVAL WORK`.

BASE has `model.safetensors` and `vocab.txt` of all-MiniLM-L6-v2, LONGMEMEVAL is `sessions.jsonl.gz` of
LongMemEval, WORK has `pairs.tsv.gz`. Writes to WORK: `base.safetensors`, `vocabulary.txt`, `texts.npz`, and
`people.json.gz` with the invented people of `bench.recall.everyday`.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.recall.encoder.export import write_tensors
from bench.recall.encoder.pairs import LANGUAGES, Pair, read_pairs
from bench.recall.everyday.people import Person, own_people
from bench.recall.everyday.train import labelled_messages
from nacre.memory.recall.ranking import notes
from nacre.memory.recall.semantic.meaning import QUESTION_TOKENS, TEXT_CHARS, question_text, text_of
from nacre.memory.recall.semantic.minilm import WordPiece, _Tensors

MARKS = "，。？！：、“”（）；"
SEEN = 20
"""An ideograph outside GB 2312 gets a piece if so many translations have it."""
MAX_PAIRS = {"zh": 90_000, "ja": 36_000, "de": 45_000, "es": 36_000, "fr": 45_000}
MAX_ENGLISH_CHARS = 240
ENGLISH_TOKENS, TRANSLATED_TOKENS, PASSAGE_TOKENS, NOTE_TOKENS = 64, 72, 80, 128
PASSAGES = 16_000
PASSAGE_CHARS = (80, 200, 400)
SEED = 3


def extended_vocabulary(base: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """Return a vocabulary with the common ideographs of Chinese and Japanese after its own pieces."""
    codes = (bytes([a, b]).decode("gb2312", "ignore") for a in range(0xB0, 0xD8) for b in range(0xA1, 0xFF))
    new = [one for one in codes if len(one) == 1]
    for is_chinese in (True, False):
        texts = (other for language, _, _, other in pairs if (language == "zh") == is_chinese)
        seen = Counter(c for text in texts for c in text if "\u4e00" <= c <= "\u9fff")
        new += [one for one, count in seen.items() if count >= SEEN]
    known = set(base)
    return [*base, *(one for one in dict.fromkeys([*new, *MARKS]) if one not in known)]


def chosen_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the first short pairs of each language."""
    count = Counter[str]()
    found = []
    for pair in pairs:
        language, _, english, _ = pair
        if len(english) <= MAX_ENGLISH_CHARS and count[language] < MAX_PAIRS[language]:
            count[language] += 1
            found.append(pair)
    return found


def passages(sessions: Path) -> list[str]:
    """Return passages of conversations, which keep the meaning of English texts as it was."""
    chance = random.Random(SEED)
    found = []
    with gzip.open(sessions, "rt", encoding="utf-8") as file:
        for line in file:
            turns = json.loads(line)["turns"]
            for _, text in chance.sample(turns, min(3, len(turns))):
                start = chance.randrange(max(1, len(text) - 300))
                found.append(text[start : start + chance.choice(PASSAGE_CHARS)])
    chance.shuffle(found)
    return found[:PASSAGES]


def packed(rows: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Return rows of different lengths as one array, and their lengths."""
    flat = np.array([number for row in rows for number in row], np.uint16)
    return flat, np.array([len(row) for row in rows], np.uint16)


def person_tokens(person: Person, pieces: WordPiece) -> dict[str, Any]:
    """Return the memories and messages of a person as numbers, with the places of the needed memories."""
    place = {one.id: i for i, one in enumerate(person.memories)}
    messages = []
    for message in person.messages:
        other = (message.helpful | message.stale) - message.needed
        segments = [question_text(one) for one in notes.encoded_segments(message.text)]
        messages.append({
            "segments": [pieces.tokens(one, QUESTION_TOKENS) for one in segments],
            "needed": sorted(place[one] for one in message.needed),
            "left_out": sorted(place[one] for one in other),
        })  # fmt: skip
    memories = [pieces.tokens(text_of(one.doc)[:TEXT_CHARS], NOTE_TOKENS) for one in person.memories]
    return {"key": person.key, "language": person.language, "memories": memories, "messages": messages}


def main(base: Path, sessions: Path, work: Path) -> None:
    pairs = read_pairs(work)
    vocabulary = extended_vocabulary((base / "vocab.txt").read_text(encoding="utf-8").splitlines(), pairs)
    (work / "vocabulary.txt").write_text("".join(f"{one}\n" for one in vocabulary), encoding="utf-8")
    pieces = WordPiece(vocabulary)
    chosen = chosen_pairs(pairs)
    texts = {
        "english": [pieces.tokens(one[2], ENGLISH_TOKENS) for one in chosen],
        "translated": [pieces.tokens(one[3], TRANSLATED_TOKENS) for one in chosen],
        "passages": [pieces.tokens(one, PASSAGE_TOKENS) for one in passages(sessions)],
    }
    arrays = {}
    for name, rows in texts.items():
        arrays[name], arrays[f"{name}_sizes"] = packed(rows)
    languages = np.array([LANGUAGES.index(one[0]) for one in chosen], np.uint8)
    np.savez_compressed(work / "texts.npz", languages=languages, **arrays)
    tensors = _Tensors(base / "model.safetensors")
    names = [
        one for one in tensors if one.startswith(("embeddings.", "encoder.")) and "position_ids" not in one
    ]
    write_tensors(work / "base.safetensors", {name: tensors[name] for name in names})
    people = [person_tokens(one, pieces) for one in own_people()]
    messages = [(pieces.tokens(text[:240], QUESTION_TOKENS), needs) for text, needs in labelled_messages()]
    with gzip.open(work / "people.json.gz", "wt", encoding="utf-8") as file:
        json.dump({"people": people, "messages": messages}, file)
    print(len(vocabulary), "pieces,", len(chosen), "pairs,", len(people), "people")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("usage: python -m bench.recall.encoder.prepare BASE LONGMEMEVAL WORK")
    main(*map(Path, sys.argv[1:4]))
