"""Adds the first layers of a session, in the order in which the model reads what they attach."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from nacre.agents.announcing import Announcer
from nacre.agents.clearing import join_clearing
from nacre.agents.clearing_there import join_declared_clearing, join_server_edits
from nacre.agents.counting import Counting
from nacre.agents.dating import Calendar
from nacre.agents.hands import Hands
from nacre.agents.knowing import Known
from nacre.agents.offloading import join_offloading
from nacre.agents.recall_once import drift_of
from nacre.agents.recalling import PURPOSE, Aid, Recaller, Selector
from nacre.agents.session import Session
from nacre.agents.snipping import join_snipping
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.semantic.meaning import meaning
from nacre.memory.recall.word_cache import WordCache
from nacre.providers.choose import build, choose, leaves_machine, small_model
from nacre.settings import Settings
from nacre.tools.base import Tool

RECALL_DRIFT_SECONDS = 0.010
"""Of the 20 ms that recall may take of a turn: of what is not reached in it is said that nobody checked."""


def join(session: Session, known: Known, hands: Hands, *, leaves: bool) -> None:
    """Tie everything that was opened for a session to it; `leaves` as in `recollect`."""
    known.witness.attend(session.transcript)
    session.telemetry.hides_words = not leaves
    if leaves:
        session.redactor = known.stays
    session.layers.append(Calendar(session.clock))
    if known.instructions is not None:
        session.layers.append(Announcer(known.instructions, hands.workspace, session.view))


def join_layers(
    session: Session, hands: Hands, settings: Settings, *, tools: Sequence[Tool], folder: Path | None
) -> None:
    """Let the layers that are switched on make the view smaller, cheapest first, with files in `folder`."""
    join_offloading(session, settings, hands, tools=tools, folder=folder)
    join_declared_clearing(session, settings)
    join_snipping(session, settings, hands)
    join_clearing(session, settings, hands, tools=tools, folder=folder)
    join_server_edits(session, settings)


async def join_recall(
    session: Session, known: Known, hands: Hands, settings: Settings, stack: AsyncExitStack, *, leaves: bool
) -> Recaller | None:
    """Let recall add memories to the messages of a session, if there are any and it is switched on (R1)."""
    if not (known.memories and settings.switches.recall):
        return None
    keeps = bool(known.session)
    rankers = [
        LocalIndex(
            one.location.directory,
            one.location.cache,
            writes=keeps,
            meaning=meaning(one.location.cache, writes=keeps),
            clock=session.clock,
        )
        for one in known.memories
    ]
    for ranker in rankers:
        stack.callback(ranker.close)
    words = WordCache(known.memories[0].location.cache, settings.project_root)
    checked = drift_of(settings, words, budget_seconds=RECALL_DRIFT_SECONDS)
    aid = Aid(
        drift=checked if settings.switches.drift_check else None,
        words=words if keeps else None,
        selector=_selector(session, settings, stack),
        counting=Counting(known.memories, known.session, session.clock) if keeps else None,
    )
    recaller = Recaller(rankers, hands.workspace, session.clock, aid=aid, hides_local=leaves)
    session.layers.append(recaller)
    stack.push_async_callback(recaller.close)
    await recaller.warm()
    return recaller


def _selector(session: Session, settings: Settings, stack: AsyncExitStack) -> Selector | None:
    """The small model that chooses, where one is named, or where the person wants it and there is one."""
    wanted, named = settings.switches.recall_selector, settings.roles.select or settings.small_model
    if wanted is False or (wanted == "auto" and named is None):
        return None
    choice = choose(named or small_model(choose(settings.model, settings.environ)), settings.environ)
    if choice.provider_name == "embedded":
        return None
    provider = build(choice, settings.environ)
    stack.push_async_callback(provider.close)
    return Selector(
        provider=session.telemetry.aside(provider, PURPOSE),
        model=choice.model,
        pay=session.pay,
        leaves=leaves_machine(choice, settings.environ),
    )
