"""The values this room speaks in: what a server offers, what a call brings back, how far either may go."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from nacre.messages.blocks import JsonObject, ResultPart, Text

Pairs: TypeAlias = "tuple[tuple[str, str], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A server that is started as a child process and spoken to over its pipes."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = field(default=(), repr=False)
    """The child's whole environment; values are often secrets and never shown."""
    cwd: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server that is reached by streamable HTTP."""

    name: str
    url: str
    headers: Pairs = field(default=(), repr=False)
    """Often secrets, so never shown."""


Server: TypeAlias = StdioServer | HttpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """One tool of one server, as the model may see it."""

    server: str
    name: str
    """What the server calls it."""
    wire_name: str
    """What the model calls it: `mcp__server__tool`, made valid for every provider."""
    description: str
    input_schema: JsonObject
    """Keys sorted, so that a server that shuffles them does not move the prefix."""
    read_only: bool = False
    """The server says that the tool changes nothing; a hint, as good as the server."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What a call brought back, bounded."""

    parts: tuple[ResultPart, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a server says about itself and its tools, as text that can be shown again after a compaction."""

    server: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimits:
    """How long and how much; every wait in this room ends by one of these."""

    start_seconds: float = 30.0
    """A package runner may download the server first; longer than this the user believes we hang."""
    call_seconds: float = 60.0
    """Without a sign of life from the server; each progress notification starts it again."""
    max_call_seconds: float = 900.0
    """Even with progress: the same ceiling that nacre's own tools have."""
    probe_seconds: float = 5.0
    """How long a server that let a call time out has to show that it still answers."""
    exit_seconds: float = 2.0
    """After its input closed a server may tidy up this long before it is told to end."""
    term_seconds: float = 2.0
    """Between SIGTERM and SIGKILL."""
    result_tokens: int = 25_000
    """Above this a result would push the conversation out of the window."""
    description_chars: int = 2_048
    """Descriptions stand at the front of every request; some servers put whole manuals there."""
    schema_bytes: int = 65_536
    """A larger schema costs more than any tool is worth; the tool is left out, with a notice."""
    fragment_chars: int = 8_000
    """About 2,000 tokens per server after a compaction."""


def error_outcome(line: str) -> CallOutcome:
    """A failure the model can read."""
    return CallOutcome((Text(line),), is_error=True)


def one_line(text: str, *, chars: int = 300) -> str:
    """Foreign text fit for one line of ours: no control characters, no line breaks, cut with an ellipsis."""
    # An escape sequence from a server's output must not reach the user's terminal.
    printable = "".join(character if character.isprintable() else " " for character in text[: chars * 4])
    line = " ".join(printable.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
