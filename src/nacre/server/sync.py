"""Operations with which a person's machines keep one memory (M18b): versions, texts, and a guarded write."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, Field

from nacre.errors import StoreError, VersionConflict
from nacre.memory.files.transaction import pick_up, transact
from nacre.memory.format.entry import MemoryChange, read_entry
from nacre.memory.format.index import MemoryIndex
from nacre.memory.memory import Memory
from nacre.memory.team.remote import MAX_KNOWN
from nacre.memory.team.rules import is_index, name_objection, sharing_objection
from nacre.server.operation import Answer, Body, Call, Operation, ProblemError
from nacre.server.schema import Reason
from nacre.store.history import History

MAX_FILES = 500
FileName = Annotated[str, Field(min_length=1, max_length=400)]


class SyncState(BaseModel):
    """The files of a space, and every version that each had."""

    head: str
    files: dict[str, str]
    known: dict[str, list[str]]


class SyncRead(Body):
    """Files to read as they were at a head."""

    head: str
    files: Annotated[list[FileName], Field(max_length=MAX_FILES)]


class SyncTexts(BaseModel):
    """Texts by file; without those that have changed since."""

    contents: dict[str, str]


class SyncWrite(Body):
    """New texts by file, null for a forgotten one, if the space is still at a head."""

    head: str
    changes: Annotated[dict[FileName, str | None], Field(max_length=MAX_FILES)]
    reason: Reason = ""


class SyncHead(BaseModel):
    """The head after a write."""

    head: str


def sync_operations() -> list[Operation]:
    return [
        Operation(method="GET", path="/sync", id="syncState", handler=_state, answer=SyncState,
                  summary="List the versions of all files, for `nacre memory sync`."),
        Operation(method="POST", path="/sync/read", id="syncRead", body=SyncRead, handler=_read,
                  answer=SyncTexts, summary="Read files whole, for `nacre memory sync`."),
        Operation(method="POST", path="/sync", id="syncWrite", needs="member", body=SyncWrite,
                  handler=_write, answer=SyncHead,
                  summary="Write files whole if nothing has changed since, for `nacre memory sync`."),
    ]  # fmt: skip


async def _state(call: Call) -> Answer:
    space = await call.space()
    hidden = (await call.hidden(space)).files

    def read() -> dict[str, object]:
        history = History(space.memory.location.history)
        newest = at = history.newest
        known: dict[str, list[str]] = {}
        while at:
            parent = history.head(at).parent
            for file, (_, version) in history.changes(parent, at).items():
                if version is not None and file not in hidden:
                    known.setdefault(file, []).append(version)
            at = parent
        files = history.tree(newest) if newest else {}
        if not call.key.local:
            known = {
                file: versions
                for file, versions in known.items()
                if file in files or not _was_local_only(history, file, versions)
            }
        return {
            "head": newest,
            "files": {file: version for file, version in files.items() if file not in hidden},
            "known": {file: versions[:MAX_KNOWN][::-1] for file, versions in known.items()},
        }

    async with space.changing:
        await pick_up(space.memory.location, clock=call.clock)
        return Answer(content=await asyncio.to_thread(read))


def _was_local_only(history: History, file: str, versions: Collection[str]) -> bool:
    """Return whether a forgotten memory was local-only: its name may say what it said (M27)."""
    contents = (history.repository.content(version, "blob") for version in versions)
    return any(read_entry(file, data).local_only for data in contents)


async def _read(call: Call) -> Answer:
    space = await call.space()
    wanted: SyncRead = call.body
    hidden = await call.hidden(space)

    def read() -> dict[str, str]:
        history = History(space.memory.location.history)
        newest = history.newest
        found = {}
        for file in wanted.files:
            # An older text may be of a memory that was local-only.
            is_same = history.version(wanted.head, file) == history.version(newest, file)
            data = history.read(newest, file) if is_same and file not in hidden.files else None
            if data is not None:
                text = data.decode(errors="replace")
                found[file] = hidden.without(text) if is_index(file) else text
        return found

    try:
        return Answer(content={"contents": await asyncio.to_thread(read)})
    except StoreError as error:  # its text names folders of this machine
        raise VersionConflict("there is no such head; sync again") from error


async def _write(call: Call) -> Answer:
    space = await call.space()
    given: SyncWrite = call.body
    memory = space.memory
    hidden = (await call.hidden(space)).files
    data = {file: None if text is None else text.encode() for file, text in given.changes.items()}
    for file, text in data.items():
        if why := _objection(memory, file, text):
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{file} {why}")
    change = MemoryChange(author="sync", reason=call.change("sync").reason)
    async with space.changing, transact(memory.location, change, watch=memory.watch) as tx:
        if tx.newest != given.head or hidden & data.keys():
            raise VersionConflict("the memory has changed since; sync again")
        for file, text in data.items():
            if text is None:
                tx.delete(file)
            else:
                tx.write(file, _with_hidden(text, tx.read(file)[0], hidden) if is_index(file) else text)
    call.commit = tx.commit
    return Answer(content={"head": tx.commit or given.head})


def _with_hidden(new: bytes, old: bytes | None, hidden: Collection[str]) -> bytes:
    """Return an index with its lines of memories that the client may not see."""
    for line in MemoryIndex.parse(old or b"").pointers:
        if line.file in hidden:
            new = MemoryIndex.parse(new).with_pointer(line.file, line.title, line.hook)
    return new


def _objection(memory: Memory, file: str, data: bytes | None) -> str:
    if name_objection(memory.location.directory, file):  # its text names folders of this machine
        return "cannot be the name of a memory's file"
    if data is None:
        return ""
    return sharing_objection(file, data, with_team=memory.location.source == "team")
