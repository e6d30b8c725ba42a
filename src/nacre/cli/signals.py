"""A closed terminal or a polite kill ends the program in order: what runs is stopped and closed first."""

from __future__ import annotations

import signal
import sys
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


def end_on_signals() -> None:
    """Leave through the usual clean-up when one of these signals comes."""
    for number in ENDING:
        signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
