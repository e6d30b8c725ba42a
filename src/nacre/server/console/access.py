"""Sign-in of the console: one-time links, sessions in cookies, tokens against forged requests (W1)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from nacre.clock import Clock
from nacre.errors import ConfigError
from nacre.server.keys import ApiKey, KeyStore, authenticate

SECRET_BYTES = 32
IDLE_SECONDS = 12 * 3_600.0
"""Time without a request after which a session ends."""
MAX_SESSIONS = 1_000
MAX_LINK_CHARS = 200


@dataclass(slots=True)
class BrowserSession:
    """A browser that has signed in."""

    key: ApiKey
    csrf: str
    """Sent with every form; a page of another site cannot read it."""
    used: float
    """Seconds of the clock at the last request."""


class OneKey:
    """The key of the person at this machine, for a console alone; nothing is stored."""

    def __init__(self, key: ApiKey) -> None:
        self._key = key

    async def create(self, key: ApiKey, digest: str) -> None:
        raise ConfigError("this console has no keys; `nacre serve` has")

    async def find(self, id_: str) -> tuple[ApiKey, str] | None:
        # No text has an empty digest, so that no client can send this key.
        return (self._key, "") if id_ == self._key.id else None

    async def list(self) -> Sequence[ApiKey]:
        return [self._key]

    async def revoke(self, id_: str) -> None:
        raise ConfigError("this console has no keys; `nacre serve` has")


@dataclass(slots=True)
class LoginLink:
    """A link that signs one browser in, once."""

    key: ApiKey
    token: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES))

    def take(self, given: str) -> ApiKey | None:
        """Return the key for the right token, and accept no other from then on."""
        fits = hmac.compare_digest(given[:MAX_LINK_CHARS].encode(), self.token.encode())
        if not self.token or not fits:
            return None
        self.token = ""
        return self.key


class BrowserSessions:
    """The sessions of a process, by the digest of their cookie; they end with it."""

    def __init__(self, keys: KeyStore, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._sessions: OrderedDict[str, BrowserSession] = OrderedDict()

    async def sign_in(self, key_text: str) -> str | None:
        """Return the cookie of a new session; None for a key that is not in force."""
        key = await authenticate(self._keys, key_text.strip().encode(errors="replace"), clock=self._clock)
        return self.begin(key) if key is not None else None

    def begin(self, key: ApiKey) -> str:
        """Return the cookie of a new session."""
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        csrf = secrets.token_urlsafe(SECRET_BYTES)
        self._sessions[_digest(cookie)] = BrowserSession(key, csrf, self._clock.seconds())
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie

    async def find(self, cookie: str) -> BrowserSession | None:
        """Return a session whose key is still in force."""
        name = _digest(cookie)
        session = self._sessions.get(name)
        if session is None:
            return None
        now = self._clock.seconds()
        found = await self._keys.find(session.key.id)
        is_expired = found is None or (found[0].expires is not None and found[0].expires <= self._clock.now())
        if is_expired or now - session.used > IDLE_SECONDS:
            self._sessions.pop(name, None)
            return None
        assert found is not None, "checked just now"
        session.key = found[0]
        session.used = now
        self._sessions.move_to_end(name)
        return session

    def end(self, cookie: str) -> None:
        """Sign a browser out."""
        self._sessions.pop(_digest(cookie), None)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode(errors="replace")).hexdigest()
