"""Whether a memory was of use, or wrong, as far as that can be told without a model: words against words.

What cannot be told counts as no: a reply may follow a memory without repeating a word of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import datetime

from nacre.memory.recall.attach import MAX_BODY_LINES, worded
from nacre.memory.recall.base import Pick
from nacre.memory.recall.local.terms import content as terms
from nacre.store.history import Commit

RUN_WORDS = 5
"""So many words of a memory in a row are no coincidence."""
RUN_SIGNS = 10
"""The same in scripts without spaces, where two signs make about one word."""
RUN_TERMS = 2
"""Words of such a run that mean something by themselves: `as well as in the` is anybody's. Recall's own list
of the others is long (`never` and `before` are on it), so that two that are left are telling."""
TITLE_WORDS = 2
"""A title of one word is a word like any other."""
IDENTIFIER_CHARS = 4
"""A shorter identifier or number turns up by chance."""
FIRST_YEAR, LAST_YEAR = 1_900, 2_100
"""A number in between stands in many a text."""
ABOUT_TERMS, BODY_TERMS = 1, 2
"""Terms a correction shares with what a memory is about, or with all it says, to be meant for it."""

_DENSE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts that put no spaces between words."""
_UNIT = re.compile(rf"[{_DENSE}]|[^\W_{_DENSE}]+")
_SIGN = re.compile(f"[{_DENSE}]")
_TOKEN = re.compile(r"-{0,2}[^\W_][\w./:@#-]*[\w]|\b\w+\b")
_CAMEL = re.compile(r"[a-z][A-Z]")
_SPLIT = re.compile(r"\w[_.:@#]\w|/.*/")
"""One slash alone does not make a name: `and/or`."""
_TOO_LONG = "\n" * MAX_BODY_LINES + "."
"""A body that says nothing and has to be cut."""
_CORRECTION = re.compile(
    r"""\W*(?:
        (?:no|nope|nein|non|нет)\s*[,.!:;\u2014\u2013-]
      | (?:that|this|it)(?:\s+is|['\u2019]s|\s+was)\s+(?:\w+\s+)?
        (?:wrong|incorrect|false|outdated|obsolete|stale|out\s+of\s+date|(?:not|no\s+longer)\s+(?:\w+\s+)?
        (?:right|true|correct|so|the\s+case|valid))\b
      | (?:that|this|it)\s+isn['\u2019]t\s+(?:right|true|correct|so|the\s+case|valid)\b
      | (?:you\s+are|you['\u2019]re)\s+(?:wrong|mistaken)\b
      | (?:wrong|incorrect|not\s+true|not\s+any\s?more|no\s+longer)\b
      | (?:das\s+ist\s+)?(?:falsch|veraltet)\b | (?:das\s+)?stimmt\s+(?:so\s+)?nicht\b
      | c['\u2019]est\s+faux\b | eso\s+no\s+es\b
      | (?:这|那)?(?:不对|不是|错了|不正确|搞错|弄错|過時|过时|已经不|已經不|不，|不,)
      | (?:いや|いいえ|違う|違います|ちがう|間違|それは違)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How a message begins that takes back what was said; `no problem` and `no idea` do not."""


def is_cited(pick: Pick, reply: str, context: Iterable[str]) -> bool:
    """Whether a reply says what it can only have from this memory.

    `context` is all else the model had: the person's words, results of tools, the other memories. The index
    does not belong there, for it merely names the memory.
    """
    known = "\n".join(context)
    if any(is_there(pick, reply) and not is_there(pick, known) for is_there in (_has_file, _has_title)):
        return True
    words = _own_words(pick)
    # The context may be a hundred times as long as the others, so it is asked last.
    names = _identifiers(words) & _identifiers(reply)
    if names and names - _identifiers(known):
        return True
    runs = [run for run in map(_spaced, _runs(words) & _runs(reply)) if len(set(terms(run))) >= RUN_TERMS]
    spelled = _spaced(_units(known)) if runs else ""
    return any(run not in spelled for run in runs)


def is_contradicted(
    pick: Pick, *, attached: datetime, session: str, commits: Iterable[Commit] = (), next_message: str = ""
) -> bool:
    """Whether a memory was found wrong after it was attached.

    Either somebody replaced or forgot it in that session, as the history says, or the person's next message
    begins by taking back something that has to do with it.
    """
    return is_replaced(
        pick.ranked.entry.file, attached=attached, session=session, commits=commits
    ) or is_corrected(pick, next_message)


def is_replaced(file: str, *, attached: datetime, session: str, commits: Iterable[Commit]) -> bool:
    """Whether a session changed or removed a memory after it had been attached there."""
    # The history keeps whole seconds.
    since = attached.replace(microsecond=0)
    return any(
        bool(session) and one.session == session and one.at >= since and file in one.files for one in commits
    )


def is_corrected(pick: Pick, message: str) -> bool:
    """Whether a message begins with a clear correction and is about this memory."""
    if not _CORRECTION.match(message):
        return False
    said, entry = set(terms(message)), pick.ranked.entry
    about = set(terms(f"{entry.title} {entry.description}"))
    whole = about | set(terms(_own_words(pick)))
    return len(said & about) >= ABOUT_TERMS or len(said & whole) >= BODY_TERMS


def _own_words(pick: Pick) -> str:
    """Without what is said about every memory: header, cautions, the note that it was cut."""
    frame = worded(pick.ranked, _TOO_LONG, age_days=pick.age_days, drift=pick.drift).splitlines()
    return "\n".join(line for line in pick.text.splitlines() if line not in frame)


def _has_file(pick: Pick, text: str) -> bool:
    name = re.escape(pick.ranked.entry.file.rpartition("/")[2])
    return re.search(rf"(?<![\w.-]){name}(?![\w-]|\.\w)", text, re.IGNORECASE) is not None


def _has_title(pick: Pick, text: str) -> bool:
    """In full; a title of one word, or of words that say nothing, stands in many a text."""
    title = tuple(_units(pick.ranked.entry.title))
    is_telling = len(title) >= TITLE_WORDS and bool(terms(pick.ranked.entry.title))
    return is_telling and title in _windows(_units(text), len(title))


def _identifiers(text: str) -> set[str]:
    """Names and numbers that nobody writes by chance."""
    found = (token.lstrip("-") if token.startswith("-") else token for token in _TOKEN.findall(text))
    return {token.casefold() for token in found if _is_rare(token)}


def _is_rare(token: str) -> bool:
    if len(token) < IDENTIFIER_CHARS:
        return False
    if token.isdecimal():
        return not FIRST_YEAR <= int(token[:9]) <= LAST_YEAR and not token.endswith("000")
    has_digit, has_letter = any(map(str.isdigit, token)), any(map(str.isalpha, token))
    return bool(_SPLIT.search(token) or _CAMEL.search(token)) or (has_digit and has_letter)


def _runs(text: str) -> set[tuple[str, ...]]:
    """Every row of words, and of signs where there are no words."""
    units = _units(text)
    runs = {run for run in _windows(units, RUN_WORDS) if not any(map(_is_sign, run))}
    return runs | {run for run in _windows(units, RUN_SIGNS) if any(map(_is_sign, run))}


def _spaced(units: Iterable[str]) -> str:
    """As one text in which a row of words is found by its letters."""
    return f" {' '.join(units)} "


def _windows(units: list[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(units[at : at + size]) for at in range(len(units) - size + 1))


def _units(text: str) -> list[str]:
    return _UNIT.findall(unicodedata.normalize("NFKC", text).casefold())


def _is_sign(unit: str) -> bool:
    return _SIGN.fullmatch(unit) is not None
