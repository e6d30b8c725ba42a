"""Whether a text turns what its sources say: denied, exchanged, other quantities, half invented (E9, D6).

The claims of a text (names, numbers, dates, paths) are looked up by `grounding`. Here each sentence is
compared with the source sentences that share most of its words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from nacre.memory.checks.details import is_detail_turned
from nacre.memory.checks.statements import CONTRAST, MIN_COVERED, PART, Statements, adds, is_invented
from nacre.memory.checks.support import has_opposite, is_crossed, is_rearranged
from nacre.memory.checks.support_scope import has_same_bounds, scope_kinds
from nacre.memory.checks.support_sentence import (
    ANY_NEGATION,
    MORE_NEGATIONS,
    QUESTION,
    Clause,
    Sentence,
    among,
    is_alike,
    is_content,
    normalised,
    split_sentences,
)
from nacre.memory.checks.support_words import NEGATIVE
from nacre.memory.dates.absolute import without_dates
from nacre.memory.recall.ranking.terms import STOP_TERMS, normal

MIN_ALIKE = 0.6
"""Share of the content words of a source that make a sentence another form of it, not of a part of it."""
MIN_DENIED = 0.75
"""Share of the words of a denied clause from which on a sentence without a negation states the contrary."""
MIN_PART_WORDS = 2
MAX_JOINED = 8
"""Sentences of the person that may stand in one."""
MAX_SHOWN = 80
"""Characters of a sentence in a message."""
_ADVICE = re.compile(r"\W*(?:how to apply|apply|如何应用|做法)\W", re.IGNORECASE)
_LEANS = re.compile(r"\W*(?:(?:and|so|but|now)\W+)?(?:it|that|this|they|he|she|both|those)\b", re.IGNORECASE)
_RULE = re.compile(r"\W*(?:never|do not|don't|avoid|no|not|stop)\b", re.IGNORECASE)
_DENIES = re.compile(
    r"\b(?:is|are|was|were|be|must|may|can|should|will|has|have|goes?|does|do) not\b", re.IGNORECASE
)
_SOFT = frozenset(
    normal(word)
    for word in "only except unless instead rather left leave gone retire end replace dead".split()
)
"""Stems of words that limit or end something: a denied sentence may be said with them."""
_LIMITS = frozenset(normal(word) for word in "only except unless".split())
_HAN_NEGATION = re.compile(
    "不(?:用|要|能|许|再|得)?|(?<![特分区级性差])别(?!人|的|墅)|勿|没有?|无需|无人|禁止|避免|停|弃|废|未(?!来)|(?<!除)非(?!常)"
)
_HAN_ORDER = re.compile("先([^，。；再]+)[，、]?(?:然后)?再([^，。；]+)")
_HAN_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([\u4e00-\u9fff]{1,2})")
"""A number and what it counts; dates are taken out before."""
_COUNT = re.compile(r"\d+(?:[.,:]\d+)*(?:st|nd|rd|th)?|%")
_PERSON = re.compile(
    r"\b(?:i|we|me|us|ich|wir|(?:the |der )?(?:user|person|nutzer)(?!['’]s))\b|我|用户", re.IGNORECASE
)
_TITLE = re.compile(r"\b(?:Dr|Prof|Mr|Mrs|Ms|Herr|Frau)\.? (?=[A-Z])")
_CLAUSE = re.compile(
    r"[，,；;。—–]|(?<!\d )\b(?:and|und)\b|\b(?:and|und|but|while|aber)\b(?! \d)", re.IGNORECASE
)
_WEEK = re.compile(r"\b(?:this|next|last) (?:week|month|year|weekend)\b", re.IGNORECASE)
_WHEN = frozenset(
    normal(word)
    for word in "nightly daily weekly monthly quarterly yearly hourly midnight noon night day morning evening"
    " weekend weekday weekends weekdays late early first last".split()
)
"""Words of time that are exchanged like names: "the nightly backup", "the weekly one"."""
_TIMES = frozenset({"in morning", "in evening", "in night"})
_ALL = frozenset({"all", "each"})
_PART_OF = re.compile(r"\b(?:\d+|one|some|few|several|most|half|many) of\b", re.IGNORECASE)
_UNDECIDED = re.compile(
    r"\b(?:whether|undecided|open|consider\w*|might|may|maybe|perhaps|if|would|asks?|plans?)\b|\?",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"\W*(?:(?i:my|our|his|her|the user's|the person's) )?(?:(?i:the |an? )?[a-z]+ )?"
    r"(?P<one>(?i:(?:the )?(?:user|person))\b(?!')|(?i:i|we)\b|[A-Z][\w-]+)"
    r"(?: (?:and|or) (?P<two>(?i:i|me|the user)\b|[A-Z][\w-]+))?"
)
_OWN = frozenset({"i", "we", "me", "user", "person", "the user", "the person"})
_HELD_CLAUSE = re.compile(r"[,;:—]|\b(?:but|while|because|before|after|when)\b")
MIN_HELD = 0.6
"""Share of the content words of a clause that make another clause say the same of its subject."""
NewWords: TypeAlias = Literal["any", "some", "few"]


class Sources:
    """What a text may come from: what the person said, texts from before, and what others said."""

    def __init__(self, said: Iterable[str], *, old: Iterable[str] = (), others: Iterable[str] = ()) -> None:
        """`others` count only for what is in neither of the first two."""
        messages = [[Sentence.of(one) for one in split_sentences(normalised(text))] for text in said]
        self._trusted = Statements([*(one.text for each in messages for one in each), *old])
        self._others = Statements(others)
        letters = [one.letters for each in messages for one in each]
        self._verbatim = {
            "".join(letters[start:end])
            for start in range(len(letters))
            for end in range(start + 2, min(start + MAX_JOINED, len(letters)) + 1)
        }
        """Sentences of the person that follow each other, as one: they are no claim of another."""
        self._denials = [denied for one in self._trusted.sentences if (denied := _denied(one))]
        # A correction may need the sentence before it: "The database moved. It is osprey now."
        self._said = [
            Sentence.of(f"{before} {one.text}".strip()) if _LEANS.match(one.text) else one
            for each in messages
            for before, one in zip(["", *(one.text for one in each)], each, strict=False)
        ]

    def altered(self, new: str, *, new_words: NewWords = "some") -> list[str]:
        """Return the sentences of a text that say something else than their source, or what no source has.

        Sentences may have `any` words of their own, `some` in parts that a source has, or `few`.
        """
        found: list[str] = []
        places = (self._trusted, self._others)
        texts = split_sentences(normalised(new))
        exchanged = self._exchanged([part for text in texts for part in _parts(text)])
        for text in texts:
            mine = Sentence.of(text)
            if any(one.has(mine) for one in places) or mine.letters in self._verbatim:
                continue
            near = next((sources for one in places if (sources := one.nearest(mine))), [])
            is_new = new_words != "any" and not _ADVICE.match(text) and is_invented(mine, places)
            is_turned = (
                self._is_turned(mine, near)
                or self._has_turned_part(mine)
                or self._is_denied_unasked(mine)
                or self._is_affirmed(mine)
                or self._has_other_subject(mine)
                or is_detail_turned(mine, near, self._trusted.sentences)
                or _is_decided(mine, near)
                or (bool(near) and all(_has_substitute(mine, one, places) for one in near))
                or (bool(mine.han) and _is_han_turned(mine, self._trusted.sentences))
                or any(part in text for part in exchanged)
            )
            if is_turned or is_new or (new_words == "few" and adds(mine, places)):
                found.append(text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…")
        return found

    def _is_turned(self, mine: Sentence, near: Sequence[Sentence]) -> bool:
        is_same = any(_agrees(mine, one, self._denials) for one in near) and _has_same_counts(mine, near)
        return bool(near) and not is_same and not any(self._is_corrected(mine, one) for one in near)

    def _has_turned_part(self, mine: Sentence) -> bool:
        """Whether a part of a sentence denies what all that is near states, or the other way round."""
        for text in PART.split(mine.text):
            part = Sentence.of(text.strip())
            if len(set(part.content)) < MIN_PART_WORDS or CONTRAST.match(text):
                continue
            near = self._trusted.nearest(part)
            if near and not any(_has_same_polarity(part, one, self._denials) for one in near):
                return True
            # "Is not due", "may not": what is denied is a word without weight.
            if near and _DENIES.search(text) and not any(_is_negative(one.text) for one in near):
                return not any(QUESTION.search(one.text) for one in near)
        return False

    def _is_denied_unasked(self, mine: Sentence) -> bool:
        """Whether a clause denies what the clauses with most of its denied words state."""
        for clause in mine.clauses:
            words = {word for word in clause.denied if word.isalpha()}
            if NEGATIVE.isdisjoint(clause.order) or not words:
                continue
            near = self._clauses_with(words)
            if near and not any(_may_be_denied(words, one, sentence) for _, one, sentence in near):
                return True
        return False

    def _is_affirmed(self, mine: Sentence) -> bool:
        """Whether a clause states what the clauses with most of its words deny."""
        for clause in mine.clauses:
            words = {word for word in clause.words if is_content(word) and word.isalpha()}
            if clause.denied or clause.is_bad or not _SOFT.isdisjoint(clause.words):
                continue
            near = self._clauses_with(words)
            if any(len(found) < MIN_HELD * len(words) for found, _, _ in near):
                continue
            if near and all(all(among(word, one.denied) for word in found) for found, one, _ in near):
                return True
        return False

    def _exchanged(self, mine: Sequence[tuple[str, frozenset[str]]]) -> set[str]:
        """Return pairs of clauses that each mix the words of two clauses of one sentence of the person.

        "Ann writes, Bo tests" says neither "Bo writes" nor "Ann tests".
        """
        found: set[str] = set()
        for sentence in self._trusted.sentences:
            theirs = [words for _, words in _parts(sentence.text)]
            is_denied = _is_negative(sentence.text) or any(_is_negative(text) for text, _ in mine)
            for at, one in enumerate(theirs):
                for other in theirs[at + 1 :]:
                    mixed = [
                        (text, here, there)
                        for text, words in mine
                        if (here := _shared(words, one - other)) and (there := _shared(words, other - one))
                    ]
                    found.update(
                        text
                        for text, here, there in mixed
                        for _, here_too, there_too in mixed
                        if not here & here_too and not there & there_too
                    )
                    if is_denied:
                        continue
                    for text, here, there in mixed:
                        # A clause that is there as a whole may have got the verb of the other one.
                        is_torn = there < other - one and _is_torn(text, here, one - other, mine)
                        if is_torn or (here < one - other and _is_torn(text, there, other - one, mine)):
                            found.add(text)
        return found

    def _clauses_with(self, words: Collection[str]) -> list[tuple[set[str], Clause, Sentence]]:
        """Return the clauses that have most of some words, each with these words and its sentence."""
        found = [
            ({word for word in words if among(word, clause.words)}, clause, sentence)
            for sentence in self._trusted.sentences
            for clause in sentence.clauses
        ]
        most = max((len(shared) for shared, _, _ in found), default=0)
        return [one for one in found if most and len(one[0]) == most]

    def _has_other_subject(self, mine: Sentence) -> bool:
        """Whether a clause says of one person what the sources say only of another."""
        held = [each for one in self._trusted.sentences for each in _held(one)]
        known = {"*"}.union(*(subjects for subjects, _ in held))
        for subjects, words in _held(mine):
            if not words:
                continue
            own = rival = 0.0
            for theirs, its in held:
                share = sum(among(word, its) for word in words) / len(words)
                if not theirs or theirs & subjects or any(among(one, its) for one in subjects):
                    own = max(own, share)
                else:
                    rival = max(rival, share)
            if subjects and subjects <= known and rival >= MIN_HELD and own < MIN_COVERED:
                return True
        return False

    def _is_corrected(self, mine: Sentence, source: Sentence) -> bool:
        """Whether the person said what is new in a sentence, and it denies the same as before."""
        fresh = [word for word in mine.content if not source.has(word)]
        rest = [word for word in mine.content if source.has(word)]
        return (
            bool(fresh)
            and _has_same_polarity(mine, source, self._denials)
            and any(
                all(one.has(word) for word in fresh) and any(one.has(word) for word in rest)
                for one in self._said
            )
        )


def _may_be_denied(words: Collection[str], clause: Clause, sentence: Sentence) -> bool:
    """Whether a clause denies one of some words, calls it a problem, ends it, or only asks.

    "Only" and "except" limit the clauses beside them: "only for Jira" denies the wiki, not Jira.
    """
    limits = [
        one
        for one in sentence.clauses
        if not _LIMITS.isdisjoint(one.words) and NEGATIVE.isdisjoint(one.words)
    ]
    return (
        any(among(word, clause.denied) for word in words)
        or clause.is_bad
        or not (_SOFT - _LIMITS).isdisjoint(clause.words)
        or (bool(limits) and clause not in limits)
        or bool(_HAN_NEGATION.search(sentence.text) or MORE_NEGATIONS.search(sentence.text))
        or QUESTION.search(sentence.text) is not None
    )


def _is_decided(mine: Sentence, near: Sequence[Sentence]) -> bool:
    """Whether a sentence states what the person only asked or supposed: "should we move?"."""
    is_open = bool(near) and all(QUESTION.search(one.text) and one.frames for one in near)
    return is_open and not mine.frames and not _UNDECIDED.search(mine.text) and not _is_negative(mine.text)


def _held(sentence: Sentence) -> list[tuple[frozenset[str], list[str]]]:
    """Return the subjects of each clause that begins with a person, and its other content words."""
    found = []
    for text in _HELD_CLAUSE.split(_TITLE.sub("", sentence.text)):
        match = _SUBJECT.match(text)
        names = [one.lower() for one in match.groups() if one] if match else []
        subjects = frozenset("*" if one in _OWN else normal(one) for one in names)
        is_known = bool(match) and all(one == "*" or one in sentence.values for one in subjects)
        rest = Sentence.of(text[match.end() :] if match and is_known else text)
        found.append((subjects if is_known else frozenset[str](), [*dict.fromkeys(rest.content)]))
    return found


def _agrees(mine: Sentence, source: Sentence, denials: Sequence[frozenset[str]]) -> bool:
    """Whether a sentence denies what its source denies, and gives the same values to the same words."""
    if (
        not _has_same_polarity(mine, source, denials)
        or has_opposite(mine, [source])
        or is_crossed(mine, source)
        or _has_other_name(mine, source)
        or _is_widened(mine, source)
    ):
        return False
    # A summary of a longer sentence may leave out the bounds and values of the rest of it.
    if sum(mine.has(word) for word in source.content) < MIN_ALIKE * len(source.content):
        return True
    parts = [one for one in source.parts_about(mine) if _is_mostly(one, mine)]
    touched = " , ".join(one.text for one in parts)
    # "Tea, not coffee" says what "only tea" says.
    may_omit = {"only"} if _denied(mine) else ()
    return not is_rearranged(mine, [source], may_join=True) and has_same_bounds(
        mine.text, source.text, touched, may_add=True, may_omit=may_omit
    )


def _is_mostly(part: Sentence, mine: Sentence) -> bool:
    """Whether a sentence has at least half of the content words of a part of another."""
    return 2 * sum(mine.has(word) for word in part.content) >= len(part.content)


def _has_other_name(mine: Sentence, source: Sentence) -> bool:
    """Whether a name is beside a word that has another name beside it in the source."""
    mine_only = [word for word in mine.values.intersection(mine.content) if not source.has(word)]
    its_only = [word for word in source.values.intersection(source.content) if not mine.has(word)]
    return any(
        is_alike(here, there)
        for one in filter(str.isalpha, mine_only)
        for other in filter(str.isalpha, its_only)
        for here, there in zip(_beside(one, mine.content), _beside(other, source.content), strict=True)
    )


def _has_substitute(mine: Sentence, source: Sentence, places: Sequence[Statements]) -> bool:
    """Whether one word between two words of the source is another one that no source has: "love novels"."""
    here = [*dict.fromkeys(mine.content)]
    there = [*dict.fromkeys(source.content)]
    for at, word in enumerate(here):
        if not word.isalpha() or any(one.has_word(word) for one in places):
            continue
        before, after = _beside(word, here)
        for its in there:
            was_before, was_after = _beside(its, there)
            is_same_place = after and is_alike(after, was_after) and (before and is_alike(before, was_before))
            # A participle has the stem of its verb inside: "drucken", "ausgedruckt".
            is_form = any(its[start : start + 5] in word for start in range(max(1, len(its) - 4)))
            if is_same_place and at and its.isalpha() and not mine.has(its) and not is_form:
                return True
    return False


def _beside(word: str, words: Sequence[str]) -> tuple[str, str]:
    at = words.index(word) if word in words else -1
    before = words[at - 1] if at > 0 else ""
    return before, words[at + 1] if 0 <= at < len(words) - 1 else ""


def _is_widened(mine: Sentence, source: Sentence) -> bool:
    """Whether a sentence is about all where its source is about some, or about another time of day."""
    my_kinds = scope_kinds(mine.text)
    its_kinds = scope_kinds(source.text)
    my_times = my_kinds & _TIMES
    its_times = its_kinds & _TIMES
    is_all = bool(my_kinds & _ALL - its_kinds) and not its_kinds & _ALL
    is_some = "only" in its_kinds or _PART_OF.search(source.text) is not None
    return (is_all and is_some) or bool(my_times and its_times and not my_times & its_times)


@lru_cache(maxsize=2048)
def _parts(text: str) -> list[tuple[str, frozenset[str]]]:
    """Return the clauses of a sentence, each with its words, pairs of characters, and the person as one."""
    found = []
    for part in _CLAUSE.split(text):
        clause = Sentence.of(_HAN_NEGATION.sub(" ", part))
        person = {"*"} if _PERSON.search(part) else set[str]()
        person |= {one.lower() for one in _WEEK.findall(part)}
        found.append(
            (part, clause.han_pairs | set(clause.content) | _WHEN.intersection(clause.words) | person)
        )
    return [(part, words) for part, words in found if words]


def _is_torn(
    mixed: str, here: frozenset[str], clause: frozenset[str], mine: Sequence[tuple[str, frozenset[str]]]
) -> bool:
    """Whether words of a clause of the person are apart: one in a mixed clause, the other elsewhere.

    "We bill in euros, the Swiss in francs" does not say "Francs are usual; the Swiss pay euros".
    """
    return any(
        not any(_shared(words, {word}) and _shared(words, {other}) for _, words in mine)
        for text, there in mine
        if text != mixed
        for other in _shared(there, clause - here)
        for word in here - {"*"}
    )


def _shared(mine: Collection[str], theirs: Collection[str]) -> frozenset[str]:
    return frozenset(word for word in theirs if word in mine or among(word, mine))


def _is_han_denied(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    """Whether a clause denies what the nearest clauses of some sources state, or the other way round."""
    theirs = [part for one in sources for part in _parts(one.text)]
    for text, words in _parts(mine.text):
        most = max((len(words & its) for _, its in theirs), default=0)
        near = [part for part, its in theirs if len(words & its) == most]
        is_denied = bool(_HAN_NEGATION.search(text))
        if 2 * most >= max(2, len(words)) and all(
            bool(_HAN_NEGATION.search(part)) != is_denied for part in near
        ):
            return True
    return False


def _is_han_turned(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    return _is_han_denied(mine, sources) or _is_han_moved(mine, sources) or _is_han_reordered(mine, sources)


def _is_han_moved(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    """Whether a number of the sources is in a clause whose nearest clauses have only others."""
    theirs = [part for one in sources for part in _parts(one.text)]
    known = {number for part, _ in theirs for number in _COUNT.findall(part)}
    parts = _parts(mine.text)
    for text, words in parts:
        pairs = frozenset(word for word in words if not _COUNT.fullmatch(word))
        # Words that the other clauses have as well do not tell which clause of the source is meant.
        pairs = pairs.difference(*(its for part, its in parts if part != text)) or pairs
        most = max((len(pairs & its) for _, its in theirs), default=0)
        near = {number for part, its in theirs if len(pairs & its) == most for number in _COUNT.findall(part)}
        numbers = known.intersection(_COUNT.findall(text))
        if 2 * most >= max(2, len(pairs)) and near and numbers and not numbers & near:
            return True
    return False


def _is_han_reordered(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    """Whether what comes first and what comes then changed places: 先给结论，再给理由."""
    here = _HAN_ORDER.search(mine.text)
    for one in sources if here else ():
        there = _HAN_ORDER.search(one.text)
        if here is None or there is None:
            continue
        first, then, its_first, its_then = (
            Sentence.of(part).han_pairs for part in (*here.groups(), *there.groups())
        )
        if first & its_then and then & its_first and not (first & its_first or then & its_then):
            return True
    return False


def _has_same_polarity(mine: Sentence, source: Sentence, denials: Sequence[frozenset[str]]) -> bool:
    """Whether two sentences deny the same; `denials` is what each of the sources denies."""
    if mine.han_pairs & source.han_pairs:
        return not _is_han_denied(mine, [source])
    shared = [word for word in mine.content if source.has(word)]
    my_denied = {word for word in shared if among(word, _denied(mine))}
    its_denied = {word for word in shared if among(word, _denied(source))}
    # What is denied here is stated there, and no source denies most of it.
    for clause in mine.clauses:
        focus = [word for word in clause.focus if word in my_denied and word not in its_denied]
        if not focus or any(_denies(one, clause) for one in denials):
            continue
        places = [one for one in source.clauses if any(among(word, one.words) for word in focus)]
        is_rule = _RULE.match(mine.text) is not None
        if places and not any(one.denied or (one.is_bad and is_rule) for one in places):
            return QUESTION.search(source.text) is not None
    # What is denied there is stated here: nearly the same words, and no negation beside them.
    for clause in source.clauses:
        words = [word for word in clause.words if is_content(word)]
        near = [one for one in mine.clauses if any(among(word, one.words) for word in words)]
        soft = _SOFT.difference(clause.words)
        is_softened = any(one.denied or not soft.isdisjoint(one.words) for one in near)
        is_stated = sum(mine.has(word) for word in words) >= MIN_DENIED * len(words)
        if clause.denied and is_stated and not is_softened:
            return False
    # Both deny something: not the one in place of the other.
    return not (my_denied - its_denied and its_denied - my_denied)


def _denies(denied: frozenset[str], clause: Clause) -> bool:
    return 2 * sum(among(word, denied) for word in clause.denied) >= len(clause.denied)


def _is_negative(text: str) -> bool:
    return bool(_HAN_NEGATION.search(text) or ANY_NEGATION.search(text) or _denied(Sentence.of(text)))


@lru_cache(maxsize=8192)
def _denied(sentence: Sentence) -> frozenset[str]:
    return frozenset(word for clause in sentence.clauses for word in clause.denied)


def _counts(sentence: Sentence, known: Collection[str]) -> dict[str, set[str]]:
    """Return the numbers of a sentence by the known word before and after each."""
    found: dict[str, set[str]] = defaultdict(set)
    _, text = without_dates(sentence.text)
    words = [word for word in Sentence.of(text).words if _COUNT.fullmatch(word) or word in known]
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        after = words[at + 1] if at + 1 < len(words) else ""
        for side, other in (("<", before), (">", after)):
            if _COUNT.fullmatch(word) and other and not _COUNT.fullmatch(other):
                found[side + other].add(word)
    for match in _HAN_COUNT.finditer(text):
        found[">" + match[2]].add(match[1])
    return found


def _has_same_counts(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    """Whether no number is beside a word that has only other numbers in the sources."""
    theirs = {word for one in sources for word in one.words}
    shared = {one for one in mine.words if one in theirs and not _COUNT.fullmatch(one)} - STOP_TERMS
    its_by: dict[str, set[str]] = defaultdict(set)
    for one in sources:
        for key, numbers in _counts(one, shared).items():
            its_by[key] |= numbers
    return all(numbers <= its_by.get(key, numbers) for key, numbers in _counts(mine, shared).items())
