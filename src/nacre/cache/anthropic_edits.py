"""What the provider leaves out of a prompt: compacted and expired messages, old thinking, cleared results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from nacre.cache.anthropic_render import DIGEST_BYTES, THINKING, Count, objects, render
from nacre.cache.anthropic_state import Bound, Cache, Call, Rendered
from nacre.cache.rules import ModelProfile
from nacre.messages.blocks import Json, JsonObject

CLEAR_TRIGGER_TOKENS = 100_000
"""The provider's default size at which tool results are cleared."""
CLEAR_KEEPS = 3
"""The provider's default number of newest tool uses left alone."""
CLEARED = "[cleared to save context]"
"""Stands for a result the provider has cleared; its own words are not documented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The prompt after the provider's edits, and what it says about them."""

    blocks: list[Rendered]
    applied: tuple[JsonObject, ...] = ()
    cleared: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Which thinking blocks still stand on the bytes they were written after."""

    broken: tuple[Rendered, ...]
    bound: dict[tuple[str, bytes], Bound]
    prefix: bytes
    """The digest of the whole request, to which the reply's thinking will be bound."""
    previous: str
    summary: bytes


def visible(body: JsonObject, blocks: Sequence[Rendered], profile: ModelProfile) -> list[Rendered]:
    """The blocks that still count: nothing before a compaction, no expired reminder, no stripped thinking."""
    kept = _after_compaction(blocks)
    expired = _expired(body)
    if expired:
        kept = [
            b for b in kept if b.level != "messages" or b.at[0] not in expired or b.kind == "output_config"
        ]
    return _without_old_thinking(kept) if profile.strips_old_thinking else kept


def _after_compaction(blocks: Sequence[Rendered]) -> list[Rendered]:
    places = [index for index, block in enumerate(blocks) if block.kind == "compaction"]
    if not places:
        return list(blocks)
    valid = [index for index in places if isinstance(blocks[index].wire.get("content"), str)]
    start = valid[-1] if valid else 0
    failed = set(places) - set(valid)
    return [
        block
        for index, block in enumerate(blocks)
        if index not in failed and (index >= start or block.level != "messages")
    ]


def _expired(body: JsonObject) -> set[int]:
    messages = objects(body.get("messages"))
    last_user = max((index for index, m in enumerate(messages) if m.get("role") == "user"), default=-1)
    return {
        index
        for index, m in enumerate(messages)
        if m.get("clear_at") == "next_user_message" and index < last_user
    }


def _without_old_thinking(blocks: list[Rendered]) -> list[Rendered]:
    words = [
        index
        for index, b in enumerate(blocks)
        if b.level == "messages" and b.role == "user" and b.kind != "tool_result"
    ]
    last = words[-1] if words else 0
    return [block for index, block in enumerate(blocks) if index >= last or block.kind not in THINKING]


def binding(cache: Cache, call: Call, blocks: Sequence[Rendered]) -> Binding:
    """Compare what stands before each thinking block with what stood there when it was first sent.

    Thinking may be cut off from the start but not out of the middle, so each block also remembers the
    thinking before it. A compaction begins a new past.
    """
    broken: list[Rendered] = []
    bound: dict[tuple[str, bytes], Bound] = {}
    link, previous, summary = b"", "", b""
    for block in blocks:
        if block.kind == "compaction":
            summary = block.digest
        if block.kind not in THINKING:
            link = blake2b(link + block.digest, digest_size=DIGEST_BYTES).digest()
            continue
        signature = _signature(block.wire)
        known = cache.bindings.get((signature, summary))
        if known is None:
            bound[signature, summary] = Bound(link, previous)
        elif known.prefix != link or (previous and known.previous != previous):
            broken.append(block)
        previous = signature
    for wire in call.reply:
        if wire.get("type") in THINKING:
            bound[_signature(wire), summary] = Bound(link, previous)
            previous = _signature(wire)
        else:
            said = render(wire, level="messages", role="assistant", at=(0, 0), count=_uncounted)
            link = blake2b(link + said.digest, digest_size=DIGEST_BYTES).digest()
    return Binding(broken=tuple(broken), bound=bound, prefix=link, previous=previous, summary=summary)


def _signature(wire: JsonObject) -> str:
    return str(wire.get("signature") or wire.get("data") or wire.get("thinking") or "")


def _uncounted(_: JsonObject) -> int:
    return 0


def edit(
    body: JsonObject, blocks: list[Rendered], *, profile: ModelProfile, cleared: frozenset[str], count: Count
) -> Edited:
    """Apply `context_management`: thinking first, then tool results; `cleared` stays cleared."""
    management = body.get("context_management")
    edits = objects(management.get("edits")) if isinstance(management, dict) else []
    applied: list[JsonObject] = []
    for item in edits:
        if item.get("type") == "clear_thinking_20251015":
            blocks, note = _clear_thinking(blocks, _thinking_kept(item.get("keep"), profile))
            applied += [note] if note else []
    for item in edits:
        if item.get("type") == "clear_tool_uses_20250919":
            done = _clear_tool_uses(blocks, item, cleared=cleared, count=count)
            blocks, cleared = done.blocks, done.cleared
            applied += done.applied
    return Edited(blocks=blocks, applied=tuple(applied), cleared=cleared)


def without_deleted(blocks: list[Rendered]) -> tuple[list[Rendered], int]:
    """Results that a `cache_edits` block deletes take no room, and the prefix around them stays cached."""
    references = {
        str(item.get("cache_reference"))
        for block in blocks
        if block.kind == "cache_edits"
        for item in objects(block.wire.get("edits"))
        if item.get("type") == "delete"
    }
    deleted = 0
    kept: list[Rendered] = []
    for block in blocks:
        is_gone = block.kind == "tool_result" and block.wire.get("tool_use_id") in references
        deleted += block.tokens if is_gone else 0
        kept.append(block._replace(tokens=0) if is_gone or block.kind == "cache_edits" else block)
    return kept, deleted


def _thinking_kept(keep: Json, profile: ModelProfile) -> int | None:
    """How many turns keep their thinking; None is all of them."""
    if isinstance(keep, dict) and isinstance(value := keep.get("value"), int):
        return value
    if keep is None:
        return None if profile.keeps_thinking else 1
    return None


def _clear_thinking(blocks: list[Rendered], keep: int | None) -> tuple[list[Rendered], JsonObject | None]:
    turns = sorted({block.at[0] for block in blocks if block.kind in THINKING})
    gone = set(turns[:-keep] if keep else []) if keep is not None else set()
    if not gone:
        return blocks, None
    dropped = [block for block in blocks if block.kind in THINKING and block.at[0] in gone]
    note: JsonObject = {
        "type": "clear_thinking_20251015",
        "cleared_thinking_turns": len(gone),
        "cleared_input_tokens": sum(block.tokens for block in dropped),
    }
    lost = set(map(id, dropped))
    return [block for block in blocks if id(block) not in lost], note


def _clear_tool_uses(
    blocks: list[Rendered], item: JsonObject, *, cleared: frozenset[str], count: Count
) -> Edited:
    clear_inputs = item.get("clear_tool_inputs")
    before = _blank(blocks, cleared, clear_inputs, count)
    uses = [block for block in before if block.kind == "tool_use"]
    if not _triggered(item.get("trigger"), before, len(uses)):
        return _noted(blocks, before, cleared)
    excluded = item.get("exclude_tools")
    excluded = excluded if isinstance(excluded, list) else []
    keep = _value(item.get("keep"), CLEAR_KEEPS)
    old = uses[: max(0, len(uses) - keep)]
    more = cleared | {str(b.wire.get("id")) for b in old if b.wire.get("name") not in excluded}
    after = _blank(blocks, more, clear_inputs, count)
    if _size(before) - _size(after) < _value(item.get("clear_at_least"), 0):
        return _noted(blocks, before, cleared)
    return _noted(blocks, after, more)


def _noted(blocks: list[Rendered], after: list[Rendered], cleared: frozenset[str]) -> Edited:
    here = sum(1 for b in blocks if b.kind == "tool_result" and b.wire.get("tool_use_id") in cleared)
    if not here:
        return Edited(blocks=blocks, cleared=cleared)
    note: JsonObject = {
        "type": "clear_tool_uses_20250919",
        "cleared_tool_uses": here,
        "cleared_input_tokens": _size(blocks) - _size(after),
    }
    return Edited(blocks=after, applied=(note,), cleared=cleared)


def _triggered(trigger: Json, blocks: list[Rendered], uses: int) -> bool:
    if isinstance(trigger, dict) and trigger.get("type") == "tool_uses":
        return uses > _value(trigger, 0)
    return _size(blocks) > _value(trigger, CLEAR_TRIGGER_TOKENS)


def _value(setting: Json, default: int) -> int:
    value = setting.get("value") if isinstance(setting, dict) else None
    return value if isinstance(value, int) else default


def _size(blocks: Sequence[Rendered]) -> int:
    return sum(block.tokens for block in blocks)


def _blank(blocks: list[Rendered], ids: frozenset[str], clear_inputs: Json, count: Count) -> list[Rendered]:
    if not ids:
        return blocks
    return [_blanked(block, ids, clear_inputs, count) for block in blocks]


def _blanked(block: Rendered, ids: frozenset[str], clear_inputs: Json, count: Count) -> Rendered:
    wire = block.wire
    if block.kind == "tool_result" and wire.get("tool_use_id") in ids:
        wire = {**wire, "content": CLEARED}
    elif block.kind == "tool_use" and wire.get("id") in ids:
        named = isinstance(clear_inputs, list) and wire.get("name") in clear_inputs
        wire = {**wire, "input": {}} if named or clear_inputs is True else wire
    if wire is block.wire:
        return block
    return render(wire, level=block.level, role=block.role, at=block.at, count=count)
