"""Titles, file names and descriptions of statements: they say the subject, in the person's words."""

from __future__ import annotations

import re

from nacre.memory.format.entry import MAX_DESCRIPTION_CHARS, MAX_TITLE_CHARS, clipped

MIN_TITLE_WORDS = 2
MIN_DESCRIPTION_WORDS = 4
"""A shorter rest of a sentence does not describe it."""
SLUG_WORDS = 5
MIN_HAN = 4
MAX_HAN = 18
"""Fewest and most characters of a Chinese title in a file name."""


def title_of(text: str) -> str:
    """Return the first clause of a statement, without introductory words and dates of no subject."""
    bare = _FILLER.sub("", text).strip()
    end = len(bare)
    for match in _CLAUSE.finditer(bare):
        if _size(bare[: match.start()]) >= MIN_TITLE_WORDS:
            end = match.start()
            break
    title = clipped(bare[:end].strip(" ,，;；.。!！:：-—"), MAX_TITLE_CHARS)
    return title[:1].upper() + title[1:]


def slug_of(title: str) -> str:
    """Return the words of a title that a file name is made of: those with content, and negations."""
    bare = _DAY.sub(" ", title)
    han = "".join(_HAN_TITLE.findall(bare)) if _HAN.search(bare) else ""
    if len(_HAN.findall(bare)) > len(_WORD.findall(_HAN.sub(" ", bare))):
        return _cut(han).rstrip("在是的了要到从和")
    words = [word.replace("'", "").replace("’", "") for word in _WORD.findall(bare.lower())]
    telling = [_NO.get(word, word) for word in words if word not in _EMPTY] or words
    return " ".join(telling[:SLUG_WORDS]) or "note"


def description_of(text: str, title: str, reason: str) -> str:
    """Return what a statement says beside its title; the whole statement where that is too little."""
    bare = _FILLER.sub("", text).strip()
    rest = bare[len(title) :].strip(" ,，;；.。:：-—") if bare.lower().startswith(title.lower()) else ""
    said = f"{rest}; {reason}" if rest and reason else rest or reason
    said = re.sub(r"^(?:because|bc|cuz|since|因为)\s*", "", said)
    return clipped(said if _size(said) >= MIN_DESCRIPTION_WORDS else text, MAX_DESCRIPTION_CHARS)


def _cut(title: str) -> str:
    """Return a Chinese title for a file name, cut before a word that opens the next part."""
    if len(_HAN.findall(title)) <= MAX_HAN:
        return title
    ends = [match.start() for match in _HAN_BREAK.finditer(title) if MIN_HAN <= match.start() <= MAX_HAN]
    return title[: ends[-1] if ends else MAX_HAN]


def _size(text: str) -> int:
    return len(_HAN.findall(text)) // 2 + len(_WORD.findall(_HAN.sub(" ", text)))


_HAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_HAN_TITLE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fffA-Za-z0-9]+")
_HAN_BREAK = re.compile(r"[在是要用都和把从到不没跟给为按]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_DAY = re.compile(r"\(said \d{4}-\d{2}-\d{2}\)|\d{4}-\d{2}-\d{2}|\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?")
_CLAUSE = re.compile(
    r"[,，;；。！!]\s*|\.\s|\s[-–—]+\s|\s\(|\s+(?=(?:because|bc|cuz|so that|which|since|but)\b)"
    r"|(?<=[\u4e00-\u9fff])(?=因为|所以)",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:(?:please|pls|so|and|but|also|btw|by the way|oh|just|from now on|going forward|fyi"
    r"|heads up)[,:;!. —–-]+"
    r"|(?:no|yes|yeah|yep|ok|okay|well|actually|sorry|wait|correction|exactly|perfect|great|nice|good|hm+"
    r"|yes exactly|请|对|好|嗯|另外|对了|还有|以后|更正一下|说错了)[,:;!.，。：！—–]+\s*)+",
    re.IGNORECASE,
)
_NO = {"dont": "no", "don": "no", "never": "no", "not": "no", "stop": "no"}
_EMPTY = frozenset(
    """
    a an the i i'm im ive i've am is are was were be been being my me we we're our us it its it's that
    thats this these those and or but so to of in on at for with from by as also just actually really
    have has had do did does which who some very about into than then there them they he she his her you
    your please pls here now always ever all any thing things stuff anything everything per
    """.split()
)
