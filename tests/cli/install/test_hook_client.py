"""The hooks with the client itself, against the simulator, if NACRE_TEST_CLAUDE names its executable."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path

import pytest

from nacre.devtools.sim.simulator import Simulator
from nacre.integrations.claude_code.compact import keep_words
from nacre.integrations.claude_code.input import HookInput, kept_path
from nacre.messages.blocks import Json
from tests.cli.hooks_of_a_client import ClientWorld, waited_for
from tests.cli.program import nacre

CLIENT = os.environ.get("NACRE_TEST_CLAUDE", "")
"""Read before the tests' own clean environment takes it away."""
DATA = Path(__file__).parents[4] / "shared" / "data" / "claude_code_sessions" / "raw"
MODEL = "claude-sonnet-4-5"
RELEASES = "Releases of the billing service leave on Thursdays."


@pytest.mark.slow
@pytest.mark.skipif(not CLIENT, reason="NACRE_TEST_CLAUDE does not name a Claude Code executable")
async def test_the_client_passes_memories_and_words_on_to_its_model(tmp_path: Path) -> None:
    """From nacre's memory to the same one in the client by one command of ours; and back."""
    client = ClientWorld(tmp_path)
    (client.home / "settings.json").write_text('{"cleanupPeriodDays": 30}')
    at = {"CLAUDE_CONFIG_DIR": str(client.home), "NACRE_HOME": str(tmp_path / "own")}
    assert nacre(client.project, "memory", "save", RELEASES, "--name", "releases", **at).returncode == 0
    assert nacre(client.project, "install", "claude-code", "--yes", **at).returncode == 0
    async with Simulator(
        ["Thursdays.", "You are welcome.", "Summary: releases.", "Thursdays, still.", "Understood."]
    ) as sim:
        await asked(client, sim.url, "-p", "When do releases of the billing service leave?")
        await asked(client, sim.url, "--continue", "-p", "Thanks a lot")
        await asked(client, sim.url, "--continue", "-p", "/compact")
        await asked(client, sim.url, "--continue", "-p", "And when do billing service releases leave?")
        first, *_, last = (json.dumps(one.body["messages"]) for one in sim.log)
        await asked(client, sim.url, "-p", "Never deploy on Fridays.", NACRE_EXTRACT_NON_INTERACTIVE="1")
    assert "UserPromptSubmit hook additional context: From your memory" in first
    assert RELEASES in first
    # The compaction took it away; it comes back with the words that were kept.
    assert RELEASES in last
    assert "1. When do releases of the billing service leave?" in last
    # What was learnt there is known here.
    assert waited_for(lambda: "Fridays" in nacre(client.project, "memory", "list", **at).stdout)
    assert nacre(client.project, "uninstall", "claude-code", "--yes", **at).returncode == 0
    assert "Fridays" not in nacre(client.project, "memory", "list", **at).stdout
    assert (client.home / "settings.json").read_text() == '{"cleanupPeriodDays": 30}'


async def asked(client: ClientWorld, url: str, *arguments: str, **more: str) -> None:
    """One run of the client, with no way out but the simulator."""
    environ = client.environ(
        ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="no-key", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_TELEMETRY="1", DISABLE_ERROR_REPORTING="1", DISABLE_AUTOUPDATER="1", **more,
    )  # fmt: skip
    for name in ("CLAUDE_PROJECT_DIR", "CLAUDE_CODE_ENTRYPOINT"):
        del environ[name]
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        CLIENT, *arguments, "--model", MODEL,
        cwd=client.project, env=environ, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe,
    )  # fmt: skip
    async with asyncio.timeout(120):
        _, err = await started.communicate()
    assert started.returncode == 0, err.decode()


def test_words_of_real_sessions_are_kept_whole(tmp_path: Path) -> None:
    """C20: every message that a person typed stands in the file, or is counted as left out."""
    if not DATA.is_dir():
        pytest.skip("needs recorded sessions in shared/data/claude_code_sessions beside the repository")
    folder = tmp_path / "projects" / "-x"
    folder.mkdir(parents=True)
    for packed in sorted(DATA.glob("*.jsonl.gz")):
        log = folder / packed.name.removesuffix(".gz")
        log.write_bytes(gzip.decompress(packed.read_bytes()))
        keep_words(
            HookInput(event="PreCompact", session=log.stem, home=tmp_path, cwd=tmp_path, transcript=str(log))
        )
        text = kept_path(log).read_text()
        typed = [words for line in log.read_text().splitlines() if (words := _typed(json.loads(line)))]
        assert typed
        assert all(words in text for words in typed) or "not shown here" in text


def _typed(line: Json) -> str:
    """A person's plain words, as the client marks them."""
    if not isinstance(line, dict) or line.get("type") != "user":
        return ""
    if line.get("isMeta") or line.get("isSidechain"):
        return ""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    is_typed = isinstance(content, str) and not content.startswith(("<", "[", "This session"))
    return str(content).strip() if is_typed else ""
