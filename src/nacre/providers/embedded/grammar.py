"""The notation of the embedded provider's phrase tables, and the intents a phrase can have.

A phrase matches one whole sentence. `(a|b)` is a choice, `[a]` is optional, a space is any white space,
`<text:…>`, `<query:…>` and `<path:…>` capture the user's words, an UPPER-CASE word is a shorthand (a regular
expression with a name). Rules are tried in order and the first match wins, so narrow ones precede wide ones.
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
    """One phrase with its intent."""

    intent: Intent
    pattern: str
    """A regular expression that matches the whole sentence."""
    unless: str | None = None
    """A regular expression; a sentence in which it is found has another meaning."""

    def match(self, sentence: str, *, without_end: str) -> re.Match[str] | None:
        """Match the sentence without its closing punctuation, unless `unless` is found in the whole."""
        if self.unless is not None and _compiled(self.unless).search(sentence):
            return None
        return _compiled(self.pattern).fullmatch(without_end)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # On first use: compiling all tables takes longer than the rest of the program's start.
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Grammar:
    """The phrases of one language."""

    language: Language
    lead: re.Pattern[str]
    """Openings without meaning: "hey nacre, by the way,"."""
    tail: re.Pattern[str]
    """Endings without meaning: ", please"."""
    polite: re.Pattern[str]
    """The opening of a request in the form of a question: "could you please"."""
    headed: tuple[PhraseRule, ...]
    """Tried on the whole message: a heading with a colon applies to all that follows."""
    rules: tuple[PhraseRule, ...]
    """Tried on each sentence."""


@dataclass(frozen=True, slots=True)
class Notation:
    """Translates phrases into rules, with the shorthands of one language."""

    shorthands: Mapping[str, str]

    def rules(self, intent: Intent, *phrases: str, unless: str | None = None) -> tuple[PhraseRule, ...]:
        """Return one rule per phrase; `unless` is a plain regular expression."""
        symbols = _SYMBOLS | {name: part.replace(" ", r"\s+") for name, part in self.shorthands.items()}
        # Longest first: shorthands are adjacent without a space, and one may be the beginning of another.
        symbol = re.compile("|".join(re.escape(name) for name in sorted(symbols, key=len, reverse=True)))
        return tuple(
            PhraseRule(intent, symbol.sub(lambda found: symbols[found.group()], phrase), unless)
            for phrase in phrases
        )


_SYMBOLS = {"(": "(?:", "[": "(?:", "]": ")?", ">": ")", " ": r"\s+"} | {
    f"<{group}:": f"(?P<{group}>" for group in ("text", "query", "path")
}
