"""Layer 4: compacts a conversation that no longer fits, and notifies the user.

Drafts are tried in order of cost: a prefetched summary, the session's notes, a model's summary, rules. Rules
always work, so a session can always continue (C16, C25, C26).
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
"""Share of a view for the tail when the view must shrink although it seems to fit."""
OPENING_GROWTH = 1.25
OPENING_FRAME = 256
"""Allowance for a larger opening when it is read again, and for the text around it."""
ENOUGH_SHARE = 0.6
"""Share of threshold minus base; a draft that leaves more is too old to be useful (C21)."""
SHORT_TOKENS = 1_000
"""A shorter conversation is not compacted."""
WITH = "with"
"""Key under which a boundary lists the records made with it."""
BLOCK_BETA = "compact-2026-09-04"
"""The beta under which Anthropic accepts a compaction block of its own."""
ROUND_SHARE = 0.25
"""Share of the room; if the last round takes more, its largest results go to disk."""


Summarise: TypeAlias = Callable[[View, CompactionRequest, Facts], Awaitable[Draft]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompactionRun:
    """State of one compaction."""

    view: View
    request: CompactionRequest
    facts: Facts
    tokens: int
    began: float
    must_shrink: bool = False
    """The user asked for it, or the provider refused the request as too long."""
    restart_text: str = ""
    """Text that hooks add after a compaction."""


@dataclass(frozen=True, slots=True)
class _DraftAttempt:
    """A draft with the history to record if it is installed."""

    draft: Draft
    history: CompactionHistory
    """The compaction history after it."""
    most: float = inf
    """If it leaves this many tokens, the next draft is tried."""


@dataclass(eq=False)
class Compact(Layer):
    """Layer 4: compaction, automatic or on request."""

    log_kinds = {COMPACTION: "last"}  # failures and refills in a row are counted over compactions (C25)

    session: Session
    settings: CompactSettings = field(default_factory=CompactSettings)
    summarise: Summarise | None = None
    """Asks a model for a draft; raises `NacreError` if there is no usable summary."""
    preparation: SummaryPrefetch | None = None
    """Prefetches summaries in the background."""
    restorer: Restorer | None = None
    """Without one, only fragments from layers are restored."""
    tasks: Callable[[], str] = str
    """The task list as text; empty when there is none."""
    overflow: OverflowFiles = field(default_factory=OverflowFiles)
    is_automatic: bool = True
    _why_not: str = field(default="", init=False)
    _is_focused: bool = False
    """A hook set the focus last time; a prefetched summary could not know it."""

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        if not self.is_automatic or pressure.fits or not _has_past(view):
            return False
        # C12b: with bound thinking, compact within a turn only if there is no other way.
        is_bound = pressure.profile.binds_thinking and not pressure.starts_turn
        return not (is_bound and _can_wait(pressure))

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """Return the records of a compaction; none while a summary is prefetched and there is room."""
        if _can_wait(pressure) and self._is_better_later(view):
            return ()
        is_refused = pressure.overflow is not None
        done = await self._compacted(view, AUTOMATIC, tokens=pressure.tokens, must_shrink=is_refused)
        if done is None and self._why_not and not (_can_wait(pressure) or is_refused):
            raise ContextOverflow(f"the window is full and {self._why_not}; change it, or begin with /clear")
        if done is None:
            return ()
        if done.after < pressure.thresholds.blocking:
            # Otherwise the records are discarded and the request fails with an overflow.
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

    async def compact(self, request: CompactionRequest) -> Compaction:
        """Compact now; raises `NothingToCompact` if that would gain nothing."""
        session = self.session
        request = replace(request, trigger="manual")
        view = self.session.view
        done = None
        if view.estimate < SHORT_TOKENS:
            raise NothingToCompact("nothing was compacted: the conversation is already short")
        if _has_past(view):
            done = await self._compacted(view, request, tokens=session.tokens, must_shrink=True)
        if (session.view.epochs, len(session.view.items)) != (view.epochs, len(view.items)):
            # New messages are in no draft and would be treated as part of the span.
            raise NothingToCompact("nothing was compacted: the conversation went on meanwhile; ask again")
        if done is None:
            why = self._why_not or "it would not make the conversation much smaller"
            raise NothingToCompact(f"nothing was compacted: {why}")
        await session.transcript.append(*done.records)
        self._installed(done)
        return done

    def on_reply(self, reply: Reply) -> None:
        """Prefetch a summary if one will be needed soon; called after every reply (C28)."""
        ahead = self.preparation
        session = self.session
        if ahead is None or not self.is_automatic or session.tokens < session.thresholds.warning:
            return
        if session.is_one_shot and not reply.message.tool_calls:
            return
        if self._wants_summary(session.view) and not self._is_spared(session.view):
            ahead.begin(session.view)

    def _is_spared(self, view: View) -> bool:
        """Return whether a cheaper layer will make room, so that no summary is needed."""
        now = self.session.pressure(view)
        full = replace(now, tokens=max(now.tokens, now.thresholds.autocompact))
        cheaper = takewhile(lambda layer: layer is not self, self.session.layers)
        return any(layer.can_shrink(view, full) for layer in cheaper)

    def _is_better_later(self, view: View) -> bool:
        """Return whether to wait for a prefetched summary that is not ready yet."""
        ahead = self.preparation
        if ahead is None or ahead.is_ready(view) or not self._wants_summary(view):
            return False
        ahead.begin(view)
        return ahead.is_under_way

    def _wants_summary(self, view: View) -> bool:
        is_barred = compaction_history(view).is_barred(self.settings) or self._is_focused
        return self.summarise is not None and not is_barred and self._layer_draft(view) is None

    async def _compacted(
        self, view: View, request: CompactionRequest, *, tokens: int, must_shrink: bool
    ) -> Compaction | None:
        began = self.session.clock.seconds()
        allowed = await self._allowed(request)
        self._why_not = "a PreCompact hook does not allow it" if allowed is None else ""
        if allowed is None:
            return None
        request = allowed
        self._is_focused = request.trigger == "auto" and bool(request.focus)
        run = _CompactionRun(
            view=view,
            request=request,
            facts=Facts.of(view.records),
            tokens=tokens,
            began=began,
            must_shrink=must_shrink,
        )
        done = None
        before = compaction_history(view)
        history = before
        restart_text = None
        async for one in self._drafts(run):
            restart_text = await self._restart_context() if restart_text is None else restart_text
            new = await self._put(replace(run, restart_text=restart_text), one.draft, one.history)
            done, history = (new, one.history) if new is not None else (done, history)
            if done is not None and (done.after < one.most or request.span.is_partial):
                break
        if done is None and one.history.failures > before.failures:
            # Count the failure although nothing was installed, or it would be repeated for ever.
            note = self._note(COMPACTION, replace(before, failures=one.history.failures).as_json())
            await self.session.transcript.append(note)
        if request.trigger == "auto" and history.refills == self.settings.thrash_turns > before.refills:
            self.session.notify(self._thrashing(view))
        return done

    async def _drafts(self, run: _CompactionRun) -> AsyncIterator[_DraftAttempt]:
        """Yield drafts, cheapest first; the draft by rule always comes last."""
        settings = self.settings
        request = run.request
        history = compaction_history(run.view)
        is_auto = request.trigger == "auto"
        by_model = history.compacted_now(settings, by_model=True, is_auto=is_auto)
        is_plain = not (request.focus or request.span.is_partial or request.by_rule)
        if is_plain and (at_hand := await self._at_hand(run)) is not None:
            yield _DraftAttempt(at_hand, by_model, self._enough)
        is_barred = is_auto and history.is_barred(settings)
        if self.summarise is not None and not (is_barred or request.by_rule):
            request.on_progress("asking for a summary")
            try:
                async with asyncio.timeout(settings.summary_seconds):
                    draft = await self.summarise(run.view, request, run.facts)
            except (NacreError, TimeoutError) as error:
                history = replace(history, failures=history.failures + 1)
                self.session.notify(_failed(error, history, settings))
            else:
                yield _DraftAttempt(draft, by_model, self.session.thresholds.autocompact)
        draft = by_rule(run.view, request.span, self._limits(run).room)
        yield _DraftAttempt(draft, history.compacted_now(settings, by_model=False, is_auto=is_auto))

    @property
    def _enough(self) -> float:
        """Tokens that an older draft may leave (C21)."""
        base = self.session.base.tokens * self.session.calibration.ratio
        return base + ENOUGH_SHARE * (self.session.thresholds.autocompact - base)

    async def _at_hand(self, run: _CompactionRun) -> Draft | None:
        """Return a prefetched summary or the notes; wait for one past the blocking limit."""
        is_full = run.tokens >= self.session.thresholds.blocking
        if self.preparation is not None:
            if is_full:
                await self.preparation.wait(self.settings.wait_seconds)
            if (draft := self.preparation.take(run.view)) is not None:
                return draft
        if is_full:
            for layer in self.session.layers:
                await layer.finish_draft()
        return self._layer_draft(run.view)

    def _layer_draft(self, view: View) -> Draft | None:
        drafts = (layer.draft(view) for layer in self.session.layers)
        return next((draft for draft in drafts if draft is not None), None)

    async def _allowed(self, request: CompactionRequest) -> CompactionRequest | None:
        """Return the request as layers change it; None if one of them forbids the compaction."""
        allowed: CompactionRequest | None = request
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

    async def _put(self, run: _CompactionRun, draft: Draft, history: CompactionHistory) -> Compaction | None:
        """Install the draft; None if that does not make the conversation smaller."""
        session = self.session
        clock = self.session.clock
        limits = self._limits(run)
        run.request.on_progress("putting together what stays")
        moved = await self.overflow.shrink(run.view, int(limits.room * ROUND_SHARE), clock)
        view = run.view.after(*moved)
        shares = divide_room(view, draft, run.facts, limits)
        stays = [*view.items[: shares.span.first], *view.items[shares.place :]]
        if not await self.overflow.keep_left(run.facts, shares.facts, stays):
            # Do not mention files that could not be written.
            limits = replace(limits, where=replace(limits.where, words="", deeds=""))
            shares = divide_room(view, draft, run.facts, limits)
        fragments = [*await self._restorer.fragments(stays, shares.left + self._opening_tokens)]
        if run.restart_text:
            fragments.append(Fragment(kind="other", name="hooks", text=run.restart_text))
        summary_id = clock.new_id()
        seconds = clock.seconds() - run.began
        own = [self._note(COMPACTION, history.as_json()), self._note(FACTS, shares.facts.as_json())]
        last = view.items[shares.place - 1].record_id if shares.place else None
        metadata: JsonObject = {"durationMs": round(seconds * 1000), "lastSummarizedUuid": last}
        material = SummaryMaterial(
            fragments=fragments,
            tasks=self.tasks(),
            where=limits.where,
            carries=self._restorer.carry(view, summary_id, own),
            trigger=run.request.trigger,
            pre_tokens=run.tokens,
            extra={**metadata, "by": draft.kind, **draft.told},
            binds_thinking=session.profile.binds_thinking,
        )
        records = install(view, draft, shares, material, summary_id=summary_id, clock=clock)
        after = view.after(*records)
        tokens = session.pressure(after).tokens
        # A partial compaction may free little, and so may one without which the session could not go on.
        is_needed = tokens < session.thresholds.blocking <= run.tokens
        least = 0.0 if run.request.span.is_partial or is_needed else self.settings.least_share
        if after.estimate > (1 - least) * run.view.estimate:
            return None
        *beside, boundary = (*moved, *records)
        assert isinstance(boundary, Compacted), "the boundary is installed last"
        undone_with: JsonObject = {WITH: [one.id for one in beside]} if beside else {}
        boundary = replace(boundary, post_tokens=tokens, extra={**boundary.extra, **undone_with})
        dropped = draft.told.get("dropped")
        return Compaction(
            record=boundary,
            records=(*beside, boundary),
            kind=draft.kind,
            trigger=run.request.trigger,
            before=run.tokens,
            after=tokens,
            kept_messages=len(run.view.items) - shares.place,
            kept_before=shares.span.first,
            words_kept=len(shares.facts.words),
            words_left=shares.facts.left_words,
            files=tuple(one.name for one in fragments if one.kind == "file"),
            dropped=len(dropped) if isinstance(dropped, list) else 0,
            seconds=seconds,
        )

    def _limits(self, run: _CompactionRun) -> CompactionLimits:
        session = self.session
        settings = self.settings
        ratio = session.calibration.ratio
        threshold = session.thresholds.autocompact
        space = room(threshold=threshold, base=session.base.tokens, ratio=ratio, settings=settings)
        room_left = max(0, space - self._opening_tokens)
        if run.must_shrink:
            tail = int(run.view.estimate * SHRUNK_TAIL_SHARE)
            settings = replace(settings, tail_tokens=min(settings.tail_tokens, tail))
            room_left = min(room_left, self._half(run))
        room_left = max(0, room_left - estimate_text(self.tasks()) - estimate_text(run.restart_text))
        return CompactionLimits(
            room=room_left, settings=settings, span=run.request.span, where=self.overflow.where
        )

    def _half(self, run: _CompactionRun) -> int:
        """Return the room for a summary clearly smaller than its span, plus the kept tail."""
        items = run.view.items
        span = run.request.span
        inside = sum(item.tokens for item in items[span.first : span.keeps_from])
        kept = 0 if span.keeps_from is None else sum(item.tokens for item in items[span.keeps_from :])
        # A foreign log has no opening yet; it is added and takes nothing from the rest.
        opening = self._opening_tokens if self.session.is_opened and not span.first else 0
        return kept + max(0, int(inside * self.settings.room_share) - opening)

    @property
    def _opening_tokens(self) -> int:
        """Estimated tokens of the opening, which is read again and may have grown."""
        opening = estimate_text(self.session.base.opening)
        return int(opening * OPENING_GROWTH) + OPENING_FRAME if opening else 0

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
    """Undo the newest compaction (C23); a session resumed after it must be opened again."""
    standing = [record for record in live_records(session.view.records) if isinstance(record, Compacted)]
    if not standing:
        return None
    clock = session.clock
    last = standing[-1]
    beside = last.extra.get(WITH)
    targets = [last.id, *(map(str, beside) if isinstance(beside, list) else ())]
    records: list[Record] = [Undone(id=clock.new_id(), at=clock.now(), target=target) for target in targets]
    if session.profile.binds_thinking:
        # Thinking since the compaction is bound to the summary, which is no longer in view.
        records += drop_thinking(session.view.after(*records).items, clock)
    await session.transcript.append(*records)
    return last


def _has_past(view: View) -> bool:
    """Return whether there is more than the opening and one message."""
    note = view.last_noted(OPENING)
    opening = note.fact("record") if note else None
    return sum(item.record_id != opening for item in view.items) > 1


def _can_wait(pressure: Pressure) -> bool:
    return pressure.overflow is None and pressure.tokens < pressure.thresholds.blocking


def _failed(error: Exception, history: CompactionHistory, settings: CompactSettings) -> str:
    why = (
        f"no summary within {settings.summary_seconds:.0f} s"
        if isinstance(error, TimeoutError)
        else str(error)
    )
    rests = " No other is asked for by itself in this session." if history.has_broken(settings) else ""
    return f"The summary failed ({why}); the conversation is compacted by rule instead.{rests}"
