"""The end of one agent on a person's wish, whichever door they stand at."""

from __future__ import annotations

from nacre.agents.opening import Ready
from nacre.agents.team_state import AgentState
from nacre.plain import printable


async def end_agent(ready: Ready, state: AgentState) -> str:
    """Stop an agent that works, or let one go that waits for letters; what there is to say about it."""
    waking = ready.mail.waking if ready.mail else None
    name = printable(state.name)
    if state.status == "idle" and waking is not None:
        await waking.end(state.name)
        return f"{name} has ended"
    if not state.is_running or ready.team is None:
        return f"{name} is not at work ({state.status})"
    # Its owner did not ask for this and is told how it ended.
    await ready.team.halt(state.name)
    return f"{name} was stopped; the model hears of it with your next message"
