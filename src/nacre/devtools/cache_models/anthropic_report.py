"""Reports of a simulated call: usage and diagnostics as in the API, and a trace."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from nacre.devtools.cache_models.anthropic_lookup import RenderedPrompt, Sampled
from nacre.devtools.cache_models.anthropic_render import LEVELS, digest
from nacre.devtools.cache_models.anthropic_state import (
    Cache,
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
    reason = _reason(before, now)
    return None if reason is None else {"cache_miss_reason": reason}


def _reason(before: Snapshot | None, now: Snapshot) -> JsonObject | None:
    if before is None:
        return {"type": "previous_message_not_found"}
    if (before.model, before.settings) != (now.model, now.settings):
        return {"type": "model_changed", "cache_missed_input_tokens": _missed(before.blocks, 0)}
    index = first_difference(before.chain, now.chain)
    if index is None:
        return None
    if before.config != now.config:
        return {"type": "unavailable"}
    level = changed_level(before.blocks, now.blocks, index)
    return {"type": f"{level}_changed", "cache_missed_input_tokens": _missed(before.blocks, index)}


def changed_level(before: Sequence[Rendered], now: Sequence[Rendered], index: int) -> Level:
    """Return the changed level: a list that grew or shrank shifts the next one, so it is the earlier one."""
    levels = [blocks[index].level for blocks in (before, now) if index < len(blocks)]
    return min(levels, key=LEVELS.index)


def _missed(blocks: Sequence[Rendered], start: int) -> int:
    return sum(block.size for block in blocks[start:]) // BYTES_PER_TOKEN


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
    old = previous.blocks if previous else ()
    avoidable = 0
    if previous is not None and sampled.usage.cache_write:
        avoidable = max(0, min(previous.cached, sampled.cached) - sampled.usage.cache_read)
    return Trace(
        hit_path=prompt.blocks[sampled.hit].path if sampled.hit >= 0 else "",
        hit_age=sampled.age,
        positions=sampled.positions,
        diverged="" if place is None else _at(prompt.blocks, place) or _at(old, place),
        before="" if place is None else _snippet(old, place),
        after="" if place is None else _snippet(prompt.blocks, place),
        only_order=place is not None and _is_reordered(old, prompt.blocks, place),
        wasted=tuple(prompt.blocks[index].path for index in sampled.wasted),
        avoidable=avoidable,
        unbound=unbound,
    )


def _is_reordered(old: Sequence[Rendered], new: Sequence[Rendered], index: int) -> bool:
    if index >= min(len(old), len(new)) or old[index].digest == new[index].digest:
        return False
    return _bare(old[index].wire) == _bare(new[index].wire)


def _bare(wire: JsonObject) -> JsonObject:
    return {key: value for key, value in wire.items() if key != "cache_control"}


def _at(blocks: Sequence[Rendered], index: int) -> str:
    return blocks[index].path if index < len(blocks) else ""


def _snippet(blocks: Sequence[Rendered], index: int) -> str:
    return (
        canonical(blocks[index].wire)[:SNIPPET_BYTES].decode(errors="replace") if index < len(blocks) else ""
    )
