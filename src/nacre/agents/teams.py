"""The teams of a session: created with the first member, joined, and left at the end (A6).

The agent that creates a team leads it under the name `main`. A session without files on disk has no teams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from nacre.agents.registry import AgentState
from nacre.agents.team import Team
from nacre.agents.team_roster import Roster, TeamMember, member_here
from nacre.agents.tools import AgentRequest
from nacre.errors import MailError, ToolError
from nacre.layers.l7_mail.letter import MAIN
from nacre.layers.l7_mail.mailbox import peek
from nacre.messages.records import Noted
from nacre.session.session import Session
from nacre.settings import Settings

LEADS = "leads"
"""Kind of the note with the teams that the session leads."""
NOT_KEPT = "This session leaves nothing on disk, and a team does: start the agent without team_name."


class AgentStopper(Protocol):
    """Can end an idle agent."""

    async def end(self, name: str) -> AgentState: ...


class Teams:
    """The teams of a session and its members in this process."""

    def __init__(self, session: Session, settings: Settings, *, keeps: bool, name: str = MAIN) -> None:
        self.name = name
        """Name of the session itself in its teams."""
        self.rosters: dict[str, Roster] = {}
        self.joined: Callable[[str], None] = lambda team: None
        """Called with every team that the session itself joins."""
        self.one_by_one = asyncio.Lock()
        """Held while a member is added: calls of one reply run concurrently."""
        self._session = session
        self.settings = settings
        self._keeps = keeps
        self._places: dict[str, tuple[str, TeamMember]] = {}
        self._led: frozenset[str] = frozenset()
        self._leaving: set[asyncio.Task[None]] = set()

    def inbox_path(self, team: str, name: str) -> Path:
        """Return the path of a member's inbox."""
        return Roster(self.settings.home, team).inbox_path(name)

    def find(self, name: str, team: str | None) -> Path | None:
        """Return the inbox path of a member of a team, or of any team of the session, or None."""
        rosters = self.rosters.values() if team is None else filter(None, [self.rosters.get(team)])
        return next((roster.inbox_path(name) for roster in rosters if roster.member(name)), None)

    def people(self, team: str | None = None) -> Sequence[str]:
        """Return the running members of a team, or of all teams of the session."""
        rosters = [one for one in self.rosters.values() if team in {None, one.team}]
        return [each.name for roster in rosters for each in roster.members() if roster.is_alive(each)]

    async def lead_again(self) -> None:
        """Lead the teams again that a resumed session led before, if they still need a lead."""
        note = self._session.view.last_noted(LEADS) if self._keeps else None
        led = note.fact("teams") if note is not None else []
        for team in map(str, led if isinstance(led, list) else []):
            with suppress(MailError):
                if await asyncio.to_thread(self._needs_lead, team):
                    await self._lead(team)

    def _needs_lead(self, team: str) -> bool:
        """Whether a member is running or has sent a letter."""
        roster = Roster(self.settings.home, team)
        lives = any(roster.is_alive(each) for each in roster.members() if each.name != self.name)
        return lives or (roster.exists and bool(peek(roster.inbox_path(self.name)).waiting))

    async def enlist(self, team: str, name: str, kind: str) -> None:
        """Add an agent of this session to a team, and create the team if needed."""
        if not self._keeps:
            raise ToolError(NOT_KEPT)
        try:
            if team not in self.rosters:
                await self._lead(team)
            if self.settings.agents.teammates == "process":
                await asyncio.to_thread(self._check_free, team, name)
            else:
                await self._join(team, name, kind)
        except MailError as error:
            raise ToolError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error

    def heard_person(self) -> None:
        """Record a person's input for the members of the teams that this session leads."""
        for team in self._led:
            self.rosters[team].heard_person()

    async def come_back(self, state: AgentState) -> None:
        """Add a resumed agent to its team again."""
        if state.name not in self._places:
            await self.enlist(state.team, state.name, state.type)

    def left(self, name: str) -> None:
        """Remove an ended agent from its team in the background."""
        if name in self._places:
            task = asyncio.create_task(self.leave(name), name=f"leave for {name}")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def leave(self, name: str) -> None:
        """Remove an agent from its team and release its tasks."""
        team, member = self._places.pop(name, ("", None))
        if member is not None:
            with suppress(MailError):
                await asyncio.to_thread(self.rosters[team].leave, member)

    async def close(self) -> None:
        """Leave all teams; letters and tasks stay."""
        if self._leaving:
            await asyncio.wait(self._leaving)
        for name in list(self._places):
            await self.leave(name)

    async def stand_in(self, roster: Roster, kind: str) -> None:
        """Add the session itself as a member."""
        self.rosters[roster.team] = roster
        await self._join(roster.team, self.name, kind)
        self.joined(roster.team)

    async def _lead(self, team: str) -> None:
        roster = Roster(self.settings.home, team, notify=self._session.notify, clock=self._session.clock)
        lead = self._member(self.name, "")
        await asyncio.to_thread(roster.create, lead)
        self.rosters[roster.team] = roster
        self._places[f"{self.name}@{roster.team}"] = (roster.team, lead)
        clock = self._session.clock
        self._led = self._led | {roster.team}
        note = Noted(id=clock.new_id(), at=clock.now(), kind=LEADS, facts={"teams": [*sorted(self._led)]})
        await self._session.transcript.append(note)
        self.joined(roster.team)

    async def _join(self, team: str, name: str, kind: str) -> None:
        member = self._member(name, kind)
        await asyncio.to_thread(self.rosters[team].join, member)
        self._places[name] = (team, member)

    def _check_free(self, team: str, name: str) -> None:
        """Refuse a taken name early; a teammate in its own process joins by itself."""
        roster = self.rosters[team]
        member = roster.member(name)
        if member is not None and roster.is_alive(member):
            raise MailError(f"{name} is taken in team {team}; choose another name")

    def _member(self, name: str, kind: str) -> TeamMember:
        session = self._session.id
        cwd = str(self.settings.cwd)
        return member_here(name, agent_type=kind, session=session, cwd=cwd, clock=self._session.clock)


class TeamAgentStarter:
    """Starts agents that are members of teams: they join the roster before they run."""

    def __init__(self, team: Team, teams: Teams, ender: AgentStopper) -> None:
        self._team = team
        self._teams = teams
        self._ender = ender

    async def answer(self, order: AgentRequest) -> str:
        """Start an agent, as a member of its team if one is named."""
        if not order.team:
            return await self._team.answer(order)
        async with self._teams.one_by_one:
            name = self._team.shared.registry.named(order.name, order.type)
            await self._teams.enlist(order.team, name, order.type)
            try:
                # Returns soon: teammates run in the background. The name is not registered until then.
                return await self._team.answer(replace(order, name=name))
            except BaseException:
                await self._teams.leave(name)
                raise

    async def stop(self, name: str) -> str:
        """Stop an agent, also an idle one."""
        state = self._team.shared.registry.find(name)
        if state.status != "idle":
            return await self._team.stop(name)
        state = await self._ender.end(name)
        return f"{name} has ended."
