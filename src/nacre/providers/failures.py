"""Translate failed model calls into nacre's errors: one table by HTTP status for all adapters (Q3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

import httpx2

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import (
    AuthError,
    InvalidRequest,
    Overloaded,
    PromptTooLong,
    ProviderError,
    StreamBroken,
    ThinkingMismatch,
    Unreachable,
)
from nacre.providers.servers import is_loopback

TEMPORARY = frozenset({408, 409, 425, 429})
"""Statuses below 500 that are worth a retry; so is everything from 500 up."""
REFUSED = frozenset({401, 402, 403})
"""The key is wrong, lacks a permission, or the account has no credit."""
INVALID = 400
TOO_LARGE = 413
MESSAGE_CHARS = 500
"""Of a provider's message: enough for a sentence, not for an HTML error page."""

_TOO_LONG = (
    re.compile(r"prompt is too long(?:: (?P<tokens>\d+) tokens > (?P<limit>\d+))?", re.IGNORECASE),
    re.compile(
        r"request \((?P<tokens>\d+) tokens\) exceeds the available context size \((?P<limit>\d+) tokens\)",
        re.IGNORECASE,
    ),
    re.compile(r"exceed context limit: (?P<tokens>\d+) \+ \d+ > (?P<limit>\d+)", re.IGNORECASE),
    re.compile(
        r"maximum context length is (?P<limit>\d+) tokens(?:.*?(?:resulted in|requested) (?P<tokens>\d+))?",
        re.IGNORECASE | re.DOTALL,
    ),
    re.compile(
        r"input token count \(?(?P<tokens>\d+)\)? exceeds the maximum number of tokens allowed"
        r"(?: \(?(?P<limit>\d+)\)?)?",
        re.IGNORECASE,
    ),
    re.compile(
        r"\(length (?P<tokens>\d+)\) is longer than the maximum model length of (?P<limit>\d+)", re.IGNORECASE
    ),
    re.compile(r"exceeds? the (?:available |maximum )?context (?:size|window|length)", re.IGNORECASE),
)
_THINKING_REFUSED = re.compile(
    r"thinking`? blocks?\b.*(?:produced after different content|cannot be modified|must match the parameters)"
    r"|invalid `?signature`? in `?thinking`? block"
    r"|encrypted content .*could not be (?:verified|decrypted)"
    r"|of type 'reasoning' was provided without its required following item"
    r"|without its required 'reasoning' item"
    r"|item with id 'rs_\w+' not found",
    re.IGNORECASE | re.DOTALL,
)
"""Messages for thinking blocks or reasoning items that do not match the content around them."""
TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRefusal:
    """A failed call as an adapter received it."""

    status: int
    message: str
    code: str = ""
    """The provider's error code."""
    headers: Mapping[str, str]
    tokens: int | None = None
    """The size of the prompt, where the server reports it in a field of its own."""
    limit: int | None = None
    """The server's window, where it reports that in a field of its own."""


def error_of(
    refusal: ProviderRefusal, *, provider: str, key_variable: str, clock: Clock = SYSTEM_CLOCK
) -> ProviderError:
    """Return the error for a refused call, with advice where the user can act on it."""
    said = _one_line(refusal.message)
    if refusal.status in REFUSED or refusal.code == "insufficient_quota":
        return AuthError(
            f"{provider} refuses the key ({refusal.status}: {said}); "
            f"check {key_variable}, and that its account may use this model"
        )
    if too_long := _too_long(refusal):
        return too_long
    if refusal.status in {INVALID, 404} and _THINKING_REFUSED.search(refusal.message):
        return ThinkingMismatch(f"{provider} refuses the request ({refusal.status}: {said})")
    if refusal.headers.get("x-should-retry") == "false":
        return ProviderError(f"{provider} failed and asks not to be tried again ({refusal.status}: {said})")
    if refusal.status in TEMPORARY or refusal.status >= 500:
        return Overloaded(
            f"{provider} is busy ({refusal.status}: {said})", retry_after=retry_after(refusal.headers, clock)
        )
    return InvalidRequest(f"{provider} refuses the request ({refusal.status}: {said})")


def lost(error: Exception, *, provider: str, url: str, silence: float) -> Overloaded | StreamBroken:
    """Return the error for a connection that failed, timed out or broke; SDKs wrap the cause."""
    cause = error if isinstance(error, httpx2.TransportError) else error.__cause__ or error
    said = _one_line(str(cause) or type(cause).__name__)
    if isinstance(cause, httpx2.ConnectError) and is_loopback(url):
        return Unreachable(f"cannot reach {provider} at {url} ({said})")
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
        return Overloaded(f"cannot reach {provider} at {url} ({said})")
    if isinstance(cause, httpx2.TimeoutException):
        return StreamBroken(f"{provider} sent nothing for {silence:g} seconds")
    return StreamBroken(f"the reply of {provider} broke off ({said})")


def retry_after(headers: Mapping[str, str], clock: Clock = SYSTEM_CLOCK) -> float | None:
    """Return the seconds to wait from the headers, which hold milliseconds, seconds or a date."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(milliseconds) / 1000)
        if (seconds := headers.get("retry-after")) is None:
            return None
        if re.fullmatch(r"\s*\d+(\.\d+)?\s*", seconds):
            return float(seconds)
        moment = parsedate_to_datetime(seconds)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - clock.now()).total_seconds())


def _too_long(refusal: ProviderRefusal) -> PromptTooLong | None:
    if refusal.status not in {400, 422, TOO_LARGE}:
        return None
    for pattern in _TOO_LONG:
        if found := pattern.search(refusal.message):
            figures = {name: int(value) for name, value in found.groupdict().items() if value}
            return PromptTooLong(
                _one_line(refusal.message),
                tokens=refusal.tokens or figures.get("tokens"),
                limit=refusal.limit or figures.get("limit"),
            )
    if refusal.status == TOO_LARGE or refusal.code in TOO_LONG_CODES:
        return PromptTooLong(_one_line(refusal.message), tokens=refusal.tokens, limit=refusal.limit)
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MESSAGE_CHARS]
