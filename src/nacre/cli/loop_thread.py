"""An event loop in a thread of its own: the main thread waits for the person, work goes on behind it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for the main thread; Ctrl-C there cancels the one it waits for, and nothing else."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nacre-loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; Ctrl-C cancels it, waits for its clean-up and raises the interrupt."""
        ended: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(work, name="turn")
            tasks.append(task)
            task.add_done_callback(lambda done: _pass_on(done, ended))

        self._loop.call_soon_threadsafe(begin)
        try:
            return ended.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            _wait(ended)
            raise


def _pass_on(task: asyncio.Task[T], ended: Future[T]) -> None:
    if task.cancelled():
        ended.set_exception(KeyboardInterrupt())
    elif (error := task.exception()) is not None:
        ended.set_exception(error)
    else:
        ended.set_result(task.result())


def _wait(ended: Future[T]) -> None:
    """Until the cancelled work has cleaned up; more Ctrl-C in the meantime does not hurry it."""
    while not ended.done():
        try:
            ended.exception(timeout=None)
        except KeyboardInterrupt:
            continue
