"""The values this room speaks in: what a server offers, what a call brings back, how far either may go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject, ResultPart, Text

Pairs: TypeAlias = "tuple[tuple[str, str], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServerConfig:
    """A server that is started as a child process and spoken to over its pipes."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = field(default=(), repr=False)
    """The child's whole environment; values are often secrets and never shown."""
    cwd: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServerConfig:
    """A server that is reached by streamable HTTP."""

    name: str
    url: str
    headers: Pairs = field(default=(), repr=False)
    """Often secrets, so never shown."""


ServerConfig: TypeAlias = StdioServerConfig | HttpServerConfig


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
class ServerSummary:
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


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
HTTP_TYPES = ("http", "streamable-http", "streamable_http")
INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a child needs to run at all; the user's keys reach a server only when its `env` names them."""


def parse_servers(servers: JsonObject, *, environ: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Every enabled server, sorted by name; the first bad entry is a `ConfigError` that says where."""
    return tuple(
        _parse_one(_Entry(name, entry, environ))
        for name, entry in sorted(servers.items())
        if not (isinstance(entry, dict) and entry.get("disabled") is True)
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    value: Json
    environ: Mapping[str, str]

    @property
    def fields(self) -> JsonObject:
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"mcpServers: {self.name!r} cannot be a server's name; use 1 to 64 letters, digits, _ or -"
            )
        if not isinstance(self.value, dict):
            raise ConfigError(f"mcpServers.{self.name}: expected an object with command or url")
        return self.value

    def wrong(self, field: str, expected: str) -> ConfigError:
        return ConfigError(f"mcpServers.{self.name}.{one_line(field)}: {expected}")

    def text(self, field: str, value: Json) -> str:
        """A string with its variables filled in; what is filled in is never looked at again."""
        if not isinstance(value, str):
            raise self.wrong(field, "expected a string")
        text = VARIABLE.sub(self._variable(field), value)
        if "\0" in text:
            raise self.wrong(field, "expected text without NUL characters")
        return text

    def _variable(self, field: str) -> Callable[[re.Match[str]], str]:
        def fill(found: re.Match[str]) -> str:
            name, default = found.groups()
            value = self.environ.get(name)
            if default is not None:
                return value or default
            if value is None:
                raise self.wrong(
                    field, f"the environment variable {name} is not set; set it or write ${{{name}:-default}}"
                )
            return value

        return fill

    def pairs(self, field: str) -> Pairs:
        table = self.fields.get(field, {})
        if not isinstance(table, dict):
            raise self.wrong(field, "expected an object of strings")
        return tuple((key, self.text(f"{field}.{key}", value)) for key, value in sorted(table.items()))


def _parse_one(entry: _Entry) -> ServerConfig:
    fields = entry.fields
    kind = fields.get("type", "stdio" if "command" in fields else "http" if "url" in fields else None)
    if kind == "stdio":
        return _parse_stdio(entry)
    if kind in HTTP_TYPES:
        return _parse_http(entry)
    if kind is None:
        raise entry.wrong("command", "missing; give a command to start or a url to reach")
    if kind == "sse":
        raise entry.wrong("type", "sse is the old HTTP transport, which is not supported; use http")
    raise entry.wrong("type", "expected stdio or http")


def _parse_stdio(entry: _Entry) -> StdioServerConfig:
    fields = entry.fields
    command = entry.text("command", fields.get("command"))
    if not command.strip():
        raise entry.wrong("command", "expected the program to start")
    args = fields.get("args", [])
    if not isinstance(args, list):
        raise entry.wrong("args", "expected a list of strings")
    given = entry.pairs("env")
    for key, _ in given:
        if not key or "=" in key or "\0" in key:
            raise entry.wrong("env", f"{key!r} cannot be a variable's name")
    inherited = {key: entry.environ[key] for key in INHERITED if key in entry.environ}
    cwd = fields.get("cwd")
    return StdioServerConfig(
        name=entry.name,
        command=command,
        args=tuple(entry.text(f"args.{place}", value) for place, value in enumerate(args)),
        env=tuple(sorted((inherited | dict(given)).items())),
        cwd=None if cwd is None else Path(entry.text("cwd", cwd)).expanduser(),
    )


def _parse_http(entry: _Entry) -> HttpServerConfig:
    url = entry.text("url", entry.fields.get("url"))
    if not re.fullmatch(r"https?://[^\s/]+\S*", url):
        raise entry.wrong("url", "expected an address that starts with http:// or https://")
    headers = entry.pairs("headers")
    for key, value in headers:
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", key):
            raise entry.wrong("headers", f"{key!r} cannot be a header's name")
        if not (value.isascii() and value.isprintable()):
            raise entry.wrong(f"headers.{key}", "expected printable ASCII text")
    return HttpServerConfig(name=entry.name, url=url, headers=headers)
