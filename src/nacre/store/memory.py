"""The store for tests and for sessions that leave no trace: a dictionary with the manners of a disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, VersionConflict
from nacre.store.base import Blob, Listing
from nacre.store.keys import check_key, check_prefix, check_range


@dataclass(frozen=True, slots=True)
class _Value:
    data: bytes
    version: str
    modified: datetime


class DictStore:
    """The Store port in memory; locks hold between tasks of one event loop."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._values: dict[str, _Value] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._writes = 0

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> Blob | None:
        check_range(start, length)
        value = self._values.get(check_key(key))
        if value is None:
            return None
        stop = None if length is None else start + length
        return Blob(value.data[start:stop], value.version, value.modified, len(value.data))

    async def write(self, key: str, data: bytes, *, if_version: str | None = None) -> str:
        self._check_place(key)
        held = self._values.get(key)
        if if_version is not None and if_version != (held.version if held else ""):
            raise VersionConflict(f"{key} was changed by someone else meanwhile; read it again and retry")
        return self._put(key, data).version

    async def append(self, key: str, data: bytes, *, sync: bool = False) -> int:
        self._check_place(key)
        held = self._values.get(key)
        return len(self._put(key, (held.data if held else b"") + data).data)

    async def list(self, prefix: str = "") -> list[Listing]:
        folder = check_prefix(prefix)
        return [
            Listing(key, len(value.data), value.modified)
            for key, value in sorted(self._values.items())
            if not folder or key.startswith(f"{folder}/")
        ]

    async def delete(self, key: str) -> bool:
        return self._values.pop(check_key(key), None) is not None

    def lock(self, key: str, *, timeout: float = 10.0) -> AbstractAsyncContextManager[None]:
        return self._held(check_key(key), timeout)

    @asynccontextmanager
    async def _held(self, key: str, patience: float) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            await asyncio.wait_for(lock.acquire(), patience)
        except TimeoutError:
            raise StoreError(
                f"{key} is locked by someone else for over {patience:g} s; try again later"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _check_place(self, key: str) -> None:
        """As on a disk, a name is either a value or a folder."""
        check_key(key)
        parents = ["/".join(key.split("/")[:depth]) for depth in range(1, key.count("/") + 1)]
        if any(parent in self._values for parent in parents):
            raise StoreError(f"{key}: a part of this key already holds a value; choose another key")
        if any(other.startswith(f"{key}/") for other in self._values):
            raise StoreError(f"{key} is a folder of other keys; choose another key")

    def _put(self, key: str, data: bytes) -> _Value:
        self._writes += 1
        value = _Value(bytes(data), f"v{self._writes}", self._clock.now())
        self._values[key] = value
        return value
