"""The core of the Anthropic cache rules: look back from each marker, bill by position, write and refresh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import FIVE_MINUTES, HOUR
from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches, CacheEntry, Call, Rendered
from nacre.messages.usage import Usage

Chance = Callable[[], float]

TTL_SECONDS: dict[str, float] = {"5m": FIVE_MINUTES, "1h": HOUR}
"""The two lifetimes of a marker, counted from the start of the request."""
RUNS = frozenset({"tool_use", "tool_result"})
"""Kinds of which a run is one position if the model collapses runs."""
LATE_SECONDS = 3600.0
"""How long expired entries are kept, so that calls may be simulated somewhat out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPrompt:
    """The blocks of one sampling, with the digest and size of every prefix and the positions of markers."""

    blocks: Sequence[Rendered]
    chain: Sequence[bytes]
    sums: Sequence[int]
    markers: tuple[tuple[int, str], ...]
    """Index and lifetime, in order."""

    @property
    def tokens(self) -> int:
        return self.sums[-1] if self.sums else 0


class Sampled(NamedTuple):
    """What one sampling read, wrote and cached."""

    entries: Mapping[bytes, CacheEntry]
    usage: Usage
    hit: int
    """Index of the last block read from the cache, or -1."""
    age: float
    positions: int
    cached: int
    """Tokens up to the last effective marker."""
    wasted: tuple[int, ...]


class _Found(NamedTuple):
    place: int
    entry: CacheEntry | None
    positions: int
    evicted: tuple[bytes, ...]


def prompt_of(
    blocks: Sequence[Rendered], chain: Sequence[bytes], markers: tuple[tuple[int, str], ...]
) -> RenderedPrompt:
    return RenderedPrompt(
        blocks=blocks,
        chain=chain,
        sums=list(accumulate(block.tokens for block in blocks)),
        markers=markers,
    )


def sample(
    entries: Mapping[bytes, CacheEntry],
    prompt: RenderedPrompt,
    *,
    call: Call,
    profile: ModelProfile,
    switches: AnthropicSwitches,
    chance: Chance | None = None,
) -> Sampled:
    """Simulate one sampling: what is read, written and billed."""
    markers = [(i, ttl) for i, ttl in prompt.markers if prompt.sums[i] >= profile.min_cacheable]
    wasted = tuple(i for i, _ in prompt.markers if prompt.sums[i] < profile.min_cacheable)
    if not markers:
        return Sampled(entries, Usage(input=prompt.tokens, output=call.output_tokens), -1, 0.0, 0, 0, wasted)
    looking = _Lookup(entries, prompt, profile, switches, call.start, chance)
    found = looking.back_from([index for index, _ in markers])
    read = prompt.sums[found.place] if found.entry else 0
    usage = _bill(prompt, markers, read=read, output=call.output_tokens)
    kept = {key: entry for key, entry in entries.items() if entry.expires_at > call.start - LATE_SECONDS}
    for key in found.evicted:
        kept.pop(key, None)
    if found.entry is not None:
        _refresh(kept, prompt, found.place, call=call, switches=switches)
    _write(kept, prompt, markers, hit=found.place, call=call, switches=switches)
    age = call.start - found.entry.written_at if found.entry else 0.0
    return Sampled(kept, usage, found.place, age, found.positions, prompt.sums[markers[-1][0]], wasted)


class _Lookup(NamedTuple):
    entries: Mapping[bytes, CacheEntry]
    prompt: RenderedPrompt
    profile: ModelProfile
    switches: AnthropicSwitches
    now: float
    chance: Chance | None

    def back_from(self, markers: Sequence[int]) -> _Found:
        """Return the longest live prefix within the lookback of a marker; later markers are tried first."""
        total = 0
        evicted: list[bytes] = []
        for marker in reversed(markers):
            index, positions = self._walk(marker, evicted)
            total += positions
            if index >= 0:
                return _Found(index, self.entries[self.prompt.chain[index]], total, tuple(evicted))
        return _Found(-1, None, total, tuple(evicted))

    def _walk(self, marker: int, evicted: list[bytes]) -> tuple[int, int]:
        blocks = self.prompt.blocks
        positions = 1
        for index in range(marker, -1, -1):
            if index < marker:
                same = self.profile.collapse_runs and _one_run(blocks[index], blocks[index + 1])
                positions += 0 if same else 1
                if positions > self.profile.lookback:
                    return -1, self.profile.lookback
                if same and self.switches.run_boundaries == "end":
                    continue
            if self._is_live(self.prompt.chain[index], evicted):
                return index, positions
        return -1, positions

    def _is_live(self, key: bytes, evicted: list[bytes]) -> bool:
        entry = self.entries.get(key)
        if entry is None or key in evicted or not entry.visible_at <= self.now < entry.expires_at:
            return False
        if self.chance is not None and self.switches.eviction > 0 and self.chance() < self.switches.eviction:
            evicted.append(key)
            return False
        return True


def _one_run(block: Rendered, following: Rendered) -> bool:
    return block.kind == following.kind and block.kind in RUNS


def _bill(prompt: RenderedPrompt, markers: list[tuple[int, str]], *, read: int, output: int) -> Usage:
    """Bill a read up to A, a one-hour write up to B, an ordinary write up to C, the rest as plain input."""
    hour = [prompt.sums[i] for i, ttl in markers if ttl == "1h" and prompt.sums[i] > read]
    long_end = hour[-1] if hour else read
    end = max(prompt.sums[markers[-1][0]], long_end)
    return Usage(
        input=prompt.tokens - end,
        cache_read=read,
        cache_write=end - read,
        cache_write_1h=long_end - read,
        output=output,
    )


def _refresh(
    entries: dict[bytes, CacheEntry],
    prompt: RenderedPrompt,
    hit: int,
    *,
    call: Call,
    switches: AnthropicSwitches,
) -> None:
    """Extend the entries that were read by their own lifetime, counted from the request's start."""
    keys = prompt.chain[: hit + 1] if switches.refresh == "whole_prefix" else [prompt.chain[hit]]
    for key in keys:
        entry = entries.get(key)
        if entry is not None and entry.expires_at > call.start:
            entries[key] = entry._replace(expires_at=max(entry.expires_at, call.start + entry.ttl))


def _write(
    entries: dict[bytes, CacheEntry],
    prompt: RenderedPrompt,
    markers: list[tuple[int, str]],
    *,
    hit: int,
    call: Call,
    switches: AnthropicSwitches,
) -> None:
    visible = call.start if call.first_token is None else call.first_token
    for index, name in markers:
        key = prompt.chain[index]
        ttl = TTL_SECONDS[name]
        old = entries.get(key)
        if old is None or old.expires_at <= call.start:
            entries[key] = CacheEntry(prompt.sums[index], visible, call.start + ttl, ttl, call.start)
        elif index >= hit or switches.refresh != "hit_only":
            entries[key] = old._replace(
                visible_at=min(old.visible_at, visible),
                expires_at=max(old.expires_at, call.start + ttl),
                ttl=max(old.ttl, ttl),
            )
