"""The provider's own compaction in a session: when it may be used, and how it is asked for (C23b)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial

from nacre.agents.meter import SIDE_QUERY, metered
from nacre.agents.session import Session
from nacre.cache.rules import profile
from nacre.errors import SummaryRejected, ThinkingMismatch
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.provider import (
    compaction_request,
    compacts,
    draft_of,
)
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply, StartedOver
from nacre.messages.records import Noted
from nacre.messages.rewrite import drop_thinking
from nacre.messages.summary import Draft
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider
from nacre.settings import Settings

PURPOSE = "compact"
"""Under this name it is booked, as a summary of ours is."""
SHARE_DECIMALS = 4


def compacts_there(session: Session, settings: Settings) -> bool:
    """Whether the provider compacts this session: switched on, and every model that may answer takes it."""
    models = [session.base.model, *([settings.fallback_model] if settings.fallback_model else [])]
    return settings.switches.compact_provider and compacts(profile(model) for model in models)


class CompactingThere:
    """Asks a session's provider for its block; what that costs is booked, whether or not it is of use."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        *,
        settings: CompactSettings,
        record: Callable[[Noted], None],
    ) -> None:
        """`record` takes what shall stand in the log at the next boundary."""
        self._session = session
        self._provider = provider
        self._settings = settings
        self._record = record

    async def __call__(self, view: View, *, focus: str = "") -> Draft:
        """The block for all of a view; raises `SummaryRejected`, or what the provider raises.

        Nothing of this view may stand behind the block: for a kept tail, ask for `before_pivot` of the view.
        """
        if view.open_calls:
            raise SummaryRejected("the provider compacts nothing while a tool call is unanswered")
        try:
            reply = await self._ask(view, focus)
        except ThinkingMismatch:
            dropped = drop_thinking(view.items, self._session.clock)
            if not dropped:
                raise
            reply = await self._ask(view.after(*dropped), focus)
        covers = next(item.record_id for item in reversed(view.items) if item.parts)
        return replace(draft_of(reply), covers=covers)

    async def _ask(self, view: View, focus: str) -> Reply:
        session = self._session
        asked = compaction_request(session.request(view, self._settings.summary_tokens), instructions=focus)
        begun = session.clock.now()
        reply: Reply | None = None
        stream = session.telemetry.ask(self._provider, asked, purpose=PURPOSE)
        pay = partial(self._pay, model=None, at=begun)
        async with aclosing(metered(stream, session.expected_input(view), pay)) as events:
            async for event in events:
                match event:
                    case Reply():
                        reply = event
                        self._pay(event.usage, model=event.model, at=begun)
                    case StartedOver(usage=Usage() as wasted):
                        pay(wasted)
                    case _:
                        pass
        if reply is None:
            raise SummaryRejected("the provider's answer never came")
        return reply

    def _pay(self, usage: Usage, *, model: str | None, at: datetime) -> None:
        session = self._session
        session.pay(usage, model, purpose=PURPOSE)
        facts: JsonObject = {
            "purpose": PURPOSE,
            "model": session.priced_as(model),
            "usage": usage.as_json(),
            "share": round(usage.hit_rate, SHARE_DECIMALS),
        }
        self._record(Noted(id=session.clock.new_id(), at=at, kind=SIDE_QUERY, facts=facts))
