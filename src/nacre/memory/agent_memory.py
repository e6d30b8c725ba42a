"""The memory that a type of agent has for itself: opened, contained, and told to the agent (M26).

Its index stands in the agent's own system prompt. No selector attaches from it, nothing is extracted into it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.memory.files.external_edits import LIVE
from nacre.memory.files.location import Location, MemoryPaths, agent_location
from nacre.memory.files.recovery import MemoryStorage, as_store_error
from nacre.memory.files.transaction import LOCK_WAIT, held, in_thread, opened
from nacre.memory.files.watch import Watch
from nacre.memory.memory import Memory
from nacre.memory.startup_text import AgentScope, ManualMode, MemoryFacts, manual, render_memory
from nacre.memory.tools import OriginOf, by_agent, memory_tools
from nacre.store import disk
from nacre.tools.base import Tool

IGNORE_FILE = ".gitignore"
IGNORED = b"# What an agent keeps here is for this machine only: git ignores it, this file included.\n*\n"
"""A pattern inside the folder covers all that is in it, this file too: no file that the person tracks has to
change, git shows nothing, and a folder that was there already hides no other file of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemorySpec:
    """Which agents share a memory, how far it reaches, and for which session they work now."""

    type: str
    scope: AgentScope
    session: str = ""
    keeps: bool = True
    """Off: nothing may be written, and memory is only read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemory:
    """What goes into such an agent: same bytes from its first request to its last."""

    memory: Memory
    tools: tuple[Tool, ...]
    manual: str
    """Static text; the same for every agent of this scope."""
    block: str
    """Where the memory is and what its index says, for the system prompt, behind the manual."""
    notice: str = ""
    """Why it can only be read, if it can only be read; for the person."""

    @property
    def system(self) -> str:
        """Both, as they follow each other in the system prompt."""
        return f"{self.manual}\n\n{self.block}"


@asynccontextmanager
async def agent_memory(
    kind: AgentMemorySpec,
    paths: MemoryPaths,
    *,
    clock: Clock = SYSTEM_CLOCK,
    search_tool: str = "",
    extra_guidelines: str = "",
    origin_of: OriginOf = by_agent,
) -> AsyncIterator[AgentMemory]:
    """Open the memory of an agent type for as long as the agent works; edits meanwhile are unconfirmed (M15).

    A directory that cannot be written is read-only and says so; one that leads out of the repository, or a
    type that cannot name a folder, is a `ConfigError`. `origin_of` says whose words a text repeats (M16b).
    """
    location = agent_location(kind.scope, kind.type, paths)
    async with AsyncExitStack() as stack:
        memory = Memory(location, clock=clock)
        notice = ""
        if kind.keeps:
            try:
                memory = await open_live(location, paths.cwd, stack, clock=clock)
                if kind.scope == "local":
                    _hide(location)
            except StoreError as error:
                notice = f"the memory of {kind.type} is read-only: {error}"
        is_read_only = not kind.keeps or bool(notice)
        tools = memory_tools(memory, session=kind.session, origin_of=origin_of)
        mode = ManualMode(
            is_read_only=is_read_only,
            agent_scope=kind.scope,
            search_tool=search_tool,
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


def _hide(location: Location) -> None:
    """Keep a memory out of version control, before anything is in it.

    `StoreError` when that cannot be done: what is meant for one machine is not to be published by accident.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    path = location.directory / IGNORE_FILE
    try:
        descriptor = os.open(path, flags, disk.FILE_MODE)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    with os.fdopen(descriptor, "wb") as target:
        target.write(IGNORED)


async def open_live(
    location: Location, cwd: Path, stack: AsyncExitStack, *, clock: Clock, keeps_index: bool = True
) -> Memory:
    """The memory at a location, made if it is not there; leaving the stack ends the watch and the mark.

    `StoreError` when it cannot be written to; the stack then holds nothing that outlives it.
    """
    watch = Watch(location.directory)
    stack.callback(watch.close)
    memory = await Memory.at(location, cwd, clock=clock, watch=watch, keeps_index=keeps_index)
    await stack.enter_async_context(agent_live(location, clock=clock, watch=watch))
    return memory


@asynccontextmanager
async def agent_live(
    location: Location,
    *,
    clock: Clock = SYSTEM_CLOCK,
    timeout: float = LOCK_WAIT,  # noqa: ASYNC109 - for the lock, not for the whole
    watch: Watch | None = None,
) -> AsyncIterator[None]:
    """Hold a mark from here to the end; edits before it are the user's, edits meanwhile are unconfirmed.

    A process that is killed leaves its mark, so that what it did is still told apart at the next opening.
    The watch of the session saves looking at every file once more, here and at its end.
    """
    async with held(location, clock=clock, timeout=timeout, watch=watch) as place:
        await in_thread(opened, place, clock)
        lock = await in_thread(_marked, place, clock)
    try:
        yield
    finally:
        try:
            async with held(location, clock=clock, timeout=timeout, watch=watch) as place:
                await in_thread(opened, place, clock)
                # Still under the directory's lock: nobody can have picked up edits in between.
                await in_thread(Path(lock.lock_file).unlink, missing_ok=True)
        finally:
            lock.release()


def _marked(place: MemoryStorage, clock: Clock) -> FileLock:
    folder = place.cache / LIVE
    with as_store_error(folder):
        disk.make_folder(folder)
        lock = FileLock(folder / clock.new_id(), mode=disk.FILE_MODE, thread_local=False)
        lock.acquire(timeout=0)
    return lock
