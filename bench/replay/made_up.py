"""Sessions with large results, made up, the same every time: recorded ones have few over 50,000 signs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from nacre.devtools.replay.schema import Recorded, ReplayStep
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.records import ReplyFacts, Said

SESSIONS, TURNS, ROUNDS = 12, 8, 6
SIZES = (600, 2_000, 9_000, 30_000, 120_000)
"""Characters of a result; each as likely as any other."""
PAUSES = (20.0, 90.0, 200.0, 700.0, 2_400.0)
"""Seconds between two turns."""
BASE_TOKENS = 12_000
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def made_up(count: int = SESSIONS) -> list[Recorded]:
    """So many sessions."""
    return [_session(number) for number in range(count)]


def _session(number: int) -> Recorded:
    chance = random.Random(number)
    steps: list[ReplayStep] = []
    at = START
    waiting: tuple[Said, ...] = ()
    log: list[str] = []
    for turn in range(TURNS):
        at += timedelta(seconds=chance.choice(PAUSES))
        words = f"Find out why build_{number}_{turn} of service_{turn % 3} fails."
        waiting = (*waiting, _said(f"u{number}-{turn}", at, Text(words)))
        for round_ in range(ROUNDS):
            call = f"call-{number}-{turn}-{round_}"
            is_last = round_ == ROUNDS - 1
            reply = _reply(call, at, _quoted(log, chance), is_last=is_last)
            steps.append(
                ReplayStep(at=at, heard=waiting, reply=reply, output_tokens=200, starts_turn=round_ == 0)
            )
            at += timedelta(seconds=chance.uniform(3, 40))
            log = list(_lines(chance, chance.choice(SIZES)))
            result = ToolResult(call, (Text("\n".join(log)),))
            waiting = () if is_last else (_said(f"r-{call}", at, result),)
    return Recorded(name=f"large-{number}", steps=tuple(steps), base_tokens=BASE_TOKENS)


def _quoted(log: list[str], chance: random.Random) -> str:
    """A line of what was seen last: mostly from where it begins or ends, as people and models quote."""
    if not log:
        return "nothing yet"
    where = chance.choices((log[:15], log[-10:], log), (5, 3, 2))[0]
    return chance.choice(where)


def _reply(call: str, at: datetime, quoted: str, *, is_last: bool) -> Said:
    words = Text(f"It says {quoted}.")
    blocks = (words,) if is_last else (words, ToolCall(call, "Bash", {"command": f"tail logs/{call}.log"}))
    facts = ReplyFacts(id=f"msg-{call}")
    return Said(id=f"a-{call}", at=at, role="assistant", blocks=blocks, reply=facts)


def _said(record: str, at: datetime, block: Text | ToolResult) -> Said:
    return Said(id=record, at=at, role="user", blocks=(block,))


def _lines(chance: random.Random, size: int) -> Iterator[str]:
    written = 0
    while written < size:
        line = (
            f"worker_{chance.randrange(40)} failed at step_{chance.randrange(400)} "
            f"with code {chance.randrange(900)}"
        )
        written += len(line) + 1
        yield line
