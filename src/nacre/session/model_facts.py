"""What was measured about a model on one server: sizes, its window, whether it calls tools.

It is kept in the home's cache of rebuildable values, so that a later session need not guess again (C2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast, get_args

from nacre.messages.tokens import RequestCalibration
from nacre.providers.base import ToolSupport
from nacre.session.base_change import Base
from nacre.store.derived import DerivedCache

SCOPE = "models"
MAX_BASES = 8
"""How many bases of a model are remembered: a person has few sets of tools and settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Measured facts about one model on one server; None where nothing was measured."""

    ratio: float | None = None
    """Real tokens per estimated token of text."""
    base_share: float | None = None
    """Real tokens per estimated token of system prompt and tools."""
    bases: dict[str, int] = field(default_factory=dict)
    """Real tokens of system prompt and tools by their digest, newest last."""
    window: int | None = None
    """The window that the server reported, or named when it refused a prompt."""
    tool_calls: ToolSupport | None = None

    def calibration(self, base: Base) -> RequestCalibration:
        """Return what is known about the size of requests with this base."""
        same = self.bases.get(base.digest)
        similar = round(base.tokens * self.base_share) if self.base_share else None
        return RequestCalibration(
            base=base.tokens,
            known_base=similar if same is None else same,
            known_ratio=self.ratio,
            is_same_base=same is not None,
        )

    def measured(self, base: Base, learnt: RequestCalibration) -> ModelFacts:
        """Return the facts with what a session has learnt."""
        if learnt.low is None or not base.tokens:
            return self
        others = {key: size for key, size in self.bases.items() if key != base.digest}
        newest = [*others.items(), (base.digest, learnt.base_tokens)][-MAX_BASES:]
        share = learnt.base_tokens / base.tokens
        return replace(self, ratio=learnt.ratio, base_share=share, bases=dict(newest))


class ModelFactsCache:
    """The facts about one model on one server, on disk."""

    def __init__(self, home: Path, model: str, address: str = "") -> None:
        self._cache = DerivedCache(home / "cache" / SCOPE)
        self._name = f"{address} {model}"

    def read(self) -> ModelFacts:
        """Return the facts; none if the cache is missing or damaged."""
        found = self._cache.get(self._name)
        return _parsed(found) if isinstance(found, dict) else ModelFacts()

    def update(self, change: Callable[[ModelFacts], ModelFacts]) -> ModelFacts:
        """Change the facts and return them; other processes may have added some meanwhile."""
        before = self.read()
        after = change(before)
        if after != before:
            self._cache.put(self._name, asdict(after))
        return after


def _parsed(found: dict[str, object]) -> ModelFacts:
    """Return the facts in a cached value; a value of another type counts as unknown."""
    bases = found.get("bases")
    sizes = bases.items() if isinstance(bases, dict) else ()
    window = found.get("window")
    calls = found.get("tool_calls")
    return ModelFacts(
        ratio=_positive(found.get("ratio")),
        base_share=_positive(found.get("base_share")),
        bases={key: size for key, size in sizes if isinstance(key, str) and isinstance(size, int)},
        window=window if isinstance(window, int) and window > 0 else None,
        tool_calls=cast("ToolSupport", calls) if calls in get_args(ToolSupport) else None,
    )


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
