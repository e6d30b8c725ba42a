"""From settings to an agent that is ready to run: provider, tools, session, on disk or not."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from nacre import prompts
from nacre.agents.agent import Agent
from nacre.agents.background import Background
from nacre.agents.compacting import Compacting
from nacre.agents.compacting_join import Staff, join_compacting
from nacre.agents.dreaming import Dreaming, join_dreaming
from nacre.agents.extracting import Extracting
from nacre.agents.extracting_join import join_extracting
from nacre.agents.forking import Forker, join_forks
from nacre.agents.given import check_given, check_tools
from nacre.agents.hands import Hands, take_up
from nacre.agents.hooks import Hooks, join_hooks
from nacre.agents.hooks_instructions import join_instructions
from nacre.agents.joining import join, join_layers, join_recall
from nacre.agents.kept import Opened, mend, start
from nacre.agents.kept import resume as resume_log
from nacre.agents.knowing import Known, recollect, suited
from nacre.agents.mail_join import join_mail
from nacre.agents.mail_room import MailRoom
from nacre.agents.planning import Planning, join_planning
from nacre.agents.recalling import Recaller
from nacre.agents.restore import join_restoring
from nacre.agents.rewind import Rewind
from nacre.agents.session import Base, Session, SessionSettings
from nacre.agents.skill_list import join_skills
from nacre.agents.team import Team
from nacre.agents.team_join import join_team
from nacre.agents.workplace import environment, git_branch
from nacre.cache.rules import put_in_force, with_overrides
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import SessionNotFound
from nacre.loop.limits import Limits
from nacre.memory.directory import Memory
from nacre.memory.recall.base import Recalled
from nacre.providers.base import Provider
from nacre.providers.choose import Choice, build, choose, leaves_machine, require_installed
from nacre.providers.fallback import with_fallback
from nacre.providers.retry import RetrySettings
from nacre.settings import Settings, load
from nacre.store.sessions import Sessions
from nacre.tools.base import Tool
from nacre.tools.guard import Ask

SYSTEM = prompts.load(__package__, "system")
LATEST = "latest"
"""Stands for the newest session of the working directory."""
NEW = "new"
"""Stands for a session that begins now."""
UNKEPT = "unkept"
"""Stands for a session that leaves nothing on disk."""
UNNAMED = "unnamed"
"""The model's name when a caller brings a provider and does not say."""
Chooser = Callable[[list[Tool]], Sequence[Tool]]
"""Makes the tools of an agent from the usual ones: `lambda usual: [*usual, mine]`."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An agent, and what there is to say about it before the first turn."""

    agent: Agent
    choice: Choice | None
    hands: Hands
    rewind: Rewind
    notices: tuple[str, ...] = ()
    recaller: Recaller | None = None
    memories: tuple[Memory, ...] = ()
    """The project's, the team's and the person's, as far as there are any."""
    hooks: Hooks | None = None
    """The person's own commands at fixed points."""
    forker: Forker = field(kw_only=True)
    """Sends forks out from the session."""
    compacting: Compacting = field(kw_only=True)
    """Makes the conversation shorter, by itself and when asked."""
    extracting: Extracting | None = field(default=None, kw_only=True)
    """Draws memories from the conversation, where that is wanted."""
    dreaming: Dreaming | None = field(default=None, kw_only=True)
    """Has memory consolidated between sessions, where that is wanted."""
    planning: Planning = field(kw_only=True)
    """Keeps the plan of the session."""
    team: Team | None = field(default=None, kw_only=True)
    """Starts other agents, where the model can send for them."""
    mail: MailRoom | None = field(default=None, kw_only=True)
    """Brings letters in and out, where there can be other agents."""

    @property
    def background(self) -> Background:
        """Owns what outlives a turn."""
        return self.forker.background

    def recalled(self) -> Recalled | None:
        """What the last message got from memory, and why."""
        return self.recaller.last if self.recaller else None


@asynccontextmanager
async def open_agent(
    settings: Settings | None = None,
    *,
    provider: Provider | None = None,
    tools: Sequence[Tool] | Chooser | None = None,
    session: str = NEW,
    ask: Ask | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[Ready]:
    """An agent for the working directory; on leaving the block everything it held is let go.

    Without a provider the settings and the environment choose one. `session` takes `new`, `latest`, an id or
    its beginning, or `unkept`. The usual tools stand behind a guard that asks `ask`; your own do not. A list
    in `tools` is instead of the usual ones; a function gets these and returns what the agent shall have.
    Memory and instructions do not depend on tools: recall works with any, and without one that saves, the
    model only reads memory. `load(cwd, environ, cli={"disableAutoMemory": True})` makes settings without it.
    """
    check_given(settings, provider, tools, session)
    settings = _in_force(settings or load(Path.cwd(), os.environ))
    choice = None if provider else choose(settings.model, settings.environ)
    if choice is not None and session == NEW:
        # Only then: what is there can be looked at and compacted by rule without anybody to ask.
        require_installed(choice)
    async with AsyncExitStack() as stack:
        provider = provider or _hired(choice, settings, stack)
        opened = None if session == UNKEPT else await _opened(settings, session, clock, stack)
        beginning = _Beginning(settings, choice, provider, opened, tools, ask, clock)
        yield await _ready(beginning, stack)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What there is before a session is tied to anybody."""

    settings: Settings
    choice: Choice | None
    provider: Provider
    opened: Opened | None
    tools: Sequence[Tool] | Chooser | None
    ask: Ask | None
    clock: Clock


async def _ready(begun: _Beginning, stack: AsyncExitStack) -> Ready:
    """Open what is known, make the session, and tie to it whoever takes part."""
    settings, choice, opened, tools = begun.settings, begun.choice, begun.opened, begun.tools
    leaves, keeper = _leaves(choice, settings), opened.keeper if opened else None
    hands = await take_up(settings, stack, ask=begun.ask, keeps=opened is not None)
    known = await recollect(settings, stack, keeper=keeper, clock=begun.clock, leaves=leaves)
    usual = hands.with_memory(known)
    tools = usual if tools is None else check_tools(tools(usual)) if callable(tools) else tools
    known = await suited(known, tools, settings, leaves=leaves)
    model = choice.model if choice else settings.model or UNNAMED
    base = base_of(model, known, tools, settings, begun.clock)
    opened = await _fit_to_go(opened, known, leaves)
    talk, folder = _session(base, opened, settings, begun.clock), keeper.folder if keeper else None
    join(talk, known, hands, leaves=leaves)
    join_layers(talk, hands, settings, tools=tools, folder=folder)
    recaller = await join_recall(talk, known, hands, settings, stack, leaves=leaves)
    hooks, rewind = join_hooks(talk, settings, hands, stack), hands.belong_to(talk, folder)
    agent = Agent(talk, begun.provider, tools, limits=_limits(settings))
    forker = await join_forks(agent, hands, settings, stack, shared=known.tools)
    join_instructions(talk, hooks, forker.background)
    stack.push_async_callback(agent.cancel)
    restorer = join_restoring(talk, known, hands, settings, leaves=leaves)
    join_skills(talk, hands, tools=tools)
    planning = await join_planning(talk, hands, folder)
    staff = Staff(hands, forker, restorer, hooks)
    team = join_team(agent, settings, staff, known, folder=folder, leaves=leaves)
    compacting = join_compacting(talk, settings, staff)
    extracting = join_extracting(agent, known, settings, forker, leaves=leaves)
    about = (rewind, _told(opened, hands, known), recaller, known.memories, hooks)
    return Ready(
        *(agent, choice, hands, *about),
        forker=forker,
        compacting=compacting,
        extracting=extracting,
        dreaming=await join_dreaming(agent, known, hands, settings, forker, stack),
        planning=planning,
        team=team,
        mail=await join_mail(agent, staff, settings, stack, team=team, folder=folder),
    )


def _hired(choice: Choice | None, settings: Settings, stack: AsyncExitStack) -> Provider:
    """The chosen provider, let go with the stack."""
    assert choice is not None, "chosen when nobody brings a provider"
    provider = hire(choice, settings)
    stack.push_async_callback(provider.close)
    return provider


async def _fit_to_go(opened: Opened | None, known: Known, leaves: bool) -> Opened | None:
    """A log as it may be sent: one that was written with a model on this machine may hold what must stay."""
    if opened is None or not leaves:
        return opened
    return replace(opened, records=await known.stays.over(opened.records))


def _told(opened: Opened | None, hands: Hands, known: Known) -> tuple[str, ...]:
    """What there is to say before the first turn."""
    return (*(opened.notices if opened else ()), *hands.notices.take(), *known.notices)


def _leaves(choice: Choice | None, settings: Settings) -> bool:
    """Whether what the model is told leaves the machine; nobody knows where a provider of one's own is."""
    if choice is None:
        return True
    named = settings.fallback_model
    hired = [choice, *([choose(named, settings.environ)] if named else [])]
    return any(leaves_machine(one, settings.environ) for one in hired)


def _in_force(settings: Settings) -> Settings:
    """The settings, once what they say about models counts for this process."""
    if settings.models:
        put_in_force(with_overrides({"models": settings.models}))
    return settings


def base_of(model: str, known: Known, tools: Sequence[Tool], settings: Settings, clock: Clock) -> Base:
    """What stands before the conversation: the same for every project, but for the opening words."""
    system = "\n\n".join(part for part in (SYSTEM, known.manual) if part)
    where = environment(settings.cwd, clock.now().astimezone())
    return Base.of(model, system, tools, opening="\n".join(part for part in (known.context, where) if part))


def _session(base: Base, opened: Opened | None, settings: Settings, clock: Clock) -> Session:
    return Session(
        base,
        opened.records if opened else (),
        keeper=opened.keeper if opened else None,
        settings=session_settings(settings),
        clock=clock,
    )


def hire(choice: Choice, settings: Settings) -> Provider:
    """The chosen provider, with the one that takes over when it is out of reach (Q5)."""
    main = build(choice, settings.environ, retry=_retry(settings))
    if settings.fallback_model is None:
        return main
    second = choose(settings.fallback_model, settings.environ)
    return with_fallback(main, build(second, settings.environ, retry=_retry(settings)), second.model)


def session_settings(settings: Settings) -> SessionSettings:
    """What the settings say about a session's requests."""
    return SessionSettings(
        max_output=settings.max_output_tokens or SessionSettings().max_output,
        cache_ttl=settings.cache_ttl,
        window_ceiling=settings.max_context_tokens,
        compact_percent=settings.autocompact.pct,
        compact_window=settings.autocompact.window,
    )


def _limits(settings: Settings) -> Limits:
    """A person who names an output limit means it: a reply that reaches it gets no more room."""
    named = settings.max_output_tokens
    usual = Limits(max_rounds=settings.max_turns)
    return replace(usual, max_output=named, raised_output=named) if named else usual


def _retry(settings: Settings) -> RetrySettings:
    given, usual = settings.retry, RetrySettings()
    return replace(usual, tries=given.tries or usual.tries, max_wait=given.max_wait_seconds or usual.max_wait)


async def _opened(settings: Settings, wanted: str, clock: Clock, stack: AsyncExitStack) -> Opened:
    branch = git_branch(settings.cwd)
    if wanted == NEW:
        opened = start(settings.home, settings.cwd, branch_name=branch, clock=clock)
    else:
        path = find_log(settings, wanted)
        opened = await mend(resume_log(path, home=settings.home, branch_name=branch, clock=clock), clock)
    stack.push_async_callback(opened.keeper.close)
    return opened


def find_log(settings: Settings, wanted: str) -> Path:
    """The log of a session, by its id, the beginning of one, or `latest`."""
    sessions = Sessions(settings.home)
    if wanted != LATEST:
        return sessions.find(wanted)
    newest = sessions.latest(settings.cwd)
    if newest is None:
        raise SessionNotFound(
            f"there is no session in {settings.cwd} to continue yet; start one with `nacre chat`"
        )
    return newest
