"""Recognises what a sentence asks for: a time, an amount, a place, a person, or that something is done."""

from __future__ import annotations

import re
from typing import NamedTuple

_TIME = re.compile(
    r"\b(?:when|until|how (?:long|soon|often)|(?:what|which) (?:date|day|time|month|week)|deadline|due"
    r"|wann|frist|quand|cu[aá]ndo)\b|什么时候|几号|哪天|几点|何时|多久|截止|到期|いつ",
    re.I,
)
_AMOUNT = re.compile(
    r"\b(?:how (?:much|many)|price|costs?|wie ?viele?|combien|cu[aá]nt[oa]s?)\b|多少|几个|几台|いくつ",
    re.I,
)
_PLACE = re.compile(
    r"\b(?:where|(?:what|which) (?:folder|channel|page|link|file|board|drive|url|address)"
    r"|wo|wohin|où|dónde)\b|哪里|哪儿|在哪|放哪|到哪|去哪|哪个|どこ",
    re.I,
)
_PERSON = re.compile(r"\b(?:who|whom|whose|wer|wem|wen|qui|quién)\b|谁|誰", re.I)
_QUESTION = re.compile(
    r"[?？]"
    r"|^\W*(?:who|what|when|where|which|why|how|is|are|am|do|does|did|can|could|may|should|will|would|has"
    r"|have|was|were|wer|wann|wo|wie|darf|kann|ist|gibt)\b"
    r"|什么|怎么|哪|谁|多少|几|吗|呢|能不能|行不行|是不是",
    re.I,
)
_REQUEST = re.compile(
    r"\b(?:can|could|may|should|shall|would|will) (?:i|we|you)\b|\bis it (?:ok|okay|fine)\b|\bplease\b"
    r"|\b(?:darf|kann|kannst|soll) (?:ich|du|man)\b|能不能|可不可以|行不行|帮我|可以.{0,20}吗",
    re.I,
)
"""Questions in form only: may this be done, would you do that."""


class Asked(NamedTuple):
    """What a sentence asks for; several may be true."""

    for_task: bool
    """Something is to be done, or may it be done: a rule may apply to it."""
    for_time: bool
    for_amount: bool
    for_place: bool
    for_person: bool


def asked(text: str) -> Asked:
    """Return what a sentence asks for."""
    is_task = _QUESTION.search(text) is None or _REQUEST.search(text) is not None
    patterns = (_TIME, _AMOUNT, _PLACE, _PERSON)
    return Asked(is_task, *(one.search(text) is not None for one in patterns))
