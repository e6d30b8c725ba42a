"""Forks that one reply sends for, through the official SDKs: what they share is paid for once (A1, F4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent
from nacre.cache.models import cost, profile
from nacre.devtools.sim import Exchange, Simulator
from nacre.loop.fork import PENDING
from nacre.messages.blocks import Json
from nacre.messages.jsonl import decode
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.messages.wire import canonical
from nacre.session.log_writer import AgentLog, SessionLogWriter, agent_log_path
from nacre.session.meter import SIDE_QUERY, Meter
from nacre.store.lines import read_lines
from nacre.tools.base import Tool, tool
from tests.stories.scenes import (
    BAR,
    CLAUDE,
    GPT,
    OLDER_CLAUDE,
    bare,
    call,
    calls,
    quiet,
    say,
    shares_read,
    talking_to,
)

CHILDREN = 5
PARTS = [f"Look at part {n} of it." for n in range(CHILDREN)]
SENDS = calls(
    *(call("Send", prompt=part) for part in PARTS), text="I send five, and say why: " + "why " * 500
)
FILES, LINES = 8, 600
BEHIND = 150
"""Bytes: brackets, and the id of a call where the words ride inside its result."""
FORGETFUL = "claude-sonnet-4-5"
"""Loses its thinking, and its cache with it, at words between two tool rounds."""


@pytest.mark.slow
@pytest.mark.parametrize("model", [CLAUDE, OLDER_CLAUDE, GPT, FORGETFUL])
async def test_five_forks_of_one_reply_read_what_they_share_and_only_the_first_writes_it(
    model: str, tmp_path: Path
) -> None:
    """A1, F4: the same bytes up to the directive, each reads them, the parent reads its own as ever."""
    # Whoever asks when, each reply is the same.
    script: list[Json] = [*reads(), SENDS, *["Done."] * (CHILDREN + 1), "You are welcome."]
    async with Simulator(script) as sim, sending(sim, model, tmp_path / "work") as ready:
        await say(ready.agent, "Read everything, then send five.")
        for name in ready.background.running():
            await ready.background.wait(name)
        await say(ready.agent, "Thanks.")
        session = ready.agent.session
    forks = [one for one in sim.log if directive(one) in PARTS]
    mine = [one for one in sim.log if one not in forks]
    first, *others = forks
    asked = mine[FILES]
    assert sorted(map(directive, forks)) == PARTS
    assert len({before_directive(one) for one in forks}) == 1
    assert min(read(one) / asked.usage.prompt for one in forks) >= BAR
    if model != GPT:  # which keeps whole requests only, and takes no marker where they part
        assert min(read(one) / first.usage.prompt for one in others) >= BAR
        assert first.usage.cache_write < 0.1 * first.usage.prompt
        assert max(one.usage.cache_write for one in others) < 0.01 * first.usage.prompt
    assert min(shares_read(mine)) >= BAR
    assert not session.notices()
    assert_booked(session.view, forks)
    assert Meter.of(session.transcript.records).cost_usd == pytest.approx(session.meter.cost_usd)
    assert_cheap(forks, model)


@pytest.mark.slow
async def test_each_fork_of_a_reply_leaves_a_log_that_reads_as_a_conversation(tmp_path: Path) -> None:
    """F2, T2, T6: beside the session's own, with the reply it comes from at its head."""
    script: list[Json] = [*reads(), SENDS, *["Done."] * (CHILDREN + 1)]
    async with Simulator(script) as sim, sending(sim, CLAUDE, tmp_path / "work") as ready:
        await say(ready.agent, "Read everything, then send five.")
        for name in ready.background.running():
            await ready.background.wait(name)
        writer = ready.agent.session.writer
        assert isinstance(writer, SessionLogWriter)
    for number, part in enumerate(PARTS):
        loaded = decode(read_lines(agent_log_path(writer.folder, str(number))), subagent=True)
        view = View.of(loaded.records)
        assert not [*loaded.problems, *view.problems]
        said = [message for message in view.messages if message["role"] == "assistant"]
        assert len(said) == 2
        assert part in str(view.messages)
        assert str(view.messages).count(PENDING) == CHILDREN
    assert PENDING.encode() not in writer.path.read_bytes()


@asynccontextmanager
async def sending(sim: Simulator, model: str, cwd: Path) -> AsyncIterator[OpenedAgent]:
    """An agent whose tool Send sends forks to the background, each with a log of its own."""
    held: list[OpenedAgent] = []

    @tool(name="Send")
    async def send(prompt: str) -> str:
        """Send a fork."""
        ready, number = held[0], str(PARTS.index(prompt))
        writer = ready.agent.session.writer
        assert isinstance(writer, SessionLogWriter)
        log = AgentLog(agent_log_path(writer.folder, number), writer.envelope, agent=number)

        async def work(running: object) -> None:
            with log:
                await running  # type: ignore[misc]

        running = ready.forks.detached(prompt, write=log.write)
        assert ready.background.start(f"agent {number}", work(running))
        return "It is on its way."

    folder = quiet(cwd)
    for number in range(FILES):
        lines = (f"def function_{number}_{line}(): return {line}  # TODO tidy" for line in range(LINES))
        (folder / f"module_{number}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    side_by_side: Tool = replace(send, together=True)
    async with talking_to(sim, model, folder, tools=lambda usual: [*usual, side_by_side]) as ready:
        held.append(ready)
        yield ready


def reads() -> list[Json]:
    return [calls(call("Read", file_path=f"module_{n}.py"), text=f"Number {n}.") for n in range(FILES)]


def read(one: Exchange) -> int:
    return one.usage.cache_read


def before_directive(one: Exchange) -> bytes:
    """All that is sent ahead of the last words, cache markers included."""
    before, _, behind = canonical(one.body["messages"]).rpartition(directive(one).encode())
    assert len(behind) < BEHIND
    return canonical([one.body.get("system"), one.body["tools"], one.body["model"]]) + before


def directive(one: Exchange) -> str:
    """The last words of a request."""
    messages = one.body["messages"]
    assert isinstance(messages, list)
    last = messages[-1]
    assert isinstance(last, dict)
    if isinstance(last["content"], str):
        return last["content"]
    block = bare(last["content"])[-1]
    assert isinstance(block, dict)
    inner = block.get("content")
    if isinstance(inner, list):
        block = inner[-1] if isinstance(inner[-1], dict) else {}
    return str(block.get("text", ""))


def assert_booked(view: View, forks: list[Exchange]) -> None:
    """F4: every request once, under the agents' name."""
    notes = view.noted(SIDE_QUERY)
    assert [note.fact("purpose") for note in notes] == ["agent"] * CHILDREN
    sums = sorted(str(note.fact("usage")) for note in notes)
    assert sums == sorted(str(one.usage.as_json()) for one in forks)


def assert_cheap(forks: list[Exchange], model: str) -> None:
    """All of them together cost less than it would cost to have one of them read it all anew."""
    paid = sum(one.cost_usd or 0.0 for one in forks)
    anew = cost(profile(model), Usage(input=forks[0].usage.prompt, output=forks[0].usage.output))
    assert anew is not None
    assert 0 < paid < anew
