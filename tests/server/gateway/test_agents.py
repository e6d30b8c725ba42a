"""Real agents through the gateway: Claude Code and Codex, offline against the simulator."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nacre.app.open_memory import open_memory
from nacre.cache.prefix_monitor import message_blocks
from nacre.devtools.sim.simulator import Simulator
from nacre.integrations.framework_session import Layers
from nacre.integrations.request_shrinker import RequestShrinker
from nacre.messages.blocks import Json, JsonObject
from nacre.server.gateway.observer import ObservedRequest, SessionObserver
from nacre.server.gateway.proxy import ClientRequest
from nacre.settings import load
from tests.npm_agents import NEEDS_AGENTS, installed_agents
from tests.server.gateway.proxying import Running, gateway

PACKAGES = ("@anthropic-ai/claude-code", "@openai/codex")
SECONDS = 120

pytestmark = [
    pytest.mark.slow,
    NEEDS_AGENTS,
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the agents' programs."""
    return installed_agents(tmp_path_factory.mktemp("agents"), PACKAGES)


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("The box is in the attic.\n")
    return folder


@dataclass
class Tap:
    """What an agent sent, byte for byte, before the gateway passed it on."""

    bodies: list[bytes] = field(default_factory=list)


@pytest.fixture
def tap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tap]:
    kept = Tap()
    begin = SessionObserver.begin

    async def begun(self: SessionObserver, call: ClientRequest, body: bytes) -> ObservedRequest:
        kept.bodies.append(body)
        return await begin(self, call, body)

    monkeypatch.setattr(SessionObserver, "begin", begun)
    yield kept


async def run(program: Path, *args: str, cwd: Path, environ: dict[str, str]) -> bytes:
    """Return what a program printed."""
    pipe = asyncio.subprocess.PIPE
    home = cwd.parent / "home"
    home.mkdir(exist_ok=True)
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), **environ}
    started = await asyncio.create_subprocess_exec(
        str(program), *args, cwd=cwd, env=given, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        out, err = await asyncio.wait_for(started.communicate(), SECONDS)
    finally:
        if started.returncode is None:
            started.kill()
    assert started.returncode == 0, (out + err).decode()[-2_000:]
    return out


async def claude(programs: Path, cwd: Path, url: str, prompt: str) -> list[dict[str, Any]]:
    """Return the messages of one session of Claude Code that has no way out but this address."""
    environ = {
        "CLAUDE_CONFIG_DIR": str(cwd.parent / "home" / "claude"),
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-api-no-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1", "ENABLE_TOOL_SEARCH": "false",
        "MAX_THINKING_TOKENS": "0",
    }  # fmt: skip
    asked = ["-p", prompt, "--model", "claude-sonnet-4-5"]
    asked += ["--output-format", "stream-json", "--verbose", "--allowedTools", "Read"]
    out = await run(programs / "claude", *asked, cwd=cwd, environ=environ)
    return [json.loads(line) for line in out.splitlines() if line.startswith(b"{")]


def transcript(messages: list[dict[str, Any]]) -> list[Any]:
    """Return what was said, without the ids of this run."""
    contents = [one["message"]["content"] for one in messages if one["type"] in {"assistant", "user"}]
    return [[{k: v for k, v in block.items() if "id" not in k} for block in content] for content in contents]


async def codex(programs: Path, cwd: Path, url: str, prompt: str) -> bytes:
    """Return the answer of one session of Codex."""
    home = cwd.parent / "home" / "codex"
    home.mkdir(parents=True, exist_ok=True)
    provider = f'name = "nacre"\nbase_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
    (home / "config.toml").write_text(
        f'model = "gpt-6-sol"\nmodel_provider = "nacre"\n[model_providers.nacre]\n{provider}'
        "supports_websockets = false\n[analytics]\nenabled = false\n"
    )
    environ = {"CODEX_HOME": str(home), "OPENAI_API_KEY": "sk-no-key"}
    return await run(programs / "codex", "exec", "--skip-git-repo-check", prompt, cwd=cwd, environ=environ)


@asynccontextmanager
async def both(script: list[Json], **changes: Any) -> AsyncIterator[tuple[Simulator, Simulator, Running]]:
    async with (
        Simulator(script) as direct,
        Simulator(script) as behind,
        gateway(behind.url, **changes) as proxy,
    ):
        yield direct, behind, proxy


def reading(cwd: Path) -> list[Json]:
    call: JsonObject = {"name": "Read", "input": {"file_path": str(cwd / "notes.txt")}}
    return [{"text": "Reading.", "tool_calls": [call]}, "It is in the attic."]


async def test_claude_code_says_the_same_through_it(programs: Path, cwd: Path, tap: Tap) -> None:
    prompt = "Where is the box? See notes.txt"
    async with both(reading(cwd)) as (direct, behind, proxy):
        without = await claude(programs, cwd, direct.url, prompt)
        through = await claude(programs, cwd, proxy.url, prompt)
        session = max(await proxy.sessions(len(behind.log)), key=lambda one: one.requests)
    assert [one for one in through if one["type"] in {"assistant", "user"}]
    assert transcript(through) == transcript(without)
    assert len(direct.log) == len(behind.log) >= 2
    assert [json.loads(body) for body in tap.bodies] == [line.body for line in behind.log]
    assert session.client.startswith("claude-cli/")
    assert session.requests >= 2
    assert session.failed == 0
    assert session.cost_usd > 0
    assert not session.broken


async def test_claude_code_remembers_in_its_next_session_and_keeps_its_cache(
    programs: Path, cwd: Path
) -> None:
    """What is stated in one session comes back in another one, and its second request reads the cache."""
    settings = load(cwd, os.environ)
    script: list[Json] = ["Noted.", *reading(cwd)]
    async with Simulator(script) as sim, gateway(sim.url, memory=settings) as proxy:
        await claude(programs, cwd, proxy.url, "Remember that boxes of the workshop are painted blue.")
        memory = await open_memory(settings)
        async with asyncio.timeout(30):
            while not (entries := await memory.list()):
                await asyncio.sleep(0.05)
        assert "painted blue" in entries[0].body
        prompt = "Where are the boxes of the workshop, and how are they painted?"
        await claude(programs, cwd, proxy.url, prompt)
        sessions = await proxy.sessions(len(sim.log))
    second, third = (line.body for line in sim.log[-2:])
    assert "painted blue" in json.dumps(second["messages"])
    before, after = (
        [data for _, data in message_blocks(body["messages"])]  # type: ignore[arg-type]
        for body in (second, third)
    )
    assert after[: len(before)] == before
    assert sim.log[-1].usage.cache_read >= sim.log[-2].usage.cache_write > 0
    assert not any(one.broken or one.problems for one in sessions)


async def test_codex_says_the_same_through_it_with_all_features(programs: Path, cwd: Path, tap: Tap) -> None:
    script: list[Json] = ["It is in the attic."]
    async with both(script) as (direct, behind, proxy):
        prompt = "Where is the box?"
        assert await codex(programs, cwd, proxy.url, prompt) == await codex(programs, cwd, direct.url, prompt)
        assert [json.loads(body) for body in tap.bodies] == [line.body for line in behind.log]
    settings = load(cwd, os.environ)
    await (await open_memory(settings)).save("Boxes of the workshop stand in the attic.")
    made = RequestShrinker(cwd.parent / "results", Layers())
    async with Simulator(script) as sim, gateway(sim.url, memory=settings, shrinker=made) as proxy:
        said = await codex(programs, cwd, proxy.url, "Where do the boxes of the workshop stand?")
        found = await proxy.sessions(2)
    assert b"It is in the attic." in said
    assert "Boxes of the workshop stand in the attic." in json.dumps(sim.log[0].body["input"])
    assert not any(one.failed or one.problems for one in found)
