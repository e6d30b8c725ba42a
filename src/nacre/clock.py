"""The only source of time, ids and random numbers, so that tests can replace it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time, ids and random numbers."""

    def now(self) -> datetime:
        """Return the date and time in UTC."""
        ...

    def seconds(self) -> float:
        """Return monotonic seconds; only differences have a meaning."""
        ...

    def new_id(self) -> str:
        """Return a unique id."""
        ...

    def chance(self) -> float:
        """Return a random number in [0, 1)."""
        ...


class SystemClock:
    """The clock of the system."""

    def now(self) -> datetime:
        """Return the time in UTC in whole milliseconds, the resolution of a transcript line."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def seconds(self) -> float:
        return time.monotonic()

    def new_id(self) -> str:
        import uuid  # noqa: PLC0415 - every command imports this module, most need no id

        return str(uuid.uuid4())

    def chance(self) -> float:
        import random  # noqa: PLC0415 - as for ids

        return random.random()


SYSTEM_CLOCK = SystemClock()
