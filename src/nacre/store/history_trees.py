"""Files as git trees: look up, change, list and compare, touching only the folders that differ.

A folder of up to 256 files is one tree, as git would have it. A larger one keeps its files in 64 trees
named `~00` to `~3f` by a digest of the file's name, for good: a save then writes two trees of about 150 lines
and not one of 10,000. `git log -- '*name.md'` finds a file in either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nacre.store.history_objects import Loose, loose

SPLIT_ABOVE = 256
"""Files of one folder; up to here its tree is about 10 KB, which costs less than two trees do."""
SHARDS = 64
"""About the root of the number of files a large memory has, where both trees are small."""
REMEMBERED = 512
"""Parsed trees that are kept, a few megabytes at most."""
_SHARD = re.compile(rb"~[0-3][0-9a-f]")
_LINE = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
_FILE_MODE = b"100644"
_FOLDER_MODE = b"40000"


class Reader(Protocol):
    def content(self, name: str, kind: str) -> bytes: ...


@dataclass(slots=True)
class _Folder:
    """One folder as the tree that holds it: ids of files, folders, and trees its files are split over."""

    files: dict[bytes, bytes] = field(default_factory=dict)
    folders: dict[bytes, bytes] = field(default_factory=dict)
    shards: dict[bytes, bytes] = field(default_factory=dict)

    def copy(self) -> _Folder:
        return _Folder(dict(self.files), dict(self.folders), dict(self.shards))


_Pair = tuple[bytes | None, bytes | None]
_Path = tuple[bytes, ...]
_NOTHING = b""
"""Stands for the tree of an empty folder, which git does not keep."""


class Trees:
    """The trees of one repository; what was parsed is remembered, as an id never changes its meaning."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._parsed: dict[bytes, _Folder] = {}

    def lookup(self, tree: str, file: str) -> str | None:
        """The id of a file's content."""
        *folders, name = _encoded(file).split(b"/")
        at = bytes.fromhex(tree)
        for part in folders:
            at = self._folder(at).folders.get(part, _NOTHING)
        folder = self._folder(at)
        shard = folder.shards.get(_shard_of(name)) if folder.shards else None
        found = (self._folder(shard) if shard else folder).files.get(name)
        return None if found is None else found.hex()

    def listed(self, tree: str) -> dict[str, str]:
        """Every file and the id of its content."""
        return {_decoded(path): name.hex() for path, name in self._walked(bytes.fromhex(tree), b"")}

    def compared(self, old: str, new: str) -> dict[str, tuple[str | None, str | None]]:
        """Every file that differs, with its content before and after; an empty tree is the empty string."""
        pairs = self._differing(bytes.fromhex(old), bytes.fromhex(new), b"")
        return {
            _decoded(path): (one.hex() if one else None, other.hex() if other else None)
            for path, (one, other) in pairs
        }

    def changed(self, tree: str, files: Mapping[str, str | None]) -> tuple[str, list[Loose]]:
        """The tree after files got other contents or went, and the trees that must be written for it."""
        written: list[Loose] = []

        def keep(one: Loose) -> bytes:
            written.append(one)
            return bytes.fromhex(one.id)

        by_path = {
            tuple(_encoded(file).split(b"/")): bytes.fromhex(name) if name else None
            for file, name in files.items()
        }
        found = self._applied(bytes.fromhex(tree), by_path, keep) or keep(loose("tree", b""))
        return found.hex(), written

    def _applied(
        self, tree: bytes, files: Mapping[_Path, bytes | None], keep: Callable[[Loose], bytes]
    ) -> bytes:
        folder = self._folder(tree).copy()
        below: dict[bytes, dict[_Path, bytes | None]] = {}
        here: dict[bytes, bytes | None] = {}
        for path, name in files.items():
            if len(path) > 1:
                below.setdefault(path[0], {})[path[1:]] = name
            else:
                here[path[0]] = name
        for part, inner in below.items():
            _put(folder.folders, part, self._applied(folder.folders.get(part, _NOTHING), inner, keep))
        if not folder.shards:
            for part, name in here.items():
                _put(folder.files, part, name)
            here = {}
            if len(folder.files) > SPLIT_ABOVE:
                here = dict(folder.files)
                folder.files = {}
        self._spread(folder, here, keep)
        return _written(folder, keep)

    def _spread(
        self, folder: _Folder, files: Mapping[bytes, bytes | None], keep: Callable[[Loose], bytes]
    ) -> None:
        """Change files of a folder that is split."""
        by_shard: dict[bytes, dict[bytes, bytes | None]] = {}
        for part, name in files.items():
            by_shard.setdefault(_shard_of(part), {})[part] = name
        for shard, inner in by_shard.items():
            leaf = self._folder(folder.shards.get(shard, _NOTHING)).copy()
            for part, name in inner.items():
                _put(leaf.files, part, name)
            _put(folder.shards, shard, _written(leaf, keep))

    def _walked(self, tree: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        folder = self._folder(tree)
        for part, name in self._all_files(folder).items():
            yield prefix + part, name
        for part, name in folder.folders.items():
            yield from self._walked(name, prefix + part + b"/")

    def _differing(self, old: bytes, new: bytes, prefix: bytes) -> Iterator[tuple[bytes, _Pair]]:
        if old == new:
            return
        before = self._folder(old)
        after = self._folder(new)
        if before.shards and after.shards:
            for one, other in _unlike(before.shards, after.shards).values():
                leaves = self._folder(one or _NOTHING), self._folder(other or _NOTHING)
                for part, ids in _unlike(leaves[0].files, leaves[1].files).items():
                    yield prefix + part, ids
        else:
            pairs = _unlike(self._all_files(before), self._all_files(after))
            for part, ids in pairs.items():
                yield prefix + part, ids
        for part, (one, other) in _unlike(before.folders, after.folders).items():
            yield from self._differing(one or _NOTHING, other or _NOTHING, prefix + part + b"/")

    def _all_files(self, folder: _Folder) -> dict[bytes, bytes]:
        files = dict(folder.files)
        for shard in folder.shards.values():
            files |= self._folder(shard).files
        return files

    def _folder(self, tree: bytes) -> _Folder:
        """What a tree says; not to be changed."""
        if tree not in self._parsed:
            if len(self._parsed) >= REMEMBERED:
                self._parsed.clear()
            self._parsed[tree] = _parsed(self._reader.content(tree.hex(), "tree") if tree else b"")
        return self._parsed[tree]


def is_reserved(file: str) -> bool:
    """Whether a part of the path looks like one of our own trees."""
    return "~" in file and any(_SHARD.fullmatch(part) for part in _encoded(file).split(b"/"))


def _parsed(data: bytes) -> _Folder:
    folder = _Folder()
    for mode, part, name in _LINE.findall(data):
        if mode != _FOLDER_MODE:
            folder.files[part] = name
        elif _SHARD.fullmatch(part):
            folder.shards[part] = name
        else:
            folder.folders[part] = name
    return folder


def _put(names: dict[bytes, bytes], part: bytes, name: bytes | None) -> None:
    if name:
        names[part] = name
    else:
        names.pop(part, None)


def _written(folder: _Folder, keep: Callable[[Loose], bytes]) -> bytes:
    """The id of the tree; nothing at all stands for an empty one, as git has no empty folders."""
    lines = [(part, _FILE_MODE, part, name) for part, name in folder.files.items()]
    for names in (folder.folders, folder.shards):
        # git sorts a folder as if its name ended with a slash.
        lines += [(part + b"/", _FOLDER_MODE, part, name) for part, name in names.items()]
    if not lines:
        return _NOTHING
    lines.sort()
    return keep(loose("tree", b"".join([b"%s %s\0%s" % (mode, part, name) for _, mode, part, name in lines])))


def _unlike(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> dict[bytes, _Pair]:
    parts = {part for part, _ in before.items() ^ after.items()}
    return {part: (before.get(part), after.get(part)) for part in sorted(parts)}


def _shard_of(part: bytes) -> bytes:
    return b"~%02x" % (hashlib.sha1(part, usedforsecurity=False).digest()[0] % SHARDS)


def _encoded(file: str) -> bytes:
    return file.encode("utf-8", "surrogateescape")


def _decoded(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
