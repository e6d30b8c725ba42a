"""A second provider takes over while the first is out of reach, and gives back afterwards (Q5)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import build_provider
from nacre.cache.models import cost, profile
from nacre.errors import AuthError, ConfigError, InvalidRequest, Overloaded, ProviderError, StreamBroken
from nacre.messages.events import Event, Notice, ProviderEvent, Reply, StartedOver, TextDelta, TurnDone
from nacre.messages.usage import Usage
from nacre.providers.base import Provider, Request
from nacre.providers.choose import choose
from nacre.providers.retry import DOWN_SECONDS, with_fallback, with_retry
from nacre.session.agent import SessionAgent
from nacre.session.session import Base, Session
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, say, together

MAIN, OTHER = "claude-opus-5-5", "claude-haiku-5-5"
DOWN = Overloaded("busy; gave up after 8 tries, try again later")


def request() -> Request:
    return Request(model=MAIN, messages=[{"role": "user", "content": [{"type": "text", "text": "hello"}]}])


async def heard(provider: Provider) -> list[ProviderEvent]:
    return [event async for event in provider.stream(request())]


def words(events: list[ProviderEvent] | list[Event]) -> list[str]:
    return [event.message.text for event in events if isinstance(event, Reply)]


async def test_while_the_first_answers_the_second_is_not_asked(clock: FrozenClock) -> None:
    first, second = ScriptedProvider([say("one"), say("two")]), ScriptedProvider()
    both = with_fallback(first, second, OTHER, clock=clock)
    assert words(await heard(both)) == ["one"]
    assert words(await heard(both)) == ["two"]
    assert (second.calls, both.name) == (0, first.name)
    assert both.capabilities(MAIN) == first.capabilities(MAIN)


@pytest.mark.parametrize("failure", [DOWN, StreamBroken("it broke; gave up after 3 tries")])
async def test_when_the_first_has_given_up_the_second_answers_and_says_so(
    failure: ProviderError, clock: FrozenClock
) -> None:
    """Q5: what was heard before is void, and the person is told who answers instead."""
    first = ScriptedProvider([together("half a sen", fails=failure)])
    second = ScriptedProvider([say("whole")])
    events = await heard(with_fallback(first, second, OTHER, clock=clock))
    at = next(n for n, event in enumerate(events) if isinstance(event, StartedOver))
    assert events[at] == StartedOver(f"{MAIN} is out of reach ({failure}); {OTHER} takes over")
    assert any(isinstance(event, TextDelta) for event in events[:at])
    assert words(events[at:]) == ["whole"]
    assert [asked.model for asked in second.requests] == [OTHER]
    assert second.requests[0].messages == first.requests[0].messages


@pytest.mark.parametrize("failure", [AuthError("the key is refused"), InvalidRequest("no such field")])
async def test_what_waiting_cannot_mend_is_not_hidden(failure: ProviderError, clock: FrozenClock) -> None:
    """Q3: a refused key is the person's to know, not a reason to spend money elsewhere."""
    second = ScriptedProvider([say("never")])
    with pytest.raises(type(failure)):
        await heard(with_fallback(ScriptedProvider([failure]), second, OTHER, clock=clock))
    assert second.calls == 0


async def test_the_first_is_left_alone_for_a_while_and_then_asked_again(clock: FrozenClock) -> None:
    first = ScriptedProvider([DOWN, say("back again")])
    second = ScriptedProvider([say("one"), say("two")])
    both = with_fallback(first, second, OTHER, clock=clock)
    await heard(both)
    clock.advance(DOWN_SECONDS - 1)
    assert words(await heard(both)) == ["two"]
    assert first.calls == 1
    clock.advance(2)
    assert words(await heard(both)) == ["back again"]


async def test_when_both_are_down_the_failure_of_the_second_surfaces(clock: FrozenClock) -> None:
    second = ScriptedProvider([Overloaded("the second is busy too")])
    with pytest.raises(Overloaded, match="the second is busy too"):
        await heard(with_fallback(ScriptedProvider([DOWN]), second, OTHER, clock=clock))


async def test_the_turn_is_billed_at_the_price_of_who_answered_and_no_cache_is_missed(
    clock: FrozenClock,
) -> None:
    """C32: another model has a cache of its own, so nothing was lost when it reads less."""
    cached = Usage(input=10, cache_read=50_000, output=100)
    cold = Usage(input=10, cache_write=50_000, output=100)
    first = ScriptedProvider([together("one", usage=cached), DOWN, together("three", usage=cached)])
    second = _Elsewhere([together("two", usage=cold)])
    both = with_fallback(first, second, OTHER, clock=clock)
    agent = SessionAgent(Session(Base(MAIN, "s", []), clock=clock), both)
    events: list[Event] = []
    for text in ("a", "b", "c"):
        events += [event async for event in agent.stream(text)]
        clock.advance(DOWN_SECONDS / 2)
        clock.advance(DOWN_SECONDS / 2 if text == "b" else 0)
    assert words(events) == ["one", "two", "three"]
    bills = [event.cost_usd for event in events if isinstance(event, TurnDone)]
    wanted = [cost(profile(MAIN), cached), cost(profile(OTHER), cold), cost(profile(MAIN), cached)]
    assert bills == pytest.approx(wanted)
    assert agent.session.meter.cost_usd == pytest.approx(sum(bills))
    assert not [event for event in events if isinstance(event, Notice)]


def test_a_fallback_nobody_serves_is_refused_before_anything_begins(tmp_path: Path) -> None:
    """P3: not in the middle of an outage."""
    environ = {"NACRE_HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k", "NACRE_FALLBACK_MODEL": "gpt-6-luna"}
    settings = load(tmp_path, environ, policy_path=tmp_path / "none")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        build_provider(choose(MAIN, environ), settings)


class _Elsewhere(ScriptedProvider):
    """Another vendor, whose replies have other ids."""

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        async for event in super().stream(request):
            yield replace(event, id=f"elsewhere-{event.id}") if isinstance(event, Reply) else event


async def test_a_refresh_is_tried_once_and_never_taken_over(clock: FrozenClock) -> None:
    """C8b: a late refresh pays for a write, and another model's cache holds nothing of the prefix."""
    first, second = ScriptedProvider([Overloaded("busy"), StreamBroken("broke")]), ScriptedProvider()

    async def sleep(seconds: float) -> None:
        raise AssertionError("nobody waits for a refresh")

    both = with_fallback(with_retry(first, clock=clock, sleep=sleep), second, OTHER, clock=clock)
    for _ in range(2):
        with pytest.raises((Overloaded, StreamBroken)):
            _ = [event async for event in both.stream(replace(request(), max_tokens=0))]
    assert (first.calls, second.calls) == (2, 0)
    assert both.capabilities(MAIN).refreshes, "a refresh that failed says nothing about the next request"


async def test_while_the_second_answers_there_is_nothing_to_refresh(clock: FrozenClock) -> None:
    """C8b: off while it is not known to help."""
    both = with_fallback(ScriptedProvider([DOWN]), ScriptedProvider([say("I")]), OTHER, clock=clock)
    assert both.capabilities(MAIN).refreshes
    await heard(both)
    assert not both.capabilities(MAIN).refreshes
    clock.advance(DOWN_SECONDS)
    assert both.capabilities(MAIN).refreshes
