"""A memory directory as a dream finds it: the files, their times, and whose they are (D6)."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
from nacre.layers.l6_dream.copy import Copy
from nacre.layers.l6_dream.state import FOLDER
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.files.location import Location
from nacre.memory.files.recovery import told
from nacre.memory.files.scan import moment_of
from nacre.memory.files.transaction import pick_up
from nacre.store import disk
from nacre.store.history import History

PERSONS = frozenset({"user", "unconfirmed"})
"""Authors whose words a dream only proposes to change; an edit nobody confirmed may be the person's."""
FOUND = "edited by other means"
"""How the commit begins that takes over a directory as it is: who wrote what is in it, nobody knows."""
AUTHORS = "authors.json"


async def snapshot(location: Location, *, is_look: bool = False, clock: Clock = SYSTEM_CLOCK) -> Copy:
    """The directory as it is now; what others edited is committed first, unless this is only a look."""
    newest = History(location.history).newest if is_look else await pick_up(location, clock=clock)
    return _read(location, newest, keeps=not is_look)


def _read(location: Location, newest: str, *, keeps: bool) -> Copy:
    folder = Folder(location.directory)
    base: dict[str, bytes] = {}
    written: dict[str, datetime] = {}
    with told(location.directory):
        for file, stamp in folder.scan().items():
            # What is no regular file by now, or far too large, is no memory: `lint` speaks of it.
            with contextlib.suppress(StoreError, disk.NotRegularError):
                data = folder.read(file)
                if data is not None:
                    base[file], written[file] = data, moment_of(stamp[0])
        theirs = persons_files(location, newest, base.keys(), keeps=keeps)
        history = History(location.history)
        if not keeps and newest:
            theirs |= {file for file in base if history.version(newest, file) != version_of(base[file])}
    return Copy(base, written=written, theirs=theirs)


def persons_files(
    location: Location, newest: str, files: Collection[str], *, keeps: bool = True
) -> frozenset[str]:
    """The files whose last change was made by the person, by hand or through nacre."""
    cache = location.cache / FOLDER / AUTHORS
    known = _Known.read(cache)
    authors = _authors(History(location.history), newest, known)
    if keeps and newest and newest != known.commit:
        _Known(newest, authors).write(cache)
    return frozenset(file for file in files if authors.get(file) in PERSONS)


def _authors(history: History, newest: str, known: _Known) -> dict[str, str]:
    """Who changed each file last, looking back to where the last look ended."""
    found: dict[str, str] = {}
    at = newest
    while at and at != known.commit:
        head = history.head(at)
        signed = head.signature
        is_taking_over = not head.parent and signed.reason.startswith(FOUND)
        for file in history.changes(head.parent, at):
            found.setdefault(file, "" if is_taking_over else signed.author)
        at = head.parent
    return {**known.authors, **found} if at else found


@dataclass(frozen=True, slots=True)
class _Known:
    """What the last look at the history found; derived, and made again where it is lost."""

    commit: str
    authors: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> _Known:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_bytes())
            return cls(str(found["commit"]), {str(file): str(who) for file, who in found["authors"].items()})
        return cls("-", {})

    def write(self, path: Path) -> None:
        data = json.dumps({"commit": self.commit, "authors": self.authors}).encode()
        with contextlib.suppress(OSError):
            disk.make_folder(path.parent)
            disk.replace_file(path, data, temp_name=f".{path.name}.{os.getpid()}.tmp", sync=False)
