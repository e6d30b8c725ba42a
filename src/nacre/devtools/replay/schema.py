"""Data classes of a replay: a recorded session as steps, and what a policy would have sent for each (P7).

A policy is anything with `ask` and `hear`; it takes plain records and returns plain wire JSON, so that
another library's method can be compared with nacre's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal, Protocol

from nacre.messages.blocks import JsonObject
from nacre.messages.records import Said
from nacre.messages.usage import Usage

SideKind = Literal["summary", "refresh", "other"]
"""Purpose of a side request: a summary, a cache refresh, or another."""
ActionKind = Literal["offload", "clear", "compact", "truncate", "refresh", "other"]
"""What a policy did to the conversation or for it, as marked in the chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """One request of a recorded session: the input since the previous one, and the reply."""

    at: datetime
    """Time of the request: that of the last record before the reply."""
    heard: tuple[Said, ...]
    """Messages and results since the previous reply, in order; empty if a reply was cut off and continued."""
    reply: Said
    """The whole reply as one record, with the provider's metadata."""
    output_tokens: int
    starts_turn: bool = True
    """Whether the user spoke: the input is not only tool results."""
    is_added: bool = False
    """Whether the policy added it to the recording: its reply counts as a cost of the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded session, ready to be replayed."""

    name: str
    steps: tuple[ReplayStep, ...]
    base_tokens: int = 0
    """Tokens before the first message, system prompt and tools, by the provider's own figures."""
    ratio: float = 1.0
    """Real tokens per estimated token in this session (C2)."""
    error: float | None = None
    """Median relative error of the corrected estimate per request; None without recorded usage."""
    model: str | None = None
    """The model that answered most often."""
    peak_tokens: int = 0
    """The largest context the provider reported; 0 if it reported none."""
    has_times: bool = True
    """False if the file holds no times and a fixed pace replaces them."""
    lost_results: int = 0
    """Results of which only the beginning is left, because their files are gone."""
    paths: tuple[str, ...] = ()
    """The files it was read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Input of a policy before the first step of a session."""

    model: str
    window: int
    base: tuple[JsonObject, ...] = ()
    """System blocks as large as the recorded base."""
    ratio: float = 1.0
    """Real tokens per estimated token, for a policy that estimates."""
    has_times: bool = True
    """False: the recording's times are made up, and there were no pauses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """One request in wire form, cache markers included; must not be changed."""

    at: datetime
    messages: Sequence[JsonObject]
    system: Sequence[JsonObject] = ()
    tools: Sequence[JsonObject] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRequest:
    """A request outside the conversation, billed like any other; a fork begins with the same bytes."""

    kind: SideKind
    sent: WireRequest
    output_tokens: int = 0
    model: str | None = None
    """Another model than the session's, which shares no cache."""


@dataclass(frozen=True, slots=True)
class LayerAction:
    """An action of a policy before a request."""

    kind: ActionKind
    count: int = 1
    """Number of results, messages or refreshes concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    """A policy's answer to a step."""

    sent: WireRequest
    sides: tuple[SideRequest, ...] = ()
    """Side requests since the last step, in order, all before `sent`."""
    actions: tuple[LayerAction, ...] = ()
    rewrites: tuple[str, ...] = ()
    """Announced reasons why sent bytes differ now; without one a difference is a defect."""
    cpu_seconds: float = 0.0
    """CPU time of the policy for this request."""

    def count(self, kind: ActionKind) -> int:
        """Return the number of actions of a kind."""
        return sum(1 for action in self.actions if action.kind == kind)


class ReplayPolicy(Protocol):
    """A method to keep a conversation small, with the state of one session."""

    def ask(self, step: ReplayStep) -> PolicyAnswer:
        """Return what would be sent for this step; its reply is in the step, but not yet received."""
        ...

    def hear(self, step: ReplayStep, usage: Usage) -> None:
        """Take the reply and the usage of the request."""
        ...

    def close(self) -> tuple[SideRequest, ...]:
        """End the session and release resources; return the requests sent after its last reply."""
        ...


class Maker(Protocol):
    """Starts a policy for one session; includes its settings, so that they can be swept."""

    @property
    def name(self) -> str: ...

    def prepare(self, session: Recorded) -> Recorded:
        """Return the session as it would have gone under this policy: most return it unchanged."""
        ...

    def start(self, setting: Setting) -> ReplayPolicy: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What later steps used of what had been seen, and how much of it was still visible (P7)."""

    pairs: int = 0
    pairs_kept: int = 0
    edits: int = 0
    edits_kept: int = 0
    identifiers: int = 0
    identifiers_kept: int = 0
    old: int = 0
    """Identifiers last seen far back, in which policies differ."""
    old_kept: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Used)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """One request in the chart: its time, its size, and the actions before it."""

    at: float
    tokens: int
    actions: tuple[LayerAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTotals:
    """Totals of one policy for some sessions; can be added."""

    requests: int = 0
    sides: int = 0
    usage: Usage = field(default_factory=Usage)
    """Usage of every request, side requests and re-fetches included."""
    cost_usd: float = 0.0
    """Total cost, re-fetches included."""
    reply_usd: float = 0.0
    """The part for the recorded replies, which is the same for every policy."""
    refetches: int = 0
    refetch_usd: float = 0.0
    """The part for hidden text that was needed again."""
    side_usd: float = 0.0
    """The part for summaries and refreshes."""
    peak_tokens: int = 0
    view_tokens: int = 0
    """Tokens of the conversation's own requests, for retention per size."""
    overflow: int = 0
    """Requests that would not have fitted the window."""
    invalid: int = 0
    """Requests the provider would have refused for their form."""
    compactions: int = 0
    prefix_breaks: int = 0
    unannounced: int = 0
    """Prefix breaks without an announced rewrite; nacre's must have none."""
    used: Used = field(default_factory=Used)
    refused: Used = field(default_factory=Used)
    """The part of `used` in requests that did not fit: the provider would have shown the model nothing."""
    cpu_seconds: tuple[float, ...] = ()
    """CPU time of the policy per request."""

    @property
    def input_usd(self) -> float:
        """Cost without that of the recorded replies: prompts, re-fetches, and all of the side requests."""
        return self.cost_usd - self.reply_usd

    def __add__(self, other: PolicyTotals) -> PolicyTotals:
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(PolicyTotals)}
        return PolicyTotals(**{**sums, "peak_tokens": max(self.peak_tokens, other.peak_tokens)})
