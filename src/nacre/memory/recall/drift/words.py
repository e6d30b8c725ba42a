"""Which of some words stand in a tree's files: one pass over their bytes, as far as the time goes (R12).

Few words are looked for one by one, which is several times as fast as one pattern for all of them; from many
words on, each file is taken apart once and its names are compared as a set.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from nacre.memory.recall.drift.foreign import PROSE_ENDINGS
from nacre.memory.recall.drift.tree_files import File, Plain, Tree, read_inside, walk

MAX_FILE_BYTES = 1_000_000
"""A larger file is data, or made by a program; it is not looked into."""
MANY = 60
"""From so many words on, taking a file apart costs less than looking for each: measured on this code."""
WORTH_BYTES = 8_000_000
"""A smaller tree is read whole in less time than its stamps and a cache would take together."""
_HEAD_BYTES = 8_000
"""Where a NUL shows that a file is no text."""
_NAMES = re.compile(rb"[A-Za-z0-9_]+")
_PLAIN = re.compile(rb"[A-Za-z0-9_-]{2,80}")
_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_FLAG_BYTES = _WORD_BYTES | frozenset(b"-")
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Sought:
    """A word to look for, and where it counts."""

    spelling: bytes
    in_prose: bool = True
    """Off for names of code: that a page tells of one does not make it exist."""


@dataclass(frozen=True, slots=True)
class Search:
    """What was found, and whether all was looked at."""

    found: frozenset[Sought]
    is_whole: bool


class Known(Protocol):
    """What is known of a tree without reading it: a cache, or nothing at all."""

    def answer(
        self, tree: Tree, sought: Collection[Sought], *, is_late: Callable[[], bool]
    ) -> tuple[set[Sought], Collection[str]]:
        """Words that are there, and files in which no other words of code have to be looked for."""
        ...


def search(
    tree: Tree,
    sought: Collection[Sought],
    first: Iterable[str] = (),
    *,
    is_late: Callable[[], bool],
    told: Told | None = None,
    known: Known | None = None,
) -> Search:
    """Look for words in the tracked files, those named `first` before all others, then in new files."""
    found, settled = known.answer(tree, sought, is_late=is_late) if known else (set(), ())
    missing = set(sought) - found
    # What a cache cannot know of (a name with a dot in it) is looked for in every file.
    settled = () if any(not is_plain(one) for one in missing) else settled
    if not missing or is_late():
        return Search(frozenset(found), is_whole=not missing)
    total = len(tree.files)
    for done, (path, data) in enumerate(_contents(tree, first, settled), start=1):
        hits = _hits(data, path, missing)
        found |= hits
        missing -= hits
        if told:
            told(min(done, total), total)
        if not missing:
            return Search(frozenset(found), is_whole=True)
        if is_late():
            return Search(frozenset(found), is_whole=False)
    return Search(frozenset(found), is_whole=tree.is_whole)


def _contents(tree: Tree, first: Iterable[str], settled: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The text files of a tree: the named, then the newest and smallest, then what git does not know yet.

    What is not looked into is passed on empty, so that the clock is looked at between any two files.
    """
    plain = Plain(tree.root)
    seen = set(settled)
    others = [one for one in tree.files if one.path not in seen] if settled else tree.files
    for path in [*first, *(one.path for one in sorted(others, key=_newest_and_smallest))]:
        if path not in seen:
            seen.add(path)
            yield path, _read(tree.root, path, plain)
    if tree.from_index:
        for one in walk(tree.root, seen):
            yield one.path, _read(tree.root, one.path, plain) if _is_new(one) else b""


def _read(root: str, path: str, plain: Plain) -> bytes:
    data = read_inside(root, path, MAX_FILE_BYTES) if plain.has(posixpath.dirname(path)) else None
    return data if data and is_text(data) else b""


def is_text(data: bytes) -> bool:
    """Whether a file is text, as git decides it."""
    return b"\0" not in data[:_HEAD_BYTES]


def is_plain(one: Sought) -> bool:
    """Whether a word is a name or a flag that a file can be taken apart into."""
    return _PLAIN.fullmatch(one.spelling) is not None


def _newest_and_smallest(one: File) -> tuple[int, int]:
    return -one.changed, one.size


def _is_new(one: File) -> bool:
    """Whether an untracked file may be somebody's work: not hidden, not huge."""
    return one.size <= MAX_FILE_BYTES and not any(part.startswith(".") for part in one.path.split("/"))


def _hits(data: bytes, path: str, missing: set[Sought]) -> set[Sought]:
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
