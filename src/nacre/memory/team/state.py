"""The state of the last sync; in the cache, so it may be lost at any time (M18)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.store import disk

FILE = "team.json"
FORMAT = 1
REPOSITORY = "remote.git"
"""The copy of a git remote, in the cache of the team's memory."""


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
        value = json.loads((cache / FILE).read_text(encoding="utf-8", errors="surrogateescape"))
        if value["format"] != FORMAT or value["place"] != _digest(address):
            return lost
        files = {str(file): str(version) for file, version in value["files"].items()}
        indexes = {str(file): str(text) for file, text in value["indexes"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return lost
    return TeamSyncState(address=address, files=files, indexes=indexes)


def write_state(cache: Path, state: TeamSyncState) -> None:
    """Write the record, all or nothing."""
    value = {
        "format": FORMAT,
        "place": _digest(state.address),
        "files": dict(state.files or {}),
        "indexes": dict(state.indexes),
    }
    disk.make_folder(cache)
    data = json.dumps(value, ensure_ascii=False).encode(errors="surrogateescape")
    disk.replace_file(cache / FILE, data, temp_name=f"{FILE}.tmp")


def forget_copies(cache: Path, file: str) -> None:
    """Delete the copy of the remote, and a file's lines from the recorded indexes (M14b).

    The record still names the file: otherwise the next sync would take what was purged here for a new file of
    the others.
    """
    shutil.rmtree(cache / REPOSITORY, ignore_errors=True)
    try:
        value = json.loads((cache / FILE).read_text(encoding="utf-8", errors="surrogateescape"))
        indexes = {name: str(text) for name, text in value["indexes"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    for name, text in indexes.items():
        inner = file.removeprefix(name.removesuffix(INDEX_FILE))
        kept = MemoryIndex.parse(text.encode(errors="surrogateescape")).without(inner)
        indexes[name] = kept.decode(errors="surrogateescape")
    data = json.dumps({**value, "indexes": indexes}, ensure_ascii=False).encode(errors="surrogateescape")
    disk.replace_file(cache / FILE, data, temp_name=f"{FILE}.tmp")


def _digest(address: str) -> str:
    """Return a digest, because the address itself may contain a password."""
    return hashlib.blake2b(os.fsencode(address), digest_size=16).hexdigest()
