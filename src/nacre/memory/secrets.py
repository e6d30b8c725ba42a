"""Detection of credentials in text by their form (M16); the rules are in `data/secrets.json`.

A finding names the kind and the line, never the value. Every rule matches a form that a provider or a file
format defines; detection by entropy reports too much to refuse a write.
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
"""The rest of a key file."""


@dataclass(frozen=True, slots=True, order=True)
class SecretFinding:
    """A credential that was found, without its value."""

    line: int
    """Counted from one."""
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} in line {self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRule:
    """A rule for one form of credential."""

    id: str
    kind: str
    keys: tuple[str, ...]
    """Every match contains one of these lower-case strings; empty for no such condition."""
    regex: re.Pattern[str]
    check: str | None
    """Name in `CHECKS` of a function that a match must pass."""
    is_block: bool
    """The secret continues after the match, to the end of a key file."""


def find_secrets(text: str) -> list[SecretFinding]:
    """Return the kind and line of every credential in the text."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return sorted({SecretFinding(bisect_right(starts, span.start), span.kind) for span in _spans(text)})


def redact(text: str) -> str:
    """Return the text with every credential replaced by the name of its kind."""
    # Repeated, because a credential next to another may only match once that one is removed.
    while spans := sorted(_spans(text)):
        text = _without(text, spans)
    return text


def refusal(findings: Sequence[SecretFinding]) -> str:
    """Return one line that says why a text is refused."""
    return f"the text seems to hold credentials ({', '.join(map(str, findings))}); take them out"


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """Return the rules."""
    text = resources.files("nacre.memory").joinpath("data/secrets.json").read_text(encoding="utf-8")
    table: dict[str, list[JsonObject]] = json.loads(text)
    return tuple(_parsed(each) for each in table["rules"])


@dataclass(frozen=True, slots=True, order=True)
class _SecretSpan:
    start: int
    end: int
    kind: str


def _spans(text: str) -> Iterator[_SecretSpan]:
    """Yield the positions of the secrets."""
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
"""A text with fewer different characters (`xxxx`, `0000-0000`) is a placeholder."""
SHORT = 12
"""Up to this length a password may be chosen by a person and have few different characters."""
CHECKSUM_DIGITS = 6
"""Base-62 digits of a CRC-32."""

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MANUAL = re.compile(
    r"example|placeholder|changeme|redacted|replace[-_]?me"
    r"|eby8vdm02xnocqflquwj"  # the public key of a storage emulator
    r"|01234567|12345678|abcdefgh|xxxx|\*\*\*|\.\.\.|…"
    r"|(?:^|[-_ ])(?:your|fake|dummy|sample|insert|goes|here)(?:[-_ ]|$)"
)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]+$|[{(])|[{<\[]|%(?:[sd(]|[A-Z_]+%)|\*+$")
"""The start of a variable, a template slot or a masked value."""
_COMMON = frozenset(
    "password passwd passw0rd pass pwd secret token postgres mysql mariadb mongo redis root admin user "
    "username test testing guest default none null empty minio rabbitmq sa dev demo local".split()
)
"""Passwords of tutorials."""
_NOWHERE = re.compile(r"(?:.*\.)?(?:example(?:\.com|\.org|\.net)?|test|invalid)", re.IGNORECASE)
"""Hosts reserved for documentation."""


def is_placeholder(secret: str) -> bool:
    """Return whether a text is a placeholder for a secret, as in a manual."""
    if _VARIABLE.match(secret) or _MANUAL.search(secret.lower()):
        return True
    return len(secret) > SHORT and len(set(secret)) < MIN_SIGNS


def _has_checksum(found: re.Match[str]) -> bool:
    """Return whether the last six digits are the CRC-32 of the rest, in base 62."""
    body = found["secret"][:-CHECKSUM_DIGITS]
    digits = found["secret"][-CHECKSUM_DIGITS:]
    value = 0
    for digit in digits:
        value = value * len(_BASE62) + _BASE62.index(digit)
    return value == zlib.crc32(body.encode())


def _is_web_token(found: re.Match[str]) -> bool:
    """Return whether the head is JSON with an algorithm, and it is not the well-known example token."""
    try:
        head = json.loads(_decoded(found["head"]))
        payload = json.loads(_decoded(found["payload"]))
    except (ValueError, RecursionError):
        return False
    is_demonstration = isinstance(payload, dict) and payload.get("sub") == "1234567890"
    return isinstance(head, dict) and "alg" in head and not is_demonstration


def _is_password(found: re.Match[str]) -> bool:
    """Return whether it is no tutorial password, not the user name, and not for a reserved host."""
    named = found.groupdict()
    secret = named["secret"].lower()
    return not (
        secret in _COMMON
        or secret == (named.get("user") or "").lower()
        or _NOWHERE.fullmatch(named.get("host") or "")
    )


def _is_login(found: re.Match[str]) -> bool:
    """Return whether it is Base64 of a user, a colon and a password that is no placeholder."""
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
    """Return whether letters and digits are mixed, unlike in words with dashes."""
    secret = found["secret"]
    return any(sign.isdigit() for sign in secret) and any(sign.isalpha() for sign in secret)


def _is_snowflake(found: re.Match[str]) -> bool:
    """Return whether the first part is a number in base64."""
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
