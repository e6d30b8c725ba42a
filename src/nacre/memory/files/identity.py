"""The file that names the owner of a memory folder and its format (M2, M27)."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
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
        is_alike = self.root.casefold() == str(root).casefold()
        return self.root == str(root) or (is_alike and disk.is_same_file(root, Path(self.root)))


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
            known = _parsed(written, file)
            if reason := _dispute(known, file, root):
                raise StoreError(reason)
            if here in known.directories:
                if file.stat().st_nlink > 1:  # a killed process left its temporary name for the file
                    _remove_temporary(file.parent)
                return known
            known = replace(known, directories=(*known.directories, here)[-MAX_DIRECTORIES:])
            with _temporary(file.parent, _encoded(written, known), clock) as temp:
                temp.replace(file)
                disk.sync_folder(file.parent)
            return known
        disk.make_folder(file.parent)
        new = Identity(format=FORMAT, root=str(root), directories=(here,))
        if _is_placed(file, _encoded({}, new), clock):
            return new
    except OSError as error:
        raise StoreError(disk.explain(error, file)) from error
    # Another process was first, perhaps with the same claim.
    return claim(file, root=root, cwd=cwd, clock=clock)


def _dispute(found: Identity, file: Path, root: Path) -> str | None:
    if found.format > FORMAT:
        return (
            f"{file} has format {found.format} and this nacre writes format {FORMAT}; "
            "memory is read-only until you update nacre"
        )
    if not found.belongs_to(root):
        return f"{file} says that this memory is of {found.root}, not of {root}; start again to find its own"
    return None


def _is_placed(file: Path, data: bytes, clock: Clock) -> bool:
    """Return whether this process created the file; False if another was first."""
    with _temporary(file.parent, data, clock) as aside:
        try:
            try:
                file.hardlink_to(aside)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                # Without hard links, a crash at this moment leaves a file that must be removed by hand.
                descriptor = os.open(
                    file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, disk.FILE_MODE
                )
                with os.fdopen(descriptor, "wb") as target:
                    target.write(data)
                    target.flush()
                    os.fsync(descriptor)
        except FileExistsError:
            return False
    disk.sync_folder(file.parent)
    return True


@contextmanager
def _temporary(folder: Path, data: bytes, clock: Clock) -> Iterator[Path]:
    """Write a flushed temporary file and remove it afterwards, with those that killed processes left."""
    _remove_temporary(folder)
    path = folder / f"{disk.TEMP_PREFIX}{clock.new_id()}"
    descriptor = disk.open_temporary(path)
    try:
        disk.write_all(descriptor, data)
        os.fsync(descriptor)
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _remove_temporary(folder: Path) -> None:
    disk.remove_abandoned(folder.glob(f"{disk.TEMP_PREFIX}*"))


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
