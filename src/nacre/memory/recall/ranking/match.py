"""A question parsed into weighted terms, and one pass over their postings for the passages that match."""

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
"""Words about the task ("summary", "recommend") are weak evidence, not none."""
STEERING = frozenset(stem(word) for word in QUESTION_STOP)
MAX_TERMS = 24
"""Of a long text only the rarest words are looked up: limits time and the bits of a match."""
MAX_CHARS = 4_000
"""The question is at the start or the end of a long message."""


@dataclass(frozen=True)
class QuestionTerm:
    """A term of a question and its weight times rarity."""

    text: str
    weight: float


@dataclass(frozen=True)
class ParsedQuestion:
    """What the ranker knows of a question."""

    terms: tuple[QuestionTerm, ...]
    total: float
    """Sum of the weights, which a passage with all terms reaches."""
    authors: frozenset[int]
    """Authors asked about: those named in the question, the user for "I" and "my"."""
    names: tuple[str, ...]
    """The terms that name them."""
    wants: int
    about_answers: bool
    about_past: bool
    date_ranges: tuple[DateRange, ...]


def parse_question(text: str, index: PassageIndex, asked: date | None = None) -> ParsedQuestion:
    """Parse a question with the statistics and authors of an index."""
    if len(text) > MAX_CHARS:
        text = f"{text[: MAX_CHARS // 2]} {text[-MAX_CHARS // 2 :]}"
    found = list(dict.fromkeys(terms(text)))
    is_own = ABOUT_ME.search(text) is not None
    authors: set[int] = set()
    names: list[str] = []
    if is_own:
        authors.update(index.authors[role] for role in USER_ROLES if role in index.authors)
    for term in found:
        if term in STOP_TERMS:
            continue
        called = {index.authors[author] for author in index.authors_called(term) if author not in ROLES}
        # What begins a single file and a colon follows is perhaps no name.
        if any(map(index.writes_again, called)):
            authors.update(called)
            names.append(term)
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


TERM_BITS = MAX_TERMS
TERM_MASK = (1 << TERM_BITS) - 1
SCORE_SCALE = 1 << 16
SCORE_UNIT = (K1 + 1) / (255 * SCORE_SCALE)
WALK_LIMIT = 40_000
"""Postings walked per question: keeps the median under 15 ms at 100,000 files; no other value was tried."""
LOOKUP_FACTOR = 4
"""Passages per requested file that get the exact score of common terms."""
SAMPLED = 16
"""One in this many passages is sampled to guess the score limit; the guess is then checked."""
IMPACTS = 256
"""Number of values of an impact, which is one byte."""
AUTHOR_LEAD = 0.15
"""Bonus of a passage by the author asked about, as a share of the question's total weight."""


class FileMatch(NamedTuple):
    """How one file matches: its best passage and what all its passages cover together.

    A tuple for speed: each question makes a hundred.
    """

    number: int
    passage: int
    score: float
    by_asked: float
    by_assistant: float
    covered: int
    """Terms of its best passage as bits; bit i is the question's term i."""
    covered_together: int


class QuestionMatch:
    """The passages of an index that match a question.

    Rare terms are walked in full; after WALK_LIMIT postings, common terms are only looked up in the passages
    already found, so that the time of a query does not grow with the store. `found` packs both results of a
    passage into one int, so that a posting costs one addition: terms in the low TERM_BITS, score above.
    """

    def __init__(self, index: PassageIndex, question: ParsedQuestion, assistants: frozenset[int]) -> None:
        self.index = index
        self.question = question
        self.assistants = assistants
        self.found: dict[int, int] = {}
        self.files: Mapping[int, FileMatch] = _Files(self._file)
        """How each file matches, computed on first use: neighbours use it again."""
        self._late: list[int] = []
        postings = index.postings
        walked = [(i, posting) for i, t in enumerate(question.terms) if (posting := postings.get(t.text))]
        walked.sort(key=lambda one: len(one[1].passages))
        spent = 0
        for i, posting in walked:
            if spent and spent + len(posting.passages) > WALK_LIMIT:
                self._late.append(i)
                continue
            spent += len(posting.passages)
            self._add(posting, self._gain(i), 1 << i)

    def _add(self, posting: Posting, gain: int, bit: int) -> None:
        """Add the score of one term to its passages; the Python loop covers only passages found before."""
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
        # A passage found before keeps its place: the order decides among equals.
        found.update(new)

    def _gain(self, i: int) -> int:
        share = self.question.terms[i].weight / self.question.total
        return int(share * SCORE_SCALE) << TERM_BITS

    def best_files(self, limit: int) -> list[int]:
        """Return the files with the best passages, best first."""
        owner = self.index.owner
        entries = self.index.entries
        top = self._top_passages(LOOKUP_FACTOR * limit)
        for i in self._late:
            self._look_up(i, top)
        found = self.found
        by_score = self.lead if self.question.authors else lambda passage: found[passage] >> TERM_BITS
        top.sort(key=by_score, reverse=True)
        files = dict.fromkeys([owner[p] for p in top])
        return [number for number in files if entries[number] is not None][:limit]

    def _top_passages(self, limit: int) -> list[int]:
        """Return that many passages, or more where several are equal at the end."""
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
        """Return the share of the question that a passage covers, saturated: 0 to about 1."""
        return (self.found.get(passage, 0) >> TERM_BITS) * SCORE_UNIT

    def lead(self, passage: int) -> float:
        """Return the score of a passage with the bonus of its author."""
        asked = self.index.author[passage] in self.question.authors
        return self.score(passage) + (AUTHOR_LEAD if asked else 0.0)

    def _file(self, number: int) -> FileMatch:
        entry = self.index.entries[number]
        if entry is None:
            return FileMatch(number, 0, 0.0, 0.0, 0.0, 0, 0)
        found = self.found
        asked = self.question.authors
        if not asked and found.keys().isdisjoint(range(entry.first, entry.last)):
            return FileMatch(number, entry.first, 0.0, 0.0, 0.0, 0, 0)
        authors = self.index.author
        assistants = self.assistants
        best = entry.first
        best_lead = -1.0
        best_value = 0
        together = 0
        by_asked = by_assistant = 0.0
        for passage in range(entry.first, entry.last):
            value = found.get(passage, 0)
            if not value and best_value and not asked:
                continue  # no word of the question, and a better passage is known
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
    """Computes a missing value once."""

    def __init__(self, ask: Callable[[int], FileMatch]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, number: int) -> FileMatch:
        match = self[number] = self._ask(number)
        return match
