"""A memory opened as the settings say, for a program without a session."""

from __future__ import annotations

import os
from pathlib import Path

from nacre.app.memory_locations import Whose, memory_place
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.memory import Memory
from nacre.settings import Settings, load


async def open_memory(
    settings: Settings | None = None, *, scope: Whose = "project", clock: Clock = SYSTEM_CLOCK
) -> Memory:
    """The memory that `nacre memory` shows for the working directory, made ready for use.

    `scope` says whose: this `project`'s, the `team`'s, or the `user`'s own, which holds in every project.
    """
    settings = settings or load(Path.cwd(), os.environ)
    keeps_index = scope != "project" or settings.memory.keeps_index
    return await Memory.at(memory_place(settings, scope), settings.cwd, clock=clock, keeps_index=keeps_index)
