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
from functools import cache
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
class PhraseRule:
    """One way to say something."""

    intent: Intent
    pattern: str
    """A regular expression that fits the whole sentence."""
    unless: str | None = None
    """A sentence in which this is found means something else."""

    def match(self, sentence: str, *, without_end: str) -> re.Match[str] | None:
        """The match on the sentence without its closing marks, unless the whole means something else."""
        if self.unless is not None and _compiled(self.unless).search(sentence):
            return None
        return _compiled(self.pattern).fullmatch(without_end)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # On first use: compiling the tables takes longer than all the rest of starting the program.
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


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
    headed: tuple[PhraseRule, ...]
    """Tried on the whole message: a head with a colon owns everything after it."""
    rules: tuple[PhraseRule, ...]
    """Tried on each sentence."""


@dataclass(frozen=True, slots=True)
class Notation:
    """Turns phrases into rules, with a language's own shorthands."""

    shorthands: Mapping[str, str]

    def rules(self, intent: Intent, *phrases: str, unless: str | None = None) -> tuple[PhraseRule, ...]:
        """One rule per phrase; `unless` is a plain regular expression, searched for."""
        return tuple(PhraseRule(intent, self._pattern(phrase), unless) for phrase in phrases)

    def _pattern(self, phrase: str) -> str:
        # Longest first: shorthands stand side by side without a space, and one may begin like another.
        words = sorted(self.shorthands, key=len, reverse=True)
        symbol = re.compile("|".join([r"<(?:text|query|path):|[(\[\]> ]", *words]))
        return symbol.sub(self._expand, phrase)

    def _expand(self, symbol: re.Match[str]) -> str:
        found = symbol.group()
        if found in _SYMBOLS:
            return _SYMBOLS[found]
        return self.shorthands[found].replace(" ", r"\s+")


_SYMBOLS = {"(": "(?:", "[": "(?:", "]": ")?", ">": ")", " ": r"\s+"} | {
    f"<{group}:": f"(?P<{group}>" for group in ("text", "query", "path")
}
