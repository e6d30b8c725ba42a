"""The start options of the chat; imports nothing that opens a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nacre.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from nacre.app.chat_session import OpenedChat
    from nacre.app.slash_commands import SlashCommands
    from nacre.settings import Settings
    from nacre.tools.guard import Ask


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
