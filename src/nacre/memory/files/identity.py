"""The file that names the owner of a memory folder and its format (M2, M27)."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject
from nacre.store import disk

FORMAT = 1
"""The format this nacre writes; a higher number is a newer nacre's, with rules this one might break."""
FILE = "identity.json"
MAX_BYTES = 1_048_576
"""An identity is a few paths; a larger file is something else."""
MAX_DIRECTORIES = 200
"""Maximum number of working directories stored, the latest; worktrees come and go."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems without hard links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The owner of a memory."""

    format: int
    root: str
    """The canonical root of the project, or the memory directory itself if it belongs to none."""
    directories: tuple[str, ...] = ()
    """Working directories at the time of writes: the root, folders below it, worktrees."""

    def belongs_to(self, root: Path) -> bool:
        """Return whether this is the same root, by name or, if case is ignored, by identity."""
        if self.root == str(root):
            return True
        try:
            return self.root.casefold() == str(root).casefold() and root.samefile(self.root)
        except (OSError, ValueError):
            return False


def read_identity(file: Path) -> Identity | None:
    """Read the file; None if there is none, `StoreError` if it is invalid."""
    found = _read(file)
    return None if found is None else _parsed(found, file)


def objection(file: Path, root: Path) -> str | None:
    """Return why the folder of this identity must not be written, in one line, or nothing."""
    try:
        found = read_identity(file)
    except StoreError as error:
        return str(error)
    return None if found is None else _dispute(found, file, root)


def claim(file: Path, *, root: Path, cwd: Path, clock: Clock = SYSTEM_CLOCK) -> Identity:
    """Record the owner of this memory before anything else is written; `StoreError` if it is another's.

    The first of two projects that share a folder's name gets it: the file is created whole, and only if there
    is none.
    """
    here = os.path.realpath(cwd)
    written = _read(file)
    try:
        if written is not None:
            return _with_directory(file, written, root=root, here=here, clock=clock)
        disk.make_folder(file.parent)
        new = Identity(format=FORMAT, root=str(root), directories=(here,))
        if _is_placed(file, _encoded({}, new), clock):
            return new
    except OSError as error:
        raise StoreError(disk.explain(error, file)) from error
    return claim(
        file, root=root, cwd=cwd, clock=clock
    )  # another process was first, perhaps with the same claim


def _dispute(found: Identity, file: Path, root: Path) -> str | None:
    if found.format > FORMAT:
        return (
            f"{file} has format {found.format} and this nacre writes format {FORMAT}; "
            "memory is read-only until you update nacre"
        )
    if not found.belongs_to(root):
        return f"{file} says that this memory is of {found.root}, not of {root}; start again to find its own"
    return None


def _with_directory(file: Path, written: JsonObject, *, root: Path, here: str, clock: Clock) -> Identity:
    known = _parsed(written, file)
    if reason := _dispute(known, file, root):
        raise StoreError(reason)
    if here in known.directories:
        return known
    latest = (*known.directories, here)[-MAX_DIRECTORIES:]
    grown = Identity(format=known.format, root=known.root, directories=latest)
    disk.replace_file(file, _encoded(written, grown), temp_name=f"{disk.TEMP_PREFIX}{clock.new_id()}")
    return grown


def _is_placed(file: Path, data: bytes, clock: Clock) -> bool:
    """Return whether this process created the file; False if another was first."""
    aside = file.with_name(f"{disk.TEMP_PREFIX}{clock.new_id()}")
    try:
        disk.replace_file(aside, data, temp_name=f"{aside.name}-new")
        try:
            file.hardlink_to(aside)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _write_new(file, data)
    except FileExistsError:
        return False
    finally:
        aside.unlink(missing_ok=True)
    disk.sync_folder(file.parent)
    return True


def _write_new(file: Path, data: bytes) -> None:
    """Without hard links, a crash at this moment leaves a file that must be removed by hand."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, disk.FILE_MODE)
    with os.fdopen(descriptor, "wb") as target:
        target.write(data)
        target.flush()
        os.fsync(descriptor)


def _encoded(before: JsonObject, identity: Identity) -> bytes:
    """Unknown fields of the file are kept."""
    known = {"format": identity.format, "root": identity.root, "directories": list(identity.directories)}
    # By the file system's encoding, so that a path that is not valid text is restored exactly.
    return os.fsencode(json.dumps({**before, **known}, indent=2, ensure_ascii=False) + "\n")


def _read(file: Path) -> JsonObject | None:
    try:
        descriptor = disk.open_regular(file, os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(disk.explain(error, file)) from error
    with os.fdopen(descriptor, "rb") as source:
        data = source.read(MAX_BYTES + 1)
    try:
        value = json.loads(os.fsdecode(data)) if len(data) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _unreadable(file)
    return value


def _parsed(value: JsonObject, file: Path) -> Identity:
    format_ = value.get("format")
    root = value.get("root")
    directories = value.get("directories", [])
    if type(format_) is not int or format_ < 1 or not isinstance(root, str):
        raise _unreadable(file)
    listed = directories if isinstance(directories, list) else []
    return Identity(
        format=format_, root=root, directories=tuple(each for each in listed if isinstance(each, str))
    )


def _unreadable(file: Path) -> StoreError:
    return StoreError(
        f"{file} cannot be understood, so nothing is written beside it; correct it or move it away"
    )
