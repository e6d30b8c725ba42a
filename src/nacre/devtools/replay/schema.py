"""What a replay is made of: a recorded session as steps, and what a policy would have sent for each (P7).

A policy is anything with `ask` and `hear`; it sees plain records and answers with plain wire JSON, so that
another library's way of shrinking a conversation can stand beside ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from nacre.messages.blocks import JsonObject
from nacre.messages.records import Said
from nacre.messages.usage import Usage

SideKind = Literal["summary", "refresh", "other"]
"""Why a request is made beside the conversation: to have it summed up, to keep the cache warm, or else."""
ActionKind = Literal["offload", "clear", "compact", "truncate", "refresh", "other"]
"""What a policy did to the conversation or for it, as the picture marks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """One request of a recorded session: what was said since the one before, and the reply it got."""

    at: datetime
    """When the request was made: the time of the last record before the reply."""
    heard: tuple[Said, ...]
    """Words and results since the reply before, in order; empty when a reply was cut off and went on."""
    reply: Said
    """The whole reply as one record, with what the provider said about it at the time."""
    output_tokens: int
    starts_turn: bool = True
    """A person spoke: what was heard is not only results of tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded session, ready to be replayed."""

    name: str
    steps: tuple[ReplayStep, ...]
    base_tokens: int = 0
    """What stood before the first message, system prompt and tools, by the provider's own figures."""
    ratio: float = 1.0
    """Real tokens for each estimated one in this session (C2)."""
    error: float | None = None
    """Median relative error of the corrected estimate, request by request; none without recorded usage."""
    model: str | None = None
    """The model that answered most often."""
    peak_tokens: int = 0
    """The largest context the provider reported; 0 when it reported none."""
    has_times: bool = True
    """False when the file holds no times and a fixed pace stands for them."""
    lost_results: int = 0
    """Results of which only the beginning is left, because the files that held them are gone."""
    paths: tuple[str, ...] = ()
    """Which files it was read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a policy is told before the first step of a session."""

    model: str
    window: int
    base: tuple[JsonObject, ...] = ()
    """System blocks that are as large as what really stood there."""
    ratio: float = 1.0
    """For a policy that counts by estimates: real tokens for each estimated one."""
    has_times: bool = True
    """False: the recording's times are made up, and nobody was ever waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """One request as it goes over the wire, cache markers included; nobody may change what is in it."""

    at: datetime
    messages: Sequence[JsonObject]
    system: Sequence[JsonObject] = ()
    tools: Sequence[JsonObject] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRequest:
    """A request beside the conversation, charged like any other; a fork begins with the same bytes."""

    kind: SideKind
    sent: WireRequest
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class LayerAction:
    """Something a policy did before a request."""

    kind: ActionKind
    count: int = 1
    """How many results, messages or refreshes it concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    """A policy's answer to a step."""

    sent: WireRequest
    sides: tuple[SideRequest, ...] = ()
    """What was asked beside it since the last step, in order, all before `sent`."""
    actions: tuple[LayerAction, ...] = ()
    rewrites: tuple[str, ...] = ()
    """Announced reasons for which bytes already sent differ now; without one a difference is a defect."""
    cpu_seconds: float = 0.0
    """The policy's own work for this request."""

    def count(self, kind: ActionKind) -> int:
        """How many actions of a kind there were."""
        return sum(1 for action in self.actions if action.kind == kind)


class ReplayPolicy(Protocol):
    """A way to keep a conversation small, with the state of one session."""

    def ask(self, step: ReplayStep) -> PolicyAnswer:
        """What would be sent for this step; the reply is in the step, but not yet said."""
        ...

    def hear(self, step: ReplayStep, usage: Usage) -> None:
        """The reply arrived, and the request took this much."""
        ...

    def close(self) -> tuple[SideRequest, ...]:
        """The session is over: give back what was taken; returns what is still asked after its last reply."""
        ...


class Maker(Protocol):
    """Starts a policy for one session; its settings are values inside it, so that they can be swept."""

    @property
    def name(self) -> str: ...

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
    """Identifiers last seen far back, which is where policies differ."""
    old_kept: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(
            pairs=self.pairs + other.pairs,
            pairs_kept=self.pairs_kept + other.pairs_kept,
            edits=self.edits + other.edits,
            edits_kept=self.edits_kept + other.edits_kept,
            identifiers=self.identifiers + other.identifiers,
            identifiers_kept=self.identifiers_kept + other.identifiers_kept,
            old=self.old + other.old,
            old_kept=self.old_kept + other.old_kept,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """One request in the picture: when, how large, and what had just been done."""

    at: float
    tokens: int
    actions: tuple[LayerAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTotals:
    """What one policy took for some sessions; adds up."""

    requests: int = 0
    sides: int = 0
    usage: Usage = field(default_factory=Usage)
    """Of every request, those beside the conversation and re-fetches included."""
    cost_usd: float = 0.0
    """All of it, what was fetched again included."""
    refetches: int = 0
    refetch_usd: float = 0.0
    """The part that went into hidden text that was needed again."""
    side_usd: float = 0.0
    """The part that went into summaries and refreshes."""
    peak_tokens: int = 0
    view_tokens: int = 0
    """Of the conversation's own requests together, for retention per size."""
    overflow: int = 0
    """Requests that would not have fitted the window."""
    invalid: int = 0
    """Requests the provider would have refused for their form."""
    compactions: int = 0
    prefix_breaks: int = 0
    unannounced: int = 0
    """Prefix breaks that no rewrite accounts for; ours must have none."""
    used: Used = field(default_factory=Used)
    refused: Used = field(default_factory=Used)
    """The part of `used` in requests that did not fit: the provider would have shown the model nothing."""
    cpu_seconds: tuple[float, ...] = ()
    """The policy's own work, request by request."""

    def __add__(self, other: PolicyTotals) -> PolicyTotals:
        return PolicyTotals(
            requests=self.requests + other.requests,
            sides=self.sides + other.sides,
            usage=self.usage + other.usage,
            cost_usd=self.cost_usd + other.cost_usd,
            refetches=self.refetches + other.refetches,
            refetch_usd=self.refetch_usd + other.refetch_usd,
            side_usd=self.side_usd + other.side_usd,
            peak_tokens=max(self.peak_tokens, other.peak_tokens),
            view_tokens=self.view_tokens + other.view_tokens,
            overflow=self.overflow + other.overflow,
            invalid=self.invalid + other.invalid,
            compactions=self.compactions + other.compactions,
            prefix_breaks=self.prefix_breaks + other.prefix_breaks,
            unannounced=self.unannounced + other.unannounced,
            used=self.used + other.used,
            refused=self.refused + other.refused,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
        )
