"""The values of the Anthropic cache simulator: one call in, one outcome out, and the cache between them."""

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
    """One request as it reached the provider, and how it went; times in seconds on any one clock."""

    body: JsonObject
    org: str = "org"
    workspace: str = "default"
    betas: tuple[str, ...] = ()
    start: float = 0.0
    first_token: float | None = None
    """When the reply began; entries can be read from then on. None: at once."""
    end: float | None = None
    output_tokens: int = 0
    outcome: Ending = "ok"
    message_id: str = ""
    """The id of the reply, by which a later request can ask for diagnostics."""
    lane: str = ""
    """Requests of one lane are expected to grow out of each other; only the trace looks at it."""
    reply: tuple[JsonObject, ...] = ()
    """The reply's blocks, where known: thinking is bound to its place, server tools are sampled again."""
    summary: str = ""
    """What a compaction that comes due in this call answers."""
    price_factor: float = 1.0
    """0.5 for a batch, more for fast mode or a chosen region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicSwitches:
    """What the documentation leaves open; results are published for more than one setting."""

    run_boundaries: Literal["all", "end"] = "all"
    """Inside a run that counts as one position, every block's end is tried, or only the run's."""
    refresh: Literal["hit_only", "marked", "whole_prefix"] = "marked"
    """Which entries below the hit live on because of it."""
    broken_after_writes: bool = True
    """A reply that breaks after its first token leaves its entries behind."""
    clearing: Literal["stateless", "sticky"] = "stateless"
    """Whether a result that was cleared once stays cleared."""
    betas_at: Literal["nowhere", "messages", "everything"] = "messages"
    """What a change of beta headers or of `context_management` loses."""
    binding: bool = True
    """Older accounts are not held to preserved thinking."""
    cache_edits: bool = False
    """Whether `cache_edits` blocks are taken, which no documentation promises."""
    eviction: float = 0.0
    """The chance that an entry is gone before its time, drawn each time it would be read."""


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
    """The lifetime its cache marker asks for, or nothing."""
    digest: bytes
    tokens: int
    size: int

    @property
    def path(self) -> str:
        index, inner = self.at
        return f"{self.level}[{index}]" if inner < 0 else f"{self.level}[{index}].content[{inner}]"


class Bound(NamedTuple):
    """What stood before a thinking block when the model wrote it."""

    prefix: bytes
    previous: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one request looked like, for telling where the next one differs."""

    message_id: str
    lane: str
    model: str
    settings: Json
    """Parameters besides the blocks that name a reason of their own when they change."""
    config: bytes
    blocks: tuple[Rendered, ...]
    chain: tuple[bytes, ...]
    cached: int
    """Tokens up to the last effective marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What the provider remembers; a value, so that one state can be continued in several ways."""

    entries: Mapping[bytes, CacheEntry] = field(default_factory=dict)
    bindings: Mapping[tuple[str, bytes], Bound] = field(default_factory=dict)
    cleared: frozenset[str] = frozenset()
    sent: tuple[Snapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiRefusal:
    """Why the provider answers with an error."""

    status: int
    type: str
    message: str

    @property
    def body(self) -> JsonObject:
        """The error as it goes over the wire."""
        return {"type": "error", "error": {"type": self.type, "message": self.message}}


@dataclass(frozen=True, slots=True)
class Iteration:
    """One sampling inside a call."""

    kind: Literal["message", "compaction"]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Why the figures are what they are."""

    hit_path: str = ""
    hit_age: float = 0.0
    positions: int = 0
    """How many positions were looked at."""
    diverged: str = ""
    """The first block that differs from the lane's previous request."""
    before: str = ""
    after: str = ""
    only_order: bool = False
    """The two blocks say the same with their keys in another order."""
    wasted: tuple[str, ...] = ()
    """Markers that wrote nothing, because what they end is too short."""
    avoidable: int = 0
    """Tokens written again at a place that the lane's previous request had cached."""
    unbound: tuple[str, ...] = ()
    """Thinking blocks whose past has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutcome:
    """What the provider would say, and what it remembers afterwards."""

    cache: Cache
    usage: Usage = field(default_factory=Usage)
    """All that is billed, every iteration of the call together."""
    cost_usd: float | None = None
    refusal: ApiRefusal | None = None
    diagnostics: JsonObject | None = None
    trace: Trace = field(default_factory=Trace)
    applied_edits: tuple[JsonObject, ...] = ()
    dropped: tuple[JsonObject, ...] = ()
    """Thinking blocks left out because their past has changed: the response's `input_transformations`."""
    deleted_tokens: int = 0
    """What `cache_edits` blocks have taken out of the cached prompt, all requests so far together."""
    prompt_tokens: int = 0
    original_tokens: int = 0
    """The prompt before context editing, which `count_tokens` also reports."""
    iterations: tuple[Iteration, ...] = ()
    stop_reason: str | None = None
    """Where the rules force one: `max_tokens`, `compaction`, `model_context_window_exceeded`."""
