"""Adds extraction and consolidation of memory, layers 5 and 6, to a session as the settings say (E1, D1)."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack

from nacre.agents.toolset import Toolset
from nacre.app.model_for_role import model_for_role
from nacre.app.startup_context import StartupContext
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError
from nacre.layers.l5_extract.extract import nothing_hidden
from nacre.layers.l5_extract.layer import Extract, ExtractConfig
from nacre.layers.l5_extract.policy import ExtractEnvironment, is_enabled
from nacre.layers.l6_dream.dream import recover
from nacre.layers.l6_dream.layer import Dream, DreamTarget, dream_model
from nacre.layers.l6_dream.with_model import DreamModel
from nacre.memory.memory import Memory
from nacre.session.agent import SessionAgent
from nacre.session.forks import ForkRunner
from nacre.settings import Settings


def add_extract(
    agent: SessionAgent, startup: StartupContext, settings: Settings, forks: ForkRunner, *, leaves: bool
) -> Extract | None:
    """Add extraction to a session if it is enabled; `leaves` whether its model is on another machine."""
    memory = startup.memory
    given = settings.memory
    environment = ExtractEnvironment(
        switch=settings.switches.extract is not False,
        is_kept=bool(startup.session),
        is_bare=given.simple,
        is_remote=given.remote,
        is_interactive=settings.is_interactive,
        is_daily=given.mode == "daily",
    )
    if memory is None or not is_enabled(environment, settings.extract):
        return None

    async def hidden(one: Memory) -> frozenset[str]:
        return await startup.local_only.files_of(one.location)

    can_write = {"Edit", "Write"} <= agent.tools.keys()
    config = ExtractConfig(
        memories=[one for one in (startup.team, memory) if one is not None],
        others=[startup.users] if startup.users else [],
        fork=model_for_role(settings.roles.extract, forks, settings) if can_write else None,
        origin_of=startup.origin_tracker.origin_of,
        hidden=hidden if leaves else nothing_hidden,
        grounds=settings.switches.grounding,
    )
    layer = Extract(agent.session, forks.background, config, settings.extract)
    agent.session.layers.append(layer)
    return layer


async def add_dream(
    agent: SessionAgent,
    startup: StartupContext,
    toolset: Toolset,
    settings: Settings,
    forks: ForkRunner,
    stack: AsyncExitStack,
) -> Dream | None:
    """Add consolidation to a session that has a memory and a log, unless it is switched off."""
    session = agent.session
    memory = startup.memory
    if memory is None or not startup.session or settings.switches.dream is False:
        return None
    target = dream_target(settings, memory, session=startup.session, clock=session.clock)
    # Done once here, so that each turn costs one stat. A session starts even if this cannot be written.
    with contextlib.suppress(NacreError, OSError):
        await asyncio.to_thread(recover, memory.location, clock=session.clock)
    # A single prompt does not wait for a model at its end; consolidation by rule takes a moment.
    model = model_for_dream(target, settings, forks, toolset) if settings.is_interactive else None
    layer = Dream(target, forks.background, model, notify=session.notify)
    session.layers.append(layer)
    stack.callback(layer.keep_counts)
    return layer


def dream_target(
    settings: Settings, memory: Memory, *, session: str = "", clock: Clock = SYSTEM_CLOCK
) -> DreamTarget:
    """Return a memory as the target of a dream, with what the settings say about it."""
    return DreamTarget(
        memory=memory,
        home=settings.home,
        root=settings.project_root,
        settings=settings.dream,
        checks_drift=settings.switches.drift_check,
        has_index=settings.memory.index,
        is_daily=settings.memory.mode == "daily",
        is_remote=settings.memory.remote,
        session=session,
        clock=clock,
    )


def model_for_dream(
    target: DreamTarget, settings: Settings, forks: ForkRunner, toolset: Toolset
) -> DreamModel | None:
    """Return the model for a dream; None if only rules are available (F7)."""
    fork = model_for_role(settings.roles.dream, forks, settings)
    base = forks.session.base
    if fork is None or not any(tool["name"] == "Write" for tool in base.tools):
        return None
    return dream_model(target, fork, settings.roles.dream or base.model, toolset.workspace)
