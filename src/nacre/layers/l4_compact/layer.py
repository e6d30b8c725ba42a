"""Layers 3 and 4 in a session: what makes a conversation that no longer fits small enough, and says so.

The cheapest draft wins: one that is ready, the session's notes, a model's summary, rules. Rules need nothing
and always work, so that a session can always go on (C16, C25, C26).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import inf
from typing import TypeAlias

from nacre.errors import ContextOverflow, NacreError, NothingToCompact
from nacre.layers.l4_compact.by_rule import by_rule
from nacre.layers.l4_compact.install import (
    CompactionLimits,
    RoomShares,
    SummaryMaterial,
    divide_room,
    install,
)
from nacre.layers.l4_compact.overflow_files import OverflowFiles
from nacre.layers.l4_compact.policy import (
    COMPACTION,
    CompactionHistory,
    CompactSettings,
    compaction_history,
    room,
)
from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch
from nacre.messages.blocks import JsonObject, Opaque
from nacre.messages.draft import Draft, Fragment
from nacre.messages.events import Reply
from nacre.messages.facts import FACTS, Facts
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Noted, Record, Undone
from nacre.messages.rewrite import drop_thinking
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View, live_records
from nacre.providers.base import Request
from nacre.session.compaction import AUTOMATIC, Compaction, CompactionRequest
from nacre.session.ladder import Pressure, largest_shares
from nacre.session.layer import Layer
from nacre.session.restoration import Restorer
from nacre.session.session import OPENING, Session

SHRUNK_TAIL_SHARE = 0.25
"""Of a view that must get smaller although it seems to fit."""
OPENING_GROWTH = 1.25
OPENING_FRAME = 256
"""How much larger the opening may have become; the words around it."""
ENOUGH_SHARE = 0.6
"""Of what the base leaves of the threshold: a draft that leaves more is too old to be of use (C21)."""
SHORT_TOKENS = 1_000
"""Of a conversation: half of that has no room for words, deeds and a tail beside what must be said."""
WITH = "with"
"""Where a boundary names the records that were made for it: results moved to disk, thinking left out."""
BLOCK_BETA = "compact-2026-09-04"
"""The beta under which Anthropic accepts a compaction block of its own."""
ROUND_SHARE = 0.25
"""Of the room: a last round that takes more has its largest_shares results moved to disk."""


Summarise: TypeAlias = Callable[[View, CompactionRequest, Facts], Awaitable[Draft]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompactionRun:
    """One compaction while it is worked on."""

    view: View
    wish: CompactionRequest
    facts: Facts
    tokens: int
    began: float
    must_shrink: bool = False
    """Whatever the window says: a person asked for it, or the provider found it too long."""
    begun: str = ""
    """What a person's own commands add where the conversation begins anew."""


@dataclass(frozen=True, slots=True)
class _DraftAttempt:
    """A draft that may stand for the conversation."""

    draft: Draft
    then: CompactionHistory
    """What there is to say of compactions once it does."""
    most: float = inf
    """Where it leaves so many tokens, the next one is tried."""


@dataclass(eq=False)
class Compact(Layer):
    """Layer 4; a person can ask for it, too."""

    log_kinds = {COMPACTION: "last"}  # failures and refills in a row are counted over compactions (C25)

    session: Session
    settings: CompactSettings = field(default_factory=CompactSettings)
    summarise: Summarise | None = None
    """Asks a model; raises a `NacreError` when nothing usable came of it."""
    preparation: SummaryPrefetch | None = None
    """Makes summaries ahead in the background."""
    restorer: Restorer | None = None
    """Without one, only what layers restore comes back."""
    tasks: Callable[[], str] = str
    """The task list as text; empty when there is none."""
    desk: OverflowFiles = field(default_factory=OverflowFiles)
    is_automatic: bool = True
    _why_not: str = field(default="", init=False)
    _is_focused: bool = False
    """A person's own commands said what to dwell on the last time: nobody can know that ahead."""

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        if not self.is_automatic or pressure.fits or not _has_past(view):
            return False
        # C12b: on models that bind thinking, between two rounds of a turn only when there is no other way.
        is_bound = pressure.profile.binds_thinking and not pressure.starts_turn
        return not (is_bound and _can_wait(pressure))

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """The records of a compaction; none while one is being prepared and there is room until it is."""
        if _can_wait(pressure) and self._is_better_later(view):
            return ()
        is_refused = pressure.overflow is not None
        done = await self._compacted(view, AUTOMATIC, tokens=pressure.tokens, must_shrink=is_refused)
        if done is None and self._why_not and not (_can_wait(pressure) or is_refused):
            raise ContextOverflow(f"the window is full and {self._why_not}; change it, or begin with /clear")
        if done is None:
            return ()
        if done.after < pressure.thresholds.blocking:
            # Otherwise none of it is recorded: it is an overflow, and nothing happened.
            self.session.notify(done.line)
            self._installed(done)
        return done.records

    def finish_request(self, request: Request, view: View) -> Request:
        """Return the request, with the beta that a provider's own block in an older log needs (C23b)."""
        first = view.items[0].parts if len(view.items) else ()
        block = first[0].block if first else None
        if isinstance(block, Opaque) and block.kind == "compaction" and BLOCK_BETA not in request.betas:
            return replace(request, betas=(*request.betas, BLOCK_BETA))
        return request

    async def compact(self, wish: CompactionRequest) -> Compaction:
        """Do it now because a person asks; raises `NothingToCompact` where that would gain nothing."""
        session = self.session
        wish = replace(wish, trigger="manual")
        view = self.session.view
        done = None
        if view.estimate < SHORT_TOKENS:
            raise NothingToCompact("nothing was compacted: the conversation is short as it is")
        if _has_past(view):
            done = await self._compacted(view, wish, tokens=session.tokens, must_shrink=True)
        if (session.view.epochs, len(session.view.items)) != (view.epochs, len(view.items)):
            # What was said meanwhile is in none of the drafts, and would be taken for part of the span.
            raise NothingToCompact("nothing was compacted: the conversation went on meanwhile; ask again")
        if done is None:
            why = self._why_not or "it would not make the conversation much smaller"
            raise NothingToCompact(f"nothing was compacted: {why}")
        await session.transcript.append(*done.records)
        self._installed(done)
        return done

    def on_reply(self, reply: Reply) -> None:
        """Asked after every reply: begin a summary where one will be needed soon (C28)."""
        ahead = self.preparation
        session = self.session
        if ahead is None or not self.is_automatic or session.tokens < session.thresholds.warning:
            return
        if session.is_one_shot and not reply.message.tool_calls:
            return
        if self._wants_summary(session.view) and not self._is_spared(session.view):
            ahead.begin(session.view)

    def _is_spared(self, view: View) -> bool:
        """Whether a cheaper layer will do once the view is full: then a summary would be paid for in vain."""
        now = self.session.pressure(view)
        full = replace(now, tokens=max(now.tokens, now.thresholds.autocompact))
        cheaper = takewhile(lambda layer: layer is not self, self.session.layers)
        return any(layer.can_shrink(view, full) for layer in cheaper)

    def _is_better_later(self, view: View) -> bool:
        """Whether a summary is under way or can be begun, and none is ready: the turn goes on without it."""
        ahead = self.preparation
        if ahead is None or ahead.is_ready(view) or not self._wants_summary(view):
            return False
        ahead.begin(view)
        return ahead.is_under_way

    def _wants_summary(self, view: View) -> bool:
        is_barred = compaction_history(view).is_barred(self.settings) or self._is_focused
        return self.summarise is not None and not is_barred and self._layer_draft(view) is None

    async def _compacted(
        self, view: View, wish: CompactionRequest, *, tokens: int, must_shrink: bool
    ) -> Compaction | None:
        began = self.session.clock.seconds()
        allowed = await self._allowed(wish)
        self._why_not = "a PreCompact hook does not allow it" if allowed is None else ""
        if allowed is None:
            return None
        wish = allowed
        self._is_focused = wish.trigger == "auto" and bool(wish.focus)
        case = _CompactionRun(
            view=view,
            wish=wish,
            facts=Facts.of(view.records),
            tokens=tokens,
            began=began,
            must_shrink=must_shrink,
        )
        done = None
        before = compaction_history(view)
        then = before
        begun = None
        async for one in self._drafts(case):
            begun = await self._restart_context() if begun is None else begun
            new = await self._put(replace(case, begun=begun), one.draft, one.then)
            done, then = (new, one.then) if new is not None else (done, then)
            if done is not None and (done.after < one.most or wish.span.is_partial):
                break
        if done is None and one.then.failures > before.failures:
            # Nothing came of it, and yet it counts: else the same would be asked for in vain for ever.
            note = self._note(COMPACTION, replace(before, failures=one.then.failures).as_json())
            await self.session.transcript.append(note)
        if wish.trigger == "auto" and then.refills == self.settings.thrash_turns > before.refills:
            self.session.notify(self._thrashing(view))
        return done

    async def _drafts(self, case: _CompactionRun) -> AsyncIterator[_DraftAttempt]:
        """What may stand for the conversation, cheapest first; rules come last and always."""
        settings = self.settings
        wish = case.wish
        then = compaction_history(case.view)
        is_auto = wish.trigger == "auto"
        by_model = then.compacted_now(settings, by_model=True, is_auto=is_auto)
        is_plain = not (wish.focus or wish.span.is_partial or wish.by_rule)
        if is_plain and (at_hand := await self._at_hand(case)) is not None:
            yield _DraftAttempt(at_hand, by_model, self._enough)
        is_barred = is_auto and then.is_barred(settings)
        if self.summarise is not None and not (is_barred or wish.by_rule):
            wish.on_progress("asking for a summary")
            try:
                async with asyncio.timeout(settings.summary_seconds):
                    draft = await self.summarise(case.view, wish, case.facts)
            except (NacreError, TimeoutError) as error:
                then = replace(then, failures=then.failures + 1)
                self.session.notify(_failed(error, then, settings))
            else:
                yield _DraftAttempt(draft, by_model, self.session.thresholds.autocompact)
        draft = by_rule(case.view, wish.span, self._terms(case).room)
        yield _DraftAttempt(draft, then.compacted_now(settings, by_model=False, is_auto=is_auto))

    @property
    def _enough(self) -> float:
        """What a draft that is old already may leave, in tokens (C21)."""
        base = self.session.base.tokens * self.session.calibration.ratio
        return base + ENOUGH_SHARE * (self.session.thresholds.autocompact - base)

    async def _at_hand(self, case: _CompactionRun) -> Draft | None:
        """A draft that costs nothing now: made ahead, or the notes; waited for where nothing else is left."""
        is_full = case.tokens >= self.session.thresholds.blocking
        if self.preparation is not None:
            if is_full:
                await self.preparation.wait(self.settings.wait_seconds)
            if (draft := self.preparation.take(case.view)) is not None:
                return draft
        if is_full:
            for layer in self.session.layers:
                await layer.finish_draft()
        return self._layer_draft(case.view)

    def _layer_draft(self, view: View) -> Draft | None:
        drafts = (layer.draft(view) for layer in self.session.layers)
        return next((draft for draft in drafts if draft is not None), None)

    async def _allowed(self, wish: CompactionRequest) -> CompactionRequest | None:
        """The request as layers change it; None where one of them forbids the compaction."""
        allowed: CompactionRequest | None = wish
        for layer in self.session.layers:
            if allowed is not None:
                allowed = await layer.before_compact(allowed)
        return allowed

    async def _restart_context(self) -> str:
        texts = [await layer.restart_context() for layer in self.session.layers]
        return "\n\n".join(filter(None, texts))

    def _installed(self, done: Compaction) -> None:
        self._restorer.settle()
        for layer in self.session.layers:
            layer.after_compact(done)

    @cached_property
    def _restorer(self) -> Restorer:
        return self.restorer or Restorer(self.session)

    async def _put(self, case: _CompactionRun, draft: Draft, then: CompactionHistory) -> Compaction | None:
        """The draft in its place, if that makes the conversation smaller."""
        session = self.session
        clock = self.session.clock
        terms = self._terms(case)
        case.wish.on_progress("putting together what stays")
        moved = await self.desk.shrink(case.view, int(terms.room * ROUND_SHARE), clock)
        view = case.view.after(*moved)
        shares = divide_room(view, draft, case.facts, terms)
        stays = [*view.items[: shares.span.first], *view.items[shares.place :]]
        if not await self.desk.keep_left(case.facts, shares.facts, stays):
            # Nobody is sent to a file that could not be written.
            terms = replace(terms, where=replace(terms.where, words="", deeds=""))
            shares = divide_room(view, draft, case.facts, terms)
        fragments = await self._restored(case, stays, shares)
        summary_id = clock.new_id()
        seconds = clock.seconds() - case.began
        own = [self._note(COMPACTION, then.as_json()), self._note(FACTS, shares.facts.as_json())]
        material = SummaryMaterial(
            fragments=fragments,
            tasks=self.tasks(),
            where=terms.where,
            carries=self._restorer.carry(view, summary_id, own),
            trigger=case.wish.trigger,
            pre_tokens=case.tokens,
            extra={**_of(view, shares, seconds), "by": draft.kind, **draft.told},
            binds_thinking=session.profile.binds_thinking,
        )
        records = install(view, draft, shares, material, summary_id=summary_id, clock=clock)
        after = view.after(*records)
        tokens = session.pressure(after).tokens
        # A person who names a part of it wants that part shorter, whatever its share in the whole; and
        # little is enough where the session could not go on without it.
        is_needed = tokens < session.thresholds.blocking <= case.tokens
        least = 0.0 if case.wish.span.is_partial or is_needed else self.settings.least_share
        if after.estimate > (1 - least) * case.view.estimate:
            return None
        done = _with_its_own(_compacted_in(records), (*moved, *records[:-1]), post_tokens=tokens)
        files = tuple(one.name for one in fragments if one.kind == "file")
        return _told(case, draft, shares, (*moved, *records[:-1], done), files=files, seconds=seconds)

    def _terms(self, case: _CompactionRun) -> CompactionLimits:
        session = self.session
        settings = self.settings
        ratio = session.calibration.ratio
        threshold = session.thresholds.autocompact
        space = room(threshold=threshold, base=session.base.tokens, ratio=ratio, settings=settings)
        room_left = max(0, space - self._opening_tokens)
        if case.must_shrink:
            tail = int(case.view.estimate * SHRUNK_TAIL_SHARE)
            settings = replace(settings, tail_tokens=min(settings.tail_tokens, tail))
            room_left = min(room_left, self._half(case))
        room_left = max(0, room_left - estimate_text(self.tasks()) - estimate_text(case.begun))
        return CompactionLimits(room=room_left, settings=settings, span=case.wish.span, where=self.desk.where)

    def _half(self, case: _CompactionRun) -> int:
        """Room for a summary that is clearly smaller than what it stands for, and for the tail behind it."""
        items = case.view.items
        span = case.wish.span
        inside = sum(item.tokens for item in items[span.first : span.keeps_from])
        kept = 0 if span.keeps_from is None else sum(item.tokens for item in items[span.keeps_from :])
        # Of a foreign log the opening is no part yet: it comes on top and takes nothing from the rest.
        opening = self._opening_tokens if self.session.is_opened and not span.first else 0
        return kept + max(0, int(inside * self.settings.room_share) - opening)

    @property
    def _opening_tokens(self) -> int:
        """What was said ahead of the conversation may have grown since, and is said to be read again."""
        opening = estimate_text(self.session.base.opening)
        return int(opening * OPENING_GROWTH) + OPENING_FRAME if opening else 0

    async def _restored(
        self, case: _CompactionRun, stays: Sequence[Item], shares: RoomShares
    ) -> list[Fragment]:
        tokens = shares.left + self._opening_tokens
        fragments = await self._restorer.fragments(stays, tokens)
        hooks = [Fragment(kind="other", name="hooks", text=case.begun)] if case.begun else []
        return [*fragments, *hooks]

    def _note(self, kind: str, facts: JsonObject) -> Noted:
        clock = self.session.clock
        return Noted(id=clock.new_id(), at=clock.now(), kind=kind, facts=facts)

    def _thrashing(self, view: View) -> str:
        parts = largest_shares(view, self.session.base.tokens)
        return (
            f"The window fills up again right after every compaction ({parts}); from now on it is made "
            "smaller by rule, without asking a model. A model with a larger window or /clear would help."
        )


async def undo_compaction(session: Session) -> Compacted | None:
    """Let the newest compaction count no longer (C23); a session resumed behind it must be opened again."""
    standing = [record for record in live_records(session.view.records) if isinstance(record, Compacted)]
    if not standing:
        return None
    clock = session.clock
    last = standing[-1]
    beside = last.extra.get(WITH)
    targets = [last.id, *(map(str, beside) if isinstance(beside, list) else ())]
    records: list[Record] = [Undone(id=clock.new_id(), at=clock.now(), target=target) for target in targets]
    if session.profile.binds_thinking:
        # Thinking since the compaction is bound to the summary, which is gone from the view now.
        records += drop_thinking(session.view.after(*records).items, clock)
    await session.transcript.append(*records)
    return last


def _with_its_own(record: Compacted, beside: Sequence[Record], *, post_tokens: int) -> Compacted:
    """The boundary as it is written: it names the records that came with it, which go when it goes."""
    names: JsonObject = {WITH: [one.id for one in beside]} if beside else {}
    return replace(record, post_tokens=post_tokens, extra={**record.extra, **names})


def _has_past(view: View) -> bool:
    """Whether there is more than the opening and one message: to cut these short would gain nothing."""
    note = view.last_noted(OPENING)
    opening = note.fact("record") if note else None
    return sum(item.record_id != opening for item in view.items) > 1


def _can_wait(pressure: Pressure) -> bool:
    return pressure.overflow is None and pressure.tokens < pressure.thresholds.blocking


def _told(
    case: _CompactionRun,
    draft: Draft,
    shares: RoomShares,
    records: tuple[Record, ...],
    *,
    files: tuple[str, ...],
    seconds: float,
) -> Compaction:
    record = _compacted_in(records)
    return Compaction(
        record=record,
        records=records,
        kind=draft.kind,
        trigger=case.wish.trigger,
        before=case.tokens,
        after=record.post_tokens or 0,
        kept_messages=len(case.view.items) - shares.place,
        kept_before=shares.span.first,
        words_kept=len(shares.facts.words),
        words_left=shares.facts.left_words,
        files=files,
        dropped=_dropped(draft),
        seconds=seconds,
    )


def _of(view: View, shares: RoomShares, seconds: float) -> JsonObject:
    """What the boundary says of itself (C22)."""
    last = view.items[shares.place - 1].record_id if shares.place else None
    return {"durationMs": round(seconds * 1000), "lastSummarizedUuid": last}


def _compacted_in(records: Sequence[Record]) -> Compacted:
    record = records[-1]
    assert isinstance(record, Compacted), "the boundary is installed last"
    return record


def _dropped(draft: Draft) -> int:
    dropped = draft.told.get("dropped")
    return len(dropped) if isinstance(dropped, list) else 0


def _failed(error: Exception, then: CompactionHistory, settings: CompactSettings) -> str:
    why = (
        f"no summary within {settings.summary_seconds:.0f} s"
        if isinstance(error, TimeoutError)
        else str(error)
    )
    rests = " No other is asked for by itself in this session." if then.has_broken(settings) else ""
    return f"The summary failed ({why}); the conversation is compacted by rule instead.{rests}"
