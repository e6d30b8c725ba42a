"""How a process group ends whole, whether anyone in it still runs, and whether a process is the one meant."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

KILL_SECONDS = 5.0
"""A killed process is gone in a moment; one stuck in the kernel must not hold anybody up."""
POLL_SECONDS = 0.02
"""How often to ask whether a group is gone; there is nothing to wait on for processes that are not ours."""


async def end(group: int, *, term_seconds: float) -> None:
    """SIGTERM, a moment to tidy up, SIGKILL; at once if nobody is left."""
    if not has_members(group):
        return
    try:
        _signal(group, signal.SIGTERM)
        await _until_gone(group, term_seconds)
    finally:
        # Also when the wait itself is cancelled: then there is no more time to be polite.
        kill(group)
    await _until_gone(group, KILL_SECONDS)


async def _until_gone(group: int, seconds: float) -> None:
    waited = 0.0
    while has_members(group) and waited < seconds:
        await asyncio.sleep(POLL_SECONDS)
        waited += POLL_SECONDS


def kill(group: int) -> None:
    """SIGKILL to whoever is left."""
    if has_members(group):
        _signal(group, signal.SIGKILL)


def has_members(group: int) -> bool:
    """Whether a process of this group is more than a zombie, which in many containers nobody collects."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    tables = list(Path("/proc").glob("[0-9]*/stat"))
    for table in tables:
        with contextlib.suppress(OSError):
            # The name in brackets may hold anything, brackets too; state, parent and group come after it.
            state, _, its_group = table.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in {b"Z", b"X"}:
                return True
    return not tables


def _signal(group: int, number: signal.Signals) -> None:
    # Gone already, or no longer ours after a change of user: nothing we could do.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def is_alive(pid: int, start: str = "") -> bool:
    """Whether this process runs, and is the one that was meant: numbers are given out again."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except PermissionError:
        pass
    state, now = _told(pid)
    return state not in {"Z", "X"} and (not start or not now or now == start)


def started(pid: int) -> str:
    """What tells a process from another one of its number; empty where the system does not say."""
    return _told(pid)[1]


def _told(pid: int) -> tuple[str, str]:
    """Its state and its start, the latter with the machine's: ticks begin anew when that does."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return fields.split()[0], f"{boot[:8]}:{fields.split()[19]}"
    return "", ""
