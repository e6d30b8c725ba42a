"""What the provider APIs have in common: a dialect checks, bills and renders one exchange."""

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
    """Raised when the request is refused."""

    def __init__(
        self, refusal: ApiRefusal, *, retry_after: float | None = None, fault: str | None = None
    ) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.retry_after = retry_after
        self.fault = fault


def invalid_request(message: str) -> RequestRefused:
    return RequestRefused(ApiRefusal(400, "invalid_request_error", message))


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An accepted request with everything needed for its answer."""

    body: JsonObject
    reply: ScriptedReply
    """Complete: ids, stop reason and token count are set."""
    outcome: RequestOutcome
    id: str
    created: int
    """Seconds since 1970 on the simulator's clock."""


class Dialect(Protocol):
    """The API of one provider, with the state of its cache."""

    @property
    def id_prefix(self) -> str:
        """The beginning of a reply's id."""
        ...

    def expand(self, body: JsonObject) -> JsonObject:
        """Return a request with the conversation that the provider holds for it."""
        ...

    def check(self, body: JsonObject, headers: Mapping[str, str]) -> None:
        """Raise `RequestRefused` for a request the provider rejects unread."""
        ...

    def bill(self, call: Call) -> RequestOutcome:
        """Return what the request reads, writes and costs; only `remember` stores it."""
        ...

    def remember(self, outcome: RequestOutcome) -> None:
        """Store the cache of the outcome."""
        ...

    def in_blocks(self, body: JsonObject) -> JsonObject:
        """Return the request in Anthropic's format, which reply sources read."""
        ...

    def whole(self, accepted: Accepted) -> JsonObject: ...

    def frames(self, accepted: Accepted) -> Iterator[bytes]:
        """Yield the answer as server-sent events."""
        ...

    def refusal(self, fault: Fault) -> ApiRefusal:
        """Return a fault in this provider's wording."""
        ...

    def error(self, refusal: ApiRefusal) -> JsonObject: ...

    def failed(self, refusal: ApiRefusal) -> bytes:
        """Return the event for a failure in the middle of a stream."""
        ...


def frame(value: Json, event: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = b"" if event is None else b"event: " + event.encode() + b"\n"
    return head + b"data: " + canonical(value) + b"\n\n"


def pieces(text: str, size: int) -> Iterator[str]:
    """Split the text into pieces of at most `size` characters."""
    for start in range(0, len(text), size):
        yield text[start : start + size]
