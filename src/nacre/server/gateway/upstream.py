"""Where a request goes: the API it belongs to, and the URL of the provider (G1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from nacre.errors import ConfigError

Headers: TypeAlias = list[tuple[bytes, bytes]]
Api: TypeAlias = Literal["messages", "chat", "responses"]
"""The APIs whose requests are conversations."""

APIS: dict[str, Api] = {
    "/v1/messages": "messages",
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
}
ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com"
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers of one connection, which a proxy must not pass on (RFC 9110, 7.6.1)."""

PROJECT_HEADER = b"x-nacre-project"
"""Names the directory of the client's project to the gateway; not passed on."""


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a request at the provider."""

    origin: str
    path: bytes
    """Path and query."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The providers; one URL for all requests if the person named one."""

    url: str | None = None

    def __post_init__(self) -> None:
        if self.url is None:
            return
        try:
            parts = urlsplit(self.url)
            is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_sound = False
        if not is_sound or parts.query or parts.fragment or parts.username:
            raise ConfigError(
                f"--upstream takes the address of a provider such as {ANTHROPIC_URL}, not {self.url!r}"
            )

    def target(self, raw_path: bytes, query: bytes, headers: Headers) -> Target:
        """Return where a request goes; path and query stay, byte for byte, as the client wrote them."""
        path = raw_path.decode("latin-1")
        base = (self.url or (ANTHROPIC_URL if is_anthropic(path, headers) else OPENAI_URL)).rstrip("/")
        if base.endswith("/v1") and (path == "/v1" or path.startswith("/v1/")):
            base = base.removesuffix("/v1")  # as the SDKs of OpenAI write the address
        parts = urlsplit(base)
        asked = parts.path.encode() + raw_path + (b"?" + query if query else b"")
        return Target(f"{parts.scheme}://{parts.netloc}", asked)

    def proxy(self) -> str | None:
        """Return the proxy that the environment names for the provider."""
        parts = urlsplit(self.url or ANTHROPIC_URL)
        if proxy_bypass(parts.hostname or ""):
            return None
        return getproxies().get(parts.scheme)


def is_anthropic(path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request is for Anthropic: by its path, or by a header that only its clients send."""
    if path == "/v1/complete" or path.startswith(("/v1/messages", "/api/")):
        return True
    return any(name.startswith(b"anthropic-") or name == b"x-api-key" for name, _ in headers)


def conversation_api(method: str, path: str) -> Api | None:
    """Return the API if the request asks for a reply in a conversation."""
    return APIS.get(path.rstrip("/")) if method == "POST" else None


def end_to_end(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that are passed on, in their order; names are in lower case."""
    named = {
        name.strip().lower()
        for key, value in headers
        if key.lower() == b"connection"
        for name in value.split(b",")
    }
    # Without its length a body could not be sent; a client must not name it there (RFC 9110, 7.6.1).
    dropped = HOP_BY_HOP | (named - {b"content-length"}) | {PROJECT_HEADER}
    return [(key, value) for key, value in headers if key.lower() not in dropped]
