"""Changes to memory that wait for the person's word: one file a proposal, in the memory's cache (E7, D6)."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast, get_args

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.files.location import Location
from nacre.memory.files.undo import reversed_text
from nacre.memory.format.entry import Author, MemoryChange
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.memory import Memory
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk

FOLDER = "review"
MAX_WAITING = 500
"""More than anybody reads through: the oldest beyond it make room for new ones."""
TICK = timedelta(milliseconds=1)
"""What a clock of ours can tell apart."""
ID_CHARS = 8
"""Of an id: enough to tell the proposals of one memory apart, short enough to be typed."""
_ID = re.compile(r"[0-9a-z]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One file as somebody would have it."""

    file: str
    before: bytes | None
    """What it held when this was proposed; none where there was no file."""
    after: bytes | None
    """What it would hold; none: it would be removed."""
    author: Author
    reason: str
    session: str = ""
    sources: tuple[str, ...] = ()
    """Records of the session that it came from."""
    id: str = ""
    """Given when it is put into the queue."""
    made_at: datetime | None = None

    @property
    def what(self) -> str:
        """What it would do to the file, in a word."""
        return "remove" if self.after is None else "new" if self.before is None else "change"

    def diff(self) -> list[str]:
        """The same line by line."""
        before, after = (
            (data or b"").decode(errors="replace").splitlines() for data in (self.before, self.after)
        )
        return list(difflib.unified_diff(before, after, lineterm=""))[2:]

    def as_json(self) -> JsonObject:
        return {
            "id": self.id,
            "file": self.file,
            "before": _text(self.before),
            "after": _text(self.after),
            "author": self.author,
            "reason": self.reason,
            "session": self.session,
            "sources": [*self.sources],
            "made_at": self.made_at.isoformat() if self.made_at else None,
        }


def propose(location: Location, proposal: Proposal, *, clock: Clock = SYSTEM_CLOCK) -> Proposal:
    """Put a change into the queue; one by the same author for the same file takes the older one's place."""
    folder = location.cache / FOLDER
    known = waiting(location)
    kept = [one for one in known if (one.file, one.author) != (proposal.file, proposal.author)]
    # Two of one moment would stand in any order: the later one is said to be made later.
    last = max((one.made_at + TICK for one in known if one.made_at), default=clock.now())
    made_at = max(clock.now(), last)
    made = replace(proposal, id=clock.new_id().replace("-", "")[-ID_CHARS:], made_at=made_at)
    data = json.dumps(made.as_json(), ensure_ascii=True, indent=1).encode()
    try:
        disk.make_folder(folder)
        disk.replace_file(_path(folder, made.id), data, temp_name=f".{made.id}.tmp")
        staying = {one.id for one in kept[-(MAX_WAITING - 1) :]} | {made.id}
        # Only what was seen above: what another process proposed since is not ours to drop.
        for old in known:
            if old.id not in staying:
                _path(folder, old.id).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(disk.explain(error, folder)) from error
    return made


def waiting(location: Location) -> list[Proposal]:
    """What waits, the oldest first; a file that is none of ours is passed over."""
    found = [one for path in _files(location.cache / FOLDER) if (one := _read(path)) is not None]
    return sorted(found, key=lambda one: (str(one.made_at), one.id))


def find(location: Location, wanted: str) -> Proposal:
    """The proposal of this id, or of the only one that begins like it."""
    fitting = [one for one in waiting(location) if one.id.startswith(wanted)]
    exact = [one for one in fitting if one.id == wanted] or fitting
    if len(exact) != 1 or not wanted:
        what = "several proposals" if exact else "no proposal"
        raise StoreError(f"{wanted!r} is the id of {what}; `nacre memory review` lists them")
    return exact[0]


async def accept(memory: Memory, wanted: str, *, edited: bytes | None = None, rebase: bool = False) -> str:
    """Make a proposal true in one commit, as it is or as the person edited it; returns the commit.

    `StoreError` where the file changed since: with `rebase` the proposal is put on top of what is there now.
    """
    one = find(memory.location, wanted)
    present = Folder(memory.location.directory).read(one.file)
    after = one.after if edited is None else edited
    if present != one.before and edited is None:
        after = _rebased(one, present, wanted=rebase)
    change = MemoryChange(
        author=one.author, reason=f"{one.reason}, accepted in a review", session=one.session
    )
    if after is None:
        commit = await _removed(memory, one, present, change)
    else:
        # A mark in the frontmatter, such as `drift`, makes no memory younger.
        is_marked = one.author == "dream" and present is not None and _body(present) == _body(after)
        files = {one.file: (after, version_of(present))}
        commit = await memory.put_all(files, change, keep_time=is_marked)
    _path(memory.location.cache / FOLDER, one.id).unlink(missing_ok=True)
    return commit


def reject(location: Location, wanted: str) -> Proposal:
    """Take a proposal out of the queue; memory stays as it is."""
    one = find(location, wanted)
    _path(location.cache / FOLDER, one.id).unlink(missing_ok=True)
    return one


async def _removed(memory: Memory, one: Proposal, present: bytes | None, change: MemoryChange) -> str:
    if present is None:
        return ""
    return (await memory.forget(one.file, change))[1]


def _rebased(one: Proposal, present: bytes | None, *, wanted: bool) -> bytes | None:
    """The proposed change on top of what the file holds now."""
    if not wanted:
        raise VersionConflict(
            f"{one.file} changed since this was proposed; "
            f"`nacre memory review --accept {one.id} --rebase` puts the proposal on top of it"
        )
    merged = None
    if present is not None and one.after is not None:
        # The way from `after` to `before`, taken back: that is the proposed change.
        merged = reversed_text(present, after=one.before or b"", before=one.after)
    if merged is None:
        raise VersionConflict(
            f"{one.file} changed where the proposal changes it; accept an edited version, or reject it"
        )
    return merged


def _files(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.glob("*.json")
    except OSError:
        return


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _read(path: Path) -> Proposal | None:
    """Total: what has another shape is no proposal."""
    try:
        stored: Json = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(stored, dict) or not _ID.fullmatch(path.stem):
        return None
    file = stored.get("file")
    author = str(stored.get("author"))
    sources = stored.get("sources")
    if not isinstance(file, str) or author not in get_args(Author):
        return None
    return Proposal(
        id=path.stem,
        file=file,
        before=_bytes(stored.get("before")),
        after=_bytes(stored.get("after")),
        author=cast("Author", author),
        reason=str(stored.get("reason") or ""),
        session=str(stored.get("session") or ""),
        sources=tuple(map(str, sources)) if isinstance(sources, list) else (),
        made_at=_moment(stored.get("made_at")),
    )


def _moment(stored: Json) -> datetime | None:
    try:
        return datetime.fromisoformat(str(stored))
    except ValueError:
        return None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="surrogateescape")


def _bytes(stored: Json) -> bytes | None:
    return stored.encode(errors="surrogateescape") if isinstance(stored, str) else None


def _body(data: bytes) -> str:
    return MarkdownFile.parse(data).body
