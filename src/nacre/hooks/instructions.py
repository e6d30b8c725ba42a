"""Tells the person's commands which files of instructions have come in; nobody waits for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count

from nacre.context.instruction_updates import InstructionUpdates
from nacre.hooks.points import Hooks
from nacre.memory.instructions.load import InstructionFile
from nacre.messages.blocks import JsonObject
from nacre.session.background import Background
from nacre.session.session import Session

EVENT = "InstructionsLoaded"
AT_ONCE = 4
"""Files that commands are told of side by side: a folder of rules has dozens, and a turn is under way."""
REASONS: Mapping[str, str] = {
    "start": "session_start",
    "include": "include",
    "scoped": "path_glob_match",
    "nested": "nested_traversal",
}
"""What Claude Code calls that which made a file load."""
AGAIN = "compact"
"""The same for a file that a compaction has had read again."""


def join_instructions(session: Session, hooks: Hooks, background: Background) -> None:
    """Have commands told of every file, in the background, once for each time it comes in."""
    announcer = session.layer(InstructionUpdates)
    if announcer is None or not hooks.waits_at(EVENT):
        return
    runs = count(1)

    def loaded(files: Sequence[InstructionFile], is_again: bool) -> None:
        told = [_told(file, is_again=is_again) for file in files]
        due = [one for one in told if hooks.waits_at(EVENT, str(one["load_reason"]))]
        if due:
            background.start(f"hooks {next(runs)}", _tell(hooks, due), told="finishing hooks")

    announcer.on_loaded = loaded


async def _tell(hooks: Hooks, due: Sequence[JsonObject]) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def tell(one: JsonObject) -> None:
        async with places:
            await hooks.instructions_loaded(one)

    async with asyncio.TaskGroup() as group:
        for one in due:
            group.create_task(tell(one))


def _told(file: InstructionFile, *, is_again: bool) -> JsonObject:
    told: JsonObject = {
        "file_path": str(file.path),
        "memory_type": file.kind.capitalize(),
        "load_reason": AGAIN if is_again else REASONS[file.reason],
    }
    if file.because is not None:
        told["parent_file_path" if file.reason == "include" else "trigger_file_path"] = str(file.because)
    return told
