"""Calls run in the order the model meant, errors become results, and nothing is left running."""

from __future__ import annotations

import asyncio

import pytest

from nacre.errors import ToolError
from nacre.messages.blocks import Text, ToolCall, ToolResult, result_of
from nacre.messages.events import ToolResultEvent
from nacre.tools.base import Tool
from nacre.tools.run import READERS_AT_ONCE, ToolCallRunner, run_all


class Bench:
    """Tools that note when they begin and end, and wait until they are let go."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.go: dict[str, asyncio.Event] = {}
        self.tools = {
            "read": self.make("read", read_only=True),
            "write": self.make("write", read_only=False),
            "send": self.make("send", read_only=False, together=True),
        }

    def make(self, name: str, *, read_only: bool, together: bool = False) -> Tool:
        async def call(arguments) -> str:
            key = arguments["key"]
            self.noted.append(f"+{key}")
            try:
                await self.gate(key).wait()
            except asyncio.CancelledError:
                self.noted.append(f"!{key}")
                raise
            self.noted.append(f"-{key}")
            return key

        return Tool(
            name=name, description=".", input_schema={}, call=call, read_only=read_only, together=together
        )

    def gate(self, key: str) -> asyncio.Event:
        return self.go.setdefault(key, asyncio.Event())

    def open(self, *keys: str) -> None:
        for key in keys:
            self.gate(key).set()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def reads(key: str) -> ToolCall:
    return ToolCall(f"id-{key}", "read", {"key": key})


def writes(key: str) -> ToolCall:
    return ToolCall(f"id-{key}", "write", {"key": key})


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def failing(error: BaseException) -> dict[str, Tool]:
    async def call(_) -> str:
        raise error

    return {"x": Tool(name="x", description=".", input_schema={}, call=call)}


async def test_readers_begin_while_the_reply_streams_and_writers_wait_for_its_end(bench):
    """Query loop, step 8: a writer must not start before the reply is whole and on disk."""
    async with ToolCallRunner(bench.tools) as running:
        running.start(reads("a"))
        running.start(writes("b"))
        await settle()
        bench.open("a")
        await settle()
        assert bench.noted == ["+a", "-a"]
        running.release()
        await settle()
        assert bench.noted == ["+a", "-a", "+b"]
        bench.open("b")
        assert [result.text for result in await running.results()] == ["a", "b"]


async def test_writers_run_one_by_one_in_order_and_readers_see_what_was_written_before_them(bench):
    async with ToolCallRunner(bench.tools) as running:
        for call in (reads("a"), writes("b"), writes("c"), reads("d"), reads("e")):
            running.start(call)
        running.release()
        await settle()
        assert bench.noted == ["+a"]
        bench.open("a", "b")
        await settle()
        assert bench.noted == ["+a", "-a", "+b", "-b", "+c"]
        bench.open("c")
        await settle()
        assert bench.noted[6:] == ["+d", "+e"]
        bench.open("d", "e")
        assert [result.call_id for result in await running.results()] == [f"id-{key}" for key in "abcde"]


async def test_calls_that_go_together_run_side_by_side_once_the_reply_is_whole(bench):
    bench.open("a", "w", "r")
    sent = [ToolCall(f"id-{key}", "send", {"key": key}) for key in ("s1", "s2")]
    async with ToolCallRunner(bench.tools) as running:
        for call in (writes("a"), *sent, writes("w"), reads("r")):
            running.start(call)
        await settle()
        assert bench.noted == []
        running.release()
        await settle()
        assert bench.noted == ["+a", "-a", "+s1", "+s2"]
        bench.open("s2")
        await settle()
        assert bench.noted[4:] == ["-s2"]
        bench.open("s1")
        await running.results()
    assert bench.noted[5:] == ["-s1", "+w", "-w", "+r", "-r"]


async def test_at_most_ten_readers_run_at_the_same_time(bench):
    keys = [f"{number:02}" for number in range(READERS_AT_ONCE + 5)]
    async with ToolCallRunner(bench.tools) as running:
        for key in keys:
            running.start(reads(key))
        await settle()
        assert len(bench.noted) == READERS_AT_ONCE
        bench.open(keys[0])
        await settle()
        assert len([note for note in bench.noted if note.startswith("+")]) == READERS_AT_ONCE + 1
        bench.open(*keys)
        assert [result.text for result in await running.results()] == keys


async def test_results_keep_call_order_however_they_come(bench):
    async with ToolCallRunner(bench.tools) as running:
        running.start(reads("a"))
        running.start(reads("b"))
        bench.open("b")
        await settle()
        assert [result.text for result in running.done] == ["b"]
        bench.open("a")
        assert [result.text for result in await running.results()] == ["a", "b"]


async def test_answers_can_be_iterated_in_the_order_they_come(bench):
    async with ToolCallRunner(bench.tools) as running:
        running.start(reads("a"))
        running.start(reads("b"))
        seen = []
        bench.open("b")
        async for ready in running.as_ready():
            seen.append(ready)
            bench.open("a")
    assert seen == [ToolResultEvent(reads(key), ToolResult(f"id-{key}", (Text(key),))) for key in ("b", "a")]


async def test_two_calls_with_the_same_id_both_get_an_answer(bench):
    bench.open("a")
    assert [result.text for result in await run_all([reads("a"), reads("a")], bench.tools)] == ["a", "a"]


async def test_no_calls_give_no_results(bench):
    assert await run_all([], bench.tools) == []


async def test_an_unknown_tool_is_answered_with_the_names_there_are(bench):
    call = ToolCall("1", "fly", {})
    assert await run_all([call], bench.tools) == [
        result_of(call, "There is no tool named fly. Available: read, send, write.", is_error=True)
    ]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("Read it first."), "Read it first."),
        (ValueError("bad\n  thing"), "ValueError: bad thing"),
        (KeyError("k"), "KeyError: 'k'"),
        (RuntimeError(), "RuntimeError"),
        (TimeoutError("slow server"), "TimeoutError: slow server"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (MemoryError(), "MemoryError"),
    ],
)
async def test_whatever_a_tool_raises_becomes_one_line(error: BaseException, text: str):
    call = ToolCall("1", "x", {})
    assert await run_all([call], failing(error)) == [result_of(call, text, is_error=True)]


async def test_an_exception_with_a_huge_message_is_cut():
    (result,) = await run_all([ToolCall("1", "x", {})], failing(ValueError("y" * 5_000_000)))
    assert len(result.text) == 2_000


async def test_an_exception_that_cannot_be_printed_is_still_an_answer():
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    (result,) = await run_all([ToolCall("1", "x", {})], failing(BrokenError()))
    assert (result.text, result.is_error) == ("BrokenError", True)


async def test_a_failure_does_not_stop_the_calls_after_it(bench):
    bench.open("a")
    calls = [ToolCall("1", "x", {}), writes("a")]
    results = await run_all(calls, {**bench.tools, **failing(OSError("disk"))})
    assert [(result.text, result.is_error) for result in results] == [("OSError: disk", True), ("a", False)]


async def test_a_tool_that_never_ends_is_stopped_at_its_limit():
    async def call(_) -> str:
        await asyncio.Event().wait()
        return ""

    slow = Tool(name="x", description=".", input_schema={}, call=call, max_seconds=0.01)
    (result,) = await run_all([ToolCall("1", "x", {})], {"x": slow})
    assert (result.text, result.is_error) == ("x was stopped after 0.01 s.", True)


async def test_cancelling_the_caller_stops_every_tool_and_passes_on(bench):
    """Q2: cancel at any point stops the tools."""
    caller = asyncio.create_task(run_all([reads("a"), reads("b"), writes("c")], bench.tools))
    await settle()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert bench.noted == ["+a", "+b", "!a", "!b"]
    assert {task for task in asyncio.all_tasks() if task.get_name().startswith("tool")} == set()


async def test_what_was_answered_before_a_stop_can_be_kept(bench):
    """T6: a cancelled turn keeps the results it has; the view marks the others as interrupted."""
    running = ToolCallRunner(bench.tools)
    running.start(reads("a"))
    running.start(reads("b"))
    bench.open("b")
    await settle()
    await running.stop()
    assert running.done == [result_of(reads("b"), "b")]


async def test_a_result_gets_the_id_of_its_call():
    async def call(_) -> ToolResult:
        return ToolResult("", (Text("x"),), is_error=True)

    tools = {"x": Tool(name="x", description=".", input_schema={}, call=call)}
    assert await run_all([ToolCall("7", "x", {})], tools) == [ToolResult("7", (Text("x"),), is_error=True)]
