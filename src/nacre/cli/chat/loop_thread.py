"""An event loop in its own thread: the main thread reads input while work continues."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")

LOOK_SECONDS = 0.5
"""Maximum length of a wait: a signal that arrives just before a wait is handled only after it."""


class LoopThread:
    """Runs coroutines for the main thread; Ctrl-C cancels the one it waits for and nothing else."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._errands: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
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

    async def in_main(self, ask: Callable[[], T]) -> T:
        """Run a function in the waiting main thread, for example to ask the user."""
        answered: asyncio.Future[T] = self._loop.create_future()

        def request() -> None:
            # The coroutine that asked may have been cancelled meanwhile.
            if not answered.done():
                self._loop.call_soon_threadsafe(_settle, answered, ask())

        self._errands.put(request)
        return await answered

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result; Ctrl-C cancels it, waits for its clean-up and raises
        KeyboardInterrupt."""
        one = _ThreadCall(self._loop, work)
        # No exception is raised here asynchronously: a second Ctrl-C would leave the work running
        # unawaited.
        before = signal.signal(signal.SIGINT, lambda *_: self._loop.call_soon_threadsafe(one.stop))
        one.ended.add_done_callback(lambda _: self._errands.put(None))
        try:
            self._loop.call_soon_threadsafe(one.begin)
            while (request := self._next_request()) is not None:
                self._run(request, one)
            return one.ended.result()
        except BaseException:
            # The program ends, or a question could not be asked: cancel the work and wait for its clean-up
            # first.
            self._loop.call_soon_threadsafe(one.stop)
            one.ended.exception()
            raise
        finally:
            signal.signal(signal.SIGINT, before)

    def _next_request(self) -> Callable[[], object] | None:
        while True:
            with suppress(Empty):
                return self._errands.get(timeout=LOOK_SECONDS)

    def _run(self, request: Callable[[], object], one: _ThreadCall[T]) -> None:
        """Run with the usual Ctrl-C, which ends the question and the turn that asked it."""
        ours = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            request()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(one.stop)
        finally:
            signal.signal(signal.SIGINT, ours)


class _ThreadCall(Generic[T]):
    """One running coroutine; only the loop's thread uses anything but `ended`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.ended: Future[T] = Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._is_stopped = False

    def begin(self) -> None:
        self._task = self._loop.create_task(self._work, name="turn")
        self._task.add_done_callback(self._pass_on)
        if self._is_stopped:
            self._task.cancel()

    def stop(self) -> None:
        """Cancel the work once: further Ctrl-C must not disturb its clean-up."""
        if not self._is_stopped and self._task is not None:
            self._task.cancel()
        self._is_stopped = True

    def _pass_on(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.ended.set_exception(KeyboardInterrupt())
        elif (error := task.exception()) is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(task.result())


def _settle(answered: asyncio.Future[T], answer: T) -> None:
    if not answered.done():
        answered.set_result(answer)
