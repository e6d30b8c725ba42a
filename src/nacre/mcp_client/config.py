"""The servers that settings name, in the shape other programs use: by `command` to start or `url` to reach.

Keys nobody here knows are left alone, because the same block is often shared with other programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import ConfigError
from nacre.mcp_client.base import HttpServer, Pairs, Server, StdioServer, one_line
from nacre.messages.blocks import Json, JsonObject

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
HTTP_TYPES = ("http", "streamable-http", "streamable_http")
INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a child needs to run at all; the user's keys reach a server only when its `env` names them."""


def parse_servers(servers: JsonObject, *, environ: Mapping[str, str]) -> tuple[Server, ...]:
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


def _parse_one(entry: _Entry) -> Server:
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


def _parse_stdio(entry: _Entry) -> StdioServer:
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
    return StdioServer(
        name=entry.name,
        command=command,
        args=tuple(entry.text(f"args.{place}", value) for place, value in enumerate(args)),
        env=tuple(sorted((inherited | dict(given)).items())),
        cwd=None if cwd is None else Path(entry.text("cwd", cwd)).expanduser(),
    )


def _parse_http(entry: _Entry) -> HttpServer:
    url = entry.text("url", entry.fields.get("url"))
    if not re.fullmatch(r"https?://[^\s/]+\S*", url):
        raise entry.wrong("url", "expected an address that starts with http:// or https://")
    headers = entry.pairs("headers")
    for key, value in headers:
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", key):
            raise entry.wrong("headers", f"{key!r} cannot be a header's name")
        if not (value.isascii() and value.isprintable()):
            raise entry.wrong(f"headers.{key}", "expected printable ASCII text")
    return HttpServer(name=entry.name, url=url, headers=headers)
