"""Ties mail to a session: inboxes, posts, teams, and a socket for other sessions (A3)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from nacre.agents.agent import Agent
from nacre.agents.compacting_join import Staff
from nacre.agents.mail_room import MailRoom
from nacre.agents.mail_socket import join_socket
from nacre.agents.mail_teams import Teams
from nacre.agents.team import Team
from nacre.settings import Settings


async def join_mail(
    agent: Agent,
    staff: Staff,
    settings: Settings,
    stack: AsyncExitStack,
    *,
    team: Team | None,
    folder: Path | None,
) -> MailRoom | None:
    """Let the agents of a session write to each other; to be called behind everybody else who rides."""
    if not settings.switches.agents:
        return None
    teams = Teams(agent.session, settings, keeps=folder is not None)
    room = MailRoom(agent, staff, teams, folder=folder, team=team)
    room.join()
    stack.push_async_callback(room.close)
    await join_socket(room, agent.session, settings, stack)
    await teams.lead_again()
    await room.mailing.catch_up()
    return room
