"""Keeps the provider's cache warm while the session waits for a person or a slow tool (C8b).

A request stops it. Its cost is noted as side queries. A failure ends it until the next pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from nacre.cache.keep_warm import (
    Pause,
    RefreshDecision,
    SessionCost,
    decide_refresh,
    seconds_to_refresh,
)
from nacre.cache.warmth import KeepWarmSettings
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply
from nacre.messages.records import Noted
from nacre.messages.view import View
from nacre.providers.base import Provider, Request, complete
from nacre.session.cache_ttl import AnsweredRequest, pauses_in
from nacre.session.layer import Layer
from nacre.session.meter import KEEP_WARM, SIDE_QUERY
from nacre.session.session import Session

Sleep = Callable[[float], Awaitable[None]]


READ_SHARE = 0.5
"""A refresh that reads less than this share from the cache paid for a write, as the next one would."""


_LOG = logging.getLogger(__name__)


class KeepWarm(Layer):
    """Runs one task at most: the refreshes of the current pause."""

    def __init__(
        self,
        session: Session,
        provider: Provider,
        *,
        settings: KeepWarmSettings,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self._session = session
        self._provider = provider
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self._notes: list[Noted] = []
        """Notes on the refreshes of this pause that are not in the log yet."""
        self._spent_usd = 0.0
        self._is_useless = False
        """A refresh was not answered from the cache, so that no more are sent."""
        self.last: RefreshDecision | None = None

    def on_reply(self, reply: Reply) -> None:
        self.begin()

    def begin(self) -> None:
        """Start the refreshes of a pause: the session waits for the person or for tools."""
        answered = self._session.answered
        model = self._session.base.model
        is_able = self._provider.capabilities(model).refreshes and not self._is_useless
        if answered is None or not is_able or not can_refresh(answered.request) or self._task is not None:
            return
        # The view is taken now, not when the task first runs, so that every later rewrite is noticed.
        work = self._refresh_while_worth(answered, self._session.view)
        self._task = asyncio.create_task(work, name="keep the cache warm")

    async def before_turn(self) -> None:
        await self.rest()

    async def before_request(self) -> None:
        await self.rest()

    async def rest(self) -> None:
        """Stop the refreshes; their cost is written to the log and shown with the next turn."""
        task = self._task
        self._task = None
        if task is not None:
            task.cancel()
            # `await task` would raise the task's own cancellation; only one of this turn may be raised.
            await asyncio.wait({task})
        if self._notes:
            await self._session.transcript.append(*self._notes)
            times = "once" if len(self._notes) == 1 else f"{len(self._notes)} times"
            self._session.notify(f"kept the cache warm {times} during the pause: ${self._spent_usd:.4f}")
            self._notes = []
            self._spent_usd = 0.0

    async def _refresh_while_worth(self, answered: AnsweredRequest, view: View) -> None:
        refreshes = 0
        try:
            while not self._is_useless:
                touched_at = self._session.warmth.touched_at
                await self._sleep(seconds_to_refresh(self._pause(answered, refreshes), self.settings))
                if self._session.warmth.touched_at != touched_at:
                    continue  # a fork renewed the cache meanwhile
                # The whole log is read only after a long wait, never between the rounds of a turn.
                meter = self._session.meter
                self.last = decide_refresh(
                    self._pause(answered, refreshes),
                    pauses_in(view.records),
                    prefix=self._session.prefix(answered.usage.cache_read + answered.usage.cache_write),
                    spent=SessionCost(
                        conversation_usd=meter.cost_usd - meter.refresh_usd, warming_usd=meter.refresh_usd
                    ),
                    settings=self.settings,
                )
                # A prefix that was rewritten meanwhile will never be read again.
                if not self.last.is_worth or self._session.view.epochs != view.epochs:
                    _LOG.debug("no refresh: %s", self.last.reason)
                    return
                await self._refresh(answered.request)
                refreshes += 1
        except Exception:  # noqa: BLE001  a background task: no failure of it may reach the chat
            _LOG.debug("the cache is not kept warm in this pause", exc_info=True)

    def _pause(self, answered: AnsweredRequest, refreshes: int) -> Pause:
        warmth = self._session.warmth
        away = (warmth.now - answered.asked_at).total_seconds()
        return Pause(seconds=max(0.0, away), untouched_seconds=warmth.idle_seconds, refreshes=refreshes)

    async def _refresh(self, request: Request) -> None:
        """Send the same request again without asking for output."""
        began = self._session.clock.now()
        provider = self._session.telemetry.aside(self._provider, KEEP_WARM)
        async with asyncio.timeout(self.settings.margin_seconds):
            reply = await complete(provider, replace(request, max_tokens=0))
        before = self._session.meter.refresh_usd
        self._session.touch_cache(began)
        self._session.add_usage(reply.usage, reply.model, purpose=KEEP_WARM)
        self._spent_usd += self._session.meter.refresh_usd - before
        model = self._session.pricing_model(reply.model)
        usage = reply.usage.as_json()
        facts: JsonObject = {"purpose": KEEP_WARM, "model": model, "usage": usage}
        self._notes.append(Noted(id=self._session.clock.new_id(), at=began, kind=SIDE_QUERY, facts=facts))
        self._is_useless = reply.usage.cache_read < READ_SHARE * reply.usage.prompt


def can_refresh(request: Request) -> bool:
    """Return whether a request may ask for no output: not if its options force an answer."""
    thinking = request.thinking_config or {}
    choice = request.options.get("tool_choice")
    is_forced = isinstance(choice, dict) and choice.get("type") in {"any", "tool"}
    output = request.options.get("output_config")
    is_shaped = request.output_schema is not None or (isinstance(output, dict) and "format" in output)
    return thinking.get("type") != "enabled" and not is_forced and not is_shaped
