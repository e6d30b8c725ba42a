"""Git's pack files: read what `git gc` wrote, write one from many loose objects (M15)."""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nacre.errors import StoreError
from nacre.store import disk

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_NUMBERS = {kind: number for number, kind in KINDS.items()}
_OFFSET_DELTA = 6
_NAMED_DELTA = 7
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_FAN_OUT = 256
_NAME_BYTES = 20
_FAR = 0x8000_0000
"""An offset with this bit is in the index's second table: packs above 2 GB."""
_MAX_DELTA_DEPTH = 4_096
"""git stops at 50 by default and 4,095 at most; more is a damaged pack with a cycle."""

WINDOW = 4
"""Objects of a kind that are tried as the base of a delta; memories lie between two versions of the index."""
MAX_WRITTEN_DEPTH = 20
"""Deltas on deltas in a pack of ours; each costs a copy of the object when it is read."""
MIN_SHARED = 0.5
"""Part of an object that a base must share to be worth a delta."""
_COPY = 0xFFFF
_INSERT = 127

_DAMAGE = (IndexError, KeyError, OverflowError, RecursionError, ValueError, struct.error, zlib.error)
"""What the reading of a damaged pack raises."""

Find = Callable[[str], tuple[str, bytes]]


@contextmanager
def _damage_reported(index: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise StoreError(
            f"the pack of {index} is damaged ({error}); run `git fsck` in the history"
        ) from error


class GitPack:
    """One pack with its index, opened for reading."""

    def __init__(self, index: Path) -> None:
        self.index = index
        with _damage_reported(index):
            self._index = _mapped(index)
            if self._index[:8] != _INDEX_MAGIC:
                raise StoreError(f"{index} is not a pack index of version 2; run `git gc` in the history")
            self._data = _mapped(index.with_suffix(".pack"))
            self._fan = struct.unpack(f">{_FAN_OUT}I", self._index[8 : 8 + 4 * _FAN_OUT])
        self._names = 8 + 4 * _FAN_OUT

    def __contains__(self, name: str) -> bool:
        with _damage_reported(self.index):
            return self._offset(bytes.fromhex(name)) is not None

    @property
    def size(self) -> int:
        return len(self._data)

    def names(self) -> list[str]:
        """Return the id of every object in it, in the order in which they were written."""
        end = self._names + _NAME_BYTES * self._fan[-1]
        table = self._index[self._names : end]
        names = [table[at : at + _NAME_BYTES] for at in range(0, len(table) - _NAME_BYTES + 1, _NAME_BYTES)]
        with _damage_reported(self.index):
            return [name.hex() for name in sorted(names, key=lambda one: self._offset(one) or 0)]

    def read(self, name: str, find: Find) -> tuple[str, bytes]:
        """Return the kind and content of an object; `find` fetches the base of a delta from elsewhere."""
        with _damage_reported(self.index):
            return self._read(name, find)

    def _read(self, name: str, find: Find) -> tuple[str, bytes]:
        offset = self._offset(bytes.fromhex(name))
        if offset is None:
            raise KeyError(name)
        deltas: list[bytes] = []
        while len(deltas) <= _MAX_DELTA_DEPTH:
            number, size, at = self._head(offset)
            if number == _OFFSET_DELTA:
                byte = self._data[at]
                back = byte & 0x7F
                while byte & 0x80:
                    at += 1
                    byte = self._data[at]
                    back = (back + 1) << 7 | byte & 0x7F
                deltas.append(self._inflated(at + 1, size))
                offset -= back
                continue
            if number == _NAMED_DELTA:
                base: bytes = struct.unpack_from(f"{_NAME_BYTES}s", self._data, at)[0]
                deltas.append(self._inflated(at + _NAME_BYTES, size))
                kind, content = find(base.hex())
            else:
                kind = KINDS[number]
                content = self._inflated(at, size)
            for delta in reversed(deltas):
                content = _patched(content, delta)
            return kind, content
        raise StoreError(f"object {name} rests on too many others; run `git fsck` in the history")

    def _offset(self, name: bytes) -> int | None:
        low = self._fan[name[0] - 1] if name[0] else 0
        high = self._fan[name[0]]
        while low < high:
            middle = (low + high) // 2
            at = self._names + _NAME_BYTES * middle
            found = self._index[at : at + _NAME_BYTES]
            if found == name:
                count = self._fan[-1]
                offsets = self._names + (_NAME_BYTES + 4) * count
                near: int = struct.unpack_from(">I", self._index, offsets + 4 * middle)[0]
                if near < _FAR:
                    return near
                far: int = struct.unpack_from(">Q", self._index, offsets + 4 * count + 8 * (near - _FAR))[0]
                return far
            low, high = (middle + 1, high) if found < name else (low, middle)
        return None

    def _head(self, at: int) -> tuple[int, int, int]:
        byte = self._data[at]
        number = byte >> 4 & 7
        size = byte & 15
        shift = 4
        while byte & 0x80:
            at += 1
            byte = self._data[at]
            size |= (byte & 0x7F) << shift
            shift += 7
        return number, size, at + 1

    def _inflated(self, at: int, size: int) -> bytes:
        # Compressed data of a small object can be longer than the object; the slack covers zlib's own frame.
        content = zlib.decompressobj().decompress(self._data[at : at + size + size // 8 + 1_024], size)
        if len(content) != size:
            content = zlib.decompressobj().decompress(self._data[at:], size)
        return content


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _patched(base: bytes, delta: bytes) -> bytes:
    """Apply a delta: two sizes, then pieces copied from the base or given."""
    _, at = _varint(delta, 0)
    size, at = _varint(delta, at)
    pieces: list[bytes] = []
    while at < len(delta):
        code = delta[at]
        at += 1
        if code & 0x80:
            # Each bit of the code announces one byte: four of the start, three of the length.
            values = [0] * 7
            for bit in range(7):
                if code >> bit & 1:
                    values[bit] = delta[at]
                    at += 1
            start = int.from_bytes(values[:4], "little")
            length = int.from_bytes(values[4:], "little") or 0x10000
            pieces.append(base[start : start + length])
        else:
            pieces.append(delta[at : at + code])
            at += code
    content = b"".join(pieces)
    if len(content) != size:
        raise StoreError("an object in the history's pack is damaged; run `git fsck` there")
    return content


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def write_pack(folder: Path, objects: Iterable[tuple[str, str, bytes]], *, count: int) -> Path:
    """Write (id, kind, content) objects as one flushed pack with its index, and return the pack.

    An object that shares most of its bytes with one shortly before it is written as a delta. The index is
    renamed last: git searches indexes, so it never sees half a pack.
    """
    disk.make_folder(folder)
    temp = folder / "tmp_pack_nacre"
    placed: list[tuple[str, int, int]] = []
    digest = hashlib.sha1(usedforsecurity=False)
    with _flushed(temp) as file:
        entry = struct.pack(">4sII", b"PACK", 2, count)
        digest.update(entry)
        offset = file.write(entry)
        recent: dict[str, deque[_Written]] = {}
        for name, kind, content in objects:
            bases = recent.setdefault(kind, deque(maxlen=WINDOW))
            entry, depth = _entry(kind, content, bases, offset)
            bases.append(_Written(content, offset, depth))
            placed.append((name, zlib.crc32(entry), offset))
            digest.update(entry)
            offset += file.write(entry)
        file.write(digest.digest())
    index = folder / "tmp_idx_nacre"
    with _flushed(index) as file:
        file.write(_index_of(placed, digest.digest()))
    pack = folder / f"pack-{digest.hexdigest()}.pack"
    temp.replace(pack)
    index.replace(pack.with_suffix(".idx"))
    disk.sync_folder(folder)
    return pack


@dataclass(frozen=True, slots=True)
class _Written:
    content: bytes
    offset: int
    depth: int


def _entry(kind: str, content: bytes, bases: Iterable[_Written], offset: int) -> tuple[bytes, int]:
    """Return an object's entry, as a delta if one of the bases is much alike, and the depth of the delta."""
    best: tuple[bytes, _Written] | None = None
    for base in bases if kind != "commit" else ():
        make = _tree_delta if kind == "tree" else _delta
        delta = make(base.content, content) if base.depth < MAX_WRITTEN_DEPTH else None
        if delta is not None and (best is None or len(delta) < len(best[0])):
            best = delta, base
    if best is None:
        head = _entry_head(_NUMBERS[kind], len(content))
        return head + zlib.compress(content, zlib.Z_BEST_SPEED), 0
    delta, base = best
    head = _entry_head(_OFFSET_DELTA, len(delta)) + _distance(offset - base.offset)
    return head + zlib.compress(delta, zlib.Z_BEST_SPEED), base.depth + 1


def _delta(base: bytes, new: bytes) -> bytes | None:
    """Return a delta of what both begin and end with; None if that is little."""
    most = min(len(base), len(new))
    begin = _shared(most, lambda size: base[:size] == new[:size])
    end = _shared(most - begin, lambda size: base[len(base) - size :] == new[len(new) - size :])
    if begin + end < MIN_SHARED * len(new):
        return None
    middle = _inserted(new[begin : len(new) - end])
    return _delta_sizes(base, new) + _copied(0, begin) + middle + _copied(len(base) - end, end)


def _tree_delta(base: bytes, new: bytes) -> bytes | None:
    """Return a delta of the entries that two trees share: a save changes the index and another file."""
    known = {base[begin:end]: begin for begin, end in _tree_entries(base)}
    copies: list[tuple[int, int]] = []
    """Of each run of entries its place in the base, -1 for new ones, and its length."""
    for begin, end in _tree_entries(new):
        at = known.get(new[begin:end], -1)
        last, length = copies[-1] if copies else (-1, 0)
        if copies and (last + length == at if at >= 0 and last >= 0 else at == last):
            copies[-1] = last, length + end - begin
        else:
            copies.append((at, end - begin))
    if sum(length for at, length in copies if at >= 0) < MIN_SHARED * len(new):
        return None
    parts = [_delta_sizes(base, new)]
    place = 0
    for at, length in copies:
        parts.append(_copied(at, length) if at >= 0 else _inserted(new[place : place + length]))
        place += length
    return b"".join(parts)


def _tree_entries(tree: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each entry: mode and name, a zero byte, the bytes of an id."""
    begin = 0
    while begin < len(tree):
        end = tree.index(b"\0", begin) + 1 + _NAME_BYTES
        yield begin, end
        begin = end


def _delta_sizes(base: bytes, new: bytes) -> bytes:
    return _as_varint(len(base)) + _as_varint(len(new))


def _inserted(data: bytes) -> bytes:
    pieces = (data[at : at + _INSERT] for at in range(0, len(data), _INSERT))
    return b"".join(bytes([len(piece)]) + piece for piece in pieces)


def _shared(most: int, is_same: Callable[[int], bool]) -> int:
    """Return the largest size at which two texts agree."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        low, most = (middle, most) if is_same(middle) else (low, middle - 1)
    return low


def _copied(start: int, length: int) -> bytes:
    pieces = bytearray()
    while length:
        size = min(length, _COPY)
        values = start.to_bytes(4, "little") + size.to_bytes(3, "little")
        pieces.append(0x80 | sum(1 << bit for bit, value in enumerate(values) if value))
        pieces += bytes(value for value in values if value)
        start += size
        length -= size
    return bytes(pieces)


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _distance(value: int) -> bytes:
    """Return how far back a base is, in the form of offset deltas."""
    found = [value & 0x7F]
    while value := value >> 7:
        value -= 1
        found.append(value & 0x7F | 0x80)
    return bytes(reversed(found))


@contextmanager
def _flushed(path: Path) -> Iterator[BinaryIO]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, disk.FILE_MODE), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _entry_head(number: int, size: int) -> bytes:
    head = bytearray()
    byte = number << 4 | size & 15
    size >>= 4
    while size:
        head.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    head.append(byte)
    return bytes(head)


def _index_of(placed: list[tuple[str, int, int]], pack_digest: bytes) -> bytes:
    """Return the index of objects given as id, checksum and offset."""
    ranked = sorted(placed)
    counts = [0] * _FAN_OUT
    for name, _, _ in ranked:
        counts[int(name[:2], 16)] += 1
    far = [offset for _, _, offset in ranked if offset >= _FAR]
    places = iter(range(len(far)))
    near = [offset if offset < _FAR else _FAR + next(places) for _, _, offset in ranked]
    body = b"".join([
        _INDEX_MAGIC,
        struct.pack(f">{_FAN_OUT}I", *itertools.accumulate(counts)),
        bytes.fromhex("".join(name for name, _, _ in ranked)),
        struct.pack(f">{len(ranked)}I", *(checksum for _, checksum, _ in ranked)),
        struct.pack(f">{len(near)}I", *near),
        struct.pack(f">{len(far)}Q", *far),
        pack_digest,
    ])  # fmt: skip
    return body + hashlib.sha1(body, usedforsecurity=False).digest()
