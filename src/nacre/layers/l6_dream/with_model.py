"""A dream by a model: an agent works in a copy of the directory and can write nowhere else (D3, D4)."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TypeAlias

from nacre import prompts
from nacre.errors import StoreError, ToolError
from nacre.layers.l6_dream.by_rule_index import supported_index
from nacre.layers.l6_dream.copy import DirectoryCopy, is_index, is_log, is_topic
from nacre.layers.l6_dream.policy import DREAM, DreamSettings
from nacre.loop.fork import Fork, ForkResult, ForkTask, RequestSource
from nacre.memory.files.containment import inside
from nacre.memory.files.folder import Folder, is_ours
from nacre.memory.files.scan import manifest_line
from nacre.messages.events import Reply
from nacre.messages.view import View
from nacre.store import disk
from nacre.tools.policy import Narrowing

Write: TypeAlias = Callable[[Path, bytes], None]
"""Writes a file, or raises `ToolError`."""
SOURCE: RequestSource = "auto_dream"
TOOLS = frozenset({"Read", "Grep", "Glob", "Bash", "Edit", "Write"})
"""Bash only for commands that provably read (E5)."""
DIRECTIVE = prompts.load("nacre.layers.l6_dream", "dream")
CORRECT = prompts.load("nacre.layers.l6_dream", "correct")
MAX_LISTED = 200
"""Memories in the manifest, as for the recall selector (R3); the rest can be listed with a tool."""
MAX_SESSIONS = 50
UPDATED = "brought up to date"
_REMOVED = re.compile(r"\s*REMOVED:\s*(merged into|contradicted by|expired)\b[ :]*`?([^\s`]*)`?[^\n]*\s*")

_DROPPED = re.compile(r"^[\s>*-]*`?DROPPED:\s*(?P<what>.+?)\s+because\s+(?P<why>\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamModel:
    """The model of a dream, and what it works with."""

    fork: Fork
    name: str
    writes_through: Callable[[Path, Write], AbstractContextManager[None]]
    """Within the block, what tools write below a folder is written by this function."""
    transcripts: Sequence[Path] = ()
    """The folders of session logs that it may search."""
    user_texts: Callable[[], Sequence[str]] = field(default=tuple)
    """Returns the user's messages in the reviewed sessions."""
    tool_texts: Callable[[], Sequence[str]] = field(default=tuple)
    """Returns the output of tools in the reviewed sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamTask:
    """Where a model works, its limits, and callbacks for its progress."""

    folder: Path
    """A real path of its own; its content is removed first."""
    today: date
    sessions: Sequence[str] = ()
    settings: DreamSettings = DREAM
    on_write: Callable[[str], None] = field(default=lambda file: None)
    on_reply: Callable[[Reply], None] = field(default=lambda reply: None)


async def with_model(
    copy: DirectoryCopy, model: DreamModel, task: DreamTask, *, problems: Sequence[str] = ()
) -> ForkResult:
    """Let a model change the copy, written out to a folder; `problems` are those of its first attempt."""
    folder = task.folder
    # Local-only memories are shown to no model; untrusted ones are not made trusted by a dream (M16b, M27).
    hidden = frozenset(
        topic.entry.file for topic in copy.topics() if topic.entry.local_only or not topic.entry.is_trusted
    )
    await asyncio.to_thread(_write_out, copy, folder, hidden)
    text = directive(copy, task, transcripts=model.transcripts, hidden=hidden)
    if problems:
        text = prompts.render(CORRECT, dream=text, problems="\n".join(f"- {one}" for one in problems))
    transcripts = tuple(one.resolve() for one in model.transcripts)
    with model.writes_through(folder, _checked_write(copy, task)):
        result = await model.fork(
            ForkTask(
                source=SOURCE,
                directive=text,
                access=Narrowing(tools=TOOLS, writes_in=(folder,), reads_in=transcripts),
                max_rounds=task.settings.max_rounds,
                view=View(),
                on_reply=task.on_reply,
            )
        )
    await asyncio.to_thread(_read_back, copy, folder, hidden, dropped(result))
    return result


def dropped(result: ForkResult) -> dict[str, str]:
    """Return the names and numbers that the model declared as removed, with its reasons."""
    found = (match for reply in result.replies for match in _DROPPED.finditer(reply.text))
    return {match["what"].strip("`'\" "): match["why"].rstrip("` ") for match in found}


def directive(
    copy: DirectoryCopy,
    task: DreamTask,
    *,
    transcripts: Sequence[Path] = (),
    hidden: frozenset[str] = frozenset(),
) -> str:
    """Return the prompt for the model; hidden memories are not mentioned in it."""
    shown = [topic.entry for topic in copy.topics() if topic.entry.file not in hidden]
    rows = [manifest_line(entry) for entry in shown[:MAX_LISTED]]
    if len(shown) > MAX_LISTED:
        rows.append(f"- and {len(shown) - MAX_LISTED} more files")
    return prompts.render(
        DIRECTIVE,
        directory=str(task.folder),
        transcripts=", ".join(map(str, transcripts)) or "(none)",
        sessions=", ".join(task.sessions[:MAX_SESSIONS]) or "(none)",
        pinned=", ".join(sorted(copy.pinned - hidden)) or "(none)",
        theirs=", ".join(sorted(file for file in copy.by_person - hidden if is_topic(file))) or "(none)",
        today=task.today.isoformat(),
        manifest="\n".join(rows) or "(none yet)",
    )


def _write_out(copy: DirectoryCopy, folder: Path, hidden: frozenset[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    disk.make_folder(folder)
    for file, data in copy.now.items():
        if file not in hidden:
            path = folder / file
            disk.make_folder(path.parent)
            path.write_bytes(data)
            path.chmod(disk.FILE_MODE)


def _checked_write(copy: DirectoryCopy, task: DreamTask) -> Write:
    """Return a write function that refuses changes to files that must stay."""
    folder = task.folder

    def write(path: Path, content: bytes) -> None:
        file = path.relative_to(folder).as_posix()
        if not is_ours(file):
            raise ToolError(f"{file} is no memory file; choose a name that ends in .md.")
        if file in copy.pinned:
            raise ToolError(f"{file} is pinned: leave it as it is.")
        if is_log(file):
            raise ToolError(f"{file} is a day's log, and logs are kept as they are.")
        inside(folder, file)
        disk.make_folder(path.parent)
        disk.replace_file(path, content, temp_name=".writing.tmp", sync=False)
        task.on_write(file)

    return write


def _read_back(copy: DirectoryCopy, folder: Path, hidden: frozenset[str], reasons: Mapping[str, str]) -> None:
    """Take over what the model changed in the folder into the copy, with the reasons that it gave."""
    source = Folder(folder)
    files = {file: data for file in source.scan() if (data := source.read(file)) is not None}
    for gone in copy.now.keys() - files.keys() - hidden:
        raise StoreError(f"{gone} is gone from the copy without a word; nothing is taken over")
    removed = {file: found for file, data in files.items() if (found := _removal(data))}
    changed = {
        file: data
        for file, data in sorted(files.items())
        if file not in removed and data != copy.now.get(file)
    }
    for file in filter(is_topic, changed):
        _write(copy, file, changed[file], reasons)
    for file, (reason, into) in sorted(removed.items()):
        if file in copy.now:
            _remove(copy, file, reason, into)
    # Indexes come last, because their lines are checked against the memories as they are now.
    for file in filter(is_index, changed):
        data, corrections = supported_index(copy, file, changed[file])
        copy.write(file, data, "; ".join([UPDATED, *corrections]))


def _write(copy: DirectoryCopy, file: str, data: bytes, reasons: Mapping[str, str]) -> None:
    copy.by_model.add(file)
    before = copy.now.get(file)
    if before is None:
        topic = DirectoryCopy({file: data}).topic(file)
        # A new memory is the agent's statement, whatever its text says: the person has not seen it (M16b).
        new = topic.document.with_fields(origin="agent") if topic.entry.origin == "user" else data
        copy.write(file, new, "new, from sessions or logs")
        return
    old = before.decode(errors="replace")
    lost = [f"dropped {what} because {why}" for what, why in reasons.items() if what in old]
    copy.write(file, data, "; ".join([UPDATED, *lost]))


def _remove(copy: DirectoryCopy, file: str, reason: str, into: str) -> None:
    """Remove a memory; only propose that if its replacement is itself only a proposal."""
    is_pending = any(one.file == into for one in copy.proposals)
    if file in copy.by_person or (is_pending and file not in copy.pinned):
        copy.propose(file, None, reason)
    elif copy.is_free(file):
        copy.remove(file, reason, into=into)


def _removal(data: bytes) -> tuple[str, str] | None:
    """Return the reason that a `REMOVED:` file gives and the memory that replaces it, or None."""
    found = _REMOVED.fullmatch(data.decode(errors="replace"))
    if found is None:
        return None
    into = "" if found[1] == "expired" else found[2].removeprefix("./").rstrip(".,;")
    if into and not into.endswith(".md"):
        into += ".md"
    return f"{found[1]} {into}".strip(), into
