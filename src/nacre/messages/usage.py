"""Token usage of a request; the three input counters are disjoint."""

from __future__ import annotations

from dataclasses import dataclass, fields

from nacre.messages.blocks import Json

OPTIONAL = frozenset({"discarded", "approximate"})
"""Fields that are written only if they are not zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request; adapters turn inclusive counters into these exclusive ones."""

    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0
    cache_write_1h: int = 0
    """The share of `cache_write` that was written for one hour."""
    discarded: int = 0
    """The share of `output` that is billed but not kept: reasoning that is never sent back."""
    approximate: bool = False
    """At least one of the counts is estimated: the provider never reported it."""

    @property
    def prompt(self) -> int:
        """All tokens sent."""
        return self.input + self.cache_write + self.cache_read

    @property
    def total(self) -> int:
        """All tokens sent and received."""
        return self.prompt + self.output

    @property
    def context(self) -> int:
        """Tokens of the context after the reply."""
        return self.total - self.discarded

    @property
    def hit_rate(self) -> float:
        """The share of the prompt that was read from the cache."""
        return self.cache_read / self.prompt if self.prompt else 0.0

    def as_json(self) -> dict[str, Json]:
        """Return the usage as JSON for a log note."""
        counts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: count for name, count in counts.items() if count or name not in OPTIONAL}

    @staticmethod
    def of_json(written: Json) -> Usage:
        """Parse the JSON of a log note; invalid values count as zero."""
        facts = written if isinstance(written, dict) else {}
        known = {field.name for field in fields(Usage)} - {"approximate"}
        counts = {name: value for name, value in facts.items() if name in known and type(value) is int}
        numbers = {name: value for name, value in counts.items() if isinstance(value, int)}
        return Usage(**numbers, approximate=facts.get("approximate") is True)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            cache_write=self.cache_write + other.cache_write,
            cache_read=self.cache_read + other.cache_read,
            output=self.output + other.output,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            discarded=self.discarded + other.discarded,
            approximate=self.approximate or other.approximate,
        )

    def __sub__(self, other: Usage) -> Usage:
        """Return the counts without an earlier part of them; estimated if one of all counts is."""
        counted = {
            field.name: getattr(self, field.name) - getattr(other, field.name) for field in fields(self)
        }
        return Usage(**{**counted, "approximate": self.approximate})
