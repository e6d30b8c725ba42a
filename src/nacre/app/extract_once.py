"""Extraction by rule from messages of another program's session, without a session of nacre (E1, E10)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import VersionConflict
from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.layers.l5_extract.extract import (
    SavedMemories,
    changes_by_rule,
    memory_manifest,
    nothing_hidden,
    save_changes,
)
from nacre.layers.l5_extract.judge import Judge, NewMessages
from nacre.memory.memory import Memory
from nacre.memory.tools import BY_AGENT, OriginJudge
from nacre.settings import Settings

TRIES = 5
"""Attempts to save while other processes write."""


async def extract_once(
    memory: Memory,
    heard: NewMessages,
    settings: Settings,
    *,
    session: str,
    origins: OriginJudge = BY_AGENT,
    clock: Clock = SYSTEM_CLOCK,
) -> SavedMemories:
    """Save, or propose, what the person stated in these messages."""
    _, names = await memory_manifest([memory], nothing_hidden)
    zone = clock.now().astimezone().tzinfo
    assert zone is not None, "a local time has a zone"
    judge = Judge(
        messages=heard,
        session=session,
        now=clock.now(),
        zone=zone,
        origins=origins,
        names=names,
        grounds=settings.switches.grounding,
    )
    found = await asyncio.to_thread(stated_facts, heard.quotes, zone=zone)

    async def saved() -> SavedMemories:
        new = await changes_by_rule(memory, found, judge, session=session)
        return await save_changes(
            new.changes, removed=new.removed, mode=settings.extract.mode, session=session
        )

    for _ in range(TRIES - 1):
        # Another process wrote on the same subject meanwhile: read that first.
        with suppress(VersionConflict):
            return await saved()
    return await saved()
