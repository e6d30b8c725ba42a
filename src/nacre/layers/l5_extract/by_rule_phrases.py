"""The phrases of one language, read from their table: what is worth keeping, and what speaks against it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from nacre.memory.entry import Kind


@dataclass(frozen=True, slots=True)
class Rule:
    """What a statement looks like that is worth keeping, and of which kind it is."""

    kind: Kind
    phrase: re.Pattern[str]
    needs: re.Pattern[str] | None = None
    """What else must stand in the statement."""
    is_wish: bool = False
    """About how to work: it may use the words of a request."""
    is_event: bool = False
    """Something that happened or is going on: not kept from talk about code and errors."""
    is_hint: bool = False
    """A fact said in passing, in a statement about something else."""

    def match(self, statement: str) -> re.Match[str] | None:
        """Where the phrase stands, if all it needs is there."""
        found = self.phrase.search(statement)
        if found and self.needs is not None and not self.needs.search(statement):
            return None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """All that is known of one language."""

    rules: tuple[Rule, ...]
    remember: re.Pattern[str]
    """The person says that something is to be kept, and what."""
    not_a_fact: re.Pattern[str]
    """What stands behind `remember` when nothing is to be kept."""
    lead: re.Pattern[str]
    """Manners and turns before a statement."""
    unsure: re.Pattern[str]
    """A question, a condition, or a guess."""
    task: re.Pattern[str]
    """About the task at hand."""
    request: re.Pattern[str]
    """What the person wants now."""
    prompt: re.Pattern[str]
    """The message is a game or about a text: nobody knows who speaks in it."""
    unclear: re.Pattern[str]
    """Nobody could understand it who does not know what was said before."""
    specific: re.Pattern[str]
    """A name, a number, a title, a date, one of the family: without any of these an event says too little."""
    machine: re.Pattern[str]
    """The message is about code or its errors: what happened there is the task's state (M13)."""
    reply: re.Pattern[str]
    """The words of an assistant, pasted or played."""
    question: re.Pattern[str]
    """A question at the end of a statement."""
    correction: re.Pattern[str]
    negated: re.Pattern[str]
    """What a statement says is not so, or no longer."""


@cache
def english() -> Phrases:
    return _read("english")


@cache
def chinese() -> Phrases:
    return _read("chinese")


def _read(name: str) -> Phrases:
    text = files("nacre.layers.l5_extract").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    parts = {key: _either(words) for key, words in table["words"].items()}
    for key, part in table["parts"].items():
        parts[key] = _filled(part, parts)
    patterns = {key: _compiled(pattern, parts) for key, pattern in table["patterns"].items()}
    return Phrases(rules=tuple(_rule(one, parts) for one in table["rules"]), **patterns)


def _rule(row: Mapping[str, Any], parts: Mapping[str, str]) -> Rule:
    return Rule(
        kind=row["kind"],
        phrase=_compiled(row["phrase"], parts),
        needs=_compiled(row["needs"], parts) if "needs" in row else None,
        is_wish=row.get("is_wish", False),
        is_event=row.get("is_event", False),
        is_hint=row.get("is_hint", False),
    )


def _compiled(pattern: str, parts: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(_filled(pattern, parts), re.IGNORECASE)


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    joined = "".join(line.removeprefix("  ") for line in pattern.splitlines())
    return re.sub(r"<<(\w+)>>", lambda match: parts[match[1]], joined)


def _either(words: str) -> str:
    """One of the words; the longest first, so that none hides another."""
    ranked = sorted(set(words.split()), key=lambda word: (-len(word), word))
    return "(?:" + "|".join(re.escape(word.replace("_", " ")) for word in ranked) + ")"
