"""The first so many of a list that only grows: looked at without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Stretch(Sequence[T], Generic[T]):
    """What a view sees of a list that others go on appending to; it costs the same however long that is."""

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


class Joined(Sequence[T]):
    """The first so many of a list that only grows, then some more: two lists in one, without a copy."""

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
