"""Synchronise memories with a team or with one's other machines, by the settings (M18, M18b)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from typing import Any

from nacre.app.open_memory import SERVER_KEY
from nacre.app.remote_memory import MemoryClient
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, NacreError, VersionConflict
from nacre.memory.files.location import Location
from nacre.memory.memory import Memory
from nacre.memory.team.choice import part_of, remote_of
from nacre.memory.team.remote import RemoteSnapshot, TeamRemote
from nacre.memory.team.rules import is_index
from nacre.memory.team.sync import sync

SERVER = "server:"
"""Beginning of a remote that is a server of nacre; a plain `https://` address is git's."""
BATCH_BYTES = 500_000
"""Texts of one request; a server takes bodies of 1 MiB."""
BATCH_FILES = 20
"""Files of one request that reads."""
MAX_WRITTEN_FILES = 400
"""Files of one request that writes; a server takes 500."""
MAX_SECONDS = 5.0
"""How long the start and the end of a session wait for a remote that does not answer."""


async def memory_remote(
    setting: str | None,
    place: Location,
    *,
    name: str = "",
    clock: Clock = SYSTEM_CLOCK,
    seconds: float | None = None,
) -> TeamRemote:
    """Return the remote that a setting names: a git repository, a folder, or a server with a key."""
    if not (setting or "").startswith(SERVER):
        return await remote_of(setting, place, name=name, clock=clock, seconds=seconds)
    if place.source == "team":
        raise ConfigError("a team's memory is shared through git or a folder; the server has its own `team:`")
    space = (await part_of(place, name)).replace("/", ":")
    key = os.environ.get(SERVER_KEY, "")
    if not key:
        raise ConfigError(f"set {SERVER_KEY} to a key of the server; `nacre keys create` makes one there")
    return ServerRemote(str(setting).removeprefix(SERVER), key, space)


class ServerRemote:
    """One space of `nacre serve`; its history says which versions every file had there."""

    def __init__(self, url: str, key: str, space: str) -> None:
        self.address = f"{SERVER}{url}#{space}"
        self._url = url
        self._key = key
        self._space = space

    async def pull(self) -> RemoteSnapshot:
        found = await self._call("GET", "/sync")
        known = {file: tuple(versions) for file, versions in found["known"].items()}
        return RemoteSnapshot(version=found["head"], files=found["files"], known=known)

    async def read(self, shared: RemoteSnapshot, files: Collection[str]) -> Mapping[str, bytes]:
        wanted = [file for file in sorted(files) if file in shared.files]
        contents: dict[str, bytes] = {}
        for begin in range(0, len(wanted), BATCH_FILES):
            body: dict[str, object] = {"head": shared.version, "files": wanted[begin : begin + BATCH_FILES]}
            found = await self._call("POST", "/sync/read", body)
            contents |= {file: text.encode() for file, text in found["contents"].items()}
        return contents

    async def push(self, base: RemoteSnapshot, changes: Mapping[str, bytes | None], reason: str) -> bool:
        """Send changes in parts, an index last; a part that comes too late ends the push."""
        head = base.version
        for part in _parts(changes):
            texts = {file: None if data is None else data.decode() for file, data in part.items()}
            body: dict[str, object] = {"head": head, "changes": texts, "reason": reason[:200]}
            try:
                head = (await self._call("POST", "/sync", body))["head"]
            except VersionConflict:
                return False
        return True

    async def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        client = MemoryClient(self._url, self._key, space=self._space)
        try:
            return await client.call(method, path, body=body)
        finally:
            await client.close()


def _parts(changes: Mapping[str, bytes | None]) -> list[dict[str, bytes | None]]:
    parts: list[dict[str, bytes | None]] = [{}]
    size = 0
    for file in sorted(changes, key=lambda one: (is_index(one), one)):
        size += len(changes[file] or b"")
        if parts[-1] and (size > BATCH_BYTES or len(parts[-1]) >= MAX_WRITTEN_FILES):
            parts.append({})
            size = len(changes[file] or b"")
        parts[-1][file] = changes[file]
    return parts


async def sync_during(memory: Memory, remote: str, stack: AsyncExitStack, *, clock: Clock) -> tuple[str, ...]:
    """Sync now, and again when the stack is closed; returns notices for the person."""
    if memory.location.source not in {"team", "user"}:
        try:
            await part_of(memory.location)
        except ConfigError:
            return ()  # a project that other machines cannot know; `nacre memory sync --name` can
    stack.push_async_callback(_synced, memory, remote, clock)
    return await _synced(memory, remote, clock)


async def _synced(memory: Memory, remote: str, clock: Clock) -> tuple[str, ...]:
    place = memory.location
    whose = "team memory" if place.source == "team" else "your memory"
    try:
        async with asyncio.timeout(MAX_SECONDS):
            shared = await memory_remote(remote, place, clock=clock, seconds=MAX_SECONDS)
            report = await sync(place, shared, clock=clock, watch=memory.watch)
    except TimeoutError:
        return (f"{whose} was not synced: no answer in {MAX_SECONDS:.0f} seconds",)
    except NacreError as error:
        return (f"{whose} was not synced: {error}",)
    both = "two people" if place.source == "team" else "two machines"
    return (
        *(f"{whose}: {both} changed {one.file}; both texts are kept" for one in report.conflicts),
        *(f"{whose}: {one.file} is not shared: {one.why}" for one in report.refused),
    )
