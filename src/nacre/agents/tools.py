"""The tools by which a model starts other agents and stops them; their words never vary between sessions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Literal, Protocol

from nacre import prompts
from nacre.errors import ToolError
from nacre.tools.base import Tool, tool

AGENT = "Agent"
STOP = "TaskStop"
AGENT_WORDS = prompts.load(__package__, "tool_agent")
STOP_WORDS = prompts.load(__package__, "tool_task_stop")
NOBODY = "No agent can be started from here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What somebody wants an agent for."""

    prompt: str
    description: str = ""
    """In three to five words, for people and for lists."""
    type: str = "general"
    name: str = ""
    """Empty: one is made up."""
    background: bool = False
    isolation: Literal["", "worktree"] = ""
    team: str = ""
    """The team it is to be a member of; empty: none."""
    model: str = ""
    """Empty: what its kind says."""


class Crew(Protocol):
    """Whoever starts and stops agents."""

    async def answer(self, order: Order) -> str:
        """Start one; its report, or where that will come from. `ToolError` in one line refuses."""
        ...

    async def stop(self, name: str) -> str:
        """Stop one; what became of it."""
        ...


class Desk:
    """Where orders go; nobody sits there until a session has a team, because tools come first."""

    def __init__(self) -> None:
        self.crew: Crew | None = None

    @property
    def _crew(self) -> Crew:
        if self.crew is None:
            raise ToolError(NOBODY)
        return self.crew

    async def answer(self, order: Order) -> str:
        return await self._crew.answer(order)

    async def stop(self, name: str) -> str:
        return await self._crew.stop(name)


def team_tools(desk: Desk) -> list[Tool]:
    """Agent and TaskStop."""
    return [_agent_tool(desk), _stop_tool(desk)]


def _agent_tool(desk: Desk) -> Tool:
    @tool(name=AGENT, description=AGENT_WORDS)
    async def agent(  # noqa: PLR0913  # these are the arguments of the tool
        description: Annotated[str, "The task, in 3 to 5 words."],
        prompt: Annotated[str, "All that it needs to know."],
        subagent_type: Annotated[str, "Its kind."] = "general",
        name: Annotated[str, "To write to it by; made up if empty."] = "",
        run_in_background: Annotated[bool, "Do not wait for it."] = False,
        isolation: Annotated[Literal["", "worktree"], "`worktree`: on a branch of its own."] = "",
        team_name: Annotated[str, "Makes it a member of a team, who stays."] = "",
        model: Annotated[str, "Another model, or `small`."] = "",
    ) -> str:
        return await desk.answer(
            Order(
                prompt=prompt,
                description=description,
                type=subagent_type or "general",
                name=name,
                background=run_in_background,
                isolation=isolation,
                team=team_name,
                model=model,
            )
        )

    # It works elsewhere, guards its own time by the stall limit, and bounds its own result.
    return replace(agent, together=True, max_seconds=None, max_result_chars=inf)


def _stop_tool(desk: Desk) -> Tool:
    @tool(name=STOP, description=STOP_WORDS)
    async def task_stop(name: Annotated[str, "The agent's name."]) -> str:
        return await desk.stop(name)

    return task_stop
