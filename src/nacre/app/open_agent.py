"""Opens an agent from settings: provider, tools, memory, session and its layers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nacre import prompts
from nacre.agents.mail_room import MailRoom
from nacre.agents.team import Team
from nacre.agents.toolset import PermissionModes, Toolset
from nacre.agents.types import AgentTypes
from nacre.app.agents import add_mail, add_team
from nacre.app.build_toolset import build_toolset, with_deferred, with_memory
from nacre.app.layers import (
    add_background_and_forks,
    add_hooks,
    add_plan,
    add_recall,
    add_result_layers,
    add_startup_layers,
    add_tool_instructions,
    has_outside_context,
    has_remote_model,
)
from nacre.app.model_layers import (
    SessionServices,
    add_dream,
    add_extract,
    add_notes_and_compact,
)
from nacre.app.model_profile import (
    adapt_to_model,
    add_tool_call_test,
    ask_window,
    facts_cache,
    use_model_facts,
    with_text_calls,
)
from nacre.app.open_memory import as_settings
from nacre.app.recall_once import small_model_of
from nacre.app.restored_context import build_restorer
from nacre.app.startup_context import StartupContext, adapt_to_tools, load_startup_context
from nacre.app.switch_updates import SwitchUpdates
from nacre.cache.models import check_thinking, use_model_table, with_overrides
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.environment import environment, git_branch
from nacre.context.plan import Plan
from nacre.context.recall import Recall
from nacre.errors import SessionNotFound
from nacre.hooks.layer import watch_instructions
from nacre.hooks.points import Hooks
from nacre.loop.round import Limits
from nacre.memory.memory import Memory
from nacre.memory.recall.base import Recalled
from nacre.providers.base import Provider
from nacre.providers.choose import ModelChoice, build, choose, require_installed
from nacre.providers.retry import RetrySettings, with_fallback
from nacre.session.agent import UNNAMED, SessionAgent
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.log_writer import OpenedLog, close_open_calls, start
from nacre.session.log_writer import resume as resume_log
from nacre.session.model_facts import ModelFacts, ModelFactsCache
from nacre.session.rewind import Rewind
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.settings import Settings
from nacre.tools.base import Function, Tool, as_tools
from nacre.tools.guard import Ask

if TYPE_CHECKING:
    from nacre.layers.l4_compact.layer import Compact
    from nacre.layers.l5_extract.layer import Extract
    from nacre.layers.l6_dream.layer import Dream
    from nacre.store.postgres.session_rows import SessionRows

SYSTEM = prompts.load(__package__, "system")
LATEST = "latest"
"""Stands for the newest session of the working directory."""
NEW = "new"
"""Stands for a session that begins now."""
Chooser = Callable[[list[Tool]], Iterable[Tool | Function]]
"""Makes the tools of an agent from the usual ones: `lambda usual: [*usual, mine]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedAgent:
    """An agent, its parts, and what to tell the person before the first turn."""

    agent: SessionAgent
    choice: ModelChoice | None
    """Which model answers, and why; None if the caller brought a provider."""
    toolset: Toolset
    rewind: Rewind
    notices: tuple[str, ...] = ()
    recall: Recall | None = None
    memories: tuple[Memory, ...] = ()
    """The memories of the project, the team and the user, as far as they exist."""
    hooks: Hooks | None = None
    """The user's own commands at fixed points."""
    forks: ForkRunner
    """Runs forks of the session."""
    compact: Compact
    """Compacts the session, automatically and on request."""
    extract: Extract | None = None
    """Saves memories from the conversation, if that is enabled."""
    dream: Dream | None = None
    """Consolidates memory between sessions, if that is enabled."""
    plan: Plan
    modes: PermissionModes
    """What the model may do without a question."""
    team: Team | None = None
    """Starts other agents, if the model has a tool for that."""
    mail: MailRoom | None = None
    """Delivers letters, if there can be other agents."""

    @property
    def background(self) -> Background:
        """The work that continues after a turn."""
        return self.forks.background

    def recalled(self) -> Recalled | None:
        """Return what was recalled for the last message, and why."""
        return self.recall.last if self.recall else None


@asynccontextmanager
async def open_agent(  # noqa: PLR0913 - the public entry point; all but the settings are given by name
    settings: Settings | Mapping[str, object] | None = None,
    *,
    provider: Provider | None = None,
    tools: Iterable[Tool | Function] | Chooser | None = None,
    session: str = NEW,
    ephemeral: bool = False,
    ask: Ask | None = None,
    store: str = "",
    tenant: str = "",
    user: str = "",
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[OpenedAgent]:
    """Open an agent for the working directory; leaving the block closes everything that it opened.

    `settings` are loaded from files and the environment; a mapping such as `{"model": "openai:gpt-6-luna"}`
    overrides some of them. Without a provider they choose one. `session` takes `new`, `latest`, or an id or
    its beginning; an ephemeral session leaves nothing on disk. The default tools ask `ask` for permission;
    yours do not. A list in `tools` replaces the default tools; a function gets these and returns the tools of
    the agent. Recall works with any tools; without a tool that saves, the model only reads memory.

    A program with many users names one with `user`: sessions and memory are that person's alone, below this
    home, or with `store`, the address of a PostgreSQL database, and `tenant` in the database.
    """
    check_arguments(settings, provider, session)
    given = tools if tools is None or (callable(tools) and not isinstance(tools, Tool)) else as_tools(tools)
    if ephemeral and session != NEW:
        raise TypeError("an ephemeral session is always a new one; leave out session= or ephemeral=")
    settings = as_settings(settings)
    if settings.models:
        use_model_table(with_overrides({"models": settings.models}))
    choice = None if provider else choose(settings.model, settings.environ)
    check_thinking(choice.model if choice else settings.model or UNNAMED, settings.thinking)
    if choice is not None and session == NEW:
        # Only for new sessions: existing ones can be read and compacted by rule without a model.
        require_installed(choice)
    async with AsyncExitStack() as stack:
        if provider is None:
            assert choice is not None, "chosen above"
            provider = build_provider(choice, settings)
            stack.push_async_callback(provider.close)
        sessions: SessionRows | None = None
        if store or tenant or user:
            from nacre.app.shared_store import open_user_store  # noqa: PLC0415 - for programs with many users

            place = await open_user_store(settings, stack, store=store, tenant=tenant, user=user)
            settings, sessions = place.settings, place.sessions
        log = None if ephemeral else await _open_log(settings, sessions, session, clock, stack)
        cache = facts_cache(settings, choice)
        facts = cache.read() if cache else ModelFacts()
        model = choice.model if choice else settings.model or UNNAMED
        is_local = cache is not None and not has_remote_model(choice, settings)
        if is_local and choice is not None:
            facts = await ask_window(settings, choice, facts)
        settings = adapt_to_model(settings, model, facts, is_local=is_local)
        provider = with_text_calls(provider, choice, facts, None if ephemeral else cache)
        setup = _Setup(settings, choice, provider, log, given, ask, clock, facts, cache, sessions)
        yield await _open(setup, stack)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What exists before the session."""

    settings: Settings
    choice: ModelChoice | None
    provider: Provider
    log: OpenedLog | None
    tools: Sequence[Tool] | Chooser | None
    ask: Ask | None
    clock: Clock
    facts: ModelFacts
    """What earlier sessions measured about the model."""
    facts_cache: ModelFactsCache | None
    sessions: SessionRows | None
    """The rows of the person's sessions, if they are in a database."""


async def _open(setup: _Setup, stack: AsyncExitStack) -> OpenedAgent:
    """Open memory and tools, create the session and add its layers; their order is the order of calls."""
    settings = setup.settings
    log = setup.log
    is_remote = has_remote_model(setup.choice, settings)
    folder = log.writer.folder if log else None
    toolset = await build_toolset(settings, stack, ask=setup.ask, keeps=log is not None)
    session, startup, tools = await _open_session(setup, toolset, stack, is_remote=is_remote)
    if settings.read_again is not None:
        session.add_layers(SwitchUpdates(settings, toolset.workspace))
    add_startup_layers(session, startup, toolset, is_remote=is_remote)
    add_result_layers(session, toolset, settings, tools=tools, folder=folder)
    recall = await add_recall(session, startup, toolset, settings, stack, choice=setup.choice)
    hooks = add_hooks(session, settings, toolset, stack)
    rewind = toolset.belong_to(session, folder)
    agent = SessionAgent(session, setup.provider, tools, limits=_limits(settings))
    forks = await add_background_and_forks(agent, toolset, settings, stack, shared=startup.tools)
    is_local = setup.facts_cache is not None and not is_remote
    add_tool_call_test(session, setup.provider, forks, is_local=is_local and settings.is_interactive)
    watch_instructions(session, hooks, forks.background)
    stack.push_async_callback(agent.cancel)
    restorer = build_restorer(session, startup, toolset, settings, is_remote=is_remote)
    add_tool_instructions(session, toolset, tools=tools)
    plan = await add_plan(session, toolset, folder)
    small_model = small_model_of(settings, setup.choice)
    services = SessionServices(toolset, forks, restorer, hooks, small_model)
    team = add_team(agent, settings, services, startup, folder=folder, is_remote=is_remote)
    startup.origin_tracker.has_outside_context = lambda: has_outside_context(
        session, startup, settings, toolset, tools=tools, types=team.shared.types if team else AgentTypes()
    )
    compact = add_notes_and_compact(session, settings, services)
    extract = add_extract(agent, startup, settings, services, is_remote=is_remote)
    dream = await add_dream(agent, startup, toolset, settings, forks, stack)
    mail = await add_mail(agent, services, settings, stack, team=team, folder=folder)
    if mail is not None and setup.sessions is not None and log is not None:
        from nacre.app.shared_store import add_bridge  # noqa: PLC0415 - only with a database

        add_bridge(mail, setup.sessions, session.id)
    cost = session.announce_base_change()
    opened = log.notices if log else ()
    return OpenedAgent(
        agent=agent,
        choice=setup.choice,
        toolset=toolset,
        rewind=rewind,
        notices=(*opened, *([cost] if cost else ()), *toolset.notices.take(), *startup.notices),
        recall=recall,
        memories=startup.memories,
        hooks=hooks,
        forks=forks,
        compact=compact,
        extract=extract,
        dream=dream,
        plan=plan,
        modes=PermissionModes(toolset.guard, plan),
        team=team,
        mail=mail,
    )


async def _open_session(
    setup: _Setup, toolset: Toolset, stack: AsyncExitStack, *, is_remote: bool
) -> tuple[Session, StartupContext, list[Tool]]:
    """Return a session without layers, what it knows at its start, and the tools of its model."""
    settings = setup.settings
    writer = setup.log.writer if setup.log else None
    startup = await load_startup_context(
        settings, stack, writer=writer, clock=setup.clock, is_remote=is_remote
    )
    tools = with_memory(toolset, startup, is_small=settings.profile == "small")
    if setup.tools is not None:
        tools = as_tools(setup.tools(tools) if callable(setup.tools) else setup.tools)
    model = setup.choice.model if setup.choice else settings.model or UNNAMED
    tools = with_deferred(tools, model, settings, toolset.guard)
    startup = await adapt_to_tools(startup, tools, settings, is_remote=is_remote)
    base = build_base(model, startup, tools, settings, setup.clock)
    records = setup.log.records if setup.log else ()
    if records and is_remote:
        # A log that was written with a model on this machine may hold text that must not leave it.
        records = await startup.local_only.over(records)
    session = Session(base, records, writer=writer, settings=session_settings(settings), clock=setup.clock)
    use_model_facts(session, setup.facts, setup.facts_cache if setup.log else None, stack)
    return session, startup, tools


def build_base(
    model: str, startup: StartupContext, tools: Sequence[Tool], settings: Settings, clock: Clock
) -> Base:
    """Return model, system prompt and tools; only the opening differs between projects."""
    system = "\n\n".join(part for part in (SYSTEM, startup.manual) if part)
    where = environment(settings.cwd, clock.now().astimezone())
    return Base(model, system, tools, opening="\n".join(part for part in (startup.context, where) if part))


def build_provider(choice: ModelChoice, settings: Settings) -> Provider:
    """Return the chosen provider, with the fallback model if one is set (Q5)."""
    main = build(choice, settings.environ, retry=_retry(settings))
    if settings.fallback_model is None:
        return main
    second = choose(settings.fallback_model, settings.environ)
    return with_fallback(main, build(second, settings.environ, retry=_retry(settings)), second.model)


def session_settings(settings: Settings) -> SessionSettings:
    """Return the settings of a session's requests."""
    return SessionSettings(
        max_output=settings.max_output_tokens or SessionSettings().max_output,
        thinking=settings.thinking,
        output_ceiling=settings.max_output_tokens,
        cache_ttl=settings.cache_ttl,
        window_ceiling=settings.max_context_tokens,
        compact_percent=settings.autocompact.pct,
        compact_window=settings.autocompact.window,
    )


def _limits(settings: Settings) -> Limits:
    """Return the limits of a turn; an output limit in the settings is never raised."""
    named = settings.max_output_tokens
    usual = Limits(max_rounds=settings.max_turns)
    return replace(usual, max_output=named, raised_output=named) if named else usual


def _retry(settings: Settings) -> RetrySettings:
    given = settings.retry
    usual = RetrySettings()
    return replace(
        usual,
        tries=given.tries or usual.tries,
        max_wait=given.max_wait_seconds or usual.max_wait,
        silence=given.silence_seconds,
    )


async def _open_log(
    settings: Settings, sessions: SessionRows | None, wanted: str, clock: Clock, stack: AsyncExitStack
) -> OpenedLog:
    branch = git_branch(settings.cwd)
    if sessions is not None:
        from nacre.session.shared_log import resume_shared, start_shared  # noqa: PLC0415 - needs a database

        if wanted == NEW:
            opened = await start_shared(
                sessions, settings.home, settings.cwd, branch_name=branch, clock=clock
            )
        else:
            opened = await resume_shared(
                sessions, wanted, home=settings.home, branch_name=branch, clock=clock
            )
    elif wanted == NEW:
        opened = start(settings.home, settings.cwd, branch_name=branch, clock=clock)
    else:
        path = find_log(settings, wanted)
        opened = await close_open_calls(
            resume_log(path, home=settings.home, cwd=settings.cwd, branch_name=branch, clock=clock), clock
        )
    stack.push_async_callback(opened.writer.close)
    return opened


def find_log(settings: Settings, wanted: str) -> Path:
    """Return the path of a session's log by its id, the beginning of an id, or `latest`."""
    from nacre.store.sessions import Sessions  # noqa: PLC0415 - a new session searches no other

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
"""Members that every provider has; `nacre.Provider` describes them."""


def check_arguments(settings: object, provider: object, session: object) -> None:
    """Raise `TypeError` for arguments that would otherwise fail later, in other code."""
    if settings is not None and not isinstance(settings, Settings | Mapping):
        raise TypeError(f"settings takes a mapping such as {{'model': …}}, not {_shown(settings)}")
    if not isinstance(session, str):
        raise TypeError(f"session takes 'new', 'latest' or an id, not {_shown(session)}")
    if provider is None:
        return
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
    """Return a string or a name as it is, anything else by its type, because its repr can be long."""
    if isinstance(value, str):
        return repr(value)
    name = getattr(value, "__name__", None)
    return str(name) if isinstance(name, str) else f"a {type(value).__name__}"
