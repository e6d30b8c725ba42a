"""How much background work may cost: by turn, session and day, in money and in tokens (F5).

Everything the session pays for counts, the conversation included; what is not started or is stopped beyond
a cap is background work alone.
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
"""In the home: what all sessions of the present day have paid, and which day that is."""


EXEMPT = frozenset({"main", "hooks"})
"""The conversation itself, and a person's own commands, which cost nothing; by the first word."""


WAIT_SECONDS = 1.0
"""For another session that is writing there: it takes milliseconds, and a turn may wait behind this."""


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
    """Watches one session; `settle` is what shares a day's sum with other sessions."""

    def __init__(self, session: Session, caps: SpendSettings, *, home: Path | None = None) -> None:
        """Without a home, the day's sum is this session's alone."""
        self._session = session
        self._caps = caps
        self._file = (
            home / FILE if home and (caps.day_usd is not None or caps.day_tokens is not None) else None
        )
        self._turn_from = self._settled = self._paid
        self._has_told = False
        self._today = SpendTotal()
        """What was paid today as the file last said, this session's settled share included."""

    def begin_turn(self) -> None:
        """What is paid from here on is this turn's."""
        self._turn_from = self._paid

    def allows(self, purpose: str) -> str | None:
        """Why work of this purpose may not go on, in a line for the person; nothing while it may."""
        if purpose.partition(" ")[0] in EXEMPT:
            return None
        return next((_told(cap) for cap in self._reached()), None)

    async def settle(self) -> None:
        """Add what was paid since to the day's sum; a file that cannot be used stops nobody's work."""
        new = self._paid - self._settled
        self._settled = self._paid
        try:
            self._today = await asyncio.to_thread(self._add, new) if self._file else self._today + new
        except (OSError, StoreError) as error:
            self._settled -= new  # so that it is added the next time
            self._tell_once(f"what was spent today cannot be written down: {error}")

    def _tell_once(self, line: str) -> None:
        if not self._has_told:
            self._has_told = True
            self._session.notify(line)

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
    """What the file says of today; another day's sum is over, and garbage counts as none."""
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


def _told(cap: str) -> str:
    return f"background work rests: {cap} is used up; raise it in the settings to let it go on"
