"""Collapse in a session: finished spans are summarised in the background and committed when it gets tight.

A layer before compaction. While it is on, compaction waits until `is_exhausted` (C30, C26).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nacre import prompts
from nacre.clock import Clock
from nacre.errors import ProviderError, SummaryRejected
from nacre.layers.experimental.collapse_policy import (
    DEFAULT,
    CollapseSettings,
    FinishedSpan,
    Urgency,
    finished_spans,
    place_of,
    urgency,
)
from nacre.layers.l2_microcompact.choice import DUPLICATE, REREAD
from nacre.layers.l4_compact.summarise import refused
from nacre.loop.fork import Fork, ForkResult, ForkTask
from nacre.messages.blocks import Block, Json, JsonObject, Opaque, Text, Thinking, ToolResult
from nacre.messages.digest import show_deeds
from nacre.messages.events import Reply
from nacre.messages.facts import Facts
from nacre.messages.pairing import Item
from nacre.messages.pins import pinned
from nacre.messages.records import Compacted, Noted, Record, Replaced, ReplyFacts, Said
from nacre.messages.rewrite import without_thinking
from nacre.messages.rounds import tail_from
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.session.background import Background
from nacre.session.ladder import Pressure
from nacre.session.layer import Layer
from nacre.session.session import Session

COLLAPSE = prompts.load(__package__, "collapse")
STAGED = "collapse_staged"
"""The kind of note that holds a summary until it is committed."""
HEAD = "[What you did here, in summary; the whole of it is in the session's log.]"
SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A summary that waits to be committed."""

    id: str
    span: FinishedSpan
    text: str
    by: Literal["model", "rule"] = "model"

    @property
    def gain(self) -> int:
        """Estimated tokens that committing it frees."""
        return self.span.tokens - estimate_text(shown(self.text))


def shown(text: str) -> str:
    """A summary as the model reads it."""
    return f"{HEAD}\n\n{text.strip()}"


async def summarise_span(
    view: View, span: FinishedSpan, fork: Fork, *, settings: CollapseSettings = DEFAULT
) -> str:
    """Ask a model about one span; raises `SummaryRejected`, or what the provider raises."""
    # Only the span and the words before it: cheaper than the whole conversation, and never too long for it.
    errand = ForkTask(
        source="compact",
        directive=COLLAPSE,
        max_output=settings.summary_tokens,
        view=_alone(view, span),
    )
    return checked(await fork(errand), span)


def checked(forked: ForkResult, span: FinishedSpan) -> str:
    """The summary in a fork's reply, if it can stand for the span (C23c)."""
    if reason := refused(forked):
        raise SummaryRejected(reason)
    found = SUMMARY.search(forked.text)
    if found is None:
        raise SummaryRejected("the reply holds no summary")
    return _fitting(found[1].strip(), span)


def by_rule(view: View, span: FinishedSpan, *, settings: CollapseSettings = DEFAULT) -> str:
    """A span told without a model: one line a call; raises `SummaryRejected` where that is no shorter."""
    inside = set(span.records)
    facts = Facts.of(one for one in view.records if isinstance(one, Said) and one.id in inside)
    text = show_deeds(facts, round(span.tokens * settings.rule_share)).text
    return _fitting(text.strip(), span)


def staged_note(staged: Staged, clock: Clock) -> Noted:
    """For the log, so that a resumed session has it, too."""
    span = staged.span
    facts: JsonObject = {
        "first": span.first,
        "keeps_from": span.keeps_from,
        "records": list[Json](span.records),
        "tokens": span.tokens,
        "text": staged.text,
        "by": staged.by,
    }
    return Noted(id=staged.id, at=clock.now(), kind=STAGED, facts=facts)


def staged_of(note: Noted) -> Staged | None:
    """What a note holds; none where it has another shape."""
    match note.facts:
        case {
            "first": str(first),
            "keeps_from": str(behind),
            "records": list(records),
            "tokens": int(tokens),
            "text": str(text),
        } if text.strip():
            inside = tuple(one for one in records if isinstance(one, str))
            span = FinishedSpan(first=first, keeps_from=behind, records=inside, tokens=tokens)
            by: Literal["model", "rule"] = "rule" if note.fact("by") == "rule" else "model"
            return Staged(id=note.id, span=span, text=text, by=by)
        case _:
            return None


def spent(view: View) -> frozenset[str]:
    """Records whose span was committed once; where that was undone, a person wants the original."""
    return frozenset(
        str(name)
        for record in view.records
        if isinstance(record, Compacted) and record.kind == "span"
        for name in _listed(record.extra.get("records"))
    )


def commit(
    view: View, chosen: Sequence[Staged], clock: Clock, *, drops_thinking: bool = False
) -> list[Record]:
    """The records by which summaries take the place of their spans; spans that do not stand are left out."""
    standing = [one for one in chosen if place_of(view, one.span) is not None]
    records: list[Record] = []
    if drops_thinking and standing and (thinking := tuple(without_thinking(view.items))):
        records.append(Replaced(id=clock.new_id(), at=clock.now(), changes=thinking, reason="thinking"))
    return [*records, *(_committed(one, clock) for one in standing)]


def _committed(staged: Staged, clock: Clock) -> Compacted:
    text = shown(staged.text)
    span = staged.span
    return Compacted(
        id=clock.new_id(),
        at=clock.now(),
        summary=(Text(text),),
        first=span.first,
        keeps_from=span.keeps_from,
        summary_id=clock.new_id(),
        kind="span",
        pre_tokens=span.tokens,
        post_tokens=estimate_text(text),
        extra={"by": staged.by, "records": list[Json](span.records)},
    )


def _fitting(text: str, span: FinishedSpan) -> str:
    if not text:
        raise SummaryRejected("the summary is empty")
    if estimate_text(shown(text)) >= span.tokens:
        raise SummaryRejected("the summary is no shorter than what it is about")
    return text


def _alone(view: View, span: FinishedSpan) -> View:
    """A span with the person's words before it, without thinking, which is bound to what is not here."""
    inside = set(span.records)
    asked: Said | None = None
    by_id = {one.id: one for one in view.records if isinstance(one, Said)}
    items: list[Item] = []
    for item in view.items:
        said = by_id.get(item.record_id)
        if item.record_id == span.keeps_from:
            break
        if item.record_id in inside:
            items.append(item)
        elif not items and said is not None and item.role == "user" and not said.meta and _speaks(item):
            asked = said
    spoken = [asked] if asked is not None else []
    return View.of([*spoken, *(_said(item, by_id[item.record_id]) for item in items)])


def _said(item: Item, said: Said) -> Said:
    reply = ReplyFacts(id=item.reply_id) if item.role == "assistant" else None
    blocks = tuple(_without_thoughts(part.block for part in item.parts))
    return Said(id=item.record_id, at=said.at, role=item.role, blocks=blocks, reply=reply, meta=said.meta)


def _without_thoughts(blocks: Iterable[Block]) -> Iterable[Block]:
    for block in blocks:
        match block:
            case Thinking() | Opaque(kind="redacted_thinking"):
                pass
            case _:
                yield block


def _speaks(item: Item) -> bool:
    return any(not isinstance(part.block, ToolResult) for part in item.parts)


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


WORK = "collapse"
"""The name of the background work."""


class Collapse(Layer):
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
        session = self._session
        view = self._session.view
        if not self._asks_model or session.tokens < self.settings.stage_from * session.thresholds.effective:
            return
        if not self._is_enough(view) and self._open(view):
            self._background.start(WORK, self._stage(), told="finishing a summary")

    def staged(self, view: View) -> list[Staged]:
        """Summaries that can be committed to this view, oldest span first."""
        held = self._held(view)
        used = spent(view)
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
        session = self._session
        settings = self.settings
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
        ratio = self._session.calibration.ratio
        chosen = list[Staged]()
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


def _may_rewrite(pressure: Pressure) -> bool:
    return pressure.starts_turn or not pressure.profile.binds_thinking


def _gave_up(times: int, error: Exception) -> str:
    return f"Summaries of finished work failed {times} times ({error}); rules do it from now on."


def _told(chosen: Sequence[Staged]) -> str:
    spans = f"{len(chosen)} finished piece" + "s" * (len(chosen) != 1)
    freed = sum(one.gain for one in chosen)
    return f"Collapsed {spans} of work (about {freed:,} tokens); originals: nacre sessions show --full."
