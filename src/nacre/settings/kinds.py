"""What a setting's value may be: each kind checks JSON and reads the text of a variable."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Protocol

from nacre.messages.blocks import Json

ON = frozenset({"1", "true", "yes", "on"})
OFF = frozenset({"0", "false", "no", "off"})
MAX_TOKENS = 100_000_000
"""Far above any window, low enough to catch a slip of the keyboard."""


class Kind(Protocol):
    """One sort of value; both methods raise `ValueError` for one that is not of it."""

    @property
    def allowed(self) -> str:
        """For people, after "must be"."""
        ...

    def checked(self, value: Json) -> Json: ...

    def read(self, text: str) -> Json: ...


@dataclass(frozen=True, slots=True)
class Word:
    """Text on one line; one of `choices` where there are any."""

    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        return " or ".join(f'"{choice}"' for choice in self.choices) or "text on one line"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError(value)
        if self.choices and value not in self.choices:
            raise ValueError(value)
        return value

    def read(self, text: str) -> Json:
        return self.checked(text)


@dataclass(frozen=True, slots=True)
class Prose:
    """Text of any length."""

    allowed: str = "text"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str):
            raise TypeError(value)
        return value

    def read(self, text: str) -> Json:
        return text


@dataclass(frozen=True, slots=True)
class Address:
    """The base of an HTTP interface."""

    allowed: str = "an address that starts with http:// or https://"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str) or not value.isprintable() or " " in value:
            raise ValueError(value)
        if not value.startswith(("http://", "https://")) or not value.partition("://")[2].strip("/"):
            raise ValueError(value)
        return value

    def read(self, text: str) -> Json:
        return self.checked(text.strip())


@dataclass(frozen=True, slots=True)
class Number:
    """A number between two bounds, whole unless told otherwise."""

    low: float = 1
    high: float = MAX_TOKENS
    is_whole: bool = True

    @property
    def allowed(self) -> str:
        return f"a {'whole ' if self.is_whole else ''}number from {self.low:g} to {self.high:,.10g}"

    def checked(self, value: Json) -> Json:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(value)
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise ValueError(value)
        if self.is_whole and value != int(value):
            raise ValueError(value)
        return int(value) if self.is_whole else float(value)

    def read(self, text: str) -> Json:
        plain = text.strip().replace("_", "")
        return self.checked(int(plain) if self.is_whole else float(plain))


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no; with `auto`, a third answer that leaves it to the layer."""

    has_auto: bool = False

    @property
    def allowed(self) -> str:
        return 'true, false or "auto"' if self.has_auto else "true or false"

    def checked(self, value: Json) -> Json:
        if isinstance(value, bool) or (self.has_auto and value == "auto"):
            return value
        raise ValueError(value)

    def read(self, text: str) -> Json:
        word = text.strip().lower()
        return word in ON if word in ON | OFF else self.checked(word)


@dataclass(frozen=True, slots=True)
class Table:
    """A JSON object; with `is_words`, one whose values are all text."""

    is_words: bool = False

    @property
    def allowed(self) -> str:
        return f"a JSON object{' whose values are text' if self.is_words else ''}"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, dict):
            raise TypeError(value)
        if self.is_words and not all(isinstance(item, str) for item in value.values()):
            raise ValueError("a value is not text")
        return value

    def read(self, text: str) -> Json:
        value: Json = json.loads(text)
        return self.checked(value)


@dataclass(frozen=True, slots=True)
class Counts:
    """Whole numbers by name."""

    allowed: str = "a JSON object whose values are whole numbers"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, dict):
            raise TypeError(value)
        one = Number()
        return {name: one.checked(item) for name, item in value.items()}

    def read(self, text: str) -> Json:
        value: Json = json.loads(text)
        return self.checked(value)


@dataclass(frozen=True, slots=True)
class Words:
    """A list of texts; a variable holds a JSON list, or one text."""

    allowed: str = "a list of texts"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise TypeError(value)
        return value

    def read(self, text: str) -> Json:
        value: Json = json.loads(text) if text.strip().startswith("[") else [text.strip()]
        return self.checked(value)
