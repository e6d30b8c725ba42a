"""Everything a home holds beside the memory itself, rid of what it quotes of one (M14b).

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
from nacre.memory.purge.quotations import LineCleaner
from nacre.memory.purge.traces import Traces
from nacre.store import derived, disk, lease
from nacre.store.derived import DerivedCache
from nacre.store.lines import whole_lines

LOG = ".jsonl"
CHECKPOINTS = "checkpoints"
TYPED_BEFORE = "chat_history"
"""The lines a person typed into the chat, for the arrow keys."""
SIDECAR = "boundaries.json"
"""Says where a log's compactions stand; worked out anew when it is not there."""
KEPT_BY_CACHE = frozenset({"lock", "journal", "identity.json", "sync.lock", "team.json"})
"""All else in a memory's cache is worked out anew from the memory (M15, M18)."""
KEPT_FOLDERS = frozenset({"live", "aside", "remote.git", "usage"})
"""Who is at work, what a change under way has put aside, the copy of a team's remote, and how often memories
were of use, without their words or names."""
NOT_LOOKED_AT = frozenset({"locks", "history"})
"""Empty files, and histories, which are packed: those are looked through object by object."""
MAX_WHOLE = 67_108_864
"""A file that is no log is read as one text; a larger one than this is looked through line by line."""

TYPED = "you typed these words yourself; edit it by hand, or use --own-words with the purge"
FOREIGN = "another program wrote this log; edit it by hand, or use --foreign with the purge"
ELSEWHERE = "nacre did not write this file; edit or remove it by hand"
OWN_FILE = "kept for going back: a copy of a file of yours that says the same"
UNREACHED = "it stands where no text should be; edit it by hand"

Progress = Callable[[int, int], None]
"""Told how many of how many bytes are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedPlace:
    """A place that quotes the memory, or did."""

    path: Path
    line: int = 0
    """Counted from one; none where a file is meant as a whole."""
    session: str = ""
    why: str = ""
    """Why it stays; nothing where it is to be erased."""
    is_busy: bool = False
    """The session is open in another process, which is why it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOptions:
    """How far a purge may go."""

    own_words: bool = False
    """Also erase what the person typed."""
    foreign: bool = False
    """Also change the logs that another program wrote into its own home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePurge:
    """One memory's traces, to be looked for in one home."""

    home: Path
    traces: Traces
    copies: frozenset[str] = frozenset()
    """SHA-256 of everything its file ever held: copies of it go by that name."""
    is_shared: bool = False
    """The home is another program's as well."""
    wishes: PurgeOptions = field(default_factory=PurgeOptions)

    def look(self, progress: Progress | None = None) -> list[QuotedPlace]:
        """Every place that quotes it, each with the reason why it stays, if it does; changes nothing."""
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
        """Erase these places; returns those where it failed, each with the reason."""
        # Titles of sessions are words of their logs.
        DerivedCache(self.home / "cache" / "sessions").clear()
        failed: list[QuotedPlace] = []
        sessions: dict[Path | None, list[QuotedPlace]] = {}
        for spot in spots:
            folder = _folder_of(spot.path) if spot.session else None
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
        """Everything looked through once more, byte by byte as well: what is there in spite of all."""
        left = {(spot.path, spot.line): spot for spot in self.look()}
        for folder, paths in _by_session(self.home, dict(_files(self.home))).items():
            for path in paths:
                for spot in self._probed(path, folder):
                    if not {(path, spot.line), (path, 0)} & left.keys():
                        left[path, spot.line] = spot
        return [replace(spot, why=spot.why or UNREACHED) for spot in left.values()]

    def _unless_busy(self, folder: Path, spots: list[QuotedPlace]) -> list[QuotedPlace]:
        try:
            with self._held(folder):
                return spots
        except NacreError as error:
            is_busy = isinstance(error, SessionBusy)
            return [spot if spot.why else replace(spot, why=str(error), is_busy=is_busy) for spot in spots]

    def _spots(self, path: Path, folder: Path | None) -> Iterator[QuotedPlace]:
        """Where a file quotes it; with a reason where it is not ours to change."""
        spot = QuotedPlace(path=path, session=folder.name if folder else "")
        try:
            if path.suffix == LOG:
                yield from self._in_log(spot, is_session=folder is not None)
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
        """Whether what was kept for going back is this memory's file, an index with its line, or its path."""
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return path.name in self.copies or self.traces.names(text)

    def _is_foreign(self, spot: QuotedPlace) -> bool:
        log = spot.path if spot.path.parent.parent.name == "projects" else _log_of(_folder_of(spot.path))
        return self.is_shared and not lease.was_taken(self.home, log)

    @contextlib.contextmanager
    def _held(self, folder: Path | None) -> Iterator[None]:
        log = _log_of(folder) if folder else None
        if log is None or self._is_foreign(QuotedPlace(path=log)):
            yield  # nobody of ours can be at work there
            return
        held = lease.take(self.home, log)
        try:
            yield
        finally:
            held.release()

    def _clean(self, path: Path, folder: Path | None) -> None:
        is_derived = folder is None and path != self.home / TYPED_BEFORE
        if is_derived and path.name in KEPT_BY_CACHE:
            return  # erasing the memory itself empties it
        if path.name == derived.FILE and not self._is_in_text(path):
            return  # only scopes that are cleared by now quoted it
        if is_derived or path.parent.name == CHECKPOINTS:
            # What is worked out anew, and copies that go by the digest of what they hold.
            path.unlink(missing_ok=True)
            disk.sync_folder(path.parent)
            return
        cleaner = LineCleaner(self.traces, own_words=self.wishes.own_words)

        def lines(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
            yield from ((line, cleaner.clean(line).line) for line in source)

        def whole(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
            data = source.read()
            text = data.decode("utf-8", "surrogateescape")
            yield data, self.traces.without(text).encode("utf-8", "surrogateescape")

        is_log = path.suffix == LOG or path.stat().st_size > MAX_WHOLE
        rewrite(path, lines if is_log else whole)

    def _probed(self, path: Path, folder: Path | None) -> Iterator[QuotedPlace]:
        """The memory's longest lines, looked for byte by byte."""
        before = 0
        with contextlib.suppress(OSError, NacreError):
            for _, block in whole_lines(path):
                if self.traces.may_be_in(block):
                    for number, line in enumerate(block.splitlines(), before + 1):
                        if any(probe in line for probe in self.traces.probes):
                            session = folder.name if folder else ""
                            yield QuotedPlace(
                                path=path, line=number, session=session, why=self._told(path, folder)
                            )
                before += block.count(b"\n")

    def _told(self, path: Path, folder: Path | None) -> str:
        return UNREACHED if folder is not None and path.suffix == LOG else ELSEWHERE


@dataclass(frozen=True, slots=True)
class HomePurges:
    """One memory's traces, looked for in several homes: sessions need not lie where memory does."""

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
        """How many files are searched."""
        return len({path for one in self.each for path, _ in _files(one.home)})


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
    """Every regular file of a home with its size, sorted, except memories and what cannot be read plainly."""
    for base, folders, names in os.walk(home):
        at = Path(base)
        if at == home:
            folders[:] = [name for name in folders if name not in NOT_LOOKED_AT]
        if at == home or at.parent == home / "projects":
            folders[:] = [name for name in folders if name != "memory"]
        folders.sort()
        for name in sorted(names):
            path = at / name
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink():
                    yield path, path.stat().st_size


def _by_session(home: Path, paths: Mapping[Path, int]) -> dict[Path | None, list[Path]]:
    """The files of each session, by its folder; none for what belongs to no session."""
    projects = home / "projects"
    grouped: dict[Path | None, list[Path]] = {}
    for path in paths:
        inner = path.relative_to(projects).parts if path.is_relative_to(projects) else ()
        is_session = len(inner) > 2 or (len(inner) == 2 and path.suffix == LOG)
        grouped.setdefault(_folder_of(path) if is_session else None, []).append(path)
    return grouped


def _folder_of(path: Path) -> Path:
    """The folder of the session that a file belongs to, which may not be there."""
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
"""Where the copy is made; begins with a dot and ends in no known way, so that no listing shows it."""


class ChangedMeanwhileError(StoreError):
    """Somebody wrote to the file while it was being copied; it is as they left it."""


def rewrite(path: Path, change: Callable[[BinaryIO], Iterable[tuple[bytes, bytes]]]) -> bool:
    """Put a file in place whose pieces are changed: `change` yields each piece as it was and as it shall be.

    Says whether anything differed; if not, the file stays the one it was. Its mode and the time it was last
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
