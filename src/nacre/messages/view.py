"""What the model will see: a pure fold over the records (T3), valid for any log (T6).

Folding a `Said` costs what that record holds. `Replaced`, `Compacted` and `Undone` start a new epoch and may
cost what is in view; inside an epoch a sealed message never changes. Views share one append-only body, each
with its own length; a view that diverges from a longer one copies first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import assert_never

from nacre.messages.append_only import ChainLength, JoinedSequence, SharedPrefix, ViewBody, extend
from nacre.messages.blocks import Block, JsonObject, Message, Opaque, Role, ToolCall
from nacre.messages.pairing import Item, ItemPart, OpenExchange, Report, Sealed, part
from nacre.messages.records import Compacted, LogProblem, Noted, Record, Replaced, ResultOf, Said, Undone
from nacre.messages.rewrite import changed, gone_calls


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last context size reported by a provider, and its reply."""

    reply_id: str | None
    tokens: int


class View:
    """The conversation as the model sees it; immutable: `after` returns a new one."""

    __slots__ = (
        "_body",
        "_epochs",
        "_exchange",
        "_length",
        "_replaced",
        "_since",
        "anchor",
        "estimate",
    )

    def __init__(self) -> None:
        self._body = ViewBody()
        self._length = ChainLength()
        self._exchange = OpenExchange()
        self._epochs: tuple[str, ...] = ()
        self._replaced: dict[str, str] = {}
        self._since = 0
        self.anchor: Anchor | None = None
        """Context size last reported by the provider; None after a compaction."""
        self.estimate = 0
        """Estimated tokens of everything in view."""

    @staticmethod
    def of(records: Iterable[Record]) -> View:
        """Fold a whole log."""
        return View().after(*records)

    def after(self, *records: Record) -> View:
        """Return the view after these records."""
        fold = _ViewFold(self)
        for record in records:
            fold.add(record)
        return fold.done()

    def apart(self) -> View:
        """Return the same for a fork, which makes the copy, so that the parent appends as before."""
        fold = _ViewFold(self)
        fold.body = self._body.copy(self._length)
        return fold.done()

    @property
    def messages(self) -> list[JsonObject]:
        """The messages of a request; a new list of shared messages that must not be changed."""
        messages = self._body.wires[: self._length.sealed]
        messages.extend(one.wire for one in self._tail())
        return messages

    @property
    def has_system_messages(self) -> bool:
        """Whether there are system messages in the conversation."""
        is_sealed = bool(self._body.systems) and self._body.systems[0] < self._length.sealed
        return is_sealed or any(one.wire["role"] == "system" for one in self._tail())

    @property
    def chain(self) -> list[bytes]:
        """Digest of every block and all before it: equal entries mean equal prefixes."""
        chain = self._body.chain[: self._length.chain]
        for one in self._tail():
            extend(chain, one)
        return chain

    @property
    def links(self) -> Sequence[bytes]:
        """The chain without a copy."""
        seed = self._body.chain[self._length.chain - 1 : self._length.chain]
        tail = list(seed)
        for one in self._tail():
            extend(tail, one)
        return JoinedSequence(self._body.chain, self._length.chain, tail[len(seed) :])

    def message_start(self, blocks: int) -> tuple[int, int]:
        """Return the message in which the first `blocks` blocks end, and the number before it."""
        ends = self._body.ends
        place = bisect_left(ends, blocks, hi=self._length.sealed)
        return place, ends[place - 1] if place else 0

    def path(self, place: int) -> str:
        """Return the message and block index of an entry of the chain."""
        for i, one in enumerate(self._sealed()):
            if place < len(one.digests):
                return f"messages[{i}].content[{place}]"
            place -= len(one.digests)
        return "end of messages"

    @property
    def sealed(self) -> Sequence[Sealed]:
        """The messages that no longer change in this epoch."""
        return SharedPrefix(self._body.sealed, self._length.sealed)

    @property
    def items(self) -> Sequence[Item]:
        """The items of the view, in order."""
        return SharedPrefix(self._body.items, self._length.items)

    @property
    def records(self) -> Sequence[Record]:
        """All folded records, in order."""
        return SharedPrefix(self._body.records, self._length.records)

    @property
    def problems(self) -> Sequence[LogProblem]:
        """Problems of the log: what was left out of the request, and why."""
        return SharedPrefix(self._body.problems, self._length.problems)

    @property
    def epochs(self) -> tuple[str, ...]:
        """One reason for every rewrite of bytes already in view: compact, clear, undo …"""
        return self._epochs

    @property
    def replaced(self) -> dict[str, str]:
        """Reasons of replaced tool results, by call id."""
        return dict(self._replaced)

    @property
    def open_calls(self) -> list[str]:
        """Calls of the last reply that have no result yet."""
        return self._exchange.open_calls()

    @property
    def last_reply(self) -> Message | None:
        """The reply at the end of the view, if only its results follow."""
        exchange = self._exchange
        if not exchange.has_reply or exchange.after:
            return None
        return Message("assistant", tuple(one.block for one in exchange.reply))

    def noted(self, kind: str) -> list[Noted]:
        """Return the notes of one kind, in order."""
        places = self._body.kinds.get(kind, [])
        return [self._body.noted[place] for place in places[: bisect_left(places, self._length.noted)]]

    def last_noted(self, kind: str) -> Noted | None:
        """Return the newest note of one kind, in constant time."""
        places = self._body.kinds.get(kind, [])
        count = bisect_left(places, self._length.noted)
        return self._body.noted[places[count - 1]] if count else None

    def has_record(self, record_id: str) -> bool:
        """Return whether this record is in view."""
        return self._body.said.get(record_id, self._length.items) < self._length.items

    def has_reply(self, reply_id: str) -> bool:
        """Return whether a reply with this provider id is in view."""
        return self._body.replies.get(reply_id, self._length.items) < self._length.items

    def count(self, base: int = 0, *, ratio: float = 1.0) -> int:
        """Return the tokens of a request (C1); `base` is system and tools, which the view lacks.

        `ratio` corrects what is only estimated by what the session has learnt (C2).
        """
        if self.anchor is None:
            return round((base + self.estimate) * ratio)
        return max(0, self.anchor.tokens + round(self._since * ratio))

    def _sealed(self) -> list[Sealed]:
        return [*self._body.sealed[: self._length.sealed], *self._tail()]

    def _tail(self) -> list[Sealed]:
        return self._exchange.render(is_first=self._length.sealed == 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
            return NotImplemented
        return (
            self.chain == other.chain
            and self.messages == other.messages
            and self.count() == other.count()
            and self._epochs == other._epochs
            and self._body.noted[: self._length.noted] == other._body.noted[: other._length.noted]
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<View: {len(self.messages)} messages, ~{self.count()} tokens, {len(self._epochs)} rewrites>"


class _ViewFold:
    """Builds views: takes records one by one, then returns the view."""

    def __init__(self, view: View) -> None:
        self.body = view._body.up_to(view._length)
        self.exchange = view._exchange.copy()
        self.epochs = view._epochs
        self.replaced = view._replaced
        self.since = view._since
        self.anchor = view.anchor
        self.estimate = view.estimate
        self.is_undoing = False
        """A record was undone since the last fold."""

    def add(self, record: Record) -> None:
        if not isinstance(record, Undone):
            self._fold_again()
        self.body.records.append(record)
        match record:
            case Said():
                if record.aside is None:
                    self._say(record)
            case Noted():
                self.body.note(record)
            case Replaced():
                self._replace(record)
            case Compacted():
                self._compact(record)
            case Undone():
                self.is_undoing = True
                self.epochs = (*self.epochs, "undo")
            case _:
                assert_never(record)

    def done(self) -> View:
        self._fold_again()
        view = View()
        view._body = self.body
        view._length = self.body.length
        view._exchange = self.exchange
        view._epochs = self.epochs
        view._replaced = self.replaced
        view._since = self.since
        view.anchor = self.anchor
        view.estimate = self.estimate
        return view

    def _say(self, said: Said) -> None:
        reply_id = said.reply.id if said.reply else None
        parts = tuple(part(said.id, i, block) for i, block in enumerate(said.blocks))
        item = Item(said.id, said.role, reply_id, parts)
        self._take(item, self._report)
        self.estimate += item.tokens
        usage = said.reply.usage if said.reply else None
        if usage is None:
            self.since += item.tokens
        elif self.anchor is not None and reply_id is not None and reply_id == self.anchor.reply_id:
            # The first record of a reply anchors the count, so that results which arrived between its
            # records are counted; the figure itself comes from the last one.
            self.anchor = Anchor(reply_id, usage.context)
            self.since += item.tokens
        else:
            self.anchor = Anchor(reply_id, usage.context)
            self.since = 0

    def _take(self, item: Item, report: Report) -> None:
        body = self.body
        for one in self.exchange.add(item, body.calls, is_first=not body.sealed, report=report):
            body.seal(one)
        place = body.stand(item)
        for spoken in item.parts:
            if isinstance(spoken.block, ToolCall):
                body.calls.setdefault(spoken.block.id, place)

    def _replace(self, record: Replaced) -> None:
        stands = {change.at: change.stands for change in record.changes}
        gone = gone_calls(self.body.items, stands)
        items = [changed(item, stands, gone) for item in self.body.items]
        freed = self.estimate - sum(item.tokens for item in items)
        self.replaced = self.replaced | {
            at.call_id: record.reason for at in stands if isinstance(at, ResultOf) and at.call_id not in gone
        }
        self._restart(items, record.reason)
        self.since -= freed

    def _compact(self, record: Compacted) -> None:
        items = self.body.items
        start = _position(items, record.first, default=0)
        end = _position(items, record.keeps_from, default=len(items))
        summary = _summary_items(record)
        self._restart([*items[:start], *summary, *items[max(start, end) :]], "compact")
        self.replaced = {call: why for call, why in self.replaced.items() if call in self.body.calls}
        self._lose_anchor()
        for note in record.carries:
            self.body.note(note)

    def _fold_again(self) -> None:
        """Fold the live records from the start, once for several undone records in a row."""
        if not self.is_undoing:
            return
        self.is_undoing = False
        again = _ViewFold(View())
        live = live_records(self.body.records)
        for record in live:
            again.add(record)
        # Problems and records stay; only the items change.
        again.body.records = self.body.records
        again.body.problems = self.body.problems
        self.body = again.body
        self.exchange = again.exchange
        self.replaced = again.replaced
        self.estimate = again.estimate
        self.anchor = again.anchor
        self.since = again.since
        if _is_measured_since(self.body.records, {record.id for record in live}):
            self._lose_anchor()

    def _restart(self, items: list[Item], reason: str) -> None:
        """Begin a new epoch: the same log with other items."""
        old = self.body
        self.body = ViewBody(records=old.records, noted=old.noted, kinds=old.kinds, problems=old.problems)
        self.exchange = OpenExchange()
        self.epochs = (*self.epochs, reason)
        for item in items:
            # A call or result left without its partner by a rewrite is removed on purpose.
            self._take(item, _ignore)
        self.estimate = sum(item.tokens for item in items)

    def _lose_anchor(self) -> None:
        self.anchor = None
        self.since = 0

    def _report(self, kind: str, where: str, message: str) -> None:
        self.body.problems.append(LogProblem(kind, where, message))


def live_records(records: Sequence[Record]) -> list[Record]:
    """Return the records that are not undone, without `Undone` itself; an undo can be undone."""
    dead: set[str] = set()
    for record in reversed(records):
        if isinstance(record, Undone) and record.id not in dead:
            dead.add(record.target)
    return [record for record in records if record.id not in dead and not isinstance(record, Undone)]


def _is_measured_since(records: Sequence[Record], live: Set[str]) -> bool:
    """Return whether a reported size came after an undone record and so belongs to another view."""
    dead = (n for n, one in enumerate(records) if one.id not in live and not isinstance(one, Undone))
    first = next(dead, len(records))
    return any(
        isinstance(one, Said) and one.aside is None and one.reply is not None and one.reply.usage is not None
        for one in records[first:]
        if one.id in live
    )


def _position(items: Sequence[Item], record_id: str | None, *, default: int) -> int:
    if record_id is None:
        return default
    return next((i for i, item in enumerate(items) if item.record_id == record_id), default)


def _summary_items(record: Compacted) -> list[Item]:
    """Return the items of a summary: a user message, after a provider's block, which is a reply (C23b)."""
    record_id = record.summary_id or record.id
    parts = tuple(part(record_id, i, block) for i, block in enumerate(record.summary))
    replies = tuple(one for one in parts if _is_provider_block(one.block))
    said = tuple(one for one in parts if not _is_provider_block(one.block))
    roles: tuple[tuple[Role, tuple[ItemPart, ...]], ...] = (("assistant", replies), ("user", said))
    return [Item(record_id, role, None, some) for role, some in roles if some] or [
        Item(record_id, "user", None, ())
    ]


def _is_provider_block(block: Block) -> bool:
    return isinstance(block, Opaque) and block.kind == "compaction"


def _ignore(kind: str, where: str, message: str) -> None:
    """Discard a problem."""
