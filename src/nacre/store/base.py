"""The port behind which bytes rest: path-like keys, versions, atomic writes, locks between processes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Blob:
    """What was read, and which version of it."""

    data: bytes
    version: str
    modified: datetime
    size: int
    """Of the whole value, also when only a range was read."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One key in a listing."""

    key: str
    size: int
    modified: datetime


class Store(Protocol):
    """Where bytes rest."""

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> Blob | None:
        """The value or a range of it; None when there is none."""
        ...

    async def write(self, key: str, data: bytes, *, if_version: str | None = None) -> str:
        """Replace the value whole or not at all, and return its version.

        With `if_version` (`""` = must not exist yet) raises `VersionConflict` when somebody else was faster.
        """
        ...

    async def append(self, key: str, data: bytes, *, sync: bool = False) -> int:
        """Add bytes at the end with one write and return the new size; `sync` waits for the disk."""
        ...

    async def list(self, prefix: str = "") -> list[Listing]:
        """Every key below the prefix, sorted."""
        ...

    async def delete(self, key: str) -> bool:
        """Remove a value; false if there was none."""
        ...

    def lock(self, key: str, *, timeout: float = 10.0) -> AbstractAsyncContextManager[None]:
        """Hold this name alone, between processes too."""
        ...
