"""The core of the Anthropic cache rules: look back from each marker, bill by position, write and refresh."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import FIVE_MINUTES, HOUR
from nacre.devtools.cache_models.anthropic_render import LEVELS, digest
from nacre.devtools.cache_models.anthropic_state import (
    AnthropicSwitches,
    Cache,
    CacheEntry,
    Call,
    Level,
    Rendered,
    RequestOutcome,
    Snapshot,
    Trace,
)
from nacre.messages.blocks import JsonObject
from nacre.messages.tokens import BYTES_PER_TOKEN
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical

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
    sums = list(accumulate(block.tokens for block in blocks))
    return RenderedPrompt(blocks=blocks, chain=chain, sums=sums, markers=markers)


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
    # A read up to A, a one-hour write up to B, an ordinary write up to C, the rest as plain input.
    hour = [prompt.sums[i] for i, ttl in markers if ttl == "1h" and prompt.sums[i] > read]
    long_end = hour[-1] if hour else read
    end = max(prompt.sums[markers[-1][0]], long_end)
    usage = Usage(
        input=prompt.tokens - end,
        cache_read=read,
        cache_write=end - read,
        cache_write_1h=long_end - read,
        output=call.output_tokens,
    )
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
                kind = blocks[index].kind
                same = self.profile.collapse_runs and kind in RUNS and kind == blocks[index + 1].kind
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


SNIPPET_BYTES = 120
"""Enough to recognise a block."""


def api_usage(outcome: RequestOutcome) -> JsonObject:
    """Return usage as the Messages API reports it; a compaction's own tokens are only in the iterations."""
    said = sum((step.usage for step in outcome.iterations if step.kind == "message"), Usage())
    usage: JsonObject = {**_counters(said), "service_tier": "standard"}
    if len(outcome.iterations) > 1 or any(step.kind == "compaction" for step in outcome.iterations):
        usage["iterations"] = [{"type": step.kind, **_counters(step.usage)} for step in outcome.iterations]
    if outcome.deleted_tokens:
        usage["cache_deleted_input_tokens"] = outcome.deleted_tokens
    return usage


def _counters(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_1h,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
    }


def config_digest(call: Call) -> bytes:
    """Return the digest of parameters that the provider's miss reasons do not cover."""
    return digest([call.body.get("context_management"), *sorted(call.betas)])


def diagnose(cache: Cache, call: Call, now: Snapshot) -> JsonObject | None:
    """Return the response's `diagnostics` object; None if not requested or if nothing differs."""
    asked = call.body.get("diagnostics")
    if not isinstance(asked, dict) or not isinstance(wanted := asked.get("previous_message_id"), str):
        return None
    before = next((shot for shot in reversed(cache.sent) if shot.message_id == wanted), None)
    if before is None:
        return {"cache_miss_reason": {"type": "previous_message_not_found"}}
    index: int | None = 0
    level = "model"
    if (before.model, before.settings) == (now.model, now.settings):
        index = first_difference(before.chain, now.chain)
        if index is None:
            return None
        if before.config != now.config:
            return {"cache_miss_reason": {"type": "unavailable"}}
        level = changed_level(before.blocks, now.blocks, index)
    missed = sum(block.size for block in before.blocks[index:]) // BYTES_PER_TOKEN
    return {"cache_miss_reason": {"type": f"{level}_changed", "cache_missed_input_tokens": missed}}


def changed_level(before: Sequence[Rendered], now: Sequence[Rendered], index: int) -> Level:
    """Return the changed level: a list that grew or shrank shifts the next one, so it is the earlier one."""
    levels = [blocks[index].level for blocks in (before, now) if index < len(blocks)]
    return min(levels, key=LEVELS.index)


def first_difference(before: Sequence[bytes], now: Sequence[bytes]) -> int | None:
    """Return the index of the first difference; None if the first chain is a prefix of the second.

    A chained digest differs at every index after a difference, so bisection finds it.
    """
    shared = min(len(before), len(now))
    if shared and before[shared - 1] == now[shared - 1]:
        return None if len(before) <= len(now) else shared
    return bisect_left(range(shared), True, key=lambda index: before[index] != now[index])


def trace_of(
    cache: Cache, call: Call, prompt: RenderedPrompt, sampled: Sampled, *, unbound: tuple[str, ...]
) -> Trace:
    """Return why the call read and wrote what it did."""
    previous = next((shot for shot in reversed(cache.sent) if shot.lane == call.lane), None)
    place = first_difference(previous.chain, prompt.chain) if previous else None
    # The first block that differs, before and now; None where one of the requests is shorter.
    old, new = (
        blocks[place] if place is not None and place < len(blocks) else None
        for blocks in (previous.blocks if previous else (), prompt.blocks)
    )
    avoidable = 0
    if previous is not None and sampled.usage.cache_write:
        avoidable = max(0, min(previous.cached, sampled.cached) - sampled.usage.cache_read)
    return Trace(
        hit_path=prompt.blocks[sampled.hit].path if sampled.hit >= 0 else "",
        hit_age=sampled.age,
        positions=sampled.positions,
        diverged=differing.path if (differing := new or old) else "",
        before=_snippet(old),
        after=_snippet(new),
        only_order=old is not None and new is not None and _is_reordered(old, new),
        wasted=tuple(prompt.blocks[index].path for index in sampled.wasted),
        avoidable=avoidable,
        unbound=unbound,
    )


def _is_reordered(old: Rendered, new: Rendered) -> bool:
    bare, other = ({**block.wire, "cache_control": None} for block in (old, new))
    return old.digest != new.digest and bare == other


def _snippet(block: Rendered | None) -> str:
    return canonical(block.wire)[:SNIPPET_BYTES].decode(errors="replace") if block else ""
