"""The port for shared memory, and what every remote reports and stores (M18).

One file is stored with the memories, `KNOWN_FILE`: each memory with every version it ever had there. One that
is named in it and absent was forgotten: that is its tombstone. By the same list an old copy is distinguished
from a new text, even if the state of the last sync is lost; that is in the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from nacre.errors import StoreError
from nacre.memory.files.scan import MAX_TOPIC_BYTES
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.store import disk

KNOWN_FILE = ".nacre-team.json"
FORMAT = 1
MAX_KNOWN = 100
"""Versions stored per memory; an older copy is taken for a new text."""
MAX_KNOWN_BYTES = 16_777_216
"""Maximum bytes read of that file: about three hundred thousand versions."""
MAX_FILES = 10_000
"""As many memories as the rest of nacre is measured with; more is no memory but an attack."""
VERSION_CHARS = 40


@dataclass(frozen=True, slots=True, order=True)
class RefusedFile:
    """A file that is not accepted, and why."""

    file: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSnapshot:
    """The remote's files at one moment."""

    version: str = ""
    """What a push is compared with; empty if nothing was shared yet."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Every memory and its version, which is the id git gives its content."""
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Every memory that ever existed, with its versions, oldest first."""
    refused: tuple[RefusedFile, ...] = ()
    """Other files than memories; they are not touched."""


class TeamRemote(Protocol):
    """A remote that everyone in the team, or every machine of one person, can reach."""

    @property
    def address(self) -> str:
        """Identifies the remote; may contain a password, so it is never shown."""
        ...

    async def pull(self) -> RemoteSnapshot:
        """Return the current files; `StoreError` if the remote cannot be reached."""
        ...

    async def read(self, shared: RemoteSnapshot, files: Collection[str]) -> Mapping[str, bytes]:
        """Return the contents of files as pulled; those that changed since may be left out."""
        ...

    async def push(self, base: RemoteSnapshot, changes: Mapping[str, bytes | None], reason: str) -> bool:
        """Make all changes (None forgets) if the remote is still as pulled; False if it is not."""
        ...


def known_after(base: RemoteSnapshot, changed: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return all known memories after these changes, including what others put there by hand."""
    known = dict(base.known)
    for file, version in [*base.files.items(), *changed.items()]:
        before = known.get(file, ())
        if version and version not in before[-1:]:
            rest = tuple(one for one in before if one != version)
            known[file] = (*rest, version)[-MAX_KNOWN:]
    return known


def encode_known(known: Mapping[str, tuple[str, ...]]) -> bytes:
    """Return the file's bytes; same versions, same bytes."""
    rows = {file: [*known[file]] for file in sorted(known)}
    return (json.dumps({"format": FORMAT, "known": rows}, indent=1, ensure_ascii=False) + "\n").encode()


def parse_known(data: bytes) -> dict[str, tuple[str, ...]]:
    """Parse the file; invalid parts are left out.

    Raises `StoreError` if a newer nacre wrote it (M27), `ValueError` if it is no such file at all.
    """
    if len(data) > MAX_KNOWN_BYTES:
        raise ValueError(f"is {len(data):,} bytes; at most {MAX_KNOWN_BYTES:,} are read")
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError("cannot be understood") from error
    rows = value.get("known") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(rows, dict):
        raise ValueError("cannot be understood")  # noqa: TRY004 - what it says is wrong, not our call
    if value.get("format") != FORMAT:
        raise StoreError("the shared memory was written by another version of nacre; update nacre to sync")
    return {
        file: tuple(each for each in versions if isinstance(each, str) and len(each) == VERSION_CHARS)
        for file, versions in rows.items()
        if isinstance(versions, list)
    }


def size_objection(size: int) -> str:
    """Return why a file of this size is not accepted; empty if it is."""
    is_large = size > MAX_TOPIC_BYTES
    return f"is {size:,} bytes; a memory has at most {MAX_TOPIC_BYTES:,}" if is_large else ""


STATE_FILE = "team.json"
STATE_FORMAT = 1
REPOSITORY = "remote.git"
"""The copy of a git remote, in the cache of the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSyncState:
    """The record of one remote; that of another remote counts as lost."""

    address: str
    files: Mapping[str, str] | None = None
    """Versions by file, empty for a forgotten one; None if the record is lost."""
    indexes: Mapping[str, str] = field(default_factory=dict)
    """Texts of the indexes, to find changes of single lines."""


def read_state(cache: Path, address: str) -> TeamSyncState:
    """Return the record, or an empty one."""
    lost = TeamSyncState(address=address)
    try:
        value = json.loads((cache / STATE_FILE).read_text(encoding="utf-8", errors="surrogateescape"))
        if value["format"] != STATE_FORMAT or value["place"] != _digest(address):
            return lost
        files = {str(file): str(version) for file, version in value["files"].items()}
        indexes = {str(file): str(text) for file, text in value["indexes"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return lost
    return TeamSyncState(address=address, files=files, indexes=indexes)


def write_state(cache: Path, state: TeamSyncState) -> None:
    """Write the record, all or nothing."""
    value = {
        "format": STATE_FORMAT,
        "place": _digest(state.address),
        "files": dict(state.files or {}),
        "indexes": dict(state.indexes),
    }
    disk.make_folder(cache)
    data = json.dumps(value, ensure_ascii=False).encode(errors="surrogateescape")
    disk.replace_file(cache / STATE_FILE, data, temp_name=f"{STATE_FILE}.tmp")


def forget_copies(cache: Path, file: str) -> None:
    """Delete the copy of the remote, and a file's lines from the recorded indexes (M14b).

    The record still names the file: otherwise the next sync would take what was purged here for a new file of
    the others.
    """
    shutil.rmtree(cache / REPOSITORY, ignore_errors=True)
    try:
        value = json.loads((cache / STATE_FILE).read_text(encoding="utf-8", errors="surrogateescape"))
        indexes = {name: str(text) for name, text in value["indexes"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    for name, text in indexes.items():
        inner = file.removeprefix(name.removesuffix(INDEX_FILE))
        kept = MemoryIndex.parse(text.encode(errors="surrogateescape")).without(inner)
        indexes[name] = kept.decode(errors="surrogateescape")
    data = json.dumps({**value, "indexes": indexes}, ensure_ascii=False).encode(errors="surrogateescape")
    disk.replace_file(cache / STATE_FILE, data, temp_name=f"{STATE_FILE}.tmp")


def _digest(address: str) -> str:
    """Return a digest, because the address itself may contain a password."""
    return hashlib.blake2b(os.fsencode(address), digest_size=16).hexdigest()
