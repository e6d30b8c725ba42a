"""Patience: what is tried again, how long it waits, and what is said meanwhile (Q3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.app.open_agent import open_agent
from nacre.errors import (
    AuthError,
    InvalidRequest,
    Overloaded,
    PromptTooLong,
    ProviderError,
    StreamBroken,
    Unreachable,
)
from nacre.messages.events import ProviderEvent, Reply, StartedOver, TextDelta, Waiting
from nacre.providers.base import Capabilities, Provider, Request
from nacre.providers.retry import RetrySettings, wait_before, with_retry
from nacre.providers.scripted import Item, ScriptedProvider, say, together
from nacre.settings import load

ASK = Request(model="m", messages=[{"role": "user", "content": "q"}])
SETTINGS = RetrySettings(jitter=0.0)


class StillClock:
    """Time stands and chance never strikes."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def seconds(self) -> float:
        return 0.0

    def new_id(self) -> str:
        return "id"

    def chance(self) -> float:
        return 0.5


class Bed:
    """Where the waits go."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def patient(inner: Provider, bed: Bed, settings: RetrySettings = SETTINGS) -> Provider:
    return with_retry(inner, settings, clock=StillClock(), sleep=bed.sleep)


async def heard(
    *script: Item, settings: RetrySettings = SETTINGS
) -> tuple[list[ProviderEvent], Bed, ScriptedProvider]:
    inner, bed = ScriptedProvider(script), Bed()
    events = [event async for event in patient(inner, bed, settings).stream(ASK)]
    return events, bed, inner


async def test_a_busy_provider_is_asked_again_after_growing_waits_that_are_announced() -> None:
    events, bed, inner = await heard(Overloaded("busy"), Overloaded("busy still"), say("hi"))
    assert events[:2] == [Waiting(1.0, "busy"), Waiting(2.0, "busy still")]
    assert events[2] == TextDelta("hi")
    assert isinstance(events[3], Reply)
    assert bed.slept == [1.0, 2.0]
    assert inner.sent[0] == inner.sent[2]


async def test_words_of_a_failed_try_are_declared_void() -> None:
    events, _, _ = await heard(together(say("hal"), fails=StreamBroken("cut")), say("whole"))
    assert events[:4] == [TextDelta("hal"), StartedOver("cut"), Waiting(1.0, "cut"), TextDelta("whole")]


async def test_nothing_is_declared_void_when_nothing_was_heard() -> None:
    events, _, _ = await heard(StreamBroken("cut"), say("x"))
    assert not any(isinstance(event, StartedOver) for event in events)


@pytest.mark.parametrize(
    "error", [AuthError("key"), InvalidRequest("bad"), PromptTooLong("long"), ProviderError("no")]
)
async def test_what_waiting_cannot_help_surfaces_at_once(error: ProviderError) -> None:
    inner, bed = ScriptedProvider([error, say("never")]), Bed()
    with pytest.raises(ProviderError) as caught:
        _ = [event async for event in patient(inner, bed).stream(ASK)]
    assert caught.value is error
    assert (inner.calls, bed.slept) == (1, [])


async def test_patience_ends_with_the_last_error_and_advice() -> None:
    inner, bed = ScriptedProvider([Overloaded("busy", retry_after=3.0)] * 9), Bed()
    with pytest.raises(Overloaded, match=r"^busy; gave up after 4 tries, try again later$") as caught:
        _ = [event async for event in patient(inner, bed, RetrySettings(tries=4, jitter=0)).stream(ASK)]
    assert (inner.calls, bed.slept, caught.value.retry_after) == (4, [3.0, 3.0, 4.0], 3.0)


async def test_replies_that_always_break_are_given_up_sooner() -> None:
    inner, bed = ScriptedProvider([StreamBroken("cut")] * 9), Bed()
    with pytest.raises(StreamBroken, match="gave up after 3 tries"):
        _ = [event async for event in patient(inner, bed).stream(ASK)]
    assert inner.calls == 3


async def test_leaving_the_patient_stream_closes_the_one_inside() -> None:
    closed: list[bool] = []

    class Endless:
        name = "endless"

        def capabilities(self, model: str) -> Capabilities:
            return Capabilities()

        async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            try:
                while True:
                    yield TextDelta("x")
            finally:
                closed.append(True)

        async def count_tokens(self, request: Request) -> int | None:
            return None

        async def close(self) -> None: ...

    stream = patient(Endless(), Bed()).stream(ASK)
    await anext(stream)
    await stream.aclose()
    assert closed == [True]


async def test_counting_is_patient_too() -> None:
    class Flaky(ScriptedProvider):
        failures = 2

        async def count_tokens(self, request: Request) -> int | None:
            if self.failures:
                self.failures -= 1
                raise Overloaded("busy")
            return 7

    bed = Bed()
    assert await patient(Flaky(), bed).count_tokens(ASK) == 7
    assert bed.slept == [1.0, 2.0]


def test_a_wait_the_provider_asks_for_is_kept_but_not_without_end() -> None:
    settings = RetrySettings(jitter=0, max_retry_after=60)
    waits = [
        wait_before(1, Overloaded("b", retry_after=asked), settings, chance=0) for asked in (0.1, 20, 3600)
    ]
    assert waits == [1.0, 20.0, 60.0]


@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 1e6))
def test_a_wait_is_never_shorter_than_its_jitter_allows_nor_longer_than_the_limits(
    attempt: int, chance: float, asked: float | None
) -> None:
    settings = RetrySettings()
    wait = wait_before(attempt, Overloaded("b", retry_after=asked), settings, chance=chance)
    assert (
        settings.first_wait * (1 - settings.jitter)
        <= wait
        <= max(settings.max_wait, settings.max_retry_after)
    )
    if asked is None:
        assert wait <= settings.max_wait


async def test_an_address_on_this_machine_where_nothing_listens_is_tried_twice() -> None:
    bed = Bed()
    provider = patient(ScriptedProvider([Unreachable("cannot reach it")] * 8), bed)
    with pytest.raises(Unreachable, match="gave up after 2 tries: start the server"):
        async for _ in provider.stream(ASK):
            pass
    assert len(bed.slept) == 1


async def test_the_limits_of_silence_and_of_the_selector_can_be_set(tmp_path: Path, canned: Any) -> None:
    canned.text("", hold=True)
    environ = {
        "NACRE_HOME": str(tmp_path / "home"),
        "OPENAI_BASE_URL": f"{canned.url}/v1",
        "OPENAI_API_KEY": "k",
    }
    cli = {
        "model": "gpt-6-luna",
        "retry.silenceSeconds": 1,
        "retry.tries": 1,
        "switches.recall_selector": True,
        "recall.selectorSeconds": 33,
    }
    async with asyncio.timeout(30), open_agent(load(tmp_path, environ, cli=cli)) as ready:
        assert ready.recall is not None
        selector = ready.recall._selector
        assert selector is not None and selector.seconds == 33
        with pytest.raises(ProviderError, match="1 s"):
            async for _ in ready.agent.stream("hello"):
                pass
