"""Codex, Gemini CLI and opencode read what `nacre install` wrote; Claude Code accepts the plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.program import nacre
from tests.npm_agents import NEEDS_AGENTS, installed_agents

PACKAGES = ("@openai/codex", "@google/gemini-cli", "opencode-ai", "@anthropic-ai/claude-code")

pytestmark = [pytest.mark.slow, NEEDS_AGENTS]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_agents(tmp_path_factory.mktemp("agents"), PACKAGES)


def listed(programs: Path, program: str, *args: str, cwd: Path) -> str:
    """Return what a client prints, which Gemini CLI does on stderr; skips if its package is not installed."""
    if not (programs / program).exists():
        pytest.skip(f"{program} is not in {programs}")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "HOME": str(cwd), "TMPDIR": str(cwd), "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    done = subprocess.run(
        [str(programs / program), *args], cwd=cwd, env=environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-2_000:]
    return done.stdout.strip() or done.stderr


def test_codex_lists_the_server_and_may_rewrite_its_file_before_the_undo(
    programs: Path, tmp_path: Path
) -> None:
    assert nacre(tmp_path, "install", "codex", "--yes", HOME=str(tmp_path)).returncode == 0
    shown = listed(programs, "codex", "mcp", "list", "--json", cwd=tmp_path)
    (server,) = json.loads(shown)
    assert (server["name"], server["enabled"]) == ("nacre", True)
    assert server["transport"]["args"][-1] == "mcp"
    listed(programs, "codex", "mcp", "add", "other", "--", "echo", "hi", cwd=tmp_path)
    done = nacre(tmp_path, "uninstall", "codex", "--yes", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    left = tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())
    assert left == {"mcp_servers": {"other": {"command": "echo", "args": ["hi"]}}}


@pytest.mark.parametrize("client", ["gemini", "opencode"])
def test_the_client_connects_to_the_server(programs: Path, tmp_path: Path, client: str) -> None:
    assert nacre(tmp_path, "install", client, "--yes", HOME=str(tmp_path)).returncode == 0
    shown = listed(programs, client, "mcp", "list", cwd=tmp_path)
    (line,) = [one for one in shown.splitlines() if "nacre" in one and "onnected" in one]
    assert "Disconnected" not in line
    done = nacre(tmp_path, "uninstall", client, "--yes", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_claude_code_accepts_the_plugin_and_connects_to_its_server(programs: Path, tmp_path: Path) -> None:
    plugin = Path(__file__).parents[3] / "plugin"
    for manifest in ("plugin.json", "marketplace.json"):
        listed(
            programs, "claude", "plugin", "validate", str(plugin / ".claude-plugin" / manifest), cwd=tmp_path
        )
    listed(programs, "claude", "plugin", "marketplace", "add", str(plugin), cwd=tmp_path)
    listed(programs, "claude", "plugin", "install", "nacre@nacre", cwd=tmp_path)
    shown = listed(programs, "claude", "mcp", "list", cwd=tmp_path)
    (line,) = [one for one in shown.splitlines() if one.startswith("plugin:nacre:nacre:")]
    assert line.endswith("Connected")
