"""Small ways in which a sentence turns what the person said: a prefix, a weekday, a year, "only" (E9, D6)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nacre.memory.checks.support_sentence import Clause, Sentence, among, is_content
from nacre.memory.checks.support_words import NEGATIVE
from nacre.memory.recall.ranking.terms import normal

MIN_BARE = 4
"""Letters of a word that a prefix turns into its contrary."""
_WORD = re.compile(r"[^\W\d_]+")
_PREFIX = re.compile(r"(?:in|un|im|ir|il|dis|non)")
_HAN_DAY = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_MARK = re.compile(r"^\W*(?:since|said|superseded) \d{4}-\d\d-\d\d|\(said \d{4}-\d\d-\d\d\)", re.IGNORECASE)
"""What nacre writes beside a statement."""
_MUST_NOT = re.compile(
    r"\b(?:must|may|should|can|is|are)(?: not|n['’]t)\b|\bcannot\b|\bnever\b", re.IGNORECASE
)
_PRONOUN = re.compile(r"\b(?:he|she|they|it|him|her|them|who)\b", re.IGNORECASE)
_NAMED = re.compile(r"\W*(?!The\b|I\b|We\b|Do\b|Never\b|No\b)([A-Z][a-z]+)\b")
_OWNER = re.compile(r"\b([A-Z]\w+)['’]s ([a-z]+)")
_OWN = re.compile(r"\b(?:my|our|(?:i|we)(?: have|['’]ve))\b", re.IGNORECASE)
_EVERY = re.compile(r"\b(?:every|each) ([a-z]{3,})\b(?<!second)(?<!other)(?<!third)(?<!fourth)")
_EVERY_OTHER = re.compile(r"\b(?:every|each) (?:second|other|third|fourth|2nd|3rd|4th|\d+) ([a-z]{3,})\b")
_ONLY = normal("only")


def is_detail_turned(mine: Sentence, near: Sequence[Sentence], said: Sequence[Sentence]) -> bool:
    """Return whether a detail of a sentence is another one than the person named.

    `near` are the sentences that it may come from, `said` all of theirs.
    """
    turns = (_is_contrary_form, _is_other_only, _is_more_often)
    is_other = bool(near) and all(any(turn(mine, one) for turn in turns) for one in near)
    return (
        is_other
        or _is_other_owner(mine, said)
        or _is_other_day(mine, said)
        or _is_other_year(mine, near, said)
        or _is_barred_without_word(mine, said)
    )


def _is_more_often(mine: Sentence, source: Sentence) -> bool:
    """Whether "every Thursday" is said of what happens every second Thursday."""
    periods = {found[1] for found in _EVERY.finditer(mine.text.lower())}
    theirs = {found[1] for found in _EVERY_OTHER.finditer(source.text.lower())}
    every = {found[1] for found in _EVERY.finditer(source.text.lower())}
    return bool(periods & theirs - every)


def _is_contrary_form(mine: Sentence, source: Sentence) -> bool:
    """Whether one of two texts has a word with a prefix that denies it, and only the other the bare word."""
    here = set(_WORD.findall(mine.text.lower()))
    there = set(_WORD.findall(source.text.lower()))
    return _has_bare(here, there) or (_has_bare(there, here) and NEGATIVE.isdisjoint(source.words))


def _has_bare(words: set[str], others: set[str]) -> bool:
    for word in others - words:
        prefix = _PREFIX.match(word)
        bare = word[prefix.end() :] if prefix else ""
        if len(bare) >= MIN_BARE and bare in words and bare not in others:
            return True
    return False


def _is_other_only(mine: Sentence, source: Sentence) -> bool:
    """Whether "only" limits another word: "campsites only, hotels are too dear", "only hotels"."""
    limited = [word for clause in mine.clauses for word in _limited(clause)]
    theirs = [word for clause in source.clauses for word in _limited(clause)]
    return bool(limited and theirs) and all(source.has(word) and not among(word, theirs) for word in limited)


def _limited(clause: Clause) -> list[str]:
    """Return the content words after "only", or those before it at the end of a clause."""
    if _ONLY not in clause.order:
        return []
    at = clause.order.index(_ONLY)
    after = [word for word in clause.order[at + 1 :] if is_content(word)]
    return after or [word for word in clause.order[:at] if is_content(word)]


def _is_other_owner(mine: Sentence, said: Sequence[Sentence]) -> bool:
    """Whether a thing of the person's is said to be another's: "my rabbits", "Dov's rabbits"."""
    for owner, thing in _OWNER.findall(mine.text):
        name, owned = normal(owner.lower()), normal(thing.lower())
        is_known = any(name in one.values and owner not in _owners(one) for one in said)
        own = [one for one in said if _OWN.search(one.text) and one.names(owned)]
        if is_known and own and not any(name in one.values for one in own):
            return True
    return False


def _owners(sentence: Sentence) -> set[str]:
    return {owner for owner, _ in _OWNER.findall(sentence.text)}


def _is_other_day(mine: Sentence, said: Sequence[Sentence]) -> bool:
    """Whether a weekday in Chinese is none that the person named."""
    days = _han_days(mine.text)
    theirs = {day for one in said for day in _han_days(one.text)}
    return bool(days and theirs) and not days <= theirs


def _han_days(text: str) -> set[str]:
    return {"日" if day == "天" else day for day in _HAN_DAY.findall(text)}


def _is_other_year(mine: Sentence, near: Sequence[Sentence], said: Sequence[Sentence]) -> bool:
    """Whether a year is none of the person's, where they name one for the same."""
    years = set(_YEAR.findall(_MARK.sub("", mine.text)))
    theirs = {year for one in said for year in _YEAR.findall(one.text)}
    return bool(years - theirs) and any(_YEAR.search(one.text) for one in near)


def _is_barred_without_word(mine: Sentence, said: Sequence[Sentence]) -> bool:
    """Whether the text forbids a named person what the user forbids others: "not without asking Kofi"."""
    found = _NAMED.match(mine.text)
    if found is None or _MUST_NOT.search(mine.text) is None:
        return False
    name = normal(found[1].lower())
    if not any(name in one.values for one in said):
        return False
    denying = [clause for one in said for clause in one.clauses if clause.denied]
    about = [one for one in denying if any(among(word, one.denied) for word in mine.content if word != name)]
    return bool(about) and not any(
        among(name, one.words) or _PRONOUN.search(" ".join(one.order)) for one in about
    )
