"""Collapse in a session: finished spans are summarised in the background and committed when it gets tight.

A layer before compaction. While it is on, compaction waits until `is_exhausted` (C30, C26).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nacre.agents.background import Background
from nacre.agents.fit import Pressure
from nacre.agents.layer import Layer
from nacre.agents.session import Session
from nacre.errors import ProviderError, SummaryRejected
from nacre.layers.l2_microcompact.choice import DUPLICATE, REREAD
from nacre.layers.l4_compact.collapse import (
    STAGED,
    Staged,
    by_rule,
    commit,
    spent,
    staged_note,
    staged_of,
    summarise_span,
)
from nacre.layers.l4_compact.collapse_policy import (
    DEFAULT,
    CollapseSettings,
    FinishedSpan,
    Urgency,
    finished_spans,
    place_of,
    urgency,
)
from nacre.loop.fork import Fork
from nacre.messages.blocks import ToolResult
from nacre.messages.events import Reply
from nacre.messages.pins import pinned
from nacre.messages.records import Record
from nacre.messages.rounds import tail_from
from nacre.messages.view import View
from nacre.settings import Settings

WORK = "collapse"
"""The name of the background work."""


class Collapsing(Layer):
    """Collapses finished spans; without a fork it tells spans by rule."""

    log_kinds = {STAGED: "drop"}

    def __init__(
        self,
        session: Session,
        background: Background,
        fork: Fork | None = None,
        settings: CollapseSettings = DEFAULT,
    ) -> None:
        self.settings = settings
        self._session = session
        self._background = background
        self._fork = fork
        self._failures = 0
        self._hopeless: set[str] = set()
        """First records of spans that no summary got smaller."""
        self._staged: dict[str, Staged] = {}
        for note in session.view.noted(STAGED):
            if (staged := staged_of(note)) is not None:
                self._staged[staged.id] = staged

    def on_reply(self, reply: Reply) -> None:
        """Asked after every reply: start on what will soon have to go, if it is not ready yet."""
        session, view = self._session, self._session.view
        if not self._asks_model or session.tokens < self.settings.stage_from * session.thresholds.effective:
            return
        if not self._is_enough(view) and self._open(view):
            self._background.start(WORK, self._stage(), told="finishing a summary")

    def staged(self, view: View) -> list[Staged]:
        """Summaries that can be committed to this view, oldest span first."""
        held, used = self._held(view), spent(view)
        placed = [
            (place, one)
            for one in self._staged.values()
            if not used.intersection(one.span.records)
            and (place := place_of(view, one.span, held)) is not None
        ]
        chosen: list[Staged] = []
        last = 0
        for (start, stop), one in sorted(placed, key=lambda found: found[0]):
            if start >= last:
                chosen.append(one)
                last = stop
        return chosen

    def is_exhausted(self, view: View, pressure: Pressure | None = None) -> bool:
        """Whether collapse cannot make this view smaller, at least not now: compaction must come (C26)."""
        if pressure is not None and not _may_rewrite(pressure):
            return True
        return not self.staged(view) and not self._open(view, to_the_last=True)

    def can_shrink(self, view: View, pressure: Pressure) -> bool:
        level = self._level(pressure)
        if level == "none" or not _may_rewrite(pressure):
            return False
        return level in {"wait", "all"} or not self._asks_model or bool(self.staged(view))

    async def shrink(self, view: View, pressure: Pressure) -> Sequence[Record]:
        """Commit summaries: enough of them, or all on a refusal; what is missing by then is told by rule."""
        level = self._level(pressure)
        if level in {"wait", "all"} and self._background.is_running(WORK):
            await self._background.wait(WORK, self.settings.wait_seconds)
        made: list[Staged] = []
        if level in {"wait", "all"} or not self._asks_model:
            made = list(self._by_rule(view, to_the_last=level != "commit"))
        for one in made:
            self._staged[one.id] = one
        chosen = self._enough(self.staged(view), pressure, level)
        session = self._session
        records = commit(view, chosen, session.clock, drops_thinking=pressure.profile.binds_thinking)
        if records:
            session.notify(_told(chosen))
        return records

    @property
    def _effective(self) -> int:
        """The effective window in tokens as they are estimated: spans are measured by estimate (C2)."""
        return round(self._session.thresholds.effective / self._session.calibration.ratio)

    @property
    def _asks_model(self) -> bool:
        return self._fork is not None and self._failures < self.settings.max_failures

    async def _stage(self) -> None:
        """Summarise spans one by one, oldest first, until there are none left that need it."""
        session = self._session
        while self._asks_model and (span := next(iter(self._open(session.view)), None)) is not None:
            staged = await self._summarised(span)
            if staged is None:
                continue
            self._staged[staged.id] = staged
            self._background.record(staged_note(staged, session.clock))
            if self._is_enough(session.view):
                return

    def _is_enough(self, view: View) -> bool:
        """Whether what is staged would bring a full view down to where it should be."""
        settings = self.settings
        wanted = (settings.commit_from - settings.down_to) * self._effective
        return sum(one.gain for one in self.staged(view)) >= wanted

    async def _summarised(self, span: FinishedSpan) -> Staged | None:
        """One span in a model's words; in rules' where the model's cannot be used."""
        session, settings = self._session, self.settings
        assert self._fork is not None, "only asked with a model"
        view = session.view
        try:
            text = await summarise_span(view, span, self._fork, settings=settings)
        except (SummaryRejected, ProviderError) as error:
            self._failures += 1
            if not self._asks_model:
                session.notify(_gave_up(self._failures, error))
            return self._told_by_rule(view, span)
        self._failures = 0
        return Staged(id=session.clock.new_id(), span=span, text=text)

    def _by_rule(self, view: View, *, to_the_last: bool) -> Iterator[Staged]:
        for span in self._open(view, to_the_last=to_the_last):
            if (staged := self._told_by_rule(view, span)) is not None:
                yield staged

    def _told_by_rule(self, view: View, span: FinishedSpan) -> Staged | None:
        try:
            text = by_rule(view, span, settings=self.settings)
        except SummaryRejected:
            self._hopeless.add(span.first)
            return None
        return Staged(id=self._session.clock.new_id(), span=span, text=text, by="rule")

    def _open(self, view: View, *, to_the_last: bool = False) -> list[FinishedSpan]:
        """Spans without a summary."""
        taken = {name for one in self.staged(view) for name in one.span.records}
        found = finished_spans(
            view,
            self._effective,
            held=self._held(view),
            taken=spent(view) | taken,
            to_the_last=to_the_last,
            settings=self.settings,
        )
        return [one for one in found if one.first not in self._hopeless]

    def _held(self, view: View) -> frozenset[str]:
        """Calls whose results stay: pinned ones, and those that a result in the kept tail refers to (C7)."""
        tail = tail_from(view.items, self.settings.tail(self._effective))
        recent = {
            part.block.call_id
            for item in view.items[tail:]
            for part in item.parts
            if isinstance(part.block, ToolResult)
        }
        notes = [note for kind in (DUPLICATE, REREAD) for note in view.noted(kind)]
        return pinned(view) | {str(note.fact("of")) for note in notes if str(note.fact("call")) in recent}

    def _enough(self, staged: Sequence[Staged], pressure: Pressure, level: Urgency) -> list[Staged]:
        """The oldest ones, until the view is as small as it should be."""
        ratio, chosen = self._session.calibration.ratio, list[Staged]()
        left = pressure.tokens / ratio - self.settings.down_to * self._effective
        for one in staged:
            if level != "all" and left <= 0:
                break
            chosen.append(one)
            left -= one.gain
        gain = sum(one.gain for one in chosen)
        return [] if level == "commit" and gain < self.settings.min_gain * self._effective else chosen

    def _level(self, pressure: Pressure) -> Urgency:
        return urgency(
            pressure.tokens,
            pressure.thresholds.effective,
            is_refused=pressure.overflow is not None,
            settings=self.settings,
        )


def join_collapsing(
    session: Session, settings: Settings, background: Background, fork: Fork | None
) -> Collapsing | None:
    """Let finished work be collapsed, if that is switched on; to be joined before compaction."""
    if not settings.switches.collapse:
        return None
    collapsing = Collapsing(session, background, fork)
    session.layers.append(collapsing)
    return collapsing


def _may_rewrite(pressure: Pressure) -> bool:
    return pressure.starts_turn or not pressure.profile.binds_thinking


def _gave_up(times: int, error: Exception) -> str:
    return f"Summaries of finished work failed {times} times ({error}); rules do it from now on."


def _told(chosen: Sequence[Staged]) -> str:
    spans = f"{len(chosen)} finished piece" + "s" * (len(chosen) != 1)
    freed = sum(one.gain for one in chosen)
    return f"Collapsed {spans} of work (about {freed:,} tokens); originals: nacre sessions show --full."
