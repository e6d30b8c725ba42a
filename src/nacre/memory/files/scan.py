"""Scan a memory directory by the first lines of each file: never fatal, never blocked (R3, R4).

Results are cached until the file changes, by its stamp. A stamp is trusted only if it was old already when
the file was read: two writes within one tick of the file system's clock can leave the same stamp.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from nacre.memory.files.folder import TEAM, Stamp, file_system_time, is_reliable
from nacre.memory.format.entry import Entry, Kind, Origin, clipped, entry_of
from nacre.memory.format.fields import FieldValue
from nacre.memory.format.frontmatter import HEADER_LINES, NESTED_UNDER, MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.messages.wire import timestamp
from nacre.store.derived import DerivedCache
from nacre.store.locks import FOREIGN_SECONDS, FileLock, Timeout
from nacre.version import VERSION

NAME = "scanned"
WORTH_KEEPING = 500
"""So many files are read in some milliseconds; rewriting the cache costs about as much, so it waits for more
than that."""
_FORMAT = 1

Rest: TypeAlias = tuple[Origin, bool, bool, str | None, tuple[str, ...], bool]
Row: TypeAlias = tuple[int, int, int, int, str, str, Kind | None, str | None, str | None, Rest | None]
"""A file's stamp and its frontmatter fields; rare fields are in a part of their own."""


@dataclass(frozen=True, slots=True)
class ScanCache:
    """Where one directory's rows are stored, and whether a scan may write them."""

    folder: Path
    """The location's `cache`, never the memory directory."""
    directory: Path
    writes: bool = False
    worth: int = WORTH_KEEPING
    """With more new files than this, the rows are rewritten."""

    def read(self) -> Mapping[str, Row]:
        """Return the stored rows by file; empty if this version of nacre has stored none."""
        rows: Mapping[str, Row] = DerivedCache(self.folder).get(NAME, self._fingerprint) or {}
        return rows

    def keep(self, rows: Mapping[str, Row], folders: Mapping[str, int]) -> None:
        """Store the rows unless memory is being changed; a failure is ignored.

        A folder that changed since it was listed may have lost a file to a purge, whose name must not return
        (M14b): then nothing is stored.
        """
        lock = FileLock(self.folder / "lock", foreign_seconds=FOREIGN_SECONDS)
        with contextlib.suppress(Timeout, OSError), lock.acquire(timeout=0):
            if all(Path(path).stat().st_mtime_ns == at for path, at in folders.items()):
                DerivedCache(self.folder).put(NAME, dict(rows), self._fingerprint)

    def now(self) -> int | None:
        """Return the time by the file system's clock, as in stamps; None if nothing is to be written."""
        if not self.writes:
            return None
        try:
            return file_system_time(self.folder)
        except OSError:
            return None

    @property
    def _fingerprint(self) -> str:
        return f"{VERSION} {_FORMAT} {os.fspath(self.directory)}"


def row_of(stamp: Stamp, entry: Entry) -> Row:
    """Return the stored form of an entry."""
    times = (entry.created, entry.modified, entry.verified)
    created, modified, verified = (at.isoformat() if at else None for at in times)
    rest = (entry.origin, entry.pinned, entry.local_only, verified, entry.sources, entry.is_unlisted)
    said = entry.name, entry.description, entry.kind, created, modified
    return *stamp, *said, None if rest == _USUAL else rest


def entry_from(row: Row, file: str, written: datetime, indexed: bool) -> Entry:
    """Return the entry of a row. A frozen class sets fields slowly, so a mutable one of the same slots is
    filled."""
    made: Any = _MutableEntry()
    _, _, made.bytes, _, made.name, made.description, made.kind, created, modified, rest = row
    made.file = file
    made.body = ""
    made.written = written
    made.indexed = indexed
    made.created = datetime.fromisoformat(created) if created else None
    made.modified = datetime.fromisoformat(modified) if modified else None
    made.origin, made.pinned, made.local_only, verified, made.sources, made.is_unlisted = rest or _USUAL
    made.verified = datetime.fromisoformat(verified) if verified else None
    made.__class__ = Entry  # which Python allows where the slots are the same
    entry: Entry = made
    return entry


class _MutableEntry:
    """An entry while its fields are set."""

    __slots__ = tuple(field.name for field in fields(Entry))


_USUAL: Rest = ("user", False, False, None, (), False)


MAX_TOPIC_BYTES = 1_000_000
"""A larger file is no memory: it would fill a model's window by itself."""
MAX_DEPTH = 8
"""Deeper folders are not scanned."""
MAX_MANIFEST_CHARS = 500
"""Maximum characters of one description in a manifest that 200 files share."""
LOGS = "logs"
"""Daily logs (M17) are no memories."""
_APART = (LOGS, TEAM)
"""Top-level folders that are not part of this directory: the team's memory is separate (M18)."""
_CHUNK = 4_096
"""Bytes read first: nearly every frontmatter ends in them."""
_MAX_HEAD_BYTES = 65_536
"""Limit for 30 very long lines."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is left out, and why."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class Scan:
    """Entries without their bodies, newest first."""

    entries: tuple[Entry, ...]
    skipped: tuple[SkippedFile, ...]


@dataclass(frozen=True, slots=True)
class FileHead:
    """The first bytes of a file and its stamp, from one open handle."""

    data: bytes
    stamp: Stamp

    @property
    def size(self) -> int:
        return self.stamp[2]

    @property
    def mtime_ns(self) -> int:
        return self.stamp[0]


def is_topic(file: str) -> bool:
    """Return whether a path in a memory directory is neither an index nor in the daily logs."""
    return file.rpartition("/")[2] != INDEX_FILE and not file.startswith(f"{LOGS}/")


class NotAMemory(Exception):  # noqa: N818 (it says what the file is; it never reaches a user)
    """Raised when a file is left out of scans, with the reason."""


def scan(directory: Path, cache: ScanCache | None = None) -> Scan:
    """Scan the first 30 lines of every topic file below the directory; with a cache, only of new ones."""
    walk = _ScanWalk(os.fspath(directory), cache)
    walk.visit("", 0)
    walk.keep()
    walk.found.sort()
    return Scan(
        tuple(entry for _, _, entry in walk.found), tuple(sorted(walk.skipped, key=lambda one: one.file))
    )


def manifest_line(entry: Entry) -> str:
    """Return `- [type] relative/name.md (ISO time): description`; absent parts are left out (R4)."""
    kind = f"[{entry.kind}] " if entry.kind else ""
    when = f" ({timestamp(entry.written)})" if entry.written else ""
    said = f": {clipped(entry.description, MAX_MANIFEST_CHARS)}" if entry.description else ""
    return f"- {kind}{entry.file}{when}{said}"


def read_head(path: str, *, whole: bool = False) -> FileHead:
    """Return the first 30 lines of a regular file, or all of it; one open, one fstat, no block on a pipe."""
    handle = os.open(path, _FLAGS)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise NotAMemory(f"is {_what(status.st_mode)}, not a file")
        if status.st_size > MAX_TOPIC_BYTES:
            raise NotAMemory(f"is {status.st_size:,} bytes; a memory has at most {MAX_TOPIC_BYTES:,}")
        data = os.read(handle, _CHUNK)
        limit = MAX_TOPIC_BYTES if whole else _MAX_HEAD_BYTES
        while len(data) < min(status.st_size, limit) and (whole or data.count(b"\n") < HEADER_LINES):
            more = os.read(handle, limit - len(data))
            if not more:
                break
            data += more
    finally:
        os.close(handle)
    return FileHead(data, (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))


class _ScanWalk:
    """One pass over the tree."""

    def __init__(self, root: str, cache: ScanCache | None) -> None:
        self.root = root
        self.real_root = os.path.realpath(root)
        self.cache = cache
        self.known = cache.read() if cache else {}
        self.now = cache.now() if cache else None
        self.new: dict[str, Row] = {}
        self.folders: dict[str, int] = {}
        """Modification time of each folder when it was listed."""
        self.found: list[tuple[int, str, Entry]] = []
        self.skipped: list[SkippedFile] = []

    def visit(self, folder: str, depth: int) -> None:
        path = f"{self.root}/{folder}" if folder else self.root
        try:
            if self.now is not None:
                self.folders[path] = Path(path).stat().st_mtime_ns
            with os.scandir(path) as listing:
                items = list(listing)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._skip(folder or ".", f"cannot be listed: {error.strerror}")
            return
        indexed = self._indexed(folder)
        for item in self._unknown(folder, items, indexed) if self.known else items:
            name = item.name
            if name.endswith(".md"):
                if name != INDEX_FILE and not name.startswith("."):
                    self._read(folder + name, item, name in indexed)
            elif not name.startswith(".") and (folder or name not in _APART):
                self._descend(folder + name, item, depth)

    def keep(self) -> None:
        """Store what was read in the cache, if it was much and cannot have changed unseen."""
        if self.cache is None or self.now is None or len(self.new) <= self.cache.worth:
            return
        if all(is_reliable((at, at, 0, 0), self.now) for at in self.folders.values()):
            found = {file for _, file, _ in self.found}
            rows = {file: row for file, row in self.known.items() if file in found}
            self.cache.keep(rows | self.new, self.folders)

    def _unknown(
        self, folder: str, items: list[os.DirEntry[str]], indexed: frozenset[str]
    ) -> list[os.DirEntry[str]]:
        """Take unchanged files from the cache; return the others, which must be read.

        Avoids calls per file: this is the cost of listing 10,000.
        """
        known = self.known
        moment = datetime.fromtimestamp
        rest = []
        for item in items:
            file = folder + item.name
            row = known.get(file)
            if row is not None:
                try:
                    at = item.stat(follow_symlinks=False)
                except OSError:  # deleted meanwhile: reading it reports that
                    rest.append(item)
                    continue
                mtime = at.st_mtime_ns
                if (
                    mtime == row[0]
                    and at.st_ctime_ns == row[1]
                    and at.st_size == row[2]
                    and at.st_ino == row[3]
                ):
                    entry = entry_from(row, file, moment(mtime / 1e9, UTC), item.name in indexed)
                    self.found.append((-mtime, file, entry))
                    continue
            rest.append(item)
        return rest

    def _descend(self, file: str, item: os.DirEntry[str], depth: int) -> None:
        if item.is_symlink():
            if item.is_dir():
                self._skip(file, "is a symlink to a folder; only real folders are looked into")
        elif item.is_dir(follow_symlinks=False):
            if depth >= MAX_DEPTH:
                self._skip(file, f"lies more than {MAX_DEPTH} folders deep")
            else:
                self.visit(file + "/", depth + 1)

    def _read(self, file: str, item: os.DirEntry[str], is_indexed: bool) -> None:
        try:
            self._check(file, item)
            head = read_head(item.path)
            # Without a last character that was cut in two.
            text = codecs.utf_8_decode(head.data, "strict", len(head.data) >= head.size)[0]
            fields = head_fields(text)
        except NotAMemory as reason:
            self._skip(file, str(reason))
        except UnicodeDecodeError:
            self._skip(file, "is not UTF-8")
        except OSError as error:
            self._skip(file, f"cannot be read: {error.strerror}")
        else:
            at = moment_of(head.mtime_ns)
            entry = entry_of(fields, file=file, written=at, size=head.size, indexed=is_indexed)
            self.found.append((-head.mtime_ns, file, entry))
            # A link's own stamp says nothing about its target.
            if self.now is not None and is_reliable(head.stamp, self.now) and not item.is_symlink():
                self.new[file] = row_of(head.stamp, entry)

    def _check(self, file: str, item: os.DirEntry[str]) -> None:
        """Refuse by name and kind, before anything is opened."""
        if not file.isprintable():
            raise NotAMemory("has a name with characters that cannot be shown")
        if item.is_symlink():
            target = os.path.realpath(item.path)
            if not target.startswith(self.real_root + os.sep):
                raise NotAMemory("is a symlink that leaves the memory directory")
            if not item.is_file():
                raise NotAMemory("is a symlink to no file")
        elif not item.is_file(follow_symlinks=False):
            raise NotAMemory(f"is {_what(item.stat(follow_symlinks=False).st_mode)}, not a file")

    def _indexed(self, folder: str) -> frozenset[str]:
        try:
            return MemoryIndex.parse(read_head(f"{self.root}/{folder}{INDEX_FILE}", whole=True).data).mentions
        except (OSError, NotAMemory):
            return frozenset()

    def _skip(self, file: str, why: str) -> None:
        shown = "".join(char if char.isprintable() else "?" for char in file.rstrip("/"))
        self.skipped.append(SkippedFile(shown, why))


def moment_of(mtime_ns: int) -> datetime:
    """Return a file's time; the epoch if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _what(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
    return next((words for test, words in kinds if test(mode)), "a device")


_SIMPLE_LINE = re.compile(
    r"""^(  )?([A-Za-z_][\w-]*):(?:[ \t]+([^\s"'\[\]{}|>#][^\n\r#]*+|"[^"\\\n]*"))?[ \t]*$""", re.MULTILINE
)


def head_fields(text: str) -> Mapping[str, FieldValue]:
    """Return the frontmatter fields in the first 30 lines; for scans, as a whole document costs too much."""
    simple = _simple_fields(text)
    if simple is not None:
        return simple
    lines = text.split("\n", HEADER_LINES)
    head = text if len(lines) <= HEADER_LINES else text[: len(text) - len(lines[-1])]
    return MarkdownFile.parse(head.encode(errors="surrogateescape")).fields


def _simple_fields(text: str) -> dict[str, FieldValue] | None:
    """Return the fields of a frontmatter of the plainest form, as nearly all have; None for others."""
    end = text.find("\n---\n", 3)
    if end < 0 or not text.startswith("---\n") or text.count("\n", 0, end) > HEADER_LINES - 2:
        return None
    found = _SIMPLE_LINE.findall(text, 4, end)
    if len(found) != text.count("\n", 4, end) + 1:
        return None
    named: dict[str, FieldValue] = {}
    nested: dict[str, FieldValue] = {}
    is_below = False
    for indent, key, value in found:
        fields = nested if indent else named
        if (indent and not is_below) or key in fields:
            return None
        if not indent:
            is_below = key == NESTED_UNDER
            if is_below:
                if value:
                    return None
                continue
        fields[key] = value[1:-1] if value[:1] == '"' else value.rstrip(" \t")
    return None if is_below and not nested else {**nested, **named}
