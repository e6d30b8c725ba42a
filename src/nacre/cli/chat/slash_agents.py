"""`/agents`: list agents, show a report, stop one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.app.chat_session import end_agent
from nacre.app.session_text import ENDED
from nacre.cli.output import print_error, printable
from nacre.clock import SYSTEM_CLOCK
from nacre.errors import ToolError

if TYPE_CHECKING:
    from nacre.agents.registry import AgentState
    from nacre.agents.team import Team
    from nacre.app.open_agent import OpenedAgent
from collections.abc import Sequence
from datetime import datetime

from nacre.agents.registry import AgentState
from nacre.cli.output import human_age, human_count, print_table

STOP = "stop"
SHOW = "show"


async def agents_now(ready: OpenedAgent, text: str) -> None:
    """List agents, or apply the words after `/agents` to one."""
    team = ready.team
    if team is None:
        print_error("agents are switched off (switches.agents)")
        return
    what, _, name = text.partition(" ")
    name = name.strip()
    if not text:
        _list(team)
    elif what not in {STOP, SHOW} or not name:
        print_error("type /agents, /agents show NAME or /agents stop NAME")
    else:
        try:
            state = team.shared.registry.find(name)
            print(await end_agent(ready, state)) if what == STOP else _show(state)
        except ToolError as error:
            print_error(str(error))


def _list(team: Team) -> None:
    states = team.states()
    if not states:
        print("no agent was started in this session yet")
        return
    print_agents(states, SYSTEM_CLOCK.now())
    if any(each.is_running for each in states):
        print("/agents show NAME shows a report, /agents stop NAME stops an agent")


def _show(state: AgentState) -> None:
    task = printable(state.description) or "no description"
    if state.is_running:
        print(f"{printable(state.name)} ({printable(state.type)}): {task}")
        print(f"at work: {printable(state.doing) or 'starting'}")
        return
    print(f"{printable(state.name)} {ENDED.get(state.status, state.status)}: {task}")
    for line in state.result.strip().splitlines():
        print(f"  {printable(line)}")
    if state.worktree:
        print(f"what it changed is in {printable(state.worktree)} (branch {printable(state.branch)})")


def print_agents(states: Sequence[AgentState], now: datetime) -> None:
    """Print a row per agent, oldest first."""
    print_table(
        [
            [
                each.name,
                each.type,
                each.status,
                human_age(each.started, now),
                human_count(each.tokens),
                f"${each.cost_usd:.4f}",
                (each.doing if each.is_running else "") or each.description or "-",
            ]
            for each in states
        ],
        header=["name", "type", "status", "age", "tokens", "money", "doing"],
        right=(4, 5),
    )
