"""Who changed what through the server: one line of JSON per write, without content (S9)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject
from nacre.store import disk
from nacre.store.locks import one_writer

MAX_BYTES = 16 * 1024 * 1024
"""Size from which a new file is begun: some 50,000 entries."""
BLOCK_BYTES = 65_536
LOCK_POLL = 0.005
"""Seconds between two tries for the lock: an append takes less than a millisecond."""


class AuditLog(Protocol):
    """Where writes are recorded."""

    async def append(self, entry: JsonObject) -> None: ...

    async def newest(self, tenant: str, *, limit: int, before: str = "") -> Sequence[JsonObject]:
        """Return entries of a tenant, newest first, those before the entry with this id."""


class AuditFile:
    """An audit log in append-only files: one that grows, and older ones that are kept."""

    def __init__(self, home: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._path = home / "server" / "audit.jsonl"
        self._max_bytes = max_bytes

    async def append(self, entry: JsonObject) -> None:
        line = json.dumps(entry, ensure_ascii=False).encode(errors="replace") + b"\n"
        await asyncio.to_thread(self._append, line)

    async def newest(self, tenant: str, *, limit: int, before: str = "") -> Sequence[JsonObject]:
        return await asyncio.to_thread(self._newest, tenant, limit, before)

    def _append(self, line: bytes) -> None:
        try:
            with one_writer(self._path, poll=LOCK_POLL):
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                descriptor = os.open(self._path, flags, 0o600)
                try:
                    disk.append_lines(descriptor, line)
                    is_full = os.fstat(descriptor).st_size >= self._max_bytes
                finally:
                    os.close(descriptor)
                if is_full:
                    number = len(self._older()) + 1
                    self._path.rename(self._path.with_name(f"audit-{number:06d}.jsonl"))
        except OSError as error:
            raise StoreError(disk.explain(error, self._path)) from error

    def _newest(self, tenant: str, limit: int, before: str) -> Sequence[JsonObject]:
        found: list[JsonObject] = []
        is_after = bool(before)
        mark = json.dumps(before).encode()
        lines = (line for path in (self._path, *reversed(self._older())) for line in _lines_backwards(path))
        for line in lines:
            if is_after and mark not in line:
                continue
            try:
                entry = json.loads(line)
            except ValueError:  # torn by a crash
                continue
            if not isinstance(entry, dict) or entry.get("tenant") != tenant:
                continue
            if is_after:
                is_after = entry.get("id") != before
                continue
            found.append(entry)
            if len(found) == limit:
                break
        return found

    def _older(self) -> list[Path]:
        """Return the full files, oldest first."""
        return sorted(self._path.parent.glob("audit-*.jsonl"))


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, last first, without reading all of it."""
    try:
        source = path.open("rb")
    except FileNotFoundError:
        return
    with source:
        at = source.seek(0, os.SEEK_END)
        rest = b""
        while at > 0:
            size = min(BLOCK_BYTES, at)
            at -= size
            source.seek(at)
            rest, *lines = (source.read(size) + rest).split(b"\n")
            yield from (line for line in reversed(lines) if line)
        if rest:
            yield rest
