"""State between hooks: one small file per session, changed by one process at a time (R7, E2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk
from nacre.store.locks import one_writer

FOLDER = Path("cache/hooks")
"""Below the home; not a possible project slug."""
WAIT_SECONDS = 1.0
"""How long to wait for another hook of the same session, which holds the file for milliseconds."""
POLL_SECONDS = 0.01
KEPT = timedelta(days=30)
"""As long as the client keeps its sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookState:
    """What hooks did so far in one session of the client."""

    attached: Mapping[str, int] = field(default_factory=dict)
    """Attached memories and their sizes in bytes."""
    cursor: str = ""
    """Last message that memories were extracted from."""
    failures: int = 0
    """Failed extractions in a row."""
    notices: tuple[str, ...] = ()
    """Notices for the user."""

    @property
    def attached_bytes(self) -> int:
        return sum(self.attached.values())

    def as_json(self) -> JsonObject:
        return {
            "attached": dict(self.attached),
            "cursor": self.cursor,
            "failures": self.failures,
            "notices": [*self.notices],
        }


def state_of(home: Path, session: str) -> HookState:
    """Return the state; empty if the file is missing or invalid."""
    try:
        stored: Json = json.loads(_path(home, session).read_bytes())
    except (OSError, ValueError, RecursionError):
        return HookState()
    if not isinstance(stored, dict):
        return HookState()
    attached, cursor, failures, notices = map(stored.get, ("attached", "cursor", "failures", "notices"))
    sizes = attached.items() if isinstance(attached, dict) else ()
    return HookState(
        attached={path: size for path, size in sizes if isinstance(size, int)},
        cursor=cursor if isinstance(cursor, str) else "",
        failures=failures if isinstance(failures, int) else 0,
        notices=tuple(one for one in notices if isinstance(one, str)) if isinstance(notices, list) else (),
    )


def change_state(home: Path, session: str, step: Callable[[HookState], HookState]) -> HookState:
    """Replace the state by the result of `step`; returns the previous state."""
    path = _path(home, session)
    with one_writer(path, wait=WAIT_SECONDS, poll=POLL_SECONDS):
        before = state_of(home, session)
        after = step(before)
        if after != before:
            data = json.dumps(after.as_json(), ensure_ascii=True).encode()
            try:
                # Not flushed: after a power cut a memory may be attached twice, which is acceptable.
                disk.replace_file(path, data, temp_name=f".{path.name}.tmp", sync=False)
            except OSError as error:
                raise StoreError(disk.explain(error, path)) from error
    return before


def forget_old(home: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Delete the state of sessions that the client has deleted."""
    oldest = (clock.now() - KEPT).timestamp()
    for path in (home / FOLDER).rglob("*"):
        with suppress(OSError):
            if path.is_file() and path.stat().st_mtime < oldest:
                path.unlink()


def _path(home: Path, session: str) -> Path:
    return home / FOLDER / f"{session}.json"
