"""Recall in a session: from the local index at once, with a small model during the reply (R1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.recalled import RECALLED, bytes_in_view, noted, recalled_in_view
from nacre.errors import NacreError
from nacre.memory.memory import Memory
from nacre.memory.recall.base import (
    MAX_PICKS,
    AttachedMemory,
    LeftOut,
    MemoryRanker,
    Recalled,
    RecallQuery,
)
from nacre.memory.recall.drift.words import WordCache
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import (
    MAX_VIEW_BYTES,
    AlreadySeen,
    CheckDrift,
    attach_all,
    candidates,
    rank_all,
    recall,
    render_attachment,
    skip_reason,
    within_budget,
)
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider
from nacre.session.layer import Attachment, Layer
from nacre.session.meter import SIDE_QUERY
from nacre.tools.workspace import Workspace

PURPOSE = "memdir_relevance"
"""Purpose under which the requests to the small model are accounted (R5)."""
LOCAL_CAP_SECONDS = 0.2
"""How long recall may delay a turn (R1); later results are attached to the next message.

It takes a few milliseconds, on a busy machine many times that; a reply takes seconds."""
QUICK_SECONDS = 0.010
"""A directory that is read in this time is read before each message, a slower one in the background."""
WARM_SECONDS = 0.25
"""How long recall may delay the opening of a session, so that the index is ready for its first message."""
DEEPEN_SECONDS = 0.25
"""Duration of one step of background work: closing waits no longer than this."""
SURE = 0.9
"""Confidence from which a local pick is attached without the answer of the small model."""
FITS = 0.25
"""Confidence from which a late choice of the small model still fits the next message."""
MAX_FAILURES = 3
"""Failed requests in a row after which the small model is not asked again: a server may not have it."""
RECENT_TOOLS = 8
"""Number of recent tools in a query: those of the last few rounds (R13)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A small model that selects memories (R5)."""

    provider: Provider
    model: str
    is_remote: bool = True
    """Whether its requests leave the machine, so that local-only memories are not in its list (M27)."""
    seconds: float = 10.0
    """Timeout of a request."""
    wait_seconds: float = 0.0
    """How long a message may wait for its answer, unless all local picks are nearly certain."""
    on_usage: Callable[[Usage, str], None] = lambda usage, model: None
    """Called with the usage of each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """Optional parts of recall."""

    drift: CheckDrift | None = None
    words: WordCache | None = None
    """Words of a large tree, read when a check ran out of time: a checkout changes many of them."""
    selector: Selector | None = None
    stats: RecallStats | None = None
    max_bytes: int = MAX_VIEW_BYTES
    """Bytes of memories in a view at most."""
    catch_up: Callable[[], Awaitable[None]] | None = None
    """Brings working copies of a database to its state, so that no forgotten memory is attached (S6)."""


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
        options: RecallOptions | None = None,
        hides_local: bool = True,
    ) -> None:
        """Search a memory, or the given rankers; files recently seen in the workspace are left out."""
        self.last: Recalled | None = None
        """What the last message got, and why; for display."""
        self._asked: list[Attachment] = []
        """Usage of the small model that is not in the log yet."""
        if isinstance(memory, Memory):
            # Nothing warms it before the first message, which has no time for this import.
            import nacre.memory.recall.ranking.ranker  # noqa: F401, PLC0415

            place = memory.location
            memory = [LocalIndex(place.directory, place.cache, clock=memory.clock)]
        self._rankers = memory
        self._workspace = workspace
        self._clock = clock
        self._hides_local = hides_local
        options = options or RecallOptions()
        self._max_bytes = options.max_bytes
        self._drift = options.drift
        self._selector = options.selector
        self._stats = options.stats
        self._words = options.words
        self._catch_up = options.catch_up
        self._failures = 0
        """Requests to the small model that failed since the last answer."""
        self._late: list[asyncio.Task[_LateRecall]] = []
        self._refreshing: asyncio.Task[object] | None = None
        self._is_first = True
        """No message was ranked yet."""
        self._is_warm = False
        self._is_fresh = False
        """Everything was just read, so the first message need not do it again."""
        self._is_quick = True
        """A check for changes is fast enough to run before the ranking."""

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach results of the local index to user prompts, and late results to any message (R1)."""
        is_prompt = not said.meta and not any(isinstance(block, ToolResult) for block in said.blocks)
        text = "\n".join(block.text for block in said.blocks if isinstance(block, Text))
        if is_prompt and self._stats is not None:
            # Before anything new is attached, which the last reply cannot have used.
            self._stats.answered(view, text)
        already = self._already(view)
        skipped = skip_reason(text, is_on=True, attached_bytes=already.attached_bytes, has_files=True)
        if not is_prompt or skipped:
            # A message too short for recall ("go on") continues the subject of the one before.
            late = self._with_costs(_attachments(self._arrived(view)))
            if is_prompt:
                self.last = Recalled(query=text, skipped=skipped)
            return late
        if self._catch_up is not None:
            try:
                await self._catch_up()
            except NacreError as error:
                self.last = Recalled(query=text, skipped=str(error))
                return self._with_costs([])
        tools = (
            part.block.name
            for item in reversed(view.items[-4 * RECENT_TOOLS :])
            for part in reversed(item.parts)
            if isinstance(part.block, ToolCall)
        )
        query = RecallQuery(
            text=text, now=self._clock.now(), recent_tools=tuple(dict.fromkeys(tools))[:RECENT_TOOLS]
        )
        came = self._arrived(view, await self._fitting(query))
        found = await self._recalled(query, _with(already, came))
        return self._with_costs([*_attachments(came), *found])

    def _with_costs(self, attachments: list[Attachment]) -> list[Attachment]:
        """Return the usage of the small model that is not in the log yet, then the attachments."""
        asked = self._asked
        self._asked = []
        return [*asked, *attachments]

    async def _fitting(self, query: RecallQuery) -> Collection[str] | None:
        """Return the paths that fit a message, by which late choices are judged; None if there are none."""
        if not any(task.done() for task in self._late):
            return None
        work = asyncio.create_task(asyncio.to_thread(rank_all, query, self._rankers), name="rank memories")
        done, _ = await asyncio.wait([work], timeout=LOCAL_CAP_SECONDS)
        if not done or work.exception() is not None:
            return frozenset()
        return {str(one.path) for one in work.result() if one.confidence >= FITS}

    async def warm(self) -> None:
        """Load the indexes before the first prompt; a large one continues in the background."""
        refreshed = asyncio.create_task(asyncio.to_thread(self._refresh), name="read memories")
        self._refreshing = asyncio.create_task(self._prepare(refreshed), name="refresh memories")
        await asyncio.wait([refreshed], timeout=WARM_SECONDS)

    def on_cancel(self) -> None:
        """Cancel pending recall with the turn."""
        for task in self._late:
            task.cancel()

    async def close(self) -> None:
        """Cancel running tasks; wait for those that only write statistics."""
        if self._stats is not None:
            await self._stats.close()
        tasks = [*self._late, *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task

    async def _prepare(self, refreshed: asyncio.Task[None]) -> None:
        """Load the model and compute vectors as soon as the memories are read, before the first message."""
        await refreshed
        for ranker in self._rankers:
            while await asyncio.to_thread(ranker.deepen, seconds=DEEPEN_SECONDS):
                pass

    async def _recalled(self, query: RecallQuery, already: AlreadySeen) -> list[Attachment]:
        if self._is_first and self._refreshing is not None:
            # It may come before everything is read, and the model of the extra `embed` loaded.
            await asyncio.wait([self._refreshing], timeout=LOCAL_CAP_SECONDS)
        self._is_first = False
        work = asyncio.create_task(asyncio.to_thread(self._local, query, already), name="recall")
        done, _ = await asyncio.wait([work], timeout=LOCAL_CAP_SECONDS)
        if not done:
            self._late.append(asyncio.create_task(_later(work, query), name="late recall"))
            self.last = Recalled(query=query.text, problem="the index is not ready yet; the picks come later")
            return []
        if (error := work.exception()) is not None:
            self.last = Recalled(query=query.text, problem=f"recall failed: {error}")
            return []
        found = work.result()
        if self._selector is not None:
            found = await self._judged(found, query, already, self._selector)
        self._taken(found, query)
        return _attachments(found.picks)

    async def _judged(
        self, found: Recalled, query: RecallQuery, already: AlreadySeen, selector: Selector
    ) -> Recalled:
        """Return the memories for a message after the small model was asked, if it answers in time.

        In time it decides about all local picks that are not nearly certain. Otherwise the local picks are
        attached, and the others that it chooses come later.
        """
        # What the model may not see (M27), it cannot refuse.
        sure = [
            one
            for one in found.picks
            if one.ranked.confidence >= SURE or (one.ranked.entry.local_only and selector.is_remote)
        ]
        asked = self._start_selection(query, sure, already, selector)
        if len(sure) == len(found.picks) > 0 or not selector.wait_seconds:
            return found
        await asyncio.wait([asked], timeout=selector.wait_seconds)
        if not asked.done() or asked.cancelled() or asked.exception() or asked.result().found.problem:
            return found
        self._late.remove(asked)
        chosen = asked.result().found.picks
        kept = {one.ranked.path for one in (*sure, *chosen)}
        refused = [LeftOut.of(one.ranked, "not chosen") for one in found.picks if one.ranked.path not in kept]
        room = already.max_bytes - already.attached_bytes
        picks, over = within_budget([*sure, *chosen], room)
        offered = {one.path for one in refused}
        left_out = [one for one in found.left_out if one.path not in kept | offered]
        return replace(found, picks=tuple(picks), left_out=(*left_out, *refused, *over))

    def _start_selection(
        self,
        query: RecallQuery,
        attached: Sequence[AttachedMemory],
        already: AlreadySeen,
        selector: Selector,
    ) -> asyncio.Task[_LateRecall]:
        """Ask the small model for further memories beside those that are attached anyway."""
        selected = self._selected(query, attached, already, selector)
        task = asyncio.create_task(selected, name="select memories")
        self._late.append(task)
        return task

    def _taken(self, found: Recalled, query: RecallQuery) -> None:
        """Record and count what a message gets, and start background work during the reply."""
        self.last = found
        if self._stats is not None:
            self._stats.recalled(found, query.text)
        if self._refreshing is not None and not self._refreshing.done():
            return
        # What was too slow is refreshed: the directory, or the words of a large tree.
        ran_out = any(one.drift and one.drift.unchecked for one in found.picks)
        if ran_out and self._words is not None:
            self._refreshing = asyncio.create_task(asyncio.to_thread(self._words.update), name="learn words")
        else:
            self._refreshing = asyncio.create_task(self._deepen(), name="refresh memories")

    async def _deepen(self) -> None:
        """Look for changes, if that is slow, and process them in small steps."""
        if not self._is_quick:
            await asyncio.to_thread(self._refresh)
        for ranker in self._rankers:
            while await asyncio.to_thread(ranker.deepen, seconds=DEEPEN_SECONDS):
                pass

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
        self._is_quick = is_first or self._clock.seconds() - begun < QUICK_SECONDS

    async def _selected(
        self,
        query: RecallQuery,
        attached: Sequence[AttachedMemory],
        already: AlreadySeen,
        selector: Selector,
    ) -> _LateRecall:
        from nacre.memory.recall.select import select  # noqa: PLC0415 - only with a small model

        picked = {str(one.ranked.path) for one in attached}
        places = MAX_PICKS - len(picked)
        there = await asyncio.to_thread(candidates, query, self._rankers)
        hides_local = already.hides_local or selector.is_remote
        known = already.paths | picked
        new = [
            one
            for one in there
            if one.entry.is_trusted
            and not (one.entry.local_only and hides_local)
            and str(one.path) not in known
        ]
        if not new or places <= 0:
            return _LateRecall(found=Recalled(query=query.text), query=query, is_chosen=True)
        model = selector.model
        answer = await select(query, new, selector.provider, model, timeout=selector.seconds)
        if answer.usage is not None:
            selector.on_usage(answer.usage, model)
            facts: JsonObject = {"purpose": PURPOSE, "model": model, "usage": answer.usage.as_json()}
            self._asked.append(Attachment(kind=SIDE_QUERY, facts=facts))
        self._failures = self._failures + 1 if answer.problem else 0
        if self._failures == MAX_FAILURES:
            self._selector = None
        if answer.problem and self.last is not None:
            self.last = replace(self.last, problem=answer.problem)
        picks = await asyncio.to_thread(attach_all, answer.chosen[:places], query, self._drift)
        found = Recalled(query=query.text, picks=tuple(picks), problem=answer.problem)
        return _LateRecall(found=found, query=query, is_chosen=True)

    def _arrived(self, view: View, fitting: Collection[str] | None = None) -> list[AttachedMemory]:
        """Return results found after their message was sent, unless the model has seen them since.

        With `fitting`, choices of the small model for an earlier message count only if they are among these.
        """
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
                self.last = replace(self.last or Recalled(query=""), problem=f"recall failed: {error}")
                continue
            late = task.result()
            # Dropped are picks that the model has seen since, and those that exceed the budget.
            new = [
                one
                for one in late.found.picks
                if str(one.ranked.path) not in already.paths
                and (not late.is_chosen or fitting is None or str(one.ranked.path) in fitting)
            ]
            seen = [
                LeftOut.of(one.ranked, "already seen")
                for one in late.found.picks
                if str(one.ranked.path) in already.paths
            ]
            picks, over = within_budget(new, already.max_bytes - already.attached_bytes)
            left_out = (*late.found.left_out, *seen, *over)
            found = replace(late.found, picks=tuple(picks), left_out=left_out)
            already = _with(already, found.picks)
            came += found.picks
            if not late.is_chosen:
                self._taken(found, late.query)
                if self._selector is not None:
                    self._start_selection(late.query, found.picks, already, self._selector)
            elif self._stats is not None:
                self._stats.recalled(found, late.query.text)
        return came

    def _already(self, view: View) -> AlreadySeen:
        paths = (*recalled_in_view(view), *(self._workspace.recently_seen() if self._workspace else ()))
        return AlreadySeen(
            paths=frozenset(str(path) for path in paths),
            attached_bytes=bytes_in_view(view),
            max_bytes=self._max_bytes,
            hides_local=self._hides_local,
        )


def _with(already: AlreadySeen, picks: Sequence[AttachedMemory]) -> AlreadySeen:
    """Add memories about to be attached, which are not in the view yet."""
    paths = already.paths | {str(one.ranked.path) for one in picks}
    size = already.attached_bytes + sum(one.bytes for one in picks)
    return replace(already, paths=paths, attached_bytes=size)


async def _later(work: asyncio.Task[Recalled], query: RecallQuery) -> _LateRecall:
    return _LateRecall(found=await work, query=query)


def _attachments(picks: Sequence[AttachedMemory]) -> list[Attachment]:
    if not picks:
        return []
    text = render_attachment(picks)
    names = ", ".join(one.ranked.entry.file for one in picks)
    facts = noted((one.ranked.path for one in picks), size=sum(one.bytes for one in picks))
    notice = f"recalled {len(picks)} {'memory' if len(picks) == 1 else 'memories'}: {names}"
    return [Attachment(kind=RECALLED, text=text, facts=facts, notice=notice)]


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
        from nacre.memory.recall import usage  # noqa: PLC0415 - only where a memory was recalled

        at = self._clock.now()
        new = [_Attached(pick, at, asked) for pick in recalled.picks]
        self._waiting += new
        self._all += new
        for memory in self._memories:
            if events := usage.events_of(recalled, memory.location, at):
                self._start(usage.record(memory.location, events))

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
        from nacre.memory.recall import usage  # noqa: PLC0415 - as above

        for one in attached:
            if await asyncio.to_thread(usage.is_cited, one.pick, reply, [one.asked]):
                await self._count(one, "cited")
            if usage.is_contradicted(
                one.pick, attached=one.at, session=self._session, next_message=next_message
            ):
                await self._count(one, "contradicted")

    async def _replaced(self) -> None:
        from nacre.memory.recall import usage  # noqa: PLC0415 - as above

        for memory in self._memories:
            mine = [one for one in self._all if one.pick.ranked.directory == memory.location.directory]
            commits = await memory.log(limit=MAX_COMMITS) if mine and memory.location.history.exists() else []
            for one in mine:
                if usage.is_contradicted(one.pick, attached=one.at, session=self._session, commits=commits):
                    await self._count(one, "contradicted")

    async def _count(self, one: _Attached, kind: Literal["cited", "contradicted"]) -> None:
        from nacre.memory.recall import usage  # noqa: PLC0415 - as above

        memory = next(m for m in self._memories if m.location.directory == one.pick.ranked.directory)
        event = usage.UsageEvent(file=one.pick.ranked.entry.file, kind=kind, at=self._clock.now())
        await usage.record(memory.location, [event])

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="count memories")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
