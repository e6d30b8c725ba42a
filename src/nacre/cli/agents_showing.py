"""How agents look in a chat: a line while one is waited for, a few words in the status line, a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nacre.agents.team_state import AgentState
from nacre.cli.output import human_age, human_count, print_table
from nacre.cli.render import shorten

SHOWN_IN_STATUS = 3
"""Agents named in the status line; the rest are counted."""
WORDS_CHARS = 80
"""Of a report on the line that says that it is there."""
ENDED = {
    "completed": "is done",
    "idle": "is done and waits for letters",
    "failed": "has failed",
    "stopped": "was stopped",
    "stalled": "was stopped because it hung",
}


def waiting_line(states: Sequence[AgentState], now: datetime) -> str:
    """What the agents do that a turn waits for, in one line; empty where it waits for none."""
    waited_for = [each for each in states if each.is_running and not each.background]
    return " | ".join(
        f"{each.name}: {each.doing or 'starting'} ({max(0, (now - each.started).total_seconds()):.0f} s)"
        for each in waited_for
    )


def pills(states: Sequence[AgentState]) -> list[str]:
    """For the status line: who works in the background, and at what."""
    running = [each for each in states if each.is_running]
    shown = [f"{each.name}: {each.doing}" if each.doing else each.name for each in running[:SHOWN_IN_STATUS]]
    more = len(running) - len(shown)
    return [*shown, f"{more} more agent{'s' * (more != 1)}"] if more else shown


def ended_line(state: AgentState) -> str:
    """That an agent ended, how, and the first words of what it says."""
    words = shorten(state.result, WORDS_CHARS)
    spent = f"{state.seconds:.0f} s, {human_count(state.tokens)} tokens, ${state.cost_usd:.4f}"
    return f"{state.name} {ENDED.get(state.status, state.status)} ({spent})" + (f": {words}" if words else "")


def print_agents(states: Sequence[AgentState], now: datetime) -> None:
    """A row for each, the oldest first."""
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
