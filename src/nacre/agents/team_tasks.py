"""The tasks of a team: adding, claiming, completing and releasing them, and the file with them (A6).

Dependencies are stored once, in `blocked_by`; `blocks` is derived from it after every change, so that the two
cannot differ. A link that would close a cycle is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal, TypeAlias, cast

from nacre.agents.team_file import (
    FORMAT,
    ParsedTeamFile,
    TeamFile,
    TeamFileFormat,
    ignore_line,
    moment,
    number,
    text,
    unknown_fields,
)
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import MailError
from nacre.layers.l7_mail.letter import check_name
from nacre.messages.blocks import Extra, Json, JsonObject
from nacre.messages.untrusted_text import printable

State: TypeAlias = Literal["pending", "in_progress", "completed"]
STATES: tuple[State, ...] = ("pending", "in_progress", "completed")
MAX_TASKS = 500
"""Each change reads and writes all tasks: at maximum length, this takes under a tenth of a second."""
MAX_TITLE_CHARS = 300
"""A title is one line, as in the task list of a session."""
MAX_DETAIL_CHARS = 2_000
"""About half a page; longer texts belong in a file that the task names."""
MAX_BLOCKERS = 20
"""More dependencies are better expressed by one task that combines them."""
SHOWN_CHARS = 60
"""Maximum length of a title in an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamTask:
    """One task of a team."""

    id: int
    title: str
    detail: str = ""
    state: State = "pending"
    owner: str = ""
    """Agent that works on it or has completed it; empty while it is pending."""
    blocked_by: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    added: datetime | None = None
    claimed: datetime | None = None
    completed: datetime | None = None
    extra: Extra = field(default=(), repr=False)
    """Fields of a newer version, kept unchanged."""


@dataclass(frozen=True, slots=True)
class TaskList:
    """All tasks in the order of their numbers, which are never reused."""

    tasks: tuple[TeamTask, ...] = ()
    next_id: int = 1
    extra: Extra = ()

    def of(self, number: int) -> TeamTask:
        """Return the task with this number; raises `MailError` if there is none."""
        found = next((task for task in self.tasks if task.id == number), None)
        if found is None:
            known = f"{self.tasks[0].id} to {self.tasks[-1].id}" if self.tasks else "the list is empty"
            raise MailError(f"there is no task {number} ({known})")
        return found

    def waits_for(self, task: TeamTask) -> tuple[TeamTask, ...]:
        """Return the open tasks that block this one."""
        return tuple(each for each in self.tasks if each.id in task.blocked_by and each.state != "completed")

    def with_task(
        self, new: TeamTask, *, blocked_by: Sequence[int] = (), blocks: Sequence[int] = ()
    ) -> TaskList:
        """Return the list with one more task and its links."""
        for each in blocked_by:
            self.of(each)
        for each in blocks:
            if (task := self.of(each)).state != "pending":
                raise MailError(f"task {each} is {_is_open(task)} and cannot wait any more")
        fresh = replace(
            new, id=self.next_id, state="pending", owner="", blocked_by=tuple(sorted(set(blocked_by)))
        )
        held = tuple(
            replace(task, blocked_by=(*task.blocked_by, fresh.id)) if task.id in blocks else task
            for task in self.tasks
        )
        tasks = linked((*held, fresh))
        if crowded := next((task for task in tasks if len(task.blocked_by) > MAX_BLOCKERS), None):
            raise MailError(f"task {crowded.id} would wait for more than {MAX_BLOCKERS} tasks")
        if circle := _circle(tasks):
            raise MailError(f"tasks would wait for each other in a circle: {' → '.join(map(str, circle))}")
        return _within_bounds(TaskList(tasks, self.next_id + 1, self.extra), keep={*blocked_by, fresh.id})

    def claimed(self, number: int | None, owner: str, *, at: datetime) -> tuple[TaskList, TeamTask]:
        """Return the list with a task claimed: the one with this number, or the first free one."""
        task = self._first_free() if number is None else self.of(number)
        if task.state != "pending":
            raise MailError(f"task {task.id} is {_is_open(task)}; claim another")
        if waiting := self.waits_for(task):
            raise MailError(f"task {task.id} waits for {_named(waiting)}")
        return self._changed(replace(task, state="in_progress", owner=owner, claimed=at))

    def completed(self, number: int, owner: str, *, at: datetime) -> tuple[TaskList, TeamTask]:
        """Return the list with a task completed by its owner."""
        task = self.of(number)
        if task.state != "in_progress":
            raise MailError(f"task {number} is {_is_open(task)}; only one in progress can be completed")
        if task.owner != owner:
            raise MailError(f"task {number} is {_is_open(task)}; only {task.owner} can complete it")
        return self._changed(replace(task, state="completed", completed=at))

    def released(self, owner: str, number: int | None = None) -> tuple[TaskList, tuple[TeamTask, ...]]:
        """Return the list with the owner's tasks in progress, or one of them, pending again."""
        if number is not None and ((task := self.of(number)).state, task.owner) != ("in_progress", owner):
            raise MailError(f"task {number} is {_is_open(task)}, not in progress by {owner}")
        held = [task for task in self.tasks if (task.state, task.owner) == ("in_progress", owner)]
        freed = tuple(task for task in held if number in {None, task.id})
        return self.given_back(freed), freed

    def given_back(self, seen: Sequence[TeamTask]) -> TaskList:
        """Return the list with these tasks pending again, if they have not changed meanwhile."""
        return replace(
            self,
            tasks=tuple(
                replace(task, state="pending", owner="", claimed=None)
                if task.state == "in_progress" and task in seen
                else task
                for task in self.tasks
            ),
        )

    def _first_free(self) -> TeamTask:
        pending = [task for task in self.tasks if task.state == "pending"]
        unfinished = {task.id for task in self.tasks if task.state != "completed"}
        for task in pending:
            if unfinished.isdisjoint(task.blocked_by):
                return task
        taken = sum(task.state == "in_progress" for task in self.tasks)
        raise MailError(f"no task is free: {len(pending)} wait for others, {taken} in progress")

    def _changed(self, new: TeamTask) -> tuple[TaskList, TeamTask]:
        tasks = tuple(new if task.id == new.id else task for task in self.tasks)
        return replace(self, tasks=tasks), new


def linked(tasks: Iterable[TeamTask]) -> tuple[TeamTask, ...]:
    """Return the tasks with `blocks` derived from `blocked_by`."""
    tasks = tuple(tasks)
    blocks: dict[int, list[int]] = {task.id: [] for task in tasks}
    for task in tasks:
        for blocker in task.blocked_by:
            blocks[blocker].append(task.id)
    return tuple(replace(task, blocks=tuple(blocks[task.id])) for task in tasks)


def without_circles(tasks: Iterable[TeamTask]) -> tuple[TeamTask, ...]:
    """Return the tasks without invalid or circular links."""
    tasks = tuple(tasks)
    known = {task.id for task in tasks}
    sound = tuple(replace(task, blocked_by=tuple(sorted(known & set(task.blocked_by)))) for task in tasks)
    if not _circle(sound):
        return linked(sound)
    # Tasks that only wait for earlier ones cannot form a cycle.
    return linked(
        replace(task, blocked_by=tuple(each for each in task.blocked_by if each < task.id)) for task in sound
    )


def _circle(tasks: tuple[TeamTask, ...]) -> list[int]:
    """Return a cycle of tasks, the first repeated at the end; empty if there is none."""
    try:
        TopologicalSorter({task.id: task.blocked_by for task in tasks}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _within_bounds(tasks: TaskList, *, keep: set[int]) -> TaskList:
    """Return the list within its limit, without the oldest completed task if needed."""
    if len(tasks.tasks) <= MAX_TASKS:
        return tasks
    done = next((task.id for task in tasks.tasks if task.state == "completed" and task.id not in keep), None)
    if done is None:
        raise MailError(f"the list holds {MAX_TASKS} tasks that are not completed; complete some first")
    rest = tuple(
        replace(task, blocked_by=tuple(each for each in task.blocked_by if each != done))
        for task in tasks.tasks
        if task.id != done
    )
    return replace(tasks, tasks=linked(rest))


def _is_open(task: TeamTask) -> str:
    match task.state:
        case "in_progress":
            return f"in progress by {task.owner}"
        case "completed":
            return f"completed by {task.owner}" if task.owner else "completed"
        case _:
            return task.state


def _named(tasks: tuple[TeamTask, ...]) -> str:
    return ", ".join(f"{task.id} ({task.title[:SHOWN_CHARS]})" for task in tasks)


TASKS = "tasks.json"


class TeamTasks:
    """The task list of one team on disk; each call is one atomic change."""

    def __init__(
        self, folder: Path, *, notify: Callable[[str], None] = ignore_line, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._file = TeamFile(folder / TASKS, _FORM, notify=notify, clock=clock)
        self._clock = clock

    def add(
        self, title: str, detail: str = "", *, blocked_by: Sequence[int] = (), blocks: Sequence[int] = ()
    ) -> TeamTask:
        """Add a task with links to others; raises `MailError` for cycles and unknown numbers."""
        title = " ".join(printable(title).split())
        detail = printable(detail).strip()
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
        """Claim a task: this one, or the first free one; only one process gets it."""
        owner = check_name(owner)
        return self._file.change(lambda tasks: tasks.claimed(task, owner, at=self._clock.now()))

    def complete(self, task: int, owner: str) -> TeamTask:
        """Complete a task; only its owner can."""
        return self._file.change(lambda tasks: tasks.completed(task, owner, at=self._clock.now()))

    def release(self, owner: str, task: int | None = None) -> tuple[TeamTask, ...]:
        """Release the owner's tasks in progress, or one of them, so that others can claim them."""
        return self._file.change(lambda tasks: tasks.released(owner, task))

    def give_back(self, seen: Sequence[TeamTask]) -> TaskList:
        """Release these tasks of any owner, if they have not changed meanwhile."""

        def back(tasks: TaskList) -> tuple[TaskList, TaskList]:
            after = tasks.given_back(seen)
            return after, after

        return self._file.change(back)

    def list(self) -> TaskList:
        """Return all tasks in the order of their numbers."""
        return self._file.read()


def _read(said: JsonObject) -> ParsedTeamFile[TaskList]:
    rows = said.get("tasks")
    if not isinstance(rows, list):
        return ParsedTeamFile(TaskList(), "it holds no list of tasks")
    tasks: dict[int, TeamTask] = {}
    waits: dict[int, list[int]] = {}
    for row in rows:
        if isinstance(row, dict) and (task := _task(row)) and task.id not in tasks:
            tasks[task.id] = task
            # A file edited by hand may have the link on one side only.
            for each in _numbers(row.get("blocks")):
                waits.setdefault(each, []).append(task.id)
    both = (
        replace(tasks[each], blocked_by=(*tasks[each].blocked_by, *waits.get(each, ())))
        for each in sorted(tasks)
    )
    lost = len(rows) - len(tasks)
    problem = f"{lost} of {len(rows)} tasks cannot be read" if lost else ""
    next_id = max(number(said.get("nextId")) or 1, *(each + 1 for each in tasks), 1)
    return ParsedTeamFile(TaskList(without_circles(both), next_id, unknown_fields(said, _KNOWN)), problem)


def _task(row: JsonObject) -> TeamTask | None:
    id_ = number(row.get("id"))
    title = text(row, "title")
    state = row.get("state")
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
        extra=unknown_fields(row, _KNOWN_OF_TASK),
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


_FORM = TeamFileFormat(_read, _written)
_KNOWN = frozenset({"nextId", "tasks"})
"""Without the version: that of a newer nacre stays, because its fields do."""
_KNOWN_OF_TASK = frozenset({
    "id", "title", "detail", "state", "owner", "blocks", "blockedBy", "added", "claimed", "completed",
})  # fmt: skip
