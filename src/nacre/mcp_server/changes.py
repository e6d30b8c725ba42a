"""Notices that memory has changed, by whomever, so that clients can be told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

LOOK_SECONDS = 2.0
"""Between two looks: one call of the system for each open project."""


async def watch_changes(
    directories: Callable[[], Iterable[Path]],
    tell: Callable[[], Awaitable[None]],
    *,
    seconds: float = LOOK_SECONDS,
) -> None:
    """Tell, as long as this runs, whenever a file came, went or was replaced in one of the directories.

    A memory is written by putting a new file in an old one's place, so that its folder's time tells it.
    """
    known: dict[Path, int] = {}
    while True:
        now = {one: _stamp(one) for one in directories()}
        if any(known.get(one, stamp) != stamp for one, stamp in now.items()):
            await tell()
        known = now
        await asyncio.sleep(seconds)


def _stamp(directory: Path) -> int:
    try:
        return directory.stat().st_mtime_ns
    except OSError:
        return 0
