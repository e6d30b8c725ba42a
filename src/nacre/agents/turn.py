"""One user turn, told top to bottom: the words go to the log, the loop runs, the books are closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from nacre.agents.session import Session
from nacre.loop.limits import Limits
from nacre.loop.loop import Slots, run
from nacre.messages.events import Event, Outcome, ProviderEvent, Reply, StartedOver, TurnDone
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider
from nacre.tools.base import Tool


async def turn(
    session: Session, provider: Provider, text: str | None, *, tools: Mapping[str, Tool], limits: Limits
) -> AsyncGenerator[Event, None]:
    """From the person's text to the final reply; the text is on disk before anything is sent."""
    if text is not None:
        await session.add_user(text)
    for notice in session.notices():
        yield notice
    spent, rounds, last = Usage(), 0, None
    paid_before = session.meter.cost_usd

    def ask(view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        return session.telemetry.ask(provider, session.send(view, max_output))

    slots = Slots(fit=session.fit, keep=session.keep, heard=session.heard, sift=session.sift)
    hands = session.telemetry.tools(tools)
    loop = run(session.transcript, ask, hands, slots=slots, limits=limits, clock=session.clock)
    try:
        async with aclosing(loop) as events:
            async for event in events:
                match event:
                    case Reply():
                        spent, rounds, last = spent + event.usage, rounds + 1, event
                    case StartedOver(usage=Usage() as wasted):
                        session.pay(wasted)
                        spent += wasted
                    case _:
                        pass
                yield event
                for notice in session.notices():
                    yield notice
    except BaseException:
        session.cancelled()
        raise
    finally:
        await session.keeper.sync()
    outcome: Outcome = "answered" if last and not last.message.tool_calls else "turn_limit"
    yield TurnDone(outcome, rounds=rounds, usage=spent, cost_usd=session.meter.cost_usd - paid_before)
