"""Snipping in a session: numbers at the tail, the model's call, the person's line, a resumed session."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nacre.layers.experimental.snip import Scissors, Snip, snip_tool
from nacre.messages.events import Event, Notice, ToolResultEvent
from nacre.messages.pins import pin
from nacre.messages.records import Record
from nacre.session.agent import Agent
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.testing import FrozenClock, ScriptedProvider, call, say, think, together
from nacre.tools.base import tool
from tests.layers.l2_microcompact.scenes import BINDING, FREE, words

MOVES = pytest.mark.moves_prefix(reason="the model takes messages out of its view")


@tool(name="Bash", read_only=True)
async def bash(n: int) -> str:
    """Answers at length."""
    return words(n)


def opened(
    provider: ScriptedProvider, clock: FrozenClock, *, model: str = FREE, records: Sequence[Record] = ()
) -> tuple[Agent, Snip]:
    scissors = Scissors()
    tools = [bash, snip_tool(scissors)]
    session = Session(
        Base(model, "s", tools), records, settings=SessionSettings(strict_prefix=True), clock=clock
    )
    snipping = Snip(session)
    session.layers.append(snipping)
    scissors.cut = snipping.cut
    return Agent(session, provider, tools), snipping


async def played(agent: Agent, text: str) -> list[Event]:
    return [event async for event in agent.stream(text)]


async def worked(agent: Agent, provider: ScriptedProvider, *, thinking: bool = False) -> None:
    """One turn of two rounds: message 1 are the words, 2 and 3 the results."""
    before = [think("hm")] if thinking else []
    provider.script(*(together(*before, call("Bash", n=n)) for n in range(2)), say("done"))
    await played(agent, "look around")


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def answers(events: list[Event]) -> list[str]:
    return [event.result.text for event in events if isinstance(event, ToolResultEvent)]


def shown(provider: ScriptedProvider) -> str:
    return str(provider.requests[-1].messages)


async def test_numbers_ride_at_the_tail_and_move_nothing(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """C29, M25: the prefix net holds while messages are numbered."""
    agent, _ = opened(provider, clock)
    await worked(agent, provider)
    for number in (1, 2, 3):
        assert shown(provider).count(f"[message {number}]") == 1


@MOVES
async def test_the_model_takes_messages_out_and_everybody_is_told(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """C29, C1: the very next request is smaller; the model hears what is free, the person where it is."""
    agent, _ = opened(provider, clock)
    await worked(agent, provider)
    held = agent.session.tokens
    provider.script(call("Snip", messages=[2, 3, 4], reason="led nowhere"), say("tidier"))
    events = await played(agent, "tidy up")
    freed = agent.session.view.noted("snip")[-1].fact("tokens")
    assert isinstance(freed, int)
    assert freed > 1_900
    assert answers(events) == [
        f"Taken out: messages 2, 3 (4 in all, with replies); about {freed:,} tokens are free now. "
        "Left standing: message 4: it belongs to the current turn."
    ]
    assert notices(events) == [
        f"Snipped 4 messages (about {freed:,} tokens); originals: nacre sessions show --full."
    ]
    assert agent.session.tokens < held
    assert "result 0" not in shown(provider)
    assert "look around" in shown(provider)


@MOVES
async def test_where_thinking_is_bound_it_waits_for_the_next_turn(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """C12b: nothing moves in mid-turn; then all thinking goes in the same decision."""
    agent, _ = opened(provider, clock, model=BINDING)
    await worked(agent, provider, thinking=True)
    provider.script(call("Snip", messages=[2], reason="old"), say("later"))
    events = await played(agent, "tidy up")
    assert answers(events)[0].startswith("Taken out when the next turn begins: message 2 (2 in all")
    assert "result 0" in shown(provider)
    assert agent.session.view.epochs == ()
    provider.script(say("here"))
    told = notices(await played(agent, "and now?"))
    assert [line.split(" (")[0] for line in told] == ["Snipped 2 messages"]
    assert "result 0" not in shown(provider)
    assert "thinking" not in shown(provider)
    assert agent.session.view.epochs == ("thinking", "snip")
    provider.script(say("still here"))
    assert notices(await played(agent, "once more")) == []


@MOVES
async def test_what_waits_is_still_known_after_a_resume(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """C29, T3: the wish is in the log; what was pinned meanwhile stays."""
    agent, _ = opened(provider, clock, model=BINDING)
    await worked(agent, provider)
    provider.script(call("Snip", messages=[2, 3], reason="old"), say("later"))
    await played(agent, "tidy up")
    await agent.session.transcript.append(pin("call_1", clock))
    again, _ = opened(provider, clock, model=BINDING, records=agent.session.transcript.records)
    provider.script(say("here"))
    await played(again, "and now?")
    assert "result 0" in shown(provider)
    assert "result 1" not in shown(provider)


async def test_naming_nothing_that_can_go_is_an_error_that_says_why(
    provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """C29: one line the model can act on; nothing is recorded."""
    agent, _ = opened(provider, clock)
    provider.script(call("Snip", messages=[1, 7], reason="old"), say("well"))
    events = await played(agent, "tidy up")
    assert answers(events) == [
        "Nothing was taken out: message 1: it belongs to the current turn; "
        "message 7: there is no such message."
    ]
    assert agent.session.view.noted("snip") == []


@MOVES
@pytest.mark.parametrize("model", [FREE, BINDING])
async def test_the_person_brings_it_back(provider: ScriptedProvider, clock: FrozenClock, model: str) -> None:
    """C29: undone, the messages stand where they stood; once undone there is nothing left to undo."""
    agent, snipping = opened(provider, clock, model=model)
    await worked(agent, provider, thinking=True)
    provider.script(call("Snip", messages=[2], reason="old"), say("gone"), say("on"))
    await played(agent, "tidy up")
    await played(agent, "go on")
    assert await snipping.undo() == "The messages of the last snip are back."
    assert await snipping.undo() is None
    provider.script(say("there it is"))
    await played(agent, "look again")
    assert "result 0" in shown(provider)
    assert ("thinking" in shown(provider)) == (model == FREE)
