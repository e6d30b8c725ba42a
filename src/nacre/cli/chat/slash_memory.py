"""Slash commands for memories: those attached to a conversation and those it saved (Q6, E6)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.cli.output import print_error, printable
from nacre.context.recalled import recalled_in_view
from nacre.errors import NacreError
from nacre.formatting import shorten
from nacre.layers.l5_extract.extract import REASON, SHORT_COMMIT
from nacre.layers.l5_extract.layer import WORK
from nacre.memory.checks.review import confirm as confirm_memory
from nacre.memory.checks.review import unverified
from nacre.memory.daily_log import append_fact
from nacre.memory.files.folder import TEAM_PREFIX
from nacre.memory.files.undo import in_force, undo
from nacre.memory.format.entry import MemoryChange
from nacre.memory.format.index import INDEX_FILE

if TYPE_CHECKING:
    from nacre.app.open_agent import OpenedAgent
    from nacre.layers.l5_extract.extract import SavedMemories
    from nacre.memory.memory import Memory
    from nacre.store.history import Commit

UNDO = "undo"
ALL = "all"
PATIENCE_SECONDS = 2.0
"""How long to wait for background work before the list is shown: rules need far less, a model more."""
MAX_COMMITS = 200
"""Commits of a memory that are searched for those of one conversation."""
_CORRECTED = "corrected in a chat"
_FORGOTTEN = "forgotten in a chat"
_DONE = {
    "remember": "saved",
    REASON: "saved, as drawn from the conversation:",
    "correct": "corrected",
    _CORRECTED: "corrected",
    "forget": "forgot",
    _FORGOTTEN: "forgot",
}
"""What a change did, by its reason."""


_POINTS = re.compile(r"(?:that|this|it|das|dies|es|这个?|那个?|它|これ|それ)[\s.!。！]*", re.IGNORECASE)
"""Words that say nothing without what they point to."""


async def forget(ready: OpenedAgent, text: str) -> None:
    """`/forget N`: forget the memory with this number; without one, list them."""
    found = _selected(ready, text)
    if found is None:
        return
    memory, file = found
    try:
        entry, commit = await memory.forget(file, _by_hand(ready, _FORGOTTEN))
    except NacreError as error:
        print_error(str(error))
        return
    print(printable(f"forgot {entry.file}: {' '.join(entry.body.split())}"))
    print(f"`nacre memory undo {commit[:10]}` restores it; this conversation still contains it")


async def correct(ready: OpenedAgent, text: str) -> None:
    """`/correct N TEXT`: replace the text of a memory."""
    number, _, words = text.partition(" ")
    found = _selected(ready, number)
    if found is None:
        return
    if not words.strip():
        print_error(f"give the new text: /correct {number} TEXT")
        return
    memory, file = found
    try:
        saved = await memory.correct(file, words.strip(), _by_hand(ready, _CORRECTED), origin="user")
    except NacreError as error:
        print_error(str(error))
        return
    print(printable(f"corrected {saved.entry.file}; `nacre memory undo {saved.commit[:10]}` takes it back"))


async def remember(ready: OpenedAgent, text: str, *, is_daily: bool) -> None:
    """`/remember TEXT`: save the user's words as a memory, without the model."""
    if not text or _POINTS.fullmatch(text):
        print_error("give the text: /remember TEXT, or #TEXT")
        return
    if not ready.memories:
        print_error("memory is switched off here; `nacre doctor` says why")
        return
    memory = ready.memories[0]
    change = _by_hand(ready, "remember")
    try:
        if is_daily:
            logged = await append_fact(memory, text, change, clock=memory.clock)
            done = (
                f"logged in {logged.line.place}" if logged.commit else f"{logged.line.place} says so already"
            )
            print(printable(done))
            return
        saved = await memory.save(text, change)
    except NacreError as error:
        print_error(str(error))
        return
    if not saved.commit:
        print(printable(f"{saved.entry.file} says so already"))
        return
    did = "saved" if saved.before is None else "updated"
    print(printable(f"{did} {saved.entry.file}; /memory undo takes it back"))
    if saved.before is not None:
        print(printable(f"before, it said: {shorten(saved.before.body, 200)}"))
    if saved.feedback:
        print_error(saved.feedback)


async def confirm(ready: OpenedAgent, text: str) -> None:
    """`/confirm`: confirm the newest unverified memory of this conversation; `/confirm all` confirms each."""
    pending: dict[tuple[Memory, str], None] = {}
    for memory, commit in await _changes(ready):
        doubted = [one.file for one in await asyncio.to_thread(unverified, memory.location)]
        # A line of a daily log is named by its file and number.
        found = [one for one in reversed(doubted) if {one, one.rpartition(":")[0]} & {*commit.files}]
        pending |= dict.fromkeys((memory, file) for file in found)
    if not pending:
        print("nothing that this conversation saved is unverified; `nacre memory review` shows the rest")
    for memory, file in list(pending) if text == ALL else list(pending)[:1]:
        try:
            made = await confirm_memory(memory, file, _by_hand(ready, "confirmed in a chat"))
        except NacreError as error:
            print_error(str(error))
            return
        print(printable(f"confirmed {file}; `nacre memory undo {made[:SHORT_COMMIT]}` takes it back"))


async def saved_here(ready: OpenedAgent, text: str) -> None:
    """`/memory`: list changes that this conversation made to memory; `/memory undo` undoes the last (E6)."""
    extracting = ready.extract
    if extracting and not await ready.background.wait(WORK, PATIENCE_SECONDS):
        print("extraction is still running on the last messages")
    drawn = extracting.last if extracting else None
    proposed = drawn if drawn and drawn.is_proposed else None
    changes = await _changes(ready)
    if text == UNDO and changes:
        await _taken_back(ready, changes, drawn)
    elif text == UNDO and proposed:
        print_error("nothing was saved yet: `nacre memory review` accepts or rejects what was found")
    elif text and text != UNDO:
        print_error("type /memory or /memory undo; in a shell, `nacre memory --help` lists more")
    else:
        lines = [_describe(*one) for one in changes] + ([proposed.line] if proposed else [])
        for line in lines or [_nothing(ready)]:
            print(printable(line))


async def _changes(ready: OpenedAgent) -> list[tuple[Memory, Commit]]:
    """Return changes by this conversation that were not undone, newest first."""
    here = ready.agent.session.id
    found = [
        (memory, commit)
        for memory in ready.memories
        for commit in in_force(await memory.log(limit=MAX_COMMITS))
        if commit.session == here and _topics(memory, commit)
    ]
    return sorted(found, key=lambda one: one[1].at, reverse=True)


async def _taken_back(
    ready: OpenedAgent, changes: Sequence[tuple[Memory, Commit]], drawn: SavedMemories | None
) -> None:
    """Undo the newest change; everything extracted from one turn is undone together."""
    together = {commit for _, commit in drawn.commits} if drawn else set()
    last = (
        changes[:1] if changes[0][1].id not in together else [one for one in changes if one[1].id in together]
    )
    for memory, commit in last:
        change = _by_hand(ready, f"undo {commit.id[:SHORT_COMMIT]}: {commit.reason}")
        try:
            await undo(memory.location, commit.id, change=change, clock=memory.clock, watch=memory.watch)
        except NacreError as error:
            print_error(str(error))
            return
    files = ", ".join(file for one in last for file in _topics(*one))
    print(printable(f"took back {files}; this conversation has still read it"))


def _describe(memory: Memory, commit: Commit) -> str:
    scope = next((f"--scope {one} " for one in ("team", "user") if memory.location.source == one), "")
    done = _DONE.get(commit.reason, f"{commit.reason.partition(chr(10))[0]}:")
    files = ", ".join(_topics(memory, commit))
    return f"{done} {files} (undo: nacre memory undo {scope}{commit.id[:SHORT_COMMIT]})"


def _topics(memory: Memory, commit: Commit) -> list[str]:
    prefix = TEAM_PREFIX if memory.location.source == "team" else ""
    return [f"{prefix}{file}" for file in commit.files if file.rpartition("/")[2] != INDEX_FILE]


def _nothing(ready: OpenedAgent) -> str:
    if ready.extract is None:
        return "nothing was saved from this conversation, and none is drawn from it (see extract.mode)"
    return "nothing was saved from this conversation yet; `nacre memory list` shows what there is"


def _selected(ready: OpenedAgent, number: str) -> tuple[Memory, str] | None:
    """Return the memory with this number, or print the list."""
    paths = recalled_in_view(ready.agent.session.view)
    if not paths:
        print("no memory was attached to this conversation yet")
        return None
    if not (number.isdecimal() and 1 <= int(number) <= len(paths)):
        if number:
            print_error(f"no memory {shorten(number, SHORT_COMMIT)} is attached; give its number:")
        for place, path in enumerate(paths, 1):
            print(printable(f"{place:3} {path.name}"))
        print("/forget N forgets one, /correct N TEXT replaces its text")
        return None
    return _where(ready, paths[int(number) - 1])


def _where(ready: OpenedAgent, path: Path) -> tuple[Memory, str] | None:
    # The team's directory is inside the other one: the longest matching directory is meant.
    fitting = [one for one in ready.memories if path.is_relative_to(one.location.directory)]
    if not fitting:
        print_error(f"{path} is in no memory of this session")
        return None
    memory = max(fitting, key=lambda one: len(one.location.directory.parts))
    return memory, path.relative_to(memory.location.directory).as_posix()


def _by_hand(ready: OpenedAgent, reason: str) -> MemoryChange:
    return MemoryChange(author="user", reason=reason, session=ready.agent.session.id)
