"""Whether a memory says what the person said, in the same or in other words (M16b).

Word by word, without a model: every claim and nearly every content word of a sentence must be in one
sentence of the person, with the same negations and scope, the same values beside the same words, and nothing
exchanged. What the person asks, supposes or quotes supports nothing. What is not recognised is not supported.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property

from nacre.memory.checks.casual_text import with_typos_corrected
from nacre.memory.checks.grounding import claims_in, ungrounded_claims
from nacre.memory.checks.support_scope import (
    CONDITIONS,
    SCOPE_WORDS,
    has_same_scope,
    is_exchanged,
    scope_kinds,
)
from nacre.memory.checks.support_sentence import (
    ANY_NEGATION,
    MIN_STEM,
    MORE_NEGATIONS,
    QUESTION,
    Clause,
    Sentence,
    among,
    forms,
    is_alike,
    is_content,
    normalised,
    split_sentences,
)
from nacre.memory.checks.support_words import (
    DESTRUCTIVE,
    GENERIC,
    GENERIC_ACTS,
    LABELS,
    NEGATIVE,
    OPPOSITES,
    SOFT_NEGATIVE,
)
from nacre.memory.recall.ranking.terms import STOP_TERMS, normal

MIN_SHARE = 0.8
"""Share of the content words of a sentence that the person must have used, if one word may be new at all."""
MAX_TITLE_WORDS = 4
"""Content words of a title that need not be a statement."""
MIN_HAN_SHARE = 0.7
"""Share of the Chinese characters of a sentence that are in a pair that the person wrote."""
_REQUEST = re.compile(
    r"^\W*(?:(?:ok|so|and|also|hey)\W+)*(?:can|could|would|will) you\b|\bplease\b|能不能|可以|请",
    re.IGNORECASE,
)
_QUOTATION = re.compile(r"[\"“”「]([^\"“”「」\n]{8,})[\"“”」]|(?<!\w)['‘]([^'’\n]{8,})['’](?!\w)")
_FOREIGN_LINES = re.compile(r"^[ \t]*>.*$|^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
"""Lines that a person quotes, and blocks of code."""
_OBJECTS = re.compile(r"^\W*(?:no|nope|nein|actually|wait)\b", re.IGNORECASE)
_BREAKS = re.compile(r"[,;:()—–]")
_PART = re.compile(r"\s*(?:[,:—–]|\band\b|\bbut\b|\bbecause\b|\bso\b)\s*")
_RELATIONS = tuple(
    re.compile(one, re.DOTALL)
    for one in (
        *(rf"^(.*?)\b{word}\b(.*)$" for word in ("before", "after", "than", "over", "instead of")),
        r"\bfrom (.*?) to (.*)$",
    )
)
_FROM_TO = re.compile(r"\bfrom[ -](?:the )?(\w+) to[ -](?:the )?(\w+)\b")
_OWNER = re.compile(r"(\w+)['’]s (\w+)")
_ABOUT_USER = re.compile(
    r"\W*(?:(?:why|reason|source|note)\W+)?(?:the )?(?:user|person|they|he|she)\b"
    r"(?! (?:must|should|shall|has|needs))",
    re.IGNORECASE,
)
_UNREAL = re.compile(r"(?i)\b(?:fake|dummy|simulated|pretend|former|alleged|so-called) (\w+(?: \w+)?)")
"""A thing that is not what its name says, with that name."""
_FIRST = "*first*"
_PERSON = frozenset(normal(word) for word in "i we me us user person".split())
_TURNS = frozenset(normal(word) for word in "first later last finally".split())
_QUANTITY = frozenset({"one", "singl", "doubl", "twice", "half", "both"})
_HAN_NEGATION = re.compile(
    "不要|不得|不能|不可|不许|不用|不再|不|别|勿|没有|没|无需|禁止|避免|停止|跳过|而非|绝不|切勿|免去|省略"
)
_KANA_NEGATION = re.compile("ない|ません|ずに|禁止|だめ|ダメ")
_USUAL_SIGNS = frozenset(string.punctuation + "—–…“”‘’«»•·→←§°€£¥×，。！？；：、（）《》「」『』【】～")
_WORDLESS = re.compile(r"(?:[^\w\s]\s?){12,}|[ \t]{16,}")
_LABEL = re.compile(r"[^\W\d_]+")


def without_labels(title: str) -> str:
    """Return a title without words that only name what kind of thing a memory is."""
    return _LABEL.sub(lambda found: "" if normal(found[0].lower()) in LABELS else found[0], title)


def has_content(text: str) -> bool:
    """Return whether a text says anything that needs support."""
    sentences = map(Sentence.of, split_sentences(unicodedata.normalize("NFKC", text)))
    return any(one.content or one.han for one in sentences)


def is_supported_by(
    text: str,
    said: Sequence[str],
    *,
    old: Sequence[str] = (),
    answered: Sequence[tuple[str, str]] = (),
    is_from_outside: Callable[[str], bool] = lambda word: False,
    at: datetime | None = None,
) -> bool:
    """Return whether the person said this: claims, words, negations, scope, and which value belongs to what.

    `old` are texts that the person may rely on, such as a memory before its correction. `answered` are texts
    of `answered_text`, each with its answer. `is_from_outside` says whether a word occurs in text from
    outside; such a word is never the agent's own.
    """
    if _has_unread_signs(text, "\n".join(said)):
        return False
    shown = normalised(text)
    exact = (*NEGATIVE, *OPPOSITES, *SCOPE_WORDS)
    sources = [
        with_typos_corrected(normalised(_FOREIGN_LINES.sub("\n", one)), shown, exact=exact)
        for one in (*said, *old)
        if one.strip()
    ]
    # A question brings plain words; names, numbers and identifiers are the person's.
    asked = " ".join(word for one, _ in answered for word in one.split() if word.isalpha() and word.islower())
    if not sources or ungrounded_claims(shown, said=[*sources, asked], at=at):
        return False
    whole = "\n".join((*sources, asked))
    if any(
        not _is_whole(claim, whole) for claim in claims_in(shown, kinds=("identifier", "address", "name"))
    ):
        return False
    known = [*_sources(sources), *(_Source.of_answer(*one) for one in answered if one[0])]
    before = [sentence for one in old for sentence in split_sentences(normalised(one))]
    mine = [Sentence.of(one) for one in split_sentences(shown)]
    counted = [one for one in mine if one.content or one.han]
    if not all(_is_meta(one) or _is_said_in_generic_words(one, known) for one in mine if one not in counted):
        return False
    last: _Source | None = None
    for one in counted:
        found = _source_of(one, known, last, is_from_outside)
        last = found or _source_of(one, [*_corrected(one, known, before)], None, is_from_outside)
        if last is None:
            return False
    return bool(counted) or all(_is_said_in_generic_words(one, known) for one in mine)


def _is_meta(mine: Sentence) -> bool:
    """Whether a sentence without content words only says where a memory comes from, as "The user said so"."""
    acts = GENERIC_ACTS.intersection(mine.words)
    return not ANY_NEGATION.search(mine.text) and (not acts or _ABOUT_USER.match(mine.text) is not None)


def is_title_of(title: str, body: str) -> bool:
    """Return whether a title says what its text says, or has a few words of one of its sentences."""
    if is_supported_by(title, [body]):
        return True
    mine = Sentence.of(normalised(title))
    whole = normalised(body)
    is_short = 0 < len(mine.content) <= MAX_TITLE_WORDS and not _has_unread_signs(title, body)
    claims = claims_in(mine.text, kinds=("identifier", "address", "name", "number", "date"))
    if not is_short or not all(_is_whole(claim, whole) for claim in claims):
        return False
    return any(
        all(one.has(word) for word in mine.content)
        and _has_same_negations(mine, [one])
        and has_same_scope(mine.text, one.text, "")
        for one in map(Sentence.of, split_sentences(whole))
    )


def _corrected(mine: Sentence, known: Sequence[_Source], before: Sequence[str]) -> Iterator[_Source]:
    """Return sentences of the old text, each with one that only corrects it: "no, the key is green"."""
    for one in known:
        (*_, said) = one.sentences
        if said.content and all(among(word, mine.content) for word in said.content):
            words = _BREAKS.sub(" ", _OBJECTS.sub("", said.text))
            yield from (_Source((Sentence.of(f"{text.rstrip(' .。')} {words}"),)) for text in before)


def _is_said_in_generic_words(mine: Sentence, known: Sequence[_Source]) -> bool:
    return any(
        any(all(among(word, clause.words) for word in mine.generic) for clause in one.clauses)
        and _has_same_negations(mine, [one])
        and has_same_scope(mine.text, one.text, one.text)
        for source in known
        for one in source.sentences
        if _may_support(one, mine)
    )


@dataclass(frozen=True)
class _Source:
    """One sentence of the person, or two of which the second needs the first."""

    sentences: tuple[Sentence, ...]
    message: int = -1
    number: int = 0
    """Of its first sentence in the message."""
    answer: frozenset[str] = frozenset()
    """Words that a text must have to use this: it is a question with an answer."""

    @classmethod
    def of_answer(cls, text: str, answer: str) -> _Source:
        words = Sentence.of(normalised(answer)).content
        return cls((Sentence.of(normalised(text)),), answer=frozenset(words))

    @cached_property
    def subject(self) -> str:
        return next(iter(self.sentences[0].content), "")

    def follows(self, last: _Source, mine: Sentence) -> bool:
        """Whether a text may go on with this after another source: it names what this is about."""
        distance = self.number - last.number
        is_near = self.message == last.message and 0 <= distance <= len(last.sentences)
        is_same = distance == 0 and is_near
        leans = is_near and self.sentences[0].leans
        return is_same or leans or not self.subject or mine.names(self.subject)


def _sources(texts: Sequence[str]) -> list[_Source]:
    """Return the sentences of the person, each alone and with the one before it if it needs that."""
    found: list[_Source] = []
    for message, text in enumerate(texts):
        sentences = [Sentence.of(one) for one in split_sentences(text)]
        for number, one in enumerate(sentences):
            if QUESTION.search(one.text) and not _REQUEST.search(one.text):
                continue
            found.append(_Source((one,), message, number))
            if number and one.leans:
                found.append(_Source((sentences[number - 1], one), message, number - 1))
    return found


def _source_of(
    mine: Sentence, known: Sequence[_Source], last: _Source | None, is_from_outside: Callable[[str], bool]
) -> _Source | None:
    """Return what supports a sentence, or the last of those that support its parts; None if nothing does."""
    # The last of equals: a person who changes their mind says so later.
    for one in reversed(known):
        is_usable = all(among(word, mine.content) for word in one.answer) and all(
            _may_support(each, mine) for each in one.sentences
        )
        is_next = last is None or one.follows(last, mine)
        if is_usable and is_next and _is_sentence_supported(mine, one.sentences, is_from_outside):
            return one
    parts = [Sentence.of(part) for part in _PART.split(mine.text) if part.strip()]
    if len(parts) < 2 or any(len(part.content) < 2 for part in parts):
        return None
    found = last
    for part in parts:
        found = _source_of(
            part,
            [one for one in known if part.names(one.subject)],
            found,
            is_from_outside,
        )
        if found is None:
            return None
    return found


def _may_support(source: Sentence, mine: Sentence) -> bool:
    """Whether a sentence asserts what a text asserts, and does not deny what a text states plainly."""
    if any(frame not in mine.frames for frame in source.frames):
        return False
    for quoted in _QUOTATION.finditer(source.text):
        outside = Sentence.of(source.text.replace(quoted[0], " ")).content
        if outside and not any(among(word, mine.content) for word in outside):
            return False
    return not MORE_NEGATIONS.search(source.text) or bool(ANY_NEGATION.search(mine.text))


def _has_unread_signs(text: str, said: str) -> bool:
    """Whether a text has signs that could carry words unread: Braille, Morse, invisible characters."""
    odd = {sign for sign in text if not (sign.isalnum() or sign.isspace() or sign in _USUAL_SIGNS)}
    return not odd <= set(said) or _WORDLESS.search(text) is not None


def _is_sentence_supported(
    mine: Sentence, sources: Sequence[Sentence], is_from_outside: Callable[[str], bool]
) -> bool:
    if any(mine.letters == one.letters for one in sources):
        return True
    new = [word for word in mine.content if not any(one.has(word) for one in sources)]
    new = [word for word in new if not any(_is_compound(word, mine.content, one) for one in sources)]
    allowed = 1 if len(set(mine.content)) >= round(1 / (1 - MIN_SHARE)) else 0
    if len(set(new)) > allowed or len(new) == len(mine.content) > 0:
        return False
    if any(_is_loaded(word) or is_from_outside(word) or word in mine.adjuncts for word in new):
        return False
    if any(_is_replaced(word, mine, one) for word in new for one in sources):
        return False
    whole = " . ".join(one.text for one in sources)
    return (
        _is_han_supported(mine, sources)
        and _has_same_negations(mine, sources)
        and not has_opposite(mine, sources)
        and not is_rearranged(mine, sources)
        and not any(_is_context_lost(mine, one) or _is_unlimited(mine, one) for one in sources)
        and has_same_scope(mine.text, whole, " . ".join(one.limited_to(mine) for one in sources))
    )


def _is_loaded(word: str) -> bool:
    """Whether a word turns the meaning of others, so that an agent may not add it."""
    return (
        word in NEGATIVE
        or word in OPPOSITES
        or any(sign.isdigit() for sign in word)
        or re.match(r"(?:un|non|dis|anti)[a-z]{3}", word) is not None
        or word.endswith("less")
    )


def _is_compound(word: str, mine: Sequence[str], source: Sentence) -> bool:
    """Whether a word is written apart on one side: "front end" and "frontend"."""
    theirs = "".join(source.words)
    at = mine.index(word)
    pairs = ("".join(mine[at : at + 2]), "".join(mine[max(0, at - 1) : at + 1]))
    return (len(word) > MIN_STEM and word in theirs and _spans_words(word, source)) or any(
        pair != word and pair in source.stems for pair in pairs
    )


def _spans_words(word: str, source: Sentence) -> bool:
    words = source.words
    return any("".join(words[at : at + size]) == word for size in (2, 3) for at in range(len(words)))


def _is_replaced(word: str, mine: Sentence, source: Sentence) -> bool:
    """Whether a new word is where the person has another one, between or beside the same words."""
    at = mine.content.index(word)
    left = mine.content[at - 1] if at else ""
    right = mine.content[at + 1] if at + 1 < len(mine.content) else ""
    theirs = source.content
    for place, other in enumerate(theirs):
        if any(is_alike(other, one) for one in mine.content):
            continue
        same_left = is_alike(theirs[place - 1] if place else "", left)
        same_right = is_alike(theirs[place + 1] if place + 1 < len(theirs) else "", right)
        if same_left or same_right:
            return True
    return False


def _is_han_supported(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    if not mine.han:
        return True
    whole = "\n".join(one.text for one in sources)
    pairs = {pair for one in sources for pair in one.han_pairs} | {
        whole[at : at + 2] for at in range(len(whole) - 1)
    }
    known = [
        mine.han[at : at + 2] in pairs or (at > 0 and mine.han[at - 1 : at + 1] in pairs)
        for at in range(len(mine.han))
    ]
    if sum(known) < MIN_HAN_SHARE * len(known):
        return False
    if any(_is_negation_moved(mine.text, one.text) for one in sources):
        return False
    for one in sources:
        if bool(_HAN_NEGATION.search(mine.text)) != bool(_HAN_NEGATION.search(one.text)) and one.han:
            return False
        for kind, a, b, c, d in SequenceMatcher(None, one.han, mine.han, autojunk=False).get_opcodes():
            gone = "".join(sign for sign in one.han[a:b] if sign not in mine.han)
            new = mine.han[c:d]
            if kind == "replace" and len(gone) > 1 and abs(len(gone) - len(new)) <= 1 and new not in one.han:
                return False
    return True


def _is_negation_moved(mine: str, source: str) -> bool:
    """Whether clauses exchange what they deny: "不要发给小王，发给小李" with the other name denied."""
    my_denied, my_stated = _dense_pairs(mine)
    denied, stated = _dense_pairs(source)
    return bool(my_denied & (stated - denied)) and bool(my_stated & (denied - stated))


def _dense_pairs(text: str) -> tuple[set[str], set[str]]:
    """Return all pairs of signs of the clauses that deny something, and of the others."""
    pairs: tuple[set[str], set[str]] = (set(), set())
    for clause in re.split("[，、,；;。]", text):
        is_stated = not (_HAN_NEGATION.search(clause) or _KANA_NEGATION.search(clause))
        pairs[is_stated].update(clause[at : at + 2] for at in range(len(clause) - 1))
    return pairs


def _has_same_negations(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    """Whether what is denied is denied by the person too, and what they deny is not claimed."""
    theirs = [clause for one in sources for clause in one.clauses]
    for clause in mine.clauses:
        if not _is_generic_denial_said(clause, theirs) or _is_destroyed(clause, theirs):
            return False
        focus = [word for word in clause.focus if clause.words.count(word) == 1]
        known = [word for word in focus if any(among(word, one.words) for one in theirs)]
        if focus and not known:
            return False
        for word in known:
            if not any(among(word, one.denied) or (one.is_bad and among(word, one.words)) for one in theirs):
                return False
        if any(_is_denied_of_another(word, clause, theirs) for word in known):
            return False
        for word in set(filter(is_content, clause.words)) - clause.denied:
            places = [one for one in theirs if among(word, one.words)]
            if places and all(among(word, one.denied) for one in places):
                return False
    return True


def _is_generic_denial_said(clause: Clause, theirs: Sequence[Clause]) -> bool:
    """Whether a denial without content words, such as "do not ask", is in a clause of the person."""
    if NEGATIVE.isdisjoint(clause.order) or any(map(is_content, clause.words)):
        return True
    denied = [word for word in clause.words if word in GENERIC and word not in NEGATIVE | STOP_TERMS]
    return any(
        not NEGATIVE.isdisjoint(one.order) and all(among(word, one.words) for word in denied)
        for one in theirs
    )


def _is_denied_of_another(word: str, clause: Clause, theirs: Sequence[Clause]) -> bool:
    """Whether a word is denied of what the person asserts it of: "not about style, but about bugs"."""
    places = [one for one in theirs if among(word, one.words)]
    mine = SOFT_NEGATIVE.intersection(clause.words)
    denying = [
        one for one in places if among(word, one.denied) or (one.is_bad and mine.isdisjoint(one.words))
    ]
    others = [other for other in clause.words if is_content(other) and not is_alike(other, word)]
    return any(
        any(among(other, one.words) for one in places if one not in denying)
        and not any(among(other, one.words) for one in denying)
        for other in others
    )


def _is_destroyed(clause: Clause, theirs: Sequence[Clause]) -> bool:
    """Whether "X is deleted" is drawn from "X never": both deny X, and one of them says the contrary."""
    verbs = DESTRUCTIVE.intersection(clause.order)
    if not verbs or not (NEGATIVE - DESTRUCTIVE).isdisjoint(clause.order):
        return False
    for word in clause.denied:
        places = [one for one in theirs if among(word, one.words)]
        if places and all(among(word, one.denied) and verbs.isdisjoint(one.order) for one in places):
            return True
    return False


def has_opposite(mine: Sentence, sources: Sequence[Sentence]) -> bool:
    """Return whether a sentence has a word where the sources only have its contrary."""
    theirs = {word for one in sources for word in one.words}
    return any(
        word not in theirs and not OPPOSITES[word].isdisjoint(theirs)
        for word in mine.words
        if word in OPPOSITES
    )


def is_rearranged(mine: Sentence, sources: Sequence[Sentence], *, may_join: bool = False) -> bool:
    """Return whether a value is beside words of another one, or two sides of a relation changed places.

    With `may_join`, one clause may say what the source says in two.
    """
    theirs = [(frozenset(clause.words), one.values) for one in sources for clause in one.clauses]
    for clause in mine.clauses:
        for value in mine.values.intersection(clause.words):
            words = [word for word in clause.words if is_content(word) and word != value]
            own = [one for one, _ in theirs if value in one]
            rivals = [
                one
                for one, values in theirs
                if value not in one and one & values and not (may_join and one & values <= set(clause.words))
            ]
            for word in words:
                is_rival = any(among(word, one) for one in rivals)
                if own and is_rival and not any(among(word, one) for one in own):
                    return True
    has_quantity = _QUANTITY.intersection(mine.words)
    if has_quantity and not any(has_quantity & set(one.words) for one in sources):
        counts = {word for one in sources for word in one.words if word.isdigit()}
        if counts.difference(mine.words):
            return True
    if any(is_crossed(mine, one) or _is_other_turn(mine, one) for one in sources):
        return True
    return any(
        is_exchanged(
            [_who(word) for word in my_clause.order],
            [_who(word) for word in its_clause.order],
            is_content=lambda word: word == _FIRST or is_content(word),
            has_other_voice=my_clause.is_passive != its_clause.is_passive,
        )
        for my_clause in mine.clauses
        for one in sources
        for its_clause in one.clauses
    )


def _who(word: str) -> str:
    """Return one form for words that mean the same; the person is the same in their words and the agent's."""
    return _FIRST if word in _PERSON else min(forms(word))


def _is_context_lost(mine: Sentence, source: Sentence) -> bool:
    """Whether a text leaves out how a clause begins: who reports it, or which of several things is meant."""
    for clause in source.clauses:
        content = [word for word in clause.order if is_content(word)]
        used = [mine.names(word) for word in content]
        if any(used) and not used[0] and not clause.is_own(content[0]):
            return True
    if _UNREAL.search(mine.text) is None and any(
        mine.names(normal(word)) for one in _UNREAL.finditer(source.text) for word in one[1].lower().split()
    ):
        return True
    owners = _OWNER.findall(source.text.lower())
    return any(
        owned == other and owner != one
        for owner, owned in _OWNER.findall(mine.text.lower())
        for one, other in owners
        if (owner, owned) not in owners
    )


def _is_unlimited(mine: Sentence, source: Sentence) -> bool:
    """Whether a text leaves out a condition, or what limits a ban, a permission or a deletion."""
    my_kinds = scope_kinds(mine.text)
    for part in source.parts_about(mine):
        is_conditional = CONDITIONS.intersection(scope_kinds(part.text)) - my_kinds
        if is_conditional and not all(mine.names(word) for word in part.content):
            return True
    if "may" not in my_kinds and NEGATIVE.isdisjoint(mine.words):
        return False
    for clause in source.clauses:
        kinds = scope_kinds(" ".join(clause.order))
        used = [word for word in clause.words if is_content(word) and mine.names(word)]
        if not used or ("may" not in kinds and NEGATIVE.isdisjoint(clause.order)):
            continue
        times = {kind for kind in kinds if kind.startswith("in ")}
        if times - my_kinds:
            return True
        is_deletion = not DESTRUCTIVE.isdisjoint(clause.order)
        limits = source.restrictions.intersection(clause.words) | (clause.denied if is_deletion else set())
        if any(not mine.names(word) for word in limits):
            return True
    return False


def is_crossed(mine: Sentence, source: Sentence) -> bool:
    """Whether words before and after a relation such as "before" changed places."""
    for relation in _RELATIONS:
        here = relation.search(mine.text.lower())
        there = relation.search(source.text.lower())
        if not here or not there:
            continue
        my_left, my_right, left, right = (
            {word for word in Sentence.of(part).words if word not in STOP_TERMS and word.isalnum()}
            for part in (*here.groups(), *there.groups())
        )
        if any(among(word, my_right - my_left) for word in left - right) and any(
            among(word, my_left - my_right) for word in right - left
        ):
            return True
    here = _FROM_TO.search(mine.text.lower())
    there = _FROM_TO.search(source.text.lower())
    # Names of one letter are no content words.
    return bool(here and there and here.groups() == there.groups()[::-1])


def _is_other_turn(mine: Sentence, source: Sentence) -> bool:
    """Whether something else is "first" or "later" than in the source."""
    for turn in _TURNS:
        theirs = {word for one in source.clauses if turn in one.order for word in one.words}
        for clause in mine.clauses:
            content = [word for word in clause.words if is_content(word) and word != turn]
            if turn in clause.order and theirs and content and not any(among(w, theirs) for w in content):
                return True
    return False


def _is_whole(claim: str, text: str) -> bool:
    """Whether a claim occurs in a text as a whole, not as part of another word or address."""
    claim = re.sub(r"['’]s$", "", claim)
    pattern = rf"(?<![\w.@-]){re.escape(claim)}(?:'s|’s|s)?(?![\w-]|\.\w)"
    if re.search(pattern, text, re.IGNORECASE):
        return True
    stemmed = {normal(part) for part in re.findall(r"[^\W_]+", text.lower())}
    return claim.isalpha() and normal(claim.lower()) in stemmed
