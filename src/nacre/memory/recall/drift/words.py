"""Which of some words stand in a tree's files: one pass over their bytes, as far as the time goes (R12).

Few words are looked for one by one, which is several times as fast as one pattern for all of them; from many
words on, each file is taken apart once and its names are compared as a set.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import posixpath
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from nacre.memory.files.folder import Stamp, is_reliable
from nacre.memory.recall.drift.known_names import PROSE_ENDINGS
from nacre.memory.recall.drift.tree_files import (
    FileCache,
    RealFolders,
    TreeFile,
    WorkingTree,
    read_inside,
    read_tree,
    stamp_of,
    walk,
)
from nacre.store import disk

MAX_FILE_BYTES = 1_000_000
"""A larger file is data, or made by a program; it is not looked into."""
MANY = 60
"""From so many words on, taking a file apart costs less than looking for each: measured on this code."""
WORTH_BYTES = 8_000_000
"""A smaller tree is read whole in less time than its stamps and a cache would take together."""
_HEAD_BYTES = 8_000
"""Where a NUL shows that a file is no text."""
_NAMES = re.compile(rb"[A-Za-z0-9_]+")
_NAME_OR_FLAG = re.compile(rb"[A-Za-z0-9_-]{2,80}")
_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_FLAG_BYTES = _WORD_BYTES | frozenset(b"-")
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SearchWord:
    """A word to look for, and where it counts."""

    spelling: bytes
    in_prose: bool = True
    """Off for names of code: that a page tells of one does not make it exist."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found, and whether all was looked at."""

    found: frozenset[SearchWord]
    is_whole: bool


class WordLookup(Protocol):
    """What is known of a tree without reading it: a cache, or nothing at all."""

    def answer(
        self, tree: WorkingTree, sought: Collection[SearchWord], *, is_late: Callable[[], bool]
    ) -> tuple[set[SearchWord], Collection[str]]:
        """Words that are there, and files in which no other words of code have to be looked for."""
        ...


def search_words(
    tree: WorkingTree,
    sought: Collection[SearchWord],
    first: Iterable[str] = (),
    *,
    is_late: Callable[[], bool],
    told: OnProgress | None = None,
    known: WordLookup | None = None,
) -> SearchResult:
    """Look for words in the tracked files, those named `first` before all others, then in new files."""
    found, settled = known.answer(tree, sought, is_late=is_late) if known else (set(), ())
    missing = set(sought) - found
    # What a cache cannot know of (a name with a dot in it) is looked for in every file.
    settled = () if any(not is_plain(one) for one in missing) else settled
    if not missing or is_late():
        return SearchResult(frozenset(found), is_whole=not missing)
    total = len(tree.files)
    for done, (path, data) in enumerate(_contents(tree, first, settled), start=1):
        hits = _hits(data, path, missing)
        found |= hits
        missing -= hits
        if told:
            told(min(done, total), total)
        if not missing:
            return SearchResult(frozenset(found), is_whole=True)
        if is_late():
            return SearchResult(frozenset(found), is_whole=False)
    return SearchResult(frozenset(found), is_whole=tree.is_whole)


def _contents(
    tree: WorkingTree, first: Iterable[str], settled: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """The text files of a tree: the named, then the newest and smallest, then what git does not know yet.

    What is not looked into is passed on empty, so that the clock is looked at between any two files.
    """
    plain = RealFolders(tree.root)
    seen = set(settled)
    others = [one for one in tree.files if one.path not in seen] if settled else tree.files
    for path in [*first, *(one.path for one in sorted(others, key=_newest_and_smallest))]:
        if path not in seen:
            seen.add(path)
            yield path, _read(tree.root, path, plain)
    if tree.from_index:
        for one in walk(tree.root, seen):
            yield one.path, _read(tree.root, one.path, plain) if _is_new(one) else b""


def _read(root: str, path: str, plain: RealFolders) -> bytes:
    data = read_inside(root, path, MAX_FILE_BYTES) if plain.has(posixpath.dirname(path)) else None
    return data if data and is_text(data) else b""


def is_text(data: bytes) -> bool:
    """Whether a file is text, as git decides it."""
    return b"\0" not in data[:_HEAD_BYTES]


def is_plain(one: SearchWord) -> bool:
    """Whether a word is a name or a flag that a file can be taken apart into."""
    return _NAME_OR_FLAG.fullmatch(one.spelling) is not None


def _newest_and_smallest(one: TreeFile) -> tuple[int, int]:
    return -one.changed, one.size


def _is_new(one: TreeFile) -> bool:
    """Whether an untracked file may be somebody's work: not hidden, not huge."""
    return one.size <= MAX_FILE_BYTES and not any(part.startswith(".") for part in one.path.split("/"))


def _hits(data: bytes, path: str, missing: set[SearchWord]) -> set[SearchWord]:
    if not data:
        return set()
    is_prose = path.rpartition(".")[2].lower() in PROSE_ENDINGS
    wanted = {one for one in missing if one.in_prose} if is_prose else missing
    if len(wanted) < MANY:
        return {one for one in wanted if has_word(data, one.spelling)}
    names = set(_NAMES.findall(data))
    return {
        one
        for one in wanted
        if (one.spelling in names if _NAMES.fullmatch(one.spelling) else has_word(data, one.spelling))
    }


def has_word(data: bytes, word: bytes) -> bool:
    """Whether a word stands in the bytes by itself, and not only inside another."""
    edges = _FLAG_BYTES if b"-" in word else _WORD_BYTES
    at = data.find(word)
    while at >= 0:
        end = at + len(word)
        if (at == 0 or data[at - 1] not in edges) and (end == len(data) or data[end] not in edges):
            return True
        at = data.find(word, at + 1)
    return False


def spellings(flag: str) -> tuple[bytes, ...]:
    """How files may write a flag: as it is typed, or as the name some libraries make it from."""
    bare = flag.removeprefix("--")
    if bare == flag or "-" not in bare:
        return (flag.encode(),)
    first, *rest = bare.split("-")
    camel = first + "".join(part.capitalize() for part in rest)
    return tuple(one.encode() for one in (flag, bare, bare.replace("-", "_"), camel))


FILE = "words"
GROUPS = 128
"""So that one changed file costs the reading of a hundredth of the tree."""
_FORMAT = 1
_SUM_BYTES = 4
_NAME_BYTES = re.compile(rb"[A-Za-z0-9_]+")
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
        self,
        tree: WorkingTree,
        sought: Collection[SearchWord],
        *,
        is_late: Callable[[], bool] = lambda: False,
    ) -> tuple[set[SearchWord], frozenset[str]]:
        """Which words are there, and which files need not be read for any other plain word."""
        groups = self._read()
        wanted = [one for one in sought if is_plain(one)]
        state = _State(tree, {number: group[0] for number, group in groups.items()})
        named = {number: _group_words(group, wanted) for number, group in groups.items()}
        found: set[SearchWord] = set()
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
            read_tree(self.root, is_late=lambda: True)

    def learn(self, *, is_late: Callable[[], bool] = lambda: False) -> bool:
        """Read what has changed and keep it; false when there was no need, or no way. Slow."""
        tree = read_tree(self.root, is_late=is_late)
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
                words.update(_NAME_BYTES.findall(data))
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


_KNOWN: FileCache[tuple[tuple[int, str], dict[int, Group]]] = FileCache()


class _State:
    """Which files of each group are no longer as they were; with thousands of files, most of a check."""

    def __init__(self, tree: WorkingTree, groups: Mapping[int, Mapping[str, Stamp]]) -> None:
        self.seen: dict[int, frozenset[str]] = {}
        """The changed files of the groups that were looked at."""
        self._root = tree.root
        self._groups = groups
        self._tracked = {one.path for one in tree.files}
        self._plain = RealFolders(tree.root)

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


def _group_words(group: Group, wanted: Collection[SearchWord]) -> set[SearchWord]:
    """Which words stood in a group's files when they were read."""
    _, code, prose = group
    lines = [(one, b"\n" + one.spelling + b"\n") for one in wanted]
    return {one for one, line in lines if line in code or (one.in_prose and line in prose)}


def _stamped(tree: WorkingTree) -> dict[int, dict[str, Stamp]]:
    """The files of each group with what is on disk now; what is gone or behind a link is left out."""
    groups: dict[int, dict[str, Stamp]] = defaultdict(dict)
    plain = RealFolders(tree.root)
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
