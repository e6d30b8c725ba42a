"""What a dream is doing and what became of the last one, in a file that any process can read (D5)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.messages.blocks import Json, JsonObject
from nacre.process import is_alive, started
from nacre.store import disk

FOLDER = "dream"
"""In a location's cache."""
FILE = "state.json"
KILL = "kill"
GATES_FILE = "gates.json"
MAX_TEXTS = 30
"""Turns whose text is kept for display."""
MAX_TEXT_CHARS = 2_000

Phase: TypeAlias = Literal["starting", "updating"]
Status: TypeAlias = Literal["running", "completed", "failed", "killed", "skipped", "put off", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One dream, as far as it has come."""

    run: str = ""
    pid: int = 0
    host: str = ""
    start: str = ""
    """Of the process."""
    by: str = "rules"
    """`rules`, or the model that was asked."""
    phase: Phase = "starting"
    status: Status = "never"
    begun: str = ""
    ended: str = ""
    sessions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Touched so far."""
    tools: Mapping[str, int] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    """Of the last turns."""
    changes: tuple[JsonObject, ...] = ()
    proposed: tuple[JsonObject, ...] = ()
    commit: str = ""
    error: str = ""
    tokens: int = 0
    failures: int = 0
    """In a row."""
    failed_on: str = ""

    @property
    def last_failure(self) -> date | None:
        with contextlib.suppress(ValueError):
            return date.fromisoformat(self.failed_on)
        return None

    @property
    def is_abandoned(self) -> bool:
        """Running by its own words, but its process is gone; of another machine's nothing is known."""
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
            "failures": self.failures,
            "failed_on": self.failed_on,
        }


class Board:
    """Where the state of one memory directory's dreams is written down."""

    def __init__(self, cache: Path) -> None:
        self.folder = cache / FOLDER

    def read(self) -> State:
        """The last state; one that says `never` where there is none that can be read."""
        try:
            found = json.loads((self.folder / FILE).read_bytes())
        except (OSError, ValueError):
            return State()
        return _parsed(found) if isinstance(found, dict) else State()

    def write(self, state: State) -> None:
        """For people and programs that look; failing to is no reason for a dream to fail."""
        data = json.dumps(state.as_json(), ensure_ascii=False, indent=1).encode()
        with contextlib.suppress(OSError):
            disk.make_folder(self.folder)
            disk.replace_file(self.folder / FILE, data, temp_name=f".{FILE}.{os.getpid()}.tmp", sync=False)

    def ask_to_stop(self, run: str) -> None:
        """Tell whoever dreams, in whatever process, to end."""
        disk.make_folder(self.folder)
        disk.replace_file(
            self.folder / KILL, run.encode(), temp_name=f".{KILL}.{os.getpid()}.tmp", sync=False
        )

    def is_to_stop(self, run: str) -> bool:
        """Whether somebody wants this dream to end."""
        try:
            return (self.folder / KILL).read_bytes().decode(errors="replace").strip() == run
        except OSError:
            return False

    def count(self, gates: Counter[str]) -> None:
        """Add how many turns stopped at which gate."""
        total = Counter(self.gates())
        total.update(gates)
        with contextlib.suppress(OSError):
            disk.make_folder(self.folder)
            data = json.dumps(dict(total)).encode()
            disk.replace_file(
                self.folder / GATES_FILE, data, temp_name=f".{GATES_FILE}.{os.getpid()}.tmp", sync=False
            )

    def gates(self) -> dict[str, int]:
        """How many turns stopped at which gate, over all sessions."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found = json.loads((self.folder / GATES_FILE).read_bytes())
            return {str(name): int(count) for name, count in found.items() if isinstance(count, int)}
        return {}


def begun(run: str, previous: State, *, at: datetime, by: str, sessions: tuple[str, ...] = ()) -> State:
    """The state of a dream that begins now in this process."""
    return State(
        run=run,
        pid=os.getpid(),
        host=socket.gethostname(),
        start=started(os.getpid()),
        by=by,
        status="running",
        begun=at.isoformat(),
        sessions=sessions,
        failures=previous.failures,
        failed_on=previous.failed_on,
    )


def failed(state: State, error: str, *, at: datetime, status: Status = "failed") -> State:
    """The state after something went wrong; only what really failed counts as a failure."""
    ended = replace(state, status=status, error=error, ended=at.isoformat())
    if status != "failed":
        return ended
    return replace(ended, failures=state.failures + 1, failed_on=at.astimezone().date().isoformat())


def heard(state: State, text: str, tools: Mapping[str, int], tokens: int) -> State:
    """The state after one more turn of the model."""
    counts = Counter(state.tools)
    counts.update(tools)
    said = text.strip()[:MAX_TEXT_CHARS]
    texts = (*state.texts, said)[-MAX_TEXTS:] if said else state.texts
    return replace(state, texts=texts, tools=dict(counts), tokens=state.tokens + tokens)


def touched(state: State, file: str) -> State:
    """The state after a file was written: from the first on it is `updating`."""
    files = state.files if file in state.files else (*state.files, file)
    return replace(state, files=files, phase="updating")


def _parsed(found: Mapping[str, Json]) -> State:
    """What of a file can be understood; the rest is as if nothing were known of it."""
    empty = State()
    known = {one.name: _as(getattr(empty, one.name), found.get(one.name)) for one in fields(State)}
    known |= {
        "phase": "updating" if found.get("phase") == "updating" else "starting",
        "status": _STATUSES.get(str(found.get("status")), "never"),
        "changes": _objects(found.get("changes")),
        "proposed": _objects(found.get("proposed")),
    }
    return State(**known)  # type: ignore[arg-type]


def _as(usual: object, value: Json) -> object:
    """A value if it is of the same kind as the usual one."""
    if isinstance(usual, tuple):
        return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else usual
    if isinstance(usual, dict):
        counts = value.items() if isinstance(value, dict) else ()
        return {name: count for name, count in counts if isinstance(count, int)}
    return value if isinstance(value, type(usual)) else usual


def _objects(value: Json) -> tuple[JsonObject, ...]:
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


_STATUSES: dict[str, Status] = {
    "running": "running", "completed": "completed", "failed": "failed", "killed": "killed",
    "skipped": "skipped", "put off": "put off",
}  # fmt: skip
