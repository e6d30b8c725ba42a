"""Types of the MCP client: server configurations and their parser, tools, call outcomes and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject, ResultPart, Text

Pairs: TypeAlias = "tuple[tuple[str, str], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServerConfig:
    """A server that runs as a child process and communicates over its pipes."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = field(default=(), repr=False)
    """The whole environment of the process; not in the repr, because values are often secrets."""
    cwd: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServerConfig:
    """A server that is reached over streamable HTTP."""

    name: str
    url: str
    headers: Pairs = field(default=(), repr=False)
    """Not in the repr, because values are often secrets."""


ServerConfig: TypeAlias = StdioServerConfig | HttpServerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """One tool of one server, as the model sees it."""

    server: str
    name: str
    """The name on the server."""
    wire_name: str
    """The name that the model uses: `mcp__server__tool`, valid for every provider."""
    description: str
    input_schema: JsonObject
    """With sorted keys, so that a server that shuffles them does not change the prefix."""
    read_only: bool = False
    """The server declares that the tool changes nothing; only as trustworthy as the server."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The result of a call, cut to the limits."""

    parts: tuple[ResultPart, ...]
    is_error: bool = False
    left_out: str = ""
    """What the parts do not hold; empty if they hold everything."""
    whole: str = ""
    """All of the text, if the parts do not hold it."""

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class ServerInstructions:
    """What a server says about the use of its tools."""

    server: str
    text: str
    tools: frozenset[str]
    """The wire names of its tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimits:
    """Time and size limits; every wait in this package is bounded by one of them."""

    start_seconds: float = 30.0
    """A package runner may download the server first; after this time a user assumes that it hangs."""
    call_seconds: float = 60.0
    """Without progress from the server; each progress notification restarts it."""
    max_call_seconds: float = 900.0
    """Even with progress: the same limit as for nacre's own tools."""
    probe_seconds: float = 5.0
    """How long a server may take to answer a probe after a call timed out."""
    exit_seconds: float = 2.0
    """How long a server may clean up after its input closed, before SIGTERM."""
    term_seconds: float = 2.0
    """Between SIGTERM and SIGKILL."""
    result_tokens: int = 25_000
    """A larger result would fill the window."""
    description_chars: int = 2_048
    """Descriptions and instructions are part of every request; some servers put whole manuals there."""
    schema_bytes: int = 65_536
    """A tool with a larger schema is left out, with a notice."""


def error_outcome(line: str) -> CallOutcome:
    """Return a failure with a text for the model."""
    return CallOutcome((Text(line),), is_error=True)


def one_line(text: str, *, chars: int = 300) -> str:
    """Return foreign text as one line: no control characters or line breaks, cut with an ellipsis."""
    # An escape sequence from a server's output must not reach the user's terminal.
    printable = "".join(character if character.isprintable() else " " for character in text[: chars * 4])
    line = " ".join(printable.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
HTTP_TYPES = ("http", "streamable-http", "streamable_http")
INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a process needs to run; the user's keys reach a server only if its `env` names them."""


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
        """Return a string with its variables expanded, once and not recursively."""
        if not isinstance(value, str):
            raise self.wrong(field, "expected a string")

        def fill(found: re.Match[str]) -> str:
            name, default = found.groups()
            variable = self.environ.get(name)
            if default is not None:
                return variable or default
            if variable is None:
                raise self.wrong(
                    field, f"the environment variable {name} is not set; set it or write ${{{name}:-default}}"
                )
            return variable

        text = VARIABLE.sub(fill, value)
        if "\0" in text:
            raise self.wrong(field, "expected text without NUL characters")
        return text

    def pairs(self, field: str) -> Pairs:
        table = self.fields.get(field, {})
        if not isinstance(table, dict):
            raise self.wrong(field, "expected an object of strings")
        return tuple((key, self.text(f"{field}.{key}", value)) for key, value in sorted(table.items()))


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


def parse_servers(servers: JsonObject, *, environ: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Parse the enabled servers of `mcpServers`, sorted by name; `ConfigError` names the first invalid entry.

    The format is that of other programs, which often share the block, so unknown keys are ignored.
    """
    parsed: list[ServerConfig] = []
    for name, value in sorted(servers.items()):
        if isinstance(value, dict) and value.get("disabled") is True:
            continue
        entry = _Entry(name, value, environ)
        fields = entry.fields
        kind = fields.get("type", "stdio" if "command" in fields else "http" if "url" in fields else None)
        if kind == "stdio":
            parsed.append(_parse_stdio(entry))
        elif kind in HTTP_TYPES:
            parsed.append(_parse_http(entry))
        elif kind is None:
            raise entry.wrong("command", "missing; give a command to start or a url to reach")
        elif kind == "sse":
            raise entry.wrong("type", "sse is the old HTTP transport, which is not supported; use http")
        else:
            raise entry.wrong("type", "expected stdio or http")
    return tuple(parsed)
