"""Run a reply's tool calls: readers side by side, writers one by one in order, an error becomes a result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Self

from nacre.errors import ToolError
from nacre.messages.blocks import ToolCall, ToolResult, result_of
from nacre.messages.events import ToolResultEvent
from nacre.tools.base import Tool, call_with_timeout

READERS_AT_ONCE = 10
"""More would not be faster on one machine and would open too many files and processes."""
STOP_SECONDS = 10.0
"""How long a stop waits for a tool that ignores cancellation."""
MAX_ERROR_CHARS = 2_000
"""The message of an exception may quote a whole document."""
RUNNING: ContextVar[ToolCall | None] = ContextVar("running", default=None)
"""The current call, for wrappers of a tool that receive only its arguments."""


async def run_all(calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> list[ToolResult]:
    """Run all calls and return their results in the order of the calls."""
    async with ToolCallRunner(tools) as running:
        for call in calls:
            running.start(call)
        return await running.results()


class ToolCallRunner:
    """Runs the tool calls of one reply as they become ready.

    A writing tool waits for all earlier calls, a reading one for the earlier writers; calls of a `together`
    tool wait for all but each other. Use it as a context manager: on exit no tool is left running.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._started: list[tuple[ToolCall, asyncio.Task[ToolResult]]] = []
        self._writers: list[asyncio.Task[ToolResult]] = []
        self._together: list[asyncio.Task[ToolResult]] = []
        self._places = asyncio.Semaphore(READERS_AT_ONCE)
        self._released = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def start(self, call: ToolCall) -> None:
        """Add a call; a reader starts at once, a writer not before `release`."""
        tool = self._tools.get(call.name)
        is_writer = tool is not None and not tool.read_only
        goes_together = tool is not None and tool.together
        earlier = [task for _, task in self._started] if is_writer else self._writers
        before = [task for task in earlier if not (goes_together and task in self._together)]
        task = asyncio.create_task(self._answer(call, tool, before), name=f"tool {call.name}")
        self._started.append((call, task))
        if goes_together:
            self._together.append(task)
        if is_writer:
            self._writers.append(task)

    def release(self) -> None:
        """Let the writers start: the reply is complete and on disk."""
        self._released.set()

    async def results(self) -> list[ToolResult]:
        """Return all results in the order of the calls; releases the writers."""
        async for _ in self.as_ready():
            pass
        return self.done

    async def as_ready(self) -> AsyncGenerator[ToolResultEvent, None]:
        """Yield results as they arrive, also earlier ones; releases the writers."""
        self.release()
        pending = {task for _, task in self._started}
        try:
            while pending:
                finished, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for call, task in self._started:
                    if task in finished:
                        yield ToolResultEvent(call, task.result())
        except asyncio.CancelledError:
            await self.stop()
            raise

    @property
    def done(self) -> list[ToolResult]:
        """The results so far in the order of the calls, which a cancelled turn can keep."""
        return [
            task.result()
            for _, task in self._started
            if task.done() and not task.cancelled() and task.exception() is None
        ]

    async def stop(self) -> None:
        """Cancel running calls and wait until they have ended."""
        unfinished = [task for _, task in self._started if not task.done()]
        for task in unfinished:
            task.cancel()
        if not unfinished:
            return
        try:
            await asyncio.wait(unfinished, timeout=STOP_SECONDS)
        except asyncio.CancelledError:
            # A second cancellation: the tools skip their grace periods.
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=STOP_SECONDS)
            raise

    async def _answer(
        self, call: ToolCall, tool: Tool | None, before: Sequence[asyncio.Task[ToolResult]]
    ) -> ToolResult:
        RUNNING.set(call)  # each call has a task of its own, so the value is local to it
        if before:
            await asyncio.wait(before)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return result_of(call, f"There is no tool named {call.name}. Available: {known}.", is_error=True)
        if tool.read_only:
            async with self._places:
                return await _run_one(call, tool)
        await self._released.wait()
        return await _run_one(call, tool)


async def _run_one(call: ToolCall, tool: Tool) -> ToolResult:
    """Return the result of a tool; any failure becomes an error result, only cancellation is raised."""
    try:
        answer = await call_with_timeout(tool, call.input)
    except ToolError as error:
        return result_of(call, str(error)[:MAX_ERROR_CHARS], is_error=True)
    except asyncio.CancelledError as error:
        running = asyncio.current_task()
        if running is None or running.cancelling():
            raise
        # Not a cancellation of the call: something inside the tool was cancelled, which is its own failure.
        return result_of(call, _one_line(error), is_error=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a tool's failure is shown to the model
        return result_of(call, _one_line(error), is_error=True)
    return replace(answer, call_id=call.id) if isinstance(answer, ToolResult) else result_of(call, answer)


def _one_line(error: BaseException) -> str:
    """Return type and message of an exception; a traceback would not help the model."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  # __str__ of a foreign exception may fail
        message = ""
    kind = type(error).__name__
    return f"{kind}: {message}"[:MAX_ERROR_CHARS] if message else kind
