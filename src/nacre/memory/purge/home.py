"""Find and erase what the sessions and caches of a home quote of a memory (M14b).

Sessions are changed one by one, each under its lease; one that is open elsewhere is named and left alone.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from nacre.errors import NacreError, SessionBusy, StoreError
from nacre.memory.purge.final_scan import FinalScan
from nacre.memory.purge.quotations import LineCleaner, clean_json
from nacre.memory.purge.traces import Traces
from nacre.store import disk, lease
from nacre.store.derived import DerivedCache
from nacre.store.lines import whole_lines

LOG = ".jsonl"
PURGING = "purging"
"""The folder in a memory's cache with the journal of a purge that is under way."""
CHECKPOINTS = "checkpoints"
TYPED_BEFORE = "chat_history"
"""The lines the user typed into the chat, for the arrow keys."""
SIDECAR = "boundaries.json"
"""The positions of a log's compactions; computed again when it is missing."""
KEPT_BY_CACHE = frozenset({"lock", "journal", "identity.json", "sync.lock", "team.json"})
"""Everything else in a memory's cache is computed from the memory (M15, M18)."""
KEPT_FOLDERS = frozenset({"live", "aside", "remote.git", "usage", "review", "dream", PURGING})
"""Marks of live agents, contents of a change under way, the copy of a team's remote, and recall counts, which
contain no words and no names; proposals and the state of dreams, which go only where they quote the memory;
and the journal of a purge."""
NOT_LOOKED_AT = frozenset({"locks", "history"})
"""Empty files, and histories, which are searched object by object."""
MAX_WHOLE = 67_108_864
"""Bytes. A file that is no log is read as one text; a larger one is searched line by line."""

TYPED = "you typed these words yourself; edit it by hand, or use --own-words with the purge"
FOREIGN = "another program wrote this log; edit it by hand, or use --foreign with the purge"
ELSEWHERE = "nacre did not write this file; edit or remove it by hand"
OWN_FILE = "kept for going back: a copy of a file of yours that says the same"
UNREACHED = "it stands where no text should be; edit it by hand"
OTHER_MEMORY = "also in another memory; not removed there: forget that one, too, if it shall go"
OTHER_HISTORY = "also in the history of another memory; not removed: forget --purge that memory, too"

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedPlace:
    """A file or line that quotes the memory, or did."""

    path: Path
    line: int = 0
    """Counted from one; zero for a whole file."""
    session: str = ""
    why: str = ""
    """Why it stays; empty if it is to be erased."""
    is_busy: bool = False
    """The session is open in another process, which is why it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOptions:
    """What a purge may change."""

    own_words: bool = False
    """Also erase what the user typed."""
    foreign: bool = False
    """Also change the logs that another program wrote into its own home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePurge:
    """Searches one home for the traces of a memory, and erases them."""

    home: Path
    traces: Traces
    copies: frozenset[str] = frozenset()
    """SHA-256 of every content its file had, which is how copies of it are named."""
    is_shared: bool = False
    """Another program uses the home, too."""
    wishes: PurgeOptions = field(default_factory=PurgeOptions)

    def look(self, progress: Progress | None = None) -> list[QuotedPlace]:
        """Return every place that quotes the memory, with the reason if it stays; changes nothing."""
        files = list(_files(self.home))
        total = sum(size for _, size in files)
        done = 0
        sizes = dict(files)
        found: list[QuotedPlace] = []
        for folder, paths in _by_session(self.home, sizes).items():
            spots = [spot for path in paths for spot in self._spots(path, folder)]
            if folder is not None and any(not spot.why for spot in spots):
                spots = self._unless_busy(folder, spots)
            found += spots
            done += sum(sizes[path] for path in paths)
            if progress:
                progress(done, total)
        return found

    def clean(self, spots: Iterable[QuotedPlace]) -> list[QuotedPlace]:
        """Erase these places; return those where that failed, each with the reason."""
        # Titles of sessions are words of their logs, and a cleared row may be in a free page of the file.
        DerivedCache(self.home / "cache" / "sessions").delete()
        failed: list[QuotedPlace] = []
        sessions: dict[Path | None, list[QuotedPlace]] = {}
        for spot in spots:
            folder = _session_of(self.home, spot.path) if spot.session else None
            sessions.setdefault(folder, []).append(spot)
        for folder, its in sessions.items():
            try:
                with self._held(folder):
                    for path in dict.fromkeys(spot.path for spot in its):
                        self._clean(path, folder)
                    if folder is not None:
                        (folder / SIDECAR).unlink(missing_ok=True)
            except (NacreError, OSError) as error:
                failed += [replace(spot, why=str(error)) for spot in its]
        return failed

    def remaining(self) -> list[QuotedPlace]:
        """Search everything again, every byte decoded as well, and return what is left."""
        left = {(spot.path, spot.line): spot for spot in self.look()}
        scan = FinalScan(self.traces.rare_words, self.traces.probes)
        journals = frozenset(self.home.glob(f"cache/*/{PURGING}/*"))
        for path, why in scan.find(self.home, skip=journals):
            for spot in self._scanned(path, why, scan):
                if not {(path, spot.line), (path, 0)} & left.keys():
                    left[path, spot.line] = spot
        return [replace(spot, why=spot.why or UNREACHED) for spot in left.values()]

    def _scanned(self, path: Path, why: str, scan: FinalScan) -> Iterator[QuotedPlace]:
        """Return where the final scan found something in a file: the lines of a log, or the file."""
        inner = path.relative_to(self.home).parts
        folder = None if inner[2:3] == ("memory",) else _session_of(self.home, path)
        spot = QuotedPlace(path=path, session=folder.name if folder else "")
        if why:
            yield replace(spot, why=why)
            return
        numbers = []
        if folder and path.suffix == LOG:
            with path.open("rb") as log:
                numbers = [number for number, line in enumerate(log, 1) if scan.is_in(line)]
        for number in numbers or [0]:
            yield replace(spot, line=number, why=self._why_left(inner, is_session=folder is not None))

    def _why_left(self, inner: tuple[str, ...], *, is_session: bool) -> str:
        if inner[0] in {"memory", "agent-memory"} or inner[2:3] == ("memory",):
            return OTHER_MEMORY
        if inner[0] == "history":
            return OTHER_HISTORY
        return UNREACHED if is_session or inner[0] in {"cache", "locks"} else ELSEWHERE

    def _unless_busy(self, folder: Path, spots: list[QuotedPlace]) -> list[QuotedPlace]:
        try:
            with self._held(folder):
                return spots
        except NacreError as error:
            is_busy = isinstance(error, SessionBusy)
            return [spot if spot.why else replace(spot, why=str(error), is_busy=is_busy) for spot in spots]

    def _spots(self, path: Path, folder: Path | None) -> Iterator[QuotedPlace]:
        """Return where a file quotes the memory, with the reason if it stays."""
        spot = QuotedPlace(path=path, session=folder.name if folder else "")
        try:
            if path.suffix == LOG and not _is_leftover(path):
                yield from self._in_log(spot, is_session=folder is not None)
            elif _is_leftover(path):
                yield spot
            elif self._is_in_text(path):
                yield replace(spot, why=self._why_not(path, folder))
        except (OSError, NacreError) as error:
            yield replace(spot, why=f"it cannot be read: {error}")

    def _in_log(self, spot: QuotedPlace, *, is_session: bool) -> Iterator[QuotedPlace]:
        cleaner = LineCleaner(self.traces, own_words=self.wishes.own_words)
        why = "" if is_session else ELSEWHERE
        if is_session and self._is_foreign(spot) and not self.wishes.foreign:
            why = FOREIGN
        before = 0
        for _, block in whole_lines(spot.path):
            if self.traces.may_be_in(block):
                for number, line in enumerate(block.splitlines(keepends=True), before + 1):
                    cleaned = cleaner.clean(line)
                    if cleaned.erased:
                        yield replace(spot, line=number, why=why)
                    if cleaned.typed:
                        yield replace(spot, line=number, why=TYPED)
            before += block.count(b"\n")

    def _is_in_text(self, path: Path) -> bool:
        if path.parent.name == CHECKPOINTS and path.name in self.copies:
            return True
        for data in _pieces(path):
            if self.traces.may_be_in(data) and self.traces.are_in(data.decode("utf-8", "surrogateescape")):
                return True
        return False

    def _why_not(self, path: Path, folder: Path | None) -> str:
        if path == self.home / TYPED_BEFORE:
            return "" if self.wishes.own_words else TYPED
        if folder is None:
            return "" if path.is_relative_to(self.home / "cache") else ELSEWHERE
        if path.parent.name == CHECKPOINTS and not self._is_copy(path):
            return OWN_FILE
        return (
            FOREIGN if self._is_foreign(QuotedPlace(path=_log_of(folder))) and not self.wishes.foreign else ""
        )

    def _is_copy(self, path: Path) -> bool:
        """Whether a checkpoint is a copy of the memory's file, or of an index with its line."""
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return path.name in self.copies or self.traces.names(text)

    def _is_foreign(self, spot: QuotedPlace) -> bool:
        log = spot.path if spot.path.parent.parent.name == "projects" else _log_of(_folder_of(spot.path))
        return self.is_shared and not lease.was_taken(self.home, log)

    @contextlib.contextmanager
    def _held(self, folder: Path | None) -> Iterator[None]:
        log = _log_of(folder) if folder else None
        if log is None or self._is_foreign(QuotedPlace(path=log)):
            yield  # no process of nacre works there
            return
        held = lease.take(self.home, log)
        try:
            yield
        finally:
            held.release()

    def _clean(self, path: Path, folder: Path | None) -> None:
        is_derived = folder is None and path != self.home / TYPED_BEFORE
        cleaner = LineCleaner(self.traces, own_words=self.wishes.own_words)

        def lines(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
            yield from ((line, cleaner.clean(line).line) for line in source)

        def whole(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
            data = source.read()
            # The record of a team still names the file, and erasing the memory itself removes its lines.
            clean = self.traces.without_rare_words_beside_name if is_derived else self.traces.without
            text = data.decode("utf-8", "surrogateescape")
            is_json = path.suffix == ".json"
            yield data, clean_json(data, clean) if is_json else clean(text).encode("utf-8", "surrogateescape")

        if is_derived and path.name in KEPT_BY_CACHE:
            rewrite(path, whole)
            return
        if is_derived or path.parent.name == CHECKPOINTS or _is_leftover(path):
            # Derived data, and copies that are named by the digest of their content.
            path.unlink(missing_ok=True)
            disk.sync_folder(path.parent)
            return
        is_log = path.suffix == LOG or path.stat().st_size > MAX_WHOLE
        rewrite(path, lines if is_log else whole)


@dataclass(frozen=True, slots=True)
class HomePurges:
    """Searches several homes for the traces of one memory: sessions and memory can be in different ones."""

    each: tuple[HomePurge, ...]

    def look(self, progress: Progress | None = None) -> list[QuotedPlace]:
        return [spot for one in self.each for spot in one.look(progress)]

    def clean(self, spots: Iterable[QuotedPlace]) -> list[QuotedPlace]:
        found = list(spots)
        return [
            spot
            for one in self.each
            for spot in one.clean(spot for spot in found if spot.path.is_relative_to(one.home))
        ]

    def remaining(self) -> list[QuotedPlace]:
        return [spot for one in self.each for spot in one.remaining()]

    def count_files(self) -> int:
        """Return how many files are searched: all but the journal of the purge itself."""
        return sum(
            len(names)
            for one in self.each
            for base, _, names in os.walk(one.home)
            if Path(base).name != PURGING
        )


def forget_derived(cache: Path) -> None:
    """Delete what was computed from a memory: it may hold its words in any form, and is computed again."""
    DerivedCache(cache).clear()
    for base, folders, names in os.walk(cache):
        folders[:] = [name for name in folders if name not in KEPT_FOLDERS]
        for name in names:
            path = Path(base) / name
            if name not in KEPT_BY_CACHE and not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.unlink()


def _files(home: Path) -> Iterator[tuple[Path, int]]:
    """Return every regular file of a home with its size, sorted, except memories and histories."""
    for base, folders, names in os.walk(home):
        at = Path(base)
        if at == home:
            folders[:] = [name for name in folders if name not in NOT_LOOKED_AT]
        if at == home or at.parent == home / "projects":
            folders[:] = [name for name in folders if name != "memory"]
        if at.parent == home / "cache":
            folders[:] = [name for name in folders if name != PURGING]
        folders.sort()
        for name in sorted(names):
            path = at / name
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink():
                    yield path, path.stat().st_size


def _by_session(home: Path, paths: Mapping[Path, int]) -> dict[Path | None, list[Path]]:
    """Group files by the folder of their session; None for those of no session."""
    grouped: dict[Path | None, list[Path]] = {}
    for path in paths:
        grouped.setdefault(_session_of(home, path), []).append(path)
    return grouped


def _session_of(home: Path, path: Path) -> Path | None:
    """Return the folder of the session that a file belongs to; None if it belongs to none."""
    projects = home / "projects"
    inner = path.relative_to(projects).parts if path.is_relative_to(projects) else ()
    is_leftover = path.name.startswith(".") and path.name.endswith(f"{LOG}.rewriting")
    if is_leftover and len(inner) == 2:
        path = path.with_name(path.name.removeprefix(".").removesuffix(".rewriting"))
    return _folder_of(path) if len(inner) > 2 or (len(inner) == 2 and path.suffix == LOG) else None


def _folder_of(path: Path) -> Path:
    """Return the folder of a file's session, which may not exist."""
    while path.parent.parent.name != "projects":
        path = path.parent
    return path.with_suffix("") if path.suffix == LOG else path


def _log_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{LOG}")


def _pieces(path: Path) -> Iterator[bytes]:
    if path.stat().st_size <= MAX_WHOLE:
        yield path.read_bytes()
    else:
        yield from (block for _, block in whole_lines(path))


ASIDE = ".{name}.rewriting"
"""The name of the copy; with a leading dot and an unknown ending, so that no listing shows it."""


def _is_leftover(path: Path) -> bool:
    """Whether this is the copy that an interrupted purge left."""
    return path.name.startswith(".") and path.suffix == ".rewriting"


class ChangedMeanwhileError(StoreError):
    """Raised when a file was written to while it was being copied; it stays as it is."""


def rewrite(path: Path, change: Callable[[BinaryIO], Iterable[tuple[bytes, bytes]]]) -> bool:
    """Replace a file piece by piece: `change` yields each piece before and after.

    Return whether anything differs; if not, the file is not touched. Its mode and the time it was last
    written stay, so that listings keep their order.
    """
    aside = path.with_name(ASIDE.format(name=path.name))
    with os.fdopen(disk.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source:
        found = os.fstat(source.fileno())
        try:
            differs = False
            with os.fdopen(_opened(aside, stat.S_IMODE(found.st_mode)), "wb") as target:
                for old, new in change(source):
                    differs |= new != old
                    target.write(new)
                target.flush()
                if differs:
                    os.fsync(target.fileno())
            if not differs:
                return False
            os.utime(aside, ns=(found.st_atime_ns, found.st_mtime_ns))
            if _mark(path.lstat()) != _mark(found):
                raise ChangedMeanwhileError(
                    f"{path} was written to meanwhile; close what uses it, then retry"
                )
            aside.replace(path)
            disk.sync_folder(path.parent)
        finally:
            aside.unlink(missing_ok=True)
    return True


def _opened(aside: Path, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(aside, flags, disk.FILE_MODE)
    os.fchmod(descriptor, mode)
    return descriptor


def _mark(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
