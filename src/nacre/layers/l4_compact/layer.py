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
from typing import TYPE_CHECKING, TypeAlias

from nacre.errors import ContextOverflow, NacreError, NothingToCompact
from nacre.layers.l4_compact.overflow_files import OverflowFiles
from nacre.layers.l4_compact.policy import (
    COMPACTION,
    CompactionHistory,
    CompactSettings,
    compaction_history,
    last_reply_id,
    room,
)
from nacre.messages.blocks import Json, JsonObject, Opaque
from nacre.messages.draft import Draft, Fragment
from nacre.messages.events import Reply
from nacre.messages.facts import FACTS, Facts
from nacre.messages.records import Compacted, Noted, Record, Undone
from nacre.messages.rewrite import drop_thinking
from nacre.messages.tokens import estimate_text
from nacre.messages.tool_references import referenced_tools
from nacre.messages.view import View, live_records
from nacre.providers.base import Request
from nacre.session.compaction import AUTOMATIC, Compaction, CompactionRequest
from nacre.session.fit import WindowState, largest_shares
from nacre.session.layer import Layer
from nacre.session.restoration import Restorer
from nacre.session.session import OPENING, Session

if TYPE_CHECKING:
    from nacre.layers.l4_compact.install import CompactionLimits
    from nacre.layers.l4_compact.prefetch_summary import SummaryPrefetch

SHRUNK_TAIL_SHARE = 0.25
"""Share of a view for the tail when the view must shrink although it seems to fit."""
OPENING_GROWTH = 1.25
OPENING_FRAME = 256
"""Allowance for a larger opening when it is read again, and for the text around it."""
ENOUGH_SHARE = 0.6
"""Share of threshold minus base; a draft that leaves more is too old to be useful (C21)."""
SHORT_TOKENS = 1_000
"""A shorter conversation is not compacted."""
USUAL_SUMMARY_TOKENS = 1_500
"""Output of a usual summary, by which its time is estimated."""
SLOW_MARGIN = 1.5
"""A summary may take this many times as long as the measured speed says."""
MAX_SUMMARY_SECONDS = 1_800.0
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
    _has_asked: bool = field(default=False, init=False)
    """The compaction under way has asked a model for a summary."""
    _is_focused: bool = False
    """A hook set the focus last time; a prefetched summary could not know it."""

    @property
    def compacts(self) -> bool:
        return self.is_automatic

    def can_shrink(self, view: View, state: WindowState) -> bool:
        if not self.is_automatic or state.fits or not _has_past(view):
            return False
        # C12b: with bound thinking, compact within a turn only if there is no other way.
        is_bound = state.profile.binds_thinking and not state.starts_turn
        return not (is_bound and _can_wait(state))

    async def shrink(self, view: View, state: WindowState) -> Sequence[Record]:
        """Return the records of a compaction; none while a summary is prefetched and there is room."""
        ahead = self.preparation
        if _can_wait(state) and ahead and not ahead.is_ready(view) and self._wants_summary(view):
            ahead.begin(view)
            if ahead.is_under_way:
                return ()
        is_refused = state.overflow is not None
        done = await self._compacted(view, AUTOMATIC, tokens=state.tokens, must_shrink=is_refused)
        if done is None and self._why_not and not (_can_wait(state) or is_refused):
            raise ContextOverflow(f"the window is full and {self._why_not}; change it, or begin with /clear")
        if done is None:
            return ()
        if done.after < state.thresholds.blocking:
            # Otherwise the records are discarded and the request fails with an overflow.
            self.session.notify(done.line)
            self._installed(done)
        elif self._has_asked:
            await self._note_vain(view, compaction_history(view))
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
        if self.summarise is not None:
            await session.note_base()
        view = session.view
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
        view = session.view
        if not self._wants_summary(view):
            return
        now = session.window_state(view)
        full = replace(now, tokens=max(now.tokens, now.thresholds.autocompact))
        cheaper = takewhile(lambda layer: layer is not self, session.layers)
        if not any(layer.can_shrink(view, full) for layer in cheaper):
            ahead.begin(view)

    @property
    def summary_seconds(self) -> float:
        """How long a summary may take: longer than the setting where this model is slow (C24)."""
        output = min(self.settings.summary_tokens, USUAL_SUMMARY_TOKENS)
        needed = self.session.timer.speed.seconds(prompt=self.session.tokens, output=output)
        return max(self.settings.summary_seconds, min(needed * SLOW_MARGIN, MAX_SUMMARY_SECONDS))

    def _wants_summary(self, view: View) -> bool:
        is_barred = compaction_history(view).is_barred(self.settings, view) or self._is_focused
        can_ask = self.summarise is not None and self._summary_pays and not is_barred
        return can_ask and not self._has_fresh_draft(view)

    def _has_fresh_draft(self, view: View) -> bool:
        """Whether a layer has a draft that leaves a compacted conversation small enough (C21)."""
        draft = self._layer_draft(view)
        if draft is None:
            return False
        kept = sum(item.tokens for item in view.items[draft.place or 0 :])
        return estimate_text(draft.text) + kept < self._enough_tokens

    async def _compacted(
        self, view: View, request: CompactionRequest, *, tokens: int, must_shrink: bool
    ) -> Compaction | None:
        began = self.session.clock.seconds()
        self._has_asked = False
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
            if restart_text is None:
                texts = [await layer.restart_context() for layer in self.session.layers]
                restart_text = "\n\n".join(filter(None, texts))
            if request.on_progress:
                request.on_progress("putting together what stays")
            new = await self._put(replace(run, restart_text=restart_text), one.draft, one.history)
            if new is not None and self._is_better(new, done):
                done = new
                history = one.history
            if done is not None and (done.after < one.most or request.span.is_partial):
                break
        if done is None and one.history.failures > before.failures:
            # Count the failure although nothing was installed, or it would be repeated for ever.
            await self._note_vain(view, replace(before, failures=one.history.failures))
        if request.trigger == "auto" and history.refills == self.settings.thrash_turns > before.refills:
            parts = largest_shares(view, self.session.calibration.base_tokens)
            self.session.notify(
                f"The window fills up again right after every compaction ({parts}); from now on it is made "
                "smaller by rule, without asking a model. A model with a larger window or /clear would help."
            )
        return done

    async def _allowed(self, request: CompactionRequest) -> CompactionRequest | None:
        """Return the request as layers change it; None if one of them does not allow it."""
        allowed: CompactionRequest | None = request
        for layer in self.session.layers:
            if allowed is not None:
                allowed = await layer.before_compact(allowed)
        return allowed

    def _is_better(self, new: Compaction, done: Compaction | None) -> bool:
        """Whether a draft replaces an earlier one that leaves too much; rules only if they make room."""
        if done is None or new.kind != "rules":
            return done is None or new.after < done.after
        limits = self.session.thresholds
        is_better = any(new.after < limit <= done.after for limit in (limits.autocompact, limits.blocking))
        if is_better and done.kind == "full":
            self.session.notify(
                f"The summary would leave about {done.after:,} tokens and the rules leave {new.after:,}; "
                f"compaction is due at {limits.autocompact:,}, so the rules are used."
            )
        return is_better

    async def _drafts(self, run: _CompactionRun) -> AsyncIterator[_DraftAttempt]:
        """Yield drafts, cheapest first; the draft by rule always comes last."""
        from nacre.layers.l4_compact.by_rule import by_rule  # noqa: PLC0415 - imported by a compaction

        settings = self.settings
        request = run.request
        history = compaction_history(run.view)
        is_auto = request.trigger == "auto"
        by_model = history.compacted_now(settings, by_model=True, is_auto=is_auto)
        is_plain = not (request.focus or request.span.is_partial or request.by_rule)
        if is_plain and not is_auto and self.preparation is not None:
            # Two requests for the same summary would only delay each other.
            await self.preparation.wait(self.summary_seconds)
        if is_plain and (at_hand := await self._at_hand(run)) is not None:
            # An older draft that leaves more than this is too old to be useful (C21).
            enough = self.session.calibration.base_tokens + self._enough_tokens
            yield _DraftAttempt(at_hand, by_model, enough)
        is_barred = is_auto and (history.is_barred(settings, run.view) or not self._summary_pays)
        if self.summarise is not None and not (is_barred or request.by_rule):
            if request.on_progress:
                request.on_progress("asking for a summary")
            self._has_asked = True
            try:
                seconds = self.summary_seconds
                async with asyncio.timeout(seconds):
                    draft = await self.summarise(run.view, request, run.facts)
            except (NacreError, TimeoutError) as error:
                history = replace(history, failures=history.failures + 1)
                self.session.notify(_failed(error, history, settings, seconds))
            else:
                limits = self.session.thresholds
                # A summary that a person asked for stands wherever the conversation can go on with it.
                yield _DraftAttempt(draft, by_model, limits.autocompact if is_auto else limits.blocking)
        draft = by_rule(run.view, request.span, self._limits(run).room)
        yield _DraftAttempt(draft, history.compacted_now(settings, by_model=False, is_auto=is_auto))

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

    @property
    def _room(self) -> int:
        """Tokens of a conversation before it is compacted."""
        session = self.session
        return max(0, session.thresholds.autocompact - session.calibration.base_tokens)

    @property
    def _enough_tokens(self) -> float:
        """Tokens beside the base that a compaction with an older draft may leave (C21)."""
        return ENOUGH_SHARE * self._room

    @property
    def _summary_pays(self) -> bool:
        """Whether compactions are rare enough to ask a model for a summary each time."""
        session = self.session
        return self._room >= self.settings.summary_room or session.profile.tier(session.tokens) is None

    def _layer_draft(self, view: View) -> Draft | None:
        drafts = (layer.draft(view) for layer in self.session.layers)
        return next((draft for draft in drafts if draft is not None), None)

    def _installed(self, done: Compaction) -> None:
        self._restorer.settle()
        for layer in self.session.layers:
            layer.after_compact(done)

    @cached_property
    def _restorer(self) -> Restorer:
        return self.restorer or Restorer(self.session)

    async def _put(self, run: _CompactionRun, draft: Draft, history: CompactionHistory) -> Compaction | None:
        """Install the draft; None if that does not make the conversation smaller."""
        from nacre.layers.l4_compact.install import SummaryMaterial, divide_room, install  # noqa: PLC0415 - imported by a compaction

        clock = self.session.clock
        limits = self._limits(run)
        moved = await self.overflow.shrink(run.view, int(limits.room * ROUND_SHARE), clock)
        view = run.view.after(*moved)
        shares = divide_room(view, draft, run.facts, limits)
        stays = [*view.items[: shares.span.first], *view.items[shares.place :]]
        if not await self.overflow.keep_left(run.facts, shares.facts, stays):
            # Do not mention files that could not be written.
            limits = replace(limits, where=replace(limits.where, words="", actions=""))
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
            pre_tokens=self.session.estimate_tokens(run.view),
            extra={**metadata, **_found_tools(view), "by": draft.kind, **draft.metadata},
            sent=run.view if self.session.profile.binds_thinking else None,
            deferred=frozenset(str(one["name"]) for one in self.session.base.deferred),
        )
        new = install(view, draft, shares, material, summary_id=summary_id, clock=clock)
        after = view.after(*new)
        # A partial compaction may free little, and so may one without which the session could not go on.
        is_needed = self.session.count_tokens(after) < self.session.thresholds.blocking <= run.tokens
        least = 0.0 if run.request.span.is_partial or is_needed else self.settings.least_share
        if self.session.text_tokens(after) > (1 - least) * self.session.text_tokens(run.view):
            return None
        installed = next(one for one in new if isinstance(one, Compacted))
        tokens = self.session.estimate_tokens(after)
        boundary = _undone_with(replace(installed, post_tokens=tokens), [*moved, *new])
        dropped = draft.metadata.get("dropped")
        return Compaction(
            record=boundary,
            records=tuple(boundary if one is installed else one for one in (*moved, *new)),
            kind=draft.kind,
            trigger=run.request.trigger,
            before=boundary.pre_tokens or 0,
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
        from nacre.layers.l4_compact.install import CompactionLimits  # noqa: PLC0415 - see _put

        session = self.session
        settings = self.settings
        learnt = session.calibration
        threshold = session.thresholds.autocompact
        space = room(threshold=threshold, base=learnt.base_tokens, ratio=learnt.ratio, settings=settings)
        room_left = max(0, space - self._opening_tokens)
        if run.must_shrink:
            tail = int(run.view.estimate * SHRUNK_TAIL_SHARE)
            settings = replace(settings, tail_tokens=min(settings.tail_tokens, tail))
            items = run.view.items
            span = run.request.span
            inside = sum(item.tokens for item in items[span.first : span.keeps_from])
            kept = 0 if span.keeps_from is None else sum(item.tokens for item in items[span.keeps_from :])
            # A foreign log has no opening yet; it is added and takes nothing from the rest.
            opening = self._opening_tokens if session.is_opened and not span.first else 0
            # The summary must be clearly smaller than its span.
            half = kept + max(0, int(inside * settings.room_share) - opening)
            room_left = min(room_left, half)
        room_left = max(0, room_left - estimate_text(self.tasks()) - estimate_text(run.restart_text))
        return CompactionLimits(
            room=room_left, settings=settings, span=run.request.span, where=self.overflow.where
        )

    @property
    def _opening_tokens(self) -> int:
        """Estimated tokens of the opening, which is read again and may have grown."""
        opening = estimate_text(self.session.base.opening)
        return int(opening * OPENING_GROWTH) + OPENING_FRAME if opening else 0

    async def _note_vain(self, view: View, history: CompactionHistory) -> None:
        """Note that a paid summary did not help this view, so that none is paid for again before a reply."""
        facts = replace(history, vain=last_reply_id(view)).as_json()
        await self.session.transcript.append(self._note(COMPACTION, facts))

    def _note(self, kind: str, facts: JsonObject) -> Noted:
        clock = self.session.clock
        return Noted(id=clock.new_id(), at=clock.now(), kind=kind, facts=facts)


async def undo_compaction(session: Session) -> Compacted | None:
    """Undo the newest compaction (C23)."""
    standing = [record for record in live_records(session.view.records) if isinstance(record, Compacted)]
    if not standing:
        return None
    clock = session.clock
    last = standing[-1]
    beside = last.extra.get(WITH)
    targets = [last.id, *(map(str, beside) if isinstance(beside, list) else ())]
    before = session.view.items
    undone = [Undone(id=clock.new_id(), at=clock.now(), target=target) for target in targets]
    await session.transcript.append(*undone)
    if session.profile.binds_thinking:
        # Thinking since the compaction is bound to the summary, which is no longer in view.
        await session.transcript.append(*drop_thinking(session.view.items, clock, sent=before))
    return last


def _has_past(view: View) -> bool:
    """Return whether there is more than the opening and one message."""
    note = view.last_noted(OPENING)
    opening = note.fact("record") if note else None
    return sum(item.record_id != opening for item in view.items) > 1


def _undone_with(boundary: Compacted, records: Sequence[Record]) -> Compacted:
    """Return the boundary with the ids of the records that are undone with it."""
    beside: list[Json] = [one.id for one in records if one.id != boundary.id]
    return replace(boundary, extra={**boundary.extra, WITH: beside}) if beside else boundary


def _found_tools(view: View) -> JsonObject:
    """Return the deferred tools that the model had loaded, under the key that Claude Code uses."""
    names: list[Json] = [*referenced_tools(view.items)]
    return {"preCompactDiscoveredTools": names} if names else {}


def _can_wait(state: WindowState) -> bool:
    return state.overflow is None and state.tokens < state.thresholds.blocking


def _failed(error: Exception, history: CompactionHistory, settings: CompactSettings, seconds: float) -> str:
    why = f"no summary within {seconds:.0f} s" if isinstance(error, TimeoutError) else str(error)
    rests = " No other is asked for by itself in this session." if history.has_broken(settings) else ""
    return f"The summary failed ({why}); the conversation is compacted by rule instead.{rests}"
