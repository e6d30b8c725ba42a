"""Tells the sessions of clients apart, and what each request lost of the cache and why (G2)."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nacre.cache.models import PER_MILLION, ModelProfile, cost, profile
from nacre.cache.prefix_monitor import BlockPath, Ledger, SentRequest, check_usage
from nacre.cache.warmth import FIVE_MINUTES, HOUR
from nacre.clock import Clock
from nacre.messages.usage import Usage
from nacre.server.gateway.conversation import Conversation
from nacre.server.gateway.upstream import Api

MAX_SESSIONS = 500
"""Sessions that are followed; the one that was silent for longest is forgotten first."""
ID_CHARS = 12

Opening = tuple[bytes, Api, bytes]
"""Digest of the key, API, digest of the first message."""


@dataclass(slots=True, kw_only=True)
class ClientSession:
    """What is known of a session while it is followed."""

    id: str
    opening: Opening
    system: bytes
    opening_blocks: int
    links: Sequence[bytes]
    ledger: Ledger = field(default_factory=Ledger)
    asked_at: datetime | None = None
    """When its last request began."""
    touched_at: datetime | None = None
    """When its last request or refresh began."""
    cached_tokens: int = 0
    """What the provider had in its cache after the last reply."""
    head_tokens: int = 0
    """What it keeps for an hour, with markers of both lifetimes."""
    written_1h: bool = False
    pauses: list[float] = field(default_factory=list)
    cost_usd: float = 0.0
    refresh_usd: float = 0.0
    refreshes_now: int = 0
    """Since the last request."""
    in_flight: int = 0
    cannot_refresh: str = ""
    """Why its prefix is not refreshed any more."""
    told_objection: str = ""
    """The reason that was recorded last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request of a session, compared with the one before."""

    session: ClientSession
    at: datetime
    idle_seconds: float | None
    """Since the last request began; None for the first one."""
    is_pause: bool
    """The person came back, not a tool."""
    changed: BlockPath | None
    """The first block that differs from the last request that was sent on."""
    is_rewritten: bool
    """The client changed its history."""
    refreshes: int
    """Refreshes in the pause that it ends."""
    touched_seconds: float
    """Age of the cache entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLoss:
    """What was in the cache and had to be paid for again."""

    tokens: int
    usd: float
    cause: str
    """`pause`, the path of a block, or `unknown`."""


class SessionTracker:
    """Finds the session of each request by its key, its first message and its growing prefix."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_opening: dict[Opening, list[ClientSession]] = {}
        self._by_response: OrderedDict[str, ClientSession] = OrderedDict()
        self._recent: OrderedDict[str, ClientSession] = OrderedDict()

    def arrive(
        self, key: bytes, said: Conversation, at: datetime, *, sent: SentRequest | None = None
    ) -> Arrival:
        """Return the session of a request, with what changed since its last one.

        `sent` is what is sent on, if it is not what the client said.
        """
        session = self._find(key, said)
        self._recent.move_to_end(session.id)
        idle = (at - session.asked_at).total_seconds() if session.asked_at else None
        touched = (at - session.touched_at).total_seconds() if session.touched_at else 0.0
        changed = None
        is_rewritten = False
        if not said.previous_response:
            moved = session.ledger.check(sent or said.sent)
            changed = moved.place if moved else None
            session.ledger = session.ledger.after_request(sent or said.sent)
            is_rewritten = _shared(session.links, said.links) < len(session.links)
        is_pause = idle is not None and said.is_persons
        if idle is not None and is_pause:
            session.pauses.append(max(0.0, idle))
        arrival = Arrival(
            session=session,
            at=at,
            idle_seconds=idle,
            is_pause=is_pause,
            changed=changed,
            is_rewritten=is_rewritten,
            refreshes=session.refreshes_now,
            touched_seconds=max(0.0, touched),
        )
        session.asked_at = session.touched_at = at
        session.refreshes_now = 0
        session.links = said.links
        session.system = said.system
        return arrival

    def answered(self, session: ClientSession, response_id: str) -> None:
        """Remember the reply of a provider that may hold the conversation itself."""
        if response_id:
            self._by_response[response_id] = session
            while len(self._by_response) > 4 * MAX_SESSIONS:
                self._by_response.popitem(last=False)

    def _find(self, key: bytes, said: Conversation) -> ClientSession:
        if (known := self._by_response.get(said.previous_response)) is not None and known.id in self._recent:
            return known
        opening = (key, said.api, said.opening)
        best: ClientSession | None = None
        longest = 0
        for one in self._by_opening.get(opening, ()):
            shared = _shared(one.links, said.links)
            if shared > longest and _continues(one, said, shared):
                best, longest = one, shared
        return best or self._begun(opening, said)

    def _begun(self, opening: Opening, said: Conversation) -> ClientSession:
        session = ClientSession(
            id=self._clock.new_id().replace("-", "")[-ID_CHARS:],
            opening=opening,
            system=said.system,
            opening_blocks=said.opening_blocks,
            links=said.links,
        )
        self._by_opening.setdefault(opening, []).append(session)
        self._recent[session.id] = session
        if len(self._recent) > MAX_SESSIONS:
            _, oldest = self._recent.popitem(last=False)
            siblings = self._by_opening[oldest.opening]
            siblings.remove(oldest)
            if not siblings:
                del self._by_opening[oldest.opening]
        return session


def _continues(session: ClientSession, said: Conversation, shared: int) -> bool:
    """Return whether a request that shares so many blocks belongs to the session.

    Two sessions can begin with the same words; what the model answered tells them apart. A session whose
    system prompt changes is still one if its history goes on.
    """
    if shared > session.opening_blocks:
        return True
    return shared == len(session.links) and session.system == said.system


def _shared(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    length = min(len(one), len(other))
    return bisect_left(range(length), True, key=lambda index: one[index] != other[index])


def settle(arrival: Arrival, usage: Usage, model: str) -> CacheLoss | None:
    """Add a reply to its session; return what the request paid again although it had been cached."""
    session = arrival.session
    rules = profile(model)
    loss = _loss(arrival, usage, rules)
    session.cost_usd += cost(rules, usage) or 0.0
    session.cached_tokens = _cached(usage, rules)
    session.written_1h = bool(usage.cache_write_1h) or (session.written_1h and not usage.cache_write)
    session.head_tokens = max(session.head_tokens, usage.cache_write_1h)
    return loss


def saved_by_refreshes(arrival: Arrival, usage: Usage, model: str) -> float:
    """Return what a request saved in USD because refreshes had kept its prefix."""
    tier = profile(model).tier(usage.prompt)
    is_late = arrival.idle_seconds is not None and arrival.idle_seconds >= FIVE_MINUTES
    if tier is None or not arrival.refreshes or not is_late:
        return 0.0
    return min(arrival.session.cached_tokens, usage.cache_read) * (tier.write_5m - tier.read) / PER_MILLION


def _loss(arrival: Arrival, usage: Usage, rules: ModelProfile) -> CacheLoss | None:
    session = arrival.session
    # A request that is shorter than the one before, after a step back, cannot read all that was cached.
    fall = check_usage(min(session.cached_tokens, usage.prompt), usage)
    tier = rules.tier(usage.prompt)
    if fall is None or tier is None:
        return None
    tokens = fall.before - fall.now
    again = tier.write_1h if usage.cache_write_1h else tier.write_5m
    lifetime = HOUR if session.written_1h else rules.ttl_seconds or FIVE_MINUTES
    if arrival.touched_seconds >= lifetime:
        cause = "pause"
    elif arrival.changed is not None:
        cause = f"{arrival.changed.path} ({arrival.changed.kind})"
    else:
        cause = "unknown"
    return CacheLoss(tokens=tokens, usd=tokens * (again - tier.read) / PER_MILLION, cause=cause)


def _cached(usage: Usage, rules: ModelProfile) -> int:
    """Return how many tokens the provider has cached after a reply."""
    if rules.cache in {"boundaries", "intervals"} and usage.prompt >= max(1, rules.min_cacheable):
        return usage.prompt  # cached without being asked
    return usage.cache_read + usage.cache_write
