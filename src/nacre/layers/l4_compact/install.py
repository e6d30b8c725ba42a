"""Put a draft in the place of a span: one record holds the summary, the person's words and what is restored.

Whatever made the draft, the words and deeds in it come from the log (C20), the last message of the person
stays raw, and everything together fits into its room (C21). Nothing here asks a model or reads a disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nacre import prompts
from nacre.clock import Clock
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import Block, JsonObject, Text
from nacre.messages.facts import Facts
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Noted, Record, Replaced, Said
from nacre.messages.rewrite import without_thinking
from nacre.messages.rounds import cuts, tail_from
from nacre.messages.skeleton import show_deeds, show_words, together
from nacre.messages.summary import Draft, Fragment
from nacre.messages.tokens import estimate_block, estimate_text
from nacre.messages.view import View

STANDING = prompts.load(__package__, "standing")
LAST_MESSAGE = prompts.load(__package__, "last_message")
TAIL_SHARE = 0.5
"""Of what opening and summary leave: the newest rounds serve better than lines about older ones."""
PLACE_SHARE = 0.75
"""The same for a draft that says itself where its tail should begin."""
WORDS_SHARE = 0.5
"""Of what the tail leaves; what words do not need, deeds may take."""
LEAST_WORDS_SHARE = 0.15
"""Of what opening and summary leave, however much a draft made ahead does not know of: words are not lost."""
AHEAD = frozenset({"opening", "rules"})
"""Fragments that stand before the summary, as they stood before the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which items a summary shall stand for, as places among the items of the view."""

    first: int = 0
    """Where it begins; what stands before stays, and so does the cache of it."""
    keeps_from: int | None = None
    """Where the kept tail begins; none: wherever the room ends."""

    @property
    def is_partial(self) -> bool:
        return self.first > 0 or self.keeps_from is not None


WHOLE = Span()


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where what is not shown can be read; empty where nothing is kept on disk."""

    words: str = ""
    deeds: str = ""
    log: str = ""

    @property
    def told(self) -> str:
        return f"The whole log of this session, one JSON record a line: {self.log}" if self.log else ""


NOWHERE = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How the room was divided, and what goes where."""

    span: Span
    place: int
    """Where the kept tail begins."""
    last: tuple[Block, ...]
    """The person's last message, raw, where the tail does not hold it."""
    words: str
    deeds: str
    facts: Facts
    """What is known from now on, without looking at what the tail holds."""
    left: int
    """Estimated tokens for what is restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All that goes into the record beside the draft and its shares."""

    fragments: Sequence[Fragment] = ()
    tasks: str = ""
    """The task list as it stands, every state included."""
    where: Where = NOWHERE
    carries: Sequence[Noted] = ()
    trigger: str = "auto"
    pre_tokens: int | None = None
    extra: JsonObject = field(default_factory=dict)
    binds_thinking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a compaction is held to."""

    room: int
    """Estimated tokens that may stand in place of the span, tail included."""
    settings: CompactSettings
    span: Span = WHOLE
    where: Where = NOWHERE


def share_out(view: View, draft: Draft, facts: Facts, terms: Terms) -> Shares:
    """Decide how much of each there is room for."""
    settings, span, where = terms.settings, terms.span, terms.where
    items = view.items
    raw = _last_message(view, facts)
    left = max(0, terms.room - estimate_text(draft.text) - sum(map(estimate_block, raw)))
    place = _tail_place(items, draft, span, min(settings.tail_tokens, int(left * TAIL_SHARE)))
    rest = max(0, left - _tokens(items[place:]))
    before, inside = _split(facts, items[: span.first], items[place:])
    last = raw if inside.words and inside.words[-1] == facts.words[-1] else ()
    told = replace(inside, words=inside.words[:-1]) if last else inside
    most = max(int(rest * WORDS_SHARE), int(left * LEAST_WORDS_SHARE))
    words = show_words(told, min(settings.words_tokens, most), where=where.words)
    spent = estimate_text(words.text)
    rest -= spent
    lines = max(0, min(settings.past_tokens - spent, rest))
    deeds = show_deeds(told, lines, where=where.deeds)
    rest = max(0, rest - estimate_text(deeds.text))
    if span.keeps_from is None:
        # What lines about the past did not need goes to the newest rounds after all.
        wider = _tail_place(items, draft, span, min(settings.tail_tokens, _tokens(items[place:]) + rest))
        rest -= _tokens(items[wider:place])
        place = min(place, wider)
    if last and any(item.record_id == facts.words[-1].record_id for item in items[place:]):
        last = ()
    spoken = facts.words[-1:] if last else ()
    shown = together(words, deeds)
    known = replace(shown, words=(*before.words, *shown.words, *spoken), deeds=(*before.deeds, *shown.deeds))
    return Shares(
        span=span,
        place=place,
        last=last,
        words=words.text,
        deeds=deeds.text,
        facts=known,
        left=max(0, rest),
    )


def install(
    view: View, draft: Draft, shares: Shares, material: Material, *, summary_id: str, clock: Clock
) -> list[Record]:
    """The records that put it there: on some models without any thinking, which cannot outlive a change."""
    items, span = view.items, shares.span
    kept = items[shares.place :]
    dropped = _without_thinking(items, clock) if material.binds_thinking else []
    compacted = Compacted(
        id=clock.new_id(),
        at=clock.now(),
        summary=_blocks(draft, shares, material),
        first=items[span.first].record_id if span.first else None,
        keeps_from=kept[0].record_id if kept else None,
        summary_id=summary_id,
        trigger=material.trigger,
        kind="partial" if span.is_partial else "full" if draft.kind == "rules" else draft.kind,
        pre_tokens=material.pre_tokens,
        carries=tuple(material.carries),
        extra=material.extra,
    )
    return [*dropped, compacted]


def _tail_place(items: Sequence[Item], draft: Draft, span: Span, tokens: int) -> int:
    """Where the tail begins: what the draft does not know of stays, whatever it takes."""
    if span.keeps_from is not None:
        return max(span.keeps_from, span.first)
    place = tail_from(items, tokens)
    if draft.place is not None and _tokens(items[draft.place :]) <= tokens / TAIL_SHARE * PLACE_SHARE:
        place = draft.place
    if draft.covers is not None:
        known = next((n for n, item in enumerate(items) if item.record_id == draft.covers), -1)
        unknown = max(cut for cut in cuts(items) if cut <= known + 1)
        # Nothing that a provider's block stands for may follow it once more.
        place = unknown if draft.block is not None else min(place, unknown)
    return max(place, span.first)


def _tokens(items: Sequence[Item]) -> int:
    return sum(item.tokens for item in items)


def _last_message(view: View, facts: Facts) -> tuple[Block, ...]:
    """What the person said last: the blocks themselves, or their text where only that is left."""
    if not facts.words:
        return ()
    last = facts.words[-1]
    said = next(
        (one for one in reversed(view.records) if isinstance(one, Said) and one.id == last.record_id), None
    )
    blocks: tuple[Block, ...] = said.blocks if said is not None else (Text(last.text),)
    return (Text(LAST_MESSAGE.rstrip("\n")), *blocks)


def _split(facts: Facts, before: Sequence[Item], kept: Sequence[Item]) -> tuple[Facts, Facts]:
    """Facts of what stands before the span, and of the span: without those that the tail shows itself."""
    inside = facts.without([*before, *kept])
    later = facts.without(before)
    ahead = Facts(
        words=tuple(one for one in facts.words if one not in later.words),
        deeds=tuple(one for one in facts.deeds if one not in later.deeds),
    )
    return (ahead if before else Facts()), inside


def _blocks(draft: Draft, shares: Shares, material: Material) -> tuple[Block, ...]:
    """What the model reads in place of the span, in a fixed order."""
    ahead = [Text(one.text) for one in material.fragments if one.text and one.kind in AHEAD]
    behind = [Text(one.text) for one in material.fragments if one.text and one.kind not in AHEAD]
    # The draft stands by itself, so that a later compaction by rule can hand it on.
    said = Text("\n\n".join(filter(None, (STANDING, draft.text.strip()))))
    sections = (
        _titled("What the user said", shares.words),
        _titled("What was done", shares.deeds),
        _titled("Task list", material.tasks),
        _titled("Where the rest is", material.where.told),
    )
    facts = "\n\n".join(section for section in sections if section)
    told = [said, Text(facts)] if facts else [said]
    block: list[Block] = [draft.block] if draft.block else []
    return (*block, *ahead, *told, *behind, *shares.last)


def _titled(title: str, text: str) -> str:
    return f"## {title}\n\n{text.strip()}" if text.strip() else ""


def _without_thinking(items: Sequence[Item], clock: Clock) -> list[Record]:
    changes = tuple(without_thinking(items))
    if not changes:
        return []
    return [Replaced(id=clock.new_id(), at=clock.now(), changes=changes, reason="thinking")]
