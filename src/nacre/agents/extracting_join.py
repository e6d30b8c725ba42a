"""Tie layer 5 to a session: whether memories are drawn from it, by whom, and into which (E1)."""

from __future__ import annotations

from nacre.agents.agent import Agent
from nacre.agents.extracting import Extracting, Means
from nacre.agents.extracting_keep import nothing_hidden
from nacre.agents.forking import Forker
from nacre.agents.knowing import Known
from nacre.agents.siding import player
from nacre.layers.l5_extract.policy import Circumstances, is_wanted
from nacre.memory.directory import Memory
from nacre.settings import Settings


def join_extracting(
    agent: Agent, known: Known, settings: Settings, forker: Forker, *, leaves: bool
) -> Extracting | None:
    """Draw memories from a session where that is wanted; `leaves`: what its model is told leaves here."""
    memory, given = known.memory, settings.memory
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
        fork=player(settings.roles.extract, forker, settings) if can_write else None,
        origin_of=known.witness.origin_of,
        hidden=hidden if leaves else nothing_hidden,
        grounds=settings.switches.grounding,
    )
    extracting = Extracting(agent.session, forker.background, means, settings.extract)
    agent.session.layers.append(extracting)
    return extracting
