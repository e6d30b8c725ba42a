"""Decisions about a value beside a label: a secret, a placeholder, or an ordinary word (M16)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from nacre.prompts import packaged_file

MAX_JUDGED_CHARS = 200
"""Of a longer value only the beginning is judged."""
MIN_PLAIN = 6
"""Letters of an ordinary word that counts as a password without quotation marks."""
MIN_COMPOUND = 12
"""Characters of two ordinary words with a dash that count as a password without quotation marks."""
MIN_DASHED = 16
"""Characters of four or more words with dashes between that are a password; a sentence has spaces."""
MIN_RANDOM = 8
"""Characters of a token without a known form."""
MIN_LONG_KEY = 16
"""Characters of a value that counts as a key after any kind of key."""
MIN_UNJOINED = 16
"""Characters of a token directly after its label, as in "the token 8f3b…"."""
MIN_SIGNS = 6
"""A text with fewer different characters (`xxxx`, `0000-0000`) is a placeholder."""
SHORT = 12
"""Up to this length a password may be chosen by a person and have few different characters."""
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
    | (?:SHA\d+|MD5):\S+ | FRITZ!\w+ | \d{1,2}[ap]m-\d{1,2}[ap]m
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
FUNCTION_WORDS = frozenset(
    "the and for are was not but has have from into our its which who how der die das und ist nicht mit "
    "für ein eine les des est une dans pour avec los las una con por que del is in on of to a an it be "
    "by or as at we enough already because since after before until while only when then than every "
    "each some any all most more less other people users must should".split()
)
"""Words that are in no passphrase."""
_COMPOUND = frozenset(
    "self service side server client level factor faktor based free time text single multi double half full "
    "manager check reset user account sign case auto back front high long well never plus".split()
)
"""Parts of words with a dash that describe a password."""
_SIGN = re.compile(r"[!@#$%^&*+=?~|\\]")
_HUMP = re.compile(r"[a-z][A-Z]")


@cache
def secret_table() -> dict[str, Any]:
    """Return the table of rules and words."""
    text = packaged_file("nacre.memory", "data/secrets.json").decode()
    table: dict[str, Any] = json.loads(text)
    return table


Grams = frozenset[tuple[str, str, str]]


def grams(text: str) -> Grams:
    """Return all runs of three characters of a text: one that lacks a run of a word lacks the word."""
    return frozenset(zip(text, text[1:], text[2:], strict=False))


@cache
def _plain() -> frozenset[str]:
    """Return words that say something about a secret."""
    return frozenset(secret_table()["plain"])


@cache
def _no_passwords() -> frozenset[str]:
    """Return words that say something about a secret, and passwords of tutorials."""
    return _plain() | COMMON_PASSWORDS


def is_long_key(value: str) -> bool:
    """Return whether a value is a key whatever the key is for."""
    has_all = all(re.search(signs, value[:MAX_JUDGED_CHARS]) for signs in ("[a-z]", "[A-Z]", "[0-9]"))
    return has_all and len(value) >= MIN_LONG_KEY and is_random(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueContext:
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
    is_codeword: bool = False
    """The label introduces a word that is spoken."""
    ends: bool = False
    """A sentence or line ends after the value."""


def is_secret_value(value: str, how: ValueContext) -> bool:
    """Return whether a value behind a label is a secret."""
    value = value[:MAX_JUDGED_CHARS]
    if how.is_pin:
        value = value.rstrip("#*")
    if how.is_codeword and how.is_quoted and not value.isascii() and len(value) > 1:
        return True
    if len(value) < 4 or _SLOT.match(value) or len({*value}) == 1:
        return False
    if how.is_token:
        # Forty digits are a commit.
        is_hash = re.fullmatch(r"[0-9a-f-]+", value) and not (how.is_key and MIN_LONG_KEY <= len(value) != 40)
        is_long = how.is_joined or (len(value) >= MIN_UNJOINED and not is_hash)
        return is_long and is_random(value)
    if value.lower() in _no_passwords() or _ORDINARY.fullmatch(value):
        return False
    if is_strong(value):
        return how.is_joined or len(value) >= MIN_PLAIN
    if value.isdigit():
        return how.is_joined or how.is_pin
    return how.is_joined and is_plain_password(value, how)


def is_strong(value: str) -> bool:
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


def is_plain_password(value: str, how: ValueContext) -> bool:
    """Return whether a value of letters alone is a password."""
    if re.search(r"(?i)pass|secret|token|passwort|kennwort|contrase|clave", value) and not how.is_quoted:
        return False
    words = re.split(r"[\s_-]+", value)
    if len(words) > 1:
        if " " not in value and how.ends and len(words) >= 4 and len(value) >= MIN_DASHED:
            return (
                all(re.fullmatch(r"[^\W\d_]{2,12}", one) for one in words) and words[0] not in FUNCTION_WORDS
            )
        is_phrase = len(words) >= 4 and all(re.fullmatch(r"[^\W\d_]{2,12}", one) for one in words)
        said = {one.lower() for one in words}
        stated = [one for one in said if one in _plain() or _PARTICIPLE.match(one)]
        is_written = " " not in value and how.is_assigned and (how.is_quoted or how.is_variable)
        if (
            not is_written
            and how.is_assigned
            and how.ends
            and len(value) >= MIN_COMPOUND
            and " " not in value
        ):
            return all(len(one) > 3 and one.isalpha() for one in said) and not stated and not said & _COMPOUND
        return (is_phrase or is_written) and not said & FUNCTION_WORDS and len(stated) < 2 + how.is_quoted
    if not value.isalpha():
        return how.is_quoted and how.is_assigned
    is_statement = bool(_PARTICIPLE.match(value.lower()))
    if how.is_quoted or how.is_variable:
        return len(value) > (4 if value.isascii() else 3) and not (is_statement and not how.is_assigned)
    is_name = _HUMP.search(value) is not None
    return how.ends and len(value) >= MIN_PLAIN and value.isascii() and not is_statement and not is_name


_NAMED = frozenset(
    """
    user users node host server staging prod production test tests python phase page chapter room step level
    build release line port version group team stage cluster db shard worker job run task issue ticket sprint
    week day year month point item case figure table section rule option slide gate floor platform terminal
    model gpt claude app api web site mac win windows ubuntu debian postgres postgresql mysql redis java php
    ruby gcc clang cuda utf iso sha md aes rsa bit settings config commit rev ns queue topic zone region area
    district class grade exam lesson unit part vol volume auth v gen alpha beta rc file form field column key
    token login client service layer input output param arg id num no nr art kapitel seite raum zimmer
    """.split()
)
"""Words that a number follows in names of things."""
_NOT_CHOSEN = re.compile(
    r"[0-9a-f]{7,}|[0-9a-f-]{20,}|[A-Z]{1,6}[-_]?\d+[A-Za-z]?|v\d.*|\d+[a-z]{1,6}|\d+-[a-z-]+|[A-Z][A-Z0-9_]+"
    r"|(?:19|20)\d\d[-_].*|Q\d.*|.*\d\.\d.*|.*[/\\@<>(){}\[\]=:;|,`$%].*|.*\.[A-Za-z].*"
)
"""Hashes, ids, versions, sizes, constants, dates, paths, addresses and code."""
_NUMBERED = re.compile(r"([^\W\d_]+(?:[-_][^\W\d_]+)*)[-_]?(\d+)")
MAX_CHOSEN = 40


def is_chosen(value: str) -> bool:
    """Return whether a word looks like a password that a person chose, wherever it is in a sentence."""
    if not MIN_PLAIN <= len(value) <= MAX_CHOSEN or _SLOT.match(value) or is_placeholder(value):
        return False
    if _ORDINARY.fullmatch(value) or value.lower() in _no_passwords() or _NOT_CHOSEN.fullmatch(value):
        return False
    if not (any(sign.isalpha() for sign in value) and any(sign.isdigit() for sign in value)):
        return False
    if named := _NUMBERED.fullmatch(value):
        parts = re.split("[-_]", named[1].lower())
        return (len(named[2]) > 1 or len(parts) > 1) and not _NAMED & {*parts}
    return True


def is_numbered_name(value: str) -> bool:
    """Return whether a value is the name of a thing with a number, such as `python3`."""
    named = _NUMBERED.fullmatch(value)
    return named is not None and bool(_NAMED & {*re.split("[-_]", named[1].lower())})


_MACHINE = re.compile(r"[a-z]{2,}(?:-[a-z0-9]+)*-\d{1,4}[a-z]?")
_MACHINE_WORDS = (
    r"(?:database|db|datenbank|server|host|machine|replica|node|cluster|instance|gateway|staging|production|prod"
    r"|mirror|runner|数据库|服务器|主机)"
)
_BEFORE_MACHINE = re.compile(
    rf"""
    (?<![a-z]){_MACHINE_WORDS}(?:\s?(?:is|are|ist|was|现在是|现在|是))?(?:\s(?:now|jetzt|called|named))?\s?$
    | \b(?:runs|running|lives|hosted|deployed|läuft)(?:\snow|\sjetzt)?\s(?:on|to|auf)\s$
    | (?<!\bit\s)\b(?:moved|migrated|umgezogen)(?:\s(?:from|von)\s\S+)?\s(?:to|auf|nach)\s$
    | {_MACHINE_WORDS}\s(?:has\s)?(?:switched|changed)(?:\sfrom\s\S+)?\sto\s$
    | \b(?:called|named|heißt|namens)\s$
    """,
    re.VERBOSE,
)
_MACHINE_OPENED = re.compile(
    r"\b(?:passwords?|passwort|passphrase|logins?|keys?|credentials|accounts?|zugang)\s(?:of|for|für|von)\s$"
    r"|\b(?:access|(?:log|sign)(?:s|ged|ging|ed|ing)?\sin)\s?to\s$"
)
"""Before what a credential opens."""
_CREDENTIAL_WORD = re.compile(
    r"passw|passp|kennw|pwd|\bpw\b|\bpin\b|login(?! (?:host|server|node|machine))"
    r"|log(?:s|ged|ging)? in|sign(?:s|ed)? ?in|secret|\bkey\b|token|cred|zugang|密码|口令"
)


def is_named_machine(text: str, start: int, end: int) -> bool:
    """Return whether a value looks like the name of a machine, and its clause says that it is one."""
    if not _MACHINE.fullmatch(text, start, end):
        return False
    clause = re.split(r"[.,;:!?，。；\n]", text[max(0, start - MAX_JUDGED_CHARS) : start].lower())[-1]
    if _MACHINE_OPENED.search(clause):
        return True
    return _BEFORE_MACHINE.search(clause) is not None and _CREDENTIAL_WORD.search(clause) is None


def is_ordinary(value: str) -> bool:
    """Return whether a value is a version, date, address, path, id or another form that is no password."""
    return bool(_SLOT.match(value) or _ORDINARY.fullmatch(value)) or value.lower() in _plain()


def is_statement(word: str) -> bool:
    """Return whether a word says something about a secret instead of being one."""
    small = word.lower()
    return small in _plain() | FUNCTION_WORDS or (word == small and bool(_PARTICIPLE.match(small)))


def is_passphrase(text: str, *, is_quoted: bool) -> bool:
    """Return whether plain words are a passphrase and no sentence."""
    return is_plain_password(text, ValueContext(is_joined=True, is_quoted=is_quoted))


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
