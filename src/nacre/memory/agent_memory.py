"""Memories of running agents: opened with a watch and a live marker (M15), and those of an agent type (M26).

The index of an agent type's own memory is part of its system prompt. Recall does not attach memories from it,
and nothing is extracted into it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.location import Location, MemoryPaths, agent_location
from nacre.memory.files.recovery import as_store_error, in_thread
from nacre.memory.files.transaction import LIVE, held, opened
from nacre.memory.files.watch import Watch
from nacre.memory.memory import Memory
from nacre.memory.startup_text import AgentScope, ManualMode, MemoryFacts, manual, render_memory
from nacre.memory.tools import BY_AGENT, OriginJudge, memory_tools
from nacre.store import disk
from nacre.store.locks import FileLock
from nacre.tools.base import Tool

IGNORE_FILE = ".gitignore"
IGNORED = b"# What an agent keeps here is for this machine only: git ignores it, this file included.\n*\n"
"""A `.gitignore` inside the folder needs no change to a file that the user tracks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemorySpec:
    """The agent type and scope that identify a memory, and the session that uses it."""

    type: str
    scope: AgentScope
    session: str = ""
    may_write: bool = True
    """Off: the memory is read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemory:
    """An open memory of an agent type with its tools and its part of the system prompt."""

    memory: Memory
    tools: tuple[Tool, ...]
    manual: str
    """Static text, the same for every agent of this scope."""
    block: str
    """Path and index of the memory, which follow the manual in the system prompt."""
    notice: str = ""
    """Why the memory is read-only, for the user; empty when it is writable."""

    @property
    def system(self) -> str:
        """Manual and block as in the system prompt."""
        return f"{self.manual}\n\n{self.block}"


@asynccontextmanager
async def agent_memory(
    spec: AgentMemorySpec,
    paths: MemoryPaths,
    *,
    clock: Clock = SYSTEM_CLOCK,
    extra_guidelines: str = "",
    origins: OriginJudge = BY_AGENT,
) -> AsyncIterator[AgentMemory]:
    """Open the memory of an agent type while the agent runs; other programs' edits are unconfirmed (M15).

    A directory that is not writable gives a read-only memory with a notice. A directory outside the
    repository, or a type that is no valid folder name, raises `ConfigError`.
    """
    location = agent_location(spec.scope, spec.type, paths)
    async with AsyncExitStack() as stack:
        memory = Memory(location, clock=clock)
        notice = ""
        if spec.may_write:
            try:
                memory = await open_live(location, paths.cwd, stack, clock=clock)
                if spec.scope == "local":
                    # `StoreError` if it fails, so that nothing is published by mistake.
                    path = location.directory / IGNORE_FILE
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                    with (
                        as_store_error(path),
                        suppress(FileExistsError),
                        os.fdopen(os.open(path, flags, disk.FILE_MODE), "wb") as target,
                    ):
                        target.write(IGNORED)
            except StoreError as error:
                notice = f"the memory of {spec.type} is read-only: {error}"
        is_read_only = not spec.may_write or bool(notice)
        tools = memory_tools(memory, session=spec.session, origins=origins)
        mode = ManualMode(
            is_read_only=is_read_only,
            agent_scope=spec.scope,
            extra_guidelines=extra_guidelines,
        )
        facts = MemoryFacts(directory=location.directory, whose="agent", is_read_only=is_read_only)
        yield AgentMemory(
            memory=memory,
            tools=tuple(one for one in tools if one.read_only or not is_read_only),
            manual=manual(mode),
            block=render_memory(facts, (await memory.index()).text),
            notice=notice,
        )


async def open_live(
    location: Location, cwd: Path, stack: AsyncExitStack, *, clock: Clock, keeps_index: bool = True
) -> Memory:
    """Open the memory at a location with a watch and a live marker, which the stack closes.

    Raises `StoreError` when the directory is not writable.
    """
    watch = Watch(location.directory)
    stack.callback(watch.close)
    memory = await Memory.at(location, cwd, clock=clock, watch=watch, keeps_index=keeps_index)
    await stack.enter_async_context(agent_live(location, clock=clock, watch=watch))
    return memory


@asynccontextmanager
async def agent_live(
    location: Location, *, clock: Clock = SYSTEM_CLOCK, watch: Watch | None = None
) -> AsyncIterator[None]:
    """Mark a directory as used by an agent: edits before are the user's, edits meanwhile are unconfirmed.

    A killed process leaves its marker, so that its edits are still recognised at the next opening. With a
    watch, the files are not compared again at the start and the end.
    """
    folder = location.cache / LIVE
    async with held(location, clock=clock, watch=watch) as storage:
        await in_thread(opened, storage, clock)
        with as_store_error(folder):
            mark = _take_marker(folder, clock)
    try:
        yield
    finally:
        try:
            async with held(location, clock=clock, watch=watch) as storage:
                await in_thread(opened, storage, clock)
                # Under the directory's lock, so that no other process records edits in between.
                mark.agents -= 1
                if not mark.agents:
                    with as_store_error(folder):
                        await in_thread(Path(mark.lock.lock_file).unlink, missing_ok=True)
        finally:
            if mark.agents <= 0:
                mark.lock.release()


@dataclass(slots=True)
class _LiveMarker:
    """The marker of this process in a directory, which all its agents share."""

    lock: FileLock
    agents: int = 0


_MARKERS: dict[tuple[int, Path], _LiveMarker] = {}


def _take_marker(folder: Path, clock: Clock) -> _LiveMarker:
    """Count one more agent of this process as live; the caller holds the directory's lock."""
    key = (os.getpid(), folder)
    mark = _MARKERS.get(key)
    if mark is None or mark.agents <= 0:
        disk.make_folder(folder)
        mark = _LiveMarker(FileLock(folder / clock.new_id()))
        mark.lock.acquire(timeout=0)
        _MARKERS[key] = mark
    mark.agents += 1
    return mark
