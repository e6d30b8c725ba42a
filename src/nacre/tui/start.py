"""The start options of the chat; imports nothing that opens a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from nacre.app.chat_session import OpenedChat
    from nacre.app.endings import Ending
    from nacre.app.open_agent import OpenedAgent
    from nacre.settings import Settings
    from nacre.tools.guard import Ask


Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
RunSlash: TypeAlias = "Callable[[str, OpenedAgent, Run, Callable[[OpenedAgent], None]], Ending]"
"""Runs a line: the session, a function that runs a coroutine there, a function that continues the turn."""


@dataclass(frozen=True, slots=True)
class SlashCommands:
    """The available commands and the function that runs them."""

    commands: Mapping[str, str]
    """Each with its help line."""
    run: RunSlash
    at_once: frozenset[str] = frozenset()
    """Those that may run while a turn works."""


class OpenChat(Protocol):
    """Opens a session."""

    def __call__(
        self, settings: Settings, session: str | None, *, ask: Ask | None, on_countdown: Callable[[str], None]
    ) -> Awaitable[OpenedChat]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start options of the chat."""

    settings: Settings
    session: str | None
    slash: Callable[[], SlashCommands]
    """Loads the slash commands, which import most of the program."""
    keeps: bool = True
    """Whether the input history may be stored."""
    open_chat: OpenChat | None = None
    """None: `nacre.app.chat_session.open_chat`."""
    on_loaded: Callable[[], object] = lambda: None
    """Called when all that a turn needs is imported."""
    clock: Clock = SYSTEM_CLOCK
