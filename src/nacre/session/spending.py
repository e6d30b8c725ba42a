"""Spending limits for background work: by turn, session and day, in money and in tokens (F5).

All requests of the session count, including the conversation; only background work is stopped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from math import inf
from pathlib import Path

from nacre.errors import StoreError
from nacre.session.meter import Meter
from nacre.session.session import Session
from nacre.session.settings import SpendSettings
from nacre.store import disk
from nacre.store.locks import one_writer

FILE = "spending.json"
"""A file in the home with the sum of all sessions of the current day."""


EXEMPT = frozenset({"main", "hooks"})
"""Purposes without a limit, by their first word: the conversation, and hooks, which cost nothing."""


WAIT_SECONDS = 1.0
"""How long to wait for another session that writes the file; a write takes milliseconds."""


@dataclass(frozen=True, slots=True)
class SpendTotal:
    """Money and tokens; cached tokens count like any other."""

    usd: float = 0.0
    tokens: int = 0

    @staticmethod
    def of(meter: Meter) -> SpendTotal:
        return SpendTotal(meter.cost_usd, meter.usage.total)

    def __add__(self, other: SpendTotal) -> SpendTotal:
        return SpendTotal(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: SpendTotal) -> SpendTotal:
        return SpendTotal(self.usd - other.usd, self.tokens - other.tokens)


class Spending:
    """Checks the limits of one session; `settle` shares the sum of the day with other sessions."""

    def __init__(self, session: Session, caps: SpendSettings, *, home: Path | None = None) -> None:
        """Without a home, the day's sum is this session's alone."""
        self._session = session
        self._caps = caps
        self._file = (
            home / FILE if home and (caps.day_usd is not None or caps.day_tokens is not None) else None
        )
        self._turn_from = self._settled = self._paid
        self._has_warned = False
        self._today = SpendTotal()
        """The sum of the day when the file was last read, including what this session settled."""

    def begin_turn(self) -> None:
        """Start counting the cost of a turn."""
        self._turn_from = self._paid

    def allows(self, purpose: str) -> str | None:
        """Return why work of this purpose may not continue, as a line for the person; None if it may."""
        if purpose.partition(" ")[0] in EXEMPT:
            return None
        limit = next(self._reached(), None)
        if limit is None:
            return None
        return f"background work rests: {limit} is used up; raise it in the settings to let it go on"

    async def settle(self) -> None:
        """Add the new cost to the sum of the day; a file that cannot be written only causes a notice."""
        new = self._paid - self._settled
        self._settled = self._paid
        try:
            self._today = await asyncio.to_thread(self._add, new) if self._file else self._today + new
        except (OSError, StoreError) as error:
            self._settled -= new  # so that it is added the next time
            if not self._has_warned:
                self._has_warned = True
                self._session.notify(f"what was spent today cannot be written down: {error}")

    @property
    def _paid(self) -> SpendTotal:
        return SpendTotal.of(self._session.meter)

    def _reached(self) -> Iterator[str]:
        caps = self._caps
        paid = self._paid
        turn = paid - self._turn_from
        today = self._today + paid - self._settled
        for name, spent, usd, tokens in (
            ("turn", turn, caps.turn_usd, caps.turn_tokens),
            ("session", paid, caps.session_usd, caps.session_tokens),
            ("day", today, caps.day_usd, caps.day_tokens),
        ):
            if usd is not None and spent.usd >= usd:
                yield f"spend.{name}Usd (${usd:,.2f})"
            if tokens is not None and spent.tokens >= tokens:
                yield f"spend.{name}Tokens ({tokens:,})"

    def _add(self, new: SpendTotal) -> SpendTotal:
        assert self._file is not None, "asked only where there is a file"
        today = self._session.clock.now().astimezone().date()
        with one_writer(self._file, wait=WAIT_SECONDS):
            total = _read(self._file, today) + new
            said = {"day": today.isoformat(), "usd": round(total.usd, 6), "tokens": total.tokens}
            data = json.dumps(said).encode() + b"\n"
            disk.replace_file(self._file, data, temp_name=f".{FILE}.new", sync=False)
        return total


def _read(path: Path, today: date) -> SpendTotal:
    """Return the sum of today in the file; zero for another day or an invalid file."""
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return SpendTotal()
    if not isinstance(said, dict) or said.get("day") != today.isoformat():
        return SpendTotal()
    usd = said.get("usd")
    tokens = said.get("tokens")
    if not isinstance(usd, int | float) or not isinstance(tokens, int):
        return SpendTotal()
    return SpendTotal(float(usd), tokens) if 0 <= usd < inf and tokens >= 0 else SpendTotal()
