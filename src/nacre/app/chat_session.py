"""A person in one session after another, whichever door they stand at: entering one, moving on, leaving."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeAlias

from nacre.agents.registry import AgentState
from nacre.app.layers import kept_warm
from nacre.app.open_agent import NEW, OpenedAgent, open_agent
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import TranscriptError
from nacre.formatting import printable
from nacre.hooks.points import EndReason
from nacre.providers.base import Provider
from nacre.session.session import Session
from nacre.session.session_log import NullRecordWriter
from nacre.settings import Settings
from nacre.store.sessions import Sessions
from nacre.store.summaries import SessionSummary
from nacre.tools.guard import Ask


@dataclass(frozen=True, slots=True)
class Leave:
    """The person is done."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Go on with another session, or with a new one."""

    session: str | None = NEW
    """None for one that leaves nothing on disk."""
    is_clear: bool = False
    """The new session stands in for the one that is left."""


Ending: TypeAlias = Leave | Reopen | None


@dataclass(frozen=True, slots=True)
class Place:
    """The session the person is in, and what must be let go when they leave it."""

    ready: OpenedAgent
    held: AsyncExitStack

    def leaves(self, reason: EndReason) -> None:
        """Have the person's commands told why."""
        if self.ready.hooks:
            self.ready.hooks.ending = reason


Enter: TypeAlias = Callable[[str | None], Awaitable[Place]]


async def enter(
    settings: Settings,
    session: str | None,
    *,
    ask: Ask | None,
    tell: Callable[[str], None],
    provider: Provider | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Place:
    """Open a session for a person: its cache is kept warm, and `tell` gets the countdown at its end."""
    held = AsyncExitStack()
    opening = open_agent(
        settings, provider=provider, session=session or NEW, ephemeral=session is None, ask=ask, clock=clock
    )
    try:
        ready = await held.enter_async_context(opening)
        ready.background.tell = tell
        await held.enter_async_context(kept_warm(ready.agent, settings))
    except BaseException:
        await held.aclose()
        raise
    return Place(ready, held)


def others(session: Session, settings: Settings) -> list[SessionSummary]:
    """Sessions of this directory that could be gone on with instead; raises where none may be looked at."""
    listed = reachable(session, settings).list(settings.cwd)
    return [each for each in listed if each.messages and each.session != session.id]


def reachable(session: Session, settings: Settings) -> Sessions:
    """Where other sessions lie; raises for one that leaves no trace, and a listing keeps what it has read."""
    if isinstance(session.writer, NullRecordWriter):
        raise TranscriptError(
            "this chat leaves nothing on disk and opens nothing there; start another for that"
        )
    return Sessions(settings.home)


async def move(here: Place, to: Reopen, enter: Enter, let_go: Callable[[Place], Awaitable[None]]) -> Place:
    """Let a session go only once the other is open: where that fails, the person stays."""
    if to.session == here.ready.agent.session.id:
        # The same one, read again: only one of them can hold it.
        here.leaves("resume")
        await let_go(here)
        return await enter(to.session)
    there = await enter(to.session)
    if to.is_clear and there.ready.hooks:
        there.ready.hooks.source = "clear"
    here.leaves("clear" if to.is_clear else "resume")
    try:
        await let_go(here)
    except BaseException:
        await there.held.aclose()
        raise
    return there


async def end_agent(ready: OpenedAgent, state: AgentState) -> str:
    """Stop an agent that works, or let one go that waits for letters; what there is to say about it."""
    waking = ready.mail.waking if ready.mail else None
    name = printable(state.name)
    if state.status == "idle" and waking is not None:
        await waking.end(state.name)
        return f"{name} has ended"
    if not state.is_running or ready.team is None:
        return f"{name} is not at work ({state.status})"
    # Its owner did not ask for this and is told how it ended.
    await ready.team.halt(state.name)
    return f"{name} was stopped; the model hears of it with your next message"
