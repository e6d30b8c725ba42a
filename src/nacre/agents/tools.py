"""The tools that start and stop agents and change the tasks of a team; the same text in all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeAlias

from nacre import prompts
from nacre.agents.team_roster import Roster
from nacre.errors import MailError, ToolError
from nacre.messages.untrusted_text import neutralise
from nacre.tools.base import Tool, tool

if TYPE_CHECKING:
    from nacre.agents.team_tasks import TaskList, TeamTask

AGENT = "Agent"
STOP = "TaskStop"
AGENT_WORDS = prompts.load(__package__, "tool_agent")
STOP_WORDS = prompts.load(__package__, "tool_task_stop")
CANNOT_START = "No agent can be started from here."


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """A request to start an agent."""

    prompt: str
    description: str = ""
    """Three to five words, for display."""
    type: str = "general"
    name: str = ""
    """Empty: a name is generated."""
    background: bool = False
    isolation: Literal["", "worktree"] = ""
    team: str = ""
    """Team to join; empty: none."""
    model: str = ""
    """Empty: the model of its type."""


class AgentStarter(Protocol):
    """Starts and stops agents."""

    async def answer(self, order: AgentRequest) -> str:
        """Start an agent and return its report or a note; raises `ToolError` if refused."""
        ...

    async def stop(self, name: str) -> str:
        """Stop an agent and return what happened."""
        ...


class AgentBinding:
    """Connects the tools with the agents of a session, which are set up after the tools."""

    def __init__(self) -> None:
        self.starter: AgentStarter | None = None

    def require(self) -> AgentStarter:
        """Return what starts and stops agents; raises `ToolError` if nothing does."""
        if self.starter is None:
            raise ToolError(CANNOT_START)
        return self.starter


def team_tools(binding: AgentBinding) -> list[Tool]:
    """Return the tools Agent and TaskStop."""

    @tool(name=AGENT, description=AGENT_WORDS)
    async def agent(  # noqa: PLR0913  # these are the arguments of the tool
        description: Annotated[str, "3 to 5 words."],
        prompt: str,
        subagent_type: str = "general",
        name: Annotated[str, "To write to it by."] = "",
        run_in_background: bool = False,
        isolation: Annotated[Literal["", "worktree"], "`worktree`: a branch of its own."] = "",
        team_name: Annotated[str, "A team that it joins, and stays."] = "",
        model: Annotated[str, "Another model, or `small`."] = "",
    ) -> str:
        return await binding.require().answer(
            AgentRequest(
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

    @tool(name=STOP, description=STOP_WORDS)
    async def task_stop(name: str) -> str:
        return await binding.require().stop(name)

    # Agent runs separately, limits its own time by the stall limit, and its own result.
    return [replace(agent, together=True, max_seconds=None, max_result_chars=inf), task_stop]


NAME = "TeamTasks"
DESCRIPTION = prompts.load(__package__, "team_tasks")
NO_TEAM = (
    "You are in no team, so there are no shared tasks. Agent with team_name starts a team and its members."
)
SHOWN_TASKS = 100
"""Maximum number in one answer, open tasks first."""
MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

Action: TypeAlias = Literal["list", "add", "claim", "complete", "release"]


class TeamTaskBinding:
    """Connects the tool with the tasks of a team, which is joined after the tools are built."""

    def __init__(self) -> None:
        self._roster: Roster | None = None
        self._name = ""

    def belong_to(self, roster: Roster, name: str) -> None:
        """Use the tasks of this team, claimed in this name."""
        self._roster = roster
        self._name = name

    async def ask(self, act: Callable[[Roster, str], str]) -> str:
        """Run a function on the team's tasks in a thread, because it waits for a lock and the disk."""
        roster = self._roster
        if roster is None:
            raise ToolError(NO_TEAM)
        try:
            return await asyncio.to_thread(act, roster, self._name)
        except MailError as error:
            raise ToolError(neutralise(f"{str(error)[:1].upper()}{str(error)[1:]}.")) from error


def team_tasks_tool(binding: TeamTaskBinding) -> Tool:
    """Return the tool that lists, adds, claims, completes and releases tasks."""

    @tool(name=NAME, description=DESCRIPTION)
    async def team_tasks(
        action: Action,
        task: Annotated[int | None, "Its number."] = None,
        title: Annotated[str, "For add."] = "",
        detail: Annotated[str, "For add."] = "",
        blocked_by: Annotated[list[int] | None, "For add: what must be completed first."] = None,
        blocks: Annotated[list[int] | None, "For add: what waits for it."] = None,
    ) -> str:
        def add(roster: Roster) -> str:
            added = roster.tasks.add(title, detail, blocked_by=blocked_by or (), blocks=blocks or ())
            return f"Added task {added.id}: {neutralise(added.title)}"

        match action:
            case "list":
                return await binding.ask(lambda roster, name: _listed(_swept(roster, name), task))
            case "add":
                return await binding.ask(lambda roster, _: add(roster))
            case "claim":
                return await binding.ask(lambda roster, name: _claimed(roster, name, task))
            case "complete":
                return await binding.ask(lambda roster, name: _completed(roster, name, task))
            case "release":
                return await binding.ask(
                    lambda roster, name: f"Released: {_numbers(roster.tasks.release(name, task))}."
                )

    return team_tasks


def _swept(roster: Roster, name: str) -> TaskList:
    """Return the list after releasing the tasks of members that have ended."""
    tasks = roster.tasks.list()
    living = {name, *(each.name for each in roster.members() if roster.is_alive(each))}
    orphans = [task for task in tasks.tasks if task.state == "in_progress" and task.owner not in living]
    return roster.tasks.give_back(orphans) if orphans else tasks


def _listed(tasks: TaskList, number: int | None) -> str:
    if number is not None:
        return _whole(tasks, tasks.of(number))
    shown = sorted(tasks.tasks, key=lambda task: (task.state == "completed", task.id))
    lines = [_line(tasks, task) for task in shown[:SHOWN_TASKS]]
    if more := len(shown) - len(lines):
        done = sum(task.state == "completed" for task in shown[SHOWN_TASKS:])
        lines.append(f"… and {more} more, {done} of them completed")
    return "\n".join(lines) or "The list is empty."


def _claimed(roster: Roster, name: str, number: int | None) -> str:
    _swept(roster, name)
    task = roster.tasks.claim(number, name)
    return f"Claimed. {_whole(roster.tasks.list(), task)}"


def _completed(roster: Roster, name: str, number: int | None) -> str:
    if number is None:
        raise MailError("complete needs the number of the task")
    task = roster.tasks.complete(number, name)
    tasks = roster.tasks.list()
    free = [each for each in tasks.tasks if each.id in task.blocks and not tasks.waits_for(each)]
    return f"Completed task {task.id}." + (f" Free now: {_numbers(free)}." if free else "")


def _whole(tasks: TaskList, task: TeamTask) -> str:
    return "\n".join(filter(None, (_line(tasks, task), neutralise(task.detail))))


def _line(tasks: TaskList, task: TeamTask) -> str:
    waits = tasks.waits_for(task)
    words = f"{task.id}. {MARKS[task.state]} {neutralise(task.title)}"
    owner = f" — {task.owner}" if task.owner else ""
    return words + owner + (f" (waits for {_numbers(waits)})" if waits else "")


def _numbers(tasks: tuple[TeamTask, ...] | list[TeamTask]) -> str:
    return ", ".join(str(task.id) for task in tasks) or "nothing"
