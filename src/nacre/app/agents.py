"""Adds agents and mail to a session, with the agents of earlier processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from nacre.agents.activity import PURPOSE, ActivityModel, ActivityWatcher
from nacre.agents.child_spec import ParentAgent
from nacre.agents.mail_room import MailRoom, socket_path
from nacre.agents.registry import AgentRegistry, AgentState, own_process, read_states, write_state
from nacre.agents.team import Team, TeamContext
from nacre.agents.teams import Teams
from nacre.agents.tools import AGENT
from nacre.agents.types import agent_types
from nacre.app.child import check_process_child, open_child
from nacre.app.compaction import SessionServices
from nacre.app.startup_context import StartupContext
from nacre.errors import ConfigError, MailError
from nacre.layers.l7_mail.letter import MAIN, Letter
from nacre.layers.l7_mail.uds import serve
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Noted
from nacre.messages.usage import Usage
from nacre.process import is_alive
from nacre.providers.choose import build, choose, leaves_machine
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.meter import SIDE_QUERY
from nacre.session.session import Session
from nacre.settings import Settings

UNFINISHED = "It did not finish: the program ended while it was at work. It can be told to go on."


def add_team(
    agent: SessionAgent,
    settings: Settings,
    staff: SessionServices,
    known: StartupContext,
    *,
    folder: Path | None,
    leaves: bool,
) -> Team | None:
    """Add agents to a session if its model can start some; those of an earlier process do not run.

    `folder` is the session's, `leaves` as in `load_startup_context`.
    """
    if AGENT not in agent.tools:
        return None
    session = agent.session
    forker = staff.forks
    types = agent_types(settings)
    for line in (*types.notices, *types.unknown_tools(agent.tools)):
        session.notify(line)
    registry = AgentRegistry(folder=folder)
    if folder is not None:
        registry.keep = partial(write_state, folder)
        recover(registry, read_states(folder))
    parent = ParentAgent(
        agent=agent,
        toolset=staff.toolset,
        settings=settings,
        forker=forker,
        folder=folder,
        origins=known.origin_tracker,
        open_child=open_child,
        check_process_child=check_process_child,
        leaves=leaves,
    )
    progress = join_progress(session, settings, forker.background)
    team = Team(parent, TeamContext(registry=registry, types=types, hooks=staff.hooks, progress=progress))
    team.join()
    return team


def recover(registry: AgentRegistry, states: Iterable[AgentState]) -> None:
    """Register the agents of an earlier process; running ones count as not finished."""
    own = own_process()[0]
    for state in states:
        registry.states[state.name] = state
        is_elsewhere = state.pattern == "teammate" and state.pid != own
        if is_elsewhere and is_alive(state.pid, state.process_start):
            continue
        if state.is_running:
            # In the background: a call that waited for it was answered as interrupted.
            registry.put(replace(state, status="stopped", background=True, result=UNFINISHED, doing=""))
        elif state.status == "idle":
            registry.put(replace(state, status="stopped"))


async def add_mail(
    agent: SessionAgent,
    staff: SessionServices,
    settings: Settings,
    stack: AsyncExitStack,
    *,
    team: Team | None,
    folder: Path | None,
) -> MailRoom | None:
    """Add mail to a session; called last, so that letters are attached last."""
    if not settings.switches.agents:
        return None
    teams = Teams(agent.session, settings, keeps=folder is not None)
    room = MailRoom(agent, staff.toolset, staff.background, teams, folder=folder, team=team)
    room.join()
    stack.push_async_callback(room.close)
    await join_socket(room, agent.session, settings, stack)
    await teams.lead_again()
    await room.mailing.catch_up()
    return room


async def join_socket(room: MailRoom, session: Session, settings: Settings, stack: AsyncExitStack) -> None:
    """Listen on a socket in an interactive session with a log, except in bare mode.

    A letter is in the inbox before its sender gets the confirmation. If no socket can be created, the user
    gets a notice, and everything else continues.
    """
    if not settings.is_interactive or not room.is_kept or settings.memory.simple:
        return
    path = socket_path(settings.home, session.id)

    async def accept(letter: Letter) -> None:
        await asyncio.to_thread(room.inbox(MAIN).put, letter)

    try:
        await stack.enter_async_context(serve(path, accept))
    except MailError as error:
        session.notify(f"other sessions cannot write to this one: {error}")
        return
    room.answer_at(f"uds:{path}")


def join_progress(session: Session, settings: Settings, background: Background) -> ActivityWatcher:
    """Return the activity watcher of a session, with a model if one is named, else by rule."""
    return ActivityWatcher(settings.agents.progress_seconds, _onlooker(session, settings, background))


def _onlooker(session: Session, settings: Settings, background: Background) -> ActivityModel | None:
    named = settings.roles.summary or settings.small_model
    if named is None:
        return None
    try:
        choice = choose(named, settings.environ)
    except ConfigError as error:
        session.notify(f"{error}; until then the activity of agents is described by rule")
        return None
    leaves = leaves_machine(choice, settings.environ)
    if choice.provider_name == "embedded" or (session.telemetry.hides_words and leaves):
        return None
    provider = build(choice, settings.environ)
    background.resources.push_async_callback(provider.close)

    def pay(usage: Usage, model: str) -> None:
        session.add_usage(usage, model, purpose=PURPOSE)
        priced = session.pricing_model(model)
        facts: JsonObject = {"purpose": PURPOSE, "model": priced, "usage": usage.as_json()}
        note = Noted(id=session.clock.new_id(), at=session.clock.now(), kind=SIDE_QUERY, facts=facts)
        background.record(note)

    return ActivityModel(
        provider=session.telemetry.aside(provider, PURPOSE),
        model=choice.model,
        pay=pay,
        allows=background.allows,
        leaves=leaves,
    )
