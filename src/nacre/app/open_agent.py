"""From settings to an agent that is ready to run: provider, tools, session, on disk or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from nacre import prompts
from nacre.agents.mail_room import MailRoom
from nacre.agents.team import Team
from nacre.agents.toolset import Toolset
from nacre.app.agent import UNNAMED
from nacre.app.agents import join_mail, join_team
from nacre.app.compaction import Staff, join_compacting
from nacre.app.layers import (
    join,
    join_forks,
    join_hooks,
    join_layers,
    join_planning,
    join_recall,
    join_skills,
)
from nacre.app.memory_layers import join_dreaming, join_extracting
from nacre.app.open_memory import as_settings
from nacre.app.restored_context import join_restoring
from nacre.app.startup_context import StartupContext, for_tools, load_startup_context
from nacre.app.toolset import build_toolset, with_memory
from nacre.cache.models import use_model_table, with_overrides
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.environment import environment, git_branch
from nacre.context.plan import Plan
from nacre.context.recall import Recall
from nacre.errors import SessionNotFound
from nacre.hooks.layer import watch_instructions
from nacre.hooks.points import Hooks
from nacre.layers.l4_compact.layer import Compact
from nacre.layers.l5_extract.layer import Extract
from nacre.layers.l6_dream.layer import Dream
from nacre.loop.limits import Limits
from nacre.memory.memory import Memory
from nacre.memory.recall.base import Recalled
from nacre.providers.base import Provider
from nacre.providers.choose import ModelChoice, build, choose, leaves_machine, require_installed
from nacre.providers.retry import RetrySettings, with_fallback
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.rewind import Rewind
from nacre.session.session import Base, Session
from nacre.session.session_log import OpenedLog, close_open_calls, start
from nacre.session.session_log import resume as resume_log
from nacre.session.settings import SessionSettings
from nacre.settings import Settings
from nacre.store.sessions import Sessions
from nacre.tools.base import Function, Tool, as_tools
from nacre.tools.guard import Ask

SYSTEM = prompts.load(__package__, "system")
LATEST = "latest"
"""Stands for the newest session of the working directory."""
NEW = "new"
"""Stands for a session that begins now."""
Chooser = Callable[[list[Tool]], Iterable[Tool | Function]]
"""Makes the tools of an agent from the usual ones: `lambda usual: [*usual, mine]`."""


@dataclass(frozen=True, slots=True)
class OpenedAgent:
    """An agent, and what there is to say about it before the first turn."""

    agent: SessionAgent
    choice: ModelChoice | None
    hands: Toolset
    rewind: Rewind
    notices: tuple[str, ...] = ()
    recaller: Recall | None = None
    memories: tuple[Memory, ...] = ()
    """The project's, the team's and the person's, as far as there are any."""
    hooks: Hooks | None = None
    """The person's own commands at fixed points."""
    forker: ForkRunner = field(kw_only=True)
    """Sends forks out from the session."""
    compacting: Compact = field(kw_only=True)
    """Makes the conversation shorter, by itself and when asked."""
    extracting: Extract | None = field(default=None, kw_only=True)
    """Draws memories from the conversation, where that is wanted."""
    dreaming: Dream | None = field(default=None, kw_only=True)
    """Has memory consolidated between sessions, where that is wanted."""
    planning: Plan = field(kw_only=True)
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
async def open_agent(  # noqa: PLR0913 - the public entry point; all but the settings are given by name
    settings: Settings | Mapping[str, object] | None = None,
    *,
    provider: Provider | None = None,
    tools: Iterable[Tool | Function] | Chooser | None = None,
    session: str = NEW,
    ephemeral: bool = False,
    ask: Ask | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[OpenedAgent]:
    """Open an agent for the working directory; leaving the block closes everything that it opened.

    `settings` are loaded from files and the environment; a mapping such as `{"model": "openai:gpt-6-luna"}`
    overrides some of them. Without a provider they choose one. `session` takes `new`, `latest`, or an id or
    its beginning; an ephemeral session leaves nothing on disk. The default tools ask `ask` for permission;
    yours do not. A list in `tools` replaces the default tools; a function gets these and returns the tools of
    the agent. Recall works with any tools; without a tool that saves, the model only reads memory.
    """
    check_given(settings, provider, session)
    given = tools if tools is None or (callable(tools) and not isinstance(tools, Tool)) else as_tools(tools)
    if ephemeral and session != NEW:
        raise TypeError("an ephemeral session is always a new one; leave out session= or ephemeral=")
    settings = _in_force(as_settings(settings))
    choice = None if provider else choose(settings.model, settings.environ)
    if choice is not None and session == NEW:
        # Only then: what is there can be looked at and compacted by rule without anybody to ask.
        require_installed(choice)
    async with AsyncExitStack() as stack:
        provider = provider or _hired(choice, settings, stack)
        opened = None if ephemeral else await _opened(settings, session, clock, stack)
        beginning = _Beginning(settings, choice, provider, opened, given, ask, clock)
        yield await _ready(beginning, stack)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What there is before a session is tied to anybody."""

    settings: Settings
    choice: ModelChoice | None
    provider: Provider
    opened: OpenedLog | None
    tools: Sequence[Tool] | Chooser | None
    ask: Ask | None
    clock: Clock


async def _ready(begun: _Beginning, stack: AsyncExitStack) -> OpenedAgent:
    """Open what is known, make the session, and tie to it whoever takes part."""
    settings = begun.settings
    choice = begun.choice
    opened = begun.opened
    tools = begun.tools
    leaves = _leaves(choice, settings)
    writer = opened.writer if opened else None
    hands = await build_toolset(settings, stack, ask=begun.ask, keeps=opened is not None)
    known = await load_startup_context(settings, stack, writer=writer, clock=begun.clock, leaves=leaves)
    usual = with_memory(hands, known)
    tools = usual if tools is None else as_tools(tools(usual)) if callable(tools) else tools
    known = await for_tools(known, tools, settings, leaves=leaves)
    model = choice.model if choice else settings.model or UNNAMED
    base = base_of(model, known, tools, settings, begun.clock)
    opened = await _fit_to_go(opened, known, leaves)
    talk = _session(base, opened, settings, begun.clock)
    folder = writer.folder if writer else None
    join(talk, known, hands, leaves=leaves)
    join_layers(talk, hands, settings, tools=tools, folder=folder)
    recaller = await join_recall(talk, known, hands, settings, stack, leaves=leaves)
    hooks = join_hooks(talk, settings, hands, stack)
    rewind = hands.belong_to(talk, folder)
    agent = SessionAgent(talk, begun.provider, tools, limits=_limits(settings))
    forker = await join_forks(agent, hands, settings, stack, shared=known.tools)
    watch_instructions(talk, hooks, forker.background)
    stack.push_async_callback(agent.cancel)
    restorer = join_restoring(talk, known, hands, settings, leaves=leaves)
    join_skills(talk, hands, tools=tools)
    planning = await join_planning(talk, hands, folder)
    staff = Staff(hands, forker, restorer, hooks)
    team = join_team(agent, settings, staff, known, folder=folder, leaves=leaves)
    compacting = join_compacting(talk, settings, staff)
    extracting = join_extracting(agent, known, settings, forker, leaves=leaves)
    about = (rewind, _told(opened, hands, known), recaller, known.memories, hooks)
    return OpenedAgent(
        *(agent, choice, hands, *about),
        forker=forker,
        compacting=compacting,
        extracting=extracting,
        dreaming=await join_dreaming(agent, known, hands, settings, forker, stack),
        planning=planning,
        team=team,
        mail=await join_mail(agent, staff, settings, stack, team=team, folder=folder),
    )


def _hired(choice: ModelChoice | None, settings: Settings, stack: AsyncExitStack) -> Provider:
    """The chosen provider, let go with the stack."""
    assert choice is not None, "chosen when nobody brings a provider"
    provider = hire(choice, settings)
    stack.push_async_callback(provider.close)
    return provider


async def _fit_to_go(opened: OpenedLog | None, known: StartupContext, leaves: bool) -> OpenedLog | None:
    """A log as it may be sent: one that was written with a model on this machine may hold what must stay."""
    if opened is None or not leaves:
        return opened
    return replace(opened, records=await known.stays.over(opened.records))


def _told(opened: OpenedLog | None, hands: Toolset, known: StartupContext) -> tuple[str, ...]:
    """What there is to say before the first turn."""
    return (*(opened.notices if opened else ()), *hands.notices.take(), *known.notices)


def _leaves(choice: ModelChoice | None, settings: Settings) -> bool:
    """Whether what the model is told leaves the machine; nobody knows where a provider of one's own is."""
    if choice is None:
        return True
    named = settings.fallback_model
    hired = [choice, *([choose(named, settings.environ)] if named else [])]
    return any(leaves_machine(one, settings.environ) for one in hired)


def _in_force(settings: Settings) -> Settings:
    """The settings, once what they say about models counts for this process."""
    if settings.models:
        use_model_table(with_overrides({"models": settings.models}))
    return settings


def base_of(
    model: str, known: StartupContext, tools: Sequence[Tool], settings: Settings, clock: Clock
) -> Base:
    """What stands before the conversation: the same for every project, but for the opening words."""
    system = "\n\n".join(part for part in (SYSTEM, known.manual) if part)
    where = environment(settings.cwd, clock.now().astimezone())
    return Base(model, system, tools, opening="\n".join(part for part in (known.context, where) if part))


def _session(base: Base, opened: OpenedLog | None, settings: Settings, clock: Clock) -> Session:
    return Session(
        base,
        opened.records if opened else (),
        writer=opened.writer if opened else None,
        settings=session_settings(settings),
        clock=clock,
    )


def hire(choice: ModelChoice, settings: Settings) -> Provider:
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
    given = settings.retry
    usual = RetrySettings()
    return replace(usual, tries=given.tries or usual.tries, max_wait=given.max_wait_seconds or usual.max_wait)


async def _opened(settings: Settings, wanted: str, clock: Clock, stack: AsyncExitStack) -> OpenedLog:
    branch = git_branch(settings.cwd)
    if wanted == NEW:
        opened = start(settings.home, settings.cwd, branch_name=branch, clock=clock)
    else:
        path = find_log(settings, wanted)
        opened = await close_open_calls(
            resume_log(path, home=settings.home, branch_name=branch, clock=clock), clock
        )
    stack.push_async_callback(opened.writer.close)
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


PORT = ("name", "capabilities", "stream", "count_tokens", "close")
"""What every provider has; `nacre.Provider` says what each is for."""


def check_given(settings: object, provider: object, session: object) -> None:
    """Raise `TypeError` for what would fail far from where it was given."""
    if settings is not None and not isinstance(settings, Settings | Mapping):
        raise TypeError(f"settings takes a mapping such as {{'model': …}}, not {_shown(settings)}")
    if not isinstance(session, str):
        raise TypeError(f"session takes 'new', 'latest' or an id, not {_shown(session)}")
    if provider is not None:
        _check_provider(provider)


def _check_provider(provider: object) -> None:
    if isinstance(provider, str):
        raise TypeError(
            f"provider takes an object, not {_shown(provider)}; leave it out and name a model in "
            "settings.json or in the variable NACRE_MODEL"
        )
    if isinstance(provider, type):
        raise TypeError(f"provider takes an object, not the class itself; write {provider.__name__}(…)")
    missing = [name for name in PORT if not hasattr(provider, name)]
    if missing:
        raise TypeError(f"{_shown(provider)} is not a provider: it has no {', '.join(missing)}")


def _shown(value: object) -> str:
    """A word or a name as it is, anything else by its type: what it holds can be long."""
    if isinstance(value, str):
        return repr(value)
    name = getattr(value, "__name__", None)
    return str(name) if isinstance(name, str) else f"a {type(value).__name__}"
