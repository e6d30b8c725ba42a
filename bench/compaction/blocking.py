"""Whether anybody waits for a compaction: a summary takes 25 seconds, and 30 pass between two requests (C28).

A whole agent with its background, on a clock that only moves when a tool takes its time. Whenever nothing
goes on although a summary is under way, a request waits for it: that is counted, and the clock moved on.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from bench.compaction.lossy import lossy
from bench.compaction.ours import SCHEMA, environment, is_for_summary, tokens_of
from bench.machine import bar
from nacre.app.open_agent import open_agent
from nacre.messages.blocks import Block, Json, JsonObject, Message, Text, ToolCall
from nacre.messages.events import ProviderEvent, Reply, ToolCallEvent
from nacre.messages.records import Compacted
from nacre.messages.usage import Usage
from nacre.providers.base import Capabilities, Request, capabilities_of
from nacre.settings import load
from nacre.testing import FrozenClock
from nacre.tools.base import Tool

SUMMARY_SECONDS, ROUND_SECONDS = 25.0, 30.0
BOUND, FREE = "claude-opus-5-5", "claude-sonnet-4-6"
"""A model that binds thinking to what stands before it, and one that does not."""
STILL, TICK = 60, 0.005
"""So many ticks of so many real seconds without anything happening: somebody waits."""
SETTLES = 4
"""Ticks in which everything that was begun comes to rest."""


@dataclass(frozen=True, slots=True)
class Sizes:
    windows: tuple[int, ...] = (60_000, 100_000, 200_000)
    growths: tuple[int, ...] = (2_000, 6_000, 9_500)
    """Tokens a round adds."""
    compactions: int = 4
    """A session ends after so many, or after so many windows were said."""


FULL = Sizes()
TINY = Sizes(windows=(20_000,), growths=(1_500,), compactions=1)


def measure(sizes: Sizes) -> JsonObject:
    """Every model, window and growth, with summaries made ahead and without."""
    runs: list[Json] = []
    waited = {True: 0, False: 0}
    for model in (BOUND, FREE):
        for window in sizes.windows:
            for growth in sizes.growths:
                for ahead in (True, False):
                    found = asyncio.run(_run(model, window, growth, sizes.compactions, ahead=ahead))
                    waited[ahead] += int(str(found["waited"]))
                    runs.append(found)
    return {
        "summary_seconds": SUMMARY_SECONDS,
        "round_seconds": ROUND_SECONDS,
        "runs": runs,
        "waited_without_preparation": waited[False],
        "bars": [bar("requests that waited for a compaction", waited[True], at_most=0)],
    }


class SlowClock(FrozenClock):
    """Lets others sleep until it was moved far enough."""

    def __init__(self) -> None:
        super().__init__()
        self.sleepers: list[tuple[datetime, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        mine = (self.now() + timedelta(seconds=seconds), asyncio.Event())
        self.sleepers.append(mine)
        await mine[1].wait()

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        for one in [one for one in self.sleepers if one[0] <= self.now()]:
            self.sleepers.remove(one)
            one[1].set()


@dataclass
class Slow:
    """A model that calls one tool after the other and takes its time to sum up."""

    clock: SlowClock
    name: str = "scripted"
    asked: int = 0
    summaries: int = 0
    largest: int = 0
    _sizes: dict[int, tuple[JsonObject, int]] = field(default_factory=dict)

    def capabilities(self, model: str) -> Capabilities:
        return capabilities_of(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        size = tokens_of(request, self._sizes)
        if is_for_summary(request):
            await self.clock.sleep(SUMMARY_SECONDS)
            self.summaries += 1
            block: Block = Text(lossy().tagged)
        else:
            self.asked += 1
            self.largest = max(self.largest, size)
            block = Text("Done so far.") if self.asked % 12 == 0 else _call(self.asked)
        if isinstance(block, ToolCall):
            yield ToolCallEvent(block)
        yield Reply(
            message=Message("assistant", (block,)),
            usage=Usage(cache_read=size, output=20),
            stop_reason="tool_use" if isinstance(block, ToolCall) else "end_turn",
            id=f"msg_{self.asked}_{self.summaries}",
            model=request.model,
        )

    async def count_tokens(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None


def _call(number: int) -> ToolCall:
    return ToolCall(f"call_{number}", "Look", {"command": f"part_{number:05d}"})


async def _run(model: str, window: int, growth: int, compactions: int, *, ahead: bool) -> JsonObject:
    clock = SlowClock()
    slow, waits = Slow(clock), list[float]()
    with tempfile.TemporaryDirectory(prefix="nacre-blocking-") as name:
        folder = Path(name)
        (folder / "project").mkdir()
        environ = environment(folder, window) | {"NACRE_COMPACT_PREPARE": str(ahead).lower()}
        settings = load(folder / "project", environ, cli={"model": model})
        async with open_agent(
            settings, provider=slow, tools=lambda _: [look_tool(clock, growth)], clock=clock
        ) as ready:
            session = ready.agent.session

            def done() -> list[Compacted]:
                return [one for one in session.view.records if isinstance(one, Compacted)]

            async def play() -> None:
                turn = 0
                while len(done()) < compactions and slow.asked * growth < window * (compactions + 4):
                    turn += 1
                    async for _ in ready.agent.stream(
                        f"Turn {turn}: go on, but leave src/part_{turn}.py alone."
                    ):
                        pass
                    await pass_time(clock)

            await watched(asyncio.create_task(play()), slow, waits)
            made = [str(one.extra.get("by")) for one in done()]
    return {
        "model": model,
        "window": window,
        "growth": growth,
        "made_ahead": ahead,
        "requests": slow.asked,
        "compactions": len(made),
        "by_rule": made.count("rules"),
        "summaries": slow.summaries,
        "waited": len(waits),
        "waited_seconds": round(sum(waits), 1),
        "largest_request": slow.largest,
    }


async def watched(
    task: asyncio.Task[None], slow: Slow, waits: list[float], *, still_ticks: int = STILL
) -> None:
    """Until the task is over; where it only waits for the clock, move it on and say for how long."""
    still, before = 0, (0, 0)
    while not task.done():
        await asyncio.sleep(TICK)
        now = (slow.asked, slow.summaries)
        still = still + 1 if now == before and slow.clock.sleepers else 0
        before = now
        if still >= still_ticks:
            until = min(at for at, _ in slow.clock.sleepers)
            seconds = (until - slow.clock.now()).total_seconds()
            waits.append(seconds)
            slow.clock.advance(seconds)
            still = 0
    await task


def look_tool(clock: SlowClock, growth: int) -> Tool:
    async def look(arguments: JsonObject) -> str:
        await pass_time(clock)
        line = f"{arguments['command']} holds nothing new\n"
        return line * (growth * 4 // len(line))

    return Tool(
        name="Look",
        description="Look at a part.",
        input_schema=SCHEMA,
        call=look,
        read_only=True,
        max_result_chars=float("inf"),
    )


async def pass_time(clock: SlowClock) -> None:
    """Half a minute goes by, in which whatever is under way beside the conversation goes on."""
    # A tool may be called while the reply still streams: what the reply begins has begun before time passes.
    await asyncio.sleep(SETTLES * TICK)
    clock.advance(ROUND_SECONDS)
    for _ in range(STILL):
        await asyncio.sleep(TICK)
        forks = [task for task in asyncio.all_tasks() if task.get_name().startswith("fork")]
        if not forks or clock.sleepers:
            break
