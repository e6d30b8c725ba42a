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
_SHARD = re.compile(rb"~[0-3][0-9a-f]")
_FILE_MODE = b"100644"
_FOLDER_MODE = b"40000"


class Reader(Protocol):
    def content(self, name: str, kind: str) -> bytes: ...


@dataclass(slots=True)
class _Folder:
    """One folder as the tree that holds it: ids of files, folders, and trees its files are split over."""

    files: dict[bytes, str] = field(default_factory=dict)
    folders: dict[bytes, str] = field(default_factory=dict)
    shards: dict[bytes, str] = field(default_factory=dict)


def is_reserved(file: str) -> bool:
    """Whether a part of the path looks like one of our own trees."""
    return any(_SHARD.fullmatch(part) for part in _encoded(file).split(b"/"))


def lookup(reader: Reader, tree: str, file: str) -> str | None:
    """The id of a file's content."""
    *folders, name = _encoded(file).split(b"/")
    for part in folders:
        tree = _read(reader, tree).folders.get(part, "")
        if not tree:
            return None
    folder = _read(reader, tree)
    shard = folder.shards.get(_shard_of(name))
    return _read(reader, shard).files.get(name) if shard else folder.files.get(name)


def listed(reader: Reader, tree: str) -> dict[str, str]:
    """Every file and the id of its content."""
    return {_decoded(path): name for path, name in _walked(reader, tree, b"")}


def compared(reader: Reader, old: str, new: str) -> dict[str, tuple[str | None, str | None]]:
    """Every file that differs, with its content before and after; an empty tree is the empty string."""
    return {_decoded(path): ids for path, ids in _differing(reader, old, new, b"")}


def changed(reader: Reader, tree: str, files: Mapping[str, str | None]) -> tuple[str, list[Loose]]:
    """The tree after files got other contents or went, and the trees that have to be written for it."""
    written: list[Loose] = []

    def keep(one: Loose) -> str:
        written.append(one)
        return one.id

    by_path = {tuple(_encoded(file).split(b"/")): name for file, name in files.items()}
    return _apply(reader, tree, by_path, keep) or keep(loose("tree", b"")), written


def _apply(
    reader: Reader, tree: str, files: Mapping[tuple[bytes, ...], str | None], keep: Callable[[Loose], str]
) -> str:
    folder = _read(reader, tree)
    below: dict[bytes, dict[tuple[bytes, ...], str | None]] = {}
    here: dict[bytes, str | None] = {}
    for path, name in files.items():
        if len(path) > 1:
            below.setdefault(path[0], {})[path[1:]] = name
        else:
            here[path[0]] = name
    for part, inner in below.items():
        _put(folder.folders, part, _apply(reader, folder.folders.get(part, ""), inner, keep))
    if not folder.shards:
        for part, name in here.items():
            _put(folder.files, part, name)
        here = {}
        if len(folder.files) > SPLIT_ABOVE:
            here, folder.files = dict(folder.files), {}
    _spread(reader, folder, here, keep)
    return _written(folder, keep)


def _spread(
    reader: Reader, folder: _Folder, files: Mapping[bytes, str | None], keep: Callable[[Loose], str]
) -> None:
    """Change files of a folder that is split."""
    by_shard: dict[bytes, dict[bytes, str | None]] = {}
    for part, name in files.items():
        by_shard.setdefault(_shard_of(part), {})[part] = name
    for shard, inner in by_shard.items():
        leaf = _read(reader, folder.shards.get(shard, ""))
        for part, name in inner.items():
            _put(leaf.files, part, name)
        _put(folder.shards, shard, _written(leaf, keep))


def _put(names: dict[bytes, str], part: bytes, name: str | None) -> None:
    if name:
        names[part] = name
    else:
        names.pop(part, None)


def _written(folder: _Folder, keep: Callable[[Loose], str]) -> str:
    """The id of the tree; nothing at all stands for an empty one, as git has no empty folders."""
    lines = [(part, _FILE_MODE, part, name) for part, name in folder.files.items()]
    for names in (folder.folders, folder.shards):
        # git sorts a folder as if its name ended with a slash.
        lines += [(part + b"/", _FOLDER_MODE, part, name) for part, name in names.items()]
    if not lines:
        return ""
    lines.sort()
    return keep(loose("tree", b"".join(b"%s %s\0%s" % (mode, part, bytes.fromhex(name))
                                       for _, mode, part, name in lines)))  # fmt: skip


def _read(reader: Reader, tree: str) -> _Folder:
    folder = _Folder()
    data = reader.content(tree, "tree") if tree else b""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, part = data[at:end].partition(b" ")
        name = data[end + 1 : end + 21].hex()
        at = end + 21
        if mode != _FOLDER_MODE:
            folder.files[part] = name
        elif _SHARD.fullmatch(part):
            folder.shards[part] = name
        else:
            folder.folders[part] = name
    return folder


def _walked(reader: Reader, tree: str, prefix: bytes) -> Iterator[tuple[bytes, str]]:
    folder = _read(reader, tree)
    for part, name in _all_files(reader, folder).items():
        yield prefix + part, name
    for part, name in folder.folders.items():
        yield from _walked(reader, name, prefix + part + b"/")


_Pair = tuple[str | None, str | None]


def _differing(reader: Reader, old: str, new: str, prefix: bytes) -> Iterator[tuple[bytes, _Pair]]:
    if old == new:
        return
    before, after = _read(reader, old), _read(reader, new)
    if before.shards and after.shards:
        for one, other in _unlike(before.shards, after.shards).values():
            leaves = _read(reader, one or ""), _read(reader, other or "")
            for part, ids in _unlike(leaves[0].files, leaves[1].files).items():
                yield prefix + part, ids
    else:
        pairs = _unlike(_all_files(reader, before), _all_files(reader, after))
        for part, ids in pairs.items():
            yield prefix + part, ids
    for part, (one, other) in _unlike(before.folders, after.folders).items():
        yield from _differing(reader, one or "", other or "", prefix + part + b"/")


def _all_files(reader: Reader, folder: _Folder) -> dict[bytes, str]:
    files = dict(folder.files)
    for shard in folder.shards.values():
        files |= _read(reader, shard).files
    return files


def _unlike(before: Mapping[bytes, str], after: Mapping[bytes, str]) -> dict[bytes, _Pair]:
    parts = sorted(before.keys() | after.keys())
    pairs = {part: (before.get(part), after.get(part)) for part in parts}
    return {part: (one, other) for part, (one, other) in pairs.items() if one != other}


def _shard_of(part: bytes) -> bytes:
    return b"~%02x" % (hashlib.sha1(part, usedforsecurity=False).digest()[0] % SHARDS)


def _encoded(file: str) -> bytes:
    return file.encode("utf-8", "surrogateescape")


def _decoded(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
