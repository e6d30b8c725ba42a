"""The port for a team's shared memory, and what every remote reports and stores (M18).

One file is stored with the memories, `KNOWN_FILE`: each memory with every version it ever had there. One that
is named in it and absent was forgotten: that is its tombstone. By the same list an old copy is distinguished
from a new text, even if the state of the last sync is lost.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nacre.errors import StoreError
from nacre.memory.files.scan import MAX_TOPIC_BYTES

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
    """A remote that everyone on the repository can reach."""

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
        raise StoreError("the team's memory was written by another version of nacre; update nacre to sync")
    return {
        file: tuple(each for each in versions if isinstance(each, str) and len(each) == VERSION_CHARS)
        for file, versions in rows.items()
        if isinstance(versions, list)
    }


def size_objection(size: int) -> str:
    """Return why a file of this size is not accepted; empty if it is."""
    if size > MAX_TOPIC_BYTES:
        return f"is {size:,} bytes; a memory has at most {MAX_TOPIC_BYTES:,}"
    return ""
