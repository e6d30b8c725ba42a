"""Export a memory directory byte for byte, as a folder or an archive."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import StoreError
from nacre.memory.files.folder import Folder
from nacre.memory.files.location import Location
from nacre.memory.secrets import find_secrets, redact
from nacre.store import disk

PACKED = (".tar.gz", ".tgz")
TOP = "memory"
"""The folder in an archive."""
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The result of an export."""

    path: Path
    files: tuple[str, ...]
    redacted: tuple[str, ...] = ()
    """Files in which a secret was redacted."""
    secrets: tuple[str, ...] = ()
    """Files with a possible credential that was not redacted."""


def export(
    location: Location, target: Path, *, redacts: bool = False, replaces: bool = False
) -> ExportResult:
    """Write every memory file and the index; existing files are overwritten only with `replaces`."""
    folder = Folder(location.directory)
    files = {file: folder.read(file) for file in sorted(folder.scan())}
    whole = {file: data for file, data in files.items() if data is not None}
    if not whole:
        raise StoreError(f"there is nothing to export: {location.directory} holds no memories")
    suspect = tuple(file for file, data in whole.items() if find_secrets(data.decode(errors="replace")))
    if redacts:
        whole |= {file: redact(whole[file].decode(errors="replace")).encode() for file in suspect}
    try:
        if target.name.endswith(PACKED):
            _pack(whole, target, location.directory, replaces=replaces)
        else:
            _copy(whole, target, location.directory, replaces=replaces)
    except OSError as error:
        raise StoreError(disk.explain(error, target)) from error
    done, left = (suspect, ()) if redacts else ((), suspect)
    return ExportResult(path=target, files=tuple(whole), redacted=done, secrets=left)


def _pack(files: Mapping[str, bytes], target: Path, directory: Path, *, replaces: bool) -> None:
    if target.is_dir() or (os.path.lexists(target) and not replaces):
        raise StoreError(f"{target} exists; name another file, or replace it with --force")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for file, data in files.items():
            member = tarfile.TarInfo(f"{TOP}/{file}")
            member.size = len(data)
            member.mode = disk.FILE_MODE
            member.mtime = _written(directory / file) // _SECOND_NS
            packed.addfile(member, io.BytesIO(data))
    disk.make_folder(target.absolute().parent)
    disk.replace_file(target, buffer.getvalue())


def _copy(files: Mapping[str, bytes], target: Path, directory: Path, *, replaces: bool) -> None:
    if os.path.lexists(target) and not target.is_dir():
        raise StoreError(f"{target} is a file; name a folder, or a file that ends in {PACKED[0]}")
    if target.is_dir() and not replaces and any(target.iterdir()):
        raise StoreError(f"{target} is not empty; name another folder, or write into it with --force")
    if target.resolve().is_relative_to(directory):
        raise StoreError(f"{target} is the memory itself; name a folder outside of it")
    for file, data in files.items():
        path = target / file
        disk.make_folder(path.parent)
        disk.replace_file(path, data, sync=False)
        written = _written(directory / file)
        os.utime(path, ns=(written, written))


def _written(path: Path) -> int:
    """Return the modification time of a memory, which a copy keeps."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
