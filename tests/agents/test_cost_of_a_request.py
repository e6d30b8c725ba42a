"""What a request takes does not grow with the conversation: counted in the interpreter's steps, not timed."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from nacre.app.chat_session import keep_cache_warm
from nacre.app.open_agent import open_agent
from nacre.loop.round import message_record, reply_record
from nacre.messages.blocks import Message, Text, ToolCall, ToolResult
from nacre.messages.events import Reply
from nacre.messages.records import Noted, Record, ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.session.session import Session
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider
from tests.stories.scenes import environment

MODEL = "claude-sonnet-4-5"
SLACK = 1.05
"""Ids and numbers are longer in a longer conversation."""


async def test_a_request_takes_as_many_steps_in_a_long_conversation_as_in_a_short_one(
    tmp_path: Path,
) -> None:
    """Recording results, fitting, sending and hearing a reply cost what is new, with every layer on."""
    short, long = [await _steps(tmp_path, rounds=rounds) for rounds in (10, 1_000)]
    assert long < SLACK * short


async def _steps(work: Path, *, rounds: int) -> int:
    settings = load(
        work,
        {
            **environment(work),
            "NACRE_MODEL": MODEL,
            "NACRE_CACHE_TTL": "auto",
        },
    )
    clock = FrozenClock()
    async with (
        open_agent(settings, provider=ScriptedProvider(), ephemeral=True, clock=clock) as ready,
        keep_cache_warm(ready.agent, settings),
    ):
        session = ready.agent.session
        await session.add_user("go on")
        await session.transcript.append(*_past(rounds, clock))
        counted = [await _counted(lambda n=n: _round(session, n)) for n in range(6)]  # type: ignore[misc]
        # The first requests read what a resumed conversation holds; from then on it is known.
        return min(counted[3:])


def _past(rounds: int, clock: FrozenClock) -> Iterator[Record]:
    for n in range(rounds):
        call = ToolCall(f"old{n:05}", "Bash", {"command": "ls"})
        facts = ReplyFacts(id=f"msg{n:05}", model=MODEL, usage=Usage(input=9, output=9))
        yield Said(id=clock.new_id(), at=clock.now(), role="assistant", blocks=(call,), reply=facts)
        result = ToolResult(call.id, (Text(f"{n:05}"),))
        yield Said(id=clock.new_id(), at=clock.now(), role="user", blocks=(result,))
        yield Noted(id=clock.new_id(), at=clock.now(), kind="offload", facts={"call": call.id})


async def _round(session: Session, n: int) -> None:
    call = ToolCall(f"new{n}", "Bash", {"command": "ls"})
    session.start_request(session.view)
    reply = Reply(
        message=Message("assistant", (call,)), id=f"reply{n}", model=MODEL, usage=Usage(input=9, output=9)
    )
    await session.transcript.append(reply_record(reply, session.clock, session.view))
    session.on_reply(reply)
    results = message_record("user", (ToolResult(call.id, (Text(f"new {n}"),)),), session.clock)
    await session.transcript.append(*await session.message_records(results))
    await session.transcript.append(*await session.fit(session.view, None))


async def _counted(work: Callable[[], Awaitable[None]]) -> int:
    count = 0

    def step(frame: FrameType, event: str, arg: object) -> Callable[..., object]:
        nonlocal count
        count += event == "opcode"
        return step

    def entered(frame: FrameType, event: str, arg: object) -> Callable[..., object] | None:
        if "/nacre/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        return step

    with _traced(entered):
        await work()
    return count


@contextmanager
def _traced(function: Callable[..., object]) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(function)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.settrace(before)
