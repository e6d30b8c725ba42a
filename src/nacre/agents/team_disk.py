"""What other processes see of a session's agents, and what is left of them after a crash: a file an agent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast, get_args

from nacre.agents.side_log import FOLDER, PREFIX
from nacre.agents.team_state import AgentState, Pattern, Status
from nacre.errors import StoreError
from nacre.groups import is_alive, started
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk

ENDING = ".meta.json"
MAX_BYTES = 1_048_576
"""A longer one was not written by nacre: a report in it has 160,000 characters at most."""
_WORDS = ("name", "type", "description", "doing", "owner", "team", "model", "result", "worktree", "branch")
_COUNTS = ("depth", "run", "told", "rounds", "calls", "tokens", "pid")


def meta_path(folder: Path, agent: str) -> Path:
    """Where an agent of a session stands, given the session's folder."""
    return folder / FOLDER / f"{PREFIX}{agent}{ENDING}"


def write_state(folder: Path, state: AgentState) -> None:
    """Put a state there, whole or not at all; `StoreError` where the disk refuses."""
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
        # Only the process that holds the session writes here, so that one temporary name is enough.
        disk.replace_file(path, data, temp_name=f".{path.name}.tmp", sync=not state.is_running)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def read_states(folder: Path) -> list[AgentState]:
    """The agents of a session as their files say, oldest first; what is no such file is left out."""
    found = (_read(path) for path in _files(folder / FOLDER))
    return sorted((one for one in found if one is not None), key=lambda one: (one.started, one.name))


def seen_from_outside(state: AgentState) -> AgentState:
    """The same for another process: who was at work when its process died is no longer."""
    if state.status in {"running", "idle"} and not is_alive(state.pid, state.process_start):
        return replace(state, status="stopped")
    return state


def own_process() -> tuple[int, str]:
    """What tells this process from another one of its number."""
    return os.getpid(), started(os.getpid())


def _files(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return
    yield from (folder / name for name in sorted(names) if name.startswith(PREFIX) and name.endswith(ENDING))


def _read(path: Path) -> AgentState | None:
    try:
        with os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb") as file:
            said = json.loads(file.read(MAX_BYTES))
        return _state(said)
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None


def _state(said: JsonObject) -> AgentState:
    at = datetime.fromisoformat(str(said["started"]))
    words = {key: str(said.get(key) or "") for key in _WORDS}
    counts = {key: _count(said.get(key)) for key in _COUNTS}
    pattern, status = str(said["pattern"]), str(said["status"])
    if pattern not in get_args(Pattern) or status not in get_args(Status) or not words["name"]:
        raise ValueError(f"no agent: {pattern} {status}")
    cost, seconds = said.get("cost_usd"), said.get("seconds")
    return AgentState(
        id=str(said["id"]),
        pattern=cast("Pattern", pattern),
        status=cast("Status", status),
        background=said.get("background") is True,
        cost_usd=float(cost) if isinstance(cost, int | float) else 0.0,
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        started=at if at.tzinfo else at.replace(tzinfo=UTC),
        process_start=str(said.get("processStart") or ""),
        **words,  # type: ignore[arg-type]
        **counts,  # type: ignore[arg-type]
    )


def _count(value: Json) -> int:
    return value if type(value) is int else 0
