"""Open a memory for as long as somebody works on it: watched, and marked as one an agent is live on (M15)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from filelock import FileLock

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.files.external_edits import LIVE
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import Place, told
from nacre.memory.files.transaction import LOCK_WAIT, held, in_thread, opened
from nacre.memory.files.watch import Watch
from nacre.memory.memory import Memory
from nacre.store import disk


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


def _marked(place: Place, clock: Clock) -> FileLock:
    folder = place.cache / LIVE
    with told(folder):
        disk.make_folder(folder)
        lock = FileLock(folder / clock.new_id(), mode=disk.FILE_MODE, thread_local=False)
        lock.acquire(timeout=0)
    return lock
