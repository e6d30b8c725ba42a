"""Find the rare words and values of a memory, and recognise each of them in any spelling (M14b).

A value is a password, key, number, address, identifier or name that is specific enough to be searched for on
its own. It is recognised in upper or lower case, escaped as in JSON, HTML or a URL, broken at the end of a
line, with other separators between its digits, and inside one piece of Base64.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from nacre.memory.secrets import secret_values

MIN_CHARS = 8
"""Characters of the shortest value that is searched for without a label such as "password" before it."""
MIN_SECRET_WORD = 12
"""Letters of a word in a password of several words that is searched for on its own."""
MIN_LABELLED_CHARS = 4
MIN_LABELLED_DIGITS = 6
"""Shorter numbers, such as years and ports, occur in many other texts."""
MIN_NAME_CHARS = 7
MIN_BASE64_CHARS = 8
"""Characters of Base64 that depend on the value alone; fewer would occur by chance."""
MIN_PHRASE_WORDS = 3
MIN_PHRASE_CHARS = 16
MAX_FORM_CHARS = 12
"""Characters of the longest form of one character, such as `\\\\u00a0`."""
WRAP_CHARS = 400
"""Characters that ends of lines add to a spelling."""
MAX_LOOSE_CHARS = 400
"""A longer value is recognised only as it is written."""
MIN_NEEDLE = 3
"""Bytes of the shortest part of a value by which a text is chosen for a closer look."""
MANY_CAPITALS = 0.2
"""Share of capitalised words from which they are nouns, as in German, and only names of two words count."""

DENSE = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff00-\uff65"
"""Signs of scripts that put no spaces between words, with their punctuation."""
_DENSE_RUN = re.compile(f"[{DENSE}]+")
LETTER = rf"(?-i:[^\W{DENSE}])"
"""A letter, digit or underscore that continues a word; a sign of those scripts does not.

Those signs have no case: without `-i`, to compile each set takes milliseconds."""
_LETTER_OR_DIGIT = rf"(?-i:[^\W_{DENSE}])"

_EDGES = "\"'`<>()[]{},;:.!?*“”‘’«»„"
QUOTED = re.compile(r"\"([^\"\n]{8,200})\"|“([^”\n]{8,200})”|`([^`\n]{8,200})`|«([^»\n]{8,200})»")
_ADDRESS = re.compile(
    r"(?<![\w+.-])[a-z][a-z0-9+.-]{0,30}://[^\s\"'`<>()\[\]{}]+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w|(?<![\w.-])(?:[\w-]{1,63}\.){2,}[a-z]{2,}\b",
    re.IGNORECASE,
)
"""A URL, an e-mail address or the name of a host."""
_NUMBER = re.compile(r"(?<![\d.])(?!\d{4}-\d\d-\d\d)\+?\d(?:[ /.-]?\(?\d\)?){6,}(?!\d)")
"""Seven digits or more, in groups or not, such as the number of a card or a telephone; not a date."""
_DATE = re.compile(r"(?:19|20)\d\d[-/.]?[01]\d[-/.]?[0-3]\d|[0-3]?\d[/.][01]?\d[/.](?:19|20)\d\d")
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?\b")
"""An IBAN, in groups or not."""
_LABELLED = re.compile(
    r"\b(?:pass(?:word|phrase|code|wort)|kennwort|pin|puk|token|secret|key|code)\b[\"'`*]*\s*"
    r"(?P<link>(?:(?:is|was|are|ist|war|lautet|now|=|:)[*]*\s*)+)(?P<value>\S+)",
    re.IGNORECASE,
)
_ORDINARY = re.compile(
    r"""
    \d{4}-\d\d-\d\d(?:T[\d:.+Z-]*)?  # a date, with or without a time
    | (?:~|\.{0,2})/(?:[\w.-]+/.*|[\w.-]*)  # a path
    | [a-z0-9_.-]+/[a-z0-9_./-]*
    | [\w/-]+\.[A-Za-z]{1,4}(?::\d+)*  # a file name, with or without a line number
    | \d{1,4}-[a-z]+(?:-[a-z]+)*  # "12-factor"
    | [a-z]+(?:-[a-z]+)*(?:-\d{1,2}(?:[.-]\d{1,2})*|\d{1,2}(?:\.\d{1,2})+)  # a name and its version
    """,
    re.VERBOSE,
)
"""Words with digits that are not rare: they name files, versions and dates in many other texts."""
_SIGN = re.compile(r"\w[#$%^!?~+\\]+\w")
"""A sign inside a word that ordinary words do not contain."""
_IDENTIFIER = re.compile(r"_*[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+")
_HUMP = re.compile("[a-z][A-Z]")
_SEPARATORS = re.compile(r"[\"'`<>()\[\]{},;|=:@]+")
"""What stands between a password or key and its label, when no space does."""
_CAPITALISED = re.compile(r"(?<![\w.])[^\W\d_a-z][^\W\d_]{2,}(?:[-'’][^\W\d_]{2,})*(?![\w])")
_SENTENCE_END = re.compile(r"(?:^|[.!?:;\n*#>|-])[\s\"'“„(*_]*$")
_KNOWN = frozenset(
    """
    monday tuesday wednesday thursday saturday january february september october november december
    montag dienstag mittwoch donnerstag freitag samstag sonntag english german french spanish italian chinese
    japanese american european internet windows android javascript typescript postgresql postgres sqlite
    mongodb kubernetes terraform ansible jenkins github gitlab bitbucket anthropic openai markdown readme
    changelog confluence monitoring firefox chromium safari microsoft facebook twitter linkedin debian ubuntu
    """.split()
)
"""Names that occur in many other texts."""

_WRAP = r"(?:-?[ \t]*(?:\r?\n|(?:\\+r)?\\+n)[ \t>|#*+]*(?:\d{1,6}(?:\t|\\+t))?[ \t]*)?"
"""The end of a line inside a word, with what quotes or numbers the next line."""
_BETWEEN_DIGITS = (
    "(?:(?:\r?\n|\\\\+n)[ \t>|#*+]*(?:[0-9]{1,6}(?:\t|\\\\+t))?"
    "|\\(0\\)|[ \t\u00a0./()-]|\\\\+[rt]|%20|\\\\+u00a0|&nbsp;){0,4}"
)
"""Without escapes that a pattern for bytes does not know."""
_BLANK = r"(?:\s|\\+[nrt]|%20|\+|&nbsp;|\u00a0)+"
_AFTER_ESCAPE = r"(?<=\\[nrtbf])|(?<=%[0-9a-fA-F]{2})"
"""A letter or digit that belongs to an escape is not the beginning of a longer word."""


def find_values(texts: Iterable[str]) -> dict[str, bool]:
    """Return the values of these texts, and whether each may be a word that a project uses, such as a name.

    A password, a key or a long number is one wherever it occurs.
    """
    found: dict[str, bool] = {}
    for whole in texts:
        # Beside signs of Chinese or Japanese no space shows where a value begins and ends.
        text = _DENSE_RUN.sub(" ", whole)
        # What a save would refuse, behind a label in any of its languages.
        labelled = [value for value in secret_values(whole) if _is_long_enough(value)]
        for value in (*labelled, *_secrets(text)):
            found[value] = False
        # What is refused may be the value and a word beside it.
        for word in (word.strip(_EDGES) for value in labelled if " " in value for word in value.split()):
            if len(word) >= MIN_SECRET_WORD:
                found.setdefault(word, True)
        for value in (*_addresses(text), *_names(text), *_phrases(text), *_words(text, _is_identifier)):
            found.setdefault(value, True)
    return found


def _addresses(text: str) -> Iterator[str]:
    for found in _ADDRESS.finditer(text):
        address = found[0].rstrip(_EDGES)
        if len(address) >= MIN_CHARS and not _ORDINARY.fullmatch(address):
            yield address


def _phrases(text: str) -> Iterator[str]:
    """Quoted strings of several words, such as a passphrase."""
    for found in QUOTED.finditer(text):
        phrase = next(filter(None, found.groups())).strip()
        if len(phrase.split()) >= MIN_PHRASE_WORDS and len(phrase) >= MIN_PHRASE_CHARS:
            yield phrase


def _secrets(text: str) -> Iterator[str]:
    for found in _NUMBER.finditer(text):
        if not _DATE.fullmatch(found[0].strip("+")):
            yield found[0]
    yield from (found[0] for found in _ACCOUNT.finditer(text))
    for found in _LABELLED.finditer(text):
        value = found["value"].strip(_EDGES)
        # "The password is required" names none.
        is_plain = value.isalpha() and value[1:].islower()
        is_marked = bool(set("=:") & set(found["link"])) or found["value"][0] in "\"'`“„«"
        if (is_marked or not is_plain) and _is_long_enough(value) and not _ORDINARY.fullmatch(value):
            yield value
    yield from _words(text, _is_secret)


def _is_long_enough(value: str) -> bool:
    return len(value) >= (MIN_LABELLED_DIGITS if value.isdigit() else MIN_LABELLED_CHARS)


def _words(text: str, is_wanted: Callable[[str], bool]) -> Iterator[str]:
    for chunk in text.split():
        whole = chunk.strip(_EDGES)
        parts = [*_SEPARATORS.split(whole), *re.split("[=:]", whole, maxsplit=1)]
        for word in (whole, *(part.strip(_EDGES) for part in parts)):
            if len(word) >= MIN_CHARS and is_wanted(word) and not _ORDINARY.fullmatch(word):
                yield word


def _is_identifier(word: str) -> bool:
    has_humps = word[0].isalpha() and word.isidentifier() and len(_HUMP.findall(word)) > 2
    return has_humps or _IDENTIFIER.fullmatch(word) is not None


def _is_secret(word: str) -> bool:
    """Whether a word looks like a password or a key."""
    if not any(letter.isalpha() for letter in word) or _ADDRESS.fullmatch(word):
        return False
    has_digit = any(letter.isdigit() for letter in word)
    changes_case = len(_HUMP.findall(word)) > 2  # more often than "JavaScript"
    return has_digit or changes_case or _SIGN.search(word) is not None


def _names(text: str) -> Iterator[str]:
    """Names of two words and more, and long single ones that do not begin a sentence."""
    capitalised = list(_CAPITALISED.finditer(text))
    inner = [
        found
        for found in capitalised
        if not _SENTENCE_END.search(text[max(0, found.start() - 40) : found.start()])
    ]
    has_nouns = len(inner) > MANY_CAPITALS * max(len(text.split()), 1)
    for first, second in pairwise(inner if has_nouns else capitalised):
        if (
            text[first.end() : second.start()] == " "
            and not {first[0].casefold(), second[0].casefold()} & _KNOWN
        ):
            yield f"{first[0]} {second[0]}"
    for found in inner:
        is_name = len(found[0]) >= MIN_NAME_CHARS and found[0][1:].islower()
        if is_name and not has_nouns and found[0].casefold() not in _KNOWN:
            yield found[0]


class ValuePattern:
    """Recognises values in any text."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = tuple(sorted(values, key=lambda value: (-len(value), value)))
        loose = [_loose(value) for value in self.values]
        self._loose = re.compile("|".join(loose), re.IGNORECASE) if loose else None
        longest = max((len(value) for value in self.values), default=0)
        self._reach = max(longest, min(longest, MAX_LOOSE_CHARS) * MAX_FORM_CHARS + WRAP_CHARS)
        """Characters of the longest spelling."""
        self._cores = sorted({core for value in self.values for core in base64_cores(value)})
        self._lower_cores = tuple({core.lower().encode() for core in self._cores})
        numbers = [_digits(value.lstrip("+")).lower() for value in self.values if is_number(value)]
        self._numbers = [re.compile(number.encode()) for number in numbers]
        self._text_numbers = [re.compile(number, re.IGNORECASE) for number in numbers]
        self.needles = frozenset(needle for value in self.values for needle in _needles(value))
        """Lower-case bytes, one of which every text with a value contains, except for a number in groups."""

    def may_be_in(self, lowered: bytes) -> bool:
        """Whether a lower-case block may contain a value; a quick no for nearly everything."""
        return any(needle in lowered for needle in self.needles) or self.may_be_encoded_in(lowered)

    def may_be_encoded_in(self, lowered: bytes) -> bool:
        """Whether a lower-case block may contain a number in groups, or a value in Base64."""
        if any(number.search(lowered) for number in self._numbers):
            return True
        if not self._lower_cores:
            return False
        words = lowered.translate(_ONLY_BASE64).split()
        pieces = b" ".join([word for word in words if len(word) >= MIN_BASE64_CHARS])
        return any(core in pieces for core in self._lower_cores)

    def without(self, text: str, mark: str) -> str:
        """Return the text with a mark for every value, and for a piece of Base64 that contains one."""
        pieces = " ".join(_BASE64_PIECE.findall(text)).translate(_TEXT_URL_SAFE)
        if found := [core for core in self._cores if core in pieces]:

            def replaced(piece: re.Match[str]) -> str:
                plain = piece[0].translate(_TEXT_URL_SAFE)
                return mark if any(core in plain for core in found) else piece[0]

            text = _BASE64_PIECE.sub(replaced, text)
        return self._without_loose(text, mark)

    def _without_loose(self, text: str, mark: str) -> str:
        """Return the text with a mark for every spelling of a value, tried only beside a part of one."""
        if self._loose is None:
            return text
        pieces = []
        done = 0
        for start, end in self._neighbourhoods(text):
            for found in self._loose.finditer(text, max(start, done), end):
                pieces += [text[done : found.start()], mark]
                done = found.end()
        return "".join([*pieces, text[done:]])

    def _neighbourhoods(self, text: str) -> list[tuple[int, int]]:
        """Return the parts of a text around each part of a value, in order and without overlap."""
        lowered = text.replace("İ", "I").lower()  # of the same length
        places = {at for needle in self.needles for at in _places(lowered, needle.decode(errors="ignore"))}
        places |= {one.start() for number in self._text_numbers for one in number.finditer(text)}
        joined: list[tuple[int, int]] = []
        for at in sorted(places):
            start = max(0, at - self._reach)
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], at + self._reach)
            else:
                joined.append((start, at + self._reach))
        return joined


def _places(text: str, needle: str) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + len(needle))


_TEXT_URL_SAFE = str.maketrans("-_", "+/")
_ONLY_BASE64 = bytes(
    sign if chr(sign) in "abcdefghijklmnopqrstuvwxyz0123456789+/" else {45: 43, 95: 47}.get(sign, 32)
    for sign in range(256)
)
"""Both alphabets of lower-case Base64 become one, everything else a space."""
_BASE64_PIECE = re.compile(rf"[A-Za-z0-9+/_-]{{{MIN_BASE64_CHARS},}}={{0,2}}")


def is_number(value: str) -> bool:
    """Whether a value is compared by its digits, or letters and digits, and not by what separates them."""
    return not any(letter.isalpha() for letter in value) or _ACCOUNT.fullmatch(value) is not None


def base64_cores(value: str) -> Iterator[str]:
    """The characters that any Base64 text has that encodes this value at one of three offsets."""
    for spelled in dict.fromkeys((value, value.lower(), value.upper())):
        data = spelled.encode("utf-8", "surrogateescape")
        for offset in range(3):
            whole = base64.b64encode(bytes(offset) + data).decode()
            end = (offset + len(data)) * 8 // 6
            core = whole[-(-offset * 8 // 6) : end]
            if len(core) >= MIN_BASE64_CHARS:
                yield core


def _loose(value: str) -> str:
    """A pattern for every spelling of a value."""
    if is_number(value):
        return rf"(?:(?<!{_LETTER_OR_DIGIT})|{_AFTER_ESCAPE}){_digits(value)}(?!{_LETTER_OR_DIGIT})"
    if len(value) > MAX_LOOSE_CHARS:
        return re.escape(value)
    spelled = _WRAP.join(_forms(letter) for letter in " ".join(value.split()))
    if _ADDRESS.fullmatch(value):
        return rf"(?:(?<!{LETTER})(?<![.+-])|{_AFTER_ESCAPE}){spelled}(?![./-]?{LETTER})"
    if value.replace(" ", "").isalpha() or len(value) < MIN_CHARS:
        return rf"(?:(?<!{_LETTER_OR_DIGIT})|{_AFTER_ESCAPE}){spelled}(?!{_LETTER_OR_DIGIT})"
    return spelled


def _digits(value: str) -> str:
    if len(value) > MAX_LOOSE_CHARS:
        return re.escape(value)
    start = r"(?:\+|00|%2b)?" if value.startswith("+") else ""
    return start + _BETWEEN_DIGITS.join(letter for letter in value if letter.isalnum())


def _forms(letter: str) -> str:
    """How one character of a value is written: plain, escaped as in JSON, in HTML, or in a URL."""
    if letter == " ":
        return _BLANK
    if letter.isascii() and letter.isalnum():
        return letter
    forms = {re.escape(letter): None}
    if letter in '"/':
        forms[r"\\*" + letter] = None
    elif letter == "\\":
        forms[r"\\+"] = None
    elif not letter.isascii():
        forms[json.dumps(letter)[1:-1].replace("\\", r"\\+")] = None
    if (escaped := html.escape(letter)) != letter:
        forms[re.escape(escaped)] = None
    forms["".join(f"%{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))] = None
    return f"(?:{'|'.join(forms)})"


def _needles(value: str) -> Iterator[bytes]:
    """Lower-case bytes of a value: one of them is there even where the value is broken or escaped."""
    if is_number(value):
        return
    folded = value.casefold()
    runs = sorted(re.findall(rf"[a-z0-9]{{{MIN_NEEDLE},}}", folded), key=len)
    if len(runs) > 1:
        yield from (run.encode() for run in runs[-2:])
    elif runs and len(runs[0]) >= 2 * MIN_NEEDLE:
        half = len(runs[0]) // 2
        yield from (runs[0][:half].encode(), runs[0][half:].encode())
    else:
        yield from (run.encode() for run in runs)
        word = max(re.findall(r"[^\x00-\x7f]+", folded), key=len, default="" if runs else folded)
        if not word:
            return
        yield word.encode("utf-8", "surrogateescape")
        yield json.dumps(word)[1:-1].lower().encode()
        yield "".join(f"%{byte:02x}" for byte in word.encode("utf-8", "surrogateescape")).encode()
