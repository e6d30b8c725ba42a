"""A made-up session as the requests of a recording, and what a policy sends at each of its compactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from bench.compaction.lossy import lossy
from bench.compaction.sessions import Known, Scripted, Turn
from bench.replay.peer import Library, Peer, Room
from nacre.cache.models import profile, thresholds
from nacre.devtools.replay.schema import ReplayStep, Setting
from nacre.messages.blocks import Block, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.tokens import estimate_blocks
from nacre.messages.usage import Usage

MODEL = "claude-opus-5-5"
START = datetime(2026, 2, 2, 9, 0, tzinfo=UTC)
PACE = 20.0
"""Seconds between two requests: the cache stays warm throughout."""
COMPACTIONS = (1, 2, 3)
"""After which of its compactions a session is looked at."""
VOLUMES = (4, 8)
"""And after so many times as much was said as makes nacre compact, whether or not anything was compacted."""
SYSTEM = "You are a careful programmer. " * 100


@dataclass(frozen=True, slots=True)
class Moment:
    """When a session was looked at."""

    what: Literal["compactions", "windows said"]
    number: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What was sent at a moment, and what counted then."""

    moment: Moment
    request: tuple[JsonObject, ...]
    known: Known
    dropped: int = 0
    """Quotations that were taken out of the summary."""


class Watch:
    """Says at which requests a session is to be looked at."""

    def __init__(self, window: int) -> None:
        self._limit = thresholds(window, max_output=profile(MODEL).max_output).autocompact
        self._said = 0
        self._left = [
            *(Moment("compactions", n) for n in COMPACTIONS),
            *(Moment("windows said", n) for n in VOLUMES),
        ]

    def due(self, *, compactions: int, said: int) -> list[Moment]:
        """Which moments this request is, after so many compactions in all and so many more tokens."""
        self._said += said
        reached = {"compactions": compactions, "windows said": self._said // self._limit}
        now = [moment for moment in self._left if reached[moment.what] >= moment.number]
        self._left = [moment for moment in self._left if moment not in now]
        return now

    @property
    def is_over(self) -> bool:
        return not any(moment.what == "windows said" for moment in self._left)


def by_library(script: Scripted, window: int, make: Callable[[Room], Library]) -> Iterator[Seen]:
    """What a library sends; where it asks for a summary it compacts, where it only clears it does not."""
    base: JsonObject = {"type": "text", "text": f"{SYSTEM}\n\n{script.instructions}"}
    setting = Setting(model=MODEL, window=window, base=(base,))
    policy = Peer("library", lambda room: make(replace(room, summary=lossy().text))).start(setting)
    known, number, watch = Known(), 0, Watch(window)
    for turn, steps in zip(script.turns, _steps(script), strict=True):
        known.hear(turn)
        for step in steps:
            if step is steps[-1]:
                known.see(turn)
            asked = policy.ask(step)
            number += len(asked.sides)
            said = sum(estimate_blocks(one.blocks) for one in (*step.heard, step.reply))
            for moment in watch.due(compactions=number, said=said):
                yield Seen(moment, (*asked.sent.system, *asked.sent.messages), known.copy())
            policy.hear(step, Usage())
        if watch.is_over:
            return


def _steps(script: Scripted) -> Iterator[list[ReplayStep]]:
    """The requests of each turn."""
    at, count = START, 0
    for place, turn in enumerate(script.turns):
        heard: tuple[Said, ...] = (_heard(f"u{place}", at, Text(turn.words)),)
        steps: list[ReplayStep] = []
        for blocks, answer in replies(turn):
            count += 1
            reply = Said(
                id=f"a{count}", at=at, role="assistant", blocks=blocks, reply=ReplyFacts(id=f"msg-{count}")
            )
            steps.append(
                ReplayStep(at=at, heard=heard, reply=reply, output_tokens=100, starts_turn=not steps)
            )
            at += timedelta(seconds=PACE)
            heard = (_heard(f"r{count}", at, answer),) if answer else ()
        yield steps


def replies(turn: Turn) -> Iterator[tuple[tuple[Block, ...], ToolResult | None]]:
    """What the model says in a turn, and what it is answered."""
    for one in turn.rounds:
        yield (ToolCall(one.call_id, one.tool, one.input),), ToolResult(one.call_id, (Text(one.result),))
    yield (Text(turn.closing),), None


def _heard(record: str, at: datetime, block: Text | ToolResult) -> Said:
    return Said(id=record, at=at, role="user", blocks=(block,))
