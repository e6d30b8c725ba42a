"""Detection of passwords, tokens and phrases that a word such as "password" or `API_KEY` introduces (M16).

The words of seven languages are in `data/secrets.json`. A value counts by the word before it: after
"password" nearly anything does, after "token" only what looks random.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from nacre.memory.secret_values import (
    FUNCTION_WORDS,
    MIN_PLAIN,
    ValueContext,
    is_chosen,
    is_long_key,
    is_named_machine,
    is_plain_password,
    is_random,
    is_secret_value,
    is_strong,
    secret_table,
)

MAX_VALUE_CHARS = 4_000
MAX_TABLE_ROWS = 50
MAX_ROW_CHARS = 1_000
PHRASE_WORDS = (12, 15, 18, 21, 24)
"""Lengths of the phrases that wallets give out."""
MAX_PHRASE_CHARS = 240

_DENSE = "\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
_DENSE_LETTERS = "\u3040-\u30ff\u3400-\u9fff"
_KATAKANA = "\u30a1-\u30ff"
_OPEN = "\"'`“„«「『‘【〔《［"
_CLOSE = "\"'`”“»」』’】〕》］"
_BEFORE_CHARS = 120
_TABLE_RULE = re.compile(r"(?=[^\n]{0,200}--)[|: -]{3,200}\n")
"""The line below the head of a table."""
_VERB_BEFORE = re.compile(
    rf"\s(?:[ai]s|was|ist|als|es|est|c['’]est|comm?e|como)\s|(?:=|<-|←)\s?[^\n=]{{0,40}}$|[(（][^\n()]{{0,40}}$"
    rf"|[がは是当當作为を]\s?[{_DENSE_LETTERS}A-Za-z -]{{0,16}}$",
    re.IGNORECASE,
)
_END = re.compile(
    rf"[{_CLOSE}*_)\].,;:!?…。，、；！？]{{0,4}}(?:\s*(?:$|\n|\||\()|[.,;。，、；]\s|\s*(?:です|だ|である|でした)|[{_DENSE}])"
)


@dataclass(frozen=True, slots=True)
class LabelledSecret:
    """A value behind a label."""

    start: int
    end: int
    kind: str
    is_assigned: bool
    """Behind a colon or an equals sign."""
    is_loose: bool = False
    """Somewhere in the sentence of its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vocabulary:
    """The words of the table, compiled."""

    labels: tuple[tuple[str, str, str], ...]
    """Label, its stem and its class."""
    stems: frozenset[str]
    after: re.Pattern[str]
    before: re.Pattern[str]
    key_before: tuple[str, ...]
    not_before: re.Pattern[str]
    not_before_ends: tuple[str, ...]
    not_after: re.Pattern[str]
    opens_before: re.Pattern[str]
    """What a code opens, before the word "code", as in "Alarmanlagencode"."""
    opens_after: re.Pattern[str]
    """The same after it, as in "code de la porte"."""
    account: re.Pattern[str]
    """What a password is for, beside a label that also means something else."""
    codewords: frozenset[str]
    """Labels of words that are spoken, not typed."""


_STEMS = (
    "pass",
    "code",
    "seed",
    "phrase",
    "wort",
    "secret",
    "cred",
    "log",
    "digo",
    "contrase",
    "frase",
    "schl",
    "combin",
)
"""A label with one of these is searched for only if the text has it."""
KINDS = {
    "password": "password",
    "weak": "password",
    "code": "access code",
    "token": "token or key",
    "login": "login with a password",
    "phrase": "recovery phrase",
}


def labelled_secrets(text: str, small: str) -> Iterator[LabelledSecret]:
    """Yield the values that a label introduces; `small` is the text in lower case, of the same length."""
    words = _vocabulary()
    taken = -1
    for at, label, category in _occurrences(small, words):
        if at < taken:
            continue
        taken = at + len(label)
        end = at + len(label)
        if category == "code":
            yield from _access_code(text, at, end, words)
            continue
        if not _is_label(text, at, label, category, words):
            continue
        yield from _values_after(text, at, end, category, words)
        if category in {"password", "token", "weak"}:
            yield from _value_before(text, at, end, category, words)
            yield from _in_column(text, at, end, category)
        if (category == "password" or label == "パス") and not words.not_after.match(text, end):
            yield from _beside(text, at, end)


def _occurrences(small: str, words: _Vocabulary) -> list[tuple[int, str, str]]:
    """Return where labels occur, in order; at one place the longest comes first."""
    found = []
    small = small.replace("-", " ").replace("_", " ")
    absent = {stem for stem in words.stems if stem not in small}
    for label, stem, category in words.labels:
        if stem in absent:
            continue
        at = small.find(label)
        while at >= 0:
            found.append((at, -len(label), label, category))
            at = small.find(label, at + len(label))
    return [(at, label, category) for at, _, label, category in sorted(found)]


def _is_label(text: str, at: int, label: str, category: str, words: _Vocabulary) -> bool:
    """Return whether the word at this place is a label and not a part of another word."""
    last = text[at - 1] if at else " "
    start = text[at]
    is_joined = (last + start).isascii() and last.isalpha() and not (last.islower() and start.isupper())
    if label == "パス" and re.match(f"[{_KATAKANA}]", text[at + 2 : at + 3]):
        return False  # a longer word
    if is_joined and (len(label) <= 4 or category in {"login", "phrase"} or label == "clave"):
        return False
    if last.isdigit() and label == "password":
        return False  # the password manager
    if label == "pass" and _is_test_result(text, at):
        return False
    if _PINS_SOMETHING.match(text, at):
        return False
    mark = text.rfind("[removed: ", max(0, at - 60), at)
    if mark >= 0 and "]" not in text[mark:at]:
        return False  # written by `redact`
    is_ambiguous = category == "token" or label in {"pass", "clave", "contra"}
    before = text[max(0, at - 24) : at]
    return not (
        is_ambiguous and _ends_with(before, words.not_before_ends) and words.not_before.search(before)
    )


_PINS_SOMETHING = re.compile(r"pins\s(?!are\b|is\b|for\b)[a-z]")
"""The verb, as in "the lock file pins lightgbm"."""


def _ends_with(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text ends with one of these words, and perhaps a space, dash or underscore."""
    small = text.lower()
    return small.endswith(words) or (small[-1:] in {" ", "_", "-"} and small[:-1].endswith(words))


def _is_test_result(text: str, at: int) -> bool:
    """Return whether "pass" is a verb or the result of a test."""
    is_upper = text[at : at + 5] == "PASS:" and text[at - 1 : at] != "_"
    return text[at + 4 : at + 6] == "es" or is_upper or "fail" in text[at : at + 40].lower()


def _access_code(text: str, at: int, end: int, words: _Vocabulary) -> Iterator[LabelledSecret]:
    """Yield the value of a code if the words beside it say what it opens."""
    opens = words.opens_after.match(text, end)
    for one in _values_after(text, at, opens.end() if opens else end, "code", words):
        if opens or words.opens_before.search(text[max(0, at - 40) : at]) or _is_for_network(text, at):
            yield one


def _is_for_network(text: str, at: int) -> bool:
    """Return whether a wireless network is named before a label."""
    return _NETWORK.search(text[max(0, at - 40) : at]) is not None


def _is_known_key(text: str, at: int, end: int, words: _Vocabulary) -> bool:
    """Return whether a key is one that opens something, by the words beside it."""
    before = text[max(0, at - 24) : at]
    following = text[end : end + 5].strip().lower()
    is_variable = text.startswith("KEY", at) and re.search(r"[A-Z0-9]_$", before) is not None
    return (
        is_variable
        or _is_for_network(text, at)
        or _ends_with(before, words.key_before)
        or following.startswith(("api", "secr", "priv"))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A label in a text, with what follows it."""

    text: str
    at: int
    end: int
    category: str
    found: re.Match[str]

    @property
    def label(self) -> str:
        return self.text[self.at : self.end]

    @property
    def sign(self) -> str:
        """What is between the label and the value."""
        return self.found["sign"] or ""

    @property
    def group(self) -> str:
        return "quoted" if self.found["quoted"] else "value"


def _values_after(
    text: str, at: int, end: int, category: str, words: _Vocabulary
) -> Iterator[LabelledSecret]:
    found = words.after.match(text, end, end + MAX_VALUE_CHARS + 400)
    if category == "login" and (used := _LOGIN_WITH.match(text, end)):
        yield from _login(text, used.end())
    if text[at:end].lower() in words.codewords and (spoken := _SPOKEN.match(text, end)):
        yield LabelledSecret(*spoken.span("value"), KINDS["password"], is_assigned=True)
    if found is None or words.not_after.match(found["suffix"] or ""):
        return
    place = _Place(text=text, at=at, end=end, category=category, found=found)
    if category == "phrase":
        yield from _phrase(text, found)
    elif category == "login":
        yield from _login(text, found.start(place.group))
    else:
        yield from _value_at(place, words)


def _value_at(place: _Place, words: _Vocabulary) -> Iterator[LabelledSecret]:
    """Yield the value behind a label if it is a secret."""
    text = place.text
    start, stop = _trimmed(text, *place.found.span(place.group))
    inner = text[start + 1 : stop]
    is_bracketed = text[start : start + 1] in {"(", "（"} and place.category != "token"
    if is_bracketed and (is_strong(inner) or inner.isdigit()):
        start += 1
    value = text[start:stop]
    label = place.label.lower()
    if place.category == "token" and label not in _KEYS and not is_random(value):
        return
    is_shortened = re.match(r"\.{3}|…|で始|から始|で終|开头|结尾", text[stop : stop + 3]) is not None
    is_network = place.group == "quoted" and not place.sign.strip()
    is_network = is_network and _NETWORK.fullmatch(place.label.replace(" ", "")) is not None
    if is_shortened or is_network or not _fits(place, value, words):
        return
    sign = place.sign.strip()
    is_dense_verb = sign in {"是", "为", "は"} and value.isascii()
    is_assigned = is_dense_verb or (bool(sign) and sign[-1] in ":=：＝>→⇒(（")
    is_variable = place.sign == "=" and (place.label.isupper() or text[stop : stop + 1] in {"", *" \n\"';&"})
    is_token = place.category == "token" and not (label in _KEYS and _is_for_network(text, place.at))
    context = ValueContext(
        is_token=is_token,
        is_quoted=place.group == "quoted",
        is_assigned=is_assigned,
        is_joined=bool(sign),
        is_pin=place.category == "code" or label in _PINS or "code" in label,
        is_codeword=label in words.codewords,
        is_key=is_token and (label == "apikey" or _is_known_key(text, place.at, place.end, words)),
        is_variable=is_variable,
        ends="\n" not in place.sign and bool(_END.match(text, stop)),
    )
    kind = KINDS[place.category]
    if is_secret_value(value, context):
        yield LabelledSecret(start, stop, kind, is_assigned)
    elif (
        sign
        and place.category == "password"
        and (run := _WORDS.match(text, start))
        and is_plain_password(run[0], context)
    ):
        yield LabelledSecret(*run.span(), kind, is_assigned)


_NETWORK = re.compile(r"(?i)(?<![A-Za-z])(?:wi-?fi|wlan)(?![A-Za-z])")
_KEYS = frozenset({"key", "キー", "clé", "schlüssel"})
_PINS = frozenset({"pin", "pin码", "pinコード", "pin番号", "暗証番号", "暗証", "geheimzahl"})
_LOOSE_SIGNS = frozenset(
    {"'s", "’s", ",", "、", "now", "jetzt", "nun", "neu", "maintenant", "désormais", "ahora"}
)
"""What joins a label to nearly anything, so that only a value with digits or signs counts."""
_SPOKEN = re.compile(
    rf"\s?[:：=＝]\s?(?P<value>(?![^\n]{{0,12}}[はがをにで見见由在请請问要未無无別每毎])[{_DENSE_LETTERS}0-9]{{2,12}})"
    r"(?=[\s。，、]|$)"
)
"""A word in a dense script behind the label of a word that is spoken."""


def _fits(place: _Place, value: str, words: _Vocabulary) -> bool:
    """Return whether a value can belong to a label or follow a sign that also has other uses."""
    label = place.label.lower()
    sign = place.sign.strip()
    if place.category == "token" and sign in {"(", "（", "["} and place.group == "value":
        return False  # code
    if (place.category == "code" or label in _PINS) and not any(sign.isdigit() for sign in value):
        return False
    if label in _KEYS and not is_long_key(value):
        return _is_known_key(place.text, place.at, place.end, words)
    if label == "pin" and not place.label.startswith(("PIN", "Pin")):
        return value.isdigit() and 4 <= len(value) <= 8 and bool(sign)
    if sign in {"(", "（", "["} and place.group == "value":
        is_beside = place.found.start("sign") == place.end or _is_account(place, words)
        closed = place.text[place.found.end() - 1 : place.found.end() + 1]
        is_pin = label in _PINS and value.isdigit()
        return (_is_mixed(value) or is_pin) and is_beside and not {*closed}.isdisjoint(")）]")
    if label in words.codewords and value.isalpha() and place.group == "value":
        return sign.endswith((":", "："))  # "the codeword is secret"
    if label == "pass" and not sign and place.group == "value":
        return is_chosen(value)  # "pass --verbose=2"
    if sign in _LOOSE_SIGNS or place.found["words"]:
        return _is_mixed(value) or (value.isdigit() and label in _PINS)
    if place.category == "weak" or (label == "clave" and place.group == "value" and value.isalpha()):
        return _is_account(place, words) or (_is_mixed(value) and not _is_short_part(place, value))
    return True


def _is_mixed(value: str) -> bool:
    return is_strong(value) and not re.search(r"[/\\]", value)


def _is_account(place: _Place, words: _Vocabulary) -> bool:
    """Return whether the words beside a label name an account, or it is a label of spoken words."""
    beside = place.text[max(0, place.at - 24) : max(place.end, place.found.start("sign"))]
    return place.label in words.codewords or words.account.search(beside) is not None


def _is_short_part(place: _Place, value: str) -> bool:
    """Return whether a short value follows the end of another word, as in クリティカルパス."""
    before = place.text[max(0, place.at - 1) : place.at]
    return len(value) < MIN_PLAIN and re.match(f"[{_KATAKANA}]", before) is not None


_WORDS = re.compile(r"(?:[a-z]{3,10} ){3,7}[a-z]{3,10}(?=[.!]?\s*(?:\n|$))")
"""A few plain words up to the end of a line."""


def _value_before(
    text: str, at: int, end: int, category: str, words: _Vocabulary
) -> Iterator[LabelledSecret]:
    """Yield the value of "use … as the password"."""
    if not _VERB_BEFORE.search(text, max(0, at - 60), at):
        return
    offset = max(0, at - _BEFORE_CHARS)
    line = text.rfind("\n", offset, at)
    # A sentence may be wrapped once.
    offset = max(offset, text.rfind("\n", offset, line) + 1 if line > offset else 0)
    found = words.before.search(text[offset:at])
    if found is None or words.not_after.match(text, end):
        return
    if text[end : end + 1].isalnum() and not (found["dense"] and _DENSE_END.match(text, end)):
        return
    group = next(name for name in ("quoted", "bracketed", "value") if found[name])
    start, stop = _trimmed(text, offset + found.start(group), offset + found.end(group))
    is_quoted = group == "quoted"
    context = ValueContext(is_token=category == "token", is_quoted=is_quoted, is_joined=True)
    if found["signed"] and not _is_signed(text, at, end, text[start:stop]):
        return
    starts = re.search(r"(?:^|[\n.:!?,]\s*)$", text[:start][-20:]) is not None
    if starts and category == "password" and _END.match(text, end) and not is_quoted:
        context = replace(context, ends=True)
    is_key = text[at:end].lower() not in _KEYS or _is_known_key(text, at, end, words)
    if is_key and is_secret_value(text[start:stop], context):
        yield LabelledSecret(start, stop, KINDS[category], is_assigned=False)


_DENSE_END = re.compile("に|です|だ|でした|である|よ|ね|了|吧|啊|哦")
"""What may follow a label in a dense script, in which 密码哈希 is one word and no password."""


def _is_signed(text: str, at: int, end: int, value: str) -> bool:
    """Return whether a sign joins a value to the label behind it, as in "… (password)"."""
    is_name = re.fullmatch(r"[A-Za-z_]+\d?", value) is not None
    is_password = len(value) >= MIN_PLAIN and is_strong(value) and not is_name
    is_pin = text[at:end].lower() in _PINS and value.isdigit()
    return (is_password or is_pin) and _END.match(text, end) is not None


_BESIDE_CHARS = 60
_SENTENCE_END = re.compile(r"[.!]\s|[\n。！]")
_TOKEN = re.compile(r"[!-~\u00c0-\u017f]{4,60}+")
_DIGIT = re.compile(r"\d")
_SIX_DIGITS = re.compile(r"(?:[^\n\d]{0,40}[^\d\n.,#-])?\s(\d{6})(?=[.。]?\s{0,3}(?:\n|$))")


def _beside(text: str, at: int, end: int) -> Iterator[LabelledSecret]:
    """Yield what looks like a chosen password anywhere in the sentence of a label."""
    start = max(0, at - _BESIDE_CHARS)
    start = max([start, *(one.end() for one in _SENTENCE_END.finditer(text, start, at))])
    stop = _SENTENCE_END.search(text, end, end + _BESIDE_CHARS)
    for one in _TOKEN.finditer(text, start, stop.start() if stop else end + _BESIDE_CHARS):
        if not _DIGIT.search(one[0]):
            continue
        first = one.start() + len(one[0]) - len(one[0].lstrip("([\"'`*"))
        first, last = _trimmed(text, first, one.end())
        is_cut = one.start() == start > 0 and not text[start - 1].isspace()
        if is_cut or (last > at and first < end):
            continue
        value = text[first:last]
        is_password = is_chosen(value) or (first >= end and re.fullmatch(r"\d{4,8}[#*]", value) is not None)
        if is_password and not is_named_machine(text, first, last):
            yield LabelledSecret(first, last, KINDS["password"], is_assigned=False, is_loose=True)
    if digits := _SIX_DIGITS.match(text, end):
        yield LabelledSecret(*digits.span(1), KINDS["password"], is_assigned=False, is_loose=True)


def _in_column(text: str, at: int, end: int, category: str) -> Iterator[LabelledSecret]:
    """Yield the values below a label that heads the column of a table."""
    line = text.rfind("\n", max(0, at - MAX_ROW_CHARS), at) + 1
    stop = text.find("\n", end, end + MAX_ROW_CHARS)
    rule = _TABLE_RULE.match(text, stop + 1) if stop >= 0 and "|" in text[line:stop] else None
    if rule is None:
        return
    column = text.count("|", line, at)
    row = rule.end()
    context = ValueContext(is_token=category == "token", is_quoted=True, is_assigned=True, is_joined=True)
    for _ in range(MAX_TABLE_ROWS):
        cells = text[row : row + MAX_ROW_CHARS].partition("\n")[0].split("|")
        if not 0 <= column < len(cells) or len(cells) == 1:
            return
        before = row + sum(len(cell) + 1 for cell in cells[:column])
        start, last = _trimmed(text, before, before + len(cells[column]))
        if " " not in text[start:last] and is_secret_value(text[start:last], context):
            yield LabelledSecret(start, last, KINDS[category], is_assigned=True)
        row += sum(len(cell) + 1 for cell in cells)


_LOGIN_WITH = re.compile(r"\s(?:with|as|using|mit|als|avec|con|como)\s[`\"']?", re.IGNORECASE)
_PAIR = re.compile(
    r"[\w.@+-]{1,80}[`\"']?(?:\s{0,2}:\s{0,2}|\s{1,2}[/|,]\s{1,2}|\s{1,2}(?:and|with|und|mit|et|avec|y|con)\s{1,2})"
    r"[`\"']?(?P<value>[^\s\"'`<>]{1,200})"
)
"""A user and a password."""


def _login(text: str, start: int) -> Iterator[LabelledSecret]:
    """Yield the password of "credentials: admin / …"."""
    one = _PAIR.match(text, start)
    if one is None:
        return
    start, stop = _trimmed(text, *one.span("value"))
    context = ValueContext(is_joined=True)
    if text[stop : stop + 1] != "/" and is_secret_value(text[start:stop], context):
        yield LabelledSecret(start, stop, KINDS["login"], is_assigned=True)


_WORD_RUN = re.compile(r"(?:(?:\d{1,2}[.):]?\s{1,3})?[a-z]{3,8}(?:,?[ \n]{1,3}|\b)){12,24}")


_FOR_GARDENS = re.compile(r"\b(?:buy|plant|sow|kaufen|säen|acheter|semer|comprar|sembrar)\b", re.IGNORECASE)


def _phrase(text: str, found: re.Match[str]) -> Iterator[LabelledSecret]:
    start = found.start("quoted") if found["quoted"] else found.start("value")
    run = _WORD_RUN.match(text, start)
    if (
        run is None
        or _FOR_GARDENS.search(found["joiner"])
        or FUNCTION_WORDS & {*re.findall(r"[a-z]+", run[0])}
    ):
        return
    yield LabelledSecret(run.start(), run.start() + len(run[0].rstrip()), KINDS["phrase"], is_assigned=True)


def bare_phrases(text: str) -> Iterator[LabelledSecret]:
    """Yield what is a phrase of a wallet and nothing else, up to the end of a line."""
    end = -1
    for line in text.split("\n"):
        end += len(line) + 1
        if line.count(" ") + 1 < PHRASE_WORDS[0]:
            continue
        phrase = line[-MAX_PHRASE_CHARS:].replace("：", ":").rpartition(":")[2].strip(" \t>*`\"'-.")
        if not phrase.islower() or "," in phrase:
            continue
        words = phrase.split()
        if (
            len(words) in PHRASE_WORDS
            and len({*words}) >= len(words) - 1
            and all(re.fullmatch("[a-z]{3,8}", word) for word in words)
            and not FUNCTION_WORDS & {*words}
        ):
            start = text.rfind(phrase, 0, end)
            yield LabelledSecret(start, start + len(phrase), KINDS["phrase"], is_assigned=False)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without what ends a sentence or closes a bracket."""
    while end > start and text[end - 1] in ".,;:)]}\\*`|\"' 。，、；：）！？?":
        end -= 1
    while start < end and text[start] in " *`":
        start += 1
    return start, end


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word).replace(r"\ ", r"\s") for word in sorted(words, key=len, reverse=True))


def _stem(label: str) -> str:
    """Return a part that many labels share; of a label in a dense script, its first sign."""
    return next((stem for stem in _STEMS if stem in label), label if label[0].isascii() else label[0])


@cache
def _vocabulary() -> _Vocabulary:
    table = secret_table()
    labels = table["labels"]
    joins = table["connectors"]
    adverbs = rf"(?:\s(?:{_either(joins['adverbs'])})\b){{0,3}}"
    verbs = rf"\s{{1,3}}(?:{_either(joins['verbs'])})\b{adverbs}[ :=]{{0,3}}\s"
    dense = rf"\s?(?:{_either(joins['dense'])})\s?[:：]?\s?|[{_DENSE_LETTERS}]{{1,8}}\s?[:：＝]\s?"
    signs = (
        r"\s{0,3}(?::=|=>|->|→|⇒|={1,3}|:(?!//)|[：＝])\s{0,8}(?:[-*•]\s|[>|][-+]?\s{1,8})?"
        r"|\s{1,3}value\s?=\s?|[;,]?\s(?:type|enter)\s|>|\s?[(（\[]|['’]s\s(?=\S{0,60}\d)|(?=[“「『【〔《])|\s(?=\d{4,8}(?![\w-]))"
        r"|[,、]\s?(?=[^\s,=]{6,60}[.。!]?\s{0,3}(?:\n|$))|\s(?:now|jetzt|nun|neu|maintenant|désormais|ahora)\s"
        rf"|[^\n.:=;?!。]{{1,40}}[,、，]\s?(?:{_either(joins['resumed'])})\s?"
        r"|[,;?!]\s(?:it|that|this)(?:['’]s|\sis)\s|[,;?!]\s(?:es|das)\sist\s|[,;?!]\s(?:c['’]est|es|это)\s"
        rf"|,\s(?=[A-Za-z0-9_-]{{24,200}}(?:[,.;)]|\s|$))|,\s[^\n,.:=;?!]{{1,40}},{verbs}"
        rf"|\s[^\n,.:=;?!]{{1,40}},\s(?:it|es|er|il|elle){verbs}"
    )
    dash = r"\s[-–—]{1,2}\s"
    plain = rf"[^\s{_OPEN}{_CLOSE}<>{_DENSE}]{{1,{MAX_VALUE_CHARS}}}+"
    quoted = rf"\\{{0,4}}[{_OPEN}](?P<quoted>[^\n{_CLOSE}]{{1,{MAX_VALUE_CHARS}}}+)"
    value = rf"\*{{0,2}}(?P<words>[{_DENSE_LETTERS}]{{1,12}}\s(?=[!-~]))?(?:{quoted}|（?(?P<value>{plain}))"
    after = (
        r"(?:s|es|n)?(?![A-Za-z0-9])(?P<joiner>(?:"
        r"(?P<suffix>(?:[_ -][^\W_]{1,20}){0,2}?)"
        r"[*_`\"'’”»」』)\]\\]{0,4}(?:\s?[(（][^()\n]{1,60}[)）])?"
        rf"(?:\s(?:{_either(joins['prepositions'])})[\s'’](?:[^\n.:=;?!]|\.(?=\w)){{1,60}}?)?"
        rf"(?P<sign>{signs}|{verbs}|{dense}|{dash})|\s(?:to|auf|à)\s|\s{{1,6}}(?:[-*•]\s)?)){value}"
    )
    before = (
        rf"(?:[{_OPEN}](?P<quoted>[^\n{_CLOSE}]{{4,100}})[{_CLOSE}]|\((?P<bracketed>[^\s()]{{4,100}})\)"
        rf"|(?:(?<!\S)|(?<=[{_DENSE}]))(?P<value>[^\s{_OPEN}{_CLOSE}{_DENSE}()]{{4,100}}))"
        r"(?:\s{1,2}(?:is|was|as|ist|als|est|c['’]est|comme|es|como)\s{1,2}(?:[^\W\d]{1,20}[\s'’-]{1,2}){0,4}"
        r"|(?P<signed>\s?(?:[(（]|=|<-|←)\s?(?:[^\W\d]{1,20}[\s'’-]{1,2}){0,4})"
        rf"|(?P<dense>\s?[がは是当當作为を]\s?[{_DENSE_LETTERS}A-Za-z -]{{0,16}}))$"
    )
    spelled = [
        (label.replace("-", " "), name)
        for name in ("password", "weak", "token", "login", "phrase", "code")
        for label in labels[name]
    ]
    opens = _either(labels["opens"])
    small_words = _either([*joins["prepositions"], *joins["articles"]])
    return _Vocabulary(
        labels=tuple((label, _stem(label), name) for label, name in spelled),
        stems=frozenset(_stem(label) for label, _ in spelled),
        after=re.compile(after, re.IGNORECASE),
        before=re.compile(before, re.IGNORECASE),
        key_before=tuple(labels["key_before"]),
        not_before_ends=tuple(labels["not_before"]),
        not_before=re.compile(rf"(?<![A-Za-z])(?:{_either(labels['not_before'])})[ _-]?$", re.IGNORECASE),
        not_after=re.compile(rf"[_ -]?(?:{_either(labels['not_after'])})\b", re.IGNORECASE),
        opens_before=re.compile(
            rf"(?<![A-Za-zÀ-ÿЀ-ӿ])(?:{opens})[^\W_]{{0,16}}:?(?:[\s_-]\w{{0,10}})?$", re.IGNORECASE
        ),
        opens_after=re.compile(
            rf"[\s_](?:(?:{small_words})[\s'’]?){{0,3}}(?:{opens})\w{{0,12}}",
            re.IGNORECASE,
        ),
        account=re.compile(rf"(?<![A-Za-z])(?:{_either(labels['account'])})", re.IGNORECASE),
        codewords=frozenset(labels["codeword"]),
    )
