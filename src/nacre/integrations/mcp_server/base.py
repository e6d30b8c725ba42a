"""Options of the server, the calling client, and size limits of answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from nacre.tools.base import Tool

MAX_TEXT_CHARS = 20_000
"""Maximum length of a memory to save: a page; longer texts belong in the project."""
MAX_QUERY_CHARS = 4_000
"""Maximum length of a query: a whole message, not a whole file."""
MAX_SHOWN_CHARS = 20_000
"""Maximum length of one memory in an answer; about 5,000 tokens."""
MAX_ERROR_CHARS = 600
"""Maximum length of an error line."""
PROJECT = "The directory of one of your projects, if not the first."
"""Description of the parameter `project`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options of `nacre mcp`."""

    projects: tuple[Path, ...] = ()
    """Directories whose memory is served, the first by default; if empty, the client's roots are."""
    cwd: Path = field(default_factory=Path.cwd)
    """Used when neither the command line nor the client names a project."""
    read_only: bool = False
    local: bool = False
    """The client's model runs on this machine, so that local-only memories may be shown (M27)."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool and its annotations."""

    tool: Tool
    title: str
    destructive: bool = False
    idempotent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client of one call."""

    key: str
    """Unique per connection."""
    client: str
    """The client's name as one word, usable in mail and commits."""
    roots: Callable[[], Awaitable[Sequence[Path]]]
    """The directories the client works in, if it names any."""


async def _no_roots() -> Sequence[Path]:
    return ()


NO_CALLER = Caller(key="", client="client", roots=_no_roots)
CALLER: ContextVar[Caller] = ContextVar("caller", default=NO_CALLER)
"""Set during one call: tools are created once and know no connection."""


def in_one_line(text: str) -> str:
    """Format an error for the client."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_ERROR_CHARS else line[: MAX_ERROR_CHARS - 1] + "…"
