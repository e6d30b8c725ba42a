"""Detection of passwords, tokens and phrases that a word such as "password" or `API_KEY` introduces (M16).

The words of seven languages are in `data/secrets.json`. A value counts by the word before it: after
"password" nearly anything does, after "token" only what looks random.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from nacre.prompts import packaged_file

MAX_VALUE_CHARS = 4_000
MAX_JUDGED_CHARS = 200
"""Of a longer value only the beginning is judged."""
MAX_TABLE_ROWS = 50
MAX_ROW_CHARS = 1_000
MIN_PLAIN = 6
"""Letters of an ordinary word that counts as a password without quotation marks."""
MIN_RANDOM = 8
"""Characters of a token without a known form."""
MIN_LONG_KEY = 20
"""Characters of a value that counts as a key after any kind of key."""
MIN_UNJOINED = 16
"""Characters of a token directly after its label, as in "the token 8f3b…"."""
MIN_SIGNS = 6
"""A text with fewer different characters (`xxxx`, `0000-0000`) is a placeholder."""
SHORT = 12
"""Up to this length a password may be chosen by a person and have few different characters."""
PHRASE_WORDS = (12, 15, 18, 21, 24)
"""Lengths of the phrases that wallets give out."""
MAX_PHRASE_CHARS = 240

_DENSE = "\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
_DENSE_LETTERS = "\u3040-\u30ff\u3400-\u9fff"
_OPEN = "\"'`“„«「『‘"
_CLOSE = "\"'`”“»」』’"
_BEFORE_CHARS = 120
_MANUAL = re.compile(
    r"example|placeholder|changeme|redacted|replace[-_]?me"
    r"|eby8vdm02xnocqflquwj"  # the public key of a storage emulator
    r"|01234567|12345678|abcdefgh|xxxx|\*\*\*|\.\.\.|…"
    r"|(?:^|[-_ ])(?:your|fake|dummy|sample|insert|goes|here)(?:[-_ ]|$)"
)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]+$|[{(])|[{<\[]|%(?:[sd(]|[A-Z_]+%)|\*+$")
"""The start of a variable, a template slot or a masked value."""
COMMON_PASSWORDS = frozenset(
    "password passwd passw0rd pass pwd secret token postgres mysql mariadb mongo redis root admin user "
    "username test testing guest default none null empty minio rabbitmq sa dev demo local".split()
)
"""Passwords of tutorials."""
_SLOT = re.compile(
    r"""
    \$(?:[A-Za-z_]\w*$|[{(]) | [{<\[(] | % (?:[sd(] | [A-Z_]+%) | [*x.…•_-]+$ | \#\{ | @\{
    | (?:your|my|the|some|enter|insert|put|add|ihr|dein|votre|tu)[-_ ].*
    | [a-z_.-]{0,60}(?:password|passwd|passwort|pwd|secret|token|api[-_]?key)$
    | .*[-_ ](?:here|placeholder|goes[-_]here)$
    | (?:change|replace)[-_]?(?:me|this|it).*
    | (?:.*[-_.])?(?:example|sample|dummy|fake|placeholder)(?:[-_.].*)?$
    | (?:redacted|removed|masked|hidden|secret|geheim|todo|tbd|n/?a|foo|bar|baz|foobar|qux|abc|abcdef|xyz)$
    | (?:process\.env|os\.environ|os\.getenv|env\.|secrets\.|vars\.|config\.|settings\.|self\.|this\.|ENV\[).*
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A variable, a template slot, a mask or a word of manuals."""
_ORDINARY = re.compile(
    r"""
    v?\d+(?:\.\d+)+[\w.+%-]*                                  # a version or an address
    | \d{4}-\d\d(?:-\d\d)?(?:T[\d:.+Z-]*)? | \d{1,2}:\d\d(?::\d\d)?
    | \d+(?:[-–]\d+)?(?:[+%kK]|[kKmMgG]i?[bB]|ms|px|x|st|nd|rd|th|[-–]?(?:s|sec|min|h|d|w|y|bits?|bytes?
      |chars?|days?|hours?|minutes?|seconds?|weeks?|months?|years?|digits?|tokens?))
    | \d{1,4}-[a-z]+(?:-[a-z]+)*                             # "12-factor"
    | [$€£¥]\d[\d.,]*[kKmM]?
    | [\w.+-]+@[\w-]+\.[\w.-]+ | @[\w-]+ | \#\d+ | [A-Z]{2,10}-\d+
    | [a-z][a-z0-9+.-]*://[^\s@]+
    | [a-z0-9-]+(?:\.[a-z]+)+(?:/[a-z0-9._-]+)+(?::[\w.-]+)?  # a container image
    | (?:~|\.{1,2})?/[\w./~-]* | [A-Za-z]:\\\S*
    | [a-z]+(?:[-_.][a-z0-9]+)*(?:/[a-z]+(?:[-_.][a-z0-9]+)*)+/?     # a path
    | \.?[\w-]+(?:\.[\w-]+)*\.(?:md|json|py|txt|ya?ml|env|toml|cfg|ini|conf|pem|key|ts|tsx|js|go|rs|java|sh
      |sql|kdbx|gpg|asc|local|com|org|net|io|dev|de|fr|es|jp|cn)(?::\d+)?
    | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+                          # the name of a variable
    | [A-Za-z_]+(?:(?:\.|::|->|\?\.)[A-Za-z_]+\d?)+(?:[\[(].*)?
    | [A-Za-z_][\w.:]*[(\[].*                                # code
    | (?:sha|md|aes|rsa|utf|oauth|argon|bcrypt|pbkdf|scrypt|base|ed|p|h|http|ipv|pkcs|rfc|fips|x|k|s|ec|i|l|a
      |log|rs|hs|es|ps|cl|gpt|o|web|layer|phase|step|part|v|q)[-_]?\d+(?:[a-z]{0,4}|[-_]\w+)
    | (?:SHA\d+|MD5):\S+
    | (?:1password|2fa|mfa2?|k8s|oauth2|s3|ec2|auth0|i18n|x509|h2o|p2p|b2b|c3po|r2d2)(?:[-_/].*)?
    """,
    re.VERBOSE,
)
"""Values with digits or signs that are no passwords."""
_NAME_WITH_NUMBER = re.compile(r"[A-Za-z]+(?:[-_./:][A-Za-z]+)*(?:[-_./:]?\d{1,4})?(?:[-_./:][A-Za-z]+)*")
"""The name of a thing, such as `db-credentials-2`."""
_PARTICIPLE = re.compile(
    r".{2,}(?:ed|ing|able|ible|ary|ory|less|ful|ent|ant|ive|ical|ous|ally|ntly|tely|iert|bar|lich|isch|ée?s?"
    r"|[ai]d[oa]s?|oire|ique)$|(?:ge|ver|be|zer|ent|unter|über|hinter)\w{2,}(?:t|en)$"
)
"""Words such as "required", which say something about a password."""
_FUNCTION_WORDS = frozenset(
    "the and for are was not but has have from into our its which who how der die das und ist nicht mit "
    "für ein eine les des est une dans pour avec los las una con por que del is in on of to a an it be "
    "by or as at we enough already because since after before until while only when then than every "
    "each some any all most more less other people users must should".split()
)
"""Words that are in no passphrase."""
_SIGN = re.compile(r"[!@#$%^&*+=?~|\\]")
_TABLE_RULE = re.compile(r"(?=[^\n]{0,200}--)[|: -]{3,200}\n")
"""The line below the head of a table."""
_VERB_BEFORE = re.compile(r"\s(?:[ai]s|was|ist|als|es|est|comm?e|como)\s|[がは是]\s?$", re.IGNORECASE)
_HUMP = re.compile(r"[a-z][A-Z]")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vocabulary:
    """The words of the table, compiled."""

    labels: tuple[tuple[str, str, str], ...]
    """Label, its stem and its class."""
    stems: frozenset[str]
    after: re.Pattern[str]
    before: re.Pattern[str]
    key_before: re.Pattern[str]
    not_before: re.Pattern[str]
    not_after: re.Pattern[str]
    opens_before: re.Pattern[str]
    """What a code opens, before the word "code", as in "Alarmanlagencode"."""
    opens_after: re.Pattern[str]
    """The same after it, as in "code de la porte"."""
    plain: frozenset[str]


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
    "code": "access code",
    "token": "token or key",
    "login": "login with a password",
    "phrase": "recovery phrase",
}


@cache
def secret_table() -> dict[str, Any]:
    """Return the table of rules and words."""
    text = packaged_file("nacre.memory", "data/secrets.json").decode()
    table: dict[str, Any] = json.loads(text)
    return table


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
        if category in {"password", "token"}:
            yield from _value_before(text, at, end, category, words)
            yield from _in_column(text, at, end, category)


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
    if label == "pin" and text[at : at + 3] not in {"PIN", "Pin"}:
        return False
    if is_joined and (len(label) <= 4 or category in {"login", "phrase"} or label == "clave"):
        return False
    if last.isdigit() and label == "password":
        return False  # the password manager
    if label == "pass" and (text[at + 4 : at + 6] == "es" or (text[at : at + 5] == "PASS:" and last != "_")):
        return False  # a verb, or the result of a test
    mark = text.rfind("[removed: ", max(0, at - 60), at)
    if mark >= 0 and "]" not in text[mark:at]:
        return False  # written by `redact`
    is_ambiguous = category == "token" or label == "pass"
    return not (is_ambiguous and words.not_before.search(text[max(0, at - 24) : at]))


def _access_code(text: str, at: int, end: int, words: _Vocabulary) -> Iterator[LabelledSecret]:
    """Yield the value of a code if the words beside it say what it opens."""
    opens = words.opens_after.match(text, end)
    for one in _values_after(text, at, opens.end() if opens else end, "code", words):
        if opens or words.opens_before.search(text[max(0, at - 40) : at]):
            yield one


def _is_known_key(text: str, at: int, end: int, words: _Vocabulary) -> bool:
    """Return whether a key is one that opens something, by the words beside it."""
    before = text[max(0, at - 24) : at]
    following = text[end : end + 5].strip().lower()
    is_variable = text.startswith("KEY", at) and re.search(r"[A-Z0-9]_$", before) is not None
    return (
        is_variable
        or words.key_before.search(before) is not None
        or following.startswith(("api", "secr", "priv"))
    )


def _values_after(
    text: str, at: int, end: int, category: str, words: _Vocabulary
) -> Iterator[LabelledSecret]:
    found = words.after.match(text, end, end + MAX_VALUE_CHARS + 400)
    if found is None or words.not_after.match(found["suffix"] or ""):
        return
    group = "quoted" if found["quoted"] else "value"
    if category == "phrase":
        yield from _phrase(text, found)
        return
    joiner = found["sign"] or ""
    is_assigned = bool(joiner.strip()) and joiner.strip()[-1] in ":=：＝>→⇒("
    if joiner.strip() == "(" and group != "quoted":
        return
    if category == "login":
        yield from _login(text, found)
        return
    start, stop = _trimmed(text, *found.span(group))
    value = text[start:stop]
    if category == "code" and not any(sign.isdigit() for sign in value):
        return
    if re.match(r"\.{3}|…", text[stop : stop + 3]):
        return  # shortened
    if text[at:end].lower() in _KEYS and not _is_known_key(text, at, end, words) and not _is_long_key(value):
        return
    is_variable = joiner == "=" and (text[at:end].isupper() or text[stop : stop + 1] in {"", *" \n\"';&"})
    context = _Context(
        is_token=category == "token",
        is_quoted=group == "quoted",
        is_assigned=is_assigned,
        is_joined=bool(joiner.strip()),
        is_pin=text[at:end] == "PIN" or category == "code" or "code" in text[at:end].lower(),
        is_key=text[at:end].lower() == "apikey" or _is_known_key(text, at, end, words),
        is_variable=is_variable,
        ends="\n" not in joiner and bool(_END.match(text, stop)),
    )
    if is_secret_value(value, context):
        yield LabelledSecret(start, stop, KINDS[category], is_assigned)
    elif (
        joiner
        and category == "password"
        and (run := _WORDS.match(text, start))
        and _is_plain_password(run[0], context)
    ):
        yield LabelledSecret(*run.span(), KINDS[category], is_assigned)


_KEYS = frozenset({"key", "キー", "clé", "schlüssel"})


def _is_long_key(value: str) -> bool:
    """Return whether a value is a key whatever the key is for."""
    has_all = all(re.search(signs, value[:MAX_JUDGED_CHARS]) for signs in ("[a-z]", "[A-Z]", "[0-9]"))
    return has_all and len(value) >= MIN_LONG_KEY


_WORDS = re.compile(r"(?:[a-z]{3,10} ){3,7}[a-z]{3,10}(?=[.!]?\s*(?:\n|$))")
"""A few plain words up to the end of a line."""


def _value_before(
    text: str, at: int, end: int, category: str, words: _Vocabulary
) -> Iterator[LabelledSecret]:
    """Yield the value of "use … as the password"."""
    offset = max(0, at - _BEFORE_CHARS)
    if not _VERB_BEFORE.search(text, max(0, at - 60), at):
        return
    found = words.before.search(text[offset:at])
    if found is None or text[end : end + 1].isalnum() or words.not_after.match(text, end):
        return
    group = "quoted" if found["quoted"] else "value"
    start, stop = _trimmed(text, offset + found.start(group), offset + found.end(group))
    is_quoted = group == "quoted"
    context = _Context(is_token=category == "token", is_quoted=is_quoted, is_joined=True)
    is_key = text[at:end].lower() not in _KEYS or _is_known_key(text, at, end, words)
    if is_key and is_secret_value(text[start:stop], context):
        yield LabelledSecret(start, stop, KINDS[category], is_assigned=False)


def _in_column(text: str, at: int, end: int, category: str) -> Iterator[LabelledSecret]:
    """Yield the values below a label that heads the column of a table."""
    line = text.rfind("\n", max(0, at - MAX_ROW_CHARS), at) + 1
    stop = text.find("\n", end, end + MAX_ROW_CHARS)
    rule = _TABLE_RULE.match(text, stop + 1) if stop >= 0 and "|" in text[line:stop] else None
    if rule is None:
        return
    column = text.count("|", line, at)
    row = rule.end()
    context = _Context(is_token=category == "token", is_quoted=True, is_assigned=True, is_joined=True)
    for _ in range(MAX_TABLE_ROWS):
        cells = text[row : row + MAX_ROW_CHARS].partition("\n")[0].split("|")
        if not 0 <= column < len(cells) or len(cells) == 1:
            return
        before = row + sum(len(cell) + 1 for cell in cells[:column])
        start, last = _trimmed(text, before, before + len(cells[column]))
        if " " not in text[start:last] and is_secret_value(text[start:last], context):
            yield LabelledSecret(start, last, KINDS[category], is_assigned=True)
        row += sum(len(cell) + 1 for cell in cells)


_PAIR = re.compile(
    r"[\w.@+-]{1,80}[`\"']?(?:\s{0,2}:\s{0,2}|\s{1,2}[/|,]\s{1,2}|\s{1,2}(?:and|with|und|et|y)\s{1,2})"
    r"[`\"']?(?P<value>[^\s\"'`<>]{1,200})"
)
"""A user and a password."""


def _login(text: str, found: re.Match[str]) -> Iterator[LabelledSecret]:
    """Yield the password of "credentials: admin / …"."""
    start = found.start("quoted") if found["quoted"] else found.start("value")
    one = _PAIR.match(text, start)
    if one is None:
        return
    start, stop = _trimmed(text, *one.span("value"))
    context = _Context(is_joined=True)
    if text[stop : stop + 1] != "/" and is_secret_value(text[start:stop], context):
        yield LabelledSecret(start, stop, KINDS["login"], is_assigned=True)


_WORD_RUN = re.compile(r"(?:(?:\d{1,2}[.):]?\s{1,3})?[a-z]{3,8}(?:,?[ \n]{1,3}|\b)){12,24}")


def _phrase(text: str, found: re.Match[str]) -> Iterator[LabelledSecret]:
    start = found.start("quoted") if found["quoted"] else found.start("value")
    run = _WORD_RUN.match(text, start)
    if run is None or _FUNCTION_WORDS & {*re.findall(r"[a-z]+", run[0])}:
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
            and not _FUNCTION_WORDS & {*words}
        ):
            start = text.rfind(phrase, 0, end)
            yield LabelledSecret(start, start + len(phrase), KINDS["phrase"], is_assigned=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """How a value is written."""

    is_token: bool = False
    is_quoted: bool = False
    is_assigned: bool = False
    is_joined: bool = False
    """A sign or a verb is between the label and the value."""
    is_pin: bool = False
    is_key: bool = False
    """The words before the label say what the key opens."""
    is_variable: bool = False
    """The label is the name of an environment variable."""
    ends: bool = False
    """A sentence or line ends after the value."""


def is_secret_value(value: str, how: _Context) -> bool:
    """Return whether a value behind a label is a secret."""
    value = value[:MAX_JUDGED_CHARS]
    if len(value) < 4 or _SLOT.match(value) or len({*value}) == 1:
        return False
    if how.is_token:
        # Forty digits are a commit.
        is_hash = re.fullmatch(r"[0-9a-f-]+", value) and not (how.is_key and MIN_LONG_KEY <= len(value) != 40)
        is_long = how.is_joined or (len(value) >= MIN_UNJOINED and not is_hash)
        return is_long and is_random(value)
    if value.lower() in _vocabulary().plain | COMMON_PASSWORDS or _ORDINARY.fullmatch(value):
        return False
    if _is_strong(value):
        return how.is_joined or len(value) >= MIN_PLAIN
    if value.isdigit():
        return how.is_joined or how.is_pin
    return how.is_joined and _is_plain_password(value, how)


def _is_strong(value: str) -> bool:
    """Return whether a value has digits, signs or capitals as words do not have them."""
    if " " in value:
        return False
    has_letter = any(sign.isalpha() for sign in value)
    has_digit = any(sign.isdigit() for sign in value)
    has_sign = _SIGN.search(value if has_digit else value[:-1]) is not None
    if has_letter + has_digit + has_sign > 1:
        return True
    if has_digit and len(value) >= MIN_PLAIN and re.fullmatch(r"\d+(?:-\d+)+", value):
        return True
    return len(value) >= MIN_RANDOM and len(_HUMP.findall(value)) * 4 > len(value)


def _is_plain_password(value: str, how: _Context) -> bool:
    """Return whether a value of letters alone is a password."""
    if re.search(r"(?i)pass|secret|token|passwort|kennwort|contrase|clave", value) and not how.is_quoted:
        return False
    words = re.split(r"[\s_-]+", value)
    if len(words) > 1:
        is_phrase = len(words) >= 4 and all(re.fullmatch(r"[^\W\d_]{2,12}", one) for one in words)
        said = {one.lower() for one in words}
        stated = [one for one in said if one in _vocabulary().plain or _PARTICIPLE.match(one)]
        is_written = " " not in value and how.is_assigned and (how.is_quoted or how.is_variable)
        return (is_phrase or is_written) and not said & _FUNCTION_WORDS and len(stated) < 2 + how.is_quoted
    if not value.isalpha():
        return how.is_quoted and how.is_assigned
    is_statement = bool(_PARTICIPLE.match(value.lower()))
    if how.is_quoted or how.is_variable:
        return len(value) > 4 and not (is_statement and not how.is_assigned)
    is_name = _HUMP.search(value) is not None
    return how.ends and len(value) >= MIN_PLAIN and value.isascii() and not is_statement and not is_name


def is_statement(word: str) -> bool:
    """Return whether a word says something about a secret instead of being one."""
    small = word.lower()
    return small in _vocabulary().plain | _FUNCTION_WORDS or (
        word == small and bool(_PARTICIPLE.match(small))
    )


def is_passphrase(text: str, *, is_quoted: bool) -> bool:
    """Return whether plain words are a passphrase and no sentence."""
    return _is_plain_password(text, _Context(is_joined=True, is_quoted=is_quoted))


def is_login_value(value: str) -> bool:
    """Return whether a value beside a user may be a password: no address, version, name or template slot."""
    return not _SLOT.match(value) and not _ORDINARY.fullmatch(value)


def is_placeholder(secret: str) -> bool:
    """Return whether a text is a placeholder for a secret, as in a manual."""
    if _VARIABLE.match(secret) or _MANUAL.search(secret.lower()):
        return True
    return len(secret) > SHORT and len(set(secret)) < MIN_SIGNS


def is_random(value: str) -> bool:
    """Return whether a token looks random: letters and digits mixed, unlike in names."""
    value = value[:MAX_JUDGED_CHARS]
    if len(value) < MIN_RANDOM or _SLOT.match(value) or is_placeholder(value) or " " in value:
        return False
    if _NAME_WITH_NUMBER.fullmatch(value) and len(_HUMP.findall(value)) * 5 <= len(value):
        return False
    if _ORDINARY.fullmatch(value) or len({*value}) < 6:
        return False
    if re.fullmatch(r"\d{4,}(?:-\d{4,}){3,}", value):
        return True
    has_letter = any(sign.isalpha() for sign in value)
    has_digit = any(sign.isdigit() for sign in value)
    if has_letter and has_digit:
        runs = re.findall(r"\d+|[a-z]+|[A-Z]+", value)
        return len(runs) >= 4 or len(value) >= MIN_UNJOINED
    return has_letter and len(_HUMP.findall(value)) * 5 > len(value) and len(value) >= 12


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
        r"\s{0,3}(?::=|=>|->|→|⇒|={1,3}|:(?!//)|[：＝])\s{0,8}(?:[-*•]\s)?"
        r"|\s{1,3}value\s?=\s?|[;,]?\s(?:type|enter)\s|>|\("
        r"|[,;?!]\s(?:it|that|this)(?:['’]s|\sis)\s|[,;?!]\s(?:es|das)\sist\s|[,;?!]\s(?:c['’]est|es|это)\s"
        rf"|,\s(?=[A-Za-z0-9_-]{{24,200}}(?:[,.;)]|\s|$))|,\s[^\n,.:=;?!]{{1,40}},{verbs}"
        rf"|\s[^\n,.:=;?!]{{1,40}},\s(?:it|es|er|il|elle){verbs}"
    )
    dash = r"\s[-–—]{1,2}\s"
    plain = rf"[^\s{_OPEN}{_CLOSE}<>{_DENSE}]{{1,{MAX_VALUE_CHARS}}}+"
    quoted = rf"\\{{0,4}}[{_OPEN}](?P<quoted>[^\n{_CLOSE}]{{1,{MAX_VALUE_CHARS}}}+)"
    value = rf"\*{{0,2}}(?:{quoted}|(?P<value>{plain}))"
    after = (
        r"(?:s|es|n)?(?![A-Za-z0-9])(?P<joiner>(?:"
        r"(?P<suffix>(?:[_ -][^\W_]{1,20}){0,2}?)"
        r"[*_`\"'’”»」』)\]\\]{0,4}(?:\s?[(（][^()\n]{1,60}[)）])?"
        rf"(?:\s(?:{_either(joins['prepositions'])})[\s'’](?:[^\n.:=;?!]|\.(?=\w)){{1,60}}?)?"
        rf"(?P<sign>{signs}|{verbs}|{dense}|{dash})|\s(?:to|auf|à)\s|\s{{1,6}}(?:[-*•]\s)?)){value}"
    )
    before = (
        rf"(?:[{_OPEN}](?P<quoted>[^\n{_CLOSE}]{{4,100}})[{_CLOSE}]|(?<!\S)(?P<value>[^\s{_OPEN}{_CLOSE}]{{4,100}}))"
        r"(?:\s{1,2}(?:is|was|as|ist|als|est|comme|es|como)\s{1,2}(?:[^\W\d]{1,20}[\s'’-]{1,2}){0,4}|\s?[がは是]\s?)$"
    )
    spelled = [
        (label.replace("-", " "), name)
        for name in ("password", "token", "login", "phrase", "code")
        for label in labels[name]
    ]
    opens = _either(labels["opens"])
    small_words = _either([*joins["prepositions"], *joins["articles"]])
    return _Vocabulary(
        labels=tuple((label, _stem(label), name) for label, name in spelled),
        stems=frozenset(_stem(label) for label, _ in spelled),
        after=re.compile(after, re.IGNORECASE),
        before=re.compile(before, re.IGNORECASE),
        key_before=re.compile(rf"(?:{_either(labels['key_before'])})[ _-]?$", re.IGNORECASE),
        not_before=re.compile(rf"(?<![A-Za-z])(?:{_either(labels['not_before'])})[ _-]?$", re.IGNORECASE),
        not_after=re.compile(rf"[_ -]?(?:{_either(labels['not_after'])})\b", re.IGNORECASE),
        opens_before=re.compile(
            rf"(?<![A-Za-zÀ-ÿЀ-ӿ])(?:{opens})[^\W_]{{0,16}}(?:[\s_-]\w{{0,10}})?$", re.IGNORECASE
        ),
        opens_after=re.compile(
            rf"[\s_](?:(?:{small_words})[\s'’]?){{0,3}}(?:{opens})\w{{0,12}}",
            re.IGNORECASE,
        ),
        plain=frozenset(table["plain"]),
    )
