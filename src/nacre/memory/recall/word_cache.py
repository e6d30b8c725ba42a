"""Which words a large tree's files hold, kept until they change: reading them all takes over 50 ms (R12).

Files are put into groups by their path; a group is believed only while every one of its files has the stamp
it was read with, and is read anew otherwise. Only derived: lost or damaged, it costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nacre.memory.edits import is_old
from nacre.memory.folder import Stamp
from nacre.memory.recall.foreign import PROSE_ENDINGS
from nacre.memory.recall.tracked import Plain, Tree, read_inside, tree_of
from nacre.memory.recall.words import MAX_FILE_BYTES, WORTH_BYTES, Sought, is_plain, is_text
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
        if not groups:
            return set(), frozenset()
        found: set[Sought] = set()
        settled: set[str] = set()
        wanted = [one for one in sought if is_plain(one)]
        tracked, plain = {one.path for one in tree.files}, Plain(tree.root)
        for files, code, prose in groups.values():
            if is_late():
                break
            if not (files.keys() <= tracked and _is_unchanged(tree.root, files, plain)):
                continue
            settled.update(files)
            for one in wanted:
                line = b"\n" + one.spelling + b"\n"
                if line in code or (one.in_prose and line in prose):
                    found.add(one)
        return found, frozenset(settled)

    def learn(self, *, is_late: Callable[[], bool] = lambda: False) -> bool:
        """Read what has changed and keep it; false when there was no need, or no way. Slow."""
        tree = tree_of(self.root, is_late=is_late)
        if sum(one.size for one in tree.files) < WORTH_BYTES:
            return False
        groups, changed, now = self._read(), False, self._now()
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

    def _read(self) -> dict[int, Group]:
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            data = (self.folder / FILE).read_bytes()
            if zlib.crc32(data[_SUM_BYTES:]) == int.from_bytes(data[:_SUM_BYTES]):
                head, groups = marshal.loads(data[_SUM_BYTES:])
                if head == self._head:
                    found: dict[int, Group] = groups
                    return found
        return {}

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
            if all(is_old(stamp, now) for stamp in group[0].values())
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


def _is_unchanged(root: str, files: Mapping[str, Stamp], plain: Plain) -> bool:
    """Whether each file is as it was. On thousands of files, this is most of a check."""
    return all(
        plain.has(path.rpartition("/")[0]) and _stamp(f"{root}/{path}") == stamp
        for path, stamp in files.items()
    )


def _stamped(tree: Tree) -> dict[int, dict[str, Stamp]]:
    """The files of each group with what is on disk now; what is gone or behind a link is left out."""
    groups: dict[int, dict[str, Stamp]] = defaultdict(dict)
    plain = Plain(tree.root)
    for one in tree.files:
        stamp = _stamp(f"{tree.root}/{one.path}") if plain.has(one.path.rpartition("/")[0]) else None
        if stamp is not None:
            groups[group_of(one.path)][one.path] = stamp
    return groups


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def group_of(path: str) -> int:
    """Which group a file belongs to: the same in every process."""
    return zlib.crc32(os.fsencode(path)) % GROUPS


def _lines(words: Collection[bytes]) -> bytes:
    return b"\n".join([b"", *sorted(words), b""])
