"""Credentials in a text, found by their form (M16): the rules are data, `data/secrets.json`.

A finding names the kind and the line, never the value. Every rule is anchored on a form that a provider or a
file format fixes; guesses by entropy are too noisy to refuse a write on.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from nacre.messages.blocks import JsonObject

_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s]|(?=\\[nr])\\.)*+(?:-----END [A-Z0-9 ]{0,60}-----)?")
"""What follows the first characters of a key file."""


@dataclass(frozen=True, slots=True, order=True)
class SecretFinding:
    """A credential, without its value."""

    line: int
    """Counted from one."""
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} in line {self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRule:
    """One form of credential."""

    id: str
    kind: str
    keys: tuple[str, ...]
    """One of these, in lower case, is in every text the rule can match; none where there is no such word."""
    regex: re.Pattern[str]
    check: str | None
    """What a match must also pass, by its name in `CHECKS`."""
    is_block: bool
    """The secret goes on after the match, to the end of a key file."""


def find_secrets(text: str) -> list[SecretFinding]:
    """Every credential in the text: its kind and its line."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return sorted({SecretFinding(bisect_right(starts, span.start), span.kind) for span in _spans(text)})


def redact(text: str) -> str:
    """The text with every credential replaced by the name of its kind."""
    # Again until nothing is left: one that was glued to another shows only when that is gone.
    while spans := sorted(_spans(text)):
        text = _without(text, spans)
    return text


def refusal(findings: Sequence[SecretFinding]) -> str:
    """One line that says why a text is not written."""
    return f"the text seems to hold credentials ({', '.join(map(str, findings))}); take them out"


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """The rules as shipped."""
    text = resources.files("nacre.memory").joinpath("data/secrets.json").read_text(encoding="utf-8")
    table: dict[str, list[JsonObject]] = json.loads(text)
    return tuple(_parsed(each) for each in table["rules"])


@dataclass(frozen=True, slots=True, order=True)
class _SecretSpan:
    start: int
    end: int
    kind: str


def _spans(text: str) -> Iterator[_SecretSpan]:
    """Where the secrets themselves stand."""
    small = text.lower()
    for rule in secret_rules():
        if rule.keys and not any(key in small for key in rule.keys):
            continue
        for found in rule.regex.finditer(text):
            group: str | int = "secret" if "secret" in rule.regex.groupindex else 0
            if is_placeholder(found[group]) or (rule.check and not CHECKS[rule.check](found)):
                continue
            if rule.is_block:
                body = _KEY_BODY.match(text, found.end())
                yield _SecretSpan(found.start(), body.end() if body else found.end(), rule.kind)
            else:
                yield _SecretSpan(found.start(group), found.end(group), rule.kind)


def _without(text: str, spans: Sequence[_SecretSpan]) -> str:
    pieces = []
    done = 0
    for span in spans:
        if span.end <= done:
            continue
        pieces += [text[done : max(done, span.start)], f"[removed: {span.kind}]"]
        done = span.end
    return "".join([*pieces, text[done:]])


def _parsed(value: JsonObject) -> SecretRule:
    keys = value["keys"]
    check = value.get("check")
    return SecretRule(
        id=str(value["id"]),
        kind=str(value["kind"]),
        keys=tuple(map(str, keys)) if isinstance(keys, list) else (),
        regex=re.compile(str(value["regex"])),
        check=None if check is None else str(check),
        is_block=value.get("block") is True,
    )


MIN_SIGNS = 6
"""A run of fewer different characters (`xxxx`, `0000-0000`) stands for a secret and is none."""
SHORT = 12
"""Up to so many characters a person chose it: then few different ones say nothing."""
CHECKSUM_DIGITS = 6
"""How many base-62 digits a CRC-32 takes."""

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MANUAL = re.compile(
    r"example|placeholder|changeme|redacted|replace[-_]?me"
    r"|eby8vdm02xnocqflquwj"  # the public key of a storage emulator
    r"|01234567|12345678|abcdefgh|xxxx|\*\*\*|\.\.\.|…"
    r"|(?:^|[-_ ])(?:your|fake|dummy|sample|insert|goes|here)(?:[-_ ]|$)"
)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]+$|[{(])|[{<\[]|%(?:[sd(]|[A-Z_]+%)|\*+$")
"""What a variable, a template's slot or a blanked value begins with."""
_COMMON = frozenset(
    "password passwd passw0rd pass pwd secret token postgres mysql mariadb mongo redis root admin user "
    "username test testing guest default none null empty minio rabbitmq sa dev demo local".split()
)
"""Passwords that stand in every tutorial."""
_NOWHERE = re.compile(r"(?:.*\.)?(?:example(?:\.com|\.org|\.net)?|test|invalid)", re.IGNORECASE)
"""Hosts that are reserved for documentation."""


def is_placeholder(secret: str) -> bool:
    """Whether this stands where a secret would be, as in a manual."""
    if _VARIABLE.match(secret) or _MANUAL.search(secret.lower()):
        return True
    return len(secret) > SHORT and len(set(secret)) < MIN_SIGNS


def _has_checksum(found: re.Match[str]) -> bool:
    """The last six digits are the CRC-32 of the rest, in base 62."""
    body = found["secret"][:-CHECKSUM_DIGITS]
    digits = found["secret"][-CHECKSUM_DIGITS:]
    value = 0
    for digit in digits:
        value = value * len(_BASE62) + _BASE62.index(digit)
    return value == zlib.crc32(body.encode())


def _is_web_token(found: re.Match[str]) -> bool:
    """The head decodes to a JSON object that names an algorithm; the well-known demonstration is none."""
    try:
        head = json.loads(_decoded(found["head"]))
        payload = json.loads(_decoded(found["payload"]))
    except (ValueError, RecursionError):
        return False
    is_demonstration = isinstance(payload, dict) and payload.get("sub") == "1234567890"
    return isinstance(head, dict) and "alg" in head and not is_demonstration


def _is_password(found: re.Match[str]) -> bool:
    """Not a word of the tutorials, not the user's name again, not on a host that cannot exist."""
    named = found.groupdict()
    secret = named["secret"].lower()
    return not (
        secret in _COMMON
        or secret == (named.get("user") or "").lower()
        or _NOWHERE.fullmatch(named.get("host") or "")
    )


def _is_login(found: re.Match[str]) -> bool:
    """Base64 of a user, a colon and a password that is no word of the tutorials."""
    try:
        user, colon, password = _decoded(found["secret"]).decode("ascii").partition(":")
    except ValueError:
        return False
    known = password.lower() in _COMMON or password.lower() == user.lower() or is_placeholder(password)
    return bool(colon and password) and (user + password).isprintable() and not known


def _is_key_file(found: re.Match[str]) -> bool:
    try:
        return b"PRIVATE KEY-----" in _decoded(found["secret"])[:80]
    except ValueError:
        return False


def _is_mixed(found: re.Match[str]) -> bool:
    """Letters and digits: words with dashes between them are not what a machine makes."""
    secret = found["secret"]
    return any(sign.isdigit() for sign in secret) and any(sign.isalpha() for sign in secret)


def _is_snowflake(found: re.Match[str]) -> bool:
    """The first part is a number in base64."""
    try:
        return _decoded(found["id"]).decode("ascii").isdigit()
    except ValueError:
        return False


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if {*"-_"} & {*text} else None)
    except binascii.Error as error:
        raise ValueError("not base64") from error


CHECKS: Mapping[str, Callable[[re.Match[str]], bool]] = MappingProxyType({
    "crc": _has_checksum,
    "jwt": _is_web_token,
    "password": _is_password,
    "basic": _is_login,
    "pem": _is_key_file,
    "mixed": _is_mixed,
    "snowflake": _is_snowflake,
})  # fmt: skip
"""By the names that the rules use."""
