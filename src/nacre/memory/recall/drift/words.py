"""Searches words in the files of a working tree, in limited time, with a cache for large trees (R12).

Few words are searched one by one, which is several times as fast as one pattern for all; for many, the names
of each file are collected and compared as a set.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import posixpath
import re
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

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
"""A larger file is data or generated; it is not searched."""
MANY = 60
"""From this many words on a set of names is faster than a search for each: measured on this code."""
CACHE_FROM_BYTES = 8_000_000
"""A smaller tree is read faster than its stamps and a cache."""
_HEAD_BYTES = 8_000
"""Bytes in which a NUL shows that a file is binary."""
_NAMES = re.compile(rb"[A-Za-z0-9_]+")
_NAME_OR_FLAG = re.compile(rb"[A-Za-z0-9_-]{2,80}")
_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_FLAG_BYTES = _WORD_BYTES | frozenset(b"-")
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SearchWord:
    """A word to search."""

    spelling: bytes
    in_prose: bool = True
    """Off for names of code: that a page mentions one does not make it exist."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The words that were found, and whether all files were searched."""

    found: frozenset[SearchWord]
    is_whole: bool


def search_words(
    tree: WorkingTree,
    words: Collection[SearchWord],
    first: Iterable[str] = (),
    *,
    is_late: Callable[[], bool],
    on_progress: OnProgress | None = None,
    cache: WordCache | None = None,
) -> SearchResult:
    """Search words in the tracked files, beginning with those named `first`, then in new files."""
    found, settled = cache.find(tree, words, is_late=is_late) if cache else (set(), ())
    missing = set(words) - found
    # A word that the cache cannot hold (a name with a dot) is searched in every file.
    settled = () if any(not is_plain(one) for one in missing) else settled
    if not missing or is_late():
        return SearchResult(frozenset(found), is_whole=not missing)
    total = len(tree.files)
    for done, (path, data) in enumerate(_contents(tree, first, settled), start=1):
        hits = _hits(data, path, missing)
        found |= hits
        missing -= hits
        if on_progress:
            on_progress(min(done, total), total)
        if not missing:
            return SearchResult(frozenset(found), is_whole=True)
        if is_late():
            return SearchResult(frozenset(found), is_whole=False)
    return SearchResult(frozenset(found), is_whole=tree.is_whole)


def _contents(
    tree: WorkingTree, first: Iterable[str], settled: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the text files of a tree: the named, then the newest and smallest, then untracked ones.

    A file that is not searched is yielded empty, so that the caller checks the time between any two files.
    """
    plain = RealFolders(tree.root)
    seen = set(settled)
    others = [one for one in tree.files if one.path not in seen] if settled else tree.files
    for path in [*first, *(one.path for one in sorted(others, key=lambda one: (-one.changed, one.size)))]:
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
    """Whether a file is text, by the rule of git."""
    return b"\0" not in data[:_HEAD_BYTES]


def is_plain(one: SearchWord) -> bool:
    """Whether a word is a name or a flag, which the cache can hold."""
    return _NAME_OR_FLAG.fullmatch(one.spelling) is not None


def _is_new(one: TreeFile) -> bool:
    """Whether an untracked file may be a source file: neither hidden nor large."""
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
    """Whether the bytes contain a whole word."""
    edges = _FLAG_BYTES if b"-" in word else _WORD_BYTES
    at = data.find(word)
    while at >= 0:
        end = at + len(word)
        if (at == 0 or data[at - 1] not in edges) and (end == len(data) or data[end] not in edges):
            return True
        at = data.find(word, at + 1)
    return False


def spellings(flag: str) -> tuple[bytes, ...]:
    """Return the spellings of a flag in files: as typed, or as the name that libraries derive it from."""
    bare = flag.removeprefix("--")
    if bare == flag or "-" not in bare:
        return (flag.encode(),)
    first, *rest = bare.split("-")
    camel = first + "".join(part.capitalize() for part in rest)
    return tuple(one.encode() for one in (flag, bare, bare.replace("-", "_"), camel))


FILE = "words"
GROUPS = 128
"""One changed file makes a hundredth of the tree be read again."""
_FORMAT = 1
_SUM_BYTES = 4
_HYPHENED = re.compile(rb"[A-Za-z0-9_-]*-[A-Za-z0-9_-]*")
Group: TypeAlias = tuple[dict[str, Stamp], bytes, bytes]
"""The stamps of its files; the words of code and data, and those of pages, one per line."""


@dataclass(frozen=True, slots=True)
class WordCache:
    """The words of one large working tree, cached until its files change: reading all takes over 50 ms.

    Files are grouped by a hash of their path. That a group has a word is believed only while all its files
    have their recorded stamps; that it lacks one, for each file that has. A lost cache costs only time.
    """

    folder: Path
    """A location's `cache`."""
    root: Path

    def find(
        self,
        tree: WorkingTree,
        words: Collection[SearchWord],
        *,
        is_late: Callable[[], bool] = lambda: False,
    ) -> tuple[set[SearchWord], frozenset[str]]:
        """Return the words that exist, and the files that need not be searched for any other plain word."""
        groups = self._read()
        wanted = [one for one in words if is_plain(one)]
        state = _GroupChanges(tree, {number: group[0] for number, group in groups.items()})
        lines = [(one, b"\n" + one.spelling + b"\n") for one in wanted]
        # The words that the files of each group had when they were read.
        named = {
            number: {one for one, line in lines if line in code or (one.in_prose and line in prose)}
            for number, (_, code, prose) in groups.items()
        }
        found: set[SearchWord] = set()
        # Groups with a word come first: most of what memories name still exists.
        for number in sorted(named, key=lambda number: not named[number]):
            if is_late() or found.issuperset(words):
                break
            if not state.changed(number):
                found |= named[number]
        settled: set[str] = set()
        for number in state.seen:
            changed = state.changed(number)
            # The unchanged files of a changed group still lack the words that the group lacked.
            if not changed or named[number] <= found:
                settled.update(groups[number][0].keys() - changed)
        return found, frozenset(settled)

    def preload(self) -> None:
        """Load the cache and the tree into memory before the first check."""
        if self._read():
            read_tree(self.root, is_late=lambda: True)

    def update(self, *, is_late: Callable[[], bool] = lambda: False) -> bool:
        """Read changed files and save the cache; False when nothing changed or it cannot be saved. Slow."""
        tree = read_tree(self.root, is_late=is_late)
        if sum(one.size for one in tree.files) < CACHE_FROM_BYTES:
            return False
        groups = dict(self._read())
        changed = False
        now = self._now()
        stamped: dict[int, dict[str, Stamp]] = defaultdict(dict)
        plain = RealFolders(tree.root)
        for one in tree.files:
            # A file behind a link does not count.
            stamp = stamp_of(f"{tree.root}/{one.path}") if plain.has(one.path.rpartition("/")[0]) else None
            if stamp is not None:
                stamped[group_of(one.path)][one.path] = stamp
        for number, stamps in stamped.items():
            if is_late():
                break
            if groups.get(number, ({},))[0] != stamps:
                groups[number] = self._group(tree.root, stamps)
                changed = True
        return changed and self._save(groups, now)

    def _group(self, root: str, stamps: Mapping[str, Stamp]) -> Group:
        code: set[bytes] = set()
        prose: set[bytes] = set()
        for path in stamps:
            data = read_inside(root, path, MAX_FILE_BYTES)
            if data and is_text(data):
                words = prose if path.rpartition(".")[2].lower() in PROSE_ENDINGS else code
                words.update(_NAMES.findall(data))
                words.update(_HYPHENED.findall(data))
        return dict(stamps), _lines(code), _lines(prose)

    def _read(self) -> Mapping[int, Group]:
        known = _LOADED.of(str(self.folder / FILE), self._loaded)
        return known[1] if known[0] == self._head else {}

    def _loaded(self) -> tuple[tuple[int, str], dict[int, Group]]:
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            data = (self.folder / FILE).read_bytes()
            if zlib.crc32(data[_SUM_BYTES:]) == int.from_bytes(data[:_SUM_BYTES]):
                head, groups = marshal.loads(data[_SUM_BYTES:])
                return head, groups
        return (0, ""), {}

    def _now(self) -> int:
        """Return the time of the file system's clock, which stamps use; 0 where nothing can be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=disk.FOLDER_MODE)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=f".{FILE}.", suffix=".tmp") as probe:
                return os.fstat(probe.fileno()).st_mtime_ns
        except OSError:
            return 0

    def _save(self, groups: Mapping[int, Group], now: int) -> bool:
        """Save all groups except those with a file that may change without a new stamp."""
        old = {
            number: group
            for number, group in groups.items()
            if all(is_reliable(stamp, now) for stamp in group[0].values())
        }
        data = marshal.dumps((self._head, old))
        sum_ = zlib.crc32(data).to_bytes(_SUM_BYTES)
        try:
            disk.replace_file(self.folder / FILE, sum_ + data, sync=False)
        except OSError:
            return False
        return True

    @property
    def _head(self) -> tuple[int, str]:
        return _FORMAT, os.path.realpath(self.root)


_LOADED: FileCache[tuple[tuple[int, str], dict[int, Group]]] = FileCache()


class _GroupChanges:
    """Finds the changed files of each group, which is most of a check with thousands of files."""

    def __init__(self, tree: WorkingTree, groups: Mapping[int, Mapping[str, Stamp]]) -> None:
        self.seen: dict[int, frozenset[str]] = {}
        """The changed files of the groups that were checked."""
        self._root = tree.root
        self._groups = groups
        self._tracked = {one.path for one in tree.files}
        self._plain = RealFolders(tree.root)

    def changed(self, number: int) -> frozenset[str]:
        if number not in self.seen:
            root = self._root
            tracked = self._tracked
            is_plain_folder = self._plain.has
            self.seen[number] = frozenset(
                path
                for path, stamp in self._groups[number].items()
                if path not in tracked
                or not is_plain_folder(path.rpartition("/")[0])
                or stamp_of(f"{root}/{path}") != stamp
            )
        return self.seen[number]


def group_of(path: str) -> int:
    """Return the group of a file, the same in every process."""
    return zlib.crc32(os.fsencode(path)) % GROUPS


def _lines(words: Collection[bytes]) -> bytes:
    return b"\n".join([b"", *sorted(words), b""])
