"""Opens the sessions of a chat one after another, for the line mode and for the full screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from nacre.agents.registry import AgentState
from nacre.app.endings import Reopen
from nacre.app.open_agent import NEW, OpenedAgent, open_agent
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import TranscriptError
from nacre.formatting import printable
from nacre.hooks.points import EndReason
from nacre.providers.base import Provider
from nacre.session.agent import SessionAgent
from nacre.session.cache_warming import KeepWarm, Sleep
from nacre.session.log_writer import NullRecordWriter
from nacre.session.session import Session
from nacre.settings import Settings
from nacre.store.sessions import Sessions
from nacre.store.summaries import SessionSummary
from nacre.tools.guard import Ask


@dataclass(frozen=True, slots=True)
class OpenedChat:
    """The open session of a chat, and the stack that closes it."""

    ready: OpenedAgent
    held: AsyncExitStack

    def set_end_reason(self, reason: EndReason) -> None:
        """Set the reason that the SessionEnd hooks get."""
        if self.ready.hooks:
            self.ready.hooks.ending = reason


Enter: TypeAlias = Callable[[str | None], Awaitable[OpenedChat]]


async def open_chat(
    settings: Settings,
    session: str | None,
    *,
    ask: Ask | None,
    on_countdown: Callable[[str], None],
    provider: Provider | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> OpenedChat:
    """Open a session for a chat, with its cache kept warm; `on_countdown` gets the countdown at its end."""
    held = AsyncExitStack()
    opening = open_agent(
        settings, provider=provider, session=session or NEW, ephemeral=session is None, ask=ask, clock=clock
    )
    try:
        ready = await held.enter_async_context(opening)
        ready.background.on_progress = on_countdown
        await held.enter_async_context(keep_cache_warm(ready.agent, settings))
    except BaseException:
        await held.aclose()
        raise
    return OpenedChat(ready, held)


@asynccontextmanager
async def keep_cache_warm(
    agent: SessionAgent, settings: Settings, *, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[KeepWarm | None]:
    """Refresh the provider's cache between requests where that pays, unless it is switched off."""
    if settings.switches.keep_warm is False:
        yield None
        return
    warmer = KeepWarm(agent.session, agent.provider, settings=settings.keep_warm, sleep=sleep)
    session = agent.session
    session.keep_warm = warmer.settings
    session.add_layers(warmer)
    try:
        yield warmer
    finally:
        session.remove_layer(warmer)
        await warmer.rest()


def other_sessions(session: Session, settings: Settings) -> list[SessionSummary]:
    """Return the other sessions of this directory; raises `TranscriptError` in an ephemeral chat."""
    listed = session_store(session, settings).list(settings.cwd)
    return [each for each in listed if each.messages and each.session != session.id]


def session_store(session: Session, settings: Settings) -> Sessions:
    """Return the stored sessions; raises `TranscriptError` in an ephemeral chat."""
    if isinstance(session.writer, NullRecordWriter):
        raise TranscriptError(
            "this chat leaves nothing on disk and opens nothing there; start another for that"
        )
    return Sessions(settings.home)


async def switch_session(
    here: OpenedChat, to: Reopen, open_chat: Enter, let_go: Callable[[OpenedChat], Awaitable[None]]
) -> OpenedChat:
    """Open the next session before the current one is closed; if that fails, the current one stays."""
    if to.session == here.ready.agent.session.id:
        # The same session again: only one process can have it open, so it is closed first.
        here.set_end_reason("resume")
        await let_go(here)
        return await open_chat(to.session)
    there = await open_chat(to.session)
    if to.is_clear and there.ready.hooks:
        there.ready.hooks.source = "clear"
    here.set_end_reason("clear" if to.is_clear else "resume")
    try:
        await let_go(here)
    except BaseException:
        await there.held.aclose()
        raise
    return there


async def end_agent(ready: OpenedAgent, state: AgentState) -> str:
    """Stop a running agent or end a waiting one; returns a line for the person."""
    waking = ready.mail.waking if ready.mail else None
    name = printable(state.name)
    if state.status == "idle" and waking is not None:
        await waking.end(state.name)
        return f"{name} has ended"
    if not state.is_running or ready.team is None:
        return f"{name} is not at work ({state.status})"
    # Its owner did not ask for this and gets a report on how it ended.
    await ready.team.halt(state.name)
    return f"{name} was stopped; the model hears of it with your next message"
