"""Data classes of the Anthropic cache simulator: a call, its outcome, and the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage

Level = Literal["tools", "system", "messages"]
Ending = Literal["ok", "rejected", "broken_before", "broken_after"]
"""How a call ended: answered, refused for another reason, broken before or after the first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request as received by the provider, and how it ended; times in seconds on any one clock."""

    body: JsonObject
    org: str = "org"
    workspace: str = "default"
    betas: tuple[str, ...] = ()
    start: float = 0.0
    first_token: float | None = None
    """Start of the reply, from which entries can be read. None: at once."""
    end: float | None = None
    output_tokens: int = 0
    outcome: Ending = "ok"
    message_id: str = ""
    """Id of the reply, by which a later request can ask for diagnostics."""
    lane: str = ""
    """Requests of one lane are expected to extend each other; used by the trace only."""
    reply: tuple[JsonObject, ...] = ()
    """The reply's blocks, if known: thinking is bound to its prefix, server tools are sampled again."""
    summary: str = ""
    """Summary of a compaction that is triggered in this call."""
    price_factor: float = 1.0
    """0.5 for a batch, higher for fast mode or a chosen region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicSwitches:
    """Assumptions where the documentation is open; results are published for more than one setting."""

    run_boundaries: Literal["all", "end"] = "all"
    """Inside a run that counts as one position, the end of every block is tried, or only the run's."""
    refresh: Literal["hit_only", "marked", "whole_prefix"] = "marked"
    """Which entries below the hit are refreshed by it."""
    broken_after_writes: bool = True
    """Whether a reply that breaks after its first token writes its entries."""
    clearing: Literal["stateless", "sticky"] = "stateless"
    """Whether a cleared result stays cleared."""
    betas_at: Literal["nowhere", "messages", "everything"] = "messages"
    """What a change of beta headers or of `context_management` invalidates."""
    binding: bool = True
    """Whether preserved thinking is enforced; it is not for older accounts."""
    cache_edits: bool = False
    """Whether `cache_edits` blocks are accepted, which is not documented."""
    eviction: float = 0.0
    """Probability that an entry is evicted early, drawn each time it would be read."""


class CacheEntry(NamedTuple):
    """One cached prefix."""

    tokens: int
    visible_at: float
    expires_at: float
    ttl: float
    written_at: float


class Rendered(NamedTuple):
    """One block in the order in which the model reads it."""

    level: Level
    kind: str
    role: str
    at: tuple[int, int]
    """Index in its list, and in the message's content (-1: not inside a message)."""
    wire: JsonObject
    marker: str
    """Lifetime of its cache marker; empty without one."""
    digest: bytes
    tokens: int
    size: int

    @property
    def path(self) -> str:
        index, inner = self.at
        return f"{self.level}[{index}]" if inner < 0 else f"{self.level}[{index}].content[{inner}]"


class Bound(NamedTuple):
    """The prefix of a thinking block when the model wrote it."""

    prefix: bytes
    previous: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One request, stored to find where the next one differs."""

    message_id: str
    lane: str
    model: str
    settings: Json
    """Parameters besides the blocks whose change is a miss reason of its own."""
    config: bytes
    blocks: tuple[Rendered, ...]
    chain: tuple[bytes, ...]
    cached: int
    """Tokens up to the last effective marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The provider's cache; a value, so that one state can be continued in several ways."""

    entries: Mapping[bytes, CacheEntry] = field(default_factory=dict)
    bindings: Mapping[tuple[str, bytes], Bound] = field(default_factory=dict)
    cleared: frozenset[str] = frozenset()
    sent: tuple[Snapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiRefusal:
    """An error response of the provider."""

    status: int
    type: str
    message: str
    details: JsonObject | None = None

    @property
    def body(self) -> JsonObject:
        """The error in wire form."""
        return {"type": "error", "error": {"type": self.type, "message": self.message}}


@dataclass(frozen=True, slots=True)
class Iteration:
    """One sampling inside a call."""

    kind: Literal["message", "compaction"]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Explanation of the figures."""

    hit_path: str = ""
    hit_age: float = 0.0
    positions: int = 0
    """Number of positions checked."""
    diverged: str = ""
    """The first block that differs from the lane's previous request."""
    before: str = ""
    after: str = ""
    only_order: bool = False
    """Whether the two blocks differ only in the order of their keys."""
    wasted: tuple[str, ...] = ()
    """Markers that wrote nothing because their prefix is too short."""
    avoidable: int = 0
    """Tokens written again where the lane's previous request had cached them."""
    unbound: tuple[str, ...] = ()
    """Thinking blocks whose prefix has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutcome:
    """The provider's answer and its new cache."""

    cache: Cache
    usage: Usage = field(default_factory=Usage)
    """All billed usage, summed over the iterations of the call."""
    cost_usd: float | None = None
    refusal: ApiRefusal | None = None
    diagnostics: JsonObject | None = None
    trace: Trace = field(default_factory=Trace)
    applied_edits: tuple[JsonObject, ...] = ()
    dropped: tuple[JsonObject, ...] = ()
    """Thinking blocks left out because their prefix has changed: the response's `input_transformations`."""
    deleted_tokens: int = 0
    """Tokens that `cache_edits` blocks have removed from the cached prompt, over all requests so far."""
    prompt_tokens: int = 0
    original_tokens: int = 0
    """The prompt before context editing, which `count_tokens` also reports."""
    iterations: tuple[Iteration, ...] = ()
    stop_reason: str | None = None
    """Set if the rules force one: `max_tokens`, `compaction`, `model_context_window_exceeded`."""
