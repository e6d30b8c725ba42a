"""The files of a memory directory by name: read, list, put and take, without destroying what others wrote.

A file is replaced by exchanging names, and the old one is checked before it is removed: what another program
wrote at the same moment stays in place. No link is followed on the way to a file (M6).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from nacre.errors import OutsideStore, StoreError, VersionConflict
from nacre.memory.files import containment as contain
from nacre.store import disk
from nacre.store.disk import NameInFolder, is_swapped, take_free
from nacre.store.git_objects import blob_id, is_reserved

MAX_BYTES = 4_194_304
"""A memory is a page of text; a larger file was put there by mistake and is not added to the history."""
SUFFIX = ".md"
TEAM = "team"
"""Team memory is a directory with its own history, although it is inside this one (M18)."""
TEAM_PREFIX = f"{TEAM}/"
"""Name prefix of the team's files among private ones; no private file has it."""
ABSENT = ""
"""The version of a file that does not exist."""
_STRANGE = "?"
"""The version of anything but a memory file: a link, a folder, something far too large."""

Stamp: TypeAlias = tuple[int, int, int, int]
"""When a file was last written and changed, its size, and its inode."""

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folder:
    """The Markdown files below a root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def key(self, file: str) -> str:
        """Return the key of a file, or raise `OutsideStore` if it cannot be a memory file."""
        inner = contain.inside(self.root, file).relative_to(os.path.realpath(self.root)).as_posix()
        if not is_ours(inner):
            raise OutsideStore(f"{file!r} is no memory file; choose a name that ends in {SUFFIX}")
        return disk.check_key(inner)

    def read(self, file: str) -> bytes | None:
        """Return the content; None if there is no such file."""
        try:
            with self.opened(file) as name:
                return _content(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OutsideStore(f"{file!r} is or passes a symlink; remove the link") from error
            raise

    def version(self, file: str) -> str:
        """Return `version_of` its content; empty if there is none."""
        try:
            with self.opened(file) as name:
                return _version(name)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT

    def written(self, file: str) -> int | None:
        """Return the modification time of a file in nanoseconds; None if there is no such file."""
        try:
            with self.opened(file) as name:
                return os.stat(name.name, dir_fd=name.folder, follow_symlinks=False).st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, file: str, temp: Path, *, old: str, new: str) -> None:
        """Rename a finished file to this name if the name still has the old version.

        With an old version the old file has the temporary name afterwards, if the system can exchange names;
        if it cannot, there is a moment in which another program's write is lost.
        """
        with self.opened(file, make=True) as name:
            if old == ABSENT:
                with _conflicts(file):
                    take_free(temp, name)
                return
            # Checked before as well, so that others rarely see the new file in place of theirs.
            if _version(name) != old:
                raise conflict(file)
            with _conflicts(file):
                swapped = is_swapped(temp, name)
            if not swapped:
                os.replace(temp, name.name, dst_dir_fd=name.folder)
            elif version_at(temp) != old:
                _swap_back(temp, name, ours=new)
                raise conflict(file)

    def take(self, file: str, aside: Path, *, old: str) -> None:
        """Move a file out of the folder if it still has the old version."""
        with self.opened(file) as name:
            with _conflicts(file):
                take_free(name, aside)
            if version_at(aside) != old:
                # If they wrote once more meanwhile, that stays.
                with contextlib.suppress(FileExistsError):
                    take_free(aside, name)
                raise conflict(file)

    def put_back(self, file: str, aside: Path, *, ours: str) -> None:
        """Undo a `put` or `take` that kept the old file; what others wrote over the new one stays."""
        with self.opened(file, make=True) as name:
            _swap_back(aside, name, ours=ours)

    def sync(self, files: Iterable[str]) -> None:
        """Make renames survive a power cut: one flush per folder."""
        for parent in sorted({file.rpartition("/")[0] for file in files}):
            with contextlib.suppress(FileNotFoundError):
                disk.sync_folder(self.root / parent)

    def scan(self) -> dict[str, Stamp]:
        """Return every memory file with its stamp."""
        found: dict[str, Stamp] = {}
        with contextlib.suppress(FileNotFoundError):
            _scan(self.root, "", found)
        return found

    @contextmanager
    def opened(self, file: str, *, make: bool = False) -> Iterator[NameInFolder]:
        """Return the name of a file in its folder, opened step by step from the root."""
        *folders, last = file.split("/")
        if make:
            disk.make_folder(self.root)
        descriptor = os.open(self.root, _OPEN_FOLDER & ~os.O_NOFOLLOW)
        try:
            for folder in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(folder, disk.FOLDER_MODE, dir_fd=descriptor)
                below = os.open(folder, _OPEN_FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield NameInFolder(descriptor, last)
        finally:
            os.close(descriptor)


def is_ours(file: str) -> bool:
    """Return whether a path in a memory directory is part of its history."""
    return (
        file.casefold().endswith(SUFFIX)
        and not file.startswith((".", f"{TEAM}/"))
        and "/." not in file
        and not is_reserved(file)
    )


def version_of(data: bytes | None) -> str:
    """Return the version of a content: its id in git."""
    return ABSENT if data is None else blob_id(data)


def version_at(path: Path) -> str:
    """Return the version of a file at any path."""
    return _version(NameInFolder(-1, str(path)))


def conflict(file: str) -> VersionConflict:
    return VersionConflict(f"{file} was changed by someone else meanwhile; read it again and retry")


def _swap_back(aside: Path, name: NameInFolder, *, ours: str) -> None:
    """Exchange back, again if another program wrote between two exchanges: its last write stays."""
    expected = ours
    while True:
        placed = version_at(aside)
        try:
            swapped = is_swapped(aside, name)
        except FileNotFoundError:
            swapped = False
        if not swapped:
            with contextlib.suppress(FileExistsError):
                take_free(aside, name)
            return
        if version_at(aside) == expected:
            return
        expected = placed


@contextmanager
def _conflicts(file: str) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, FileNotFoundError) as error:
        raise conflict(file) from error


def _version(name: NameInFolder) -> str:
    try:
        return version_of(_content(name))
    except FileNotFoundError:
        return ABSENT
    except (OSError, StoreError):
        return _STRANGE


def _content(name: NameInFolder) -> bytes:
    folder = None if name.folder < 0 else name.folder
    descriptor = os.open(name.name, _OPEN_FILE, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise disk.NotRegularError(errno.EINVAL, "not a regular file", name.name)
        if found.st_size > MAX_BYTES:
            raise StoreError(f"{name.name} is larger than a memory may be ({MAX_BYTES} bytes); shorten it")
        data = os.read(descriptor, found.st_size + 1)
        while more := os.read(descriptor, MAX_BYTES):
            data += more
        return data
    finally:
        os.close(descriptor)


def _scan(folder: Path, prefix: str, found: dict[str, Stamp]) -> None:
    """Avoids calls per file: this is the cost of a save with 10,000 files."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name[0] == ".":
                continue
            try:
                if entry.is_file(follow_symlinks=False):
                    if name[-3:].casefold() == SUFFIX:
                        at = entry.stat(follow_symlinks=False)
                        found[prefix + name] = (at.st_mtime_ns, at.st_ctime_ns, at.st_size, at.st_ino)
                elif entry.is_dir(follow_symlinks=False) and (prefix or name != TEAM):
                    _scan(folder / name, f"{prefix}{name}/", found)
            except FileNotFoundError:  # gone while we looked
                continue


FINE_TICK_NS = 100_000_000
COARSE_TICK_NS = 2_000_000_000
"""Two writes within one tick of the file system's clock can leave the same stamp, so a stamp that young is
not trusted. Ticks are a few milliseconds, or two seconds where times are whole seconds."""
_SECOND_NS = 1_000_000_000


def is_reliable(stamp: Stamp, now: int) -> bool:
    """Return whether a stamp identifies one content: a very young one may have two."""
    written, changed, *_ = stamp
    tick = FINE_TICK_NS if written % _SECOND_NS else COARSE_TICK_NS
    return max(written, changed) < now - tick


def file_system_time(cache: Path) -> int:
    """Return the file system's current time, the clock of the stamps."""
    clock = cache / "lock"
    os.utime(clock)
    return clock.stat().st_mtime_ns
