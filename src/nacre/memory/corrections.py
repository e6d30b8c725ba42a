"""Corrections that name two values without a subject, such as "it is Friday, not Tuesday" (M14c)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nacre.errors import StoreError
from nacre.memory.format.entry import Entry

MAX_VALUE = 80
"""Characters of one value; a longer text is a sentence."""
MAX_CHARS = 240
"""Two values and the words between them; also bounds the time of the patterns."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A new value that replaces an old one."""

    new: str
    old: str

    def applied(self, text: str) -> str | None:
        """Return the text with the new value; None unless the old value occurs exactly once."""
        bare_new = _LEAD.sub("", self.new)
        bare_old = _LEAD.sub("", self.old)
        pairs = [(bare_new, bare_old)]
        # Values that both have a preposition, or both have none, are first tried as they are.
        if (bare_new == self.new) == (bare_old == self.old):
            pairs.insert(0, (self.new, self.old))
        for new, old in pairs:
            matches = list(re.finditer(_whole(old), text, re.IGNORECASE))
            if len(matches) == 1:
                match = matches[0]
                before = text[: match.start()]
                if new != self.new and bare_old == self.old and not _LED.search(before):
                    new = self.new
                if match.group()[0].isupper() and self.old[0].islower():
                    new = new[0].upper() + new[1:]
                return before + new + text[match.end() :]
        return None


def corrected(entry: Entry, text: str, old: str = "") -> tuple[str, str, str] | None:
    """Return body, name and description with a new value in place of the old one; None for a whole new text.

    Name and description are empty if they do not have the old value.
    """
    correction = Correction(text, old) if old else parse_correction(text)
    if correction is None:
        return None
    body = correction.applied(entry.body)
    if body is None and old:
        raise StoreError(f"{entry.file} does not have {old!r} exactly once; give its whole new text")
    body = body or f"{entry.body.rstrip()}\n\n{text}"
    return body, correction.applied(entry.name) or "", correction.applied(entry.description) or ""


def parse_correction(text: str) -> Correction | None:
    """Return the two values of a correction without a subject; None for any other text."""
    sentence = " ".join(text.split()).rstrip(".!。！").translate(_APOSTROPHES)
    if len(sentence) > MAX_CHARS:
        return None
    for pattern in (_IT_IS, _IT_IS_NOT, _IT_IS_CHINESE, _IT_IS_NOT_CHINESE):
        if found := pattern.fullmatch(sentence):
            new = found["new"].strip()
            old = found["old"].strip()
            if not new or not old or _ADVERB.fullmatch(new) or _CLAUSE.search(_LEAD.sub("", new)):
                continue
            # Without a subject, a new value with more words than the old one may be a sentence.
            new_words, old_words = (len(_LEAD.sub("", value).split()) for value in (new, old))
            if found["subject"] or (new_words <= old_words and _PRONOUN.match(new) is None):
                return Correction(new, old)
    return None


def _whole(value: str) -> str:
    """Return a pattern for a value as whole words; Chinese has no blanks between words."""
    escaped = re.escape(value)
    return escaped if _SIGNS.search(value) else rf"(?<![^\W{_HAN}]){escaped}(?![^\W{_HAN}])"


_HAN = r"\u3400-\u9fff"
_SIGNS = re.compile(rf"[{_HAN}]")
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_PREPOSITION = "(?:on|in|at|by|from|to|for|with)"
_LEAD = re.compile(rf"^{_PREPOSITION}\s+", re.IGNORECASE)
_LED = re.compile(rf"(?<!\w){_PREPOSITION}\s+$", re.IGNORECASE)
_CLAUSE = re.compile(r"\b(?:to|that|which|because|since|when|if|so)\b", re.IGNORECASE)
_ADVERB = re.compile(
    r"(?:clearly|certainly|definitely|obviously|probably|surely|really|actually|usually|still|just|also|now|so)",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"(?:i|we|you|he|she|they|it|there|my|our|your)\b", re.IGNORECASE)
_BE = r"(?:'s|'re|\s+(?:is|are|was|were|should\s+be|must\s+be|will\s+be))(?:\s+(?:now|actually|really))?"
_POINTING = "(?:it|that|this|they|these|those)"
_VALUE = rf"[^,;:?\n]{{1,{MAX_VALUE}}}"
_IT_IS = re.compile(
    rf"(?P<subject>(?:{_POINTING}{_BE}|i\s+(?:meant|mean|said))\s+)?(?P<new>{_VALUE}?)"
    # Without a subject the comma must be there: "do not use npm" is a rule of its own.
    rf"(?:(?(subject),?|,)\s+(?:and\s+)?not|,?\s+(?:instead\s+of|rather\s+than))\s+(?P<old>{_VALUE})",
    re.IGNORECASE,
)
_IT_IS_NOT = re.compile(
    rf"(?:{_POINTING}(?:{_BE}\s+(?:not|no\s+longer)|\s+(?:isn't|aren't|wasn't|weren't))|not)"
    rf"(?:\s+any\s?more)?\s+(?P<old>{_VALUE}?)(?:\s*[,;]|\s+(?:but|-|—))\s+(?:but\s+)?"
    rf"(?P<subject>{_POINTING}{_BE}\s+)?(?P<new>{_VALUE})",
    re.IGNORECASE,
)
_IT_IS_CHINESE = re.compile(
    rf"(?P<subject>应该是|是)(?P<new>[^，,；;。：:？?]{{1,{MAX_VALUE}}}?)\s*[，,、]?\s*(?:而不是|不是)"
    rf"(?P<old>[^，,；;。：:？?]{{1,{MAX_VALUE}}})"
)
_IT_IS_NOT_CHINESE = re.compile(
    rf"不是(?P<old>[^，,；;。：:？?]{{1,{MAX_VALUE}}}?)\s*[，,、]?\s*(?P<subject>而是|应该是|是)"
    rf"(?P<new>[^，,；;。：:？?]{{1,{MAX_VALUE}}})"
)
