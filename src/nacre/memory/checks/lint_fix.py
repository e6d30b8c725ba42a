"""Put right what `lint` found, all of it in one change (M14)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.checks.lint import fixes
from nacre.memory.files.folder import conflict, is_ours
from nacre.memory.files.location import Location
from nacre.memory.files.transaction import transact
from nacre.memory.files.watch import Watch
from nacre.memory.format.entry import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """The files that were put right, and the commit that did it."""

    files: tuple[str, ...]
    commit: str


async def mend(
    location: Location,
    change: Change,
    *,
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
    with_index: bool = True,
) -> Mended:
    """Apply every fix; what somebody changed since it was read is a conflict, and then nothing is written.

    The index is left alone where it is switched off (M19), or where only the dream writes it (M17).
    """
    async with transact(location, change, clock=clock, watch=watch) as tx:
        found = await asyncio.to_thread(fixes, location.directory, with_index=with_index)
        # The team's folder has a history of its own.
        found = [fix for fix in found if is_ours(fix.file)]
        for fix in found:
            data, version = tx.read(fix.file)
            if (data or b"") != fix.before:
                raise conflict(fix.file)
            tx.write(fix.file, fix.after, if_version=version, keep_time=True)
    return Mended(files=tuple(fix.file for fix in found), commit=tx.commit)
