"""The clock of a replay, set explicitly."""

from __future__ import annotations

from datetime import UTC, datetime


class RecordedClock:
    """Shows a fixed time until it is set; its ids count up."""

    def __init__(self) -> None:
        self.at = datetime(2000, 1, 1, tzinfo=UTC)
        self._count = 0

    def now(self) -> datetime:
        return self.at

    def seconds(self) -> float:
        return self.at.timestamp()

    def new_id(self) -> str:
        self._count += 1
        return f"replay-{self._count}"

    def chance(self) -> float:
        return 0.5
