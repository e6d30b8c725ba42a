"""What the model will see: a pure fold over the records (T3), valid for any log (T6).

Folding a `Said` costs what that record holds. `Replaced`, `Compacted` and `Undone` start a new epoch and may
cost what is in view; inside an epoch a sealed message never changes. Views share one append-only body, each
with its own length; a view that diverges from a longer one copies first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Generic, TypeVar, assert_never, overload

from nacre.messages.blocks import JsonObject, Message, ToolCall
from nacre.messages.media import MediaFacts
from nacre.messages.pairing import DIGEST_BYTES, Item, OpenExchange, Report, Sealed, is_compaction, part
from nacre.messages.records import Compacted, LogProblem, Noted, Record, Replaced, ResultOf, Said, Undone
from nacre.messages.rewrite import changed, gone_calls


@dataclass(frozen=True, slots=True)
class ChainLength:
    """Lengths of the prefix of the shared lists that one view sees."""

    records: int = 0
    items: int = 0
    sealed: int = 0
    chain: int = 0
    noted: int = 0
    problems: int = 0


@dataclass(slots=True)
class ViewBody:
    """Append-only lists shared by the views of one conversation, with indexes into them.

    Every view sees a prefix of them; only the view that sees all of it may append, any other copies first.
    """

    records: list[Record] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    sealed: list[Sealed] = field(default_factory=list)
    wires: list[JsonObject] = field(default_factory=list)
    """The sealed messages in wire form."""
    ends: list[int] = field(default_factory=list)
    """Number of blocks up to the end of each message."""
    systems: list[int] = field(default_factory=list)
    """Indexes of the system messages."""
    chain: list[bytes] = field(default_factory=list)
    """For every sealed block a digest of it and all blocks before it."""
    calls: dict[str, int] = field(default_factory=dict)
    """Call ids in view, with the index of their item."""
    said: dict[str, int] = field(default_factory=dict)
    """Record ids in view, with the index of their item."""
    replies: dict[str, int] = field(default_factory=dict)
    """Reply ids in view, with the index of their first item."""
    user_texts: list[int] = field(default_factory=list)
    """Indexes of the items in which the user says something."""
    thinking: list[int] = field(default_factory=list)
    """Estimated tokens of thinking ahead of each of `user_texts`."""
    thinking_tokens: int = 0
    """Estimated tokens of all thinking."""
    media: list[int] = field(default_factory=list)
    """Indexes of the items with pictures or documents."""
    noted: list[Noted] = field(default_factory=list)
    kinds: dict[str, list[int]] = field(default_factory=dict)
    """Indexes of the notes of each kind."""
    problems: list[LogProblem] = field(default_factory=list)

    @property
    def length(self) -> ChainLength:
        """The lengths of all lists."""
        return ChainLength(
            len(self.records),
            len(self.items),
            len(self.sealed),
            len(self.chain),
            len(self.noted),
            len(self.problems),
        )

    def copy(self, length: ChainLength) -> ViewBody:
        """Return a copy of the prefix."""

        def below(places: dict[str, int]) -> dict[str, int]:
            return {name: place for name, place in places.items() if place < length.items}

        user_texts = self.user_texts[: bisect_left(self.user_texts, length.items)]
        return ViewBody(
            records=self.records[: length.records],
            items=self.items[: length.items],
            sealed=self.sealed[: length.sealed],
            wires=self.wires[: length.sealed],
            ends=self.ends[: length.sealed],
            systems=[place for place in self.systems if place < length.sealed],
            chain=self.chain[: length.chain],
            calls=below(self.calls),
            said=below(self.said),
            replies=below(self.replies),
            user_texts=user_texts,
            thinking=self.thinking[: len(user_texts)],
            thinking_tokens=sum(item.thinking_tokens for item in self.items[: length.items]),
            media=[place for place in self.media if place < length.items],
            noted=self.noted[: length.noted],
            kinds={
                kind: [place for place in places if place < length.noted]
                for kind, places in self.kinds.items()
            },
            problems=self.problems[: length.problems],
        )

    def seal(self, message: Sealed) -> None:
        """Append a sealed message."""
        if message.wire["role"] == "system":
            self.systems.append(len(self.sealed))
        self.sealed.append(message)
        self.wires.append(message.wire)
        extend(self.chain, message)
        self.ends.append(len(self.chain))

    def add(self, item: Item) -> None:
        """Append an item."""
        place = len(self.items)
        if item.is_user_text:
            self.user_texts.append(place)
            self.thinking.append(self.thinking_tokens)
        self.thinking_tokens += item.thinking_tokens
        self.items.append(item)
        self.said.setdefault(item.record_id, place)
        if item.reply_id is not None:
            self.replies.setdefault(item.reply_id, place)
        if any(one.media for one in item.parts):
            self.media.append(place)
        for one in item.parts:
            if isinstance(one.block, ToolCall):
                self.calls.setdefault(one.block.id, place)

    def note(self, note: Noted) -> None:
        """Append a note."""
        self.kinds.setdefault(note.kind, []).append(len(self.noted))
        self.noted.append(note)


def extend(chain: list[bytes], message: Sealed) -> None:
    """Add a message's blocks to a chain of digests."""
    last = chain[-1] if chain else b""
    role = str(message.wire["role"]).encode()
    for digest in message.digests:
        last = blake2b(last + role + digest, digest_size=DIGEST_BYTES).digest()
        chain.append(last)


T = TypeVar("T")


class SharedPrefix(Sequence[T], Generic[T]):
    """The first `end` elements of a growing list, without a copy."""

    __slots__ = ("_end", "_list")

    def __init__(self, of: list[T], end: int) -> None:
        self._list = of
        self._end = end

    def __len__(self) -> int:
        return self._end

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        places = range(self._end)[index]
        if isinstance(places, int):
            return self._list[places]
        if places.step == 1:
            return self._list[places.start : max(places.start, places.stop)]
        return [self._list[place] for place in places]

    def __iter__(self) -> Iterator[T]:
        return islice(self._list, self._end)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self[:])


class JoinedSequence(Sequence[T]):
    """The first `count` elements of a growing list followed by another list, without a copy."""

    __slots__ = ("_count", "_first", "_rest")

    def __init__(self, first: list[T], count: int, rest: list[T]) -> None:
        self._first = first
        self._count = count
        self._rest = rest

    def __len__(self) -> int:
        return self._count + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._first[place] if place < self._count else self._rest[place - self._count]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last context size reported by a provider, and its reply."""

    reply_id: str | None
    tokens: int


class View:
    """The conversation as the model sees it; immutable: `after` returns a new one."""

    __slots__ = ("_body", "_epochs", "_exchange", "_length", "_replaced", "_since", "anchor", "estimate")

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
        for i, one in enumerate([*self.sealed, *self._tail()]):
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
    def user_texts(self) -> Sequence[int]:
        """Indexes of the items in which the user says something."""
        places = self._body.user_texts
        return SharedPrefix(places, bisect_left(places, self._length.items))

    @property
    def old_thinking(self) -> int:
        """Estimated tokens of thinking ahead of the last text of the user."""
        count = len(self.user_texts)
        return self._body.thinking[count - 1] if count else 0

    def media(self, first: int = 0) -> Iterator[MediaFacts]:
        """Return the pictures and documents in the items from this index on."""
        places = self._body.media
        for place in places[bisect_left(places, first) : bisect_left(places, self._length.items)]:
            for one in self._body.items[place].parts:
                yield from one.media

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

        `ratio` corrects the estimate of text by what the session has learnt (C2).
        """
        if self.anchor is None:
            return base + round(self.estimate * ratio)
        return max(0, self.anchor.tokens + round(self._since * ratio))

    @property
    def counted_estimate(self) -> int:
        """Estimated tokens of the messages whose size the provider reported in `anchor`."""
        return self.estimate - self._since

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
        is_whole = len(view._body.records) == view._length.records
        self.body = view._body if is_whole else view._body.copy(view._length)
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
        usage = said.reply.usage if said.reply else None
        item = Item(said.id, said.role, reply_id, parts, usage)
        self._take(item, self._report)
        self.estimate += item.tokens
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
        body.add(item)

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
        # A summary is a user message, after a provider's block, which is a reply (C23b).
        record_id = record.summary_id or record.id
        parts = tuple(part(record_id, i, block) for i, block in enumerate(record.summary))
        replies = tuple(one for one in parts if is_compaction(one.block))
        texts = tuple(one for one in parts if not is_compaction(one.block))
        summary = [Item(record_id, "assistant", None, replies)] if replies else []
        if texts or not replies:
            summary.append(Item(record_id, "user", None, texts))
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
        # A size that was reported after an undone record belongs to another view.
        ids = {record.id for record in live}
        records = self.body.records
        dead = (n for n, one in enumerate(records) if one.id not in ids and not isinstance(one, Undone))
        later = (one for one in records[next(dead, len(records)) :] if one.id in ids)
        if any(isinstance(one, Said) and not one.aside and one.reply and one.reply.usage for one in later):
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


def _position(items: Sequence[Item], record_id: str | None, *, default: int) -> int:
    if record_id is None:
        return default
    return next((i for i, item in enumerate(items) if item.record_id == record_id), default)


def _ignore(kind: str, where: str, message: str) -> None:
    """Discard a problem."""
