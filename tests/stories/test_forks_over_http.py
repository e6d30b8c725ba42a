"""Forks through the official SDKs: they read the parent's cache, and it does not notice (F1 to F5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent
from nacre.devtools.sim import Exchange, Simulator
from nacre.loop.fork import PENDING, ForkResult, ForkTask
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.wire import canonical
from nacre.session.forks import ForkRunner
from nacre.session.log_writer import SessionLogWriter
from nacre.session.meter import SIDE_QUERY, Meter
from nacre.session.session import Session
from nacre.tools.base import tool
from nacre.tools.policy import Narrowing
from tests.stories.scenes import (
    BAR,
    CLAUDE,
    GPT,
    OLDER_CLAUDE,
    bare,
    call,
    calls,
    chain_of,
    quiet,
    say,
    talking_to,
)

MODELS = [CLAUDE, OLDER_CLAUDE, GPT]
READS: list[Json] = [calls(call("Read", file_path=f"module_{n}.py"), text=f"Number {n}.") for n in range(4)]
NOTES = ForkTask(source="session_memory", directive="Say in one line what has been done so far.")
WORDS: JsonObject = {"type": "text", "text": NOTES.directive}
FORGETFUL = "claude-sonnet-4-5"
"""Loses its thinking, and its cache with it, at words between two tool rounds."""
READING = Narrowing(tools=frozenset({"Read", "Grep"}))


def share(now: Exchange, before: Exchange) -> float:
    """Of what one request sent, how much another read from the cache."""
    return now.usage.cache_read / before.usage.prompt


def log_of(ready: OpenedAgent) -> bytes:
    """The session's log as it is on disk."""
    writer = ready.agent.session.writer
    assert isinstance(writer, SessionLogWriter)
    return writer.folder.with_suffix(".jsonl").read_bytes()


@pytest.mark.parametrize("model", MODELS)
async def test_a_fork_between_turns_reads_the_parents_last_request_and_leaves_no_trace_in_its_bytes(
    model: str, tmp_path: Path
) -> None:
    """F1, F2, F4: the bar, before and after; the log changes at the next boundary, by one note a request."""
    script: list[Json] = [*READS, "All read.", "They were all read.", "You are welcome."]
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        await say(ready.agent, "Read everything.")
        before, view = log_of(ready), ready.agent.session.view
        forked = await ready.forks(NOTES)
        assert (log_of(ready), ready.agent.session.view) == (before, view)
        await say(ready.agent, "thanks")
        session = ready.agent.session
        assert log_of(ready).startswith(before)
    *_, parent, fork, after = sim.log
    assert forked.text == "They were all read."
    assert share(fork, parent) >= BAR
    assert share(after, parent) >= BAR
    assert not [one.refusal for one in sim.log if one.refusal]
    assert_same_base(fork, parent)
    assert_paid(session, [forked])
    assert not session.notices()


@pytest.mark.parametrize("model", MODELS)
async def test_a_fork_in_mid_turn_answers_open_calls_the_same_way_and_reads_the_parents_last_request(
    model: str, tmp_path: Path
) -> None:
    """A1, F4: the reply in full, one placeholder a call, the directive last; then the turn goes on."""
    done: list[ForkResult] = []

    async def act(forker: ForkRunner) -> None:
        done.append(await forker(NOTES))

    script: list[Json] = [
        *READS,
        calls(call("Wait"), call("Wait")),
        "Half way.",
        "Half way.",
        "Done.",
        "Yes.",
    ]
    async with Simulator(script) as sim, waiting(sim, model, tmp_path / "work", act) as ready:
        await say(ready.agent, "Read everything, then wait.", "Done?")
        session = ready.agent.session
    *_, parent, first, second, answered, after = sim.log
    assert [one.text for one in done] == ["Half way.", "Half way."]
    assert min(share(one, parent) for one in (first, second, answered)) >= BAR
    assert share(after, answered) >= BAR
    if model != GPT:
        assert answers(first) == answers(second) == [PENDING, PENDING, WORDS]
    assert_paid(session, done)


async def test_on_a_model_that_would_lose_its_thinking_the_directive_rides_inside_the_last_result(
    tmp_path: Path,
) -> None:
    """A1, F4: nothing but results follows the reply, so that nothing before it is forgotten."""
    done: list[ForkResult] = []

    async def act(forker: ForkRunner) -> None:
        done.append(await forker(NOTES))

    thoughtful = [{"thinking": "Hm. " * 200, **one} for one in READS if isinstance(one, dict)]
    script: list[Json] = [*thoughtful, {"thinking": "So.", **calls(call("Wait"))}, "Half way.", "Done."]
    async with Simulator(script) as sim, waiting(sim, FORGETFUL, tmp_path / "work", act) as ready:
        await say(ready.agent, "Read everything, then wait.")
    *_, parent, fork, after = sim.log
    assert min(share(one, parent) for one in (fork, after)) >= BAR
    assert answers(fork) == [[{"type": "text", "text": PENDING}, WORDS]]


@pytest.mark.parametrize("model", MODELS)
async def test_forks_that_are_fanned_out_read_each_others_prefix(model: str, tmp_path: Path) -> None:
    """F4, C31b, A1: the first goes ahead; what it wrote behind the parent's last request, the others read."""
    long = "All that was said is repeated here at length. " * 300
    script: list[Json] = [*READS, long, "One.", "Two.", "Three.", "Yes."]
    errands = [ForkTask(source="side", directive=f"Look at it from side {n}.") for n in range(3)]
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        await say(ready.agent, "Read everything.")
        forked = await ready.forks.fan_out(errands)
        await say(ready.agent, "Done?")
    *_, parent, one, two, three, after = sim.log
    assert all(isinstance(each, ForkResult) for each in forked)
    assert min(share(each, parent) for each in (one, two, three, after)) >= BAR
    if model != GPT:  # which keeps whole requests only, and takes no marker where they part
        # The reply itself was in no request of the parent's; the first fork wrote it for the others.
        assert min(share(each, one) for each in (two, three, after)) >= BAR
        assert {tuple(chain_of(messages(each))[:-1]) for each in (one, two, three)} == {
            tuple(chain_of(messages(one))[:-1])
        }


async def test_a_reply_of_more_blocks_than_the_provider_walks_back_is_no_hindrance(tmp_path: Path) -> None:
    """F4, C31: the end of the parent's last request is marked in the fork's, however long the reply was."""
    talkative: list[Json] = []
    for n in range(30):
        talkative.append({"type": "text", "text": f"Now number {n}."})
        talkative.append({"type": "tool_use", "name": "Wait", "input": {}})
    done: list[ForkResult] = []

    async def act(forker: ForkRunner) -> None:
        if not done:
            done.append(await forker(NOTES))

    script: list[Json] = [*READS, {"content": talkative}, "Half way.", "Done."]
    async with Simulator(script) as sim, waiting(sim, CLAUDE, tmp_path / "work", act) as ready:
        await say(ready.agent, "Read everything, then wait.")
    *_, parent, fork, after = sim.log
    assert min(share(one, parent) for one in (fork, after)) >= BAR


@pytest.mark.parametrize("model", MODELS)
async def test_a_fork_of_several_rounds_reads_its_own_rounds_and_may_do_what_it_may(
    model: str, tmp_path: Path
) -> None:
    """F3, F4: a refused call is answered with what is allowed; the fork goes on, and so does the parent."""
    rounds: list[Json] = [
        calls(call("Read", file_path="README.md"), call("Write", file_path="README.md", content="gone")),
        calls(call("Grep", pattern="function_0_1$", path=".")),
        "Enough.",
    ]
    script: list[Json] = [*READS, "All read.", *rounds, "You are welcome."]
    errand = ForkTask(source="extract_memories", directive="Look again.", access=READING, max_rounds=5)
    cwd = quiet(tmp_path / "work")
    async with Simulator(script) as sim, talking_to(sim, model, cwd) as ready:
        await say(ready.agent, "Read everything.")
        forked = await ready.forks(errand)
        await say(ready.agent, "thanks")
        session = ready.agent.session
    assert (len(forked.replies), forked.denials, forked.text) == (3, 1, "Enough.")
    assert (cwd / "README.md").read_text(encoding="utf-8").startswith("# A project")
    *_, parent, first, second, third, after = sim.log
    assert share(first, parent) >= BAR
    assert share(second, first) >= BAR
    assert share(third, second) >= BAR
    assert share(after, parent) >= BAR
    refused = canonical(messages(second)[-1]).decode()
    assert "Not allowed: Write is not for this agent. You may use: Grep, Read." in refused
    assert_paid(session, [forked])


async def test_background_work_that_goes_on_at_the_end_is_waited_for_and_what_it_cost_is_in_the_log(
    tmp_path: Path,
) -> None:
    """F5: drained before the provider is let go, and recorded before the log is."""
    script: list[Json] = ["Hello.", {"text": "It was greeted.", "delay": 0.05}]
    told: list[str] = []
    async with Simulator(script) as sim:
        async with talking_to(sim, CLAUDE, quiet(tmp_path / "work")) as ready:
            await say(ready.agent, "Hello")
            ready.background.on_progress = told.append
            ready.background.start("notes", ready.forks(NOTES), label="writing notes")
        session = ready.agent.session
    assert [(one.name, one.ending) for one in ready.background.outcomes] == [("notes", "done")]
    assert told == ["writing notes: 5 s at most", ""]
    assert len(sim.log) == 2
    assert [note.fact("purpose") for note in session.view.noted(SIDE_QUERY)] == ["session_memory"]
    assert b'"session_memory"' in log_of(ready)


async def test_a_cancelled_turn_ends_its_forks_but_not_those_of_the_background(tmp_path: Path) -> None:
    """F2, F5: linked to the parent's cancel, unless a supervisor owns it."""
    hanging: Json = {"text": "never", "fault": {"kind": "hang", "after": 1}}
    script: list[Json] = ["Hello.", hanging, {"text": "Greeted.", "delay": 0.05}]
    async with Simulator(script) as sim, talking_to(sim, CLAUDE, quiet(tmp_path / "work")) as ready:
        await say(ready.agent, "Hello")
        foreground = asyncio.create_task(ready.forks(NOTES))
        await sim.arrivals(2)
        ready.background.start("notes", ready.forks(NOTES))
        await sim.arrivals(3)
        ready.agent.session.cancel_turn()
        with pytest.raises(asyncio.CancelledError):
            await foreground
        assert await ready.background.wait("notes")
    assert [one.ending for one in ready.background.outcomes] == ["done"]


@asynccontextmanager
async def waiting(
    sim: Simulator, model: str, cwd: Path, act: Callable[[ForkRunner], Awaitable[None]]
) -> AsyncIterator[OpenedAgent]:
    """An agent with one more tool, during which something is done with its forker."""
    held: list[ForkRunner] = []

    @tool(name="Wait")
    async def wait() -> str:
        """Wait a little."""
        await act(held[0])
        return "waited"

    async with talking_to(sim, model, quiet(cwd), tools=lambda usual: [*usual, wait]) as ready:
        held.append(ready.forks)
        yield ready


def answers(one: Exchange) -> list[Json]:
    """What the last message says: of a result its content, of words the block."""
    last = bare(messages(one)[-1]["content"])
    return [block.get("content", block) for block in last if isinstance(block, dict)]


def messages(one: Exchange) -> list[JsonObject]:
    found = one.body["messages"]
    assert isinstance(found, list)
    return [message for message in found if isinstance(message, dict)]


def assert_same_base(fork: Exchange, parent: Exchange) -> None:
    """F1: model, system and tools to the byte, cache markers aside."""
    for name in ("model", "thinking"):
        assert fork.body.get(name) == parent.body.get(name)
    for name in ("system", "tools"):
        if name in parent.body:
            assert canonical(bare(fork.body[name])) == canonical(bare(parent.body[name]))


def assert_paid(session: Session, forks: list[ForkResult]) -> None:
    """F4: every request of a fork is in the log once, with its share, and a resumed session knows the sum."""
    notes = session.view.noted(SIDE_QUERY)
    firsts = [note for note in notes if note.fact("request") == 1]
    assert [note.fact("share") for note in firsts] == [round(one.first.hit_rate, 4) for one in forks]
    assert len(notes) == sum(len(one.replies) for one in forks)
    assert Meter.of(session.transcript.records).cost_usd == pytest.approx(session.meter.cost_usd)
    assert session.meter.requests == Meter.of(session.transcript.records).requests
