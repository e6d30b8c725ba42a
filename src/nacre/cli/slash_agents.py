"""`/agents` in a chat: who works at what, what one has reported, and the end of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.agents.in_words import ENDED
from nacre.cli.agents_showing import print_agents
from nacre.cli.output import print_error, printable
from nacre.clock import SYSTEM_CLOCK
from nacre.errors import ToolError

if TYPE_CHECKING:
    from nacre.agents.opening import Ready
    from nacre.agents.team import Team
    from nacre.agents.team_state import AgentState

STOP, SHOW = "stop", "show"


async def agents_now(ready: Ready, text: str) -> None:
    """List them, or do what the words behind `/agents` say with one."""
    team = ready.team
    if team is None:
        print_error("there are no agents here: the model has no tool to start some (switches.agents)")
        return
    what, _, name = text.partition(" ")
    name = name.strip()
    if not text:
        _list(team)
    elif what not in {STOP, SHOW} or not name:
        print_error("type /agents, /agents show NAME or /agents stop NAME")
    else:
        try:
            state = team.house.roll.find(name)
            await _stop(ready, state) if what == STOP else _show(state)
        except ToolError as error:
            print_error(str(error))


def _list(team: Team) -> None:
    states = team.states()
    if not states:
        print("no agent was started in this session yet")
        return
    print_agents(states, SYSTEM_CLOCK.now())
    if any(each.is_running for each in states):
        print("/agents show NAME shows what one has reported, /agents stop NAME ends one")


async def _stop(ready: Ready, state: AgentState) -> None:
    waking = ready.mail.waking if ready.mail else None
    name = printable(state.name)
    if state.status == "idle" and waking is not None:
        await waking.end(state.name)
        print(f"{name} has ended")
    elif not state.is_running or ready.team is None:
        print(f"{name} is not at work ({state.status})")
    else:
        # Its owner did not ask for this and is told how it ended.
        await ready.team.halt(state.name)
        print(f"{name} was stopped; the model hears of it with your next message")


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
