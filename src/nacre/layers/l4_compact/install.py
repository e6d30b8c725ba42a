"""Replaces a span by a draft: one record holds the summary, the user's words and restored fragments.

User quotes and actions come from the log (C20), the last message of the user stays raw, and everything fits
into the room (C21). Nothing here asks a model or reads a disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nacre import prompts
from nacre.clock import Clock
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import Block, Document, Image, JsonObject, Text, ToolCall, ToolResult
from nacre.messages.digest import show_actions, show_words, together
from nacre.messages.draft import WHOLE, Draft, Fragment, ItemSpan
from nacre.messages.facts import Facts
from nacre.messages.names import index_of
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Noted, Record, ReplyFacts, Said
from nacre.messages.rewrite import drop_thinking
from nacre.messages.rounds import cuts, tail_from
from nacre.messages.tokens import estimate_block, estimate_text
from nacre.messages.tool_references import referenced_tools, tool_reference
from nacre.messages.user_quotes import own_words
from nacre.messages.view import View, live_records
from nacre.tools.tool_search import SEARCH, SELECT

STANDING = prompts.load(__package__, "standing")
TAIL_SHARE = 0.5
"""Share of the room after opening and summary for the newest rounds."""
PLACE_SHARE = 0.75
"""The same for a draft that says where its tail begins."""
WORDS_SHARE = 0.5
"""Share of the rest for user quotes; actions may use what is left."""
LEAST_WORDS_SHARE = 0.15
LEAST_WORDS_TOKENS = 600
"""Minimum for user quotes, so that short rules of the user are not lost."""
NAMES_SHARE = 0.1
"""Share of what tail and user quotes leave, for the index of names: on recorded sessions a larger one took
more from tail and actions than it kept."""
LEAST_NAMES_TOKENS = 300
"""A smaller index would be little more than its heading."""
AHEAD = frozenset({"opening", "rules"})
"""Fragments that go before the summary, as they came before the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowPaths:
    """Paths of the files with what is not shown; empty without files on disk."""

    words: str = ""
    actions: str = ""
    log: str = ""

    @property
    def log_line(self) -> str:
        """The line that names the log; empty without one."""
        return f"The whole log of this session, one JSON record a line: {self.log}" if self.log else ""


NOWHERE = OverflowPaths()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomShares:
    """How the room is divided."""

    span: ItemSpan
    place: int
    """Index of the first item of the kept tail."""
    last: tuple[Block, ...]
    """The user's last message, raw, if it is not in the tail."""
    words: str
    actions: str
    facts: Facts
    """The facts shown, which the log carries from now on."""
    left: int
    """Estimated tokens left for restored fragments."""
    names_tokens: int = 0
    """Estimated tokens set aside for the index of names."""
    names: str = ""
    """The index of names that are not shown otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryMaterial:
    """Everything else that goes into the record."""

    fragments: Sequence[Fragment] = ()
    tasks: str = ""
    """The task list with all states."""
    where: OverflowPaths = NOWHERE
    carries: Sequence[Noted] = ()
    trigger: str = "auto"
    pre_tokens: int | None = None
    extra: JsonObject = field(default_factory=dict)
    sent: View | None = None
    """The view before the compaction, where the model binds thinking to the bytes before it."""
    deferred: frozenset[str] = frozenset()
    """Tools whose definitions the prompt leaves out (P12)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """The limits of a compaction."""

    room: int
    """Estimated tokens that may replace the span, including the tail."""
    settings: CompactSettings
    span: ItemSpan = WHOLE
    where: OverflowPaths = NOWHERE


def divide_room(view: View, draft: Draft, facts: Facts, limits: CompactionLimits) -> RoomShares:
    """Divide the room among tail, user quotes and actions."""
    span = limits.span
    most = limits.settings.tail_tokens
    last = last_message(view, facts)
    frame = estimate_text(STANDING) + estimate_text(limits.where.log_line)
    room = max(0, limits.room - estimate_text(draft.text) - frame)
    raw = sum(map(estimate_block, last.unless_in(())))
    tail = int(max(0, room - raw) * TAIL_SHARE)
    place = _tail_place(view.items, draft, span, min(most, tail))
    shares = _shares(view, facts, last, limits, place=place, room=room)
    shares = _with_names(view, draft, facts, shares, limits.where)
    if span.keeps_from is None:
        # Room that user quotes, actions and names did not need goes to the tail.
        wider = _tail_place(view.items, draft, span, min(most, _tokens(view.items[place:]) + shares.left))
        if wider < place:
            names = shares.names
            limits = replace(limits, settings=replace(limits.settings, names_tokens=0))
            room -= estimate_text(names)
            shares = replace(_shares(view, facts, last, limits, place=wider, room=room), names=names)
    return shares


def _with_names(
    view: View, draft: Draft, facts: Facts, shares: RoomShares, where: OverflowPaths
) -> RoomShares:
    """Return the shares with the index of names that neither the tail nor anything else shows."""
    first = shares.span.first
    last = [block.text for block in shares.last if isinstance(block, Text)]
    index = index_of(
        view.items[first : shares.place],
        shares.names_tokens,
        shown=[*view.items[:first], *view.items[shares.place :]],
        texts=[draft.text, shares.words, shares.actions, *last, where.log_line, where.words, where.actions],
        files={one.id: one.about for one in facts.actions if one.kind in {"read", "edit"}},
    )
    return replace(shares, names=index, left=shares.left + shares.names_tokens - estimate_text(index))


def _shares(
    view: View, facts: Facts, last: LastMessage, limits: CompactionLimits, *, place: int, room: int
) -> RoomShares:
    """Return the shares for a tail that begins at `place`; nothing in the tail is repeated."""
    settings = limits.settings
    where = limits.where
    stays = [*view.items[: limits.span.first], *view.items[place:]]
    raw = last.unless_in(stays)
    missing = facts.without(stays)
    spoken = missing.words[-1:] if missing.words and missing.words[-1].text == own_words(raw[1:]) else ()
    missing = replace(missing, words=missing.words[: len(missing.words) - len(spoken)])
    left = max(0, room - sum(map(estimate_block, raw)))
    rest = max(0, left - _tokens(view.items[place:]))
    most = max(int(rest * WORDS_SHARE), int(left * LEAST_WORDS_SHARE), LEAST_WORDS_TOKENS)
    words = show_words(missing, min(settings.words_tokens, most), where=where.words)
    spent = estimate_text(words.text)
    names_tokens = min(settings.names_tokens, int(max(0, rest - spent) * NAMES_SHARE))
    names_tokens = names_tokens if names_tokens >= LEAST_NAMES_TOKENS else 0
    past = max(0, min(settings.past_tokens, rest - names_tokens) - spent)
    actions = show_actions(missing, past, where=where.actions)
    shown = together(words, actions)
    return RoomShares(
        span=limits.span,
        place=place,
        last=raw,
        words=words.text,
        actions=actions.text,
        facts=replace(shown, words=(*shown.words, *spoken)),
        left=max(0, rest - spent - names_tokens - estimate_text(actions.text)),
        names_tokens=names_tokens,
    )


def install(
    view: View, draft: Draft, shares: RoomShares, material: SummaryMaterial, *, summary_id: str, clock: Clock
) -> list[Record]:
    """Return the records that install the draft; those of tools that are loaded again come last.

    On models that bind thinking to the bytes before it, thinking is dropped behind the first changed byte.
    """
    items = view.items
    span = shares.span
    kept = items[shares.place :]
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
    after = view.after(compacted)
    thinking = [] if material.sent is None else drop_thinking(after.items, clock, sent=material.sent.items)
    lost = [name for name in referenced_tools(items) if name not in referenced_tools(after.items)]
    loaded = load_again([name for name in lost if name in material.deferred], clock)
    return [*thinking, compacted, *loaded]


def load_again(names: Sequence[str], clock: Clock) -> list[Record]:
    """Return a call of ToolSearch and its result, which show the model these tools as it had found them."""
    if not names:
        return []
    call = ToolCall(f"toolu_{clock.new_id()}", SEARCH, {"query": SELECT + ",".join(names)})
    result = ToolResult(call.id, tuple(map(tool_reference, names)))
    facts = ReplyFacts(stop_reason="tool_use")
    return [
        Said(id=clock.new_id(), at=clock.now(), role="assistant", blocks=(call,), reply=facts, meta=True),
        Said(id=clock.new_id(), at=clock.now(), role="user", blocks=(result,), meta=True),
    ]


def _tail_place(items: Sequence[Item], draft: Draft, span: ItemSpan, tokens: int) -> int:
    """Return where the tail begins; items that the draft does not cover always stay."""
    if span.keeps_from is not None:
        return max(span.keeps_from, span.first)
    place = tail_from(items, tokens)
    if draft.place is not None and _tokens(items[draft.place :]) <= tokens / TAIL_SHARE * PLACE_SHARE:
        place = draft.place
    if draft.covers is not None:
        known = next((n for n, item in enumerate(items) if item.record_id == draft.covers), -1)
        unknown = max(cut for cut in cuts(items) if cut <= known + 1)
        place = min(place, unknown)
    return max(place, span.first)


def _tokens(items: Sequence[Item]) -> int:
    return sum(item.tokens for item in items)


def _blocks(draft: Draft, shares: RoomShares, material: SummaryMaterial) -> tuple[Block, ...]:
    """Return the blocks that replace the span, in a fixed order."""
    ahead = [Text(one.text) for one in material.fragments if one.text and one.kind in AHEAD]
    behind = [Text(one.text) for one in material.fragments if one.text and one.kind not in AHEAD]
    # The draft has a block of its own, so that a later compaction by rule can take it over.
    summary = Text("\n\n".join(filter(None, (STANDING, draft.text.strip()))))
    sections = (
        _titled("What the user said", shares.words),
        _titled("What was done", shares.actions),
        _titled("Task list", material.tasks),
        _titled("Where the rest is", _rest(shares, material.where)),
    )
    facts = "\n\n".join(section for section in sections if section)
    # So does the index, from which a later compaction takes the names over.
    middle = [Text(text) for text in (facts, shares.names) if text]
    return (*ahead, summary, *middle, *behind, *shares.last)


def _rest(shares: RoomShares, where: OverflowPaths) -> str:
    """Return the lines that name overflow files not mentioned above."""
    left = (
        (shares.facts.left_words, "messages of the user's", where.words, shares.words),
        (shares.facts.left_actions, "calls", where.actions, shares.actions),
    )
    lines = [
        f"Not shown above, {what}: {count:,}, in {path}"
        for count, what, path, text in left
        if count and path and path not in text
    ]
    return "\n".join([*lines, where.log_line] if where.log_line else lines)


def _titled(title: str, text: str) -> str:
    return f"## {title}\n\n{text.strip()}" if text.strip() else ""


MARK = Text(prompts.load(__package__, "last_message").rstrip("\n"))
"""Precedes the user's last message at the end of a summary."""


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The user's last message with the images sent after it."""

    parts: tuple[tuple[str, tuple[Block, ...]], ...] = ()
    """For each part the id of its item, empty if there is none, and its blocks."""

    def unless_in(self, items: Iterable[Item]) -> tuple[Block, ...]:
        """Return the blocks that are not in these items, after the marker text."""
        there = {item.record_id for item in items if item.parts}
        blocks = tuple(block for item, some in self.parts if item not in there for block in some)
        return (MARK, *blocks) if blocks else ()


def last_message(view: View, facts: Facts) -> LastMessage:
    """Return it from its record, from the summary that ends with it, or from the facts."""
    live = live_records(view.records)
    parts: list[tuple[str, tuple[Block, ...]]] = []
    lost: tuple[Block, ...] = ()
    for one in reversed(live):
        if not isinstance(one, Said) or not (blocks := _own(one)):
            continue
        if not view.has_record(one.id):
            lost = blocks
            break
        parts.insert(0, (one.id, blocks))
        if own_words(blocks):
            return LastMessage(tuple(parts))
    summary = next((one for one in reversed(live) if isinstance(one, Compacted) and _behind_mark(one)), None)
    if summary is not None:
        # A session resumed after the summary has only this and must produce the same bytes.
        parts.insert(0, (summary.summary_id or summary.id, _behind_mark(summary)))
    else:
        parts.insert(0, ("", lost or tuple(Text(one.text) for one in facts.words[-1:])))
    return LastMessage(tuple(parts))


def _own(said: Said) -> tuple[Block, ...]:
    """Return the blocks a user sent: text with attachments, or an image alone; no results."""
    if said.role != "user" or said.meta or said.aside is not None:
        return ()
    blocks = tuple(block for block in said.blocks if not isinstance(block, ToolResult))
    is_picture = len(blocks) == len(said.blocks) and any(
        isinstance(block, Image | Document) for block in blocks
    )
    return blocks if is_picture or own_words(blocks) else ()


def _behind_mark(record: Compacted) -> tuple[Block, ...]:
    if MARK not in record.summary:
        return ()
    return record.summary[record.summary.index(MARK) + 1 :]
