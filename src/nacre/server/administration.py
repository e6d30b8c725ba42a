"""Operations beside memory: spaces, audit log, usage, background jobs, agents and mail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeAlias

from nacre.agents.directory import directory_json, find, is_recent, list_teams, post_of, team_of
from nacre.app.extract_once import conversation
from nacre.errors import MailError, TranscriptError
from nacre.inspect.stats import gather
from nacre.inspect.stats_json import stats_json
from nacre.layers.l7_mail.letter import EVERYONE, OTHER
from nacre.messages.blocks import JsonObject
from nacre.server.audit_log import AuditLog
from nacre.server.jobs import JobInput, Jobs
from nacre.server.keys import ApiKey
from nacre.server.operation import CURSOR, Answer, Call, Operation, ProblemError, one_of, whole_number
from nacre.server.schema import (
    AgentsAndTeams,
    AuditPage,
    JobEntry,
    JobList,
    JobRequest,
    MailSent,
    MailText,
    SpaceNames,
    Usage,
)
from nacre.settings import Settings

MAX_DAYS = 3_650
DEFAULT_DAYS = 30


def administration_operations(
    settings: Settings, audit: AuditLog, jobs: Jobs, mail: SendMail
) -> list[Operation]:
    """Return the operations; agents are those of the settings' home."""
    served = _Administration(settings, audit, jobs, mail)
    limit = whole_number("limit", "Maximum number of entries.", default=100, most=500)
    status = one_of("status", "Only jobs in this state.", ("queued", "running", "completed", "failed"))
    days = whole_number("days", "Number of days, including today.", default=DEFAULT_DAYS, most=MAX_DAYS)
    return [
        Operation(method="GET", path="/spaces", id="listSpaces", handler=served.spaces, answer=SpaceNames,
                  summary="List the spaces that the key may use.", has_space=False),
        Operation(method="GET", path="/audit-log", id="listAuditLog", needs="admin", handler=served.log,
                  parameters=(limit, CURSOR), summary="List writes, newest first.", answer=AuditPage,
                  has_space=False, needs_all_spaces=True),
        Operation(method="GET", path="/usage", id="getUsage", parameters=(days,), handler=served.usage,
                  summary="Summarise tokens, cost, cache hits and memories by day.", answer=Usage,
                  has_space=False, needs_all_spaces=True),
        Operation(method="GET", path="/jobs", id="listJobs", handler=served.jobs, answer=JobList,
                  parameters=(status,), summary="List background jobs, newest first.", has_space=False,
                  needs_all_spaces=True),
        Operation(method="POST", path="/jobs", id="startJob", needs="member", body=JobRequest,
                  handler=served.start, answer=JobEntry, status=HTTPStatus.ACCEPTED,
                  summary="Consolidate (`dream`) or index a space, or extract memories from a conversation."),
        Operation(method="GET", path="/agents", id="listAgents", handler=served.agents, has_space=False,
                  summary="List agents that run or ended within a day, and teams.", answer=AgentsAndTeams,
                  needs_all_spaces=True),
        Operation(method="POST", path="/mail", id="sendMail", needs="member", body=MailText,
                  handler=served.send, answer=MailSent, status=HTTPStatus.CREATED, has_space=False,
                  summary="Write to an agent, a session or a team.", needs_all_spaces=True),
    ]  # fmt: skip


class _Administration:
    def __init__(self, settings: Settings, audit: AuditLog, jobs: Jobs, mail: SendMail) -> None:
        self._settings = settings
        self._audit = audit
        self._jobs = jobs
        self._mail = mail

    async def spaces(self, call: Call) -> Answer:
        return Answer(content={"spaces": [*await call.spaces.names(call.key)]})

    async def log(self, call: Call) -> Answer:
        limit = call.query["limit"]
        found = await self._audit.newest(call.key.tenant, limit=limit, before=call.query["cursor"] or "")
        more = found[-1]["id"] if len(found) == limit else None
        return Answer(content={"entries": [*found], "next": more})

    async def usage(self, call: Call) -> Answer:
        days: int = call.query["days"]
        settings = await call.spaces.home(call.key)

        def read() -> JsonObject:
            return stats_json(gather(settings, days=days, everywhere=True), days)

        return Answer(content=await asyncio.to_thread(read))

    async def jobs(self, call: Call) -> Answer:
        found = await self._jobs.list(call.key, status=call.query["status"])
        return Answer(content={"jobs": [one.as_json() for one in found]})

    async def start(self, call: Call) -> Answer:
        space = await call.space()
        asked: JobRequest = call.body
        if (asked.kind == "extract") != bool(asked.messages):
            raise ProblemError(HTTPStatus.BAD_REQUEST, "an extract job needs messages, others take none")
        try:
            if asked.messages:
                conversation(asked.messages)
        except TranscriptError as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        wanted = JobInput(
            kind=asked.kind, space=call.space_name, session=asked.session, messages=asked.messages
        )
        job = await self._jobs.start(wanted, space, tenant=call.key.tenant, user=call.key.user)
        return Answer(content=job.as_json(), status=HTTPStatus.ACCEPTED)

    async def agents(self, call: Call) -> Answer:
        listed = await call.spaces.agents(call.key)
        now = call.clock.now()
        found = [each for each in listed if is_recent(each, now)]
        teams = await asyncio.to_thread(list_teams, self._settings.home)
        return Answer(content=directory_json(found, teams))

    async def send(self, call: Call) -> Answer:
        sent = await self._mail(call.key, call.body)
        return Answer(content=sent, status=HTTPStatus.CREATED)


SendMail: TypeAlias = Callable[[ApiKey, MailText], Awaitable[JsonObject]]


def send_on_disk(settings: Settings) -> SendMail:
    """Return what sends letters to the agents and teams of a home."""
    home = settings.home

    async def send(key: ApiKey, text: MailText) -> JsonObject:
        if ":" in text.to or (text.to == EVERYONE and not text.team):
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "write to a name or the beginning of a session's id; * needs a team",
            )
        try:
            roster = await asyncio.to_thread(team_of, home, text.team) if text.team else None
            target = None
            if text.to != EVERYONE:
                target = await asyncio.to_thread(find, home, settings.cwd, text.to, team=text.team)
        except MailError as error:
            raise ProblemError(HTTPStatus.NOT_FOUND, str(error)) from error
        post = post_of(f"{OTHER}{sender_name(key.user)}", target, roster)
        sent = await post.send(target.name if target else text.to, text.text, summary=text.summary)
        return {"to": [*sent.to], "ids": [*sent.ids], "waits": bool(target and target.is_gone)}

    return send


def sender_name(user: str) -> str:
    """Return a user's name as one word, usable in an address."""
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "-" for sign in user)
    return plain.strip("-_.")[:40] or "client"
