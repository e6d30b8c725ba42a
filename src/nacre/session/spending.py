"""Spending limits by turn, session, day and agent, over all processes of a session's agents (F5).

All requests count, including the conversation; only background work and agents are stopped. Teammates in
their own processes share a file in the folder of the session at the top: each process writes the sums of its
own session there and reads those of the others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import inf
from pathlib import Path

from nacre.errors import StoreError
from nacre.messages.blocks import Json, JsonObject
from nacre.session.meter import Meter
from nacre.session.session import Session
from nacre.session.settings import SpendSettings
from nacre.store import disk
from nacre.store.locks import one_writer

FILE = "spending.json"
"""In the home: the sum of all sessions of the current day. In a session's folder: that of its processes."""
EXEMPT = frozenset({"main", "hooks"})
"""Purposes without a limit, by their first word: the conversation, and hooks, which cost nothing."""
USED_UP = "agents and background work rest: {limit} is used up; raise it in the settings to let them go on"
AGENT_USED_UP = "{limit}, the limit of one agent, is used up; raise it in the settings to let it go on"
WAIT_SECONDS = 1.0
"""How long to wait for another session that writes the file; a write takes milliseconds."""
MAX_BYTES = 1_048_576
"""Maximum size of the file: a process has about 300 bytes in it."""
_DEFAULTS = SpendSettings()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpend:
    """What one session spent that shares the limits of the session at the top."""

    name: str = ""
    """Name of the teammate; empty for the session at the top."""
    owner: str = ""
    """Id of the session that started it."""
    model: str = ""
    meter: Meter = field(default_factory=Meter)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSpend:
    """What the processes below one session spent, by session id."""

    turn_from: SpendTotal = field(default_factory=SpendTotal)
    """The sum when the current turn of the session at the top began."""
    processes: Mapping[str, ProcessSpend] = field(default_factory=dict)

    def without(self, session: str) -> Meter:
        """Return the sums of all sessions but one."""
        return sum((one.meter for id_, one in self.processes.items() if id_ != session), Meter())


class Spending:
    """Checks the limits of one session; `settle` shares sums with other sessions and processes."""

    def __init__(
        self,
        session: Session,
        caps: SpendSettings,
        *,
        home: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        """Without a home, the day's sum is this session's alone; `folder` is the session's own."""
        self.caps = caps
        self.is_agent = False
        """Whether the session is a teammate's, whose turns the limits stop as well."""
        self.shared = SharedSpend()
        """What the other processes spent when the file was last read."""
        self.on_shared: Callable[[SharedSpend], None] = lambda shared: None
        """Called when the file was read."""
        self._session = session
        self._row = ProcessSpend()
        self._folder = folder
        self._day_file = (
            home / FILE if home and (caps.day_usd is not None or caps.day_tokens is not None) else None
        )
        self._shared_file = folder / FILE if folder and (folder / FILE).exists() else None
        self._turn_from = self._settled = self._paid
        self._is_new_turn = False
        self._has_warned = False
        if not session.profile.prices:
            self._warn_unpriced(session.base.model)
        self._today = SpendTotal()
        """The sum of the day when the file was last read, including what this session settled."""

    def begin_turn(self) -> None:
        """Start counting the cost of a turn; the turns of a teammate are part of one at the top."""
        if not self.is_agent:
            self._turn_from = self.total
            self._is_new_turn = True

    def share(self) -> None:
        """Share the limits with processes that this session starts."""
        if self._shared_file is None and self._folder is not None:
            self._shared_file = self._folder / FILE

    def join(self, folder: Path, *, name: str, owner: str) -> None:
        """Count towards the limits of another session, given its folder, as one of its teammates."""
        self.is_agent = True
        self._shared_file = folder / FILE
        self._row = ProcessSpend(name=name, owner=owner)

    def allows(self, purpose: str) -> str | None:
        """Return why work of this purpose may not continue, as a line for the person; None if it may."""
        if purpose.partition(" ")[0] in EXEMPT:
            return None
        caps = self.caps
        paid = self._paid
        total = self.total
        for name, spent, usd, tokens in (
            ("turn", total - self._turn_from, caps.turn_usd, caps.turn_tokens),
            ("session", total, caps.session_usd, caps.session_tokens),
            ("day", self._today + paid - self._settled, caps.day_usd, caps.day_tokens),
        ):
            if limit := _reached(name, spent, usd, tokens):
                return USED_UP.format(limit=limit)
        return None

    def allows_agent(self, spent: SpendTotal) -> str | None:
        """Return why an agent that spent this much may not continue; None if it may."""
        limit = _reached("agent", spent, self.caps.agent_usd, self.caps.agent_tokens)
        return AGENT_USED_UP.format(limit=limit) if limit else self.allows("agent")

    def _warn_unpriced(self, model: str) -> None:
        """Tell the person that limits in dollars do not count a model without a price.

        The default limit has a counterpart in tokens, which holds for any model.
        """
        named = {name: getattr(self.caps, f"{name}_usd") for name in ("turn", "session", "day", "agent")}
        limits = [
            f"spend.{name}Usd"
            for name, usd in named.items()
            if usd is not None and (usd != getattr(_DEFAULTS, f"{name}_usd") or self.caps.turn_tokens is None)
        ]
        if limits:
            self._session.notify(
                f"{' and '.join(limits)} cannot hold: no price of {model} is known; set a limit in tokens "
                "(spend.sessionTokens), or the price in the setting models",
                "warning",
            )

    async def settle(self) -> None:
        """Add the new cost to the sum of the day and to what processes share.

        A file that cannot be written only causes a notice.
        """
        new = self._paid - self._settled
        self._settled = self._paid
        try:
            self._today = (
                await asyncio.to_thread(self._add, self._day_file, new)
                if self._day_file
                else self._today + new
            )
        except (OSError, StoreError) as error:
            self._settled -= new  # so that it is added the next time
            self._warn_once(f"what was spent today cannot be written down: {error}")
        if self._shared_file is None:
            return
        try:
            self.shared = await asyncio.to_thread(self._exchange, self._shared_file)
        except (OSError, StoreError) as error:
            self._warn_once(f"what teammates spend cannot be written down: {error}")
            return
        self._turn_from = self.shared.turn_from
        self.on_shared(self.shared)

    @property
    def total(self) -> SpendTotal:
        """What this session and the processes that share its limits spent."""
        return self._paid + SpendTotal.of(self.shared.without(self._session.id))

    @property
    def _paid(self) -> SpendTotal:
        return SpendTotal.of(self._session.meter)

    def _warn_once(self, line: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._session.notify(line)

    def _add(self, file: Path, new: SpendTotal) -> SpendTotal:
        today = self._session.clock.now().astimezone().date()
        with one_writer(file, wait=WAIT_SECONDS):
            total = _read(file, today) + new
            said = {"day": today.isoformat(), "usd": round(total.usd, 6), "tokens": total.tokens}
            data = json.dumps(said).encode() + b"\n"
            disk.replace_file(file, data, temp_name=f".{FILE}.new", sync=False)
        return total

    def _exchange(self, file: Path) -> SharedSpend:
        """Write the sums of this session and return those of all."""
        session = self._session
        found = read_shared(file)
        row = ProcessSpend(
            name=self._row.name, owner=self._row.owner, model=session.base.model, meter=session.meter
        )
        if found is not None and found.processes.get(session.id) == row and not self._is_new_turn:
            return found
        with one_writer(file, wait=WAIT_SECONDS):
            found = read_shared(file)
            turn_from = found.turn_from if found else self._turn_from
            processes = {**(found.processes if found else {}), session.id: row}
            if self._is_new_turn:
                turn_from = SpendTotal.of(sum((one.meter for one in processes.values()), Meter()))
                self._is_new_turn = False
            shared = SharedSpend(turn_from=turn_from, processes=processes)
            data = json.dumps(_written(shared)).encode() + b"\n"
            disk.replace_file(file, data, temp_name=f".{FILE}.new", sync=False)
        return shared


def _reached(name: str, spent: SpendTotal, usd: float | None, tokens: int | None) -> str:
    """Return the name of a limit that is reached; empty if none is."""
    if usd is not None and spent.usd >= usd:
        return f"spend.{name}Usd (${usd:,.2f})"
    if tokens is not None and spent.tokens >= tokens:
        return f"spend.{name}Tokens ({tokens:,})"
    return ""


def _read(path: Path, today: date) -> SpendTotal:
    """Return the sum of today in the file; zero for another day or an invalid file."""
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return SpendTotal()
    if not isinstance(said, dict) or said.get("day") != today.isoformat():
        return SpendTotal()
    return _total(said)


def _total(said: JsonObject) -> SpendTotal:
    usd = said.get("usd")
    tokens = said.get("tokens")
    if not isinstance(usd, int | float) or not isinstance(tokens, int):
        return SpendTotal()
    return SpendTotal(float(usd), tokens) if 0 <= usd < inf and tokens >= 0 else SpendTotal()


def read_shared(path: Path) -> SharedSpend | None:
    """Return what the processes below a session spent; None if no readable file says so."""
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    rows = said.get("sessions") if isinstance(said, dict) else None
    if not isinstance(rows, dict):
        return None
    turn = said.get("turn_from")
    return SharedSpend(
        turn_from=_total(turn) if isinstance(turn, dict) else SpendTotal(),
        processes={str(id_): _process(row) for id_, row in rows.items() if isinstance(row, dict)},
    )


def _process(row: JsonObject) -> ProcessSpend:
    said = row.get("meter")
    meter = Meter.of_json(said) if isinstance(said, dict) else Meter()
    is_valid = 0 <= meter.cost_usd < inf and meter.usage.total >= 0
    return ProcessSpend(
        name=_text(row.get("name")),
        owner=_text(row.get("owner")),
        model=_text(row.get("model")),
        meter=meter if is_valid else Meter(),
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _written(shared: SharedSpend) -> JsonObject:
    rows: JsonObject = {
        id_: {"name": one.name, "owner": one.owner, "model": one.model, "meter": one.meter.as_json()}
        for id_, one in shared.processes.items()
    }
    return {
        "turn_from": {"usd": shared.turn_from.usd, "tokens": shared.turn_from.tokens},
        "sessions": rows,
    }
