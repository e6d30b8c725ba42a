"""What one more record costs after 10 to 100,000 records: the fold alone, and with its line in a real log.

All lengths are measured in turn within one run, so that other load falls on all of them alike.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.machine import bar, middle_us, spread
from bench.made_up import PERIOD, record, records
from bench.plot import chart
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Record
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.session.log_writer import SessionLogWriter, start

LIMIT_RATIO = 2.0
"""How much dearer a record may be after the longest history than after the shortest."""
GROWTH = 0.1
"""A history may grow by this share while it is measured; then it is built again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    lengths: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    samples: int = 500 * PERIOD
    """Records per length: whole rounds of the mix, and enough for a 99th percentile."""
    record_bytes: int = 600


FULL = Sizes()
TINY = Sizes(lengths=(10, 50), samples=2 * PERIOD)


def measure(sizes: Sizes = FULL) -> JsonObject:
    folded = _fold(sizes)
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        appended = asyncio.run(_append(sizes, Path(folder)))
    bars = [
        bar("one record folded after the longest history / after the shortest", _ratio(folded),
            at_most=LIMIT_RATIO),
        bar("the same together with its line in the log", _ratio(appended), at_most=LIMIT_RATIO),
    ]  # fmt: skip
    return {
        "record_bytes": sizes.record_bytes,
        "fold": {str(length): spread(taken) for length, taken in folded.items()},
        "append_to_log": {str(length): spread(taken) for length, taken in appended.items()},
        "bars": [*bars],
    }


class _Coming:
    """The records that come after a history of one length, and when it has grown too far from it."""

    def __init__(self, length: int, sizes: Sizes) -> None:
        self.history: list[Record] = list(records(length, size=sizes.record_bytes))
        self.room = max(PERIOD, int(length * GROWTH) // PERIOD * PERIOD)
        self._size = sizes.record_bytes

    def at(self, sample: int) -> Record:
        return record(len(self.history) + sample % self.room, size=self._size)

    def is_start(self, sample: int) -> bool:
        return sample % self.room == 0


def _fold(sizes: Sizes) -> dict[int, list[int]]:
    times: dict[int, list[int]] = {length: [] for length in sizes.lengths}
    coming = {length: _Coming(length, sizes) for length in sizes.lengths}
    views: dict[int, View] = {}
    for sample in range(sizes.samples):
        for length, ahead in coming.items():
            view = View.of(ahead.history) if ahead.is_start(sample) else views[length]
            new = ahead.at(sample)
            begun = time.perf_counter_ns()
            after = view.after(new)
            times[length].append(time.perf_counter_ns() - begun)
            views[length] = after
    return times


async def _append(sizes: Sizes, home: Path) -> dict[int, list[int]]:
    times: dict[int, list[int]] = {length: [] for length in sizes.lengths}
    coming = {length: _Coming(length, sizes) for length in sizes.lengths}
    transcripts: dict[int, Transcript] = {}
    async with AsyncExitStack() as open_logs:
        writers = {length: await _log_of(ahead, home) for length, ahead in coming.items()}
        for writer in writers.values():
            open_logs.push_async_callback(writer.close)
        for sample in range(sizes.samples):
            for length, ahead in coming.items():
                if ahead.is_start(sample):
                    transcripts[length] = Transcript(ahead.history, write=writers[length].write)
                transcript, new = transcripts[length], ahead.at(sample)
                begun = time.perf_counter_ns()
                await transcript.append(new)
                times[length].append(time.perf_counter_ns() - begun)
    return times


async def _log_of(ahead: _Coming, home: Path) -> SessionLogWriter:
    """A log that holds the history already."""
    writer = start(home, Path("/work/project")).writer
    await writer.write(ahead.history)
    return writer


def _ratio(times: dict[int, list[int]]) -> float:
    middles = {length: middle_us(taken) for length, taken in times.items()}
    return round(middles[max(middles)] / middles[min(middles)], 3)


def plot(figures: JsonObject) -> str:
    """Both curves over the length of the history."""
    return chart(
        "What one more record costs",
        {"folded": _middles(figures["fold"]), "folded and written": _middles(figures["append_to_log"])},
        x="records in the history",
        y="microseconds per record, p50",
    )


def _middles(by_length: Json) -> dict[float, float]:
    assert isinstance(by_length, dict)
    return {
        float(length): float(str(one["p50_us"])) for length, one in by_length.items() if isinstance(one, dict)
    }
