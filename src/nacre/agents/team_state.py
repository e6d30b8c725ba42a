"""What is known of the agents of a session: one value an agent, and the roll on which all of them stand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.errors import MailError, StoreError, ToolError
from nacre.layers.l7_mail.letter import MAIN, check_name

Pattern: TypeAlias = Literal["typed", "fork", "teammate"]
Status: TypeAlias = Literal["running", "idle", "completed", "failed", "stopped", "stalled"]
OVER: frozenset[Status] = frozenset({"completed", "failed", "stopped", "stalled"})
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """One agent as it stands now."""

    id: str
    name: str
    type: str
    pattern: Pattern = "typed"
    status: Status = "running"
    description: str = ""
    doing: str = ""
    """What it does at this moment, in one line."""
    owner: str = MAIN
    """Who started it."""
    depth: int = 1
    background: bool = False
    team: str = ""
    model: str = ""
    run: int = 1
    """How often it was set to work."""
    told: int = 0
    """Of which run its owner has heard the outcome."""
    rounds: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    started: datetime
    """When it was set to work last."""
    seconds: float = 0.0
    """How long that took, once it is over."""
    result: str = ""
    """Its report of the last run, as its owner reads it."""
    worktree: str = ""
    branch: str = ""
    pid: int = 0
    process_start: str = ""

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def is_untold(self) -> bool:
        """Whether its owner still has to hear how the last run ended."""
        return self.background and not self.is_running and self.told < self.run


def _nowhere(state: AgentState) -> None:
    return None


@dataclass(slots=True, kw_only=True, eq=False)
class Roll:
    """All agents of one session, whoever started them; shared by everybody who may start some."""

    folder: Path | None = None
    """Of the session; None where it leaves nothing on disk."""
    keep: Callable[[AgentState], None] = _nowhere
    """Writes a state down; `StoreError` where that fails."""
    on_change: list[Callable[[AgentState], None]] = field(default_factory=list)
    """Others that are told of every change."""
    root: str = ""
    """Of a teammate's own process: the session that started the first process above it."""
    depth: int = 0
    """Of a teammate's own process: how deep it is below that session."""
    states: dict[str, AgentState] = field(default_factory=dict)
    """By name, in the order they were started."""

    def put(self, state: AgentState) -> AgentState:
        """The agent stands like this from now on; a disk that is full stops no work."""
        self.states[state.name] = state
        with suppress(StoreError):
            self.keep(state)
        for told in self.on_change:
            told(state)
        return state

    def change(self, name: str, **changes: object) -> AgentState:
        """The same agent with some of it changed."""
        return self.put(replace(self.states[name], **changes))  # type: ignore[arg-type]

    @property
    def running(self) -> int:
        return sum(one.is_running for one in self.states.values())

    def named(self, wanted: str, kind: str) -> str:
        """A name that nobody has: the one that is wanted, or one made up from the kind of agent."""
        if not wanted:
            base, number = _NOT_IN_A_NAME.sub("-", kind).strip("-") or "agent", 1
            while f"{base}-{number}" in self.states:
                number += 1
            return f"{base}-{number}"
        try:
            wanted = check_name(wanted)
        except MailError as error:
            raise ToolError(f"{error}.") from error
        if wanted == MAIN:
            raise ToolError(f"An agent cannot be named {MAIN}: that is the session itself.")
        # By what a file system that ignores case makes of it, for its inbox is a file.
        same = (one for one in self.states.values() if one.name.casefold() == wanted.casefold())
        if (taken := next(same, None)) is not None:
            raise ToolError(f"There is an agent {taken.name} already ({taken.status}); choose another name.")
        return wanted

    def find(self, name: str) -> AgentState:
        """The agent of this name; who asks for another one is told who there is."""
        if (found := self.states.get(name)) is not None:
            return found
        known = ", ".join(list(self.states)[-20:]) or "nobody yet"
        raise ToolError(f"There is no agent named {name[:80]!r}. Known: {known}.")


class Pulse:
    """Tells an agent that works from one that hangs; whoever works for it keeps it alive as well."""

    def __init__(self, seconds: float, *, above: Pulse | None = None) -> None:
        self._seconds = seconds
        self._above = above
        self._limit: asyncio.Timeout | None = None
        self._held = 0

    def beat(self) -> None:
        """Something happened."""
        if self._above is not None:
            self._above.beat()
        if self._limit is not None and not self._limit.expired():
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(None if self._held else now + self._seconds)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While a person is waited for, silence means nothing."""
        with self._above.held() if self._above else nullcontext():
            self._held += 1
            self.beat()
            try:
                yield
            finally:
                self._held -= 1
                self.beat()

    @contextmanager
    def watched(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Let this limit run out after so long a silence; entered inside of it."""
        self._limit = limit
        self.beat()
        try:
            yield
        finally:
            self._limit = None
