"""Other people's clients on `nacre mcp`: the official inspector, and Claude Code against the simulator.

Both are programs of their own and not part of this repository: NACRE_TEST_INSPECTOR names the executable
`mcp-inspector`, NACRE_TEST_CLAUDE the one of Claude Code.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from nacre.devtools.sim.simulator import Simulator
from nacre.memory.memory import Memory
from nacre.messages.blocks import Json
from tests.integrations.mcp_server.serving import command, environment

INSPECTOR = os.environ.get("NACRE_TEST_INSPECTOR", "")
CLIENT = os.environ.get("NACRE_TEST_CLAUDE", "")
"""Read before the tests' own clean environment takes them away."""
MODEL = "claude-sonnet-4-5"
FACT = "The staging database is called pearl-two."


@pytest.mark.slow
@pytest.mark.skipif(not INSPECTOR, reason="NACRE_TEST_INSPECTOR does not name an mcp-inspector executable")
async def test_the_official_inspector_lists_saves_and_recalls(tmp_path: Path) -> None:
    async def inspected(method: str, *args: str) -> str:
        home = f"NACRE_HOME={os.environ['NACRE_HOME']}"
        asked = [INSPECTOR, "--cli", "-e", home, *command(), "--method", method, *args]
        return await run(asked, tmp_path, environment())

    async def called(tool: str, *arguments: str) -> str:
        given = [part for one in arguments for part in ("--tool-arg", one)]
        return await inspected("tools/call", "--tool-name", tool, *given)

    tools = json.loads(await inspected("tools/list"))["tools"]
    assert len(tools) == 8
    await called("memory_save", f"text={FACT}", "type=reference", "name=Staging")
    assert "pearl-two" in await called("memory_recall", "query=what is the staging database called?")
    assert "nacre://memory/staging.md" in await inspected("resources/list")
    assert "staging.md" in await inspected("prompts/get", "--prompt-name", "about_project")


@pytest.mark.slow
@pytest.mark.skipif(not CLIENT, reason="NACRE_TEST_CLAUDE does not name a Claude Code executable")
async def test_claude_code_saves_in_one_session_and_finds_it_in_the_next(tmp_path: Path) -> None:
    save = {"text": FACT, "type": "reference", "name": "Staging"}
    find = {"query": "what is the staging database called?"}
    script: list[Json] = [
        {"text": "Saving.", "tool_calls": [{"name": "mcp__nacre__memory_save", "input": save}]},
        "Saved.",
        {"text": "Looking.", "tool_calls": [{"name": "mcp__nacre__memory_recall", "input": find}]},
        "It is pearl-two.",
    ]
    async with Simulator(script) as sim:
        assert await claude(tmp_path, sim.url, "Remember the staging database") == "Saved."
        offered = json.dumps(sim.log[0].body["tools"])
        assert await claude(tmp_path, sim.url, "What is it called?") == "It is pearl-two."
        told = json.dumps(sim.log[-1].body["messages"])
    assert "mcp__nacre__memory_recall" in offered
    assert FACT in told
    [commit] = await (await Memory.open(tmp_path)).log()
    assert commit.reason == "memory_save over MCP by claude-code"


async def claude(cwd: Path, url: str, prompt: str) -> str:
    """One session of the client with this server and no other, and no way out but the simulator."""
    program, *args = command()
    server = {"command": program, "args": args, "env": environment()}
    config = json.dumps({"mcpServers": {"nacre": server}})
    environ = {
        **environment(), "HOME": str(cwd.parent), "CLAUDE_CONFIG_DIR": str(cwd.parent / "claude"),
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "no-key", "MCP_TIMEOUT": "60000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1", "ENABLE_TOOL_SEARCH": "false",
        # It waits for no server before its first request unless it is told to.
        "MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "60000",
    }  # fmt: skip
    allowed = ["--allowedTools", "mcp__nacre__memory_save,mcp__nacre__memory_recall"]
    asked = [CLIENT, "-p", prompt, "--model", MODEL, "--mcp-config", config, "--strict-mcp-config", *allowed]
    return await run(asked, cwd, environ)


async def run(asked: Sequence[str], cwd: Path, environ: dict[str, str]) -> str:
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *asked, cwd=cwd, env=environ, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(120):
        out, err = await started.communicate()
    assert started.returncode == 0, (out + err).decode()
    return out.decode().strip()
