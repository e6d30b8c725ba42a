"""Compares each request with the last one, block by block, and reports a changed prefix (C32).

Digests are chained: an equal digest at the end of the known prefix means that all of it is unchanged; if it
differs, bisection finds the first changed block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal, NamedTuple, overload

from nacre.errors import PrefixMoved
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.messages.wire import canonical

DIGEST_BYTES = 16
"""Enough to avoid collisions; the digests of a long session stay small."""
DROP_SHARE = 0.05
"""A smaller drop of cache reads is normal variation of the provider."""
DROP_TOKENS = 2_000
"""A smaller drop is not reported."""


_ORDER = ("model", "tools", "system", "messages")


class BlockPath(NamedTuple):
    """The position of a block in a request."""

    level: Literal["model", "tools", "system", "messages"]
    path: str
    kind: str


def chain_digests(blocks: Iterable[bytes], seed: bytes = b"") -> list[bytes]:
    """Return for each block the digest of everything up to it; `seed` continues an earlier chain."""
    links: list[bytes] = []
    link = seed
    for block in blocks:
        link = blake2b(
            link + blake2b(block, digest_size=DIGEST_BYTES).digest(), digest_size=DIGEST_BYTES
        ).digest()
        links.append(link)
    return links


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request: its model and the first `length` blocks of append-only lists."""

    model: str
    places: Sequence[BlockPath]
    links: Sequence[bytes]
    length: int

    @property
    def last(self) -> bytes:
        """The digest of the whole request."""
        return self.links[self.length - 1] if self.length else b""

    def grown(self, blocks: Iterable[tuple[BlockPath, bytes]]) -> SentRequest:
        """Return this request with more blocks; both share the lists, so that only new blocks cost time."""
        whole = (
            isinstance(self.places, list) and isinstance(self.links, list) and len(self.links) == self.length
        )
        places = self.places if whole and isinstance(self.places, list) else list(self.places[: self.length])
        links = self.links if whole and isinstance(self.links, list) else list(self.links[: self.length])
        new = list(blocks)
        links.extend(chain_digests((data for _, data in new), self.last))
        places.extend(spot for spot, _ in new)
        return SentRequest(self.model, places, links, len(links))


def sent_request(
    model: str, system: list[JsonObject], tools: list[JsonObject], messages: list[JsonObject]
) -> SentRequest:
    """Return a request in the provider's order: tools, system, messages; without cache markers."""
    return SentRequest(model, [], [], 0).grown(
        [*_listed("tools", tools), *_listed("system", system), *message_blocks(messages)]
    )


def message_blocks(messages: Iterable[JsonObject], start: int = 0) -> Iterator[tuple[BlockPath, bytes]]:
    """Yield the blocks of messages, numbered from `start`; a string is one text block."""
    for index, message in enumerate(messages, start):
        role = str(message.get("role")).encode() + b"\0"
        content = message.get("content")
        blocks: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for inner, block in enumerate(blocks):
            place = BlockPath("messages", f"messages[{index}].content[{inner}]", _kind(block))
            yield place, role + canonical(_bare(block))


def _listed(level: Literal["tools", "system"], blocks: list[JsonObject]) -> Iterator[tuple[BlockPath, bytes]]:
    for index, block in enumerate(blocks):
        yield BlockPath(level, f"{level}[{index}]", _kind(block)), canonical(_bare(block))


def _kind(block: Json) -> str:
    return str(block.get("type") or block.get("name") or "") if isinstance(block, dict) else ""


def _bare(block: Json) -> Json:
    if not isinstance(block, dict) or "cache_control" not in block:
        return block
    return {key: value for key, value in block.items() if key != "cache_control"}


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first block at which a request differs from the one before."""

    index: int
    place: BlockPath
    change: Literal["changed", "missing", "model"]
    announced: str | None

    def __str__(self) -> str:
        what = {"changed": "was changed", "missing": "is missing", "model": "is another one"}[self.change]
        why = f"announced: {self.announced}" if self.announced else "no record announced it"
        return f"{self.place.path} ({self.place.kind}), already sent, {what}; {why}"


@dataclass(frozen=True, slots=True)
class CacheReadDrop:
    """The provider read less from its cache than before, without an announced reason."""

    before: int
    now: int

    def __str__(self) -> str:
        return f"cache reads fell from {self.before} to {self.now} tokens without an announced reason"


def check_usage(
    previous_read: int | None, usage: Usage, announced: str | None = None
) -> CacheReadDrop | None:
    """Return a drop of cache reads that shows that the prefix was lost, if there is one."""
    if previous_read is None or announced:
        return None
    fall = previous_read - usage.cache_read
    if fall > DROP_TOKENS and fall > previous_read * DROP_SHARE:
        return CacheReadDrop(previous_read, usage.cache_read)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What the next request is compared with; immutable."""

    previous: SentRequest | None = None
    read: int | None = None
    """Cache reads of the last request; None if there is nothing to compare with."""
    skips_next: bool = False

    def check(self, now: SentRequest, *, announced: str | None = None) -> Divergence | None:
        """Return the first block that differs from the last request, if there is one."""
        before = self.previous
        if before is None:
            return None
        if before.model != now.model:
            return Divergence(0, BlockPath("model", "model", now.model), "model", announced)
        shared = min(before.length, now.length)
        if not shared or before.links[shared - 1] == now.links[shared - 1]:
            if before.length <= now.length:
                return None
            return Divergence(shared, before.places[shared], "missing", announced)
        index = bisect_left(range(shared), True, key=lambda i: before.links[i] != now.links[i])
        # A list that grew or shrank shifts the following one, so that the earlier position is the cause.
        spot = min(before.places[index], now.places[index], key=lambda place: _ORDER.index(place.level))
        return Divergence(index, spot, "changed", announced)

    def check_usage(self, usage: Usage, *, announced: str | None = None) -> CacheReadDrop | None:
        """Return an unexplained drop of cache reads; none right after a clear."""
        return None if self.skips_next else check_usage(self.read, usage, announced)

    def after_request(self, now: SentRequest) -> Ledger:
        return replace(self, previous=now)

    def after_usage(self, usage: Usage) -> Ledger:
        return replace(self, read=usage.cache_read, skips_next=False)

    def after_compaction(self) -> Ledger:
        """Return the ledger without reads to compare with."""
        return replace(self, read=None)

    def after_clear(self) -> Ledger:
        """Return the ledger that ignores the next drop of reads."""
        return replace(self, skips_next=True)


class PrefixMonitor:
    """Checks the requests of one session; `strict` raises `PrefixMoved` instead of warning."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._ledger = Ledger()
        self._epochs = 0
        self._announced: str | None = None
        self._warnings: list[str] = []
        self._heard_from: str | None = None

    def check_request(self, model: str, view: View, *, is_cold: bool) -> None:
        """Compare a request with the last one; a cold cache is a reason for fewer reads."""
        self._announced = self._reason(view, is_cold)
        links = view.links
        now = SentRequest(model, _Places(view, len(links)), links, len(links))
        moved = self._ledger.check(now, announced=self._announced)
        if moved is not None and moved.announced is None:
            if self._strict:
                raise PrefixMoved(str(moved))
            self._warnings.append(f"the cached prefix was lost: {moved}")
        self._ledger = self._ledger.after_request(now)
        self._epochs = len(view.epochs)

    def change_base(self, reason: str) -> None:
        """Expect that nothing is read from the cache next, because the bytes before all messages changed."""
        if self._strict and self._ledger.previous is not None:
            raise PrefixMoved(reason)
        self._ledger = Ledger()

    def check_usage(self, usage: Usage, model: str | None = None, *, may_clear: bool = False) -> None:
        """Compare cache reads with those of the last request, unless the provider may clear by itself."""
        if model != self._heard_from and self._heard_from is not None:
            # Another model answered, which has a cache of its own.
            self._ledger = self._ledger.after_compaction()
        self._heard_from = model
        drop = self._ledger.check_usage(usage, announced=self._announced)
        if drop is not None and not may_clear:
            self._warnings.append(str(drop))
        self._ledger = self._ledger.after_usage(usage)

    def take_warnings(self) -> list[str]:
        """Return and forget the warnings."""
        warnings = self._warnings
        self._warnings = []
        return warnings

    def _reason(self, view: View, is_cold: bool) -> str | None:
        """Return why this request may read less from the cache than the last one."""
        rewrites = view.epochs[self._epochs :]
        if "compact" in rewrites or "undo" in rewrites:
            self._ledger = self._ledger.after_compaction()
        elif rewrites:
            self._ledger = self._ledger.after_clear()
        if rewrites:
            return ", ".join(rewrites)
        return "the cache expired" if is_cold else None


class _Places(Sequence[BlockPath]):
    """The positions of the blocks of a view, computed on access, which happens only after a change."""

    def __init__(self, view: View, length: int) -> None:
        self._view = view
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> BlockPath: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[BlockPath]: ...

    def __getitem__(self, index: int | slice) -> BlockPath | Sequence[BlockPath]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        return BlockPath("messages", self._view.path(index), "block")
