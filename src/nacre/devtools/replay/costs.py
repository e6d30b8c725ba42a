"""Cost of requests by the providers' own rules, fast enough for thousands of them (P6, P7).

Lookup and prices are the simulator's; only the computation differs: a block of the previous request is
neither rendered nor hashed again. Tests compare the figures with the simulator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple, Protocol

from nacre.cache.models import ModelProfile, cost
from nacre.devtools.cache_models import openai_rules
from nacre.devtools.cache_models.anthropic_lookup import RenderedPrompt, sample
from nacre.devtools.cache_models.anthropic_render import (
    DIGEST_BYTES,
    LEVELS,
    THINKING,
    WEB_TOOLS,
    Count,
    blocks_of,
    estimate,
    render,
    seeds,
)
from nacre.devtools.cache_models.anthropic_state import (
    AnthropicSwitches,
    Cache,
    CacheEntry,
    Call,
    Level,
    Rendered,
)
from nacre.devtools.replay.schema import WireRequest
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage
from nacre.providers.openai_translate import Translator

ENDLESS = 1_000_000_000
"""Window size: requests that would not fit are billed, too; the caller counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Usage and cost of one request, compared with the previous one."""

    usage: Usage
    cost_usd: float
    blocks: Sequence[Rendered]
    """The blocks of the request, base included."""
    shared: int
    """Number of them that are unchanged from the previous request."""
    broke: bool
    """Whether bytes of the previous request changed or are gone."""
    unbound: bool = False
    """Whether it holds thinking whose prefix has changed, which some models refuse."""


class Accounts(Protocol):
    """Follows the requests of one session."""

    def bill(self, sent: WireRequest, output_tokens: int, *, is_side: bool = False) -> Bill:
        """Bill a request; the next one is not compared with a side request."""
        ...


def accounts(profile: ModelProfile, *, ratio: float = 1.0) -> Accounts:
    """Return the accounts of a session on this model; `ratio` converts estimated to real tokens."""
    if profile.cache == "markers":
        return AnthropicAccounts(profile, ratio=ratio)
    return OpenAIAccounts(profile, ratio=ratio)


def counted(ratio: float) -> Count:
    """Estimate the tokens of a block from its bytes, corrected by the session's ratio."""
    return lambda wire: round(estimate(wire) * ratio)


class _Block(NamedTuple):
    """A rendered block, and whether it changes the digest of others."""

    rendered: Rendered
    is_special: bool


class _Laid(NamedTuple):
    """The blocks of a request, each with the digest and size of its prefix."""

    blocks: list[Rendered]
    chain: list[bytes]
    sums: list[int]
    pasts: list[bytes]
    """What a thinking block is bound to: the digest of everything before it except thinking."""
    seeds: Mapping[Level, bytes]
    shared: int


class AnthropicAccounts:
    """Markers, look-back and lifetimes."""

    def __init__(self, profile: ModelProfile, *, ratio: float = 1.0) -> None:
        self._profile = profile
        self._count = counted(ratio)
        self._entries: Mapping[bytes, CacheEntry] = {}
        self._known: dict[tuple[int, str], _Block] = {}
        """Blocks by identity and role; each holds its wire form, so that the identity is not reused."""
        self._messages: dict[int, tuple[JsonObject, list[_Block]]] = {}
        """The last request's messages by identity, held for the same reason."""
        self._last = _Laid([], [], [], [], {}, 0)
        self._whole: Sequence[_Block] = ()
        """The last request before anything was stripped."""
        self._bound: dict[bytes, set[bytes]] = {}
        """Prefix of each thinking block when it was first sent; two blocks may be equal."""

    def bill(self, sent: WireRequest, output_tokens: int, *, is_side: bool = False) -> Bill:
        whole = self._blocks(sent)
        found = _without_old_thinking(whole) if self._profile.strips_old_thinking else whole
        special = [one.rendered for one in found if one.is_special]
        mixed = seeds(Call(body={}), self._profile, SWITCHES, special)
        before = self._last
        laid = _continued(before, [one.rendered for one in found], mixed)
        prompt = RenderedPrompt(
            blocks=laid.blocks,
            chain=laid.chain,
            sums=laid.sums,
            markers=tuple((i, block.marker) for i, block in enumerate(laid.blocks) if block.marker),
        )
        call = Call(body={}, start=sent.at.timestamp(), output_tokens=output_tokens)
        sampled = sample(self._entries, prompt, call=call, profile=self._profile, switches=SWITCHES)
        self._entries = sampled.entries
        broke = self._is_broken(whole)
        unbound = self._profile.binds_thinking and self._is_unbound(laid, broke=broke)
        if not is_side:
            self._last = laid
            self._whole = whole
        return Bill(
            usage=sampled.usage,
            cost_usd=cost(self._profile, sampled.usage) or 0.0,
            blocks=laid.blocks,
            shared=laid.shared,
            broke=broke,
            unbound=unbound,
        )

    def _blocks(self, sent: WireRequest) -> list[_Block]:
        """Return every block in order; messages of the last request are not rendered again."""
        found = [self._block(wire, level, role) for level, role, wire in _head(sent)]
        live: dict[int, tuple[JsonObject, list[_Block]]] = {}
        for message in sent.messages:
            known = self._messages.get(id(message))
            content = message["content"]
            if known is None or len(known[1]) != (len(content) if isinstance(content, list) else 1):
                role = str(message["role"])
                known = (message, [self._block(wire, "messages", role) for wire in blocks_of(content)])
            live[id(message)] = known
            found += known[1]
        self._messages = live
        if len(self._known) > MAX_STALE * len(found):
            self._known = {(id(one.rendered.wire), one.rendered.role): one for one in found}
        return found

    def _block(self, wire: JsonObject, level: Level, role: str) -> _Block:
        key = (id(wire), role)
        found = self._known.get(key)
        if found is None:
            rendered = render(wire, level=level, role=role, at=(0, 0), count=self._count)
            found = self._known[key] = _Block(rendered, _is_special(rendered))
        return found

    def _is_broken(self, now: Sequence[_Block]) -> bool:
        """Whether sent bytes changed, except those the provider strips itself."""
        before = self._whole
        return len(now) < len(before) or any(
            one.rendered.digest != other.rendered.digest for one, other in zip(before, now, strict=False)
        )

    def _is_unbound(self, laid: _Laid, *, broke: bool) -> bool:
        """Whether the model would refuse its thinking (C12b)."""
        found = False
        for place in range(laid.shared, len(laid.blocks)):
            block = laid.blocks[place]
            past = laid.pasts[place]
            if block.kind in THINKING:
                known = self._bound.setdefault(block.digest, set())
                found = found or (broke and bool(known) and past not in known)
                known.add(past)
        return found


class OpenAIAccounts:
    """Boundaries or intervals, computed by the simulator."""

    def __init__(self, profile: ModelProfile, *, ratio: float = 1.0) -> None:
        self._profile = replace(profile, window=ENDLESS)
        self._ratio = ratio
        self._translator = Translator()
        self._cache = Cache()
        self._layout = AnthropicAccounts(profile, ratio=ratio)
        """Tracks the blocks as the policy sent them, before translation."""

    def bill(self, sent: WireRequest, output_tokens: int, *, is_side: bool = False) -> Bill:
        body: JsonObject = {"messages": [*self._translator.messages(sent.system, sent.messages)]}
        if sent.tools:
            body["tools"] = [*sent.tools]
        call = Call(body=body, start=sent.at.timestamp(), output_tokens=output_tokens)
        outcome = openai_rules.simulate(self._cache, call, profile=self._profile, count=self._count)
        self._cache = replace(outcome.cache, sent=())
        laid = self._layout.bill(sent, output_tokens, is_side=is_side)
        return replace(laid, usage=outcome.usage, cost_usd=outcome.cost_usd or 0.0)

    def _count(self, wire: JsonObject) -> int:
        return round(openai_rules.estimate(wire) * self._ratio)


MAX_STALE = 4
"""Blocks are cached up to this multiple of a request's blocks; then those no longer in use are removed."""
SWITCHES = AnthropicSwitches()
"""The simulator's assumptions where the documentation is open."""


def _head(sent: WireRequest) -> Iterator[tuple[Level, str, JsonObject]]:
    """Return tools and system, in the order in which they are read."""
    web = [tool for tool in sent.tools if str(tool.get("type", "")).startswith(WEB_TOOLS)]
    for tool in sent.tools:
        if tool not in web:
            yield "tools", "", tool
    for tool in web:
        yield "system", "", tool
    for block in sent.system:
        yield "system", "system", block


def _is_special(block: Rendered) -> bool:
    """Whether the block, an image, a document with citations or a web tool, changes the digests of others."""
    if block.kind in {"image", "document"} or block.kind.startswith(WEB_TOOLS):
        return True
    content = block.wire.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "image" for part in content
    )


def _without_old_thinking(found: list[_Block]) -> list[_Block]:
    words = (
        index
        for index in range(len(found) - 1, -1, -1)
        if found[index].rendered.role == "user" and found[index].rendered.kind != "tool_result"
    )
    last = next(words, 0)
    return [one for index, one in enumerate(found) if index >= last or one.rendered.kind not in THINKING]


def _continued(before: _Laid, blocks: list[Rendered], mixed: Mapping[Level, bytes]) -> _Laid:
    """Return digests and sums of a request, reusing those of the previous one for the shared prefix."""
    shared = _same(before.blocks, blocks)
    same = shared if mixed == before.seeds else 0
    laid = _Laid(blocks, before.chain[:same], before.sums[:same], before.pasts[:same], mixed, shared)
    link = laid.chain[-1] if same else b""
    total = laid.sums[-1] if same else 0
    past = _past_of(blocks[same - 1], laid.pasts[-1]) if same else b""
    seeded = LEVELS.index(blocks[same - 1].level) + 1 if same else 0
    for block in blocks[same:]:
        while seeded <= LEVELS.index(block.level):
            link = _mixed(link, mixed[LEVELS[seeded]])
            seeded += 1
        link = _mixed(link, block.digest)
        total += block.tokens
        laid.chain.append(link)
        laid.sums.append(total)
        laid.pasts.append(past)
        past = _past_of(block, past)
    return laid


def _past_of(block: Rendered, past: bytes) -> bytes:
    return past if block.kind in THINKING else _mixed(past, block.digest)


def _mixed(link: bytes, digest: bytes) -> bytes:
    return blake2b(link + digest, digest_size=DIGEST_BYTES).digest()


def _same(before: Sequence[Rendered], now: Sequence[Rendered]) -> int:
    """Return the number of blocks two requests share from the start."""
    most = min(len(before), len(now))
    for place in range(most):
        if before[place].digest != now[place].digest:
            return place
    return most
