"""Say that an agent is live on a memory directory: what changes meanwhile may be its shell's doing (M15)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from filelock import FileLock

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.edits import LIVE
from nacre.memory.location import Location
from nacre.memory.recovery import Place, told
from nacre.memory.transaction import LOCK_WAIT, held, in_thread, opened
from nacre.memory.watch import Watch
from nacre.store import disk


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
