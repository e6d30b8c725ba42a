"""Options of the server, the calling client, and size limits of answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

from nacre.memory.checks.local_only import LocalOnlyEntries
from nacre.messages.blocks import Json, JsonObject, Text, ToolResult
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


OnWrite: TypeAlias = Callable[[Mapping[str, Any], str, str | None], Awaitable[None]]
"""Takes the ASGI scope of a request, the tool that writes, and the change: empty if nothing changed, None if
the call failed."""


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
    on_write: OnWrite | None = None
    """Called after each call of a tool that writes, for an audit log."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool and its annotations; none is destructive, because each change can be undone."""

    tool: Tool
    title: str
    idempotent: bool = True
    answers: type | None = None
    """The dataclass of the structured answer; None: its form is not promised."""


@dataclass(frozen=True, slots=True)
class Answer(ToolResult):
    """An answer as text and as JSON with the same content."""

    data: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, data: object, staying: LocalOnlyEntries | None = None) -> Answer:
        """Return an answer from its text and a dataclass, without what must not be shown (M27)."""
        clean = (staying or LocalOnlyEntries()).without
        structured = _as_json(data, clean)
        assert isinstance(structured, dict), "the answer of a tool is an object"
        return cls(call_id="", content=(Text(clean(text)),), data=structured)


def _as_json(value: object, clean: Callable[[str], str]) -> Json:
    """Return a dataclass as JSON, without fields that are None."""
    match value:
        case str():
            return clean(value)
        case bool() | int() | float() | None:
            return value
        case list() | tuple():
            return [_as_json(one, clean) for one in value]
        case dict():
            return {str(key): _as_json(one, clean) for key, one in value.items()}
    assert is_dataclass(value), "answers consist of dataclasses and JSON"
    found = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: _as_json(one, clean) for name, one in found.items() if one is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client of one call."""

    key: str
    """Unique per connection."""
    client: str
    """The client's name as one word, usable in mail and commits."""
    roots: Callable[[], Awaitable[Sequence[Path]]]
    """The directories the client works in, if it names any."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The ASGI scope of its HTTP request; empty on stdio."""


CLIENT = "nacre.client"
"""Entry of an ASGI scope: the name of the client whose key was checked."""


async def _no_roots() -> Sequence[Path]:
    return ()


NO_CALLER = Caller(key="", client="client", roots=_no_roots)
CALLER: ContextVar[Caller] = ContextVar("caller", default=NO_CALLER)
"""Set during one call: tools are created once and know no connection."""


def in_one_line(text: str) -> str:
    """Format an error for the client."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_ERROR_CHARS else line[: MAX_ERROR_CHARS - 1] + "…"
