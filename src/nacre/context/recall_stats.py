"""What became of recalled memories, written down beside the work: offered, attached, cited, contradicted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from nacre.clock import Clock
from nacre.memory.memory import Memory
from nacre.memory.recall.base import Pick, Recalled
from nacre.memory.recall.usage import Event, events_of, is_cited, is_contradicted, record
from nacre.messages.view import View

Judged: TypeAlias = Literal["cited", "contradicted"]
"""What can become of a memory once it is attached."""
MAX_COMMITS = 50
"""Changes of a memory looked at for one that replaced what was attached: a session seldom makes more."""


@dataclass(frozen=True, slots=True)
class _Attached:
    pick: Pick
    at: datetime
    asked: str


class Counting:
    """Owned by one session, like every task it starts; what cannot be written down is not missed."""

    def __init__(self, memories: Sequence[Memory], session: str, clock: Clock) -> None:
        self._memories = memories
        self._session = session
        self._clock = clock
        self._waiting: list[_Attached] = []
        """Attached with the last message; its reply is not known yet."""
        self._all: list[_Attached] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def recalled(self, recalled: Recalled, asked: str) -> None:
        """Count what a message was offered and given."""
        at = self._clock.now()
        new = [_Attached(pick, at, asked) for pick in recalled.picks]
        self._waiting += new
        self._all += new
        for memory in self._memories:
            self._write(memory, events_of(recalled, memory.location, at))

    def answered(self, view: View, next_message: str) -> None:
        """Count what the last reply made of them, and what the person said to that."""
        reply = view.last_reply
        waiting = self._waiting
        self._waiting = []
        if reply is not None and waiting:
            self._start(self._judged(waiting, reply.text, next_message))

    async def close(self) -> None:
        """Count what was replaced in the course of the session, and wait until all is written."""
        if self._all:
            self._start(self._replaced())
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _judged(self, attached: Iterable[_Attached], reply: str, next_message: str) -> None:
        for one in attached:
            if await asyncio.to_thread(is_cited, one.pick, reply, [one.asked]):
                await self._count(one, "cited")
            if is_contradicted(one.pick, attached=one.at, session=self._session, next_message=next_message):
                await self._count(one, "contradicted")

    async def _replaced(self) -> None:
        for memory in self._memories:
            mine = [one for one in self._all if one.pick.ranked.directory == memory.location.directory]
            commits = await memory.log(limit=MAX_COMMITS) if mine and memory.location.history.exists() else []
            for one in mine:
                if is_contradicted(one.pick, attached=one.at, session=self._session, commits=commits):
                    await self._count(one, "contradicted")

    async def _count(self, one: _Attached, kind: Judged) -> None:
        memory = next(m for m in self._memories if m.location.directory == one.pick.ranked.directory)
        event = Event(file=one.pick.ranked.entry.file, kind=kind, at=self._clock.now())
        await record(memory.location, [event])

    def _write(self, memory: Memory, events: list[Event]) -> None:
        if events:
            self._start(record(memory.location, events))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="count memories")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
