"""End in order on SIGHUP and SIGTERM: running work is cancelled and closed first."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

ENDING = (signal.SIGTERM, signal.SIGHUP)
T = TypeVar("T")


def end_on_signals() -> None:
    """Exit through the usual clean-up on these signals; for a thread that only waits."""
    for number in _heeded():
        signal.signal(number, _leave)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; one of these signals cancels the work, waits for its clean-up, and then exits.

    No exception is raised asynchronously: one that arrived while a command was being started left it running.
    """
    caught: list[int] = []

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        for number in _heeded():
            asyncio.get_running_loop().add_signal_handler(number, _stop, task, number, caught)
        return await work

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        if not caught:
            raise
        sys.exit(128 + caught[0])


def _heeded() -> list[signal.Signals]:
    """Return the signals that are not ignored, as `nohup` does with SIGHUP."""
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def _stop(task: asyncio.Task[Any], number: int, caught: list[int]) -> None:
    # A second one must not interrupt the clean-up.
    if not caught:
        caught.append(number)
        task.cancel()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
