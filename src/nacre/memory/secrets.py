"""Detection of credentials in text by their form or their label (M16); the rules are in `data/secrets.json`.

A finding names the kind and the line, never the value. Every rule matches a form that a provider or a file
format defines; `labelled_secrets` finds what a word such as "password" introduces. Detection by entropy alone
reports too much to refuse a write.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from nacre.formatting import shorten
from nacre.memory.labelled_secrets import bare_phrases, labelled_secrets
from nacre.memory.secret_values import (
    COMMON_PASSWORDS,
    Grams,
    grams,
    is_chosen,
    is_login_value,
    is_passphrase,
    is_placeholder,
    is_random,
    is_statement,
    secret_table,
)
from nacre.memory.told_secrets import told_secrets
from nacre.memory.unlabelled_secrets import KIND as UNLABELLED
from nacre.memory.unlabelled_secrets import unlabelled_secrets
from nacre.messages.blocks import JsonObject

MAX_ROUNDS = 20
"""How often what is left of a text is searched for credentials again."""
MAX_POINTER_CHARS = 200
"""Characters of a text that is suggested instead of one with a credential."""
NOT_SAVED = "(not saved)"
"""Replaces the value of a credential in a text that only says where it is kept."""
ONLY_IN_BODY = "…"
"""Replaces the value of a credential in the title of a text that is saved with it."""
MIN_SQUEEZED = 6
"""Letters and digits of a value that is recognised in other spellings."""
_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s]|\\{1,8}+[nr])*+(?:-----END [A-Z0-9 ]{0,60}-----)?")
"""The rest of a key file."""


@dataclass(frozen=True, slots=True, order=True)
class SecretFinding:
    """A credential that was found, without its value."""

    line: int
    """Counted from one."""
    kind: str
    part: str = ""
    """What it is in, such as "the file name"; empty for the text, of which the line counts."""

    def __str__(self) -> str:
        return f"{self.kind} in {self.part or f'line {self.line}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRule:
    """A rule for one form of credential."""

    id: str
    kind: str
    keys: Mapping[str, Grams]
    """Every match contains one of these lower-case strings, here with their runs of three characters; empty
    for no such condition."""
    regex: re.Pattern[str]
    check: str | None
    """Name in `CHECKS` of a function that a match must pass."""
    starts: bool
    """Every match starts with a key, so that no other place has to be tried."""
    is_block: bool
    """The secret continues after the match, to the end of a key file."""


def find_secrets(text: str) -> list[SecretFinding]:
    """Return the kind and line of every credential in the text."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return sorted({SecretFinding(bisect_right(starts, start), kind) for start, _, kind in _spans(text)})


def find_in_draft(text: str, *, name: str = "", description: str = "", file: str = "") -> list[SecretFinding]:
    """Return the credentials of a text and of what is saved with it."""
    found = [
        *find_secrets(text),
        *(replace(one, part="the name") for one in find_secrets(name)),
        *(replace(one, part="the description") for one in find_secrets(description)),
        *find_in_name(file),
    ]
    # A label in one part may introduce the value of another.
    return found or find_secrets("\n".join((text, name, description)))


def find_in_name(name: str) -> list[SecretFinding]:
    """Return the credentials of a file name, in which a dash or an underscore replaces a space."""
    spaced = re.sub(r"[-_/]+", " ", name.removesuffix(".md"))
    return [replace(one, part="the file name") for one in find_secrets(name) or find_secrets(spaced)]


def redact(text: str) -> str:
    """Return the text with every credential replaced by the name of its kind."""
    # Repeated, because a credential next to another may only match once that one is removed.
    for _ in range(MAX_ROUNDS):
        if not (spans := sorted(_spans(text))):
            break
        pieces = []
        done = 0
        for start, end, kind in spans:
            if end > done:
                pieces += [text[done : max(done, start)], f"[removed: {kind}]"]
                done = end
        text = "".join([*pieces, text[done:]])
    return text


def pointer_text(text: str, shown: Iterable[str] = (), *, mark: str = NOT_SAVED) -> str:
    """Return the text without the values of its credentials, to save instead of it.

    `shown` are values that are removed as well, as `assigned_values` returns them. `mark` replaces a value.
    """
    for value in shown:
        text = text.replace(value, mark)
    return re.sub(r"\[removed: [^\]]{1,60}\]", mark, redact(text))


def pointer_advice(text: str, shown: Iterable[str] = ()) -> str:
    """Return what to save instead of a text with a credential: where it is kept, without the value."""
    values = tuple(shown)
    pointer = shorten(" ".join(pointer_text(text, values).split()), MAX_POINTER_CHARS)
    example = "" if repeats_value(pointer, values) else f", such as: {pointer}"
    return f"save where it is kept instead, without the value{example}"


def secret_values(text: str) -> frozenset[str]:
    """Return the values of all credentials in a text that are on one line."""
    values = (text[start:end] for start, end, _ in _spans(text))
    return frozenset(value for value in values if "\n" not in value)


def assigned_values(text: str) -> frozenset[str]:
    """Return the values of credentials that a text shows by their form, in an assignment or in a sentence.

    An ordinary word is one only where it is assigned: "the password is sunflower" may be prose.
    """
    small = _lower(text)
    found = [one for one in labelled_secrets(text, small) if not one.is_loose]
    labelled = [one for one in found if one.is_assigned or not text[one.start : one.end].isalpha()]
    by_form = ((start, end) for start, end, _ in _form_spans(text, small, grams(small)))
    spans = [*((one.start, one.end) for one in labelled), *by_form]
    return frozenset(text[start:end] for start, end in spans)


def repeats_value(text: str, values: Iterable[str]) -> bool:
    """Return whether a text repeats one of these values: as it is, spaced, reversed, or in base64 or hex."""
    squeezed = _squeezed(text)
    decoded = [data for token in re.findall(r"[A-Za-z0-9+/_-]{8,}", text) for data in _decodings(token)]
    return any(
        re.search(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", text, re.IGNORECASE)
        or (len(key := _squeezed(value)) >= MIN_SQUEEZED and (key in squeezed or key[::-1] in squeezed))
        or any(value.encode() in data for data in decoded)
        for value in values
    )


def _squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())


def _decodings(token: str) -> Iterator[bytes]:
    with suppress(ValueError):
        yield _decoded(token)
    with suppress(ValueError):
        yield bytes.fromhex(token)


def refusal(findings: Sequence[SecretFinding]) -> str:
    """Return one line that says why a text is refused."""
    return f"the text seems to hold credentials ({', '.join(map(str, findings))}); take them out"


@cache
def secret_rules() -> tuple[SecretRule, ...]:
    """Return the rules."""
    rules: list[JsonObject] = secret_table()["rules"]
    return tuple(
        SecretRule(
            id=str(rule["id"]),
            kind=str(rule["kind"]),
            keys={str(key): grams(str(key)) for key in keys}
            if isinstance(keys := rule["keys"], list)
            else {},
            regex=re.compile(str(rule["regex"])),
            check=None if (check := rule.get("check")) is None else str(check),
            starts=rule.get("starts") is True,
            is_block=rule.get("block") is True,
        )
        for rule in rules
    )


_NARROW = {
    wide: wide - 0xFEE0 for wide in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}
"""Letters and digits of full width, as ASCII."""
_WIDE = re.compile("[\uff10-\uff5a]")


def _lower(text: str) -> str:
    # One sign becomes two in lower case, which would move every later place.
    return text.replace("İ", "I").lower()


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each secret."""
    text = text.translate(_NARROW) if _WIDE.search(text) else text
    small = _lower(text)
    known = grams(small)
    named = [
        *((one.start, one.end, one.kind) for one in labelled_secrets(text, small)),
        *((one.start, one.end, one.kind) for one in bare_phrases(text)),
        *_form_spans(text, small, known),
    ]
    yield from named
    others = (
        *((one.start, one.end) for one in unlabelled_secrets(text)),
        *((one.start, one.end) for one in told_secrets(text, small, known)),
    )
    for first, last in others:
        if not any(start < last and first < end for start, end, _ in named):
            yield first, last, UNLABELLED


def _form_spans(text: str, small: str, known: Grams) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of each secret with a known form; `known` are the runs of the text."""
    for rule in secret_rules():
        if rule.keys and not any(runs <= known and key in small for key, runs in rule.keys.items()):
            continue
        matches = _at_keys(rule, text, small) if rule.starts else rule.regex.finditer(text)
        for found in matches:
            group: str | int = "secret" if "secret" in rule.regex.groupindex else 0
            if is_placeholder(found[group]) or (rule.check and not CHECKS[rule.check](found)):
                continue
            if rule.is_block:
                body = _KEY_BODY.match(text, found.end())
                yield found.start(), body.end() if body else found.end(), rule.kind
            else:
                yield found.start(group), found.end(group), rule.kind


def _at_keys(rule: SecretRule, text: str, small: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a rule that start with one of its keys."""
    for key in rule.keys:
        at = small.find(key)
        while at >= 0:
            if found := rule.regex.match(text, at):
                yield found
            at = small.find(key, at + 1)


_SAMPLE_SIGNATURE = "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
"""Of the token that every introduction to JSON web tokens shows."""
_TEST_CARDS = frozenset(
    "4111111111111111 4242424242424242 4012888888881881 4000056655665556 5555555555554444 5105105105105100 "
    "5200828282828210 2223003122003222 378282246310005 371449635398431 6011111111111117 6011000990139424 "
    "3530111333300000 30569309025904 38520000023237".split()
)
"""Numbers that payment providers publish for tests."""
_CARD_LENGTHS = MappingProxyType({(3, 0): 14, (3, 6): 14, (3, 8): 14, (3, 4): 15, (3, 7): 15})
"""Digits of a card number by its first two (Diners Club, American Express); all others have 16."""
_NOWHERE = re.compile(r"(?:.*\.)?(?:example(?:\.com|\.org|\.net)?|test|invalid)", re.IGNORECASE)
"""Hosts reserved for documentation."""


def _is_web_token(found: re.Match[str]) -> bool:
    """Return whether the head is JSON with an algorithm, and it is not the well-known example token."""
    try:
        head = json.loads(_decoded(found["head"]))
        json.loads(_decoded(found["payload"]))
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and "alg" in head and found["signature"] != _SAMPLE_SIGNATURE


def _is_password(found: re.Match[str]) -> bool:
    """Return whether it is no tutorial password, not the user name, and not for a reserved host."""
    named = found.groupdict()
    secret = named["secret"].lower()
    return not (
        secret in COMMON_PASSWORDS
        or secret == (named.get("user") or "").lower()
        or _NOWHERE.fullmatch(named.get("host") or "")
    )


def _is_login(found: re.Match[str]) -> bool:
    """Return whether it is Base64 of a user, a colon and a password that is no placeholder."""
    try:
        user, colon, password = _decoded(found["secret"]).decode("ascii").partition(":")
    except ValueError:
        return False
    known = (
        password.lower() in COMMON_PASSWORDS or password.lower() == user.lower() or is_placeholder(password)
    )
    return bool(colon and password) and (user + password).isprintable() and not known


_SIGNS = re.compile(r"[!#$%^&*?~]")
_USERS = frozenset(
    "admin administrator root user guest service deploy operator ops postgres mysql oracle sa sysadmin "
    "superuser support manager ubuntu pi ec2-user".split()
)
"""Users whose password may have no sign."""


def _is_pair(found: re.Match[str]) -> bool:
    """Return whether a user is followed by a password: "root / …" or "backup:…"."""
    secret = found["secret"].rstrip(".:")
    classes = sum(re.search(signs, secret) is not None for signs in ("[a-z]", "[A-Z]", "[0-9]"))
    has_sign = _SIGNS.search(secret) is not None
    if secret.lower() in COMMON_PASSWORDS or not is_login_value(secret):
        return False
    if found["between"] == ":":
        return has_sign and classes == len("aA1")
    is_user = found["user"].lower() in _USERS and "." not in secret
    is_account = re.fullmatch(r"[a-z]+[.@][a-z.@-]+", found["user"]) is not None and is_chosen(secret)
    return classes > 1 and (has_sign or is_user or is_account)


_COMMANDS = frozenset(
    "npm npx pnpm yarn docker podman kubectl git make uv python cargo go code vim sudo".split()
)
_ABOUT_ACCOUNTS = re.compile(
    r"(?i)recover|security|secret question|bank|account|reset|verif|password|wiederherst|sicherheit|konto"
    r"|compte|banque|récup|cuenta|banco|восстан|банк|сч[её]т"
)


def _is_unlocking(found: re.Match[str]) -> bool:
    """Return whether the words are a passphrase and no sentence or command."""
    first = found["secret"].split()[0].lower()
    is_quoted = found.string[found.start("secret") - 1] in '"“„«`'
    return first not in _COMMANDS and is_passphrase(found["secret"], is_quoted=is_quoted)


def _is_answer(found: re.Match[str]) -> bool:
    """Return whether the words answer a question and do not describe the answer."""
    words = found["secret"].split()
    before = found.string[max(0, found.start("secret") - 20) : found.start("secret")].rstrip(' "“„«')
    is_assigned = before[-1:] in {*":=："}
    is_name = not (words[0].isascii() and words[0][0].islower())
    is_redacted = before.endswith("[removed:")
    return (is_assigned or is_name) and not is_redacted and not is_statement(words[0])


def _is_personal(found: re.Match[str]) -> bool:
    """Return whether a fact about a person is the answer that opens an account."""
    start = found.string.rfind("\n", 0, found.start()) + 1
    line = found.string[max(start, found.start() - 120) : found.end()]
    return _is_answer(found) and _ABOUT_ACCOUNTS.search(line) is not None


def _is_key_file(found: re.Match[str]) -> bool:
    try:
        return b"PRIVATE KEY-----" in _decoded(found["secret"])[:80]
    except ValueError:
        return False


def _is_mixed(found: re.Match[str]) -> bool:
    """Return whether letters and digits are mixed, unlike in words with dashes."""
    secret = found["secret"]
    return any(sign.isdigit() for sign in secret) and any(sign.isalpha() for sign in secret)


def _is_option(found: re.Match[str]) -> bool:
    """Return whether the option of a command is a password: no tutorial password, port or path."""
    secret = found["secret"].rstrip(".,;)")
    is_ordinary = secret.lower() in COMMON_PASSWORDS or re.fullmatch(r"[\d:.]+|[~./].*|-.*|\w+=.*", secret)
    return len(secret) > 2 and not is_ordinary


def _is_random(found: re.Match[str]) -> bool:
    secret = found["secret"]
    is_id = re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", secret)
    return is_id is None and is_random(secret)


def _is_chosen(found: re.Match[str]) -> bool:
    return is_chosen(found["secret"].rstrip(".!?:)"))


def _is_seed(found: re.Match[str]) -> bool:
    """Return whether base 32 has a digit, or too few vowels for words."""
    secret = re.sub(r"[ -]", "", found["secret"]).lower()
    return any(sign.isdigit() for sign in secret) or sum(sign in "aeiou" for sign in secret) * 5 < len(secret)


def _is_card(found: re.Match[str]) -> bool:
    """Return whether length and check digit are those of a card, and it is not published for tests."""
    digits = [int(sign) for sign in found["secret"] if sign.isdigit()]
    if len(digits) != _CARD_LENGTHS.get((digits[0], digits[1]), 16):
        return False
    doubled = sum(digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2])
    is_test = "".join(map(str, digits)) in _TEST_CARDS
    if re.search(
        r"(?i)(?:order|invoice|tracking|ticket|ref|id|sku|imei|build|run|job)\W{0,3}$",
        found.string[max(0, found.start() - 12) : found.start()],
    ):
        return False
    return (doubled + sum(digits[-1::-2])) % 10 == 0 and not is_test


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
    "jwt": _is_web_token,
    "password": _is_password,
    "basic": _is_login,
    "pem": _is_key_file,
    "mixed": _is_mixed,
    "option": _is_option,
    "random": _is_random,
    "chosen": _is_chosen,
    "seed": _is_seed,
    "card": _is_card,
    "snowflake": _is_snowflake,
    "pair": _is_pair,
    "words": _is_unlocking,
    "answer": _is_answer,
    "personal": _is_personal,
})  # fmt: skip
"""By the names that the rules use."""
