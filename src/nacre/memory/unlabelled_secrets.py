"""Detection of credentials that no label introduces (M16).

A value counts by its own shape, or because its sentence says what it opens or who signs in. The words are
in `data/secrets.json`. What a hash, an id or a model name has in common with a key is left out by the word
before it. A false alarm costs the user one question, a missed one leaves a credential in every prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from nacre.memory.secret_values import (
    is_chosen,
    is_named_machine,
    is_numbered_name,
    is_ordinary,
    is_placeholder,
    secret_table,
)

KIND = "likely password or key"
MIN_CHARS = 4
MAX_CHARS = 80
MIN_SHAPED = 8
"""Characters of a value that is recognised by its shape alone."""
MAX_BARE = 44
"""Characters of a random value that counts anywhere; longer ones are lines of certificates and images."""
MIN_HEX = 30
"""Characters of a hexadecimal key."""
MIN_SHORT_HEX = 16
"""The same in a sentence about access."""
MIN_LOWER = 24
"""Characters of a key of small letters and digits in a sentence about access."""
HASH_LENGTHS = (40, 64, 128)
MAX_GROUPS = 8
"""More groups than this are pairs of hexadecimal digits."""
MIN_PIN = 4
WINDOW = 110
"""Characters before a value in which its sentence may say what it opens; half as many after it."""
NEAR = 60
"""Characters between a PIN and what it opens."""
NONE, WEAK, CHOSEN, STRONG = range(4)
"""Grades: no password; one beside a user; one in a sentence about access; one anywhere."""

_LETTER = r"[A-Za-z\u00c0-\u024f\u0400-\u04ff]"
_SIGN = r"!-~\u00a1-\u024f\u0400-\u04ff"
_TOKEN = re.compile(
    rf"(?<![{_SIGN}])(?=[^\s\d]{{0,{MAX_CHARS}}}\d)[{_SIGN}]{{{MIN_CHARS},{MAX_CHARS}}}+(?![{_SIGN}…])"
)
_NAMED_VALUE = re.compile(r"[A-Za-z][\w.-]{1,30}[:=](?=[^/\s:=]{5})")
"""A user or a name before a value, as in `admin:…`."""
_SIGNED = re.compile(
    rf"""
    (?=.*\d) (?: .*{_LETTER}.*[!$*^&§]+[A-Za-z0-9\u00c0-\u024f].*
      | .*\d.*[!$*^&§]{_LETTER}{{2}}.*
      | .*{_LETTER}{{3}}%{_LETTER}{{3}}.* )
    """,
    re.VERBOSE,
)
"""Letters and a digit around a sign that no word has inside."""
_WEAKLY_SIGNED = re.compile(rf"(?=.*\d)(?=.*{_LETTER}{{3}}).*[A-Za-z0-9\u00c0-\u024f][#%@+?~].*")
_NOT_SIGNED = re.compile(
    r"[A-Z]{1,3}[$&]\w+|\d+[*^]\S+|[^@]+@[\w.:-]+|[\w.-]+\+[\w.]+|.*[#@]v\d.*", re.IGNORECASE
)
"""Money, products, addresses, versions and anchors with such a sign."""
_CODE_SIGNS = re.compile(
    r"[(){}<>\[\]\\|;`\"']|//|\$\w+[/:]|&[a-z]+=|&&|\*\*|==|!=|=>|->|::|^[-/.~@$%&*#!?+=]"
)
_NAME = re.compile(
    r"""
    0x\w+ | [A-Z]{2}[0-9a-f]{30,} | \d+-\d+\S{0,4} | \d+-of-\d+ | \d{4}s-\w+ | \d+[ap]m-\d+[ap]m
    | \d+[x×]\d+(?:[x×]\d+)?
    | [A-Z0-9]+(?:-[A-Z0-9]+)+ | [A-Z]{1,3}\d{2,}[a-z]{0,4} | [A-Z]\d-[A-Za-z]+ | \w+-\d[A-Z]
    | [A-Za-z]+\dD | (?:GHSA|CVE|RFC|ISO|PEP)-\S+
    | [a-z]{2}-[a-z]+-\d | [a-z]{2,5}-\d{1,4} | [a-z]{2,5}(?:-[a-z]{2,5})*-\d(?:-[a-z]+)?
    | [a-z]+(?:-[a-z]+)*(?:-\d+){2,}[a-z]? | [a-z]\d[a-z]-[a-z]+ | \d[a-z]{1,3}-[a-z]+
    | [a-z]+_\d+[a-z]{1,4} | [a-z_]+\#v?\d{1,2} | (?:tool|call|parent|step|run)[-_]\d+
    | [a-z]+\d?(?:[A-Z][a-z]+)+ | [A-Za-z]+\d*\+[A-Za-z]+ | [a-z]+\+\d
    | [a-z]+\.\d{3} | \w+(?:\.\w+)*\$\d{6,} | [\w.]+(?:\*[\w.]+)*\*\d+\.\d+ | \w+/\d+(?:\.\d+)*
    """,
    re.VERBOSE,
)
"""Constants, ranges, regions, models, identifiers and terms of code."""
_PATH = re.compile(r"(?<![\w/.])[a-z_-]{1,40}(?:/[a-z_-]{1,40}){1,12}(?:\.[a-z]{2,4})?(?![\w/])")
"""The bounds keep the time proportional to the text."""
_KEY_PREFIX = re.compile(r"(?:[a-z]{2,12}[-_])?(?:pat|token|key|sk|secret|claim|invite)[-_]")
"""The kind of a key before the key."""
_AT_HOST = re.compile(r"(?<=.{6})@[A-Za-z][\w.-]{1,60}(?::\d{2,5})?$")
"""The host behind a user and a password, as in `reports:…@replica`."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIXED = re.compile(r"[a-z]{2,10}(?:[-_][a-z]{2,10})?[-_]")
"""The kind of an id before the id; secrets with a known one have a rule of their own."""
_DOTTED = re.compile(
    r"[A-Za-z]{3,}(?:\.[A-Za-z]{3,})+\.\d{1,4}|[A-Z][a-zà-ÿ]{2,}(?:\.[A-Z][a-zà-ÿ]{2,})+\d{2,4}|[A-Za-z]{4,}@\d{2,4}"
)
_WEAK = re.compile(
    r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[A-Za-z0-9]{4}|(?=.*[a-zà-ÿ])[^\W\d_]{4,}[_.-]?\d"
    r"|[^\W\d_]{3,}@[^\W\d_]+\d+|[a-z]+(?:-[a-z]+)+-?\d"
)
_SEVERAL = re.compile(
    r"(?=.*[A-Z])(?=.*\d)(?:[A-Za-zà-ÿ]{3,}|\d{1,4}|[A-Za-z]{2}\d{2})"
    r"(?:[-_.+%][A-Za-zà-ÿ]{3,}|[-_.]\d{1,4}){2,4}\d{0,4}"
    r"|[A-Z][a-zà-ÿ]{2,}[-_.+%][A-Z][a-zà-ÿ]{2,}\d{1,4}"
)
"""Words and a number with signs between."""
_LICENCE = re.compile(r"[A-Z0-9]{4,6}(?:-[A-Z0-9]{4,6}){2,7}")
_GROUPS = re.compile(r"[A-Za-z0-9]{3,8}(?:-[A-Za-z0-9]{3,8}){2,7}")
_MIXED_GROUP = re.compile(r"(?<![^-])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{3,8}(?![^-])")
_SPACED = re.compile(
    r"(?<![\w-])(?:(?:[A-Za-z0-9]{4} ){2,7}[A-Za-z0-9]{4}|(?:[0-9A-F]{2}[ :]){7,31}[0-9A-F]{2})(?![\w-])"
)
"""Groups of four or of two, as a key is printed."""
_WORDS_IN_TOKEN = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}")
_RUNS = re.compile(r"\d+|[a-z]+|[A-Z]+")

_AND = r"\b(?:with|and|then|plus|mit|und|dann|dazu|et|puis|avec|y|con|luego|detrás"
_JOINED = re.compile(
    rf"(?:{_AND}|is|now|ist|jetzt|est|c['’]est|es)|[/:,，、=→>]|と|和|配|で|は|是)\s*[\"'`]?$"
)
"""What joins a password to its user, or to the word for it."""
_TO_USER = re.compile(
    rf"(?:{_AND}|types?|enters?|(?:admin|root)\s(?:is|ist|est|es))|[/:,，、→]|->|と|和|配|で|(?:admin|root)は)"
    r"\s*[\"'`]?$"
)
_AFTER_USER = re.compile(
    rf"(?:^|[\s:,，])(?=[^\s,]*[._@\d\\])[\w.@+\\-]{{3,40}}(?:\s{_AND})\s|\s?[/,，、]\s?|\s?と\s?)[\"'`]?$"
)
"""An address, a number or a name with a dot or a digit, and what joins a password to it."""
_KEY_BEFORE = re.compile(
    r"\b(?:api|app|access|secret|auth|master|licen[cs]e|encryption|signing|hmac|aes|private|session"
    r"|cookie)[ _-]?(?:key|token|secret)s?\b[^\n.]{0,30}$"
)
"""Before a value that would be a hash elsewhere."""
_PRODUCT = re.compile(r"\b(?:an?|une?|eine?n?|una?)\s(?:[A-Z]\w*\s){0,3}$")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_SENTENCE_START = re.compile(r"[.!?]\s(?=\S)|[\n。！？]")

_NUMBER = r"""
    (?<![A-Za-z0-9_\u00c0-\u024f\u0400-\u04ff.:/\#%€$£¥@+-])
    (?P<pin>
        \*?\d{3,10}[\#*]? | \d{2,4}[\#*]\d{2,4} | \d(?:[ -]\d){2,7}[\#*]? | \d(?:,?[ ]then[ ]\d){2,5}
      | \d{1,2}(?:[-/ ]\d{1,2}){2,3} | \d{1,2}(?:[ ]-[ ]\d{1,2}){2} | \d{4}[ -]\d{4}(?:[ -]\d{4}){0,2}
      | \d{3}[ ]\d{3,4}(?:[ ]\d{3,4})? | \d{4}[ ]\d{1,4} | \d-\d-\d{3,6}
      | (?:(?<=code[ ])|(?<=codes[ ])|(?<=code:[ ]))(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z\d]{5,10}
      | \d{1,4}[A-F]\d{0,4} | [A-F]\d{4,5} | [A-Z]\d{3,5}[A-Z]
      | [A-J]\d[ ]\d{2,3}(?:,[ ][A-J]\d[ ]\d{2,3}){2,9}
    )
    (?![A-Za-z0-9_\u00c0-\u024f\u0400-\u04ff%€$£¥@/+-]|[.,:]-?\d)
    (?![ ]?(?:[号年月日时点個个件人階楼元円歳岁分秒時回本枚台室毫页頁条張张套米克字行次位倍家箱店]
      |ミリ|ページ|トークン))
    (?!で始|から始|で終)
    (?!(?!(?!开头|开始)[的开開打关就可能才来登解进吧了啦哦止外入通再然并后和即])[\u30a1-\u30fa\u4e00-\u9fff])
"""
_NUMBER_ENDS = (
    r"(?=[.,;:!?)\]、。，」』”\"'’]|[ \t]*$|\s?[–—(]|\s+(?:{words})\b|[^\x00-\x7f]|\s+[^\x00-\u024f])"
)
"""After a number that counts nothing: the end of a clause, or a word that is no unit."""
_SHORT_PIN = re.compile(
    r"cv[vc]|prüfziffer|cryptogramme|安全码"
    r"|lock|cadenas|candado|schloss|锁|鍵|錠"
    r"|luggage|suitcase|koffer|valise|maleta|行李箱|スーツケース|combin|kombin"
)
"""What a number of three digits opens."""
_CODE = re.compile(
    r"pin|puk|code|combination|kombination|stellig|digits?"
    r"|(?:lock|schloss|cadenas|candado|\b(?:with|mit|avec|con))\s*:?\s*$"
)
"""The words before a PIN that may look like a year."""
_YEAR = re.compile(r"(?:19|20)\d\d")
_IN_YEAR = re.compile(
    r"\b(?<!punch )(?<!key )(?<!put )(?<!type )(?:in|since|from|im jahr|seit|en|depuis|desde)\s$"
)
_NUMBER_OF_LOCK = re.compile(
    r"(?:鍵|錠|金庫|ロッカー|スーツケース|警報|アラーム|ロック|キーボックス|玄関|ドア|ダイヤル|ゲート|ガレージ"
    r"|锁|保险箱|保险柜|行李箱|门禁|报警器|钥匙盒|储物柜|车库|大门|院门)(?:の番号|的号码)[はを是为:：]?\s?$"
)
"""The number of a lock is what opens it; other things have numbers that open nothing."""
_MODEL = re.compile(
    r"\b(?:an?|une?|eine?|una?)\s(?:[A-Z]\S*\s){1,4}$|\b(?!PIN|PUK|SIM|CV[VC]|EC|TAN|TSA|VPN|NAS)[A-Z]{2,5}\s$"
)
"""The name of a product before its number."""
_WORDS_AND_NUMBER = re.compile(
    r"""
    (?: (?:decrypts?|unlocks?|解密|解锁|entschlüsselt|déchiffre|descifra|復号)[^\n:.]{0,24}?
        (?:\s(?:with|it|mit|avec|con)\s|用[ ]?)
      | ^(?=[a-z \d]{10,60}!$) )
    (?![^\n]{0,60}\b(?:the|and|for|from|into|this|that|your|a|at|to)\b)
    (?P<value>(?:[a-z]{4,12}[ ]){1,4}\d{2,4}(?:[ ][a-z]{4,12}){0,3})(?=!?$)
    """,
    re.MULTILINE | re.VERBOSE,
)
"""Plain words and a number that decrypt something, or alone on a line with an exclamation mark."""
_AGREED_WORD = re.compile(
    r"(?:合言葉|合図の言葉|暗号)は"
    r"(?P<value>(?:(?![にをでへが])[^\W\d_a-z]){2,12}(?<![るいたすんうくぐむぶぬつ]))(?=[。！]?[ \t]*$)",
    re.MULTILINE,
)
"""A noun that is agreed on, in Japanese; a verb would say something about it."""
_NETWORK_PAIR = re.compile(
    r"(?m)\b(?:wi-?fi|wlan)[^\n:：,，、]{0,24}[:：]\s?[^\s:：,，、]{3,32}\s?[,，、/]\s?(?!wpa)"
    r"(?P<value>(?=[^\s\d]{3,40}\d)[^\s,，、:：]{8,40})(?=[.。]?[ \t]*$)"
)
"""A network and its password."""
_SAID_WORD = re.compile(
    r"""
    (?: \b(?:says?|sagt|sagen|nennt|das[ ]Wort|dire|dit|decir|dice)\s(?:man\s)?
        (?P<value>[A-ZÀ-Þ][^\W\d_]{3,15}|["'„“«]\s?[^\W\d_]{4,16}\s?["'”“»]),?\s
        (?=(?:to|when|if|pour|para|wenn|um|beim|quand|cuando)\s[^\n.]{0,40}
          (?:pick|collect|abhol|récupér|cherch|recog|verif|identif))
      | (?:[Kk]unden|[Tt]elefon|[Ss]ervice|[Ss]icherheits)-?(?:[Kk]enn|[Cc]ode|[Pp]ass)wort\s
        (?P<word>[A-ZÀ-Þ][^\W\d_]{3,20})(?=[.!]?[ \t]*$) )
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A word that one says to be let do something, in capitals or quotation marks."""
_SAID_KEYS = ("say", "sag", "nennt", "das wort", "dire", "dit", "deci", "dice", "wort ")
_RECOVERY_WORDS = re.compile(
    r"(?m)(?:\b(?:recovery|backup|wallet|seed|unlock|wiederherstellungs?|récupération|recuperación)[ -]?"
    r"(?:words?|phrase|wörter|mots|palabras)"
    r"|\b(?:phrase|mots|frase|palabras|wörter)\s(?:de\s(?:la\s)?|zur\s)?(?:récupération|secours|recuperación|respaldo|wiederherstellung))\b[^\n.:]{0,30}(?::|\s(?:are|is|sind|lauten|sont|son))\s"
    r"(?P<value>(?:[a-zà-ÿ]{3,10}[ ,]{1,2}){3,23}[a-zà-ÿ]{3,10})(?=\.?$)"
)


@dataclass(frozen=True, slots=True)
class UnlabelledSecret:
    """A value without a label, by its place."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _AccessWords:
    """The words of the table, compiled."""

    access: re.Pattern[str]
    """Acts and things that have to do with access: a sentence with one may hold a chosen password."""
    opens: re.Pattern[str]
    """What a short number opens, the act, and other words for such a number: gate, phone, unlock, PUK."""
    explained: re.Pattern[str]
    """The words before an id, a hash or a model."""
    place: re.Pattern[str]
    """The words before the name of a computer, a file or a user."""
    counted: re.Pattern[str]
    """The words before a number that opens nothing: a room, the end of a card number."""
    spoken: re.Pattern[str]
    """A word that is agreed on."""
    sides: re.Pattern[str]
    turned: re.Pattern[str]
    """The turns of a combination lock."""
    said_digits: re.Pattern[str]
    """Digits as words behind a PIN."""
    number: re.Pattern[str]


def unlabelled_secrets(text: str) -> Iterator[UnlabelledSecret]:
    """Yield what looks like a credential although no label introduces it."""
    words = _access_words()
    small = text.lower() if len(text.lower()) == len(text) else text
    # The words of a path, such as ops/alarms.md, do not say what a number opens.
    small = _PATH.sub(lambda found: " " * len(found[0]), small) if "/" in small else small
    yield from _passwords(text, small, words)
    for found in _SPACED.finditer(text):
        if _is_printed_key(found[0]) and words.access.search(_before(small, found.start())):
            yield UnlabelledSecret(*found.span())
    if words.opens.search(small):
        yield from _pins(text, small, words)
    is_said = any(key in small for key in _SAID_KEYS)
    for found in _SAID_WORD.finditer(text) if is_said else ():
        yield UnlabelledSecret(*found.span(found.lastgroup or "value"))
    turned = [words.turned] if words.sides.search(small) else []
    has_network = any(key in small for key in ("wifi", "wi-fi", "wlan"))
    has_words = any(key in small for key in ("words", "phrase", "wörter", "mots", "palabras", "frase"))
    for pattern in (
        _WORDS_AND_NUMBER,
        *([_RECOVERY_WORDS] if has_words else []),
        *([_NETWORK_PAIR] if has_network else []),
        _AGREED_WORD,
        words.spoken,
        words.said_digits,
        *turned,
    ):
        yield from (UnlabelledSecret(*found.span("value")) for found in pattern.finditer(small))


def _passwords(text: str, small: str, words: _AccessWords) -> Iterator[UnlabelledSecret]:
    """Yield the tokens with the shape of a password or key."""
    for found in _TOKEN.finditer(text):
        start, end = _stripped(text, *found.span())
        if name := _NAMED_VALUE.match(text, start, end):
            start = name.end()
        host = _AT_HOST.search(text[start:end]) if name and name[0].endswith(":") else None
        end = start + host.start() if host else end
        value = text[start:end]
        if is_placeholder(value) or text.startswith("...", end):
            continue
        before = _before(small, start)
        grade = password_grade(value) if re.search(r"\d", value) else NONE
        if _KEY_BEFORE.search(before) and re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", value):
            grade = STRONG
        if host and grade >= CHOSEN:
            grade = STRONG
        if grade == NONE:
            continue
        if words.explained.search(before):
            continue
        if grade == STRONG or (
            not words.place.search(before)
            and not _is_name_here(text, start, end, before)
            and _is_about_access(value, grade, before, _after(small, end), words)
        ):
            yield UnlabelledSecret(start, end)


def _is_about_access(value: str, grade: int, before: str, after: str, words: _AccessWords) -> bool:
    """Return whether the sentence of a chosen password says so, or a user is before it."""
    if grade == WEAK and (is_numbered_name(value) or not _TO_USER.search(before)):
        return False
    if words.access.search(f"{before}\n{after}") or _AFTER_USER.search(before):
        return True
    return _JOINED.search(before) is not None and _SEVERAL.fullmatch(value.rstrip("!?")) is not None


def _is_name_here(text: str, start: int, end: int, before: str) -> bool:
    """Return whether a value is code in backticks, a product, a machine or one of "agent1, agent2"."""
    value = text[start:end]
    if is_named_machine(text, start, end):
        return True
    if text[start - 1 : start] == text[end : end + 1] == "`" and re.fullmatch(r"[\w.*-]+", value):
        return True
    if value.isalnum() and _PRODUCT.search(text, max(0, start - NEAR), start):
        return True
    name = re.sub(r"\d+", "", value.lower())
    return any(name == re.sub(r"\d+", "", word) for word in re.findall(r"[^\s,;()]+", before))


def password_grade(value: str) -> int:
    """Return the grade of a token by its shape: `NONE`, `WEAK`, `CHOSEN` or `STRONG`."""
    core = value.rstrip("!?#*%$&+")
    if _LICENCE.fullmatch(core) and _is_licence(core):
        return STRONG
    if _CODE_SIGNS.search(value) or _NAME.fullmatch(core):
        return NONE
    if re.fullmatch(r"[0-9a-f-]+", core):
        return _hex_grade(core)
    if is_ordinary(core):
        return CHOSEN if re.search(r"[0-9a-f]{16}", core) and "://" not in core else NONE
    if len(value) >= MIN_SHAPED:
        if _SIGNED.fullmatch(core) and not _NOT_SIGNED.fullmatch(core):
            return STRONG
        if _is_licence(core) or _is_random_shape(core):
            is_id = _PREFIXED.match(core) and not _KEY_PREFIX.match(core)
            return CHOSEN if len(core) > MAX_BARE or is_id else STRONG
    if (
        len(core) >= MIN_LOWER
        and re.fullmatch(r"[a-z0-9]+", core)
        and len(_RUNS.findall(core)) * 3 >= len(core)
    ):
        return CHOSEN
    return CHOSEN if _is_chosen_shape(core) else WEAK if _WEAK.fullmatch(core) else NONE


def _hex_grade(value: str) -> int:
    """Return the grade of a hexadecimal token; those with the length of a hash are none."""
    if len(value.replace("-", "")) in HASH_LENGTHS or _UUID.fullmatch(value):
        return NONE
    if len(value) >= MIN_HEX:
        return STRONG
    is_mixed = re.search("[a-f]", value) is not None and "-" not in value
    return CHOSEN if is_mixed and len(value) >= MIN_SHORT_HEX else NONE


def _is_chosen_shape(value: str) -> bool:
    """Return whether a person may have chosen a value, or a router printed it."""
    if re.fullmatch(r"[a-z]+(?:-[a-z]+)+-?\d", value):
        return False
    if _WEAKLY_SIGNED.fullmatch(value) and not _NOT_SIGNED.fullmatch(value):
        return True
    is_short_random = re.fullmatch(r"[A-Za-z0-9]{6,}", value) and len(_RUNS.findall(value)) >= 4
    if (is_short_random and not value.isupper()) or _DOTTED.fullmatch(value) or is_chosen(value):
        return True
    return _GROUPS.fullmatch(value) is not None and len(_MIXED_GROUP.findall(value)) >= 2


def _is_licence(value: str) -> bool:
    """Return whether groups of letters and digits look like a licence or a printed key."""
    groups = value.split("-")
    mixed = len(_MIXED_GROUP.findall(value))
    if _LICENCE.fullmatch(value):
        return mixed >= min(3, len(groups) - 1) and len({*map(len, groups)}) <= 2
    has_cases = re.search("[a-z]", value) is not None and re.search("[A-Z]", value) is not None
    return _GROUPS.fullmatch(value) is not None and mixed >= 2 and has_cases


def _is_random_shape(value: str) -> bool:
    """Return whether letters of both cases and digits are mixed so that few of them are in words."""
    if not re.fullmatch(r"[A-Za-z0-9_.+/=-]+", value):
        return False
    if not all(re.search(signs, value) for signs in ("[a-z]", "[A-Z]", "[0-9]")):
        return False
    in_words = sum(len(word) for word in _WORDS_IN_TOKEN.findall(value))
    runs = len(_RUNS.findall(value))
    return in_words * 2 < len(value) and runs > 3 and runs * 3 >= len(value)


def _is_printed_key(value: str) -> bool:
    """Return whether groups are a key: mixed with digits, or with too few vowels for words."""
    groups = value.split()
    if len(groups) > MAX_GROUPS or ":" in value:
        return True
    if any(sign.isdigit() for sign in value):
        return sum(not one.isdigit() and not one.isalpha() for one in groups) >= 2
    return sum(sign in "aeiouy" for sign in value) * 4 < len(value) and len(groups) >= 4


def _pins(text: str, small: str, words: _AccessWords) -> Iterator[UnlabelledSecret]:
    """Yield the numbers beside a word for what they open, or for the act."""
    for found in words.number.finditer(text):
        start, end = found.span("pin")
        pin = found["pin"]
        before = _before(small, start)
        near = before[-NEAR:]
        has_sign = re.search("[#*]", pin) is not None
        is_repeated = pin.count(" ") > 1 and len({*pin.split()}) == 1
        if is_repeated or _MODEL.search(text, max(0, start - NEAR), start):
            continue
        is_counted = words.counted.search(before) and not _NUMBER_OF_LOCK.search(before)
        if not has_sign and (is_counted or not _may_be_pin(pin, near)):
            continue
        if words.opens.search(near) or words.opens.search(_after(small, end)[:NEAR]):
            yield UnlabelledSecret(start, end)


def _may_be_pin(pin: str, near: str) -> bool:
    """Return whether a number is long enough for a PIN and no year, by the words before it."""
    if len(pin) < MIN_PIN:
        return _SHORT_PIN.search(near) is not None
    return not _YEAR.fullmatch(pin) or (_CODE.search(near) is not None and not _IN_YEAR.search(near))


def _before(small: str, start: int) -> str:
    """Return what is before a place on its line."""
    begin = max(0, start - WINDOW)
    return small[max(begin, small.rfind("\n", begin, start) + 1) : start]


def _after(small: str, end: int) -> str:
    """Return what follows a place in its sentence."""
    stop = _SENTENCE_START.search(small, end, end + WINDOW // 2)
    return small[end : stop.start() if stop else end + WINDOW // 2]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without quotation marks, brackets and what ends a sentence."""
    while end > start and text[end - 1] in ".,;:)]}>\"'`”»’":
        end -= 1
    while start < end and text[start] in "([{<\"'`“«‘*":
        start += 1
    return start, end


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


@cache
def _access_words() -> _AccessWords:
    table = secret_table()["access"]

    def any_of(name: str, end: str = "") -> re.Pattern[str]:
        # Chinese and Japanese words follow each other, and Latin ones, without a space.
        joined = [word for word in table[name] if _IDEOGRAPH.search(word)]
        spaced = [word for word in table[name] if not _IDEOGRAPH.search(word)]
        either = rf"(?<![a-zà-ÿ_])(?:{_either(spaced)})" + "".join(f"|{word}" for word in joined)
        return re.compile(rf"(?:{either}){end}")

    digit = _either(table["digits"])
    side = _either(table["sides"])
    turn = rf"(?:(?:{side})[^\n\d\"]{{0,8}}\d{{1,2}}(?:回\d{{1,2}})?|\d{{1,2}}[^\n\d\"]{{0,4}}(?:{side}))"
    word = r"[^\W\d_]{2,16}"
    return _AccessWords(
        access=any_of("access"),
        opens=any_of("opens"),
        explained=any_of("explained", r"(?![a-z_])[^\n/.;,。，]{0,12}$"),
        place=any_of("place", r"\s?[\"'`]?$"),
        counted=any_of("counted", r"\s?[:#]?\s?$"),
        spoken=re.compile(
            rf"(?m)(?<![a-zà-ÿ])(?:{_either(table['spoken'])})[^\n.:：「“\"«\[]{{0,40}}"
            r"(?:(?:[:：]|\s(?:is|ist|lautet|est|c['’]est|es|answer))\s?[「“\"«]?|[「“])"
            r"(?P<value>(?!(?:the|an?|kept|not|in|der|die|das|le|la|el)\s)"
            rf"{word}(?:[ -]{word}){{0,3}})(?=[」”\"»]|[.!。]?[ \t]*$)"
        ),
        sides=re.compile(side),
        turned=re.compile(
            rf"(?<![a-zà-ÿ])(?:{_either(table['combination'])})[^\n]{{0,40}}?(?P<value>{turn}(?:[^\n\d]{{0,16}}{turn}){{1,4}})"
        ),
        said_digits=re.compile(
            rf"(?<![a-zà-ÿ])(?:{_either(table['pins'])})\b[^\n.]{{0,16}}?"
            rf"(?P<value>(?:{digit})(?:[ -]?(?:{digit})){{2,7}})"
        ),
        number=re.compile(
            f"{_NUMBER}{_NUMBER_ENDS.format(words=_either(table['after_number']))}", re.MULTILINE | re.VERBOSE
        ),
    )
