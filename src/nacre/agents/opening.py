"""From settings to an agent that is ready to run: provider, tools, session, on disk or not."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nacre import prompts
from nacre.agents.agent import Agent
from nacre.agents.kept import Opened, mend, start
from nacre.agents.kept import resume as resume_log
from nacre.agents.session import Base, Session, SessionSettings
from nacre.agents.workplace import environment, git_branch
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, SessionNotFound
from nacre.loop.limits import Limits
from nacre.providers.base import Provider
from nacre.providers.choose import Choice, build, choose
from nacre.providers.retry import RetrySettings
from nacre.settings import Settings, load
from nacre.store.sessions import Sessions
from nacre.tools import default_tools
from nacre.tools.base import Tool
from nacre.tools.workspace import Workspace

SYSTEM = prompts.load(__package__, "system")
LATEST = "latest"
"""Stands for the newest session of the working directory."""
UNNAMED = "unnamed"
"""The model's name when a caller brings a provider and does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An agent, and what there is to say about it before the first turn."""

    agent: Agent
    choice: Choice | None
    notices: tuple[str, ...] = ()


@asynccontextmanager
async def open_agent(
    settings: Settings | None = None,
    *,
    provider: Provider | None = None,
    tools: Sequence[Tool] | None = None,
    resume: str | None = None,
    keeps: bool = True,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[Ready]:
    """An agent for the working directory; on leaving the block everything it held is let go.

    Without a provider the one is used that the settings and the environment call for. `resume` takes a
    session's id, the beginning of one, or `latest`. With `keeps=False` nothing is written to disk.
    """
    if resume is not None and not keeps:
        raise ConfigError("a session that leaves nothing on disk cannot go on with one that is there")
    settings = settings or load(Path.cwd(), os.environ)
    choice = None if provider else choose(settings.model, settings.environ)
    model = choice.model if choice else settings.model or UNNAMED
    async with AsyncExitStack() as stack:
        workspace = Workspace(settings.cwd)
        stack.push_async_callback(workspace.close)
        if provider is None:
            assert choice is not None
            provider = build(choice, settings.environ, retry=_retry(settings))
            stack.push_async_callback(provider.close)
        opened = await _opened(settings, resume, clock) if keeps else None
        if opened:
            stack.push_async_callback(opened.keeper.close)
        tools = default_tools(workspace) if tools is None else tools
        session = Session(
            Base.of(model, SYSTEM, tools, opening=environment(settings.cwd, clock.now().astimezone())),
            opened.records if opened else (),
            keeper=opened.keeper if opened else None,
            settings=session_settings(settings),
            clock=clock,
        )
        agent = Agent(session, provider, tools, limits=_limits(settings))
        stack.push_async_callback(agent.cancel)
        yield Ready(agent=agent, choice=choice, notices=tuple(opened.notices) if opened else ())


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


async def _opened(settings: Settings, wanted: str | None, clock: Clock) -> Opened:
    branch = git_branch(settings.cwd)
    if wanted is None:
        return start(settings.home, settings.cwd, branch_name=branch, clock=clock)
    path = find_log(settings, wanted)
    return await mend(resume_log(path, home=settings.home, branch_name=branch, clock=clock), clock)


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
