"""The state of each agent of a session, and the registry of all of them."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from nacre.errors import MailError, StoreError, ToolError
from nacre.layers.l7_mail.letter import MAIN, check_name
from nacre.messages.blocks import Json, JsonObject
from nacre.process import is_alive, start_time
from nacre.session.log_writer import FOLDER, PREFIX
from nacre.store import disk

Pattern: TypeAlias = Literal["typed", "fork", "teammate"]
Status: TypeAlias = Literal["running", "idle", "completed", "failed", "stopped", "stalled"]
OVER: frozenset[Status] = frozenset({"completed", "failed", "stopped", "stalled"})
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """The state of one agent."""

    id: str
    name: str
    type: str
    pattern: Pattern = "typed"
    status: Status = "running"
    description: str = ""
    doing: str = ""
    """Current activity, in one line."""
    owner: str = MAIN
    """Name of the agent that started it."""
    depth: int = 1
    background: bool = False
    team: str = ""
    model: str = ""
    run: int = 1
    """Number of times it was started."""
    told: int = 0
    """Last run whose result was reported to its owner."""
    rounds: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """None if no price of its model is known."""
    started: datetime
    """Start of the last run."""
    seconds: float = 0.0
    """Duration of the last run, once it has ended."""
    result: str = ""
    """Report of the last run, as its owner reads it."""
    worktree: str = ""
    branch: str = ""
    pid: int = 0
    process_start: str = ""

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def is_untold(self) -> bool:
        """Whether the result of the last run was not reported to its owner yet."""
        return self.background and not self.is_running and self.told < self.run


@dataclass(slots=True, kw_only=True, eq=False)
class AgentRegistry:
    """All agents of one session, at any depth."""

    folder: Path | None = None
    """Session folder, where states are stored; None if nothing is stored on disk."""
    on_change: list[Callable[[AgentState], None]] = field(default_factory=list)
    """Called with every changed state."""
    root: str = ""
    """In a teammate's process: the session that started the first process above it."""
    depth: int = 0
    """In a teammate's process: its depth below that session."""
    states: dict[str, AgentState] = field(default_factory=dict)
    """By name, in start order."""

    def put(self, state: AgentState) -> AgentState:
        """Set the state of an agent; errors while writing it to disk are ignored."""
        self.states[state.name] = state
        if self.folder is not None:
            with suppress(StoreError):
                write_state(self.folder, state)
        for callback in self.on_change:
            callback(state)
        return state

    def change(self, name: str, **changes: object) -> AgentState:
        """Change some fields of an agent and return its state."""
        return self.put(replace(self.states[name], **changes))  # type: ignore[arg-type]

    @property
    def running(self) -> int:
        return sum(one.is_running for one in self.states.values())

    def named(self, wanted: str, kind: str) -> str:
        """Return a free name: the requested one, or one made from the agent type."""
        if not wanted:
            base = _NOT_IN_A_NAME.sub("-", kind).strip("-") or "agent"
            number = 1
            while f"{base}-{number}" in self.states:
                number += 1
            return f"{base}-{number}"
        try:
            wanted = check_name(wanted)
        except MailError as error:
            raise ToolError(f"{error}.") from error
        if wanted == MAIN:
            raise ToolError(f"An agent cannot be named {MAIN}: that is the session itself.")
        # Compared without case, because the inbox is a file and a file system may ignore case.
        same = (one for one in self.states.values() if one.name.casefold() == wanted.casefold())
        if (taken := next(same, None)) is not None:
            raise ToolError(f"There is an agent {taken.name} already ({taken.status}); choose another name.")
        return wanted

    def find(self, name: str) -> AgentState:
        """Return the agent with this name; raises `ToolError` with the known names."""
        if (found := self.states.get(name)) is not None:
            return found
        known = ", ".join(list(self.states)[-20:]) or "none yet"
        raise ToolError(f"There is no agent named {name[:80]!r}. Known: {known}.")


class IdleTimeout:
    """A timeout that activity of the agent, or of its own agents, restarts."""

    def __init__(self, seconds: float, *, above: IdleTimeout | None = None) -> None:
        self._seconds = seconds
        self._above = above
        self._limit: asyncio.Timeout | None = None
        self._held = 0

    def beat(self) -> None:
        """Restart the timeout."""
        if self._above is not None:
            self._above.beat()
        if self._limit is not None and not self._limit.expired():
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(None if self._held else now + self._seconds)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Suspend the timeout, while a person is asked something."""
        with self._above.held() if self._above else nullcontext():
            self._held += 1
            self.beat()
            try:
                yield
            finally:
                self._held -= 1
                self.beat()

    @contextmanager
    def watched(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Apply the timeout to this limit within the block."""
        self._limit = limit
        self.beat()
        try:
            yield
        finally:
            self._limit = None


ENDING = ".meta.json"
STATE_FILES = f"{FOLDER}/{PREFIX}%{ENDING}"
"""State files below the folder of a session, as a pattern for LIKE."""
MAX_BYTES = 1_048_576
"""Maximum size of a state file: a report in it has 160,000 characters at most."""
_WORDS = ("name", "type", "description", "doing", "owner", "team", "model", "result", "worktree", "branch")
_COUNTS = ("depth", "run", "told", "rounds", "calls", "tokens", "pid")


def meta_path(folder: Path, agent: str) -> Path:
    """Return the path of an agent's state file in the folder of its session."""
    return folder / FOLDER / f"{PREFIX}{agent}{ENDING}"


def write_state(folder: Path, state: AgentState) -> None:
    """Write a state file atomically; raises `StoreError` if that fails."""
    path = meta_path(folder, state.id)
    said: JsonObject = {
        "id": state.id,
        "pattern": state.pattern,
        "status": state.status,
        "background": state.background,
        "cost_usd": state.cost_usd,
        "started": state.started.isoformat(),
        "seconds": state.seconds,
        "processStart": state.process_start,
        **{key: cast("Json", getattr(state, key)) for key in (*_WORDS, *_COUNTS)},
    }
    data = json.dumps(said, ensure_ascii=False, indent=1).encode(errors="surrogatepass") + b"\n"
    try:
        disk.make_folder(path.parent)
        # Only the process that holds the session writes here, so one temporary name is enough.
        disk.replace_file(path, data, temp_name=f".{path.name}.tmp", sync=not state.is_running)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def read_states(folder: Path) -> list[AgentState]:
    """Read the state files of a session, oldest first; invalid ones are skipped."""
    try:
        with os.scandir(folder / FOLDER) as entries:
            names = [one.name for one in entries if one.name.startswith(PREFIX) and one.name.endswith(ENDING)]
    except OSError:
        return []
    found = (_read(folder / FOLDER / name) for name in sorted(names))
    return sorted((one for one in found if one is not None), key=lambda one: (one.started, one.name))


def with_process_status(state: AgentState) -> AgentState:
    """Return the state with the status corrected if its process has died."""
    if state.status in {"running", "idle"} and not is_alive(state.pid, state.process_start):
        return replace(state, status="stopped")
    return state


def with_session_status(state: AgentState, *, is_open: bool) -> AgentState:
    """Return the state with the status corrected if no process has its session open."""
    return replace(state, status="stopped") if state.status in {"running", "idle"} and not is_open else state


def own_process() -> tuple[int, str]:
    """Return the id and start time of this process."""
    return os.getpid(), start_time(os.getpid())


def _read(path: Path) -> AgentState | None:
    try:
        with os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb") as file:
            return parse_state(file.read(MAX_BYTES))
    except OSError:
        return None


def parse_state(data: bytes) -> AgentState | None:
    """Return the state in a file; None if it is invalid."""
    try:
        return _state(json.loads(data))
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def _state(said: JsonObject) -> AgentState:
    at = datetime.fromisoformat(str(said["started"]))
    words = {key: str(said.get(key) or "") for key in _WORDS}
    counts = {key: _count(said.get(key)) for key in _COUNTS}
    pattern = str(said["pattern"])
    status = str(said["status"])
    if pattern not in get_args(Pattern) or status not in get_args(Status) or not words["name"]:
        raise ValueError(f"no agent: {pattern} {status}")
    cost = said.get("cost_usd", 0.0)
    seconds = said.get("seconds")
    return AgentState(
        id=str(said["id"]),
        pattern=cast("Pattern", pattern),
        status=cast("Status", status),
        background=said.get("background") is True,
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        started=at if at.tzinfo else at.replace(tzinfo=UTC),
        process_start=str(said.get("processStart") or ""),
        **words,  # type: ignore[arg-type]
        **counts,  # type: ignore[arg-type]
    )


def _count(value: Json) -> int:
    return value if type(value) is int else 0
