"""The mail of one session: the inboxes and senders of all its agents (A3).

The session itself is `main`; in a teammate's own process it has the teammate's name, and `main` is the lead
of the team. Letters to a member of a team are stored with the team, all others with the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from nacre.agents.process_teammates import ProcessTeammates
from nacre.agents.registry import OVER, AgentState
from nacre.agents.run import ChildAgent
from nacre.agents.team import Team
from nacre.agents.team_roster import INBOXES, Roster
from nacre.agents.teams import TeamAgentStarter, Teams
from nacre.agents.toolset import Toolset
from nacre.agents.waking import AgentPost, AgentWaker, is_from_person
from nacre.layers.l7_mail.inbox import Inbox, MemoryInbox
from nacre.layers.l7_mail.layer import MAIL, Mail
from nacre.layers.l7_mail.letter import MAIN, Letter
from nacre.layers.l7_mail.mailbox import Mailbox, box_path
from nacre.layers.l7_mail.post import no_wake
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.layer import Attachment


class MailRoom:
    """The mail of one session; `folder` is the session's, None if it has no log."""

    def __init__(
        self,
        agent: SessionAgent,
        toolset: Toolset,
        background: Background,
        teams: Teams,
        *,
        folder: Path | None,
        team: Team | None = None,
    ) -> None:
        self.teams = teams
        self.team = team
        self._folder = folder
        self._address = ""
        self._settings = teams.settings
        self._boxes: dict[str, Inbox] = {}
        self._bindings = toolset.bindings
        self._agent = agent
        self._background = background
        self.mailing = Mail(agent.session, self.inbox(MAIN))
        self.mailing.holds_turns = True
        self.waking = AgentWaker(self, team, background, agent.session.notify) if team else None
        self.post = self._new_post(teams.name)
        self.mailing.plan = self.post.plan

    def join(self) -> None:
        """Add mail to the session and to those of all its agents."""
        self._bindings.mail.belong_to(self.post)
        self._agent.session.add_layers(self.mailing)
        self.mailing.on_prompt = self.heard_person
        self.teams.joined = self._on_join
        if self.team is not None and self.waking is not None:
            self.team.shared.on_open.append(self._on_open)
            self.team.shared.registry.on_change.append(self.waking.on_change)
            self._bindings.agents.starter = TeamAgentStarter(self.team, self.teams, self.waking)
            shared = self.team.shared
            session = self._agent.session
            self.waking.elsewhere = ProcessTeammates(
                session, self._settings, self.teams, shared.registry, self._background
            )
            self.mailing.on_letters = self.waking.elsewhere.hear
            shared.start_process = self.waking.elsewhere.start

    async def become(self, name: str, roster: Roster, kind: str) -> None:
        """Make the session a member of another session's team, under its own name."""
        self.teams.name = name
        self.post = self._new_post(name)
        self.mailing.plan = self.post.plan
        self._bindings.mail.belong_to(self.post)
        self.mailing.shows = _is_shown
        self.mailing.holds_turns = False
        await self.teams.stand_in(roster, kind)
        await self.mailing.catch_up()

    async def heard_person(self) -> None:
        """Reset the delivery limits after input from a person, here and in processes of teammates."""
        if self.waking is not None:
            self.waking.heard_person()
        await asyncio.to_thread(self.teams.heard_person)

    async def close(self) -> None:
        """Stop waiting for letters and leave the teams; new letters stay in the inboxes."""
        if self.waking is not None:
            if self.waking.elsewhere is not None:
                await self.waking.elsewhere.close()
            await self.waking.close()
        await self.teams.close()

    async def redacted(self, text: str) -> str:
        """Return the text of letters without what must stay on this machine (M27)."""
        attachments = await self._agent.session.redacted([Attachment(kind=MAIL, text=text)])
        return "\n\n".join(one.text for one in attachments)

    def answer_at(self, address: str) -> None:
        """Use this address as the sender of letters to other sessions."""
        self._address = address
        self.post.answer_at(address)

    def inbox(self, name: str) -> Inbox:
        """Return the inbox of an agent of this session: with its team, with the session, or in memory."""
        if name not in self._boxes:
            state = self.states.get(name)
            path = self.teams.inbox_path(state.team, name) if state and state.team else None
            if path is None and self._folder is not None:
                path = box_path(self._folder / INBOXES, name)
            self._boxes[name] = Mailbox(path) if path else MemoryInbox()
        return self._boxes[name]

    @property
    def states(self) -> dict[str, AgentState]:
        """Return the agents of the session by name."""
        return self.team.shared.registry.states if self.team else {}

    def find(self, asker: str, name: str) -> Inbox | None:
        """Return the inbox that a name means to a sender; None if there is none."""
        if name in self.states:
            return self.inbox(name)
        is_top = asker == self.teams.name
        if name == MAIN and not is_top:
            return self.inbox(MAIN)
        mine = self.states[asker].team if asker in self.states else None
        path = self.teams.find(name, None if is_top else mine or "")
        return Mailbox(path) if path else None

    def everyone(self, asker: str) -> Sequence[str]:
        """Return the receivers of `*`: the sender's team, or the agents of the session and its teams."""
        own = self.states.get(asker)
        if own is not None and own.team:
            return self.teams.people(own.team)
        here = [one.name for one in self.states.values() if one.status not in OVER]
        top = [] if asker == self.teams.name else [MAIN]
        return list(dict.fromkeys([*top, *here, *(self.teams.people() if not top else ())]))

    def _new_post(self, name: str) -> AgentPost:
        post = AgentPost(
            name,
            find=partial(self.find, name),
            everyone=partial(self.everyone, name),
            wake=self.waking.wake if self.waking else no_wake,
            clock=self._agent.session.clock,
        )
        post.others = lambda: tuple(self.states)
        if self._address:
            post.answer_at(self._address)
        return post

    def _on_open(self, child: ChildAgent, state: AgentState) -> None:
        """Add mail and team membership to a child before it starts."""
        assert self.waking is not None, "who has children can wake them"
        post = self._new_post(state.name)
        mailing = Mail(child.session, self.inbox(state.name))
        mailing.shows = _is_shown
        mailing.plan = post.plan
        bindings = child.toolset.bindings
        bindings.mail.belong_to(post)
        child.session.add_layers(mailing)
        if state.team and (roster := self.teams.rosters.get(state.team)) is not None:
            bindings.team_tasks.belong_to(roster, state.name)
        if isinstance(own := bindings.agents.starter, Team):
            bindings.agents.starter = TeamAgentStarter(own, self.teams, self.waking)
        self.waking.open(state.name, mailing, post)

    def _on_join(self, team: str) -> None:
        """Add the inbox of a team to the session."""
        roster = self.teams.rosters[team]
        name = self.teams.name
        inbox = Mailbox(roster.inbox_path(name))
        self.mailing.inboxes.append(inbox)
        if self.waking is not None and self.waking.elsewhere is not None:
            self.waking.elsewhere.listen(inbox, self.mailing.known)
        self._bindings.team_tasks.belong_to(roster, name)


def _is_shown(letter: Letter) -> bool:
    """Whether a letter is shown to the model; a person's shutdown request is carried out instead."""
    return not is_from_person(letter)


FOLDER = "run"
ENDING = ".sock"


ID_CHARS = 8
"""Characters of the session id in a socket path, which must be short."""


def socket_path(home: Path, session: str) -> Path:
    """Return the path of the socket of a session."""
    return home / FOLDER / f"{session[:ID_CHARS]}{ENDING}"
