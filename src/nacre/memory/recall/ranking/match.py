"""A question as the ranker sees it: weighted terms, whose words are asked for, what and when."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from heapq import nlargest
from typing import NamedTuple

from nacre.memory.dates.ranges import DateRange, date_ranges
from nacre.memory.recall.ranking.analysis import ABOUT_ME, ABOUT_PAST, ABOUT_YOU, ROLES, USER_ROLES, asked_for
from nacre.memory.recall.ranking.index import K1, PassageIndex, Posting
from nacre.memory.recall.ranking.terms import STOP_TERMS, stem, terms
from nacre.memory.recall.ranking.wordlists import QUESTION_STOP

STEERING_WEIGHT = 0.3
"""Words that steer a question ("summary", "recommend") are weak evidence, not none."""
STEERING = frozenset(stem(word) for word in QUESTION_STOP)
MAX_TERMS = 24
"""Of a pasted page only the rarest words are looked up: time, and the bits a match has for terms."""
MAX_CHARS = 4_000
"""What is asked stands at the start or the end of a long message."""


@dataclass(frozen=True)
class QuestionTerm:
    """One thing asked for and how much it counts (weight times rarity)."""

    text: str
    weight: float


@dataclass(frozen=True)
class ParsedQuestion:
    """Everything the ranker reads off a question."""

    terms: tuple[QuestionTerm, ...]
    total: float
    """Sum of the weights: what a passage that covers everything would reach."""
    authors: frozenset[int]
    """Whose words are asked for: authors named in the question, the user for "I" and "my"."""
    names: tuple[str, ...]
    """The terms that named them."""
    wants: int
    about_answers: bool
    about_past: bool
    date_ranges: tuple[DateRange, ...]


def parse_question(text: str, index: PassageIndex, asked: date | None = None) -> ParsedQuestion:
    """Read a question against the store it is put to."""
    text = _shortened(text)
    found = list(dict.fromkeys(terms(text)))
    authors, names = _asked_authors(found, index, is_own=bool(ABOUT_ME.search(text)))
    content = [t for t in found if t not in STOP_TERMS and t not in names]
    weighted = [QuestionTerm(t, index.idf(t) * (STEERING_WEIGHT if t in STEERING else 1.0)) for t in content]
    if len(weighted) > MAX_TERMS:
        kept = set(sorted(weighted, key=lambda t: -t.weight)[:MAX_TERMS])
        weighted = [t for t in weighted if t in kept]
    return ParsedQuestion(
        terms=tuple(weighted),
        total=sum(t.weight for t in weighted) or 1.0,
        authors=frozenset(authors),
        names=tuple(names),
        wants=asked_for(text),
        about_answers=bool(ABOUT_YOU.search(text)),
        about_past=bool(ABOUT_PAST.search(text)),
        date_ranges=tuple(date_ranges(text, asked)),
    )


def _shortened(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return f"{text[:half]} {text[-half:]}"


def _asked_authors(found: list[str], index: PassageIndex, *, is_own: bool) -> tuple[set[int], list[str]]:
    authors: set[int] = set()
    names: list[str] = []
    for author, number in index.authors.items():
        if author in ROLES:
            if is_own and author in USER_ROLES:
                authors.add(number)
            continue
        called = [part for part in terms(author) if part in found and part not in STOP_TERMS]
        if called:
            authors.add(number)
            names.extend(called)
    return authors, names


TERM_BITS = MAX_TERMS
TERM_MASK = (1 << TERM_BITS) - 1
SCORE_SCALE = 1 << 16
SCORE_UNIT = (K1 + 1) / (255 * SCORE_SCALE)
WALK_LIMIT = 40_000
"""Postings walked per question: keeps the median under 15 ms at 100,000 files; others were not tried."""
LOOKUP_FACTOR = 4
"""How many times more passages than files are wanted get the exact score of the terms only looked up."""
SAMPLED = 16
"""Of so many passages one is looked at to guess from where on the best begin; the guess is then checked."""
IMPACTS = 256
"""What an impact, one byte, can be."""
AUTHOR_LEAD = 0.15
"""Head start of a passage by the one asked about, in shares of the question's total weight."""


class FileMatch(NamedTuple):
    """How one file matches: its best passage and what all its passages cover together.

    A tuple, since a hundred are made for each question.
    """

    number: int
    passage: int
    score: float
    by_asked: float
    by_assistant: float
    covered: int
    """Terms its best passage holds, as bits; bit i is the question's term i."""
    covered_together: int


class QuestionMatch:
    """The passages of one index that match one question.

    `found` packs both results of a passage into one int, so that the walk costs one addition
    per posting: the terms held in the low TERM_BITS, the score above them.
    """

    def __init__(self, index: PassageIndex, question: ParsedQuestion, assistants: frozenset[int]) -> None:
        self.index = index
        self.question = question
        self.assistants = assistants
        self.found: dict[int, int] = {}
        self.files: Mapping[int, FileMatch] = _Files(self._file)
        """How each file matches, worked out when first asked for: neighbours ask again."""
        self._late: list[int] = []
        self._walk()

    def _walk(self) -> None:
        postings = self.index.postings
        walked = [
            (i, posting) for i, t in enumerate(self.question.terms) if (posting := postings.get(t.text))
        ]
        walked.sort(key=lambda one: len(one[1].passages))
        spent = 0
        for i, posting in walked:
            if spent and spent + len(posting.passages) > WALK_LIMIT:
                self._late.append(i)
                continue
            spent += len(posting.passages)
            self._add(posting, self._gain(i), 1 << i)

    def _add(self, posting: Posting, gain: int, bit: int) -> None:
        """Count one term; only for passages that hold another one, too, is anything done one by one."""
        found = self.found
        passages = posting.passages
        impacts = posting.impacts
        if len(impacts) < IMPACTS:
            values = [gain * impact + bit for impact in impacts]
            new = dict(zip(passages, values, strict=True))
        else:
            table = [gain * impact + bit for impact in range(IMPACTS)]
            new = dict(zip(passages, map(table.__getitem__, impacts), strict=True))
        for passage in found.keys() & new.keys():
            new[passage] += found[passage]
        # Who was found before keeps its place: among equals the order decides.
        found.update(new)

    def _gain(self, i: int) -> int:
        share = self.question.terms[i].weight / self.question.total
        return int(share * SCORE_SCALE) << TERM_BITS

    def best_files(self, limit: int) -> list[int]:
        """The files whose best passages match most, best first."""
        owner = self.index.owner
        entries = self.index.entries
        top = self._top_passages(LOOKUP_FACTOR * limit)
        for i in self._late:
            self._look_up(i, top)
        top.sort(key=self.lead if self.question.authors else self._packed_score, reverse=True)
        files = dict.fromkeys([owner[p] for p in top])
        return [number for number in files if entries[number] is not None][:limit]

    def _top_passages(self, limit: int) -> list[int]:
        """So many or, where several are equal at the end, more."""
        if len(self.found) <= limit:
            return list(self.found)
        values = list(self.found.values())
        sample = sorted(values[::SAMPLED], reverse=True)
        guess = sample[min(2 * limit // SAMPLED, len(sample) - 1)]
        high = sorted([value for value in values if value >= guess], reverse=True)
        least = high[limit - 1] if len(high) >= limit else nlargest(limit, values)[-1]
        return [passage for passage, value in self.found.items() if value >= least]

    def _look_up(self, i: int, top: list[int]) -> None:
        posting = self.index.postings[self.question.terms[i].text]
        gain = self._gain(i)
        bit = 1 << i
        size = len(posting.passages)
        for passage in top:
            at = bisect_left(posting.passages, passage)
            if at < size and posting.passages[at] == passage:
                self.found[passage] += gain * posting.impacts[at] + bit

    def score(self, passage: int) -> float:
        """Which share of what was asked a passage covers, saturated: 0 to about 1."""
        return (self.found.get(passage, 0) >> TERM_BITS) * SCORE_UNIT

    def _packed_score(self, passage: int) -> int:
        return self.found[passage] >> TERM_BITS

    def lead(self, passage: int) -> float:
        """A passage's score with its author's head start."""
        asked = self.index.author[passage] in self.question.authors
        return self.score(passage) + (AUTHOR_LEAD if asked else 0.0)

    def file(self, number: int) -> FileMatch:
        """How one file matches."""
        return self.files[number]

    def _file(self, number: int) -> FileMatch:
        entry = self.index.entries[number]
        if entry is None:
            return FileMatch(number, 0, 0.0, 0.0, 0.0, 0, 0)
        found = self.found
        authors = self.index.author
        asked = self.question.authors
        assistants = self.assistants
        best = entry.first
        best_lead = -1.0
        best_value = 0
        together = 0
        by_asked = by_assistant = 0.0
        for passage in range(entry.first, entry.last):
            value = found.get(passage, 0)
            lead = score = (value >> TERM_BITS) * SCORE_UNIT
            author = authors[passage]
            if author in asked:
                by_asked = max(by_asked, score)
                lead += AUTHOR_LEAD
            elif author in assistants:
                by_assistant = max(by_assistant, score)
            if lead > best_lead:
                best = passage
                best_lead = lead
                best_value = value
            together |= value
        score = (best_value >> TERM_BITS) * SCORE_UNIT
        held = best_value & TERM_MASK
        together = together & TERM_MASK
        return FileMatch(number, best, score, by_asked, by_assistant, held, together)


class _Files(dict[int, FileMatch]):
    """Asks for what is missing once."""

    def __init__(self, ask: Callable[[int], FileMatch]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, number: int) -> FileMatch:
        match = self[number] = self._ask(number)
        return match
