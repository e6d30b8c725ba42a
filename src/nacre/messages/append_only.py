"""Append-only lists shared by the views of one conversation, with indexes into them.

Every view sees a prefix of them; only the view that sees all of it may append, any other copies first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Generic, TypeVar, overload

from nacre.messages.blocks import JsonObject
from nacre.messages.pairing import DIGEST_BYTES, Item, Sealed
from nacre.messages.records import LogProblem, Noted, Record


@dataclass(frozen=True, slots=True)
class ChainLength:
    """Lengths of the prefix that one view sees."""

    records: int = 0
    items: int = 0
    sealed: int = 0
    chain: int = 0
    noted: int = 0
    problems: int = 0


@dataclass(slots=True)
class ViewBody:
    """The lists shared by the views of a conversation."""

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

    def up_to(self, length: ChainLength) -> ViewBody:
        """Return the body a view of this length may append to: this one, or a copy if it is longer."""
        return self if len(self.records) == length.records else self.copy(length)

    def copy(self, length: ChainLength) -> ViewBody:
        """Return a copy of the prefix."""
        return ViewBody(
            records=self.records[: length.records],
            items=self.items[: length.items],
            sealed=self.sealed[: length.sealed],
            wires=self.wires[: length.sealed],
            ends=self.ends[: length.sealed],
            systems=[place for place in self.systems if place < length.sealed],
            chain=self.chain[: length.chain],
            calls=_below(self.calls, length.items),
            said=_below(self.said, length.items),
            replies=_below(self.replies, length.items),
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

    def note(self, note: Noted) -> None:
        """Append a note."""
        self.kinds.setdefault(note.kind, []).append(len(self.noted))
        self.noted.append(note)

    def stand(self, item: Item) -> int:
        """Append a record to the items; return its index."""
        place = len(self.items)
        self.items.append(item)
        self.said.setdefault(item.record_id, place)
        if item.reply_id is not None:
            self.replies.setdefault(item.reply_id, place)
        return place


def extend(chain: list[bytes], message: Sealed) -> None:
    """Add a message's blocks to a chain of digests."""
    last = chain[-1] if chain else b""
    role = str(message.wire["role"]).encode()
    for digest in message.digests:
        last = blake2b(last + role + digest, digest_size=DIGEST_BYTES).digest()
        chain.append(last)


def _below(places: dict[str, int], end: int) -> dict[str, int]:
    return {name: place for name, place in places.items() if place < end}


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
