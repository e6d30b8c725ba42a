"""Changes to memory that wait for a review (E7, D6, M16b).

Proposals are files in the memory's cache; an unverified memory waits to be confirmed or forgotten.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast, get_args

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError, VersionConflict
from nacre.memory.daily_log import confirm_line, forget_candidate, origin_of_line, read_logs
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.files.location import Location
from nacre.memory.files.scan import LOGS, scan
from nacre.memory.files.undo import reversed_text
from nacre.memory.format.entry import Author, Entry, MemoryChange
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.memory import Memory
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk

FOLDER = "review"
ACCEPTED = ", accepted in a review"
"""The end of the reason of a change that was proposed."""
CONFIRMED = "confirmed"
"""The reason of a change that confirms an unverified memory."""
MAX_WAITING = 500
"""Proposals that are kept; the oldest are dropped for new ones."""
TICK = timedelta(milliseconds=1)
"""The smallest difference between the times of two proposals."""
ID_CHARS = 8
"""Length of an id: unique within one memory, and short enough to type."""
_ID = re.compile(r"[0-9a-z]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed change of one file."""

    file: str
    before: bytes | None
    """The bytes when this was proposed; None where there was no file."""
    after: bytes | None
    """The proposed bytes; None to remove the file."""
    author: Author
    reason: str
    session: str = ""
    sources: tuple[str, ...] = ()
    """Records of the session that the change is based on."""
    id: str = ""
    """Assigned by `propose`."""
    made_at: datetime | None = None

    @property
    def what(self) -> str:
        """The effect in one word: new, change, remove, or confirm for an unverified memory."""
        if self.reason == CONFIRMED:
            return "confirm"
        return "remove" if self.after is None else "new" if self.before is None else "change"

    def diff(self) -> list[str]:
        """Return the lines of a unified diff; of an unverified memory all of its text."""
        if self.what == "confirm":
            return [f"+{line}" for line in MarkdownFile.parse(self.before or b"").body.splitlines()]
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
    """Add a proposal; it replaces an older one by the same author for the same file."""
    folder = location.cache / FOLDER
    existing = _proposals(location)
    others = [one for one in existing if (one.file, one.author) != (proposal.file, proposal.author)]
    # Times must differ, because proposals are ordered by them.
    last = max((one.made_at + TICK for one in existing if one.made_at), default=clock.now())
    made_at = max(clock.now(), last)
    made = replace(proposal, id=clock.new_id().replace("-", "")[-ID_CHARS:], made_at=made_at)
    data = json.dumps(made.as_json(), ensure_ascii=True, indent=1).encode()
    try:
        disk.make_folder(folder)
        disk.remove_abandoned(folder.glob(".*.tmp"))
        disk.replace_file(_path(folder, made.id), data)
        keep = {one.id for one in others[-(MAX_WAITING - 1) :]} | {made.id}
        # Only those read above: another process may have added proposals since.
        for old in existing:
            if old.id not in keep:
                _path(folder, old.id).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(disk.explain(error, folder)) from error
    return made


def waiting(location: Location, entries: Sequence[Entry] | None = None) -> list[Proposal]:
    """Return the proposals, oldest first, then the unverified memories; `entries` if they are known."""
    return [*_proposals(location), *unverified(location, entries)]


def unverified(location: Location, entries: Sequence[Entry] | None = None) -> list[Proposal]:
    """Return the unverified memories, each as the change that confirms it; its id depends on its file."""
    found = []
    folder = Folder(location.directory)
    if entries is None:
        entries = scan(location.directory).entries if location.directory.is_dir() else ()
    for entry in reversed(entries):
        data = folder.read(entry.file) if entry.origin == "unverified" else None
        if data is not None:
            found.append(
                Proposal(
                    file=entry.file,
                    before=data,
                    after=MarkdownFile.parse(data).with_fields(origin=None),
                    author="user",
                    reason=CONFIRMED,
                    id=hashlib.sha256(entry.file.encode()).hexdigest()[:ID_CHARS],
                    made_at=entry.modified or entry.written,
                )
            )
    for line in reversed(read_logs(location)):
        if origin_of_line(line.text) == "unverified":
            found.append(
                Proposal(
                    file=line.place,
                    before=line.text.encode(),
                    after=line.text.encode(),
                    author="user",
                    reason=CONFIRMED,
                    id=hashlib.sha256(f"{line.file} {line.text}".encode()).hexdigest()[:ID_CHARS],
                )
            )
    return found


def _proposals(location: Location) -> list[Proposal]:
    """Return the proposals, oldest first; other files are ignored."""
    found: list[Proposal] = []
    with suppress(OSError):
        for path in (location.cache / FOLDER).glob("*.json"):
            found += [one] if (one := _read(path)) is not None else []
    return sorted(found, key=lambda one: (str(one.made_at), one.id))


def find(location: Location, wanted: str) -> Proposal:
    """Return the proposal with this id or unique prefix of an id."""
    fitting = [one for one in waiting(location) if one.id.startswith(wanted)]
    exact = [one for one in fitting if one.id == wanted] or fitting
    if len(exact) != 1 or not wanted:
        what = "several proposals" if exact else "no proposal"
        raise StoreError(f"{wanted!r} is the id of {what}; `nacre memory review` lists them")
    return exact[0]


async def confirm(memory: Memory, file: str, change: MemoryChange) -> str:
    """Confirm a memory, or a line of a daily log such as `logs/2026/11/2026-11-16.md:3`; return a commit."""
    if file.startswith(f"{LOGS}/"):
        return (await confirm_line(memory, file, change))[1]
    return (await memory.confirm(file, change)).commit


async def accept(memory: Memory, wanted: str, *, edited: bytes | None = None, rebase: bool = False) -> str:
    """Apply a proposal in one commit, as it is or as the user edited it; return the commit.

    Raises `StoreError` where the file changed since; with `rebase` the change is applied to the present file.
    """
    one = find(memory.location, wanted)
    if one.file.startswith(f"{LOGS}/"):
        return await confirm(memory, one.file, MemoryChange(author="user", reason=CONFIRMED))
    present = Folder(memory.location.directory).read(one.file)
    after = one.after if edited is None else edited
    if present != one.before and edited is None:
        if not rebase:
            raise VersionConflict(
                f"{one.file} changed since this was proposed; "
                f"`nacre memory review --accept {one.id} --rebase` puts the proposal on top of it"
            )
        after = None
        if present is not None and one.after is not None:
            # The proposed change is the inverse of the step from `after` to `before`.
            after = reversed_text(present, after=one.before or b"", before=one.after)
        if after is None:
            raise VersionConflict(
                f"{one.file} changed where the proposal changes it; accept an edited version, or reject it"
            )
    reason = one.reason if one.what == "confirm" else f"{one.reason}{ACCEPTED}"
    change = MemoryChange(author=one.author, reason=reason, session=one.session)
    if after is None:
        commit = "" if present is None else (await memory.forget(one.file, change))[1]
    else:
        # A mark in the frontmatter, such as `drift`, does not make a memory newer.
        is_marked = (
            (one.author == "dream" or one.what == "confirm")
            and present is not None
            and MarkdownFile.parse(present).body == MarkdownFile.parse(after).body
        )
        files = {one.file: (after, version_of(present))}
        commit = await memory.put_all(files, change, keep_time=is_marked)
    _path(memory.location.cache / FOLDER, one.id).unlink(missing_ok=True)
    return commit


async def reject(memory: Memory, wanted: str) -> Proposal:
    """Remove a proposal without applying it; an unverified memory is forgotten."""
    one = find(memory.location, wanted)
    if one.file.startswith(f"{LOGS}/"):
        change = MemoryChange(author="user", reason="rejected in a review")
        await forget_candidate(memory, one.file, change)
    elif one.what == "confirm":
        await memory.forget(one.file, MemoryChange(author="user", reason="rejected in a review"))
    _path(memory.location.cache / FOLDER, one.id).unlink(missing_ok=True)
    return one


def rejected_line(one: Proposal) -> str:
    """Return what a rejection did."""
    return f"forgot {one.file}" if one.what == "confirm" else f"rejected what was proposed for {one.file}"


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _read(path: Path) -> Proposal | None:
    """Return the proposal in a file; None for a file of another shape."""
    try:
        stored: Json = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(stored, dict) or not _ID.fullmatch(path.stem):
        return None
    file = stored.get("file")
    author = str(stored.get("author"))
    sources = stored.get("sources")
    if not isinstance(file, str) or author not in get_args(Author):
        return None
    try:
        made_at = datetime.fromisoformat(str(stored.get("made_at")))
    except ValueError:
        made_at = None
    return Proposal(
        id=path.stem,
        file=file,
        before=_bytes(stored.get("before")),
        after=_bytes(stored.get("after")),
        author=cast("Author", author),
        reason=str(stored.get("reason") or ""),
        session=str(stored.get("session") or ""),
        sources=tuple(map(str, sources)) if isinstance(sources, list) else (),
        made_at=made_at,
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="surrogateescape")


def _bytes(stored: Json) -> bytes | None:
    return stored.encode(errors="surrogateescape") if isinstance(stored, str) else None
