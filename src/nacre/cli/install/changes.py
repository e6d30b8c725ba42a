"""Changes to the settings files of other programs, with records that can undo them."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk

RECORDS = Path("cache/install")
"""Below the client's folder: a record of the changes, and copies of the files before them."""
MAX_BYTES = 50_000_000
"""Maximum size of a file that is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file before and after a change."""

    path: Path
    before: bytes | None
    """None if the file does not exist."""
    after: bytes | None
    """None if the file would be removed."""
    record: JsonObject | None = None
    """Record for the removal; None if nothing of nacre would remain."""

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


def check(change: FileChange) -> None:
    """Raise `ConfigError` if the file changed meanwhile or is write-protected."""
    target = Path(os.path.realpath(change.path))
    if read_file(target) != change.before:
        raise ConfigError(f"{change.path} changed meanwhile; run the command again")
    # By its mode: it could be replaced all the same, but its owner protected it.
    if change.before is not None and not target.stat().st_mode & 0o222:
        raise ConfigError(f"{target} is read-only; `chmod u+w` it, then try again")
    folder = next(one for one in target.parents if one.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"no permission to write to {folder}; change {change.path.name} where it comes from"
        )


def apply(change: FileChange, home: Path) -> Path | None:
    """Write the record, then the file; returns the copy of the old one. Raises `ConfigError` if it cannot."""
    target = Path(os.path.realpath(change.path))
    check(change)
    record = _record_path(home, change.path)
    copy = None
    try:
        disk.make_folder(record.parent)
        if change.before is not None and change.record and change.record["before"] == digest(change.before):
            copy = record.with_suffix(".before")
            disk.replace_file(copy, change.before, temp_name=f".{copy.name}.tmp")
        if change.record is not None:
            data = json.dumps(change.record, indent=1).encode()
            disk.replace_file(record, data, temp_name=f".{record.name}.tmp")
        _write(target, change.after)
        if change.record is None:
            forget(change.path, home)
    except OSError as error:
        raise ConfigError(disk.explain(error, change.path)) from error
    return copy


def forget(path: Path, home: Path) -> None:
    """Remove the record and the copy of a file."""
    record = _record_path(home, path)
    for one in (record, record.with_suffix(".before")):
        one.unlink(missing_ok=True)
    with suppress(OSError):
        record.parent.rmdir()


def as_it_was(home: Path, path: Path, known: JsonObject) -> bytes | None:
    """Return the copy byte for byte if the file has not changed since."""
    if known.get("existed") is False:
        return None
    copy = read_file(_record_path(home, path).with_suffix(".before"))
    if copy is None or digest(copy) != known.get("before"):
        raise ConfigError(f"the copy of {path} is missing; remove nacre from it by hand")
    return copy


def recorded(home: Path, path: Path) -> JsonObject:
    """Return what was recorded about a changed file, or an empty object."""
    try:
        stored: Json = json.loads(_record_path(home, path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _record_path(home: Path, path: Path) -> Path:
    return home / RECORDS / f"{hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()}.json"


def digest(data: bytes) -> str:
    """Return the digest by which an unchanged file is recognised."""
    return hashlib.sha256(data).hexdigest()


def text_of(data: bytes | None, path: Path) -> tuple[str, bytes]:
    """Return a file's text and its byte order mark."""
    mark = b"\xef\xbb\xbf" if data and data.startswith(b"\xef\xbb\xbf") else b""
    try:
        return (data or b"")[len(mark) :].decode(), mark
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None


def read_file(path: Path) -> bytes | None:
    """Return a file's bytes, or None if it does not exist."""
    try:
        descriptor = disk.open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(disk.explain(error, path)) from error
    with os.fdopen(descriptor, "rb") as source:
        data = source.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} has more than {MAX_BYTES:,} bytes; this is not a settings file")
    return data


def _write(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
        return
    disk.make_folder(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else disk.FILE_MODE
    disk.replace_file(path, data, mode=mode)
