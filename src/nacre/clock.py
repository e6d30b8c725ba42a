"""The one place that asks for the time, for ids and for chance, so that tests can hold them still."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time, ids and chance come from."""

    def now(self) -> datetime:
        """The date and time, in UTC."""
        ...

    def seconds(self) -> float:
        """For measuring how long something takes; only differences mean anything."""
        ...

    def new_id(self) -> str:
        """An id that nothing else has."""
        ...

    def chance(self) -> float:
        """A number from 0 up to 1."""
        ...


class SystemClock:
    """The real thing."""

    def now(self) -> datetime:
        """The time in UTC, in whole milliseconds, which is what a transcript line can hold."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def seconds(self) -> float:
        """A clock that only goes forward, for measuring how long something took."""
        return time.monotonic()

    def new_id(self) -> str:
        import uuid  # noqa: PLC0415 - most commands need no id, and every one of them starts with this file

        return str(uuid.uuid4())

    def chance(self) -> float:
        """A number in [0, 1)."""
        import random  # noqa: PLC0415 - as for ids

        return random.random()


SYSTEM_CLOCK = SystemClock()
