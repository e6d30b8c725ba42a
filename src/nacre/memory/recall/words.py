"""Which of some words stand in a tree's files: one pass over their bytes, as far as the time goes (R12).

Few words are looked for one by one, which is several times as fast as one pattern for all of them; from many
words on, each file is taken apart once and its names are compared as a set.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from nacre.memory.recall.foreign import PROSE_ENDINGS
from nacre.memory.recall.tracked import File, Plain, Tree, read_inside, walk

MAX_FILE_BYTES = 1_000_000
"""A larger file is data, or made by a program; it is not looked into."""
MANY = 60
"""From so many words on, taking a file apart costs less than looking for each: measured on this code."""
_HEAD_BYTES = 8_000
"""Where a NUL shows that a file is no text, as git decides it."""
_NAMES = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_FLAG_BYTES = _WORD_BYTES | frozenset(b"-")
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Sought:
    """A word to look for, and where it counts."""

    spelling: bytes
    in_prose: bool = True
    """Off for names of code: that a page tells of one does not make it exist."""

    @property
    def is_flag(self) -> bool:
        return b"-" in self.spelling


@dataclass(frozen=True, slots=True)
class Search:
    """What was found, and whether all was looked at."""

    found: frozenset[Sought]
    is_whole: bool


def search(
    tree: Tree,
    sought: Collection[Sought],
    first: Iterable[str] = (),
    *,
    is_late: Callable[[], bool],
    told: Told | None = None,
) -> Search:
    """Look for words in the tracked files, those named `first` before all others, then in new files."""
    missing = set(sought)
    found: set[Sought] = set()
    total = len(tree.files)
    for done, (path, data) in enumerate(_contents(tree, first), start=1):
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


def _contents(tree: Tree, first: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The text files of a tree: the named, then the newest and smallest, then what git does not know yet."""
    plain = Plain(tree.root)
    seen = set()
    for path in [*first, *(one.path for one in sorted(tree.files, key=_newest_and_smallest))]:
        if path not in seen:
            seen.add(path)
            yield from _read(tree.root, path, plain)
    if tree.from_index:
        for one in walk(tree.root, seen):
            if _is_new(one):
                yield from _read(tree.root, one.path, plain)


def _read(root: str, path: str, plain: Plain) -> Iterator[tuple[str, bytes]]:
    # What is not looked into is passed on empty, so that the clock is looked at between any two files.
    data = read_inside(root, path, MAX_FILE_BYTES) if plain.has(posixpath.dirname(path)) else None
    yield path, b"" if data is None or b"\0" in data[:_HEAD_BYTES] else data


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


def by_word(words: Iterable[str], *, in_prose: bool) -> Mapping[str, Sought]:
    return {word: Sought(word.encode(), in_prose=in_prose) for word in words}
