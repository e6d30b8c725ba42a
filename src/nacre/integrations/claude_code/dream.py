"""Consolidate memory by rule when a session of Claude Code has ended, if the gates are open (D1, D8)."""

from __future__ import annotations

import asyncio
from functools import partial

from nacre.app.memory_locations import memory_place
from nacre.app.model_layers import dream_target
from nacre.integrations.claude_code.input import HookInput
from nacre.integrations.claude_code.session_start import DREAM_FILE, typed
from nacre.layers.l6_dream.dream import dream
from nacre.layers.l6_dream.layer import dream_config, summary
from nacre.layers.l6_dream.policy import DreamConditions, closed_gate
from nacre.layers.l6_dream.state import DreamStateFile, recover
from nacre.memory.memory import Memory
from nacre.settings import Settings
from nacre.store import disk


def dream_if_due(hook: HookInput, settings: Settings) -> None:
    """Run a dream by rule if one is due; a line about it waits for the start of the next session."""
    location = memory_place(settings, "project")
    if settings.switches.dream is not False and next(location.directory.rglob("*.md"), None) is not None:
        asyncio.run(_dreamt(hook, settings))


async def _dreamt(hook: HookInput, settings: Settings) -> None:
    location = memory_place(settings, "project")
    memory = await Memory.at(location, hook.cwd, keeps_index=settings.memory.keeps_index)
    recover(location)
    target = dream_target(settings, memory, session=hook.session)
    state = DreamStateFile(location.cache).read()
    conditions = DreamConditions(
        now=target.clock.now(),
        is_remote=target.is_remote,
        last=partial(target.last_or_first, with_model=False),
        sessions=lambda since: len(target.sessions(since)),
        failures=lambda: (state.failures, state.last_failure),
        is_daily=target.is_daily,
    )
    if closed_gate(conditions, target.settings) or target.lock.holder() is not None:
        return
    line = summary(await dream(dream_config(target)))
    for command in ("nacre memory review", "nacre dream undo"):
        line = line.replace(command, typed(command, settings)) if command in line else line
    if line:
        path = location.cache / DREAM_FILE
        disk.make_folder(path.parent)
        disk.replace_file(path, f"nacre: {line}".encode(), temp_name=f".{DREAM_FILE}.tmp", sync=False)
