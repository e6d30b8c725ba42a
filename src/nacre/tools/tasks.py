"""TaskList: a plain list of what is to be done, kept with the session and through every compaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, cast

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
"""A longer list is a plan in a file, not something to keep in view."""
MAX_TITLE_CHARS = 300
"""A task is named in a line; what it means in detail stands elsewhere."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to be done."""

    title: str
    state: State = "pending"


class TaskBoard:
    """The list of one session; whoever keeps it is told of every change."""

    def __init__(self, tasks: Sequence[Task] = ()) -> None:
        self.tasks = tuple(tasks)
        self.changed: Callable[[tuple[Task, ...]], Awaitable[None]] = _nobody

    def __str__(self) -> str:
        lines = (f"{n}. {MARKS[task.state]} {task.title}" for n, task in enumerate(self.tasks, 1))
        return "\n".join(lines) or "The list is empty."

    async def set(self, tasks: Sequence[Task]) -> None:
        self.tasks = tuple(tasks)
        await self.changed(self.tasks)


def stored(tasks: Sequence[Task]) -> list[Json]:
    """The list as it goes into a record."""
    return [[task.title, task.state] for task in tasks]


def restored(rows: Json) -> TaskBoard:
    """The board a record holds; what is no task is left out."""
    tasks = []
    for row in rows if isinstance(rows, list) else []:
        match row:
            case [str(title), str(state)] if state in MARKS:
                tasks.append(Task(title, cast("State", state)))
            case _:
                pass
    return TaskBoard(tasks)


def task_list_tool(board: TaskBoard) -> Tool:
    """Shows the list, or sets it whole."""

    @tool(name="TaskList", description=DESCRIPTION)
    async def task_list(tasks: Annotated[list[Task] | None, "The whole list, in order."] = None) -> str:
        if tasks is not None:
            _check(tasks)
            await board.set([Task(" ".join(task.title.split()), task.state) for task in tasks])
        return str(board)

    return task_list


def _check(tasks: list[Task]) -> None:
    if len(tasks) > MAX_TASKS:
        raise ToolError(f"{len(tasks)} tasks are too many; keep at most {MAX_TASKS}.")
    if not all(0 < len(task.title.strip()) <= MAX_TITLE_CHARS for task in tasks):
        raise ToolError(f"Every task needs a title of at most {MAX_TITLE_CHARS} characters.")


async def _nobody(tasks: tuple[Task, ...]) -> None:
    return None
