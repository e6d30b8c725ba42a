"""Slash commands that make the conversation shorter, and longer again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.agents.compacting import undo_compaction
from nacre.agents.compaction import CompactionRequest
from nacre.cli.compacting import compaction_lines, progress
from nacre.cli.output import print_error

if TYPE_CHECKING:
    from nacre.agents.opening import Ready

UNDO = "undo"


async def compact_now(ready: Ready, focus: str) -> None:
    """`/compact [focus]`: do it now, and say what became of the conversation."""
    session = ready.agent.session
    try:
        async with progress() as say:
            done = await ready.compacting.compact(CompactionRequest(focus=focus, on_progress=say))
    finally:
        for notice in session.notices():
            print_error(notice.text)
    words, undo = ready.compacting.desk.where.words, f"/compact {UNDO} takes this back"
    print("\n".join(compaction_lines(done, session.id, undo=undo, words_file=words)))


async def take_back(ready: Ready) -> bool:
    """`/compact undo`: let the newest compaction count no longer; whether there was one."""
    session = ready.agent.session
    record = await undo_compaction(session)
    if record is None:
        print("there is no compaction to take back")
        return False
    print(f"took back the compaction of {record.at.astimezone():%H:%M:%S}")
    return True
