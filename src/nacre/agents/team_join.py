"""Ties a team to a session: its kinds of agents, and those that an earlier process left behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from nacre.agents.agent import Agent
from nacre.agents.agent_types import agent_types
from nacre.agents.child import Parent
from nacre.agents.compacting_join import Staff
from nacre.agents.knowing import Known
from nacre.agents.progress import join_progress
from nacre.agents.team import House, Team
from nacre.agents.team_disk import own_process, read_states, write_state
from nacre.agents.team_state import AgentState, Roll
from nacre.agents.team_tools import AGENT
from nacre.groups import is_alive
from nacre.settings import Settings

UNFINISHED = "It did not finish: the program ended while it was at work. It can be told to go on."


def join_team(
    agent: Agent, settings: Settings, staff: Staff, known: Known, *, folder: Path | None, leaves: bool
) -> Team | None:
    """Let a session have agents, if its model can start some; those of an earlier process stand still.

    `folder` is the session's, `leaves` as in `recollect`.
    """
    if AGENT not in agent.tools:
        return None
    session, forker = agent.session, staff.forker
    types = agent_types(settings)
    for line in (*types.notices, *types.unknown_tools(agent.tools)):
        session.notify(line)
    roll = Roll(folder=folder)
    if folder is not None:
        roll.keep = partial(write_state, folder)
        recover(roll, read_states(folder))
    parent = Parent(
        agent=agent,
        hands=staff.hands,
        settings=settings,
        forker=forker,
        folder=folder,
        origins=known.witness,
        leaves=leaves,
    )
    progress = join_progress(session, settings, forker.background)
    team = Team(parent, House(roll=roll, types=types, hooks=staff.hooks, progress=progress))
    team.join()
    return team


def recover(roll: Roll, states: Iterable[AgentState]) -> None:
    """Put those on the roll that another process has left; who was at work then did not finish."""
    own = own_process()[0]
    for state in states:
        roll.states[state.name] = state
        is_elsewhere = state.pattern == "teammate" and state.pid != own
        if is_elsewhere and is_alive(state.pid, state.process_start):
            continue
        if state.is_running:
            # Also one that was waited for: the call that waited was answered as interrupted.
            roll.put(replace(state, status="stopped", background=True, result=UNFINISHED, doing=""))
        elif state.status == "idle":
            roll.put(replace(state, status="stopped"))
