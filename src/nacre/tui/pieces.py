"""The display items of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["info", "warning", "error", "bold", "plain", "waiting"]
"""`waiting`: a failed request is repeated; the next such notice replaces it."""


@dataclass(frozen=True, slots=True)
class UserText:
    """A message of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplyText:
    """More text of the model's reply or thinking."""

    text: str
    is_thinking: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call on one line, and its details."""

    id: str
    line: str
    detail: str
    tool: str = ""
    path: str = ""
    """The file that it changes, for syntax colours."""
    diff: tuple[str, ...] = ()
    """What it changes, as lines that begin with `+`, `-` or a space."""


@dataclass(frozen=True, slots=True)
class Resulted:
    """The result of a call."""

    id: str
    line: str
    """A few lines of it."""
    detail: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """A notice beside the conversation."""

    text: str
    level: Level = "info"


@dataclass(frozen=True, slots=True)
class Void:
    """Discard what was streamed of this reply."""

    reason: str


Piece: TypeAlias = UserText | ReplyText | Called | Resulted | NoticeLine | Void
