"""The tasks a team shares: `<home>/teams/<team>/tasks.json`, changed by one process at a time (A6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError
from nacre.layers.l7_mail.letter import check_name
from nacre.layers.l7_mail.task_list import (
    MAX_DETAIL_CHARS,
    MAX_TITLE_CHARS,
    STATES,
    State,
    TaskList,
    TeamTask,
    without_circles,
)
from nacre.layers.l7_mail.team_file import (
    FORMAT,
    Form,
    Found,
    TeamFile,
    beyond,
    moment,
    nobody,
    number,
    text,
)
from nacre.memory.neutral import printable
from nacre.messages.blocks import Json, JsonObject

TASKS = "tasks.json"


class TeamTasks:
    """The list of one team, in its folder; each call is one change that happens whole or not at all."""

    def __init__(
        self, folder: Path, *, tell: Callable[[str], None] = nobody, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._file = TeamFile(folder / TASKS, _FORM, tell=tell, clock=clock)
        self._clock = clock

    def add(
        self, title: str, detail: str = "", *, blocked_by: Sequence[int] = (), blocks: Sequence[int] = ()
    ) -> TeamTask:
        """A new task that waits for some and that others wait for; no circles, no unknown numbers."""
        title, detail = " ".join(printable(title).split()), printable(detail).strip()
        if not 0 < len(title) <= MAX_TITLE_CHARS:
            raise MailError(f"a task needs a title of at most {MAX_TITLE_CHARS} characters")
        if len(detail) > MAX_DETAIL_CHARS:
            raise MailError(
                f"a task's detail holds {MAX_DETAIL_CHARS:,} characters; write the rest to a file and name it"
            )
        new = TeamTask(id=0, title=title, detail=detail, added=self._clock.now())

        def added(tasks: TaskList) -> tuple[TaskList, TeamTask]:
            after = tasks.with_task(new, blocked_by=blocked_by, blocks=blocks)
            return after, after.tasks[-1]

        return self._file.change(added)

    def claim(self, task: int | None, owner: str) -> TeamTask:
        """Take a task: this one, or the first that is free; of any number of processes one gets it."""
        owner = check_name(owner)
        return self._file.change(lambda tasks: tasks.claimed(task, owner, at=self._clock.now()))

    def complete(self, task: int, owner: str) -> TeamTask:
        """Say that a task is done; only who has it in progress can."""
        return self._file.change(lambda tasks: tasks.completed(task, owner, at=self._clock.now()))

    def release(self, owner: str, task: int | None = None) -> tuple[TeamTask, ...]:
        """Give back what an owner has in progress, all of it or one task: somebody else can claim it."""
        return self._file.change(lambda tasks: tasks.released(owner, task))

    def give_back(self, seen: Sequence[TeamTask]) -> TaskList:
        """Release these tasks, whoever has them, where they still stand as they were seen."""

        def back(tasks: TaskList) -> tuple[TaskList, TaskList]:
            after = tasks.given_back(seen)
            return after, after

        return self._file.change(back)

    def list(self) -> TaskList:
        """All tasks, in the order of their numbers."""
        return self._file.read()


def _read(said: JsonObject) -> Found[TaskList]:
    rows = said.get("tasks")
    if not isinstance(rows, list):
        return Found(TaskList(), "it holds no list of tasks")
    tasks: dict[int, TeamTask] = {}
    waits: dict[int, list[int]] = {}
    for row in rows:
        if isinstance(row, dict) and (task := _task(row)) and task.id not in tasks:
            tasks[task.id] = task
            # Who edits the file by hand may have said it on one side only.
            for each in _numbers(row.get("blocks")):
                waits.setdefault(each, []).append(task.id)
    both = (
        replace(tasks[each], blocked_by=(*tasks[each].blocked_by, *waits.get(each, ())))
        for each in sorted(tasks)
    )
    lost = len(rows) - len(tasks)
    problem = f"{lost} of {len(rows)} tasks cannot be read" if lost else ""
    next_id = max(number(said.get("nextId")) or 1, *(each + 1 for each in tasks), 1)
    return Found(TaskList(without_circles(both), next_id, beyond(said, _KNOWN)), problem)


def _task(row: JsonObject) -> TeamTask | None:
    id_, title, state = number(row.get("id")), text(row, "title"), row.get("state")
    if not id_ or id_ < 1 or not title or state not in STATES:
        return None
    owner = text(row, "owner")
    if state == "in_progress" and not owner:
        state = "pending"
    return TeamTask(
        id=id_,
        title=title,
        detail=text(row, "detail"),
        state=cast("State", state),
        owner=owner if state != "pending" else "",
        blocked_by=_numbers(row.get("blockedBy")),
        added=moment(row.get("added")),
        claimed=moment(row.get("claimed")),
        completed=moment(row.get("completed")),
        extra=beyond(row, _KNOWN_OF_TASK),
    )


def _numbers(said: Json) -> tuple[int, ...]:
    read = (number(each) for each in said) if isinstance(said, list) else ()
    return tuple(each for each in read if each is not None)


def _written(tasks: TaskList) -> JsonObject:
    rows: list[Json] = [
        {
            "id": task.id,
            "title": task.title,
            "detail": task.detail,
            "state": task.state,
            "owner": task.owner,
            "blocks": list(task.blocks),
            "blockedBy": list(task.blocked_by),
            "added": _stamp(task.added),
            "claimed": _stamp(task.claimed),
            "completed": _stamp(task.completed),
            **dict(task.extra),
        }
        for task in tasks.tasks
    ]
    return {"version": FORMAT, "nextId": tasks.next_id, "tasks": rows, **dict(tasks.extra)}


def _stamp(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


_FORM = Form(_read, _written)
_KNOWN = frozenset({"nextId", "tasks"})
"""Not the version: a newer one's stays, because its fields do."""
_KNOWN_OF_TASK = frozenset({
    "id", "title", "detail", "state", "owner", "blocks", "blockedBy", "added", "claimed", "completed",
})  # fmt: skip
