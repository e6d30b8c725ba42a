"""Whether a file's stamp tells one content from another; apart, so that recall loads no history for it."""

from __future__ import annotations

import os
from pathlib import Path

from nacre.memory.files.folder import Stamp

FINE_TICK_NS = 100_000_000
COARSE_TICK_NS = 2_000_000_000
"""Two writes within one tick of the file system's clock can leave the same stamp, so a stamp that young is
not trusted. Ticks are a few milliseconds, or two seconds where times are whole seconds."""
_SECOND_NS = 1_000_000_000


def is_old(stamp: Stamp, now: int) -> bool:
    """Whether a stamp tells one content from another: one that young may stand for two."""
    written, changed, *_ = stamp
    tick = FINE_TICK_NS if written % _SECOND_NS else COARSE_TICK_NS
    return max(written, changed) < now - tick


def fs_time(cache: Path) -> int:
    """What the file system takes for now, which is what stamps are in."""
    clock = cache / "lock"
    os.utime(clock)
    return clock.stat().st_mtime_ns
