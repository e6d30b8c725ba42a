"""Lists the files of a working tree: from git's index without running git, else by a bounded walk (R12).

The index of an untrusted repository is only read for names: no link is followed, no name leads out of the
root, and no setting, hook or program of the repository is used.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from nacre.clock import SYSTEM_CLOCK
from nacre.memory.files.folder import Stamp, is_reliable
from nacre.memory.recall.drift.known_names import GENERATED

MAX_INDEX_BYTES = 64_000_000
"""The index of half a million files; a larger one takes too long to read."""
MAX_LINK_BYTES = 4_096
"""A `.git` file holds one path."""
MAX_WALKED = 20_000
"""Files of a walk without git; a folder with more is no project."""
MAX_DEPTH = 24
MAX_CACHED = 2
"""Cached files: a session works in one tree, rarely in two."""
SKIPPED_FOLDERS = GENERATED | frozenset(
    {"env", "vendor", "bower_components", ".hg", ".svn", ".idea", ".vscode", ".eggs"}
)
"""Folders that a walk skips: generated, or third-party code."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_HEAD = struct.Struct(">4sII")
_ENTRY = struct.Struct(">8xI12xI8xI")
"""Of an entry's fixed part: the second it was changed, its mode, its size."""
_FIXED = 40
"""Bytes before the object's name."""
_FILES = 0o100000
_LINKS = 0o120000
_MODULES = 0o160000
_FOLDERS = 0o040000
_KINDS = 0o170000
_KNOWN_KINDS = frozenset({_FILES, _LINKS, _MODULES, _FOLDERS})
Row: TypeAlias = tuple[bytes, int, int, int]
"""Of an entry: its name, when it was changed, its size, its kind."""
_EXTENDED = 0x4000
_SKIPPED = 0x4000
_EXTENDED_BYTE = _EXTENDED >> 8
_ALIGNED = 8
_ODD = (b"\n\n", b"\n/", *(b + n + a for n in (b"..", b".git") for b in (b"\n", b"/") for a in (b"\n", b"/")))
"""Names that lead out of a tree, or into what git keeps for itself."""
_V3 = 3
_V4 = 4
T = TypeVar("T")


class TreeFile(NamedTuple):
    """One file of the tree; a tuple for speed, as a check makes thousands."""

    path: str
    changed: int
    size: int


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """The files of a working tree."""

    root: str
    """Real and absolute."""
    files: tuple[TreeFile, ...] = ()
    elsewhere: tuple[str, ...] = ()
    """Tracked, but not in the working tree: left out of a sparse checkout, or a submodule's folder."""
    is_whole: bool = True
    """Off when some files cannot be seen, so that a missing word proves nothing."""
    from_index: bool = False
    _listing: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def listing(self) -> str:
        """Every path on a line, for a search over all."""
        if not self._listing:
            names = [one.path for one in self.files]
            self._listing.append("\n".join(["", *names, *self.elsewhere, ""]))
        return self._listing[0]


def read_tree(root: Path, *, is_late: Callable[[], bool]) -> WorkingTree:
    """Return the files below a root; a walk that runs out of time is not whole."""
    real = os.path.realpath(root)
    folder = _git_folder(real)
    tree = _indexed(real, folder) if folder else None
    if tree is not None:
        return tree
    files: list[TreeFile] = []
    for one in walk(real):
        files.append(one)
        if len(files) >= MAX_WALKED or is_late():
            return WorkingTree(real, tuple(files), is_whole=False)
    return WorkingTree(real, tuple(files))


def stamp_of(path: str) -> Stamp | None:
    """Return the stamp of a file; None when it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


class FileCache(Generic[T]):
    """Values read from the last few files, each valid while its file has the same stamp."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, T]] = {}

    def of(self, path: str, read: Callable[[], T]) -> T:
        """Return the cached value, or read it; a file that may change without a new stamp is always read."""
        stamp = stamp_of(path)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        found = read()
        now = int(SYSTEM_CLOCK.now().timestamp() * 1e9)
        if stamp is not None and is_reliable(stamp, now):
            while len(self._known) >= MAX_CACHED:
                self._known.pop(next(iter(self._known)), None)
            self._known[path] = stamp, found
        return found


def read_inside(root: str, path: str, most: int) -> bytes | None:
    """Return the bytes of a regular file; None when it is too large, a link or unreadable."""
    try:
        handle = os.open(f"{root}/{path}", _OPEN)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        data = os.read(handle, most)
        while len(data) < status.st_size:
            more = os.read(handle, most - len(data))
            if not more:
                break
            data += more
    except OSError:
        return None
    finally:
        os.close(handle)
    return data


class RealFolders:
    """Caches which folders of a tree exist and are no links."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, bool] = {"": True}

    def has(self, folder: str) -> bool:
        known = self._known.get(folder)
        if known is None:
            known = self.has(folder.rpartition("/")[0]) and self._is_folder(folder)
            self._known[folder] = known
        return known

    def _is_folder(self, folder: str) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(f"{self._root}/{folder}").st_mode)
        except (OSError, ValueError):
            return False


def parse_index(data: bytes, root: str) -> WorkingTree | None:
    """Parse git's index (versions 2 to 4); None when it is no index or a split one."""
    for name_bytes in (20, 32):
        # The length of object names is in the config, which is not read; only one of them fits.
        tree = _parsed(data, root, name_bytes)
        if tree is not None:
            return tree
    return None


def _parsed(data: bytes, root: str, name_bytes: int) -> WorkingTree | None:
    if len(data) < _HEAD.size + name_bytes:
        return None
    magic, version, count = _HEAD.unpack_from(data)
    if magic != b"DIRC" or version not in {2, _V3, _V4}:
        return None
    try:
        rows, at = _rows(data, count, version=version, name_bytes=name_bytes)
    except (struct.error, ValueError, IndexError):
        return None
    if data[at : at + 4] == b"link":
        return None  # a split index: most of it lies in another file
    return _tree(root, _inside(rows))


def _rows(data: bytes, count: int, *, version: int, name_bytes: int) -> tuple[list[Row], int]:
    """Return the entries and where they end; inlined for speed."""
    rows: list[Row] = []
    at = _HEAD.size
    name = b""
    to_flags = _FIXED + name_bytes
    is_short = version != _V4
    entry = _ENTRY.unpack_from
    find = data.index
    for _ in range(count):
        changed, mode, size = entry(data, at)
        flags_at = at + to_flags
        if is_short and not data[flags_at] & _EXTENDED_BYTE:
            end = find(b"\0", flags_at + 2)
            name = data[flags_at + 2 : end]
            is_skipped = False
            at += ((end - at) // _ALIGNED + 1) * _ALIGNED
        else:
            at, name, is_skipped = _name(data, at, name, version=version, name_bytes=name_bytes)
        if mode & _KINDS not in _KNOWN_KINDS:
            raise ValueError(mode)
        rows.append((name, changed, size, _FOLDERS if is_skipped else mode & _KINDS))
    return rows, at


def _inside(rows: list[Row]) -> list[Row]:
    """Remove names that lead out of the tree; a search over all shows that there are usually none."""
    everything = b"\n".join([b"", *[row[0] for row in rows], b""])
    if everything.count(b"\n") == len(rows) + 1 and not any(odd in everything for odd in _ODD):
        return rows
    return [
        row for row in rows if b"\n" not in row[0] and not any(odd in b"\n" + row[0] + b"\n" for odd in _ODD)
    ]


def _tree(root: str, rows: list[Row]) -> WorkingTree:
    names = os.fsdecode(b"\n".join([row[0] for row in rows])).split("\n") if rows else []
    # A conflict has up to three entries of one name.
    kinds = dict(zip(names, rows, strict=True))
    files = tuple(
        [TreeFile(name, row[1], row[2]) for name, row in kinds.items() if row[3] == _FILES],
    )
    others = [(name.rstrip("/"), row[3]) for name, row in kinds.items() if row[3] in {_MODULES, _FOLDERS}]
    is_whole = all(kind == _MODULES for _, kind in others)
    return WorkingTree(root, files, tuple(name for name, _ in others), is_whole=is_whole, from_index=True)


def _name(data: bytes, at: int, before: bytes, *, version: int, name_bytes: int) -> tuple[int, bytes, bool]:
    """Return where the next entry begins, the name, and whether it is left out of the working tree."""
    begin = at
    at += _FIXED + name_bytes
    flags = data[at] << 8 | data[at + 1]
    at += 2
    is_skipped = False
    if flags & _EXTENDED and version >= _V3:
        is_skipped = bool((data[at] << 8 | data[at + 1]) & _SKIPPED)
        at += 2
    if version == _V4:
        strip, at = _varint(data, at)
        end = data.index(b"\0", at)
        return end + 1, before[: max(0, len(before) - strip)] + data[at:end], is_skipped
    end = data.index(b"\0", at)
    name = data[at:end]
    # Entries are padded with 1 to 8 NULs to a multiple of eight.
    return begin + ((end - begin) // _ALIGNED + 1) * _ALIGNED, name, is_skipped


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _git_folder(root: str) -> str | None:
    """Return the folder of git's index for a working tree."""
    dot_git = f"{root}/.git"
    try:
        is_folder = stat.S_ISDIR(os.lstat(dot_git).st_mode)
    except OSError:
        return None
    if is_folder:
        return dot_git
    link = read_inside(root, ".git", MAX_LINK_BYTES)
    if not link or not link.startswith(b"gitdir:"):
        return None
    return os.path.join(root, os.fsdecode(link.removeprefix(b"gitdir:").strip()))  # noqa: PTH118 (text)


_TREES: FileCache[WorkingTree | None] = FileCache()


def _indexed(root: str, folder: str) -> WorkingTree | None:
    def read() -> WorkingTree | None:
        data = read_inside(folder, "index", MAX_INDEX_BYTES)
        return parse_index(data, root) if data else None

    tree = _TREES.of(f"{folder}/index", read)
    # Two working trees can share one git folder; the root must be the requested one.
    return tree if tree is None or tree.root == root else read()


def walk(root: str, known: Collection[str] = (), folder: str = "", depth: int = 0) -> Iterator[TreeFile]:
    """Yield the files below a folder except the known; links, other repositories and errors are skipped."""
    if folder and os.path.lexists(f"{root}/{folder}/.git"):
        return
    try:
        with os.scandir(f"{root}/{folder}") as listing:
            items = list(listing)
    except OSError:
        return
    for item in items:
        path = f"{folder}/{item.name}" if folder else item.name
        if path in known:
            continue
        try:
            if item.is_dir(follow_symlinks=False):
                if item.name not in SKIPPED_FOLDERS and depth < MAX_DEPTH:
                    yield from walk(root, known, path, depth + 1)
            elif item.is_file(follow_symlinks=False):
                status = item.stat(follow_symlinks=False)
                yield TreeFile(path, int(status.st_mtime), status.st_size)
        except OSError:
            continue
