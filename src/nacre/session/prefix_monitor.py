"""A session's books on its prefix: what was sent, whether it moved, and what the provider says (C32)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from nacre.cache.ledger import Ledger, Place, Sent
from nacre.errors import PrefixMoved
from nacre.messages.usage import Usage
from nacre.messages.view import View


class PrefixMonitor:
    """Follows the requests of one session; in tests it raises where in use it only warns."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._ledger = Ledger()
        self._epochs = 0
        self._announced: str | None = None
        self._warnings: list[str] = []
        self._heard_from: str | None = None

    def sending(self, model: str, view: View, *, is_cold: bool) -> None:
        """Compare what is about to be sent with what was sent before; a cold cache explains few reads."""
        self._announced = self._reason(view, is_cold)
        links = view.links
        now = Sent(model, _Places(view, len(links)), links, len(links))
        moved = self._ledger.check(now, announced=self._announced)
        if moved is not None and moved.announced is None:
            if self._strict:
                raise PrefixMoved(str(moved))
            self._warnings.append(f"the cached prefix was lost: {moved}")
        self._ledger = self._ledger.after_request(now)
        self._epochs = len(view.epochs)

    def heard(self, usage: Usage, model: str | None = None, *, may_clear: bool = False) -> None:
        """Compare the provider's own figures with those of the request before, unless it may clear itself."""
        if model != self._heard_from and self._heard_from is not None:
            # Another model took over, or gave back: each has a cache of its own.
            self._ledger = self._ledger.after_compaction()
        self._heard_from = model
        drop = self._ledger.check_usage(usage, announced=self._announced)
        if drop is not None and not may_clear:
            self._warnings.append(str(drop))
        self._ledger = self._ledger.after_usage(usage)

    def expect_fewer_reads(self) -> None:
        """What the provider was told to delete is no longer read, though no byte of the view moves."""
        self._ledger = self._ledger.after_clear()

    def warnings(self) -> list[str]:
        """What there is to tell, told once."""
        told = self._warnings
        self._warnings = []
        return told

    def _reason(self, view: View, is_cold: bool) -> str | None:
        """Why this request may read less from the cache than the last one."""
        rewrites = view.epochs[self._epochs :]
        if "compact" in rewrites or "undo" in rewrites:
            self._ledger = self._ledger.after_compaction()
        elif rewrites:
            self._ledger = self._ledger.after_clear()
        if rewrites:
            return ", ".join(rewrites)
        return "the cache expired" if is_cold else None


class _Places(Sequence[Place]):
    """Where each block of a view stands; worked out only when asked for, which is when something moved."""

    def __init__(self, view: View, length: int) -> None:
        self._view = view
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Place: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Place]: ...

    def __getitem__(self, index: int | slice) -> Place | Sequence[Place]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        return Place("messages", self._view.path(index), "block")
