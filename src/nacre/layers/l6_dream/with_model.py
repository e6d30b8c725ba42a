"""A dream by a model: an agent that works in a copy of the directory and can reach nothing else (D3, D4)."""

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
from nacre.layers.l6_dream.copy import Copy, is_index, is_log, is_topic
from nacre.layers.l6_dream.policy import DREAM, DreamSettings
from nacre.loop.fork import Fork, ForkResult, ForkTask, Source
from nacre.memory.files.containment import inside
from nacre.memory.files.folder import Folder, is_ours
from nacre.memory.files.scan import manifest_line
from nacre.messages.events import Reply
from nacre.messages.view import View
from nacre.store import disk
from nacre.tools.policy import Narrowing

Write: TypeAlias = Callable[[Path, bytes], None]
"""Gives a file its content, or raises `ToolError`."""
SOURCE: Source = "auto_dream"
TOOLS = frozenset({"Read", "Grep", "Glob", "Bash", "Edit", "Write"})
"""Bash only as far as it provably reads (E5)."""
DIRECTIVE = prompts.load("nacre.layers.l6_dream", "dream")
CORRECT = prompts.load("nacre.layers.l6_dream", "correct")
MAX_LISTED = 200
"""Memories in the manifest, as a selector gets them (R3); the rest can be listed with a tool."""
MAX_SESSIONS = 50
UPDATED = "brought up to date"
_REMOVED = re.compile(r"\s*REMOVED:\s*(merged into|contradicted by|expired)\b[ :]*`?([^\s`]*)`?[^\n]*\s*")

_DROPPED = re.compile(r"^[\s>*-]*`?DROPPED:\s*(?P<what>.+?)\s+because\s+(?P<why>\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dreamer:
    """Who dreams, and what it may be told."""

    fork: Fork
    model: str
    open_to: Callable[[Path, Write], AbstractContextManager[None]]
    """Has what tools write below a folder go through a function, as long as the block lasts."""
    transcripts: Sequence[Path] = ()
    said: Callable[[], Sequence[str]] = field(default=tuple)
    """What people said in the sessions under review."""
    outside: Callable[[], Sequence[str]] = field(default=tuple)
    """What tools said in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Where and how far it works, and who is told while it goes on."""

    folder: Path
    """Real, and its own: what lies there is removed first."""
    today: date
    sessions: Sequence[str] = ()
    settings: DreamSettings = DREAM
    wrote: Callable[[str], None] = field(default=lambda file: None)
    heard: Callable[[Reply], None] = field(default=lambda reply: None)


async def with_model(copy: Copy, dreamer: Dreamer, order: Order, *, wrong: Sequence[str] = ()) -> ForkResult:
    """Let a model work on the copy, laid out in a folder; what it did stands in the copy afterwards.

    `wrong` is what was objected to the first time.
    """
    folder = order.folder
    hidden = frozenset(file for file in copy.now if is_topic(file) and _is_hidden(copy, file))
    await asyncio.to_thread(_lay_out, copy, folder, hidden)
    told = directive(copy, order, transcripts=dreamer.transcripts, hidden=hidden)
    if wrong:
        told = prompts.render(CORRECT, dream=told, problems="\n".join(f"- {one}" for one in wrong))
    transcripts = tuple(one.resolve() for one in dreamer.transcripts)
    with dreamer.open_to(folder, _guarded(copy, order)):
        forked = await dreamer.fork(
            ForkTask(
                source=SOURCE,
                directive=told,
                may=Narrowing(tools=TOOLS, writes_in=(folder,), reads_in=transcripts),
                max_rounds=order.settings.max_rounds,
                view=View(),
                on_reply=order.heard,
            )
        )
    await asyncio.to_thread(_take_back, copy, folder, hidden, dropped(forked))
    return forked


def dropped(forked: ForkResult) -> dict[str, str]:
    """The names and numbers that the model said it took out, with its reasons."""
    found = (match for reply in forked.replies for match in _DROPPED.finditer(reply.text))
    return {match["what"].strip("`'\" "): match["why"].rstrip("` ") for match in found}


def directive(
    copy: Copy, order: Order, *, transcripts: Sequence[Path] = (), hidden: frozenset[str] = frozenset()
) -> str:
    """What a model is asked to do; nothing in it names what must not leave the machine."""
    shown = [topic.entry for topic in copy.topics() if topic.entry.file not in hidden]
    rows = [manifest_line(entry) for entry in shown[:MAX_LISTED]]
    if len(shown) > MAX_LISTED:
        rows.append(f"- and {len(shown) - MAX_LISTED} more files")
    return prompts.render(
        DIRECTIVE,
        directory=str(order.folder),
        transcripts=", ".join(map(str, transcripts)) or "(none)",
        sessions=", ".join(order.sessions[:MAX_SESSIONS]) or "(none)",
        pinned=", ".join(sorted(copy.pinned - hidden)) or "(none)",
        theirs=", ".join(sorted(file for file in copy.theirs - hidden if is_topic(file))) or "(none)",
        today=order.today.isoformat(),
        manifest="\n".join(rows) or "(none yet)",
    )


def _is_hidden(copy: Copy, file: str) -> bool:
    """Local-only memories are shown to no model, untrusted ones are promoted by no dream (M16b, M27)."""
    entry = copy.topic(file).entry
    return entry.local_only or entry.origin == "untrusted"


def _lay_out(copy: Copy, folder: Path, hidden: frozenset[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    disk.make_folder(folder)
    for file, data in copy.now.items():
        if file not in hidden:
            path = folder / file
            disk.make_folder(path.parent)
            path.write_bytes(data)
            path.chmod(disk.FILE_MODE)


def _guarded(copy: Copy, order: Order) -> Write:
    """Every write of a tool below the folder is looked at first: what must stay is refused at once."""
    folder = order.folder

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
        order.wrote(file)

    return write


def _take_back(copy: Copy, folder: Path, hidden: frozenset[str], reasons: Mapping[str, str]) -> None:
    """Read what is in the folder now into the copy, with the reasons that were given."""
    there = Folder(folder)
    files = {file: data for file in there.scan() if (data := there.read(file)) is not None}
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
    # Last, because its lines are held to what the memories say now.
    for file in filter(is_index, changed):
        data, told = supported_index(copy, file, changed[file])
        copy.write(file, data, "; ".join([UPDATED, *told]))


def _write(copy: Copy, file: str, data: bytes, reasons: Mapping[str, str]) -> None:
    copy.by_model.add(file)
    before = copy.now.get(file)
    if before is None:
        copy.write(file, _vouched(file, data), "learnt from sessions")
        return
    old = before.decode(errors="replace")
    told = [f"dropped {what} because {why}" for what, why in reasons.items() if what in old]
    copy.write(file, data, "; ".join([UPDATED, *told]))


def _vouched(file: str, data: bytes) -> bytes:
    """A new memory is an agent's word, whatever its text says: the person has not seen it (M16b)."""
    topic = Copy({file: data}).topic(file)
    return topic.document.with_fields(origin="agent") if topic.entry.origin == "user" else data


def _remove(copy: Copy, file: str, reason: str, into: str) -> None:
    """Take a memory away, unless what should stand for it is only proposed so far."""
    waits = any(one.file == into for one in copy.proposals)
    if file in copy.theirs or (waits and file not in copy.pinned):
        copy.propose(file, None, reason)
    elif copy.is_free(file):
        copy.remove(file, reason, into=into)


def _removal(data: bytes) -> tuple[str, str] | None:
    """The reason a tombstone gives, and the memory that stands for what it said."""
    found = _REMOVED.fullmatch(data.decode(errors="replace"))
    if found is None:
        return None
    into = "" if found[1] == "expired" else found[2].removeprefix("./").rstrip(".,;")
    if into and not into.endswith(".md"):
        into += ".md"
    return f"{found[1]} {into}".strip(), into
