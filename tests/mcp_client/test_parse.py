"""Servers as settings name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ConfigError
from nacre.mcp_client import HttpServerConfig, StdioServerConfig, parse_servers

ENVIRON = {"PATH": "/bin", "HOME": "/home/u", "ANTHROPIC_API_KEY": "secret", "TOKEN": "t0k", "EMPTY": ""}


def test_servers_are_read_in_the_common_shape_and_sorted_by_name() -> None:
    servers = parse_servers(
        {
            "web": {
                "type": "http",
                "url": "https://x.example/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
            },
            "files": {
                "command": "${RUNNER:-npx}",
                "args": ["-y", "files@1", "${HOME}/docs"],
                "env": {"KEY": "${TOKEN}"},
                "cwd": "/tmp",
            },
            "also": {"url": "http://localhost:1/mcp"},
        },
        environ=ENVIRON,
    )
    assert servers == (
        HttpServerConfig(name="also", url="http://localhost:1/mcp"),
        StdioServerConfig(
            name="files",
            command="npx",
            args=("-y", "files@1", "/home/u/docs"),
            env=(("HOME", "/home/u"), ("KEY", "t0k"), ("PATH", "/bin")),
            cwd=Path("/tmp"),
        ),
        HttpServerConfig(name="web", url="https://x.example/mcp", headers=(("Authorization", "Bearer t0k"),)),
    )


def test_secrets_are_not_shown_and_not_inherited() -> None:
    """A key of the user reaches a server only when its own entry asks for it."""
    servers = parse_servers(
        {
            "a": {"command": "x", "env": {"K": "${TOKEN}"}},
            "b": {"url": "http://h/", "headers": {"X": "${TOKEN}"}},
        },
        environ=ENVIRON,
    )
    assert "t0k" not in repr(servers)
    assert "secret" not in str([server.env for server in servers if isinstance(server, StdioServerConfig)])


def test_a_filled_in_value_is_not_looked_at_again() -> None:
    (server,) = parse_servers({"a": {"command": "${A}"}}, environ={"A": "${B}", "B": "evil"})
    assert isinstance(server, StdioServerConfig) and server.command == "${B}"


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${NONE:-}", ""),
        ("$TOKEN $ {TOKEN} ${}", "$TOKEN $ {TOKEN} ${}"),
    ],
)
def test_variables_are_filled_in_as_a_shell_would(text: str, filled: str) -> None:
    (server,) = parse_servers({"a": {"command": "x", "args": [text]}}, environ=ENVIRON)
    assert isinstance(server, StdioServerConfig) and server.args == (filled,)


def test_a_disabled_server_is_left_out_whatever_else_it_says() -> None:
    assert parse_servers({"a": {"disabled": True, "command": 5}}, environ={}) == ()


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({}, "mcpServers.s.command: missing"),
        ({"command": 5}, "mcpServers.s.command: expected a string"),
        ({"command": " "}, "mcpServers.s.command: expected the program"),
        ({"type": "stdio"}, "mcpServers.s.command: expected a string"),
        ({"command": "x", "args": "y"}, "mcpServers.s.args: expected a list"),
        ({"command": "x", "args": ["a", 1]}, "mcpServers.s.args.1: expected a string"),
        ({"command": "x", "args": ["\0"]}, "mcpServers.s.args.0: expected text without NUL"),
        ({"command": "x", "env": []}, "mcpServers.s.env: expected an object"),
        ({"command": "x", "env": {"A": 1}}, "mcpServers.s.env.A: expected a string"),
        ({"command": "x", "env": {"A=B": "1"}}, "mcpServers.s.env: 'A=B' cannot be"),
        (
            {"command": "x", "env": {"A": "${NONE}"}},
            "mcpServers.s.env.A: the environment variable NONE is not set",
        ),
        ({"command": "x", "cwd": 1}, "mcpServers.s.cwd: expected a string"),
        ({"type": "http"}, "mcpServers.s.url: expected a string"),
        ({"url": "ftp://x"}, "mcpServers.s.url: expected an address"),
        ({"url": "https://x", "headers": {"A B": "c"}}, "mcpServers.s.headers: 'A B' cannot be"),
        ({"url": "https://x", "headers": {"A": "b\r\nC: d"}}, "mcpServers.s.headers.A: expected printable"),
        ({"type": "sse", "url": "https://x"}, "mcpServers.s.type: sse is the old"),
        ({"type": 1, "url": "https://x"}, "mcpServers.s.type: expected stdio or http"),
        ("npx", "mcpServers.s: expected an object"),
    ],
)
def test_a_bad_entry_is_one_line_that_names_server_and_field(entry: Any, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_servers({"good": {"command": "x"}, "s": entry}, environ=ENVIRON)
    assert str(raised.value).startswith(place)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 65, "a\nb"])
def test_a_name_that_cannot_stand_in_a_tools_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a server's name"):
        parse_servers({name: {"command": "x"}}, environ={})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(["type", "command", "args", "env", "cwd", "url", "headers", "disabled"])


@given(st.dictionaries(st.text(max_size=5) | st.just("s"), st.dictionaries(fields, json_values), max_size=3))
def test_whatever_stands_in_settings_is_read_or_refused_in_one_line(servers: Any) -> None:
    try:
        parsed = parse_servers(servers, environ={})
    except ConfigError as error:
        assert str(error).isprintable()
    else:
        assert [server.name for server in parsed] == sorted(server.name for server in parsed)
