"""A team's memory is synced when a session begins and when it ends; what fails is a notice (M18)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from nacre.clock import Clock
from nacre.errors import NacreError
from nacre.memory.directory import Memory
from nacre.memory.team_choice import remote_of
from nacre.memory.team_sync import SyncReport, sync

MAX_SECONDS = 5.0
"""A session neither begins nor ends later than this for a place that does not answer."""


async def share(team: Memory, remote: str | None, stack: AsyncExitStack, *, clock: Clock) -> tuple[str, ...]:
    """Sync now, and once more when the stack is left; returns what the person should know."""
    if not remote:
        return ("team memory stays on this machine: memory.teamRemote names no place to share it",)
    stack.push_async_callback(_synced, team, remote, clock)
    return await _synced(team, remote, clock)


async def _synced(team: Memory, remote: str, clock: Clock) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(MAX_SECONDS):
            place = await remote_of(remote, team.location, clock=clock, seconds=MAX_SECONDS)
            return _told(await sync(team.location, place, clock=clock, watch=team.watch))
    except TimeoutError:
        return (f"team memory was not synced: no answer in {MAX_SECONDS:.0f} seconds",)
    except NacreError as error:
        return (f"team memory was not synced: {error}",)


def _told(report: SyncReport) -> tuple[str, ...]:
    kept = [f"team memory: two people changed {one.file}; both texts are kept" for one in report.conflicts]
    refused = [f"team memory: {one.file} is not shared: {one.why}" for one in report.refused]
    return (*kept, *refused)
