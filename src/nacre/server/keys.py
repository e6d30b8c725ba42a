"""API keys: shown once, stored hashed, with a role, spaces and an expiry date (S9)."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, NacreError, StoreError
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk
from nacre.store.locks import one_writer

Role: TypeAlias = Literal["reader", "member", "admin"]
"""Each may do what those before it may: read, write, and manage keys and read the audit log."""
ROLES: tuple[Role, ...] = get_args(Role)
LOCAL_TENANT = "local"
"""The only tenant of a store of files."""
PREFIX = "nacre"
ID_BYTES = 6
SECRET_BYTES = 32
MAX_NAME_CHARS = 100


class UnknownKeyError(NacreError):
    """Raised when no key in force has this id or secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key without its secret."""

    id: str
    tenant: str
    user: str
    role: Role
    spaces: tuple[str, ...] = ()
    """The spaces it may use; empty for all that its user may use."""
    local: bool = False
    """The client's model runs on the server's machine, so that it may see local-only memories (M27)."""
    created: datetime
    expires: datetime | None = None

    def allows(self, role: Role) -> bool:
        """Return whether the key's role includes another."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def as_json(self) -> JsonObject:
        return {
            "id": self.id,
            "tenant": self.tenant,
            "user": self.user,
            "role": self.role,
            "spaces": [*self.spaces],
            "local": self.local,
            "created": self.created.isoformat(),
            "expires": self.expires.isoformat() if self.expires else None,
        }


class KeyStore(Protocol):
    """Where keys are stored."""

    async def create(self, key: ApiKey, digest: str) -> None: ...

    async def find(self, id_: str) -> tuple[ApiKey, str] | None:
        """Return a key and the digest of its secret; None if there is none with this id."""

    async def list(self) -> Sequence[ApiKey]: ...

    async def revoke(self, id_: str) -> None:
        """Remove a key; raises `UnknownKeyError`."""


def new_key(
    *, tenant: str, user: str, role: Role, days: int | None = None, clock: Clock = SYSTEM_CLOCK
) -> ApiKey:
    """Return a key for all spaces of a user; it is not stored yet."""
    for what, name in (("tenant", tenant), ("user", user)):
        if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
            raise ConfigError(f"a {what} is named by 1 to {MAX_NAME_CHARS} printable characters")
    now = clock.now().astimezone(UTC)
    expires = now + timedelta(days=days) if days else None
    id_ = secrets.token_hex(ID_BYTES)
    return ApiKey(id=id_, tenant=tenant, user=user, role=role, created=now, expires=expires)


async def create_key(store: KeyStore, key: ApiKey) -> str:
    """Store a key; return the text that the client sends, which is not stored."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    await store.create(key, _digest(secret))
    return f"{PREFIX}_{key.id}_{secret}"


async def authenticate(store: KeyStore, text: bytes, *, clock: Clock = SYSTEM_CLOCK) -> ApiKey | None:
    """Return the key that a client sent; None if it is unknown, revoked or expired."""
    prefix, _, rest = text.decode("ascii", errors="replace").partition("_")
    id_, _, secret = rest.partition("_")
    found = await store.find(id_) if prefix == PREFIX and id_ and secret else None
    if found is None:
        return None
    key, digest = found
    if not hmac.compare_digest(digest, _digest(secret)):
        return None
    return None if key.expires is not None and key.expires <= clock.now() else key


def _digest(secret: str) -> str:
    """Return the stored form; a secret of 256 random bits needs no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


class KeyFile:
    """Keys in one file of a home, readable by the owner only."""

    def __init__(self, home: Path) -> None:
        self._path = home / "server" / "keys.json"
        self._read_at: tuple[int, int] = (0, 0)
        self._known: dict[str, tuple[ApiKey, str]] = {}

    async def create(self, key: ApiKey, digest: str) -> None:
        if key.tenant != LOCAL_TENANT:
            raise ConfigError(f"a store of files has one tenant, {LOCAL_TENANT!r}")
        with one_writer(self._path):
            self._write({**self._read(), key.id: (key, digest)})

    async def find(self, id_: str) -> tuple[ApiKey, str] | None:
        return self._read().get(id_)

    async def list(self) -> Sequence[ApiKey]:
        return sorted((key for key, _ in self._read().values()), key=lambda key: key.created)

    async def revoke(self, id_: str) -> None:
        with one_writer(self._path):
            known = dict(self._read())
            if known.pop(id_, None) is None:
                raise UnknownKeyError(f"there is no key {id_!r}; `nacre keys list` shows them")
            self._write(known)

    def _read(self) -> dict[str, tuple[ApiKey, str]]:
        """Return all keys; the file is parsed again only if it was replaced."""
        try:
            found = self._path.stat()
            if self._read_at != (found.st_ino, found.st_mtime_ns):
                listed = json.loads(self._path.read_bytes())
                self._known = {one["id"]: _parsed(one) for one in listed}
                self._read_at = found.st_ino, found.st_mtime_ns
        except FileNotFoundError:
            self._known = {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._path} cannot be read as keys; correct it or move it away") from error
        return self._known

    def _write(self, keys: dict[str, tuple[ApiKey, str]]) -> None:
        rows: list[Json] = [{**key.as_json(), "digest": digest} for key, digest in keys.values()]
        text = json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
        try:
            disk.replace_file(self._path, os.fsencode(text), temp_name=f".{self._path.name}.tmp")
        except OSError as error:
            raise StoreError(disk.explain(error, self._path)) from error


def _parsed(row: dict[str, Any]) -> tuple[ApiKey, str]:
    role = row["role"]
    if role not in ROLES:
        raise ValueError(role)
    key = ApiKey(
        id=row["id"],
        tenant=row["tenant"],
        user=row["user"],
        role=role,
        spaces=tuple(row.get("spaces") or ()),
        local=row.get("local") is True,
        created=datetime.fromisoformat(row["created"]),
    )
    expires = row.get("expires")
    return replace(key, expires=datetime.fromisoformat(expires) if expires else None), row["digest"]
