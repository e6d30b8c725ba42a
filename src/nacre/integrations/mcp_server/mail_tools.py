"""Mail tools: a client gets a mailbox in a team and may write to agents (A3).

Messages are returned until they are confirmed, so that one whose answer was lost is returned again.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from typing import TYPE_CHECKING, Annotated

from nacre import prompts
from nacre.errors import MailError, ToolError
from nacre.integrations.mcp_server.base import CALLER, PROJECT, Answer, Offered
from nacre.integrations.mcp_server.project import Project, Projects
from nacre.layers.l7_mail.inbox import InboxPosition
from nacre.layers.l7_mail.letter import EVERYONE, OTHER, Letter
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.layers.l7_mail.post import SentLetters
from nacre.memory.checks.local_only import LocalOnlyEntries
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.untrusted_text import neutralise
from nacre.tools.base import Tool, tool

if TYPE_CHECKING:
    from nacre.agents.directory import MailTarget
    from nacre.agents.team_roster import Roster, TeamMember

SEND = prompts.load(__package__, "tool_mail_send")
READ = prompts.load(__package__, "tool_mail_read")
AGENT_TYPE = "mcp"
"""Agent type of clients in a roster."""
TEAM = "The team; `nacre agents list` shows them."
NAME = "Your name in the team, if not the one your program goes by."


class MailTools:
    """The mailboxes that clients of this server use."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self._joined: dict[tuple[str, str], tuple[Roster, TeamMember]] = {}

    def tools(self) -> list[Offered]:
        """Return both tools; reading means joining a team, so a read-only server offers neither."""
        return [
            Offered(self._send(), "Write to an agent", idempotent=False),
            Offered(self._read(), "Read your mail"),
        ]

    async def close(self) -> None:
        """Leave all teams; messages stay in their mailboxes."""
        for roster, member in self._joined.values():
            await asyncio.to_thread(roster.leave, member)
        self._joined.clear()

    def _send(self) -> Tool:
        @tool(name="mail_send", description=SEND)
        async def send(
            to: Annotated[
                str, "The name of an agent, the beginning of a session's id, or * for the whole team."
            ],
            message: Annotated[str, "The letter."],
            team: Annotated[str | None, f"{TEAM} Needed for *."] = None,
            summary: Annotated[str | None, "One line for display; else the first line."] = None,
            project: Annotated[str | None, PROJECT] = None,
        ) -> Answer:
            one = await self._projects.one(project)
            if ":" in to or (to == EVERYONE and not team):
                raise ToolError("write to a name or the beginning of a session's id; `*` needs a team")
            sent, target = await self._sent(one, to, message, team=team or "", summary=summary or "")
            waits = f" {target.name} is not running; it waits." if target and target.is_gone else ""
            text = f"Sent to {', '.join(sent.to)} (id {', '.join(sent.ids)}).{waits}"
            return Answer.of(text, {"to": [*sent.to], "ids": [*sent.ids], "waits": bool(waits)})

        return send

    def _read(self) -> Tool:
        @tool(name="mail_read", description=READ)
        async def read(
            team: Annotated[str, TEAM],
            after: Annotated[str | None, "The cursor of an answer whose letters you have dealt with."] = None,
            name: Annotated[str | None, NAME] = None,
            project: Annotated[str | None, PROJECT] = None,
        ) -> Answer:
            one = await self._projects.one(project)
            roster, member = await self._member(one, team, name or "")
            box = Mailbox(roster.inbox_path(member.name))
            if after:
                await asyncio.to_thread(box.settle, _place(after))
            found = await asyncio.to_thread(box.waiting)
            staying = await one.staying()
            answer: JsonObject = {
                "name": member.name,
                "team": roster.team,
                "letters": [_as_json(each, staying) for each in found.letters],
                "cursor": _cursor(found.position),
                "more": found.has_more,
            }
            return Answer.of(json.dumps(answer, ensure_ascii=False), answer)

        return read

    async def _sent(
        self, project: Project, to: str, text: str, *, team: str, summary: str
    ) -> tuple[SentLetters, MailTarget | None]:
        from nacre.agents.directory import find, post_of  # noqa: PLC0415 - only mail needs sessions

        home = project.settings.home
        cwd = project.settings.cwd
        target = None if to == EVERYONE else await asyncio.to_thread(find, home, cwd, to, team=team)
        roster: Roster | None = None
        sender = f"{OTHER}{CALLER.get().client}"
        if team:
            roster, member = await self._member(project, team)
            sender = member.name
        post = post_of(sender, target, roster)
        return await post.send(target.name if target else to, text, summary=summary), target

    async def _member(self, project: Project, team: str, name: str = "") -> tuple[Roster, TeamMember]:
        """Return the client's membership in a team, created on its first message there."""
        from nacre.agents.directory import team_of  # noqa: PLC0415 - only mail needs sessions
        from nacre.agents.team_roster import member_here  # noqa: PLC0415 - see above

        caller = CALLER.get()
        known = self._joined.get((caller.key, team))
        if known and known[0].exists:
            if name and name != known[1].name:
                raise MailError(f"you are {known[1].name} in team {team}; leave `name` out")
            return known
        roster = team_of(project.settings.home, team)
        member = member_here(name or caller.client, agent_type=AGENT_TYPE, cwd=str(project.settings.cwd))
        await asyncio.to_thread(roster.join, member)
        self._joined[caller.key, team] = (roster, member)
        return roster, member


def _as_json(letter: Letter, staying: LocalOnlyEntries) -> JsonObject:
    said: JsonObject = {
        "id": letter.id,
        "from": letter.sender,
        "to": letter.to,
        "at": letter.at.isoformat(),
        "kind": letter.kind,
        "summary": staying.without(neutralise(letter.summary)),
        "message": staying.without(neutralise(letter.text)),
    }
    return said if letter.approves is None else {**said, "approve": letter.approves}


def _cursor(place: InboxPosition) -> str:
    packed = json.dumps([place.generation, place.offset, place.mark]).encode()
    return base64.urlsafe_b64encode(packed).decode()


def _place(cursor: str) -> InboxPosition:
    """Parse what `_cursor` packed; a position outside the mailbox has no effect."""
    try:
        found: Json = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (binascii.Error, ValueError, RecursionError):
        found = None
    match found:
        case [str(generation), int(offset), str(mark)]:
            return InboxPosition(generation, offset, mark)
        case _:
            raise ToolError("`after` is no cursor of mail_read; leave it out to read from where you were")
