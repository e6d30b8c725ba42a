"""Operations on memories: list, save, read, change, search, recall, history, undo, origin, review."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import cast
from urllib.parse import quote

from nacre.errors import StoreError, VersionConflict
from nacre.inspect.memory_json import commit_json, entry_json, recalled_json
from nacre.inspect.original_words import original_words
from nacre.memory.checks.local_only import LocalOnlyEntries, forgotten_local_only, merge_local_only
from nacre.memory.checks.review import Proposal, accept, reject, waiting
from nacre.memory.files.folder import Folder, version_of
from nacre.memory.files.scan import is_topic
from nacre.memory.files.undo import newest_in_force, unconfirmed_changes
from nacre.memory.format.entry import Entry, MemoryDraft, read_entry
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.memory import Memory, single_match
from nacre.memory.memory import Saved as MemorySaved
from nacre.memory.secrets import redact
from nacre.messages.blocks import JsonObject
from nacre.server.operation import (
    CURSOR,
    Answer,
    Call,
    Operation,
    ProblemError,
    short_text,
    whole_number,
    yes_or_no,
)
from nacre.server.schema import (
    MAX_NAME_CHARS,
    CommitDiff,
    CommitPage,
    CorrectText,
    FindMemory,
    Forgotten,
    MemoryOrigin,
    MemoryPage,
    MemoryPatch,
    MemoryText,
    MemoryWhole,
    RecallResult,
    RecallText,
    ReviewDecision,
    Reviewed,
    ReviewPage,
    Saved,
    SearchQuery,
    SearchResult,
    UndoCommit,
    Undone,
)
from nacre.server.spaces import Space
from nacre.store.history import Commit, FileDiff, History

MAX_PAGE = 500
MAX_CHANGES = 10_000
"""More changes than one memory has."""
COMMIT_CHARS = 40
COMMIT = re.compile(rf"[0-9a-f]{{4,{COMMIT_CHARS}}}")


def memory_operations() -> list[Operation]:
    """Return the operations on memories."""
    limit = whole_number("limit", "Maximum number of entries.", default=100, most=MAX_PAGE)

    bodies = yes_or_no("bodies", "Whether each entry has its text.")
    reason = short_text("reason", "Why, for the history.", most=MAX_NAME_CHARS)

    return [
        Operation(method="GET", path="/memories", id="listMemories", summary="List memories, newest first.",
                  handler=_list, answer=MemoryPage, parameters=(limit, CURSOR, bodies)),
        Operation(method="POST", path="/memories", id="saveMemory", needs="member", body=MemoryText,
                  summary="Save a memory; one on the same subject is updated.", handler=_save, answer=Saved,
                  status=HTTPStatus.CREATED),
        Operation(method="GET", path="/memories/{file}", id="getMemory", handler=_get, answer=MemoryWhole,
                  summary="Read one memory; its ETag can be sent as If-Match with a change."),
        Operation(method="PATCH", path="/memories/{file}", id="changeMemory", needs="member",
                  summary="Change a memory; the history keeps the old text.", body=MemoryPatch,
                  handler=_patch, answer=Saved),
        Operation(method="DELETE", path="/memories/{file}", id="forgetMemory", needs="member",
                  summary="Forget a memory; the history keeps it.", handler=_forget, answer=Forgotten,
                  parameters=(reason,)),
        Operation(method="POST", path="/memories/{file}/correct", id="correctMemory", needs="member",
                  summary="Correct a memory by a new text, or by a sentence with the old and the new value.",
                  body=CorrectText, handler=_correct, answer=Saved),
        Operation(method="POST", path="/memories/find", id="findMemory", body=FindMemory, handler=_find,
                  summary="Read one memory by its file, its name, or words that match only that memory.",
                  answer=MemoryWhole),
        Operation(method="POST", path="/memories/search", id="searchMemories", body=SearchQuery,
                  summary="Find memories by words, unconfirmed ones included.", handler=_search,
                  answer=SearchResult),
        Operation(method="POST", path="/recall", id="recall", body=RecallText, handler=_recall,
                  answer=RecallResult,
                  summary="Choose the few memories that help with a message, as a session does."),
        Operation(method="GET", path="/history", id="listCommits", parameters=(limit,), handler=_history,
                  summary="List the changes of a space, newest first.", answer=CommitPage),
        Operation(method="GET", path="/history/{commit}", id="getCommit", handler=_diff, answer=CommitDiff,
                  summary="Show what one commit changed."),
        Operation(method="GET", path="/memories/{file}/history", id="listCommitsOfMemory",
                  parameters=(limit,), summary="List the changes of one memory, newest first.",
                  handler=_history, answer=CommitPage),
        Operation(method="GET", path="/memories/{file}/why", id="getOrigin", handler=_why,
                  answer=MemoryOrigin,
                  summary="Show who wrote a memory, when and why, and the words it came from."),
        Operation(method="POST", path="/undo", id="undo", needs="member", body=UndoCommit, handler=_undo,
                  summary="Undo a change; later changes stay.", answer=Undone),
        Operation(method="GET", path="/review", id="listProposals", handler=_proposals, answer=ReviewPage,
                  summary="List proposed and unverified memories."),
        Operation(method="POST", path="/review", id="decideProposal", needs="member", body=ReviewDecision,
                  summary="Accept or drop a proposal, confirm or forget an unverified memory.",
                  handler=_review, answer=Reviewed),
    ]  # fmt: skip


async def _list(call: Call) -> Answer:
    space = await call.space()
    found = [one for one in await space.listed.now() if call.key.local or not one.local_only]
    limit = call.query["limit"]
    begin = 0
    if after := call.query["cursor"]:
        begin = next((place for place, entry in enumerate(found, 1) if entry.file == after), len(found))
    page = found[begin : begin + limit]
    more = page[-1].file if page and begin + limit < len(found) else None
    rows = [entry_json(entry) for entry in page]
    if call.query["bodies"]:
        whole = await asyncio.to_thread(lambda: [_with_body(space.memory, entry) for entry in page])
        rows = [_whole_json(entry) for entry in whole if entry is not None]
    return Answer(content={"memories": rows, "next": more})


def _with_body(memory: Memory, head: Entry) -> Entry | None:
    """Return an entry with its text; None if it was forgotten meanwhile."""
    data = _read(memory, head.file)
    if data is None:
        return None
    return read_entry(head.file, data, written=head.written, indexed=head.indexed)


async def _save(call: Call) -> Answer:
    space = await call.space()
    text: MemoryText = call.body
    if text.file and not is_topic(text.file):
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{text.file!r} cannot be a memory's file")
    draft = MemoryDraft(
        body=text.text, name=text.name, description=text.description, kind=text.type, origin=text.origin,
        file=text.file, pinned=text.pinned, local_only=text.local_only,
    )  # fmt: skip
    async with space.changing:
        if text.file in (await call.hidden(space)).files:
            raise _no_memory(text.file)
        saved = await space.memory.save(draft, call.change("save", origin=text.origin))
    location = f"/v1/memories/{quote(saved.entry.file)}?space={quote(call.space_name)}"
    content = await _saved_json(call, space, saved)
    return Answer(content=content, status=HTTPStatus.CREATED, headers={"Location": location})


async def _saved_json(call: Call, space: Space, saved: MemorySaved) -> JsonObject:
    call.commit = saved.commit
    hidden = await call.hidden(space)
    before = saved.before
    if before is not None and before.local_only and not call.key.local:
        before = None
    return {
        "file": saved.entry.file,
        "commit": saved.commit,
        "feedback": hidden.without(saved.feedback),
        "entry": _whole_json(saved.entry),
        "before": _whole_json(before) if before else None,
    }


async def _find(call: Call) -> Answer:
    space = await call.space()
    entries = [one for one in await space.memory.list() if call.key.local or not one.local_only]
    try:
        found = single_match(call.body.wanted, entries)
    except StoreError as error:
        raise ProblemError(HTTPStatus.NOT_FOUND, str(error)) from error
    return Answer(content=_whole_json(found))


async def _correct(call: Call) -> Answer:
    space = await call.space()
    given: CorrectText = call.body
    async with space.changing:
        entry, version = await _entry(call, space)
        _wanted_version(call, version)
        change = call.change("correct", origin=given.origin)
        saved = await space.memory.correct(entry.file, given.text, change, origin=given.origin)
    return Answer(content=await _saved_json(call, space, saved))


async def _get(call: Call) -> Answer:
    entry, version = await _entry(call, await call.space())
    return Answer(content=_whole_json(entry), headers={"ETag": f'"{version}"'})


async def _patch(call: Call) -> Answer:
    space = await call.space()
    given: MemoryPatch = call.body
    if not given.model_fields_set:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "the body is empty; send text, name, description, type or pinned"
        )
    async with space.changing:
        entry, version = await _entry(call, space)
        draft = MemoryDraft(
            file=entry.file,
            body=entry.body if given.text is None else given.text,
            name=given.name or "",
            description=given.description or "",
            kind=given.type or entry.kind,
            pinned=given.pinned,
            origin=entry.origin if given.text is None else given.origin or "user",
        )
        wanted = _wanted_version(call, version)
        change = call.change("change", origin=given.origin)
        saved = await space.memory.save(draft, change, if_version=wanted)
    return Answer(content=await _saved_json(call, space, saved))


async def _forget(call: Call) -> Answer:
    space = await call.space()
    async with space.changing:
        entry, version = await _entry(call, space)
        wanted = _wanted_version(call, version)
        _, commit = await space.memory.forget(entry.file, call.change("forget"), if_version=wanted)
    call.commit = commit
    return Answer(content={"file": entry.file, "commit": commit, "entry": _whole_json(entry)})


async def _search(call: Call) -> Answer:
    space = await call.space()
    hidden = (await call.hidden(space)).files
    limit: int = call.body.limit
    found = await space.memory.search(call.body.query, limit=limit + len(hidden))
    shown = [one for one in found if one.entry.file not in hidden][:limit]
    rows = [{**_whole_json(one.entry), "score": round(one.score, 3)} for one in shown]
    return Answer(content={"memories": rows})


async def _recall(call: Call) -> Answer:
    memory = (await call.space()).memory
    found = await memory.recall(call.body.query, limit=call.body.limit, with_local=call.key.local)
    # Not even the names of local-only memories (M27).
    found = replace(found, left_out=tuple(one for one in found.left_out if one.why != "local-only"))
    content = recalled_json(found)
    content["picks"] = [
        {**row, "text": one.text}
        for row, one in zip(cast("list[JsonObject]", content["picks"]), found.picks, strict=True)
    ]
    return Answer(content=content)


async def _history(call: Call) -> Answer:
    space = await call.space()
    file = call.path.get("file")
    hidden = await call.hidden(space)
    if file in hidden.files:
        raise _no_memory(file)
    commits = await space.memory.log(limit=call.query["limit"], file=file)
    if file and not commits:
        await _entry(call, space)  # raises if there is no such memory
    hidden = await _with_forgotten(call, space, commits, hidden)
    if file in hidden.files:
        raise _no_memory(file)
    return Answer(content={"commits": await _commits(space, commits, hidden)})


async def _with_forgotten(
    call: Call, space: Space, commits: Sequence[Commit], hidden: LocalOnlyEntries
) -> LocalOnlyEntries:
    """Add the memories in these commits that were local-only and are gone."""
    if call.key.local:
        return hidden
    files = {file for one in commits for file in one.files}
    return merge_local_only([
        hidden, await asyncio.to_thread(forgotten_local_only, space.memory.location, files)
    ])  # fmt: skip


async def _commits(space: Space, commits: Sequence[Commit], hidden: LocalOnlyEntries) -> list[JsonObject]:
    confirmed = (await asyncio.to_thread(unconfirmed_changes, space.memory.location)).confirmed
    shown = [
        replace(
            one,
            reason=hidden.without(one.reason),
            files=tuple(file for file in one.files if file not in hidden.files),
        )
        for one in commits
    ]
    return [commit_json(one, confirmed) for one in shown]


async def _diff(call: Call) -> Answer:
    space = await call.space()
    memory = space.memory
    history = History(memory.location.history)
    wanted = call.path["commit"]
    if not COMMIT.fullmatch(wanted):
        raise _no_commit(wanted)
    try:
        commit = await asyncio.to_thread(history.one, wanted)
        changed = await memory.diff(commit.id)
    except StoreError as error:
        raise _no_commit(wanted) from error
    if not call.key.local:
        hidden = (await call.hidden(space)).files
        changed = await asyncio.to_thread(
            lambda: [one for one in changed if one.file not in hidden and not _was_local_only(history, one)]
        )
    files = [
        {"file": each.file, "before": each.before, "after": each.after, "diff": each.text} for each in changed
    ]
    return Answer(content={"commit": commit.id, "files": files})


def _was_local_only(history: History, one: FileDiff) -> bool:
    """Return whether a change shows the text of a memory that was local-only before or after it.

    The index repeats titles of memories, also of those that are gone.
    """
    if one.file.rpartition("/")[2] == INDEX_FILE:
        return True
    versions = (history.repository.content(id_, "blob") for id_ in (one.before, one.after) if id_)
    return any(read_entry(one.file, data).local_only for data in versions)


async def _why(call: Call) -> Answer:
    space = await call.space()
    memory = space.memory
    file = call.path["file"]
    hidden = await call.hidden(space)
    commits = await memory.log(limit=MAX_CHANGES, file=file) if is_topic(file) else []
    data = await asyncio.to_thread(_read, memory, file)
    hidden = await _with_forgotten(call, space, commits, hidden)
    if (data is None and not commits) or file in hidden.files:
        raise _no_memory(file)
    entry = read_entry(file, data or b"")
    doubted = await asyncio.to_thread(unconfirmed_changes, memory.location)
    homes = {memory.location.base, (await call.spaces.home(call.key)).home}
    words = await asyncio.to_thread(original_words, homes, entry.sources)
    return Answer(
        content={
            "file": file,
            "name": entry.title,
            "exists": data is not None,
            "origin": entry.origin,
            "sources": [*entry.sources],
            "unconfirmed": [*doubted.files.get(file, ())],
            "history": await _commits(space, commits, hidden),
            "words": [
                {
                    "session": each.session,
                    "message": each.message,
                    "role": each.role,
                    "text": hidden.without(each.text)
                    if call.key.local
                    else hidden.without(redact(each.text)),
                }
                for each in words
            ],
        }
    )


async def _undo(call: Call) -> Answer:
    space = await call.space()
    memory = space.memory
    async with space.changing:
        wanted = call.body.commit
        if not await memory.log(limit=1):
            raise ProblemError(HTTPStatus.NOT_FOUND, "nothing was changed yet, so there is nothing to undo")
        history = History(memory.location.history)
        try:
            chosen = await asyncio.to_thread(
                lambda: history.one(wanted) if wanted else newest_in_force(memory.location)
            )
        except StoreError as error:
            raise _no_commit(wanted) from error
        call.commit = await memory.undo(chosen.id, call.change(f"undo {chosen.id[:10]}"))
    return Answer(content={"undone": chosen.id, "commit": call.commit})


async def _proposals(call: Call) -> Answer:
    space = await call.space()
    hidden = await call.hidden(space)
    found = await asyncio.to_thread(waiting, space.memory.location, await space.listed.now())
    shown = [one for one in found if call.key.local or not _is_local_only(one, hidden)]
    rows = [
        one.as_json() | {"what": one.what, "diff": hidden.without("\n".join(one.diff()))} for one in shown
    ]
    return Answer(content={"proposals": rows})


def _is_local_only(one: Proposal, hidden: LocalOnlyEntries) -> bool:
    versions = (data for data in (one.before, one.after) if data is not None)
    return one.file in hidden.files or any(read_entry(one.file, data).local_only for data in versions)


async def _review(call: Call) -> Answer:
    space = await call.space()
    decision: ReviewDecision = call.body
    async with space.changing:
        hidden = await call.hidden(space)
        found = await asyncio.to_thread(waiting, space.memory.location)
        proposal = next((one for one in found if one.id == decision.id), None)
        if proposal is None or (not call.key.local and _is_local_only(proposal, hidden)):
            raise ProblemError(
                HTTPStatus.NOT_FOUND, f"there is no proposal {decision.id!r}; see GET /v1/review"
            )
        if decision.accept:
            call.commit = await accept(space.memory, proposal.id)
        else:
            await reject(space.memory, proposal.id)
    return Answer(content={"id": proposal.id, "file": proposal.file, "commit": call.commit})


async def _entry(call: Call, space: Space) -> tuple[Entry, str]:
    """Return the entry in the path with its body, and its version; raises if the client may not see it."""
    file = call.path["file"]
    memory = space.memory
    data = await asyncio.to_thread(_read, memory, file)
    head = next((one for one in await space.listed.now() if one.file == file), None)
    if data is None or head is None:
        raise _no_memory(file)
    entry = read_entry(file, data, written=head.written, indexed=head.indexed)
    if entry.local_only and not call.key.local:
        raise _no_memory(file)
    return entry, version_of(data)


def _read(memory: Memory, file: str) -> bytes | None:
    """Return the bytes of a topic file; None if there is none, or the name cannot be one."""
    try:
        return Folder(memory.location.directory).read(file) if is_topic(file) else None
    except (StoreError, OSError, ValueError):
        return None


def _no_memory(file: str) -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, f"there is no memory {file[:100]!r}; see GET /v1/memories")


def _no_commit(commit: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.NOT_FOUND, f"there is no commit {commit[:COMMIT_CHARS]!r}; see GET /v1/history"
    )


def _wanted_version(call: Call, version: str) -> str:
    """Return the version that a change is based on; raises if the client knows another one."""
    if call.if_match is None or call.if_match.strip() == "*":
        return version
    known = {one.strip().removeprefix("W/").strip('"') for one in call.if_match.split(",")}
    if version not in known:
        raise VersionConflict("the memory has changed since it was read; read it again and repeat the change")
    return version


def _whole_json(entry: Entry) -> JsonObject:
    return {
        **entry_json(entry),
        "body": entry.body,
        "sources": [*entry.sources],
        "created": entry.created.isoformat() if entry.created else None,
        "local_only": entry.local_only,
    }
