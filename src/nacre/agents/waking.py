"""Wakes the agents of a session for their letters, also those that have ended.

Letters can come from other processes, and during an agent's last reply, so each agent is watched as long as
it exists. A user's request to end it is carried out at once (A4).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Protocol

from nacre.agents.process_teammates import ProcessTeammates
from nacre.agents.registry import OVER, AgentState
from nacre.agents.team import Team
from nacre.agents.teams import Teams
from nacre.errors import MailError, NacreError
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.layer import DeliveryLimit, Mail, render_letters
from nacre.layers.l7_mail.letter import Kind, Letter
from nacre.layers.l7_mail.post import Post, SentLetters
from nacre.session.background import AGENT_PURPOSE, Background

PERSON = "uds:"
"""Address prefix of a user's command that ends an agent; no agent of a session or team has it."""


class InboxRoom(Protocol):
    """Gives access to inboxes."""

    teams: Teams

    def inbox(self, name: str) -> Inbox: ...

    async def redacted(self, text: str) -> str:
        """Return a text without what must not leave the machine (M27)."""
        ...


@dataclass(slots=True, eq=False)
class _WatchedAgent:
    """The task that waits for the letters of one agent."""

    task: asyncio.Task[None] | None = None
    mailing: Mail | None = None
    """The agent's mail layer, if it is open."""
    post: AgentPost | None = None
    recheck: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wakes: DeliveryLimit = field(default_factory=DeliveryLimit)
    handled: set[str] = field(default_factory=set)
    """Ids of processed letters: users' requests to end, and letters to a fork."""


class AgentWaker:
    """Wakes the agents of a session that run in this process."""

    def __init__(
        self, room: InboxRoom, team: Team, background: Background, notify: Callable[[str], None]
    ) -> None:
        """`notify` shows a line to the user."""
        self._room = room
        self._notify = notify
        self._team = team
        self._background = background
        self._watched: defaultdict[str, _WatchedAgent] = defaultdict(_WatchedAgent)
        self._is_closed = False
        self.elsewhere: ProcessTeammates | None = None
        """The teammates in separate processes."""

    def open(self, name: str, mailing: Mail, post: AgentPost) -> None:
        """Start waiting for the letters of an agent."""
        watched = self._watched[name]
        watched.mailing = mailing
        watched.post = post
        mailing.may_deliver = partial(self._may_deliver, name)
        self._watch(name)

    async def wake(self, name: str) -> None:
        """Run an idle agent after a letter was put into its inbox.

        Raises `MailError` if letters have woken it too often.
        """
        state = self._states.get(name)
        if state is None or self._is_closed:
            return
        if self.elsewhere is not None and self.elsewhere.has(state):
            await self.elsewhere.wake(state)
            return
        await self._run_for_letters(name)
        self._watch(name)
        if self._watched[name].wakes.held:
            raise MailError(self._watched[name].wakes.reasons[1])

    def heard_person(self) -> None:
        """Reset the delivery limits of all agents after input from a person."""
        for watched in self._watched.values():
            watched.wakes.reset()

    def on_change(self, state: AgentState) -> None:
        """Check for letters again after the state of an agent has changed."""
        if self._is_closed or state.is_running:
            return
        if state.status in OVER:
            self._room.teams.left(state.name)
        for watched in self._watched.values():
            watched.recheck.set()

    async def end(self, name: str) -> AgentState:
        """End an agent, running or not; letters to it are still stored."""
        if self.elsewhere is not None and self.elsewhere.has(self._states[name]):
            return self._team.shared.registry.change(name, status="stopped", told=self._states[name].run)
        if self._states[name].is_running:
            await self._team.halt(name)
        await self._background.wait(f"{AGENT_PURPOSE} {name}")  # its tools may not have ended yet
        state = self._states[name]
        if state.status == "idle":
            state = self._team.shared.registry.change(name, status="completed", told=state.run)
        if (member := self._team.shared.members.get(name)) is not None:
            await member.close()
        return state

    async def close(self) -> None:
        """Stop waiting for letters."""
        self._is_closed = True
        tasks = [watched.task for watched in self._watched.values() if watched.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def _states(self) -> dict[str, AgentState]:
        return self._team.shared.registry.states

    def _watch(self, name: str) -> None:
        watched = self._watched[name]
        if watched.task is None or watched.task.done():
            watched.task = asyncio.create_task(self._deliver(name, watched), name=f"letters of {name}")
        watched.recheck.set()

    async def _deliver(self, name: str, watched: _WatchedAgent) -> None:
        """Wait for letters until the agent has ended and has none left."""
        with self._room.inbox(name).wakeup() as wakeup:
            while True:
                watched.recheck.clear()
                waits = True
                # The sender got the error; here it is tried again once another agent has ended.
                with suppress(NacreError):
                    await self._obey_person(name, watched)
                    waits = await self._run_for_letters(name)
                state = self._states[name]
                if state.status in OVER and not waits:
                    return
                await first_of(wakeup.wait(), watched.recheck.wait())

    async def _run_for_letters(self, name: str) -> bool:
        """Run an idle agent for its letters; return whether letters still wait."""
        watched = self._watched[name]
        async with watched.lock:
            state = self._states[name]
            if state.is_running:
                return False
            if watched.post is not None and watched.post.is_leaving:
                # It agreed to shut down, and its turn has ended.
                watched.post.is_leaving = False
                await self.end(name)
            letters = [one for one in await self._waiting(name, watched) if not is_from_person(one)]
            new = watched.wakes.new(letters)
            if not any(_wakes(letter, state) for letter in new):
                return bool(watched.wakes.held)
            if not watched.wakes.allows(new):
                self._notify_once(name, new)
                return True
            if state.team:
                await self._room.teams.come_back(state)
            is_fork = state.pattern == "fork"
            await self._team.resume(
                name, await self._room.redacted(render_letters(letters)) if is_fork else ""
            )
            watched.wakes.woken()
            if is_fork:
                # A fork has no mail layer: the letters in its prompt count as received.
                watched.handled |= {letter.id for letter in letters}
                inbox = self._room.inbox(name)
                found = await asyncio.to_thread(inbox.waiting, watched.handled)
                if not found.letters:
                    await asyncio.to_thread(inbox.settle, found.position)
            return False

    def _notify_once(self, name: str, held: Sequence[Letter]) -> None:
        """Notify the person; once for agents that answer each other: the first that stops ends it for all."""
        watched = self._watched[name]
        senders = {letter.sender for letter in held} & self._watched.keys()
        if not any(self._watched[one].wakes.is_notified for one in {name, *senders}):
            watched.wakes.is_notified = True
            self._notify(watched.wakes.reasons[0].format(name=name))

    async def _may_deliver(self, name: str, letters: Sequence[Letter]) -> bool:
        """Whether letters may be attached in an agent's running turn; notifies the person if not."""
        watched = self._watched[name]
        if watched.wakes.delivers(letters):
            return True
        watched.wakes.held |= {letter.id for letter in letters}
        self._notify_once(name, letters)
        return False

    async def _waiting(self, name: str, watched: _WatchedAgent) -> Sequence[Letter]:
        known = watched.handled | (watched.mailing.known() if watched.mailing else set())
        return (await asyncio.to_thread(self._room.inbox(name).waiting, known)).letters

    async def _obey_person(self, name: str, watched: _WatchedAgent) -> None:
        """End an agent at a person's request, and answer it."""
        letters = await self._waiting(name, watched)
        state = self._states[name]
        for letter in letters:
            if not is_from_person(letter):
                continue
            watched.handled.add(letter.id)
            if letter.at < state.started or state.status in OVER:
                continue
            if watched.post is not None:
                with suppress(MailError):
                    await watched.post.send(
                        letter.sender, "", kind="shutdown_response", approves=True, answers=letter.id
                    )
                watched.post.is_leaving = False
            await self.end(name)


def _wakes(letter: Letter, state: AgentState) -> bool:
    """Whether a letter wakes a stopped agent; one that was already there when it was stopped does not."""
    return state.status != "stopped" or letter.at >= state.started + timedelta(seconds=state.seconds)


def is_from_person(letter: Letter) -> bool:
    """Whether a letter is a shutdown request of a person."""
    return letter.kind == "shutdown_request" and letter.sender.startswith(PERSON)


async def first_of(*waits: Awaitable[object]) -> None:
    """Wait for the first of these and cancel the others."""
    tasks = {asyncio.ensure_future(wait) for wait in waits}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class AgentPost(Post):
    """Sends letters, and records whether the agent has agreed to shut down."""

    is_leaving = False
    others: Callable[[], Sequence[str]] = tuple
    """Names that `*` does not include: agents that have ended and can be woken."""

    def known_names(self) -> Sequence[str]:
        """Return all names, also of ended agents."""
        return list(dict.fromkeys([*super().known_names(), *self.others()]))

    async def send(
        self,
        to: str,
        text: str,
        *,
        summary: str = "",
        kind: Kind = "text",
        approves: bool | None = None,
        answers: str = "",
    ) -> SentLetters:
        """Send a letter; an agent that agrees to shut down ends after its turn."""
        sent = await super().send(to, text, summary=summary, kind=kind, approves=approves, answers=answers)
        self.is_leaving |= kind == "shutdown_response" and approves is True
        return sent
