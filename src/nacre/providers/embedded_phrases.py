"""The notation of the embedded provider's phrase tables, and what a phrase can mean.

A phrase matches one whole sentence. `(a|b)` is a choice, `[a]` may be left out, a space is any white space,
`<text:…>`, `<query:…>` and `<path:…>` take the user's words out, an UPPER-CASE word is a shorthand (a regular
expression with a name). Rules are tried in order, the first match wins: narrow ones stand before wide ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh"]


class Intent(StrEnum):
    """What a sentence asks for."""

    REMEMBER = "remember"
    FORGET = "forget"
    CORRECT = "correct"
    RECALL = "recall"
    WHEN = "when"
    READ = "read"
    LIST = "list"
    SEARCH = "search"
    RUN = "run"
    HELLO = "hello"
    THANKS = "thanks"
    BYE = "bye"
    HELP = "help"
    NEVER_MIND = "never_mind"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to say something."""

    intent: Intent
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    """A sentence in which this is found means something else."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """All that is known of one language."""

    language: Language
    lead: re.Pattern[str]
    """Openings that carry nothing: "hey nacre, by the way,"."""
    tail: re.Pattern[str]
    """Endings that carry nothing: ", please"."""
    polite: re.Pattern[str]
    """The opening of a request put as a question: "could you please"."""
    headed: tuple[Rule, ...]
    """Tried on the whole message: a head with a colon owns everything after it."""
    rules: tuple[Rule, ...]
    """Tried on each sentence."""


@dataclass(frozen=True, slots=True)
class Notation:
    """Turns phrases into rules, with a language's own shorthands."""

    shorthands: Mapping[str, str]

    def rules(self, intent: Intent, *phrases: str, unless: str | None = None) -> tuple[Rule, ...]:
        """One rule per phrase; `unless` is a plain regular expression, searched for."""
        exception = None if unless is None else re.compile(unless, re.IGNORECASE)
        return tuple(Rule(intent, self.compile(phrase), exception) for phrase in phrases)

    def compile(self, phrase: str) -> re.Pattern[str]:
        # Longest first: shorthands stand side by side without a space, and one may begin like another.
        words = sorted(self.shorthands, key=len, reverse=True)
        symbol = re.compile("|".join([r"<(?:text|query|path):|[(\[\]> ]", *words]))
        return re.compile(symbol.sub(self._expand, phrase), re.IGNORECASE | re.DOTALL)

    def _expand(self, symbol: re.Match[str]) -> str:
        found = symbol.group()
        if found in _SYMBOLS:
            return _SYMBOLS[found]
        return self.shorthands[found].replace(" ", r"\s+")


_SYMBOLS = {"(": "(?:", "[": "(?:", "]": ")?", ">": ")", " ": r"\s+"} | {
    f"<{group}:": f"(?P<{group}>" for group in ("text", "query", "path")
}
