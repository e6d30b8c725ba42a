"""The tasks of a team as a value: what may be added, claimed, completed and released (A6). Pure, no disk.

What a task waits for is said once, in `blocked_by`; the other direction is drawn from it after every change,
so that the two cannot differ. Nobody waits in a circle: a link that would close one is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import Literal, TypeAlias

from nacre.errors import MailError
from nacre.messages.blocks import Extra

State: TypeAlias = Literal["pending", "in_progress", "completed"]
STATES: tuple[State, ...] = ("pending", "in_progress", "completed")
MAX_TASKS = 500
"""Each change reads and writes all of them: at their longest, so many take under a tenth of a second."""
MAX_TITLE_CHARS = 300
"""A task is named in a line, as in the list of a session."""
MAX_DETAIL_CHARS = 2_000
"""About half a page: who needs more writes it to a file and names that."""
MAX_BLOCKERS = 20
"""Who waits for more is better off waiting for one task that stands for them."""
SHOWN_CHARS = 60
"""Of a title in a refusal: enough to recognise it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamTask:
    """One thing for a team to do."""

    id: int
    title: str
    detail: str = ""
    state: State = "pending"
    owner: str = ""
    """Who works on it or has done it; nobody while it is pending."""
    blocked_by: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    added: datetime | None = None
    claimed: datetime | None = None
    completed: datetime | None = None
    extra: Extra = field(default=(), repr=False)
    """Fields of a newer version, kept as they are."""


@dataclass(frozen=True, slots=True)
class TaskList:
    """All tasks in the order of their numbers, which are never given out again."""

    tasks: tuple[TeamTask, ...] = ()
    next_id: int = 1
    extra: Extra = ()

    def of(self, number: int) -> TeamTask:
        """The task of this number."""
        found = next((task for task in self.tasks if task.id == number), None)
        if found is None:
            known = f"{self.tasks[0].id} to {self.tasks[-1].id}" if self.tasks else "the list is empty"
            raise MailError(f"there is no task {number} ({known})")
        return found

    def waits_for(self, task: TeamTask) -> tuple[TeamTask, ...]:
        """The tasks that must be completed before this one may be claimed."""
        return tuple(each for each in self.tasks if each.id in task.blocked_by and each.state != "completed")

    def with_task(
        self, new: TeamTask, *, blocked_by: Sequence[int] = (), blocks: Sequence[int] = ()
    ) -> TaskList:
        """The list with one more task, under the next number, and its links to others."""
        for each in blocked_by:
            self.of(each)
        for each in blocks:
            if (task := self.of(each)).state != "pending":
                raise MailError(f"task {each} is {_stands(task)} and cannot wait any more")
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
        """The list with a task in this owner's hands: the one of this number, or the first that is free."""
        task = self._first_free() if number is None else self.of(number)
        if task.state != "pending":
            raise MailError(f"task {task.id} is {_stands(task)}; claim another")
        if waiting := self.waits_for(task):
            raise MailError(f"task {task.id} waits for {_named(waiting)}")
        return self._changed(replace(task, state="in_progress", owner=owner, claimed=at))

    def completed(self, number: int, owner: str, *, at: datetime) -> tuple[TaskList, TeamTask]:
        """The list with a task done by whoever has it in progress."""
        task = self.of(number)
        if task.state != "in_progress":
            raise MailError(f"task {number} is {_stands(task)}; only one in progress can be completed")
        if task.owner != owner:
            raise MailError(f"task {number} is {_stands(task)}; only {task.owner} can complete it")
        return self._changed(replace(task, state="completed", completed=at))

    def released(self, owner: str, number: int | None = None) -> tuple[TaskList, tuple[TeamTask, ...]]:
        """The list with what this owner had in progress pending again: all of it, or one task."""
        if number is not None and ((task := self.of(number)).state, task.owner) != ("in_progress", owner):
            raise MailError(f"task {number} is {_stands(task)}, not in progress by {owner}")
        held = [task for task in self.tasks if (task.state, task.owner) == ("in_progress", owner)]
        freed = tuple(task for task in held if number in {None, task.id})
        return self.given_back(freed), freed

    def given_back(self, seen: Sequence[TeamTask]) -> TaskList:
        """The list with these tasks pending again, where they still stand as they were seen."""
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
    """The tasks with `blocks` as `blocked_by` has it."""
    tasks = tuple(tasks)
    blocks: dict[int, list[int]] = {task.id: [] for task in tasks}
    for task in tasks:
        for blocker in task.blocked_by:
            blocks[blocker].append(task.id)
    return tuple(replace(task, blocks=tuple(blocks[task.id])) for task in tasks)


def without_circles(tasks: Iterable[TeamTask]) -> tuple[TeamTask, ...]:
    """The tasks with links that make sense; a file may say anything."""
    tasks = tuple(tasks)
    known = {task.id for task in tasks}
    sound = tuple(replace(task, blocked_by=tuple(sorted(known & set(task.blocked_by)))) for task in tasks)
    if not _circle(sound):
        return linked(sound)
    # Who waits only for what was there before cannot be in a circle.
    return linked(
        replace(task, blocked_by=tuple(each for each in task.blocked_by if each < task.id)) for task in sound
    )


def _circle(tasks: tuple[TeamTask, ...]) -> list[int]:
    """Tasks that wait for each other, the first also at the end; empty where there are none."""
    try:
        TopologicalSorter({task.id: task.blocked_by for task in tasks}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _within_bounds(tasks: TaskList, *, keep: set[int]) -> TaskList:
    """The list at its largest: a task that was done long ago makes room for a new one."""
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


def _stands(task: TeamTask) -> str:
    match task.state:
        case "in_progress":
            return f"in progress by {task.owner}"
        case "completed":
            return f"completed by {task.owner}" if task.owner else "completed"
        case _:
            return task.state


def _named(tasks: tuple[TeamTask, ...]) -> str:
    return ", ".join(f"{task.id} ({task.title[:SHOWN_CHARS]})" for task in tasks)
