"""How the server was started, who is calling, and how much one answer may hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from nacre.tools.base import Tool

MAX_TEXT_CHARS = 20_000
"""Of a memory to save: a page is a memory, more is a document that belongs in the project."""
MAX_QUERY_CHARS = 4_000
"""Of words to look for: whole messages are asked with, whole files are not."""
MAX_SHOWN_CHARS = 20_000
"""Of one memory in an answer; about 5,000 tokens."""
MAX_ERROR_CHARS = 600
"""Of an error: one line, whatever a path or a name in it may hold."""
PROJECT = "The directory of one of your projects, if not the first."
"""What a tool says of its parameter `project`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What the command line of `nacre mcp` says."""

    projects: tuple[Path, ...] = ()
    """Directories whose memory is served, the first unless a call names another; none: the client's roots."""
    cwd: Path = field(default_factory=Path.cwd)
    """Stands in where neither the command line nor the client names a project."""
    read_only: bool = False
    local: bool = False
    """The client's model is on this machine, so that local-only memories may be told (M27)."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool and what a client may assume of it."""

    tool: Tool
    title: str
    destructive: bool = False
    idempotent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client behind one call."""

    key: str
    """What no two connections share."""
    client: str
    """What it calls itself, as one word that a letter and a commit can bear."""
    roots: Callable[[], Awaitable[Sequence[Path]]]
    """The directories it works in, as far as it says so."""


async def _no_roots() -> Sequence[Path]:
    return ()


NOBODY = Caller(key="", client="client", roots=_no_roots)
CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
"""Set for the length of one call: tools are made once and know no connection."""


def in_one_line(text: str) -> str:
    """An error as the client gets it."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_ERROR_CHARS else line[: MAX_ERROR_CHARS - 1] + "…"
