"""The cost of interrupted and broken replies is counted, over HTTP: near the bill, and marked as estimate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent
from nacre.cli.chat.terminal import status_line
from nacre.devtools.sim import Simulator
from nacre.devtools.sim.faults import Fault
from nacre.errors import AuthError, StreamBroken
from nacre.loop.fork import ForkTask
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import ProviderEvent, ReplyStarted, TextDelta, TurnDone
from nacre.messages.usage import Usage
from nacre.providers.base import Capabilities, Provider, Request
from nacre.providers.retry import RetrySettings, with_retry
from nacre.session.compaction import CompactionRequest
from nacre.session.meter import Meter
from nacre.session.read_session import read_view
from nacre.session.settings import SpendSettings
from nacre.session.spending import Spending
from tests.stories.scenes import CLAUDE, GPT, call, calls, quiet, say, talking_to
from tests.stories.session_world import SessionWorld

MODELS = [CLAUDE, GPT]
STORY = "Once upon a time there was a parser. " * 300


def hanging(reply: JsonObject, *, after: int = 460) -> JsonObject:
    """A reply that goes silent after so many events, so that somebody has to interrupt it."""
    return {**reply, "fault": {"kind": "hang", "after": after}}


class Watched:
    """The same provider, of which one can wait until it has sent so much of a reply."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._started: ReplyStarted | None = None

    @property
    def name(self) -> str:
        return self._provider.name

    def capabilities(self, model: str) -> Capabilities:
        return self._provider.capabilities(model)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self._started = None
        async with aclosing(self._provider.stream(request)) as events:
            async for event in events:
                self._started = event if isinstance(event, ReplyStarted) else self._started
                yield event

    async def count_tokens(self, request: Request) -> int | None:
        return await self._provider.count_tokens(request)

    async def close(self) -> None:
        await self._provider.close()

    async def sent(self, tokens: int) -> None:
        async with asyncio.timeout(30):
            while self._started is None or self._started.usage_so_far().output < tokens:
                await asyncio.sleep(0.01)


def bill(sim: Simulator) -> float:
    return sum(one.cost_usd or 0.0 for one in sim.log)


async def interrupted(ready: OpenedAgent, text: str, *, when: Callable[[str], bool]) -> None:
    """One turn, cancelled as soon as the words heard so far are enough."""

    async def turn() -> None:
        heard = ""
        async for event in ready.agent.stream(text):
            heard += event.text if isinstance(event, TextDelta) else ""
            if when(heard):
                task.cancel()

    task = asyncio.create_task(turn())
    with pytest.raises(asyncio.CancelledError):
        await task


def assert_counted(ready: OpenedAgent, sim: Simulator, *, rel: float) -> None:
    """The session's own sum is near the bill, is said to be estimated, and is read back from the log."""
    session = ready.agent.session
    assert session.meter.cost_usd == pytest.approx(bill(sim), rel=rel)
    assert session.meter.requests == len(sim.log)
    assert session.meter.usage.approximate
    assert "about $" in status_line(session)


@pytest.mark.parametrize("model", MODELS)
async def test_a_reply_that_is_interrupted_while_it_streams_is_counted(model: str, tmp_path: Path) -> None:
    script: list[Json] = ["Hello.", "Again.", hanging({"text": STORY}), "Fine."]
    async with Simulator(script) as sim, talking_to(sim, model, quiet(tmp_path / "work")) as ready:
        await say(ready.agent, "hello", "again")
        exact = ready.agent.session.meter
        assert not exact.usage.approximate
        assert "about" not in status_line(ready.agent.session)
        spending = Spending(ready.agent.session, SpendSettings(session_usd=exact.cost_usd + 0.005))
        assert spending.allows("session_memory") is None
        await interrupted(ready, "tell me a story", when=lambda heard: len(heard) > 10_900)
        assert_counted(ready, sim, rel=0.04)
        assert spending.allows("session_memory") is not None, "what was interrupted counts towards the caps"
        assert ready.agent.session.meter.cost_usd > exact.cost_usd + 0.9 * (sim.log[-1].cost_usd or 0)
        await say(ready.agent, "and now")
        assert_counted(ready, sim, rel=0.04)
        path = next((tmp_path / "work" / "home").rglob(f"{ready.agent.session.id}.jsonl"))
        read = read_view(path)
        assert read is not None
        kept = Meter.of(read.view.records)
        assert kept.usage == ready.agent.session.meter.usage
        assert kept.cost_usd == pytest.approx(ready.agent.session.meter.cost_usd)


async def test_a_half_written_call_is_counted(tmp_path: Path) -> None:
    write = calls(call("Write", file_path="story.txt", content=STORY), text="Writing.")
    async with (
        Simulator(["Hello.", hanging(write, after=900)]) as sim,
        talking_to(sim, CLAUDE, quiet(tmp_path / "work")) as ready,
    ):
        await say(ready.agent, "hello")
        ready.agent.provider = watched = Watched(ready.agent.provider)
        task = asyncio.create_task(say(ready.agent, "write a story"))
        await watched.sent(5_000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert_counted(ready, sim, rel=0.05)


@pytest.mark.parametrize("model", MODELS)
async def test_a_reply_that_breaks_off_is_counted(model: str, tmp_path: Path) -> None:
    """The turn fails: without a retry around the provider a lost connection is the person's to see."""
    broken: JsonObject = {"text": STORY, "fault": {"kind": "disconnect", "after": 460}}
    async with (
        Simulator(["Hello.", broken, "Fine."]) as sim,
        talking_to(sim, model, quiet(tmp_path / "work")) as ready,
    ):
        await say(ready.agent, "hello")
        with pytest.raises(StreamBroken):
            await say(ready.agent, "tell me a story")
        assert_counted(ready, sim, rel=0.05)


@pytest.mark.parametrize("kind", ["reasoning", "responses", "codex"])
async def test_the_cached_part_of_a_broken_request_is_estimated(kind: str, tmp_path: Path) -> None:
    """For providers that report the input last: also after a rewrite, in a resumed session, and repeated."""
    world = SessionWorld(tmp_path / "work", seed=8)
    broken = Fault(kind="disconnect", after=12)
    async with world.sim:
        async with world.opened(kind) as ready:
            await say(ready.agent, "one", "two", "three")
            await ready.rewind.forget(ready.rewind.points()[-1])
            await assert_estimated(world, ready, [broken, broken])
            session_id = ready.agent.session.id
        async with world.opened(kind, session_id) as ready:
            await assert_estimated(world, ready, [broken])


async def assert_estimated(
    world: SessionWorld,
    ready: OpenedAgent,
    faults: list[Fault],
    act: Callable[[OpenedAgent], Awaitable[object]] | None = None,
) -> None:
    """Each request of an act with these faults, or of a turn, is counted like the bill."""
    counted: list[Usage] = []
    ready.agent.session.on_usage = lambda usage, model: counted.append(usage)
    earlier = len(world.sim.log)
    world.planned += faults
    await (say(ready.agent, "and now") if act is None else act(ready))
    billed = [one.usage for one in world.sim.log[earlier:]]
    assert len(counted) == len(billed) > len(faults)
    for own, real in zip(counted, billed, strict=True):
        assert own.cache_read == pytest.approx(real.cache_read, rel=0.2, abs=600)
        assert own.cache_write == pytest.approx(real.cache_write, rel=0.2, abs=600)


@pytest.mark.parametrize("kind", ["reasoning", "responses"])
async def test_what_a_broken_request_read_follows_from_all_earlier_ones(kind: str, tmp_path: Path) -> None:
    """A summary behind a message without an answer, and the first turn of a model that comes back."""
    world = SessionWorld(tmp_path / "work", seed=3)
    broken = Fault(kind="disconnect", after=12)

    async def compact(ready: OpenedAgent) -> None:
        await ready.compact.compact(CompactionRequest())

    async with world.sim:
        async with world.opened("bound") as ready:
            await say(ready.agent, "one", "two", "three")
            session_id = ready.agent.session.id
        async with world.opened(kind, session_id) as ready:
            world.planned += [broken] * 3
            with pytest.raises(StreamBroken):
                await say(ready.agent, "without an answer")
            await assert_estimated(world, ready, [broken], compact)
            await say(ready.agent, "four", "five")
        async with world.opened("bound", session_id) as ready:
            await say(ready.agent, "to another model")
        async with world.opened(kind, session_id) as ready:
            await assert_estimated(world, ready, [broken])


async def test_a_broken_request_of_an_earlier_process_is_in_the_cache(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path / "work", seed=5)
    broken = Fault(kind="disconnect", after=12)
    async with world.sim:
        async with world.opened("responses") as ready:
            world.planned += [broken] * 3
            with pytest.raises(StreamBroken):
                await say(ready.agent, "without an answer")
            session_id = ready.agent.session.id
        async with world.opened("responses", session_id) as ready:
            before = ready.agent.session.meter
            world.planned += [broken] * 3
            with pytest.raises(StreamBroken):
                async for _ in ready.agent.stream(None):
                    pass
            counted = ready.agent.session.meter.since(before).usage
            billed = sum((one.usage for one in world.sim.log[-3:]), Usage())
            assert counted.cache_write == billed.cache_write == 0
            assert counted.cache_read == pytest.approx(billed.cache_read, rel=0.05)


async def test_the_size_of_a_broken_request_is_that_of_its_own_tools(tmp_path: Path) -> None:
    """What the provider counted for a request with fewer tools says little about the first one with all."""
    world = SessionWorld(tmp_path / "work", seed=4)
    counted: list[Usage] = []
    async with world.sim:
        async with world.opened("codex", NACRE_AGENTS="0", NACRE_DISABLE_AUTO_MEMORY="1") as ready:
            await say(ready.agent, "one", "two")
            session_id = ready.agent.session.id
        async with world.opened("codex", session_id) as ready:
            ready.agent.session.on_usage = lambda usage, model: counted.append(usage)
            earlier = len(world.sim.log)
            world.planned.append(Fault(kind="disconnect", after=12))
            await say(ready.agent, "with all tools")
            assert counted[0].prompt == pytest.approx(world.sim.log[earlier].usage.prompt, rel=0.05)


async def test_an_attempt_that_is_repeated_is_counted(tmp_path: Path) -> None:
    """Also one that broke before its first word: the provider has read the prompt by then."""
    broken: list[Json] = [
        {"text": STORY, "fault": {"kind": "disconnect", "after": 460}},
        {"text": STORY, "fault": {"kind": "disconnect", "after": 2}, "output_tokens": 1},
    ]
    async with (
        Simulator([*broken, "Fine."]) as sim,
        talking_to(sim, CLAUDE, quiet(tmp_path / "work")) as ready,
    ):
        ready.agent.provider = with_retry(ready.agent.provider, RetrySettings(first_wait=0.0))
        events = await say(ready.agent, "tell me a story")
        assert_counted(ready, sim, rel=0.04)
        done = events[-1]
        assert isinstance(done, TurnDone)
        assert done.cost_usd == ready.agent.session.meter.cost_usd


async def test_a_fork_and_a_summary_that_are_interrupted_are_counted(tmp_path: Path) -> None:
    story: list[Json] = [STORY, hanging({"text": STORY}), hanging({"text": STORY})]
    async with Simulator(story) as sim, talking_to(sim, CLAUDE, quiet(tmp_path / "work")) as ready:
        await say(ready.agent, "tell me a story")
        errand = ForkTask(source="session_memory", directive="Say what was done.")
        ready.forks.provider = watched = Watched(ready.forks.provider)
        for work in (ready.forks(errand), ready.compact.compact(CompactionRequest())):
            task = asyncio.ensure_future(work)
            await watched.sent(2_700)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert_counted(ready, sim, rel=0.04)
        await ready.background.flush()
        records = ready.agent.session.transcript.records
        assert Meter.of(records).cost_usd == pytest.approx(ready.agent.session.meter.cost_usd)


async def test_a_request_that_was_refused_costs_nothing(tmp_path: Path) -> None:
    async with (
        Simulator([{"text": "no", "fault": "auth"}]) as sim,
        talking_to(sim, CLAUDE, quiet(tmp_path / "work")) as ready,
    ):
        with pytest.raises(AuthError):
            await say(ready.agent, "hello")
        assert ready.agent.session.meter == Meter()


@pytest.mark.parametrize("model", MODELS)
async def test_a_raised_output_limit_is_kept_for_the_session(model: str, tmp_path: Path) -> None:
    """A long reply is cut off and paid for twice once, and not in every turn."""
    long = STORY * 4
    async with Simulator([long, long, long, long, long]) as sim:
        async with talking_to(sim, model, quiet(tmp_path / "work")) as ready:
            await say(ready.agent, "tell me a story", "another one")
            session_id = ready.agent.session.id
        assert len(sim.log) == 3
        async with talking_to(sim, model, tmp_path / "work", session=session_id) as ready:
            await say(ready.agent, "a third one")
            assert ready.agent.session.meter.cost_usd == pytest.approx(bill(sim))
            session = ready.agent.session
            session.window = session.tokens + 20_000
            await say(ready.agent, "a last one")
    limits = [one.body.get("max_tokens") or one.body.get("max_completion_tokens") for one in sim.log]
    assert limits[:4] == [8_192, 64_000, 64_000, 64_000]
    assert isinstance(limits[4], int)
    assert 8_192 < limits[4] < 20_000, "the limit fits the window beside the prompt"
