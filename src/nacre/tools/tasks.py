"""TaskList: the task list of a session, kept through every compaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from nacre import prompts
from nacre.errors import ToolError
from nacre.messages.blocks import Json
from nacre.tools.base import Tool, tool

DESCRIPTION = prompts.load("nacre.tools", "task_list")

State: TypeAlias = Literal["pending", "in_progress", "done", "cancelled"]
MARKS: dict[str, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]", "cancelled": "[-]"}
TASKS = "tasks"
"""The kind of log note that holds the task list."""
MAX_TASKS = 100
"""A longer list belongs into a plan file."""
MAX_TITLE_CHARS = 300
"""A title is one line."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task."""  # part of the schema that every request sends

    title: str
    state: State = "pending"


class TaskBoard:
    """The task list of one session; `changed` is awaited after every change."""

    def __init__(self, tasks: Sequence[Task] = ()) -> None:
        self.tasks = tuple(tasks)
        self.changed: Callable[[tuple[Task, ...]], Awaitable[None]] = _ignore

    def __str__(self) -> str:
        lines = (f"{n}. {MARKS[task.state]} {task.title}" for n, task in enumerate(self.tasks, 1))
        return "\n".join(lines) or "The list is empty."

    async def set(self, tasks: Sequence[Task]) -> None:
        self.tasks = tuple(tasks)
        await self.changed(self.tasks)


def stored(tasks: Sequence[Task]) -> list[Json]:
    """Return the list as JSON for a log note."""
    return [[task.title, task.state] for task in tasks]


def restored(rows: Json) -> TaskBoard:
    """Return the board from a log note; invalid rows are left out."""
    tasks = []
    for row in rows if isinstance(rows, list) else []:
        match row:
            case [str(title), str(state)] if state in MARKS:
                tasks.append(Task(title, cast("State", state)))
            case _:
                pass
    return TaskBoard(tasks)


def task_list_tool(board: TaskBoard) -> Tool:
    """Return the tool that shows the list or replaces it."""

    @tool(name="TaskList", description=DESCRIPTION)
    async def task_list(tasks: list[Task] | None = None) -> str:
        if tasks is not None:
            if len(tasks) > MAX_TASKS:
                raise ToolError(f"{len(tasks)} tasks are too many; keep at most {MAX_TASKS}.")
            if not all(0 < len(task.title.strip()) <= MAX_TITLE_CHARS for task in tasks):
                raise ToolError(f"Every task needs a title of at most {MAX_TITLE_CHARS} characters.")
            await board.set([Task(" ".join(task.title.split()), task.state) for task in tasks])
        return str(board)

    return task_list


async def _ignore(tasks: tuple[Task, ...]) -> None:
    return None
