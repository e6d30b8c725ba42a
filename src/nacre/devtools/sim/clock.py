"""The simulator's own time: stands still until it is told to move, or follows the wall clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from nacre.clock import SYSTEM_CLOCK, Clock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a standing clock starts; any fixed moment will do, so that two runs give the same log."""
MAX_STEP = 100 * 365 * 86_400.0
"""Seconds one step may take; a longer one is a slip, and would leave the calendar."""


class SimClock:
    """A clock a test can hold in its hand; also fits wherever nacre takes a `Clock`.

    By default the delays of scripted replies pass by themselves, without anyone sleeping. With `manual=True`
    a delayed reply is held until `advance` reaches it, which is how two requests are made to overlap.
    With `real=True` the clock follows the wall clock and delays are slept through.
    """

    def __init__(
        self, start: datetime = EPOCH, *, manual: bool = False, real: bool = False, wall: Clock = SYSTEM_CLOCK
    ) -> None:
        self._manual = manual
        self._real = real
        self._wall = wall
        self._seconds = (wall.now() if real else start).timestamp()
        self._wall_start = wall.seconds()
        self._ids = 0
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds(), UTC)

    def seconds(self) -> float:
        """Seconds since 1970 of this clock; only goes forward."""
        passed = self._wall.seconds() - self._wall_start if self._real else 0.0
        return self._seconds + passed

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:08d}"

    def chance(self) -> float:
        """Always the middle: nothing about a simulation is left to chance."""
        return 0.5

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        if not 0 <= seconds < MAX_STEP:
            raise ValueError(f"time only runs forward, and by less than a century: not by {seconds} seconds")
        self._seconds += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    def set(self, seconds: float) -> None:
        """Go to a moment given in seconds since 1970; never back."""
        self.advance(seconds - self.seconds())

    async def reach(self, seconds: float) -> None:
        """Come back when this clock shows at least so many seconds since 1970."""
        while (missing := seconds - self.seconds()) > 0:
            if self._real:
                await asyncio.sleep(missing)
            elif self._manual:
                await self._moved.wait()
            else:
                # Set, not added: a rounding error must not leave a rest that never goes away.
                self._seconds = seconds
