"""Which words a large tree's files hold, kept until they change: reading them all takes over 50 ms (R12).

Files are put into groups by their path. That a word is in a group is believed only while every one of its
files has the stamp it was read with; that it is not, of those files that have. Only derived: lost or damaged,
it costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nacre.memory.files.folder import Stamp, is_reliable
from nacre.memory.recall.drift.foreign import PROSE_ENDINGS
from nacre.memory.recall.drift.tree_files import Held, Plain, Tree, read_inside, stamp_of, tree_of
from nacre.memory.recall.drift.words import MAX_FILE_BYTES, WORTH_BYTES, Sought, is_plain, is_text
from nacre.store import disk

FILE = "words"
GROUPS = 128
"""So that one changed file costs the reading of a hundredth of the tree."""
_FORMAT = 1
_SUM_BYTES = 4
_WORDS = re.compile(rb"[A-Za-z0-9_]+")
_HYPHENED = re.compile(rb"[A-Za-z0-9_-]*-[A-Za-z0-9_-]*")
Group: TypeAlias = tuple[dict[str, Stamp], bytes, bytes]
"""The stamps of its files; the words of code and data, and those of pages, each on a line."""


@dataclass(frozen=True, slots=True)
class WordCache:
    """Where one working tree's words are kept."""

    folder: Path
    """A location's `cache`."""
    root: Path

    def answer(
        self, tree: Tree, sought: Collection[Sought], *, is_late: Callable[[], bool] = lambda: False
    ) -> tuple[set[Sought], frozenset[str]]:
        """Which words are there, and which files need not be read for any other plain word."""
        groups = self._read()
        wanted = [one for one in sought if is_plain(one)]
        state = _State(tree, {number: group[0] for number, group in groups.items()})
        named = {number: _held(group, wanted) for number, group in groups.items()}
        found: set[Sought] = set()
        # Where a word stands is looked at first: most of what memories name is still there.
        for number in sorted(named, key=lambda number: not named[number]):
            if is_late() or found.issuperset(sought):
                break
            if not state.changed(number):
                found |= named[number]
        settled: set[str] = set()
        for number in state.seen:
            changed = state.changed(number)
            # Of a group that has changed it is still known what the others of its files do not hold.
            if not changed or named[number] <= found:
                settled.update(groups[number][0].keys() - changed)
        return found, frozenset(settled)

    def ready(self) -> None:
        """Hold in memory what the first check would begin with; nothing for a tree without a cache."""
        if self._read():
            tree_of(self.root, is_late=lambda: True)

    def learn(self, *, is_late: Callable[[], bool] = lambda: False) -> bool:
        """Read what has changed and keep it; false when there was no need, or no way. Slow."""
        tree = tree_of(self.root, is_late=is_late)
        if sum(one.size for one in tree.files) < WORTH_BYTES:
            return False
        groups = dict(self._read())
        changed = False
        now = self._now()
        for number, stamps in _stamped(tree).items():
            if is_late():
                break
            if groups.get(number, ({},))[0] != stamps:
                groups[number] = self._group(tree.root, stamps)
                changed = True
        if changed:
            return self._keep(groups, now)
        with contextlib.suppress(OSError):
            self._aside.unlink(missing_ok=True)
        return False

    def _group(self, root: str, stamps: Mapping[str, Stamp]) -> Group:
        code: set[bytes] = set()
        prose: set[bytes] = set()
        for path in stamps:
            data = read_inside(root, path, MAX_FILE_BYTES)
            if data and is_text(data):
                words = prose if path.rpartition(".")[2].lower() in PROSE_ENDINGS else code
                words.update(_WORDS.findall(data))
                words.update(_HYPHENED.findall(data))
        return dict(stamps), _lines(code), _lines(prose)

    def _read(self) -> Mapping[int, Group]:
        known = _KNOWN.of(str(self.folder / FILE), self._loaded)
        return known[1] if known[0] == self._head else {}

    def _loaded(self) -> tuple[tuple[int, str], dict[int, Group]]:
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            data = (self.folder / FILE).read_bytes()
            if zlib.crc32(data[_SUM_BYTES:]) == int.from_bytes(data[:_SUM_BYTES]):
                head, groups = marshal.loads(data[_SUM_BYTES:])
                return head, groups
        return (0, ""), {}

    def _now(self) -> int:
        """The time by the file system's clock, which stamps are in; 0 where nothing can be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=disk.FOLDER_MODE)
            self._aside.touch()
            return self._aside.stat().st_mtime_ns
        except OSError:
            return 0

    def _keep(self, groups: Mapping[int, Group], now: int) -> bool:
        """Write it down but for groups with a file so young that it may change without a new stamp."""
        old = {
            number: group
            for number, group in groups.items()
            if all(is_reliable(stamp, now) for stamp in group[0].values())
        }
        data = marshal.dumps((self._head, old))
        sum_ = zlib.crc32(data).to_bytes(_SUM_BYTES)
        try:
            disk.replace_file(self.folder / FILE, sum_ + data, temp_name=self._aside.name, sync=False)
        except OSError:
            return False
        return True

    @property
    def _aside(self) -> Path:
        return self.folder / f"{FILE}.{os.getpid()}.tmp"

    @property
    def _head(self) -> tuple[int, str]:
        return _FORMAT, os.path.realpath(self.root)


_KNOWN: Held[tuple[tuple[int, str], dict[int, Group]]] = Held()


class _State:
    """Which files of each group are no longer as they were; with thousands of files, most of a check."""

    def __init__(self, tree: Tree, groups: Mapping[int, Mapping[str, Stamp]]) -> None:
        self.seen: dict[int, frozenset[str]] = {}
        """The changed files of the groups that were looked at."""
        self._root = tree.root
        self._groups = groups
        self._tracked = {one.path for one in tree.files}
        self._plain = Plain(tree.root)

    def changed(self, number: int) -> frozenset[str]:
        known = self.seen.get(number)
        if known is None:
            known = self.seen[number] = frozenset(self._differing(number))
        return known

    def _differing(self, number: int) -> Iterator[str]:
        root = self._root
        tracked = self._tracked
        is_plain_folder = self._plain.has
        for path, stamp in self._groups[number].items():
            is_there = path in tracked and is_plain_folder(path.rpartition("/")[0])
            if not is_there or stamp_of(f"{root}/{path}") != stamp:
                yield path


def _held(group: Group, wanted: Collection[Sought]) -> set[Sought]:
    """Which words stood in a group's files when they were read."""
    _, code, prose = group
    lines = [(one, b"\n" + one.spelling + b"\n") for one in wanted]
    return {one for one, line in lines if line in code or (one.in_prose and line in prose)}


def _stamped(tree: Tree) -> dict[int, dict[str, Stamp]]:
    """The files of each group with what is on disk now; what is gone or behind a link is left out."""
    groups: dict[int, dict[str, Stamp]] = defaultdict(dict)
    plain = Plain(tree.root)
    for one in tree.files:
        stamp = stamp_of(f"{tree.root}/{one.path}") if plain.has(one.path.rpartition("/")[0]) else None
        if stamp is not None:
            groups[group_of(one.path)][one.path] = stamp
    return groups


def group_of(path: str) -> int:
    """Which group a file belongs to: the same in every process."""
    return zlib.crc32(os.fsencode(path)) % GROUPS


def _lines(words: Collection[bytes]) -> bytes:
    return b"\n".join([b"", *sorted(words), b""])
