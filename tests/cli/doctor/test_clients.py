"""`nacre doctor` lists the programs in which nacre is installed, and entries that start nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.cli.install.mcp_clients import CLIENTS, config_file
from nacre.integrations.claude_code.input import EVENTS
from tests.cli.program import nacre


def checks(here: Path, name: str) -> list[tuple[bool, str]]:
    found = json.loads(nacre(here, "doctor", "--json").stdout)["checks"]
    return [(one["ok"], one["message"]) for one in found if one["name"] == name]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_an_installed_program_is_listed_and_a_removed_or_dead_entry_is_a_problem(client, here: Path) -> None:
    path = config_file(client, {"HOME": str(here)}, None)
    path.parent.mkdir(parents=True)
    assert checks(here, client.name) == []
    assert nacre(here, "install", client.name, "--yes").returncode == 0
    text = path.read_text()
    (found,) = checks(here, client.name)
    assert found[0] and found[1].startswith(f"{path} starts /")

    path.write_text('"mcp", "--read-only"'.join(text.rsplit('"mcp"', 1)))
    ((is_ok, message),) = checks(here, client.name)
    assert is_ok and message.endswith(", changed since it was installed")

    program = message.split(" starts ")[1].partition(",")[0]
    path.write_text(text.replace(program, "/gone/nacre"))
    ((is_ok, message),) = checks(here, client.name)
    assert not is_ok and "it starts /gone/nacre, which is not there" in message

    path.write_text("")
    ((is_ok, message),) = checks(here, client.name)
    assert not is_ok and f"is gone; `nacre install {client.name}` adds it again" in message
    path.write_text("= {nonsense")
    ((is_ok, message),) = checks(here, client.name)
    assert not is_ok and str(path) in message


def test_the_hooks_of_claude_code_are_counted(here: Path) -> None:
    path = here / ".claude" / "settings.json"
    path.parent.mkdir()
    assert checks(here, "claude-code") == []
    assert nacre(here, "install", "claude-code", "--yes").returncode == 0
    ((is_ok, message),) = checks(here, "claude-code")
    assert is_ok and f"has all {len(EVENTS)} hooks, which start /" in message
    document = json.loads(path.read_text())
    del document["hooks"]["Stop"]
    path.write_text(json.dumps(document))
    ((is_ok, message),) = checks(here, "claude-code")
    assert not is_ok and "1 hook of 5 missing (Stop); `nacre install claude-code` adds" in message
    program = document["hooks"]["SessionStart"][0]["hooks"][0]["command"].split(" ")[0]
    path.write_text(json.dumps(document).replace(program, "/gone/nacre"))
    ((is_ok, message),) = checks(here, "claude-code")
    assert not is_ok and "/gone/nacre, which is not there" in message
    path.write_text("{}")
    ((is_ok, message),) = checks(here, "claude-code")
    assert not is_ok and "are gone" in message
