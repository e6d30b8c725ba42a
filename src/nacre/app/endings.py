"""How a slash command ends a session; apart, so that the screen starts without what opens one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Leave:
    """The person leaves the chat."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Continue with another session, or with a new one."""

    session: str | None = "new"
    """None for one that leaves nothing on disk."""
    is_clear: bool = False
    """The new session replaces the one that is closed."""
    model: str | None = None
    """The model that answers from then on; None keeps the one of the chat."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """The conversation goes on from before a message, whose text returns to the input."""

    text: str


Ending: TypeAlias = Leave | Reopen | Rewound | None
