"""How long a compaction by rule takes, of the processor: a view of 170,000 tokens, made up in three shapes.

From the question whether the view fits to the next request's bytes: facts are read off the whole log, what
has no room goes to a file, the record is made, folded and rendered. No model, no network, and the log is not
written.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.compaction.sessions import session as made_up
from bench.compaction.steps import MODEL, SYSTEM, replies
from bench.machine import bar, spread
from nacre.layers.l4_compact.layer import Compact
from nacre.layers.l4_compact.overflow_files import OverflowFiles
from nacre.messages.blocks import Block, Json, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import Record, ReplyFacts, Said
from nacre.messages.tokens import estimate_block
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.store.tool_results import ToolResultStore
from nacre.testing import FrozenClock

LIMIT_MS = 200.0
SHORT_RESULT, PASTE = 400, 4_000
"""Characters of a result where there are many rounds, and of a message where a person pastes a lot."""


@dataclass(frozen=True, slots=True)
class Sizes:
    tokens: int = 170_000
    window: int = 200_000
    rounds: int = 100


FULL = Sizes()
TINY = Sizes(tokens=17_000, window=20_000, rounds=3)


def measure(sizes: Sizes) -> JsonObject:
    figures: dict[str, Json] = {}
    slowest: list[float] = []
    for name, blocks in SHAPES.items():
        times, shape = asyncio.run(_timed(blocks(), sizes))
        found = spread(times)
        middle, slow = (round(float(str(found[key])) / 1000, 1) for key in ("p50_us", "p99_us"))
        figures[name] = {**shape, "p50_ms": middle, "p99_ms": slow, "samples": len(times)}
        slowest.append(slow)
    what = f"a compaction of {sizes.tokens:,} tokens by rule, p99 ms, slowest shape"
    return {"shapes": figures, "bars": [bar(what, max(slowest), at_most=LIMIT_MS)]}


async def _timed(blocks: Iterator[tuple[str, Block]], sizes: Sizes) -> tuple[list[int], JsonObject]:
    clock, times = FrozenClock(), list[int]()
    with tempfile.TemporaryDirectory() as folder:
        settings = SessionSettings(window_ceiling=sizes.window)
        base = Base(MODEL, instructions=({"type": "text", "text": SYSTEM},))
        session = Session(base, settings=settings, clock=clock)
        await session.transcript.append(*_records(blocks, sizes.tokens, clock))
        overflow = OverflowFiles(
            folder=Path(folder), store=ToolResultStore(Path(folder) / "tool-results", sync=False)
        )
        session.add_layers(Compact(overflow=overflow))
        view = session.view
        after = 0
        for _ in range(sizes.rounds):
            began = time.process_time_ns()
            records = await session.fit(view, None)
            shorter = view.after(*records)
            session.request(shorter)
            times.append(time.process_time_ns() - began)
            session.notices()
            assert shorter.estimate < view.estimate, "something was compacted"
            after = shorter.estimate
    return times, {"records": len(view.records), "tokens": view.estimate, "tokens_after": after}


def _records(blocks: Iterator[tuple[str, Block]], tokens: int, clock: FrozenClock) -> list[Record]:
    """So many tokens of a conversation, ended where a person may speak."""
    made: list[Record] = []
    size = 0
    for role, block in blocks:
        if size >= tokens and isinstance(block, Text) and role == "user":
            break
        size += estimate_block(block)
        record_id = clock.new_id()
        made.append(
            Said(
                id=record_id,
                at=clock.now(),
                role="assistant" if role == "assistant" else "user",
                blocks=(block,),
                reply=ReplyFacts(id=f"msg-{record_id}") if role == "assistant" else None,
            )
        )
    last = Text("And now the rest, please.")
    return [*made, Said(id=clock.new_id(), at=clock.now(), role="user", blocks=(last,))]


def usual() -> Iterator[tuple[str, Block]]:
    """A session with rules, tasks and results of every size."""
    for turn in made_up(0, 400).turns:
        yield "user", Text(turn.words)
        for blocks, answer in replies(turn):
            yield "assistant", blocks[0]
            if answer is not None:
                yield "user", answer


def many_rounds() -> Iterator[tuple[str, Block]]:
    """Thousands of small calls."""
    number = 0
    while True:
        if number % 10 == 0:
            yield "user", Text(f"Look at part {number} as well, but leave src/part_{number}.py alone.")
        call = ToolCall(f"call-{number}", "Grep", {"pattern": f"name_{number}", "path": f"src/p_{number}.py"})
        yield "assistant", call
        text = f"src/p_{number}.py:{number}: " + "x = compute(value) " * (SHORT_RESULT // 19)
        yield "user", ToolResult(call.id, (Text(text),))
        number += 1


def many_words() -> Iterator[tuple[str, Block]]:
    """A person who pastes a lot and says a lot."""
    number = 0
    while True:
        words = f"Message {number}: keep src/module_{number}.py as it is. "
        yield "user", Text(words + "It was reported that something is slow. " * (PASTE * (number % 3) // 80))
        yield "assistant", Text(f"Noted, part {number} stays.")
        number += 1


SHAPES = {"usual": usual, "many rounds": many_rounds, "many words": many_words}
