"""Anthropic's prompt cache as pure functions (P6): a call and a cache in, true usage and a new cache out.

The steps: flatten and edit the prompt, refuse what the API refuses, chain digests, look back from each
marker, bill, write and refresh. What the documentation leaves open is a switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from nacre.cache.models import LONG_WINDOW, ModelProfile, cost
from nacre.devtools.cache_models.anthropic_checks import markers_of, refuse
from nacre.devtools.cache_models.anthropic_lookup import (
    Chance,
    RenderedPrompt,
    Sampled,
    config_digest,
    diagnose,
    prompt_of,
    sample,
    trace_of,
)
from nacre.devtools.cache_models.anthropic_render import (
    DIGEST_BYTES,
    THINKING,
    Count,
    chain,
    estimate,
    flatten,
    objects,
    render,
    seeds,
)
from nacre.devtools.cache_models.anthropic_state import (
    AnthropicSwitches,
    ApiRefusal,
    Bound,
    Cache,
    Call,
    Iteration,
    Rendered,
    RequestOutcome,
    Snapshot,
    Trace,
)
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage

SNAPSHOTS = 16
"""Number of past requests kept for diagnostics: enough for a few lanes, small enough to store whole."""
COMPACTION_TRIGGER_TOKENS = 150_000
"""The provider's default trigger of threshold compaction."""
DEFAULT_SWITCHES = AnthropicSwitches()


def simulate(
    cache: Cache,
    call: Call,
    *,
    profile: ModelProfile,
    switches: AnthropicSwitches = DEFAULT_SWITCHES,
    count: Count = estimate,
    chance: Chance | None = None,
) -> RequestOutcome:
    """Return the provider's answer to a call: tokens, cost and the new cache."""
    if profile.long_window_beta and profile.long_window_beta in call.betas:
        profile = replace(profile, window=LONG_WINDOW)
    refusal = refuse(call, profile)
    if refusal is not None:
        return RequestOutcome(cache=cache, refusal=refusal)
    if call.body.get("max_tokens") == 0:
        # Such a request only warms the cache.
        call = replace(call, output_tokens=0, reply=())
    setting = _Setting(call=call, profile=profile, switches=switches, count=count, chance=chance)
    ready = _prepare(cache, setting)
    if isinstance(ready, RequestOutcome):
        return ready
    if call.outcome in {"rejected", "broken_before"}:
        return RequestOutcome(cache=cache, prompt_tokens=ready.prompt.tokens, original_tokens=ready.original)
    runs = _run(cache, setting, ready)
    after = _remember(cache, setting, ready, runs)
    if call.outcome == "broken_after" and not switches.broken_after_writes:
        after = cache
    return _outcome(cache, after, setting, ready, runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    call: Call
    profile: ModelProfile
    switches: AnthropicSwitches
    count: Count
    chance: Chance | None

    def prompt(self, blocks: list[Rendered], markers: tuple[tuple[int, str], ...]) -> RenderedPrompt:
        links = chain(blocks, seeds(self.call, self.profile, self.switches, blocks))
        return prompt_of(blocks, links, markers)

    def sample(
        self, cache: Cache, prompt: RenderedPrompt, output_tokens: int, *, is_first: bool = True
    ) -> Sampled:
        """Run one sampling; a later one of the same call reads what the first one wrote."""
        call = replace(self.call, output_tokens=output_tokens)
        if not is_first and call.first_token is not None:
            call = replace(call, start=max(call.start, call.first_token))
        return sample(
            cache.entries,
            prompt,
            call=call,
            profile=self.profile,
            switches=self.switches,
            chance=self.chance,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    prompt: RenderedPrompt
    edited: Edited
    binding: Binding | None
    original: int
    deleted: int


@dataclass(frozen=True, slots=True)
class _Run:
    kind: str
    prompt: RenderedPrompt
    sampled: Sampled


def _prepare(cache: Cache, setting: _Setting) -> _Ready | RequestOutcome:
    call = setting.call
    profile = setting.profile
    seen = visible(call.body, flatten(call.body, setting.count), profile)
    bound: Binding | None = None
    if profile.binds_thinking and setting.switches.binding:
        bound = binding(cache, call, seen)
        thinking = call.body.get("thinking")
        wish = thinking.get("block_binding") if isinstance(thinking, dict) else None
        on_mismatch = wish.get("prefix_mismatch_behavior") if isinstance(wish, dict) else None
        if bound.broken and (on_mismatch or "error") == "error":
            index, inner = bound.broken[0].at
            text = (
                f"messages.{index}.content.{inner}: `thinking` block was produced after different content; "
                "the messages, system and tools before it must not change."
            )
            refusal = ApiRefusal(400, "invalid_request_error", text)
            return RequestOutcome(cache=cache, refusal=refusal, trace=Trace(unbound=_paths(bound.broken)))
        lost = set(map(id, bound.broken))
        seen = [block for block in seen if id(block) not in lost]
    cleared = cache.cleared if setting.switches.clearing == "sticky" else frozenset()
    edited = edit(call.body, seen, profile=profile, cleared=cleared, count=setting.count)
    original = sum(block.tokens for block in seen)
    blocks, deleted = without_deleted(edited.blocks) if setting.switches.cache_edits else (edited.blocks, 0)
    placed = markers_of(call.body, blocks)
    if isinstance(placed, ApiRefusal):
        return RequestOutcome(cache=cache, refusal=placed)
    prompt = setting.prompt(blocks, placed)
    if prompt.tokens > profile.window:
        text = f"prompt is too long: {prompt.tokens} tokens > {profile.window} maximum"
        refusal = ApiRefusal(400, "invalid_request_error", text)
        return RequestOutcome(
            cache=cache, refusal=refusal, prompt_tokens=prompt.tokens, original_tokens=original
        )
    return _Ready(prompt=prompt, edited=edited, binding=bound, original=original, deleted=deleted)


def _paths(blocks: tuple[Rendered, ...]) -> tuple[str, ...]:
    return tuple(block.path for block in blocks)


def _run(cache: Cache, setting: _Setting, ready: _Ready) -> list[_Run]:
    """Run every sampling of the call: usually one, more with server tools or a triggered compaction."""
    call = setting.call
    output = call.output_tokens
    if isinstance(call.body.get("compaction"), dict):
        return [_Run("compaction", ready.prompt, setting.sample(cache, ready.prompt, output))]
    management = call.body.get("context_management")
    edits = objects(management.get("edits")) if isinstance(management, dict) else []
    asked = next((item for item in edits if item.get("type") == "compact_20260112"), None)
    trigger = _value(asked.get("trigger"), COMPACTION_TRIGGER_TOKENS) if asked else 0
    if asked and call.summary and ready.prompt.tokens >= trigger:
        return _compact(cache, setting, ready, asked)
    return _sample_with_server_tools(cache, setting, ready, output)


def _compact(cache: Cache, setting: _Setting, ready: _Ready, due: JsonObject) -> list[_Run]:
    """Write the summary in one sampling and continue from it in the next; both are billed."""
    wire: JsonObject = {"type": "compaction", "content": setting.call.summary}
    summary = render(wire, level="messages", role="assistant", at=(0, 0), count=setting.count)
    first = setting.sample(cache, ready.prompt, summary.tokens)
    asked: Json = due.get("instructions")
    if isinstance(asked, str):
        extra = setting.count({"type": "text", "text": asked})
        first = first._replace(usage=first.usage + Usage(input=extra))
    runs = [_Run("compaction", ready.prompt, first)]
    if due.get("pause_after_compaction") is True:
        return runs
    head = [block for block in ready.prompt.blocks if block.level != "messages"]
    markers = tuple((index, ttl) for index, ttl in ready.prompt.markers if index < len(head))
    prompt = setting.prompt([*head, summary], markers)
    second = setting.sample(
        replace(cache, entries=first.entries), prompt, setting.call.output_tokens, is_first=False
    )
    return [*runs, _Run("message", prompt, second)]


def _sample_with_server_tools(cache: Cache, setting: _Setting, ready: _Ready, output: int) -> list[_Run]:
    """Sample again after each server tool's result, on a prompt that ends with the result."""
    runs = [_Run("message", ready.prompt, setting.sample(cache, ready.prompt, 0))]
    blocks = list(ready.prompt.blocks)
    markers = ready.prompt.markers
    for inner, wire in enumerate(setting.call.reply):
        at = (len(objects(setting.call.body.get("messages"))), inner)
        blocks.append(render(wire, level="messages", role="assistant", at=at, count=setting.count))
        kind = blocks[-1].kind
        if kind.endswith("_tool_result"):
            markers = (*markers, (len(blocks) - 1, "5m")) if markers else markers
            prompt = setting.prompt(list(blocks), markers)
            entries = runs[-1].sampled.entries
            again = setting.sample(replace(cache, entries=entries), prompt, 0, is_first=False)
            runs.append(_Run("message", prompt, again))
    last = runs[-1].sampled
    runs[-1] = replace(runs[-1], sampled=last._replace(usage=replace(last.usage, output=output)))
    return runs


def _remember(cache: Cache, setting: _Setting, ready: _Ready, runs: list[_Run]) -> Cache:
    call = setting.call
    body = setting.call.body
    shot = Snapshot(
        message_id=call.message_id,
        lane=call.lane,
        model=setting.profile.model,
        settings=body.get("speed"),
        config=config_digest(call),
        blocks=tuple(ready.prompt.blocks),
        chain=tuple(ready.prompt.chain),
        cached=runs[0].sampled.cached,
    )
    bindings = {**cache.bindings, **ready.binding.bound} if ready.binding else cache.bindings
    return Cache(
        entries=runs[-1].sampled.entries,
        bindings=bindings,
        cleared=ready.edited.cleared if setting.switches.clearing == "sticky" else cache.cleared,
        sent=(*cache.sent, shot)[-SNAPSHOTS:],
    )


def _outcome(
    before: Cache, after: Cache, setting: _Setting, ready: _Ready, runs: list[_Run]
) -> RequestOutcome:
    iterations = tuple(
        Iteration("compaction" if run.kind == "compaction" else "message", run.sampled.usage) for run in runs
    )
    prices = [cost(setting.profile, step.usage) for step in iterations]
    known = [price for price in prices if price is not None]
    broken = ready.binding.broken if ready.binding else ()
    return RequestOutcome(
        cache=after,
        usage=sum((step.usage for step in iterations), Usage()),
        cost_usd=sum(known) * setting.call.price_factor if len(known) == len(prices) else None,
        diagnostics=diagnose(before, setting.call, after.sent[-1]) if after is not before else None,
        trace=trace_of(before, setting.call, ready.prompt, runs[0].sampled, unbound=_paths(broken)),
        applied_edits=ready.edited.applied,
        dropped=tuple({"type": "thinking_dropped", "path": block.path} for block in broken),
        deleted_tokens=ready.deleted,
        prompt_tokens=ready.prompt.tokens,
        original_tokens=ready.original,
        iterations=iterations,
        stop_reason=_stop_reason(setting, runs),
    )


def _stop_reason(setting: _Setting, runs: list[_Run]) -> str | None:
    body = setting.call.body
    if runs[-1].kind == "compaction":
        return "compaction"
    if body.get("max_tokens") == 0:
        return "max_tokens"
    full = runs[-1].prompt.tokens + setting.call.output_tokens > setting.profile.window
    return "model_context_window_exceeded" if full else None


CLEAR_TRIGGER_TOKENS = 100_000
"""The provider's default trigger for clearing tool results."""
CLEAR_KEEPS = 3
"""The provider's default number of newest tool uses that are kept."""
CLEARED = "[cleared to save context]"
"""Replaces a result the provider has cleared; its own text is not documented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The prompt after the provider's edits, and its report of them."""

    blocks: list[Rendered]
    applied: tuple[JsonObject, ...] = ()
    cleared: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Thinking blocks and the prefixes they were written after."""

    broken: tuple[Rendered, ...]
    bound: dict[tuple[str, bytes], Bound]


def visible(body: JsonObject, blocks: Sequence[Rendered], profile: ModelProfile) -> list[Rendered]:
    """Return the visible blocks: nothing before a compaction, no expired reminder, no stripped thinking."""
    compactions = [index for index, block in enumerate(blocks) if block.kind == "compaction"]
    valid = [index for index in compactions if isinstance(blocks[index].wire.get("content"), str)]
    start = valid[-1] if valid else 0
    failed = set(compactions) - set(valid)
    shown = [
        block
        for index, block in enumerate(blocks)
        if index not in failed and (index >= start or block.level != "messages")
    ]
    messages = objects(body.get("messages"))
    last_user = max((index for index, m in enumerate(messages) if m.get("role") == "user"), default=-1)
    reminders = (index for index, m in enumerate(messages) if m.get("clear_at") == "next_user_message")
    if expired := {index for index in reminders if index < last_user}:
        shown = [
            b for b in shown if b.level != "messages" or b.at[0] not in expired or b.kind == "output_config"
        ]
    if not profile.strips_old_thinking:
        return shown
    in_user = (b.level == "messages" and b.role == "user" and b.kind != "tool_result" for b in shown)
    last = max((index for index, is_text in enumerate(in_user) if is_text), default=0)
    return [block for index, block in enumerate(shown) if index >= last or block.kind not in THINKING]


def binding(cache: Cache, call: Call, blocks: Sequence[Rendered]) -> Binding:
    """Compare the prefix of each thinking block with its prefix when it was first sent.

    Thinking may be removed from the start but not from the middle, so each block also stores the thinking
    before it. A compaction starts a new prefix.
    """
    broken: list[Rendered] = []
    bound: dict[tuple[str, bytes], Bound] = {}
    link = b""
    previous = ""
    summary = b""
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
            block = render(wire, level="messages", role="assistant", at=(0, 0), count=lambda _: 0)
            link = blake2b(link + block.digest, digest_size=DIGEST_BYTES).digest()
    return Binding(broken=tuple(broken), bound=bound)


def _signature(wire: JsonObject) -> str:
    return str(wire.get("signature") or wire.get("data") or wire.get("thinking") or "")


def edit(
    body: JsonObject, blocks: list[Rendered], *, profile: ModelProfile, cleared: frozenset[str], count: Count
) -> Edited:
    """Apply `context_management`: thinking first, then tool results; `cleared` stays cleared."""
    management = body.get("context_management")
    edits = objects(management.get("edits")) if isinstance(management, dict) else []
    applied: list[JsonObject] = []
    for item in edits:
        if item.get("type") == "clear_thinking_20251015":
            blocks, note = _clear_thinking(blocks, item.get("keep"), profile)
            applied += [note] if note else []
    for item in edits:
        if item.get("type") == "clear_tool_uses_20250919":
            done = _clear_tool_uses(blocks, item, cleared=cleared, count=count)
            blocks = done.blocks
            cleared = done.cleared
            applied += done.applied
    return Edited(blocks=blocks, applied=tuple(applied), cleared=cleared)


def without_deleted(blocks: list[Rendered]) -> tuple[list[Rendered], int]:
    """Remove results that a `cache_edits` block deletes; the prefix around them stays cached."""
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


def _clear_thinking(
    blocks: list[Rendered], keep: Json, profile: ModelProfile
) -> tuple[list[Rendered], JsonObject | None]:
    """Clear the thinking of all but the newest turns; 0 or another value keeps all of it."""
    turns = sorted({block.at[0] for block in blocks if block.kind in THINKING})
    newest = _value(keep, 0) if keep is not None else 0 if profile.keeps_thinking else 1
    gone = set(turns[:-newest]) if newest else set()
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
    trigger = item.get("trigger")
    if isinstance(trigger, dict) and trigger.get("type") == "tool_uses":
        is_triggered = len(uses) > _value(trigger, 0)
    else:
        is_triggered = _size(before) > _value(trigger, CLEAR_TRIGGER_TOKENS)
    if not is_triggered:
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


def _value(setting: Json, default: int) -> int:
    value = setting.get("value") if isinstance(setting, dict) else None
    return value if isinstance(value, int) else default


def _size(blocks: Sequence[Rendered]) -> int:
    return sum(block.tokens for block in blocks)


def _blank(blocks: list[Rendered], ids: frozenset[str], clear_inputs: Json, count: Count) -> list[Rendered]:
    blanked: list[Rendered] = []
    for block in blocks:
        wire = block.wire
        if block.kind == "tool_result" and wire.get("tool_use_id") in ids:
            wire = {**wire, "content": CLEARED}
        elif block.kind == "tool_use" and wire.get("id") in ids:
            named = isinstance(clear_inputs, list) and wire.get("name") in clear_inputs
            wire = {**wire, "input": {}} if named or clear_inputs is True else wire
        if wire is not block.wire:
            block = render(wire, level=block.level, role=block.role, at=block.at, count=count)
        blanked.append(block)
    return blanked
