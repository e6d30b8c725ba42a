"""Tie layer 5 to a session: whether memories are drawn from it, by whom, and into which (E1)."""

from __future__ import annotations

from nacre.app.model_for_role import model_for_role
from nacre.app.startup_context import StartupContext
from nacre.layers.l5_extract.layer import Extract, Means
from nacre.layers.l5_extract.policy import Circumstances, is_wanted
from nacre.layers.l5_extract.saving import nothing_hidden
from nacre.memory.memory import Memory
from nacre.session.agent import Agent
from nacre.session.forks import ForkRunner
from nacre.settings import Settings


def join_extracting(
    agent: Agent, known: StartupContext, settings: Settings, forker: ForkRunner, *, leaves: bool
) -> Extract | None:
    """Draw memories from a session where that is wanted; `leaves`: what its model is told leaves here."""
    memory = known.memory
    given = settings.memory
    here = Circumstances(
        switch=settings.switches.extract is not False,
        is_kept=bool(known.session),
        is_bare=given.simple,
        is_remote=given.remote,
        is_interactive=settings.is_interactive,
        is_daily=given.mode == "daily",
    )
    if memory is None or not is_wanted(here, settings.extract):
        return None

    async def hidden(one: Memory) -> frozenset[str]:
        return await known.stays.files_of(one.location)

    can_write = {"Edit", "Write"} <= agent.tools.keys()
    means = Means(
        memories=[one for one in (known.team, memory) if one is not None],
        others=[known.users] if known.users else [],
        fork=model_for_role(settings.roles.extract, forker, settings) if can_write else None,
        origin_of=known.witness.origin_of,
        hidden=hidden if leaves else nothing_hidden,
        grounds=settings.switches.grounding,
    )
    extracting = Extract(agent.session, forker.background, means, settings.extract)
    agent.session.layers.append(extracting)
    return extracting
