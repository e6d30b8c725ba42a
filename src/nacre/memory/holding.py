"""Open a memory for as long as somebody works on it: watched, and marked as one an agent is live on (M15)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from nacre.clock import Clock
from nacre.memory.directory import Memory
from nacre.memory.live import agent_live
from nacre.memory.location import Location
from nacre.memory.watch import Watch


async def hold(
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
