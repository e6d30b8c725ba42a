"""What the two provider APIs have in common: a dialect checks, bills and words one exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from nacre.devtools.cache_models.anthropic_state import ApiRefusal, Call, RequestOutcome
from nacre.devtools.sim.faults import Fault
from nacre.devtools.sim.replies import ScriptedReply
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.wire import canonical


class RequestRefused(Exception):  # noqa: N818 - the word the provider's rules use; never leaves this room
    """The request is turned away."""

    def __init__(
        self, refusal: ApiRefusal, *, retry_after: float | None = None, fault: str | None = None
    ) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.retry_after = retry_after
        self.fault = fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A request that gets an answer, and everything the answer is made of."""

    body: JsonObject
    reply: ScriptedReply
    """Finished: ids, stop reason and token count are in place."""
    outcome: RequestOutcome
    id: str
    created: int
    """Seconds since 1970 on the simulator's clock."""


class Dialect(Protocol):
    """How one provider is spoken to; it holds what that provider remembers."""

    def check(self, body: JsonObject, headers: Mapping[str, str]) -> None:
        """Raise `Refused` for what the provider would not even look at."""
        ...

    def bill(self, call: Call) -> RequestOutcome:
        """What the request reads, writes and costs; remembered only by `remember`."""
        ...

    def remember(self, outcome: RequestOutcome) -> None:
        """The provider's cache is now as the outcome left it."""
        ...

    def in_blocks(self, body: JsonObject) -> JsonObject:
        """The request in Anthropic's vocabulary, which reply sources understand."""
        ...

    def whole(self, accepted: Accepted) -> JsonObject: ...

    def frames(self, accepted: Accepted) -> Iterator[bytes]:
        """The answer as server-sent events."""
        ...

    def refusal(self, fault: Fault) -> ApiRefusal:
        """A fault in this provider's own words."""
        ...

    def error(self, refusal: ApiRefusal) -> JsonObject: ...


def frame(value: Json, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = b"" if event is None else b"event: " + event.encode() + b"\n"
    return head + b"data: " + canonical(value) + b"\n\n"


def pieces(text: str, size: int) -> Iterator[str]:
    """The text in stretches of at most `size` characters."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
