"""Whether the agent itself has written to memory since the cursor: then nobody writes it down again (E3).

Judged by what became of the directories, not by what was called: every tool and every form of a path counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from nacre.errors import StoreError
from nacre.layers.l5_extract.judging import Heard
from nacre.memory.directory import Memory
from nacre.memory.transaction import pick_up
from nacre.messages.records import Noted
from nacre.store.history import History
from nacre.tools.rules import EDITORS, READERS
from nacre.tools.shell import explain

Heads: TypeAlias = "dict[Memory, str]"
"""The newest commit of each memory when the cursor was set."""
MAX_COMMITS = 200
"""So many changes are looked through: one turn does not make more, and a strange history must not hold us."""
_MEMORY = frozenset({"correct", "forget", "remember"})
_HARMLESS = READERS | {"Pin", "Snip", "TaskList", "WebFetch", "recall"}


def heads_of(memories: Sequence[Memory], note: Noted | None = None) -> Heads:
    """Where the histories stand now, or stood when the note was written."""
    noted = note.fact("commits") if note else None
    known = noted if isinstance(noted, dict) else {}
    return {one: str(known.get(str(one.location.directory)) or _newest(one)) for one in memories}


async def wrote_itself(heard: Heard, heads: Heads, *, session: str) -> bool:
    """Whether one of the calls that were heard changed a memory."""
    suspects = [name for name, command in heard.calls if not _only_reads(name, command)]
    if not suspects:
        return False
    # A shell leaves no name in the history; what changed beside it while it ran may be its doing.
    has_shell = any(name not in EDITORS | _MEMORY for name in suspects)
    for memory, head in heads.items():
        is_there = memory.location.directory.is_dir()
        if is_there and await _has_written(memory, head, session=session, has_shell=has_shell):
            return True
    return False


async def _has_written(memory: Memory, head: str, *, session: str, has_shell: bool) -> bool:
    await pick_up(memory.location, clock=memory.clock)
    for commit in await memory.log(limit=MAX_COMMITS):
        if commit.id == head:
            return False
        if commit.author == "agent" and commit.session == session:
            return True
        if commit.author == "unconfirmed" and has_shell:
            return True
    return False


def _only_reads(name: str, command: str) -> bool:
    return name in _HARMLESS or (name == "Bash" and explain(command).read_only)


def _newest(memory: Memory) -> str:
    try:
        return History(memory.location.history).newest
    except StoreError:
        return ""
