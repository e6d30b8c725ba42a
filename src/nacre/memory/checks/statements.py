"""Sentences of texts, found by their words, and what another text adds to them or no longer has (E9, D6)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile

from nacre.memory.checks.support_sentence import (
    PREPOSITIONS,
    Sentence,
    among,
    forms,
    is_content,
    normalised,
    split_sentences,
)
from nacre.memory.checks.support_words import DESTRUCTIVE, NEGATIVE

MIN_COVERED = 0.5
"""Share of its content words that a sentence has in common with one that it may come from."""
NEARLY_BEST = 0.15
"""Sources whose share is less than this below the best one are compared, too."""
MAX_NEW = 0.34
"""Share of the content words of a sentence that may be new where nothing may be added."""
MIN_NEW_PAIRS = 4
"""Pairs of Chinese characters that no source has, from which on a part of a sentence is a statement."""
MAX_NEW_PAIRS = 0.8
"""Share of new pairs of such a part that other words for the same may have."""
PART = re.compile(
    r"\s*([,;—–，、；]|(?<=\w):\s|\s-\s|\b(?:and|or|but|because|so|which|who|that|und|oder|aber|weil|denn)\b"
    r"|因为|并且|而且|以及|并(?!不|没)|(?<=[\u4e00-\u9fff])和(?=[\u4e00-\u9fff]))\s*",
    re.IGNORECASE,
)
_JOINING = frozenset({"and", "or", "which", "who", "that", "und", "oder", "和", "并", "并且", "以及", "而且"})
_GIVING_REASON = frozenset({"because", "weil", "denn", "因为"})
CONTRAST = re.compile(r"\W*(?:not|instead of|rather than|而不是|而非)\b", re.IGNORECASE)
_FIRMLY = re.compile(r"\b(?:without|never)\b", re.IGNORECASE)
_HEAD_ENDS = PREPOSITIONS | NEGATIVE


class Statements:
    """The sentences of some texts, found by their words."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.sentences: list[Sentence] = []
        self._verbatim: set[str] = set()
        self._by_stem: dict[str, set[int]] = defaultdict(set)
        self._by_pair: dict[str, set[int]] = defaultdict(set)
        for text in texts:
            for one in split_sentences(normalised(text)):
                self._add(Sentence.of(one))

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> Statements:
        """Return these sentences as they are, also if one consists of two."""
        statements = cls(())
        for one in sentences:
            statements._add(one)
        return statements

    def _add(self, sentence: Sentence) -> None:
        if sentence.letters in self._verbatim:
            return
        self._verbatim.add(sentence.letters)
        number = len(self.sentences)
        self.sentences.append(sentence)
        for word in sentence.stems:
            self._by_stem[word].add(number)
        for pair in sentence.han_pairs:
            self._by_pair[pair].add(number)

    def has(self, sentence: Sentence) -> bool:
        """Return whether a sentence is among them, whatever its punctuation."""
        return sentence.letters in self._verbatim

    def has_word(self, word: str) -> bool:
        """Return whether a word, or another form of it, occurs."""
        return bool(self._holders(word))

    def has_pair(self, pair: str) -> bool:
        """Return whether a pair of Chinese characters occurs."""
        return pair in self._by_pair

    def nearest(self, mine: Sentence) -> list[Sentence]:
        """Return the sentences that share most of the content of another, if that is at least half of it."""
        scores: dict[int, float] = defaultdict(float)
        words = set(mine.content)
        size = len(words) + len(mine.han_pairs)
        for word in words:
            for number in self._holders(word):
                scores[number] += 1 / size
        for pair in mine.han_pairs:
            for number in self._by_pair.get(pair, ()):
                scores[number] += 1 / size
        best = max(scores.values(), default=0.0)
        least = max(MIN_COVERED, best - NEARLY_BEST)
        return [self.sentences[number] for number, score in scores.items() if score >= least - 1e-9]

    def _holders(self, word: str) -> set[int]:
        parts = re.split(r"[^\w]|_", word)
        found = set[int]().union(
            *(self._by_stem.get(form, ()) for one in (word, *parts) for form in forms(one))
        )
        if found or len(word) <= 4:
            return found
        starts = (word[: len(word) - cut] for cut in range(1, 3))
        return set[int]().union(*(self._by_stem.get(start, ()) for start in starts))


def lost_sentences(old: str, *, now: Statements) -> list[str]:
    """Return the sentences of a text of which less than half of the words are in any one present sentence."""
    found = []
    for text in split_sentences(normalised(old)):
        mine = Sentence.of(text)
        if (mine.content or mine.han_pairs) and not now.has(mine) and not now.nearest(mine):
            found.append(text)
    return found


def is_invented(mine: Sentence, places: Sequence[Statements]) -> bool:
    """Return whether a part of a sentence is in none of the sources."""
    return any(_invented_parts(mine, places))


def _invented_parts(mine: Sentence, places: Sequence[Statements]) -> Iterator[bool]:
    """Yield for each part of a sentence whether it is in none of the sources."""
    before = ""
    for text in PART.split(mine.text):
        is_item = before in _JOINING
        is_other = before in {"or", "oder"}
        is_reason = before in _GIVING_REASON
        before = text.strip().lower()
        # "Driven by legal, not by debt" adds no statement of its own.
        if not text.strip() or PART.fullmatch(text) or CONTRAST.match(text):
            continue
        part = Sentence.of(text)
        # Numbers are claims, and a script without blanks is compared by pairs.
        plain = [] if part.han else [word for word in part.content if word.isalpha()]
        new = [word for word in plain if not any(one.has_word(word) for one in places)]
        is_whole = bool(new) and len(new) == len(part.content)
        is_denied = _FIRMLY.search(text) is not None
        denied = {word for clause in part.clauses for word in clause.denied}
        yield is_whole and (len(new) > 1 or is_item or is_denied)
        yield is_other and _has_new_head(part, new)
        yield any(
            not one.has_word(word) for word in DESTRUCTIVE.intersection(part.words) for one in places[:1]
        )
        yield is_reason and bool(new) and 2 * len(new) >= len(part.content)
        yield _has_new_adjunct(part, new)
        yield _is_new_han(part, places, is_item=is_item or is_reason)
        # What is denied must be in the source: "deploys go out without review".
        yield is_denied and any(word in denied for word in new) and all(among(word, new) for word in denied)


def _has_new_adjunct(part: Sentence, new: Collection[str]) -> bool:
    """Whether all content words of a phrase with a preposition are new: "fixed by the county"."""
    return any(phrase and all(word in new for word in phrase) for phrase in part.phrases)


def _has_new_head(part: Sentence, new: Collection[str]) -> bool:
    """Whether all content words of a part before its first preposition are new: "or the invoices of May"."""
    clause = part.clauses[0].words if part.clauses else ()
    head = [word for word in takewhile(lambda one: one not in _HEAD_ENDS, clause) if is_content(word)]
    return bool(head) and all(word in new for word in head)


def _is_new_han(part: Sentence, places: Sequence[Statements], *, is_item: bool) -> bool:
    """Whether no source has most pairs of characters of a part in Chinese."""
    new = [pair for pair in part.han_pairs if not any(one.has_pair(pair) for one in places)]
    least = 1 if is_item else MIN_NEW_PAIRS
    return len(new) >= least and len(new) > MAX_NEW_PAIRS * len(part.han_pairs)


def adds(mine: Sentence, places: Sequence[Statements]) -> bool:
    words = set(mine.content)
    new = [word for word in words if not any(one.has_word(word) for one in places)]
    return len(new) > MAX_NEW * len(words) or any(word in mine.adjuncts for word in new)
