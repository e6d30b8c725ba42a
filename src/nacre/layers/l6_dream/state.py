"""The state of the current or last dream, in a file that any process can read (D5)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.layers.l6_dream.lock import DreamLock
from nacre.memory.files.location import Location
from nacre.messages.blocks import Json, JsonObject
from nacre.process import is_alive, start_time
from nacre.store import disk

FOLDER = "dream"
"""Folder in the cache of a memory location."""
FILE = "state.json"
KILL = "kill"
GATES_FILE = "gates.json"
BY_RULE_FILE = "by-rule"
"""Its modification time is that of the last dream by rule; the lock file has that of one with a model."""
FIRST_FILE = "first"
"""Its modification time is when the gates were first asked; before a first dream, time counts from then."""
MAX_TEXTS = 30
"""Replies whose text is kept for display."""
MAX_TEXT_CHARS = 2_000

Phase: TypeAlias = Literal["starting", "updating"]
Status: TypeAlias = Literal["running", "completed", "failed", "killed", "skipped", "put off", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamState:
    """The progress and result of one dream."""

    run: str = ""
    pid: int = 0
    host: str = ""
    start: str = ""
    """Start time of the process."""
    by: str = "rules"
    """`rules`, or the name of the model."""
    phase: Phase = "starting"
    status: Status = "never"
    begun: str = ""
    ended: str = ""
    sessions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files changed so far."""
    tools: Mapping[str, int] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    """Texts of the last replies."""
    changes: tuple[JsonObject, ...] = ()
    proposed: tuple[JsonObject, ...] = ()
    commit: str = ""
    error: str = ""
    tokens: int = 0
    rounds: int = 0
    """Requests to the model."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Problems for which changes were refused, by kind."""
    denied_writes: int = 0
    """Refused calls of tools that can change something."""
    failures: int = 0
    """In a row."""
    failed_on: str = ""

    @property
    def last_failure(self) -> date | None:
        with contextlib.suppress(ValueError):
            return date.fromisoformat(self.failed_on)
        return None

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it runs."""
        with contextlib.suppress(ValueError):
            return (datetime.fromisoformat(self.ended) - datetime.fromisoformat(self.begun)).total_seconds()
        return 0.0

    @property
    def is_abandoned(self) -> bool:
        """Whether the process of a running dream has died; unknown, so False, for another machine."""
        is_here = self.host == socket.gethostname()
        return self.status == "running" and is_here and not is_alive(self.pid, self.start)

    def as_json(self) -> JsonObject:
        return {
            "run": self.run,
            "pid": self.pid,
            "host": self.host,
            "start": self.start,
            "by": self.by,
            "phase": self.phase,
            "status": self.status,
            "begun": self.begun,
            "ended": self.ended,
            "sessions": [*self.sessions],
            "files": [*self.files],
            "tools": dict(self.tools),
            "texts": [*self.texts],
            "changes": [*self.changes],
            "proposed": [*self.proposed],
            "commit": self.commit,
            "error": self.error,
            "tokens": self.tokens,
            "rounds": self.rounds,
            "refused": dict(self.refused),
            "denied_writes": self.denied_writes,
            "failures": self.failures,
            "failed_on": self.failed_on,
        }


class DreamStateFile:
    """The files with the state and the gate counts of one memory directory."""

    def __init__(self, cache: Path) -> None:
        self.folder = cache / FOLDER

    def read(self) -> DreamState:
        """Return the last state; status `never` if there is no readable one."""
        try:
            found = json.loads((self.folder / FILE).read_bytes())
        except (OSError, ValueError, RecursionError):
            return DreamState()
        return _parsed(found) if isinstance(found, dict) else DreamState()

    def write(self, state: DreamState) -> None:
        """Write the state for other processes; errors are ignored, because the dream does not need it."""
        data = json.dumps(state.as_json(), ensure_ascii=False, indent=1).encode()
        with contextlib.suppress(OSError):
            disk.make_folder(self.folder)
            disk.replace_file(self.folder / FILE, data, sync=False)

    def ask_to_stop(self, run: str) -> None:
        """Ask the process of this run to stop."""
        disk.make_folder(self.folder)
        disk.replace_file(self.folder / KILL, run.encode(), sync=False)

    def is_to_stop(self, run: str) -> bool:
        """Whether this run was asked to stop."""
        try:
            return (self.folder / KILL).read_bytes().decode(errors="replace").strip() == run
        except OSError:
            return False

    def moment(self, name: str) -> datetime | None:
        """Return the time of a marker file, or None."""
        with contextlib.suppress(OSError, ValueError, OverflowError):
            return datetime.fromtimestamp((self.folder / name).stat().st_mtime, UTC)
        return None

    def mark(self, name: str, at: datetime) -> None:
        """Create a marker file, or set its time; errors are ignored."""
        with contextlib.suppress(OSError):
            disk.make_folder(self.folder)
            disk.replace_file(self.folder / name, b"", sync=False, time_ns=int(at.timestamp() * 10**9))

    def count(self, gates: Counter[str]) -> None:
        """Add numbers of turns that ended at each gate."""
        total = Counter(self.gates())
        total.update(gates)
        with contextlib.suppress(OSError):
            disk.make_folder(self.folder)
            data = json.dumps(dict(total)).encode()
            disk.replace_file(self.folder / GATES_FILE, data, sync=False)

    def gates(self) -> dict[str, int]:
        """Return the number of turns that ended at each gate, over all sessions."""
        with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
            found = json.loads((self.folder / GATES_FILE).read_bytes())
            return {str(name): int(count) for name, count in found.items() if isinstance(count, int)}
        return {}


def begun(
    run: str, previous: DreamState, *, at: datetime, by: str, sessions: tuple[str, ...] = ()
) -> DreamState:
    """Return the state of a dream that starts now in this process."""
    return DreamState(
        run=run,
        pid=os.getpid(),
        host=socket.gethostname(),
        start=start_time(os.getpid()),
        by=by,
        status="running",
        begun=at.isoformat(),
        sessions=sessions,
        failures=previous.failures,
        failed_on=previous.failed_on,
    )


def failed(state: DreamState, error: str, *, at: datetime, status: Status = "failed") -> DreamState:
    """Return the state after an error; only the status `failed` counts as a failure."""
    ended = replace(state, status=status, error=error, ended=at.isoformat())
    if status != "failed":
        return ended
    return replace(ended, failures=state.failures + 1, failed_on=at.astimezone().date().isoformat())


def replied(state: DreamState, text: str, tools: Mapping[str, int], tokens: int) -> DreamState:
    """Return the state after one more reply of the model."""
    counts = Counter(state.tools)
    counts.update(tools)
    shown = text.strip()[:MAX_TEXT_CHARS]
    texts = (*state.texts, shown)[-MAX_TEXTS:] if shown else state.texts
    used = state.tokens + tokens
    return replace(state, texts=texts, tools=dict(counts), tokens=used, rounds=state.rounds + 1)


def touched(state: DreamState, file: str) -> DreamState:
    """Return the state after a file was written; the phase is `updating` from the first file on."""
    files = state.files if file in state.files else (*state.files, file)
    return replace(state, files=files, phase="updating")


def _parsed(found: Mapping[str, Json]) -> DreamState:
    """Return the state from a JSON object; invalid values become defaults."""
    default = DreamState()
    values = {one.name: _typed(found.get(one.name), getattr(default, one.name)) for one in fields(DreamState)}
    values |= {
        "phase": "updating" if found.get("phase") == "updating" else "starting",
        "status": _STATUSES.get(str(found.get("status")), "never"),
        "changes": _objects(found.get("changes")),
        "proposed": _objects(found.get("proposed")),
    }
    return DreamState(**values)  # type: ignore[arg-type]


def _typed(value: Json, default: object) -> object:
    """Return the value if it has the type of the default, else the default."""
    if isinstance(default, tuple):
        return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else default
    if isinstance(default, dict):
        counts = value.items() if isinstance(value, dict) else ()
        return {name: count for name, count in counts if isinstance(count, int)}
    return value if isinstance(value, type(default)) else default


def _objects(value: Json) -> tuple[JsonObject, ...]:
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


_STATUSES: dict[str, Status] = {
    "running": "running", "completed": "completed", "failed": "failed", "killed": "killed",
    "skipped": "skipped", "put off": "put off",
}  # fmt: skip


def _utc(at: str) -> str:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(at).astimezone(UTC).isoformat()
    return at


def recover(location: Location, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Release the lock and end the state of a dream whose process has died; True if the lock was released."""
    state_file = DreamStateFile(location.cache)
    lock = DreamLock(location.directory, location.cache, clock=clock)
    state = state_file.read()
    is_recovered = lock.recover()
    if state.is_abandoned:
        found = lock.read()
        is_same = found is not None and (found[0].pid, found[0].start) == (state.pid, state.start)
        # A recovered lock names the process, too, but has the time of an earlier dream.
        last = lock.last()
        is_done = bool(state.commit) or (
            is_same and last is not None and last.isoformat() >= _utc(state.begun)
        )
        killed = replace(failed(state, "its process is gone", at=clock.now()), status="killed")
        state_file.write(replace(state, status="completed", failures=0, failed_on="") if is_done else killed)
    return is_recovered
