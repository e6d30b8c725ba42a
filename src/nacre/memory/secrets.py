"""Credentials in a text, found by their form (M16): the rules are data, `data/secrets.json`.

A finding names the kind and the line, never the value. Every rule is anchored on a form that a provider or a
file format fixes; guesses by entropy are too noisy to refuse a write on.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from nacre.memory.secret_checks import CHECKS, is_placeholder
from nacre.messages.blocks import JsonObject

_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s]|(?=\\[nr])\\.)*+(?:-----END [A-Z0-9 ]{0,60}-----)?")
"""What follows the first characters of a key file."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A credential, without its value."""

    line: int
    """Counted from one."""
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} in line {self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
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


def find_secrets(text: str) -> list[Finding]:
    """Every credential in the text: its kind and its line."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return sorted({Finding(bisect_right(starts, span.start), span.kind) for span in _spans(text)})


def redact(text: str) -> str:
    """The text with every credential replaced by the name of its kind."""
    # Again until nothing is left: one that was glued to another shows only when that is gone.
    while spans := sorted(_spans(text)):
        text = _without(text, spans)
    return text


def refusal(findings: Sequence[Finding]) -> str:
    """One line that says why a text is not written."""
    return f"the text seems to hold credentials ({', '.join(map(str, findings))}); take them out"


@cache
def rules() -> tuple[Rule, ...]:
    """The rules as shipped."""
    text = resources.files("nacre.memory").joinpath("data/secrets.json").read_text(encoding="utf-8")
    table: dict[str, list[JsonObject]] = json.loads(text)
    return tuple(_parsed(each) for each in table["rules"])


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    start: int
    end: int
    kind: str


def _spans(text: str) -> Iterator[_Span]:
    """Where the secrets themselves stand."""
    small = text.lower()
    for rule in rules():
        if rule.keys and not any(key in small for key in rule.keys):
            continue
        for found in rule.regex.finditer(text):
            group: str | int = "secret" if "secret" in rule.regex.groupindex else 0
            if is_placeholder(found[group]) or (rule.check and not CHECKS[rule.check](found)):
                continue
            if rule.is_block:
                body = _KEY_BODY.match(text, found.end())
                yield _Span(found.start(), body.end() if body else found.end(), rule.kind)
            else:
                yield _Span(found.start(group), found.end(group), rule.kind)


def _without(text: str, spans: Sequence[_Span]) -> str:
    pieces = []
    done = 0
    for span in spans:
        if span.end <= done:
            continue
        pieces += [text[done : max(done, span.start)], f"[removed: {span.kind}]"]
        done = span.end
    return "".join([*pieces, text[done:]])


def _parsed(value: JsonObject) -> Rule:
    keys, check = value["keys"], value.get("check")
    return Rule(
        id=str(value["id"]),
        kind=str(value["kind"]),
        keys=tuple(map(str, keys)) if isinstance(keys, list) else (),
        regex=re.compile(str(value["regex"])),
        check=None if check is None else str(check),
        is_block=value.get("block") is True,
    )
