"""Combines the forks of several background tasks into one request (F5c).

Notes and extraction each read the whole conversation; in one request it is read once for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from nacre import prompts
from nacre.loop.fork import PARTICIPANT, Fork, ForkResult, ForkTask, RequestSource
from nacre.tools.policy import Narrowing

SOURCE: RequestSource = "notes_and_memories"
"""The purpose under which the cost of a merged fork is recorded."""
DIRECTIVE = prompts.load("nacre.session", "merged_forks")


class MergedForks:
    """Waits until each participant has either a fork to run or none, then runs all of them as one."""

    def __init__(self) -> None:
        self._missing = 0
        """Participants that have neither added a fork nor left."""
        self._tasks: list[ForkTask] = []
        self._is_complete = asyncio.Event()
        self._running: asyncio.Task[ForkResult] | None = None
        self._waiting = 0

    def participant(self) -> MergeParticipant:
        """Return one more participant; the others wait for it."""
        self._missing += 1
        return MergeParticipant(self)

    def left(self) -> None:
        """Count a participant as one that has added its fork or will not."""
        self._missing -= 1
        if self._missing <= 0:
            self._is_complete.set()

    async def run(self, task: ForkTask, fork: Fork) -> ForkResult:
        """Return the result of the merged fork, which the first caller starts."""
        if self._is_complete.is_set() or not _can_merge(task, self._tasks):
            self.left()
            return await fork(task)
        self._tasks.append(task)
        self.left()
        try:
            await self._is_complete.wait()
        except asyncio.CancelledError:
            self._tasks.remove(task)
            raise
        if self._running is None:
            self._running = asyncio.create_task(_run(fork, merge_tasks(self._tasks)), name="merged fork")
        self._waiting += 1
        try:
            return await asyncio.shield(self._running)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._running.cancel()


class MergeParticipant:
    """The part of one background task in merged forks; only its first fork is merged."""

    def __init__(self, merged: MergedForks) -> None:
        self._merged: MergedForks | None = merged

    async def work(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a task whose first fork may be merged."""
        token = PARTICIPANT.set(self)
        try:
            await work()
        finally:
            PARTICIPANT.reset(token)
            self.leave()

    def leave(self) -> None:
        """Let the others no longer wait; does nothing after a fork or a second time."""
        merged = self._merged
        self._merged = None
        if merged is not None:
            merged.left()

    async def run(self, task: ForkTask, fork: Fork) -> ForkResult:
        merged = self._merged
        self._merged = None
        return await (merged.run(task, fork) if merged is not None else fork(task))


def merge_tasks(tasks: Sequence[ForkTask]) -> ForkTask:
    """Return one task that asks for everything the given ones ask for, with the access of all of them."""
    if len(tasks) == 1:
        return tasks[0]
    access = [one.access for one in tasks if isinstance(one.access, Narrowing)]
    return replace(
        tasks[0],
        source=SOURCE,
        directive=prompts.render(DIRECTIVE, directives="\n\n".join(one.directive for one in tasks)),
        access=replace(
            access[0],
            tools=frozenset().union(*(one.tools for one in access)),
            writes_in=tuple(path for one in access for path in one.writes_in),
            reads_in=tuple(path for one in access for path in one.reads_in),
        ),
        max_rounds=max(one.max_rounds for one in tasks),
        max_output=max(one.max_output for one in tasks),
        shown_files=tuple(path for one in tasks for path in one.shown_files),
        copies=next((one.copies for one in tasks if one.copies is not None), None),
        seen_to=_earliest(tasks),
    )


def _earliest(tasks: Sequence[ForkTask]) -> str | None:
    """Return up to which record all of the tasks have seen the conversation."""
    view = tasks[0].view
    items = [item.record_id for item in view.items] if view is not None else []
    seen = [one.seen_to for one in tasks]
    places = {one: items.index(one) for one in seen if one is not None and one in items}
    return min(places, key=places.__getitem__) if len(places) == len(set(seen)) else None


def _can_merge(task: ForkTask, others: Sequence[ForkTask]) -> bool:
    """Return whether a task can share a request with others: it edits files, after the same messages."""
    if not task.ends_with_edits or not isinstance(task.access, Narrowing) or task.view is None:
        return False
    links = task.view.links
    return all(
        one.view is not None
        and one.view.links[-1:] == links[-1:]
        and (one.copies is None or task.copies is None)
        and isinstance(one.access, Narrowing)
        and one.access.commands == task.access.commands
        for one in others
    )


async def _run(fork: Fork, task: ForkTask) -> ForkResult:
    return await fork(task)
