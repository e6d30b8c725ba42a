"""How agents look in a chat: a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nacre.agents.team_state import AgentState
from nacre.cli.output import human_age, human_count, print_table


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
