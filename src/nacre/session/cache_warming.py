"""Keeps the provider's cache warm while a person or a slow tool is waited for; a request stops it (C8b).

What it spends is booked beside the conversation; it never disturbs it: a failure ends it for the pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from nacre.cache.keep_warm import (
    Pause,
    Pauses,
    RefreshDecision,
    SessionCost,
    decide_refresh,
    seconds_to_refresh,
)
from nacre.cache.warmth import KeepWarmSettings
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Reply
from nacre.messages.records import Noted
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request, complete
from nacre.session.cache_ttl import pauses_in
from nacre.session.layer import Layer
from nacre.session.meter import KEEP_WARM, SIDE_QUERY
from nacre.session.session import AnsweredRequest, Session

Sleep = Callable[[float], Awaitable[None]]


READ_SHARE = 0.5
"""Of a refresh: one that reads less than this paid for a write, and the next would, too."""


_LOG = logging.getLogger(__name__)


class KeepWarm(Layer):
    """Owns one task at most: the refreshes of the pause that goes on."""

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
        """Refreshes of this pause that the log does not know of yet."""
        self._spent_usd = 0.0
        self._is_vain = False
        """The provider did not read its cache when it was asked to: it is not asked again."""
        self.last: RefreshDecision | None = None
        """What was decided last."""

    def on_reply(self, reply: Reply) -> None:
        self.begin()

    def begin(self) -> None:
        """From now on a person is waited for, or a tool: a question may be open, a command may run long."""
        answered = self._session.answered
        model = self._session.base.model
        is_able = self._provider.capabilities(model).refreshes and not self._is_vain
        if answered is None or not is_able or not can_refresh(answered.request) or self._task is not None:
            return
        # Looked at here, not when the task first runs: whatever is rewritten from now on counts.
        work = self._keep(answered, self._session.view)
        self._task = asyncio.create_task(work, name="keep the cache warm")

    async def before_turn(self) -> None:
        await self.rest()

    async def before_request(self) -> None:
        await self.rest()

    async def rest(self) -> None:
        """Stop at once; what was spent meanwhile is written down, and told with the next turn."""
        task = self._task
        self._task = None
        if task is not None:
            task.cancel()
            # Not awaited itself: its cancellation is no news, while one of the turn that waits here is.
            await asyncio.wait({task})
        if self._notes:
            await self._session.transcript.append(*self._notes)
            self._session.notify(told(len(self._notes), self._spent_usd))
            self._notes = []
            self._spent_usd = 0.0

    async def _keep(self, answered: AnsweredRequest, view: View) -> None:
        try:
            await self._refresh_while_worth(answered, view)
        except Exception:  # noqa: BLE001  a background task: nothing it meets may reach the chat
            _LOG.debug("the cache is not kept warm in this pause", exc_info=True)

    async def _refresh_while_worth(self, answered: AnsweredRequest, view: View) -> None:
        refreshes = 0
        while not self._is_vain:
            await self._sleep(seconds_to_refresh(self._pause(answered, refreshes), self.settings))
            # The whole log is read only once a pause is long: between the rounds of a turn it never is.
            self.last = self._verdict(answered, pauses_in(view.records), refreshes)
            # What was rewritten meanwhile will never be read again.
            if not self.last.is_worth or self._session.view.epochs != view.epochs:
                _LOG.debug("no refresh: %s", self.last.reason)
                return
            await self._refresh(answered.request)
            refreshes += 1

    def _pause(self, answered: AnsweredRequest, refreshes: int) -> Pause:
        warmth = self._session.warmth
        away = (warmth.now - answered.asked_at).total_seconds()
        return Pause(seconds=max(0.0, away), untouched_seconds=warmth.idle_seconds, refreshes=refreshes)

    def _verdict(self, answered: AnsweredRequest, pauses: Pauses, refreshes: int) -> RefreshDecision:
        meter = self._session.meter
        usage = answered.usage
        spent = SessionCost(
            conversation_usd=meter.cost_usd - meter.refresh_usd, warming_usd=meter.refresh_usd
        )
        prefix = self._session.prefix(usage.cache_read + usage.cache_write)
        pause = self._pause(answered, refreshes)
        return decide_refresh(pause, pauses, prefix=prefix, spent=spent, settings=self.settings)

    async def _refresh(self, request: Request) -> None:
        """The same bytes once more, with no reply asked for."""
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
        self._is_vain = _is_vain(reply.usage)


def can_refresh(request: Request) -> bool:
    """Whether the provider takes these bytes without asking for output: not with what forces an answer."""
    thinking = request.thinking or {}
    choice = request.options.get("tool_choice")
    is_forced = isinstance(choice, dict) and choice.get("type") in {"any", "tool"}
    output = request.options.get("output_config")
    is_shaped = request.output_schema is not None or (isinstance(output, dict) and "format" in output)
    return thinking.get("type") != "enabled" and not is_forced and not is_shaped


def told(refreshes: int, usd: float) -> str:
    """One line for the person."""
    times = "once" if refreshes == 1 else f"{refreshes} times"
    return f"kept the cache warm {times} during the pause: ${usd:.4f}"


def _is_vain(usage: Usage) -> bool:
    return usage.cache_read < READ_SHARE * usage.prompt
