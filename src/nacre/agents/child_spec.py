"""The arguments for opening a child agent, and the opened agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from nacre.agents.registry import IdleTimeout
from nacre.agents.tools import AgentRequest
from nacre.agents.toolset import Toolset
from nacre.agents.types import AgentType
from nacre.agents.worktree import Worktree
from nacre.context.privacy import OriginTracker
from nacre.messages.records import Record
from nacre.session.agent import SessionAgent
from nacre.session.background import Background
from nacre.session.forks import ForkRunner
from nacre.session.session import Session
from nacre.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentAgent:
    """The agent that opens children, and what they inherit."""

    agent: SessionAgent
    toolset: Toolset
    settings: Settings
    forker: ForkRunner
    folder: Path | None
    """Session folder, with the logs of all its agents; None if the session is not stored."""
    origins: OriginTracker
    """Finds the origin of a text in its conversation."""
    open_child: Callable[[ChildSpec, ParentAgent, AsyncExitStack], Awaitable[ChildAgent]]
    """Opens an agent in this process; closing the stack closes it."""
    check_process_child: Callable[[AgentType, AgentRequest, ParentAgent], None]
    """Raises `ToolError` for what an agent in a separate process cannot do."""
    leaves: bool = True
    """Whether its model requests leave the machine."""
    depth: int = 0

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def background(self) -> Background:
        return self.forker.background


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """The child agent to open."""

    id: str
    name: str
    owner: str
    type: AgentType
    model: str = ""
    """Overrides the model of its type."""
    tree: Worktree | None = None
    """Worktree to work in; None: the directory of the parent's session."""
    pulse: IdleTimeout
    records: Sequence[Record] = ()
    """Its earlier records, if they are in no log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildAgent:
    """An opened child agent."""

    agent: SessionAgent
    toolset: Toolset
    forker: ForkRunner
    settings: Settings
    origins: OriginTracker
    leaves: bool
    notices: tuple[str, ...] = ()

    @property
    def session(self) -> Session:
        return self.agent.session
