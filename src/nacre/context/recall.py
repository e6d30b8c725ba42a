"""Recall in a session: the local index answers at once, a small model beside the reply (R1)."""

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
"""Under which name the questions to the small model are booked (R5)."""
LOCAL_CAP_SECONDS = 0.020
"""What recall may take of a turn's time (R1); what comes later rides with the next message."""
WARM_SECONDS = 0.25
"""What opening a session may take longer, so that its first message finds the index ready."""
SELECTOR_SECONDS = 10.0
"""A small model that has not answered by then is not worth waiting for."""
DEEPEN_SECONDS = 0.25
"""Of one piece of work beside the reply: who leaves waits for no more than this."""
RECENT_TOOLS = 8
"""Tool calls looked back at: the last few rounds (R13)."""


def _nobody_pays(usage: Usage, model: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A small model that chooses among the memories (R5)."""

    provider: Provider
    model: str
    leaves: bool = True
    """What it is asked leaves the machine, so that local-only memories are not on its list (M27)."""
    pay: Callable[[Usage, str], None] = _nobody_pays
    """Told what each question cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """Who helps with recall, where there is somebody."""

    drift: CheckDrift | None = None
    words: WordCache | None = None
    """What a large tree holds, learnt whenever a check has run out of time: a checkout changes much of it."""
    selector: Selector | None = None
    counting: RecallStats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LateRecall:
    """What was found for a message after it had gone."""

    found: Recalled
    query: RecallQuery
    is_chosen: bool = False
    """By the small model, so that it is not asked again."""


class Recall(Layer):
    """Adds memories to messages; owned by one session, and so is everything it starts."""

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
        """Search a memory, or the given rankers; files that were just seen in the workspace are left out."""
        self.last: Recalled | None = None
        """What the last message got, and why; for people."""
        self._asked: list[Attachment] = []
        """What the small model has cost, not in the log yet."""
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
        """Everything was looked at just now, so that the first message need not do it again."""
        self._is_quick = True
        """Looking for changes takes no time worth speaking of, so that it can go before the ranking."""

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """With a person's words what the local index finds; with anything what came late (R1)."""
        is_persons = not said.meta and not any(isinstance(block, ToolResult) for block in said.blocks)
        text = "\n".join(block.text for block in said.blocks if isinstance(block, Text))
        if is_persons and self._counting is not None:
            # Before anything new is attached: the last reply cannot have made use of that.
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
        return [*late, *await self._looked_up(query, already)]

    async def warm(self) -> None:
        """Get the indexes ready while nobody has said anything yet; a large one goes on by itself."""
        self._refreshing = asyncio.create_task(asyncio.to_thread(self._refresh), name="refresh memories")
        await asyncio.wait([self._refreshing], timeout=WARM_SECONDS)

    def on_cancel(self) -> None:
        """The turn was cancelled, and with it what was still being looked for."""
        for task in self._late:
            task.cancel()

    async def close(self) -> None:
        """End whatever is still under way; what is only to be written down is waited for."""
        if self._counting is not None:
            await self._counting.close()
        tasks = [*self._late, *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def _looked_up(self, query: RecallQuery, already: AlreadySeen) -> list[Attachment]:
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
        """What the local index found rides now: tell, count, and look further beside the reply."""
        self.last = found
        if self._counting is not None:
            self._counting.recalled(found, query.text)
        if self._selector is not None:
            chosen = self._selected(query, found, already)
            self._late.append(asyncio.create_task(chosen, name="select memories"))
        self._look_again(found)

    def _look_again(self, found: Recalled) -> None:
        """Beside the reply, what took too long on its way: the directory, or the words of a large tree."""
        if self._refreshing is not None and not self._refreshing.done():
            return
        drifts = [one.drift for one in found.picks if one.drift]
        ran_out = any(one.exists is None for drift in drifts for one in drift.references)
        if ran_out and self._words is not None:
            self._refreshing = asyncio.create_task(asyncio.to_thread(self._learn), name="learn words")
        else:
            self._refreshing = asyncio.create_task(self._deepened(), name="refresh memories")

    async def _deepened(self) -> None:
        """Notice what changed, where that takes long, and work out what it means, a bit at a time."""
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
        # The first time everything may have to be read; that says nothing about the next.
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
        """What was found after its message had gone, unless the model has come across it meanwhile."""
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
    """What rides along already, too: it is not in the view yet."""
    paths = already.paths | {str(one.ranked.path) for one in picks}
    size = already.attached_bytes + sum(one.bytes for one in picks)
    return replace(already, paths=paths, attached_bytes=size)


def _still_new(found: Recalled, already: AlreadySeen) -> Recalled:
    """Without the picks that the model has seen meanwhile, or for which there is no room any more."""
    new = [one for one in found.picks if str(one.ranked.path) not in already.paths]
    seen = [
        LeftOut(one.ranked.entry.file, "already seen", one.ranked.score)
        for one in found.picks
        if str(one.ranked.path) in already.paths
    ]
    kept, over = within_budget(new, already.attached_bytes)
    return replace(found, picks=tuple(kept), left_out=(*found.left_out, *seen, *over))


def _booked(usage: Usage, model: str) -> Attachment:
    """A note of what a question to the small model cost (R5)."""
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
    """The tools used lately, newest first, each once."""
    calls = (
        part.block.name
        for item in reversed(view.items[-4 * RECENT_TOOLS :])
        for part in reversed(item.parts)
        if isinstance(part.block, ToolCall)
    )
    return tuple(dict.fromkeys(calls))[:RECENT_TOOLS]


Judged: TypeAlias = Literal["cited", "contradicted"]
"""What can become of a memory once it is attached."""
MAX_COMMITS = 50
"""Changes of a memory looked at for one that replaced what was attached: a session seldom makes more."""


@dataclass(frozen=True, slots=True)
class _Attached:
    pick: AttachedMemory
    at: datetime
    asked: str


class RecallStats:
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
        event = UsageEvent(file=one.pick.ranked.entry.file, kind=kind, at=self._clock.now())
        await record(memory.location, [event])

    def _write(self, memory: Memory, events: list[UsageEvent]) -> None:
        if events:
            self._start(record(memory.location, events))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="count memories")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
