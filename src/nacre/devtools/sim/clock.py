"""The simulator's clock: moved by hand, or following the wall clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from nacre.clock import SYSTEM_CLOCK, Clock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Start of a clock moved by hand; any fixed time, so that two runs give the same log."""
MAX_STEP = 100 * 365 * 86_400.0
"""Maximum seconds of one step; a longer one is a mistake, and would overflow the calendar."""


class SimClock:
    """A clock that a test controls; also usable as nacre's `Clock`.

    By default the delays of scripted replies pass at once, without sleeping. With `manual=True` a delayed
    reply is held until `advance` reaches it, so that two requests can overlap. With `real=True` the clock
    follows the wall clock and delays are slept.
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
        """Seconds since 1970 on this clock; never decreases."""
        passed = self._wall.seconds() - self._wall_start if self._real else 0.0
        return self._seconds + passed

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:08d}"

    def chance(self) -> float:
        """Always the middle: a simulation is deterministic."""
        return 0.5

    def advance(self, seconds: float) -> None:
        """Advance the clock by this time."""
        if not 0 <= seconds < MAX_STEP:
            raise ValueError(f"time only runs forward, and by less than a century: not by {seconds} seconds")
        self._seconds += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    def set(self, seconds: float) -> None:
        """Set the clock to seconds since 1970; never back."""
        self.advance(seconds - self.seconds())

    async def reach(self, seconds: float) -> None:
        """Wait until this clock shows at least so many seconds since 1970."""
        while (missing := seconds - self.seconds()) > 0:
            if self._real:
                await asyncio.sleep(missing)
            elif self._manual:
                await self._moved.wait()
            else:
                # Set, not added: a rounding error must not leave a remainder that never disappears.
                self._seconds = seconds
