from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from nacre.cache.keep_warm import DEFAULT_KEEP_WARM
from nacre.devtools.sim.clock import SimClock
from nacre.devtools.sim.simulator import Simulator
from nacre.server.gateway.keep_warm import SUBSCRIPTION, KeepWarmLimits
from nacre.server.gateway.records import read_records
from tests.server.gateway.proxying import Running, answer, gateway, raw_upstream

KEY = {"x-api-key": "sk-ant-api-secret", "anthropic-version": "2023-06-01"}
MARKER = {"cache_control": {"type": "ephemeral"}}
RULES = "These are the rules of the house. " * 4_000


def asked(*texts: str, **more: Any) -> dict[str, Any]:
    messages: list[Any] = [
        {"role": ("user", "assistant")[number % 2], "content": [{"type": "text", "text": text}]}
        for number, text in enumerate(texts)
    ]
    messages[-1]["content"][-1] |= MARKER
    system = [{"type": "text", "text": RULES, **MARKER}]
    return {"model": "claude-sonnet-5-5", "max_tokens": 9, "system": system, "messages": messages, **more}


@dataclass
class Warmed:
    """A client, the gateway and the provider, on one clock."""

    sim: Simulator
    clock: SimClock
    proxy: Running
    client: httpx2.AsyncClient

    async def ask(self, *texts: str, **more: Any) -> httpx2.Response:
        reply = await self.client.post("/v1/messages", json=asked(*texts, **more))
        assert reply.status_code == 200, reply.text
        await self.settle()
        return reply

    async def settle(self) -> None:
        """Let records be written and tasks begin."""
        for _ in range(20):
            await asyncio.sleep(0.005)

    async def wait(self, seconds: float) -> None:
        """Let time pass in small steps, so that refreshes fall due."""
        for _ in range(int(seconds / 10)):
            self.clock.advance(10)
            await asyncio.sleep(0.01)
        await self.settle()

    @property
    def refreshes(self) -> list[dict[str, Any]]:
        return [line.body for line in self.sim.log if line.body.get("max_tokens") == 0]

    def reasons(self) -> list[str]:
        return [str(one["reason"]) for one in read_records(self.proxy.home) if one["kind"] == "no_refresh"]


@asynccontextmanager
async def warmed(
    limits: KeepWarmLimits | None = None, headers: dict[str, str] = KEY
) -> AsyncIterator[Warmed]:
    clock = SimClock(manual=True)

    async def sleep(seconds: float) -> None:
        await clock.reach(clock.seconds() + seconds)

    async with (
        Simulator(["an answer"] * 20, clock=clock) as sim,
        gateway(sim.url, keep_warm=limits or KeepWarmLimits(), clock=clock, sleep=sleep) as proxy,
        proxy.client(headers) as client,
    ):
        yield Warmed(sim, clock, proxy, client)


async def test_an_idle_session_is_kept_warm_and_the_report_says_what_it_saved() -> None:
    async with warmed() as one:
        await one.ask("hi", stream=True)
        await one.wait(400)
        [refresh] = one.refreshes
        expected = asked("hi") | {"max_tokens": 0}
        assert refresh == expected  # a stream without output is refused
        await one.ask("hi", "an answer", "and now?")
        assert one.sim.log[-1].usage.cache_read > 20_000
        [session] = await one.proxy.sessions(2)
        assert (session.refreshes, session.pauses_usd) == (1, 0.0)
        assert session.refreshes_usd == pytest.approx(one.sim.log[1].cost_usd)
        assert session.saved_usd > session.refreshes_usd > 0
        assert session.cost_usd == pytest.approx(sum(line.cost_usd or 0 for line in one.sim.log))


async def test_without_it_the_pause_is_paid_and_reported() -> None:
    clock = SimClock(manual=True)
    async with Simulator(["a", "b"], clock=clock) as sim, gateway(sim.url, clock=clock) as proxy:
        async with proxy.client(KEY) as client:
            await client.post("/v1/messages", json=asked("hi"))
            await proxy.sessions(1)
            clock.advance(400)
            await client.post("/v1/messages", json=asked("hi", "a", "and now?"))
        [session] = await proxy.sessions(2)
    assert len(sim.log) == 2
    assert session.pauses_usd > 0.04


@pytest.mark.slow
async def test_a_client_that_is_gone_for_long_gets_no_more_refreshes() -> None:
    async with warmed(KeepWarmLimits(day_usd=99)) as one:
        await one.ask("hi")
        await one.wait(4 * 3_600)
        assert len(one.refreshes) <= DEFAULT_KEEP_WARM.max_refreshes
        assert one.proxy.observer.refresher is not None
        assert one.proxy.observer.refresher.waiting == 0
        sent = len(one.refreshes)
        await one.wait(3_600)
        assert len(one.refreshes) == sent


async def test_a_request_ends_a_refresh_on_its_way_before_it_is_sent_on() -> None:
    events: list[str] = []
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 40_000, "output_tokens": 1}
    said = {"model": "claude-sonnet-5-5", "usage": usage}
    head = b"content-type: application/json\r\n"

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if json.loads(upstream.bodies[-1])["max_tokens"] == 0:
            events.append("refresh")
            await reader.read()  # no answer: until the other side closes
            events.append("refresh ended")
        else:
            events.append("request")
            writer.write(answer(json.dumps(said).encode(), head=head))
            await writer.drain()

    clock = SimClock(manual=True)

    async def sleep(seconds: float) -> None:
        await clock.reach(clock.seconds() + seconds)

    async with (
        raw_upstream(answering) as upstream,
        gateway(upstream.url, keep_warm=KeepWarmLimits(), clock=clock, sleep=sleep) as proxy,
        proxy.client(KEY) as client,
    ):
        await client.post("/v1/messages", json=asked("hi"))
        await proxy.sessions(1)
        clock.advance(275)
        async with asyncio.timeout(5):
            while "refresh" not in events:
                await asyncio.sleep(0.01)
        await client.post("/v1/messages", json=asked("hi", "an answer", "and now?"))
    assert events == ["request", "refresh", "refresh ended", "request"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 2_000}, "thinking is on"),
        (
            {"tool_choice": {"type": "any"}, "tools": [{"name": "t", "input_schema": {}}]},
            "forces a tool call",
        ),
    ],
)
async def test_a_request_that_cannot_be_refreshed_is_said_once(more: dict[str, Any], reason: str) -> None:
    async with warmed() as one:
        for texts in (["hi"], ["hi", "an answer", "and now?"]):
            more = more | {"model": "claude-sonnet-4-6"}
            await one.client.post("/v1/messages", json=asked(*texts, **more))
            await one.settle()
        await one.wait(400)
        assert one.refreshes == []
        assert [said for said in one.reasons() if reason in said] == one.reasons()[:1]


async def test_a_subscription_is_left_alone_unless_allowed() -> None:
    token = {"authorization": "Bearer sk-ant-oat01-secret", "anthropic-version": "2023-06-01"}
    async with warmed(headers=token) as one:
        await one.ask("hi")
        await one.wait(400)
        assert one.refreshes == []
        assert one.reasons() == [SUBSCRIPTION]
    async with warmed(KeepWarmLimits(subscriptions=True), token) as one:
        await one.ask("hi")
        await one.wait(400)
        assert len(one.refreshes) == 1


async def test_the_limit_of_a_day_ends_the_refreshes() -> None:
    async with warmed(KeepWarmLimits(day_usd=0.0)) as one:
        await one.ask("hi")
        await one.wait(400)
        assert one.refreshes == []


async def test_the_limit_of_a_day_holds_after_a_restart() -> None:
    async with warmed() as one:
        await one.ask("hi")
        await one.wait(400)
        [refreshed] = [line for line in read_records(one.proxy.home) if line["kind"] == "refresh"]
    cost = refreshed["cost_usd"]
    assert isinstance(cost, float)
    assert cost > 0
    async with warmed(KeepWarmLimits(day_usd=cost)) as one:
        await one.ask("hi")
        await one.wait(400)
        assert one.refreshes == []


async def test_an_openai_model_is_not_refreshed_and_it_is_said() -> None:
    async with warmed(headers={"authorization": "Bearer sk-secret"}) as one:
        body = {"model": "gpt-6-sol", "messages": [{"role": "user", "content": RULES}]}
        await one.client.post("/v1/chat/completions", json=body)
        await one.wait(400)
        assert [line.route for line in one.sim.log] == ["POST /v1/chat/completions"]
        assert one.reasons() == ["the provider is not known to refresh its cache on such a request"]


async def test_other_sessions_stay_warm() -> None:
    async with warmed() as one:
        await one.ask("first")
        await one.wait(100)
        await one.ask("second", system=[{"type": "text", "text": RULES + "And more.", **MARKER}])
        await one.wait(300)
        kept = {json.dumps(body["messages"]) for body in one.refreshes}
        assert len(kept) == 2
