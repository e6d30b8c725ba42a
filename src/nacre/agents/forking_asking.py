"""The requests of a fork: its parent's bytes before its own, booked beside the conversation (F1, F4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from nacre.agents.background import IN_BACKGROUND, Background
from nacre.agents.lifetimes import TOUCHED
from nacre.agents.meter import SIDE_QUERY, metered
from nacre.agents.session import Session
from nacre.cache.breakpoints import place
from nacre.cache.rules import profile
from nacre.errors import SpendCapReached
from nacre.loop.fork import Errand
from nacre.messages.blocks import JsonObject
from nacre.messages.events import ProviderEvent, Reply, StartedOver, Waiting
from nacre.messages.records import Noted
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request
from nacre.tools.base import Tool

TOUCHED_SHARE = 0.5
"""Of a fork's request: where it read this much, the provider's cache lives on from there."""
SHARE_DECIMALS = 4


@dataclass(slots=True)
class Asking:
    """The requests of one fork: the parent's bytes before its own, booked beside the conversation."""

    session: Session
    provider: Provider
    background: Background
    errand: Errand
    began: asyncio.Event
    """Set once a reply begins: what was sent is in the provider's cache from then on."""
    shared: int | None = None
    """How many messages it has in common with the parent, and with other forks of this view."""
    requests: int = 0
    fork_id: str = ""

    def request(self, view: View, max_output: int) -> Request:
        """The parent's bytes with what is the fork's own behind them."""
        if self.shared is None:
            self.shared = len(self.session.request(view, max_output).messages) - 1
        return self.session.request(view, max_output, branch_at=self.shared)

    @property
    def asked_model(self) -> str | None:
        """Whose prices count where no reply says who answered; none: the session's."""
        return None

    def expected_input(self, view: View) -> Usage:
        return self.session.expected_input(view)

    async def ask(self, view: View, max_output: int) -> AsyncGenerator[ProviderEvent, None]:
        """The loop's slot; the parent's own books are not touched."""
        session, source = self.session, self.errand.source
        self._check_cap()
        self.fork_id = self.fork_id or session.clock.new_id()
        request, begun = self.request(view, max_output), session.clock.now()
        stream = session.telemetry.ask(self.provider, request, purpose=source)
        pay = partial(self._pay, model=self.asked_model, at=begun)
        async with aclosing(metered(stream, self.expected_input(view), pay)) as events:
            async for event in events:
                if not isinstance(event, Waiting | StartedOver):
                    self.began.set()
                match event:
                    case Reply():
                        is_touched = self._touches(view, event.usage, begun)
                        self._pay(event.usage, event.model, at=begun, is_touched=is_touched)
                    case StartedOver(usage=Usage() as wasted):
                        pay(wasted)
                    case _:
                        pass
                yield event

    def _touches(self, view: View, usage: Usage, begun: datetime) -> bool:
        """Whether the provider's cache of what the parent sends next lives on from here; says so."""
        last = self.session.warmth.touched_at
        is_later = last is None or begun > last
        is_same = view.epochs == self.session.view.epochs and usage.hit_rate >= TOUCHED_SHARE
        if is_later and is_same:
            self.session.touched(begun)
        return is_same

    def _pay(self, usage: Usage, model: str | None, *, at: datetime, is_touched: bool = False) -> None:
        session, source = self.session, self.errand.source
        self.requests += 1
        session.pay(usage, model, purpose=source)
        facts: JsonObject = {
            "purpose": source,
            "model": session.priced_as(model),
            "usage": usage.as_json(),
            "share": round(usage.hit_rate, SHARE_DECIMALS),
            "fork": self.fork_id,
            "request": self.requests,
            TOUCHED: is_touched,
        }
        self.background.record(Noted(id=session.clock.new_id(), at=at, kind=SIDE_QUERY, facts=facts))

    def _check_cap(self) -> None:
        why = self.background.allows(self.errand.source) if IN_BACKGROUND.get() else None
        if why is not None:
            raise SpendCapReached(why)


@dataclass(slots=True, kw_only=True)
class AskingAside(Asking):
    """The same of another model, which shares nothing: of the tools it is told those it may call."""

    model: str
    tools: Sequence[Tool]

    def request(self, view: View, max_output: int) -> Request:
        definitions = [one.definition for one in sorted(self.tools, key=lambda one: one.name)]
        rules = profile(self.model)
        system, tools, messages = place([], definitions, view.messages, profile=rules)
        most = min(max_output, rules.max_output)
        return Request(model=self.model, system=system, tools=tools, messages=messages, max_tokens=most)

    @property
    def asked_model(self) -> str | None:
        return self.model

    def expected_input(self, view: View) -> Usage:
        return Usage(input=view.count(), approximate=True)

    def _touches(self, view: View, usage: Usage, begun: datetime) -> bool:
        return False
