"""Casual writing in its usual form: abbreviations, numbers, weekdays and typing errors (M16b)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nacre.memory.recall.ranking.terms import normal

_ABBREVIATIONS = """
w/ with | w/o without | bc because | b/c because | cuz because | pls please | plz please | b4 before
thx thanks | ppl people | abt about | esp especially | approx about | tmrw tomorrow | u you | ur your
r are | prolly probably | tz timezone | gh github | k8s kubernetes | js javascript | ts typescript
py python | pg postgres | psql postgres | postgresql postgres | golang go | vars variables | var variable
msgs messages | msg message | nrs numbers | nr number | svc service | svcs services | envs environments
env environment | stg staging | prod production | eng engineering | pw password | pws passwords
pwd password | mins minutes | hrs hours | hr hour | secs seconds | yrs years | deps dependencies
dep dependency | prs pull requests | pr pull request | mr merge request | configs configurations
config configuration | cfg configuration | repos repositories | repo repository | dirs directories
dir directory | docs documentation | params parameters | args arguments | dev development | func function
funcs functions | auth authentication | perf performance | info information | dont don't | doesnt doesn't
didnt didn't | cant can't | cannot can't | wont won't | isnt isn't | arent aren't | shouldnt shouldn't
mustnt mustn't | havent haven't | wasnt wasn't | its it is | it's it is | im i am | mon monday
tue tuesday | tues tuesday | wed wednesday | weds wednesday | thu thursday | thur thursday
thurs thursday | fri friday | sat saturday | sun sunday | til until | till until | two 2 | three 3
four 4 | five 5 | six 6 | seven 7 | eight 8 | nine 9 | ten 10 | eleven 11 | twelve 12 | jan january
feb february | apr april | jun june | jul july | aug august | sep september | sept september | nite night
third 3rd | fourth 4th | fifth 5th | sixth 6th | seventh 7th | eighth 8th | ninth 9th | tenth 10th
cols columns | col column | lets let us | oct october | nov november | dec december
"""
_EXPANDED = {
    short: long
    for pair in re.split(r"[|\n]", _ABBREVIATIONS)
    if pair.strip()
    for short, _, long in [pair.strip().partition(" ")]
}
_SHORT = re.compile(
    r"(?<![\w./@:#$'’-])("
    + "|".join(sorted(map(re.escape, _EXPANDED), key=len, reverse=True))
    + r")(?![\w/@:#'’-]|\.\w)(?<!Mr)",
    re.IGNORECASE,
)
_DAYS = "mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun"
_DAY_RANGE = re.compile(rf"\b({_DAYS})(?:day)? ?[-–] ?({_DAYS})(?:day)?\b", re.IGNORECASE)
_LETTERED = re.compile(r"\b([A-Za-z]\w+) ([A-HJ-Z])\b(?!['’])")
"""Such as "service B"; without its article, "A" is a name as well."""
_THOUSANDS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)k\b", re.IGNORECASE)
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")
_SPANS = {
    "d": "days", "h": "hours", "hr": "hours", "hrs": "hours", "s": "seconds", "sec": "seconds",
    "secs": "seconds", "min": "minutes", "mins": "minutes", "w": "weeks", "wk": "weeks", "wks": "weeks",
}  # fmt: skip
_SPAN = re.compile(rf"(?<![\w.])(\d+) ?({'|'.join(_SPANS)})\b")
_ABOUT = re.compile(r"(?<!\w)~(?=\d)")
_PHRASAL = re.compile(r"\b(sign|kick|hand|time|trade|log)s?[ -]off\b", re.IGNORECASE)
_NOT_ALLOWED = re.compile(
    r"\b(\w+)(?:n['’]t| not) (?:allowed|permitted)\b"
    r"|\bno ([\w -]{3,40}?)(?: are| is)? (?:allowed|permitted)\b",
    re.IGNORECASE,
)
_FREE_OF = re.compile(
    r"\b(?!(?:feel|for|is|are|be|been|was|were|set|get|gets|got|it|them|you|me|us|stay|stays|go|goes|run)\b)"
    r"([a-z]{3,})[ -]free\b(?! of\b)",
    re.IGNORECASE,
)
"""Such as "meeting free" and "nut-free"."""
_UNKNOWN = re.compile(r"\bno (?:idea|clue|experience|knowledge) (?:about|of|with|in)\b", re.IGNORECASE)
_GIVEN_UP = re.compile(r"\b(?:g[eo]t(?:ting|s)? rid of|g[ai]v(?:e|en|ing|es) up(?: on)?)\b", re.IGNORECASE)
_INTERJECTION = re.compile(
    r"(?:^|(?<=[,.;:!?]\s)|(?<=\band\s)|(?<=\bbut\s)|(?<=\bso\s))(?:no|nope|nah)[,.!]?\s+"
    r"(?=(?:i|we|you|they|he|she|it|that|this|the|my|our|don['’]t|please|never|not)\b)",
    re.IGNORECASE,
)
"""A "no" that answers and does not deny what follows: "no, we never do that"."""
_WORD = re.compile(r"[^\W\d_]{6,}")
_AFTER_END = re.compile(r"(?:^|[.!?:;\n])\W*$")
MIN_FIRST_LETTERS = 8
"""Letters of a word at the start of a sentence, which may be a name, to be taken for an ordinary one."""
_VOWELS = frozenset("aeiouy")


def expanded(text: str) -> str:
    """Return a text with abbreviations and short forms of numbers written out."""
    text = _LETTERED.sub(r"\1-\2", _ABOUT.sub("about ", text))
    text = _DAY_RANGE.sub(r"\1 to \2", text)
    text = _GROUPED.sub(lambda found: found[0].replace(",", ""), text)
    text = _THOUSANDS.sub(
        lambda found: f"{float(found[1]) * 1000:g}" if len(found[1]) < 6 else found[0], text
    )
    text = _SPAN.sub(lambda found: f"{found[1]} {_SPANS[found[2]]}", text)
    text = _UNKNOWN.sub("not known", _PHRASAL.sub(r"\1off", text))
    text = _FREE_OF.sub(r"without \1", _GIVEN_UP.sub("dropped", text))
    return _NOT_ALLOWED.sub(_forbidden, _SHORT.sub(_written_out, text))


def without_interjections(text: str) -> str:
    """Return a text without a "no" that answers and does not deny what follows."""
    return _INTERJECTION.sub("", text)


def _forbidden(found: re.Match[str]) -> str:
    return f"{found[1] or found[2] + ' are'} forbidden"


def _written_out(found: re.Match[str]) -> str:
    long = _EXPANDED[found[0].lower()]
    return long.capitalize() if found[0][:1].isupper() and found[0][1:].islower() else long


def with_typos_corrected(said: str, text: str, *, exact: Sequence[str]) -> str:
    """Return what a person typed with words spelt as `text` spells them, where one letter differs.

    Short words stay, and so do those in `exact`, whose stems change the meaning of others. A name may only
    have two letters exchanged or one doubled: names of one length are often a letter apart.
    """
    theirs = {word.lower() for word in _WORD.findall(said)}
    mine = {found[0].lower() for found in _WORD.finditer(text)}
    stems = {normal(word) for word in theirs}
    fixed: dict[str, str] = {}
    for found in _WORD.finditer(text):
        word = found[0].lower()
        if word in theirs or normal(word) in stems or normal(word) in exact:
            continue
        is_name = found[0][0].isupper() and not _AFTER_END.search(text, 0, found.start())
        may_vary = not is_name and (found[0].islower() or len(word) >= MIN_FIRST_LETTERS)
        for other in theirs - mine:
            if normal(other) not in exact and _is_typo(other, word, may_vary=may_vary):
                fixed[other] = word
    return _WORD.sub(lambda found: fixed.get(found[0].lower(), found[0]), said) if fixed else said


def _is_typo(one: str, other: str, *, may_vary: bool) -> bool:
    if one[0] != other[0] or abs(len(one) - len(other)) > 1:
        return False
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    short, long = sorted((one, other), key=len)
    if at is None:
        return len(short) == len(long) or (long[-1] == long[-2])
    if len(short) < len(long):
        is_one_more = short[at:] == long[at + 1 :]
        return is_one_more and (may_vary or long[at] == long[at - 1])
    if one[at : at + 2] == other[at : at + 2][::-1] and one[at + 2 :] == other[at + 2 :]:
        return True
    is_vowel = one[at] in _VOWELS and other[at] in _VOWELS
    return may_vary and is_vowel and one[at + 1 :] == other[at + 1 :]
