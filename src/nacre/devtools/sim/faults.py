"""Deliberate faults by name, from a script item or the `x-sim-fault` header."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from nacre.errors import ConfigError
from nacre.messages.blocks import Json

FaultKind: TypeAlias = Literal[
    "prompt_too_long",
    "too_large",
    "rate_limit",
    "overloaded",
    "server_error",
    "auth",
    "disconnect",
    "hang",
    "malformed",
    "truncate_json",
]
FAULT_KINDS: tuple[str, ...] = get_args(FaultKind)
REFUSALS = frozenset({"prompt_too_long", "too_large", "rate_limit", "overloaded", "server_error", "auth"})
"""Faults that are an HTTP status; with `after`, an error event in mid-stream instead."""
DEFAULT_AFTER = 3
"""Events before a stream breaks: enough that the client has started to process it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one request."""

    kind: FaultKind
    after: int | None = None
    """Stream events sent before the fault; None: the default of the kind."""
    retry_after: float | None = None
    """Seconds of `retry-after` (`rate_limit`, `overloaded`)."""

    @property
    def is_refusal(self) -> bool:
        """Whether the request is refused before a stream begins."""
        return self.kind in REFUSALS and self.after is None

    @property
    def events_first(self) -> int:
        """Number of stream events sent before it breaks."""
        if self.after is None:
            return 0 if self.kind == "hang" else DEFAULT_AFTER
        return self.after


def parse_fault(value: Json) -> Fault:
    """Parse a fault of a script: a kind, or an object with `kind`, `after`, `retry_after`."""
    fields = {"kind": value} if isinstance(value, str) else value
    if not isinstance(fields, dict):
        raise ConfigError(f"a fault is a name or an object with a kind, not {value!r}")
    kind = fields.get("kind")
    after = fields.get("after")
    retry_after = fields.get("retry_after")
    if kind not in FAULT_KINDS:
        raise ConfigError(f"unknown fault {kind!r}; known: {', '.join(FAULT_KINDS)}")
    if unknown := sorted(set(fields) - {"kind", "after", "retry_after"}):
        raise ConfigError(f"a fault has no {unknown[0]!r}; it takes kind, after, retry_after")
    if after is not None and (not isinstance(after, int) or isinstance(after, bool) or after < 0):
        raise ConfigError(f"a fault's after is a number of events, not {after!r}")
    return Fault(kind=kind, after=after, retry_after=_seconds(retry_after))  # type: ignore[arg-type]  # checked above


def _seconds(value: Json) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(f"a fault's retry_after is a number of seconds, not {value!r}")
    return float(value)


def parse_fault_header(text: str) -> Fault:
    """Parse a fault of a header: `rate_limit`, or with settings `rate_limit; retry_after=2`."""
    kind, *settings = (part.strip() for part in text.split(";"))
    fields: dict[str, Json] = {"kind": kind}
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            fields[name.strip()] = int(value) if name.strip() == "after" else float(value)
        except ValueError:
            raise ConfigError(f"x-sim-fault: {setting!r} is not a name and a number") from None
    return parse_fault(fields)
