"""OpenAI's prompt cache as pure functions (P6): message boundaries on newer models, token intervals before.

For Responses and chat completions. Routing of requests to machines is not simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from nacre.cache.models import ModelProfile, cost
from nacre.devtools.cache_models.anthropic_lookup import (
    RenderedPrompt,
    Sampled,
    changed_level,
    first_difference,
    prompt_of,
    trace_of,
)
from nacre.devtools.cache_models.anthropic_render import DIGEST_BYTES, Count, chain, digest, objects, render
from nacre.devtools.cache_models.anthropic_state import (
    ApiRefusal,
    Cache,
    CacheEntry,
    Call,
    Iteration,
    Level,
    Rendered,
    RequestOutcome,
    Snapshot,
)
from nacre.messages.blocks import Document, Image, Json, JsonObject
from nacre.messages.media import media_facts
from nacre.messages.tokens import estimate_json, estimate_text
from nacre.messages.usage import Usage
from nacre.messages.wire import canonical

TOOL_OUTPUTS = frozenset({"tool", "function_call_output", "custom_tool_call_output", "computer_call_output"})
DEVELOPER = frozenset({"developer", "system"})
SEAL = "gAAAAA.sim."
"""The beginning of the simulator's encrypted reasoning; the number of its tokens follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The blocks of a request and its possible cache boundaries."""

    blocks: list[Rendered]
    ends: tuple[int, ...]
    """Blocks that end an eligible message: a user's, the last tool output in a row, the developer's first."""
    developer_end: int
    """The block that ends the leading developer messages, or -1."""
    marked: tuple[tuple[int, str], ...]
    """Blocks with an explicit breakpoint, and its lifetime if it names one."""


def estimate(wire: JsonObject) -> int:
    """Estimate the tokens of a block from its bytes."""
    match wire:
        case {"type": "reasoning", "encrypted_content": str(sealed)} if sealed.startswith(SEAL):
            tokens = sealed.removeprefix(SEAL).partition(".")[0]
            return int(tokens) if tokens.isdecimal() else 0
        case {"text": str(text)} | {"content": str(text)} | {"output": str(text)}:
            return estimate_text(text)
        case {"output": list(parts)}:
            return sum(map(estimate, objects(parts)))
        case {"type": "input_image" | "input_file" | "image_url" | "file"}:
            return _media_tokens(wire)
        case _:
            return estimate_json(wire)


def _media_tokens(wire: JsonObject) -> int:
    """Estimate a picture by its size and a file by its pages; one by URL has a flat figure."""
    inner = next((one for key in ("image_url", "file") if isinstance(one := wire.get(key), dict)), wire)
    address = inner.get("url") or inner.get("image_url") or inner.get("file_data")
    kind, _, data = str(address).removeprefix("data:").partition(";base64,")
    source: JsonObject = {"type": "base64", "media_type": kind, "data": data}
    return media_facts(Image(source) if kind.startswith("image/") else Document(source)).tokens


def layout(body: JsonObject, count: Count) -> Layout:
    """Return the layout: tools, then instructions and the conversation, one block per content part."""
    blocks = [
        render(tool, level="tools", role="", at=(index, -1), count=count)
        for index, tool in enumerate(objects(body.get("tools")))
    ]
    items = list(_items(body))
    leading = next((i for i, item in enumerate(items) if _speaker(item) not in DEVELOPER), len(items))
    ends: list[int] = []
    for index, item in enumerate(items):
        level: Level = "system" if index < leading else "messages"
        for inner, part in enumerate(_parts(item)):
            blocks.append(_rendered(part, level=level, role=_speaker(item), at=(index, inner), count=count))
        after = _speaker(items[index + 1]) if index + 1 < len(items) else ""
        if _speaker(item) in TOOL_OUTPUTS and index >= leading:
            is_eligible = after not in TOOL_OUTPUTS
        else:
            is_eligible = index == leading - 1 if index < leading else _speaker(item) == "user"
        if is_eligible:
            ends.append(len(blocks) - 1)
    return Layout(
        blocks=blocks,
        ends=tuple(ends),
        developer_end=ends[0] if leading and ends else -1,
        marked=tuple((i, block.marker) for i, block in enumerate(blocks) if block.marker),
    )


def _items(body: JsonObject) -> Iterator[JsonObject]:
    if "messages" in body:
        yield from objects(body["messages"])
        return
    instructions = body.get("instructions")
    if isinstance(instructions, str) and instructions:
        yield {"role": "developer", "content": instructions}
    said: Json = body.get("input")
    if isinstance(said, str):
        yield {"role": "user", "content": said}
    yield from objects(said)


def _speaker(item: JsonObject) -> str:
    """Return a message's role; for other items their type."""
    return str(item.get("role") or item.get("type") or "")


def _parts(item: JsonObject) -> Iterator[JsonObject]:
    content = item.get("content")
    rest = {key: value for key, value in item.items() if key not in {"role", "content", "id"}}
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from objects(content)
    if item.get("role") is None or "tool_calls" in rest or "tool_call_id" in rest:
        yield rest


def _rendered(part: JsonObject, *, level: Level, role: str, at: tuple[int, int], count: Count) -> Rendered:
    point = part.get("prompt_cache_breakpoint")
    bare = {key: value for key, value in part.items() if key != "prompt_cache_breakpoint"}

    def count_part(wire: JsonObject) -> int:
        return count({key: value for key, value in wire.items() if key != "role"})

    block = render({"role": role, **bare}, level=level, role="", at=at, count=count_part)
    if not isinstance(point, dict):
        return block._replace(role=role)
    return block._replace(role=role, marker=str(point.get("ttl") or "explicit"))


WRITES = 4
"""Breakpoints one request can write, including the implicit one."""
FIRST_EXPLICIT = 2
LATEST_EXPLICIT = 50
EARLIER_ENDS = 20
"""The lookup set of the caching guide."""
LATEST_BREAKPOINTS = 80
"""The lookup set of the SDK's reference."""
LONG_TTLS: dict[str, float] = {"12h": 43_200.0, "24h": 86_400.0}
IDLE_CAP_SECONDS = 3_600.0
"""Maximum age of an entry held in memory, however often it is used."""
SNAPSHOTS = 16
"""Number of past requests kept for diagnostics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISwitches:
    """Assumptions where the documentation is open."""

    lookup: Literal["guide", "reference"] = "guide"
    """The guide's set of boundaries, or the latest 80 breakpoints of the SDK's reference."""
    tier_in_key: bool = False
    """Whether service tiers have separate entries."""
    hidden_tokens: int = 0
    """Tokens the provider prepends, neither shown nor billed; they shift the intervals."""


DEFAULT_SWITCHES = OpenAISwitches()


def simulate(
    cache: Cache,
    call: Call,
    *,
    profile: ModelProfile,
    switches: OpenAISwitches = DEFAULT_SWITCHES,
    count: Count = estimate,
) -> RequestOutcome:
    """Return the provider's answer to a call: tokens, cost and the new cache."""
    if call.body.get("prewarm") is True:
        call = replace(call, output_tokens=0)
    plan = layout(call.body, count)
    settings = _settings(call.body)
    settings["reasoning_effort"] = settings["reasoning_effort"] or profile.default_effort
    if not switches.tier_in_key:
        del settings["service_tier"]
    seed = digest([call.org, call.workspace, profile.model, settings])
    links = chain(plan.blocks, {"tools": seed, "system": b"", "messages": b""})
    prompt = prompt_of(plan.blocks, links, ())
    if prompt.tokens > profile.window:
        refusal = _too_long(call.body, prompt.tokens, profile)
        return RequestOutcome(cache=cache, refusal=refusal, prompt_tokens=prompt.tokens)
    if call.outcome in {"rejected", "broken_before"}:
        return RequestOutcome(cache=cache, prompt_tokens=prompt.tokens, original_tokens=prompt.tokens)
    asked = _LaidOutRequest(
        call=call, plan=plan, prompt=prompt, seed=seed, profile=profile, switches=switches
    )
    live = {key: entry for key, entry in cache.entries.items() if entry.expires_at > call.start}
    if profile.cache == "boundaries":
        sampled = _at_boundaries(live, asked)
    elif profile.cache == "intervals":
        sampled = _at_intervals(live, asked)
    else:
        usage = Usage(input=prompt.tokens, output=call.output_tokens)
        sampled = Sampled(cache.entries, usage, -1, 0.0, 0, 0, ())
    shot = Snapshot(
        message_id=call.message_id,
        lane=call.lane,
        model=profile.model,
        settings=_settings(call.body),
        config=b"",
        blocks=tuple(plan.blocks),
        chain=tuple(prompt.chain),
        cached=sampled.cached,
    )
    price = cost(profile, sampled.usage)
    return RequestOutcome(
        cache=replace(cache, entries=sampled.entries, sent=(*cache.sent, shot)[-SNAPSHOTS:]),
        usage=sampled.usage,
        cost_usd=None if price is None else price * call.price_factor,
        diagnostics=_diagnose(cache, call, shot),
        trace=trace_of(cache, call, prompt, sampled, unbound=()),
        prompt_tokens=prompt.tokens,
        original_tokens=prompt.tokens,
        iterations=(Iteration("message", sampled.usage),),
    )


def api_usage(outcome: RequestOutcome, *, chat: bool = False) -> JsonObject:
    """Return usage as Responses or chat completions report it; the input counter includes cached tokens."""
    usage = outcome.usage
    details: JsonObject = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    if chat:
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "total_tokens": usage.total,
            "prompt_tokens_details": details,
            "completion_tokens_details": {"reasoning_tokens": 0},
        }
    long = usage.cache_write_1h
    details["cache_write_tokens_details"] = {
        "ttl_30m_tokens": usage.cache_write - long,
        "ttl_12h_tokens": long,
    }
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": details,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total,
    }


def _too_long(body: JsonObject, tokens: int, profile: ModelProfile) -> ApiRefusal:
    text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    if "messages" in body:
        text = (
            f"This model's maximum context length is {profile.window} tokens. "
            f"However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
        )
    return ApiRefusal(400, "context_length_exceeded", text)


def _settings(body: JsonObject) -> dict[str, Json]:
    """Return the parameters that precede the tools, by their names in miss reasons."""
    text = body.get("text")
    reasoning = body.get("reasoning")
    text = text if isinstance(text, dict) else {}
    reasoning = reasoning if isinstance(reasoning, dict) else {}
    parallel = body.get("parallel_tool_calls")
    return {
        "prompt_cache_key": body.get("prompt_cache_key"),
        "text_format": text.get("format") or body.get("response_format"),
        "reasoning_effort": reasoning.get("effort") or body.get("reasoning_effort"),
        "verbosity": text.get("verbosity") or body.get("verbosity"),
        "service_tier": body.get("service_tier"),
        "parallel": True if parallel is None else parallel,
        "context_management": body.get("context_management"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaidOutRequest:
    """One request with its layout and the rules for it."""

    call: Call
    plan: Layout
    prompt: RenderedPrompt
    seed: bytes
    profile: ModelProfile
    switches: OpenAISwitches


def _at_boundaries(entries: dict[bytes, CacheEntry], asked: _LaidOutRequest) -> Sampled:
    """Newer models: exact match at a boundary, longest first; only tokens beyond the hit are written."""
    call = asked.call
    plan = asked.plan
    prompt = asked.prompt
    least = asked.profile.min_cacheable
    options = call.body.get("prompt_cache_options")
    options = options if isinstance(options, dict) else {}
    is_implicit = options.get("mode") != "explicit"
    candidates = _candidates(plan, asked.switches.lookup, implicit=is_implicit)
    eligible = (i for i in candidates if prompt.sums[i] >= least)
    found = next((i for i in eligible if _is_live(entries, prompt.chain[i], call.start)), -1)
    read = prompt.sums[found] if found >= 0 else 0
    age = call.start - entries[prompt.chain[found]].written_at if found >= 0 else 0.0
    writes = _writes(plan, plan.ends[-1:] if is_implicit else (), default=str(options.get("ttl") or "30m"))
    writes = {i: ttl for i, ttl in writes.items() if prompt.sums[i] >= least}
    long_end = max((prompt.sums[i] for i, ttl in writes.items() if ttl in LONG_TTLS), default=0)
    end = max((prompt.sums[i] for i in writes), default=0)
    _store(entries, asked, {prompt.chain[i]: (prompt.sums[i], writes[i]) for i in writes})
    if found >= 0:
        hit = entries[prompt.chain[found]]
        entries[prompt.chain[found]] = hit._replace(expires_at=max(hit.expires_at, call.start + hit.ttl))
    usage = Usage(
        input=prompt.tokens - max(read, end),
        cache_read=read,
        cache_write=max(0, end - read),
        cache_write_1h=max(0, long_end - read),
        output=call.output_tokens,
    )
    return Sampled(entries, usage, found, age, len(candidates), max(read, end), ())


def _candidates(plan: Layout, lookup: str, *, implicit: bool) -> list[int]:
    """Return the boundaries at which a cached prefix is looked up, longest first."""
    explicit = [index for index, _ in plan.marked]
    ends = list(plan.ends) if implicit else []
    if lookup == "reference":
        return sorted({*explicit, *ends}, reverse=True)[:LATEST_BREAKPOINTS]
    near = ends[-1 - EARLIER_ENDS :]
    developer = [plan.developer_end] if implicit and plan.developer_end >= 0 else []
    return sorted({*explicit[:FIRST_EXPLICIT], *explicit[-LATEST_EXPLICIT:], *near, *developer}, reverse=True)


def _writes(plan: Layout, implicit: Sequence[int], *, default: str) -> dict[int, str]:
    explicit = plan.marked[-(WRITES - len(implicit)) :]
    named = {index: default if ttl == "explicit" else ttl for index, ttl in explicit}
    return {**dict.fromkeys(implicit, default), **named}


def _store(
    entries: dict[bytes, CacheEntry], asked: _LaidOutRequest, places: Mapping[bytes, tuple[int, str]]
) -> None:
    call = asked.call
    visible = call.first_token if call.end is None else call.end
    visible = call.start if visible is None else visible
    for key, (tokens, name) in places.items():
        ttl = LONG_TTLS.get(name, float(asked.profile.ttl_seconds))
        old = entries.get(key)
        if old is None:
            entries[key] = CacheEntry(tokens, visible, call.start + ttl, ttl, call.start)
        else:
            longer = max(old.ttl, ttl)
            entries[key] = old._replace(
                visible_at=min(old.visible_at, visible),
                expires_at=max(old.expires_at, call.start + longer),
                ttl=longer,
            )


def _is_live(entries: Mapping[bytes, CacheEntry], key: bytes, now: float) -> bool:
    entry = entries.get(key)
    return entry is not None and entry.visible_at <= now < entry.expires_at


def _at_intervals(entries: dict[bytes, CacheEntry], asked: _LaidOutRequest) -> Sampled:
    """Older models: a boundary at every interval of tokens; writes are free, reads are rounded down."""
    call = asked.call
    profile = asked.profile
    hidden = asked.switches.hidden_tokens
    places = [place for place in _cuts(asked) if place[0] - hidden >= profile.min_cacheable]
    live = [place for place in places if _is_live(entries, place[1], call.start)]
    boundary, key, index = live[-1] if live else (0, b"", -1)
    read = max(0, boundary - hidden) // profile.round_to * profile.round_to
    age = call.start - entries[key].written_at if live else 0.0
    name = "24h" if call.body.get("prompt_cache_retention") == "24h" else "in_memory"
    _store(entries, asked, {key: (tokens, name) for tokens, key, _ in places})
    for _, key, _ in places:
        entry = entries[key]
        if entry.ttl < IDLE_CAP_SECONDS:
            cap = entry.written_at + IDLE_CAP_SECONDS
            entries[key] = entry._replace(expires_at=min(entry.expires_at, cap))
    usage = Usage(input=asked.prompt.tokens - read, cache_read=read, output=call.output_tokens)
    cached = max(0, places[-1][0] - hidden) if places else 0
    return Sampled(entries, usage, index, age, len(places), cached, ())


def _cuts(asked: _LaidOutRequest) -> Iterator[tuple[int, bytes, int]]:
    """Yield each boundary's tokens, digest and block; inside a block it is placed by the share of bytes."""
    prompt = asked.prompt
    interval = asked.profile.interval
    hidden = asked.switches.hidden_tokens
    before = asked.seed
    base = hidden
    for index, block in enumerate(prompt.blocks):
        end = hidden + prompt.sums[index]
        first = base // interval * interval + interval
        if first <= end:
            coded = canonical(block.wire)
            state = blake2b(before, digest_size=DIGEST_BYTES)
            done = 0
            for cut in range(first, end + 1, interval):
                share = -(-len(coded) * (cut - base) // (end - base))
                state.update(coded[done:share])
                done = share
                yield cut, state.digest(), index
        before = prompt.chain[index]
        base = end


def _diagnose(cache: Cache, call: Call, now: Snapshot) -> JsonObject | None:
    """Return why a request does not continue the one it is compared with, as the provider words it."""
    options = call.body.get("prompt_cache_options")
    wanted = options.get("comparison_response_id") if isinstance(options, dict) else None
    before = next((shot for shot in reversed(cache.sent) if shot.message_id == wanted), None)
    if not isinstance(wanted, str) or before is None:
        return None
    reason = _reason(before, now)
    if reason is None:
        return {"type": "cache_hit"}
    place = first_difference(before.chain, now.chain) or 0
    missed = sum(block.tokens for block in before.blocks[place:])
    return {"type": "cache_miss", "reason": reason, "cache_missed_tokens": missed}


def _reason(before: Snapshot, now: Snapshot) -> str | None:
    if before.model != now.model:
        return "model"
    if isinstance(before.settings, dict) and isinstance(now.settings, dict):
        for name in ("prompt_cache_key", "text_format", "reasoning_effort", "verbosity", "service_tier"):
            if before.settings[name] != now.settings[name]:
                return name
    place = first_difference(before.chain, now.chain)
    if place is None:
        return None
    if changed_level(before.blocks, now.blocks, place) == "tools":
        return "tools"
    compacted = {block.kind for block in now.blocks} - {block.kind for block in before.blocks}
    return "context_compacted" if "compaction" in compacted else "input"
