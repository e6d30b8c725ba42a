"""What the layers add to one round of a session of 10 to 10,000 records: keep results, fit, make a request.

Everything is on that a session has by itself: offload, references to earlier results, clearing,
a lifetime that is chosen. Of the processor, without writing to disk and without the provider.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.machine import bar, middle_us, spread
from bench.plot import chart
from nacre.layers.l1_offload.layer import Offload
from nacre.layers.l2_microcompact.layer import Microcompact
from nacre.layers.l2_microcompact.settings import MicrocompactSettings
from nacre.messages.blocks import Json, JsonObject, Message, Text, ToolCall, ToolResult
from nacre.messages.events import Reply
from nacre.messages.usage import Usage
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.store.tool_results import ToolResultStore
from nacre.testing import FrozenClock

MODEL = "claude-opus-5-5[1m]"
LIMIT_US = 1_000.0
"""Of nacre's own time in a round, p50."""
LIMIT_GROWTH = 2.0
"""A round late in a long session beside one early in it."""
RESULT_CHARS = 400
"""Small, so that ten thousand of them fit a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    records: tuple[int, ...] = (10, 1_000, 10_000)
    rounds: int = 200


FULL = Sizes()
TINY = Sizes(records=(10, 60), rounds=5)


def measure(sizes: Sizes) -> JsonObject:
    figures: dict[str, Json] = {}
    middles: list[float] = []
    for count in sizes.records:
        times = asyncio.run(_rounds(count, sizes.rounds))
        figures[str(count)] = spread(times)
        middles.append(middle_us(times))
    return {
        "records": figures,
        "bars": [
            bar("own time of a round, p50 µs, at most records", middles[-1], at_most=LIMIT_US),
            bar("most records / fewest records", round(middles[-1] / middles[0], 2), at_most=LIMIT_GROWTH),
        ],
    }


def plot(figures: JsonObject) -> str:
    records = figures["records"]
    assert isinstance(records, dict)
    line = {
        float(count): float(str(one["p50_us"])) for count, one in records.items() if isinstance(one, dict)
    }
    return chart("Own time of a round", {"all layers on": line}, x="records so far", y="µs")


async def _rounds(count: int, rounds: int) -> list[int]:
    clock = FrozenClock()
    with tempfile.TemporaryDirectory() as folder:
        session = _session(Path(folder), clock)
        await session.add_user("Look at the files, one after the other.")
        number, times = 0, list[int]()
        while len(session.transcript.records) < count:
            await _round(session, clock, number)
            number += 1
        for _ in range(rounds):
            times.append(await _round(session, clock, number))
            number += 1
    return times


def _session(folder: Path, clock: FrozenClock) -> Session:
    base = Base(MODEL, instructions=({"type": "text", "text": "You are careful. " * 200},))
    session = Session(base, settings=SessionSettings(cache_ttl="auto"), clock=clock)
    shelf = ToolResultStore(folder, sync=False)
    clearing = Microcompact(shelf, MicrocompactSettings())
    session.add_layers(Offload(shelf), clearing)
    return session


async def _round(session: Session, clock: FrozenClock, number: int) -> int:
    """One reply and its result; returns the nanoseconds nacre took for it."""
    clock.advance(timedelta(seconds=20).total_seconds())
    call = ToolCall(f"call-{number}", "Grep", {"pattern": f"name_{number}"})
    message = Message("assistant", (Text(f"Now name_{number}."), call))
    usage = Usage(input=10, cache_read=session.view.estimate, cache_write=200, output=40)
    began = time.process_time_ns()
    request = await session.prepare()
    assert request.messages, "there is something to send"
    took = time.process_time_ns() - began
    await session.record(Reply(message=message, usage=usage, id=f"msg-{number}", model=MODEL))
    result = ToolResult(call.id, (Text(f"src/file_{number}.py:{number}: " + "x" * RESULT_CHARS),))
    began = time.process_time_ns()
    await session.add_results([result])
    return took + time.process_time_ns() - began
