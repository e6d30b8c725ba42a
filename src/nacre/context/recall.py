"""Recall in a session: from the local index at once, with a small model during the reply (R1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.recalled import RECALLED, bytes_in_view, noted, recalled_in_view
from nacre.memory.memory import Memory
from nacre.memory.recall.base import (
    MAX_PICKS,
    AttachedMemory,
    LeftOut,
    MemoryRanker,
    RankedMemory,
    Recalled,
    RecallQuery,
)
from nacre.memory.recall.drift.words import WordCache
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import (
    AlreadySeen,
    CheckDrift,
    attach_all,
    candidates,
    recall,
    render_attachment,
    skip_reason,
    within_budget,
)
from nacre.memory.recall.select import select
from nacre.memory.recall.usage import UsageEvent, events_of, is_cited, is_contradicted, record
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider
from nacre.session.attachments import Attachment
from nacre.session.layer import Layer
from nacre.session.meter import SIDE_QUERY
from nacre.tools.workspace import Workspace

PURPOSE = "memdir_relevance"
"""Purpose under which the requests to the small model are accounted (R5)."""
LOCAL_CAP_SECONDS = 0.020
"""How long recall may delay a turn (R1); later results are attached to the next message."""
WARM_SECONDS = 0.25
"""How long recall may delay the opening of a session, so that the index is ready for its first message."""
SELECTOR_SECONDS = 10.0
"""Timeout of a request to the small model."""
DEEPEN_SECONDS = 0.25
"""Duration of one step of background work: closing waits no longer than this."""
RECENT_TOOLS = 8
"""Number of recent tools in a query: those of the last few rounds (R13)."""


def _is_free(usage: Usage, model: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A small model that selects memories (R5)."""

    provider: Provider
    model: str
    leaves: bool = True
    """Whether its requests leave the machine, so that local-only memories are not in its list (M27)."""
    pay: Callable[[Usage, str], None] = _is_free
    """Called with the usage of each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """Optional parts of recall."""

    drift: CheckDrift | None = None
    words: WordCache | None = None
    """Words of a large tree, read when a check ran out of time: a checkout changes many of them."""
    selector: Selector | None = None
    counting: RecallStats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LateRecall:
    """Memories found for a message after it was sent."""

    found: Recalled
    query: RecallQuery
    is_chosen: bool = False
    """Selected by the small model, which is then not asked again."""


class Recall(Layer):
    """Attaches memories to messages; owned by one session, like all tasks that it starts."""

    log_kinds = {RECALLED: "drop"}  # what is no longer in view may be attached again (R7)

    def __init__(
        self,
        memory: Memory | Sequence[MemoryRanker],
        workspace: Workspace | None = None,
        clock: Clock = SYSTEM_CLOCK,
        *,
        aid: RecallOptions | None = None,
        hides_local: bool = True,
    ) -> None:
        """Search a memory, or the given rankers; files recently seen in the workspace are left out."""
        self.last: Recalled | None = None
        """What the last message got, and why; for display."""
        self._asked: list[Attachment] = []
        """Usage of the small model that is not in the log yet."""
        if isinstance(memory, Memory):
            place = memory.location
            memory = [LocalIndex(place.directory, place.cache, clock=memory.clock)]
        self._rankers = memory
        self._workspace = workspace
        self._clock = clock
        self._hides_local = hides_local
        self._drift = aid.drift if aid else None
        self._selector = aid.selector if aid else None
        self._counting = aid.counting if aid else None
        self._words = aid.words if aid else None
        self._late: list[asyncio.Task[_LateRecall]] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._is_warm = False
        self._is_fresh = False
        """Everything was just read, so the first message need not do it again."""
        self._is_quick = True
        """A check for changes is fast enough to run before the ranking."""

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach results of the local index to user prompts, and late results to any message (R1)."""
        is_persons = not said.meta and not any(isinstance(block, ToolResult) for block in said.blocks)
        text = "\n".join(block.text for block in said.blocks if isinstance(block, Text))
        if is_persons and self._counting is not None:
            # Before anything new is attached, which the last reply cannot have used.
            self._counting.answered(view, text)
        came = self._arrived(view)
        asked = self._asked
        self._asked = []
        late = [*asked, *_extras(came)]
        if not is_persons:
            return late
        already = _with(self._already(view), came)
        skipped = skip_reason(text, is_on=True, attached_bytes=already.attached_bytes, has_files=True)
        if skipped:
            self.last = Recalled(query=text, skipped=skipped)
            return late
        query = RecallQuery(text=text, now=self._clock.now(), recent_tools=_recent_tools(view))
        return [*late, *await self._recalled(query, already)]

    async def warm(self) -> None:
        """Load the indexes before the first prompt; a large one continues in the background."""
        self._refreshing = asyncio.create_task(asyncio.to_thread(self._refresh), name="refresh memories")
        await asyncio.wait([self._refreshing], timeout=WARM_SECONDS)

    def on_cancel(self) -> None:
        """Cancel pending recall with the turn."""
        for task in self._late:
            task.cancel()

    async def close(self) -> None:
        """Cancel running tasks; wait for those that only write statistics."""
        if self._counting is not None:
            await self._counting.close()
        tasks = [*self._late, *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def _recalled(self, query: RecallQuery, already: AlreadySeen) -> list[Attachment]:
        work = asyncio.create_task(asyncio.to_thread(self._local, query, already), name="recall")
        done, _ = await asyncio.wait([work], timeout=LOCAL_CAP_SECONDS)
        if not done:
            self._late.append(asyncio.create_task(_later(work, query), name="late recall"))
            self.last = Recalled(query=query.text, problem="the index is not ready yet; the picks come later")
            return []
        if (error := work.exception()) is not None:
            self.last = Recalled(query=query.text, problem=_failed(error))
            return []
        found = work.result()
        self._taken(found, query, already)
        return _extras(found.picks)

    def _taken(self, found: Recalled, query: RecallQuery, already: AlreadySeen) -> None:
        """Record and count the results of the local index, and start background work during the reply."""
        self.last = found
        if self._counting is not None:
            self._counting.recalled(found, query.text)
        if self._selector is not None:
            chosen = self._selected(query, found, already)
            self._late.append(asyncio.create_task(chosen, name="select memories"))
        self._recheck(found)

    def _recheck(self, found: Recalled) -> None:
        """Refresh in the background what was too slow: the directory, or the words of a large tree."""
        if self._refreshing is not None and not self._refreshing.done():
            return
        drifts = [one.drift for one in found.picks if one.drift]
        ran_out = any(one.exists is None for drift in drifts for one in drift.references)
        if ran_out and self._words is not None:
            self._refreshing = asyncio.create_task(asyncio.to_thread(self._learn), name="learn words")
        else:
            self._refreshing = asyncio.create_task(self._deepened(), name="refresh memories")

    async def _deepened(self) -> None:
        """Look for changes, if that is slow, and process them in small steps."""
        if not self._is_quick:
            await asyncio.to_thread(self._refresh)
        for ranker in self._rankers:
            while await asyncio.to_thread(ranker.deepen, seconds=DEEPEN_SECONDS):
                pass

    def _learn(self) -> None:
        if self._words is not None:
            self._words.update()

    def _local(self, query: RecallQuery, already: AlreadySeen) -> Recalled:
        if self._is_quick and not self._is_fresh:
            self._refresh()
        self._is_fresh = False
        return recall(query, self._rankers, already=already, drift=self._drift, clock=self._clock)

    def _refresh(self) -> None:
        begun = self._clock.seconds()
        is_first = not self._is_warm
        for ranker in self._rankers:
            ranker.refresh()
        if is_first and self._words is not None:
            self._words.preload()
        self._is_warm = True
        self._is_fresh = is_first
        # The first time everything may have to be read, so its duration is not representative.
        self._is_quick = is_first or self._clock.seconds() - begun < LOCAL_CAP_SECONDS / 2

    async def _selected(self, query: RecallQuery, found: Recalled, already: AlreadySeen) -> _LateRecall:
        assert self._selector is not None, "asked only where there is one"
        picked = {str(one.ranked.path) for one in found.picks}
        places = MAX_PICKS - len(picked)
        there = await asyncio.to_thread(candidates, query, self._rankers)
        already = replace(already, hides_local=already.hides_local or self._selector.leaves)
        new = [one for one in there if _may_ride(one, already) and str(one.path) not in picked]
        if not new or places <= 0:
            return _LateRecall(found=Recalled(query=query.text), query=query, is_chosen=True)
        answer = await select(
            query, new, self._selector.provider, self._selector.model, timeout=SELECTOR_SECONDS
        )
        if answer.usage is not None:
            self._selector.pay(answer.usage, self._selector.model)
            self._asked.append(_booked(answer.usage, self._selector.model))
        if answer.problem and self.last is not None:
            self.last = replace(self.last, problem=answer.problem)
        picks = await asyncio.to_thread(attach_all, answer.chosen[:places], query, self._drift)
        return _LateRecall(found=Recalled(query=query.text, picks=tuple(picks)), query=query, is_chosen=True)

    def _arrived(self, view: View) -> list[AttachedMemory]:
        """Return results found after their message was sent, unless the model has seen them since."""
        done = [task for task in self._late if task.done()]
        self._late = [task for task in self._late if not task.done()]
        if not done:
            return []
        already = self._already(view)
        came = list[AttachedMemory]()
        for task in done:
            if task.cancelled():
                continue
            if (error := task.exception()) is not None:
                self.last = replace(self.last or Recalled(query=""), problem=_failed(error))
                continue
            late = task.result()
            found = _still_new(late.found, already)
            already = _with(already, found.picks)
            came += found.picks
            if not late.is_chosen:
                self._taken(found, late.query, already)
            elif self._counting is not None:
                self._counting.recalled(found, late.query.text)
        return came

    def _already(self, view: View) -> AlreadySeen:
        paths = (*recalled_in_view(view), *(self._workspace.recently_seen() if self._workspace else ()))
        return AlreadySeen(
            paths=frozenset(str(path) for path in paths),
            attached_bytes=bytes_in_view(view),
            hides_local=self._hides_local,
        )


def _with(already: AlreadySeen, picks: Sequence[AttachedMemory]) -> AlreadySeen:
    """Add memories about to be attached, which are not in the view yet."""
    paths = already.paths | {str(one.ranked.path) for one in picks}
    size = already.attached_bytes + sum(one.bytes for one in picks)
    return replace(already, paths=paths, attached_bytes=size)


def _still_new(found: Recalled, already: AlreadySeen) -> Recalled:
    """Drop the picks that the model has seen since, or that exceed the budget."""
    new = [one for one in found.picks if str(one.ranked.path) not in already.paths]
    seen = [
        LeftOut(one.ranked.entry.file, "already seen", one.ranked.score)
        for one in found.picks
        if str(one.ranked.path) in already.paths
    ]
    kept, over = within_budget(new, already.attached_bytes)
    return replace(found, picks=tuple(kept), left_out=(*found.left_out, *seen, *over))


def _booked(usage: Usage, model: str) -> Attachment:
    """Return a note with the usage of a request to the small model (R5)."""
    facts: JsonObject = {"purpose": PURPOSE, "model": model, "usage": usage.as_json()}
    return Attachment(kind=SIDE_QUERY, facts=facts)


def _failed(error: BaseException) -> str:
    return f"recall failed: {error}"


async def _later(work: asyncio.Task[Recalled], query: RecallQuery) -> _LateRecall:
    return _LateRecall(found=await work, query=query)


def _may_ride(one: RankedMemory, already: AlreadySeen) -> bool:
    is_hidden = one.entry.local_only and already.hides_local
    return one.entry.origin != "untrusted" and not is_hidden and str(one.path) not in already.paths


def _extras(picks: Sequence[AttachedMemory]) -> list[Attachment]:
    if not picks:
        return []
    text = render_attachment(picks)
    names = ", ".join(one.ranked.entry.file for one in picks)
    facts = noted((one.ranked.path for one in picks), size=sum(one.bytes for one in picks))
    notice = f"recalled {len(picks)} {'memory' if len(picks) == 1 else 'memories'}: {names}"
    return [Attachment(kind=RECALLED, text=text, facts=facts, notice=notice)]


def _recent_tools(view: View) -> tuple[str, ...]:
    """Return the tools used recently, newest first, without duplicates."""
    calls = (
        part.block.name
        for item in reversed(view.items[-4 * RECENT_TOOLS :])
        for part in reversed(item.parts)
        if isinstance(part.block, ToolCall)
    )
    return tuple(dict.fromkeys(calls))[:RECENT_TOOLS]


Judged: TypeAlias = Literal["cited", "contradicted"]
"""Possible outcomes for an attached memory."""
MAX_COMMITS = 50
"""Number of commits searched for a replacement of what was attached: a session seldom makes more."""


@dataclass(frozen=True, slots=True)
class _Attached:
    pick: AttachedMemory
    at: datetime
    asked: str


class RecallStats:
    """Counts how memories are used; owned by one session, like its tasks; failed writes are ignored."""

    def __init__(self, memories: Sequence[Memory], session: str, clock: Clock) -> None:
        self._memories = memories
        self._session = session
        self._clock = clock
        self._waiting: list[_Attached] = []
        """Attached with the last message, whose reply is not known yet."""
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
        """Count which memories the last reply cited, and which the user contradicted."""
        reply = view.last_reply
        waiting = self._waiting
        self._waiting = []
        if reply is not None and waiting:
            self._start(self._judged(waiting, reply.text, next_message))

    async def close(self) -> None:
        """Count what was replaced during the session, and wait until all is written."""
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
        event = UsageEvent(file=one.pick.ranked.entry.file, kind=kind, at=self._clock.now())
        await record(memory.location, [event])

    def _write(self, memory: Memory, events: list[UsageEvent]) -> None:
        if events:
            self._start(record(memory.location, events))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="count memories")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
