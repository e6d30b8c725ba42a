"""Memories drawn from conversations: over HTTP with official SDKs, by rule without a model, at the end."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Simulator
from nacre.layers.l5_extract.layer import EXTRACTION, WORK
from nacre.messages.blocks import Json
from nacre.messages.events import Notice, Reply
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Provider
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.settings import Settings, load
from tests.cli.program import nacre
from tests.stories.processes import Sim, begun, eventually
from tests.stories.scenes import BAR, CLAUDE, GPT, OLDER_CLAUDE, call, calls, chain_of, project, say

HOME = "---\nname: Home\ndescription: Lives in Lisbon\ntype: user\n---\n\nThe user lives in Lisbon.\n"
READS: list[Json] = [calls(call("Read", file_path=f"module_{n}.py"), text=f"Number {n}.") for n in range(4)]


def settings_in(cwd: Path, **cli: str) -> Settings:
    environ = {
        "HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "PATH": "/usr/bin:/bin",
        "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions", "NACRE_NOTES": "false", "NACRE_DREAM": "false",
        "NACRE_BACKGROUND_IDLE_SECONDS": "0",
    }  # fmt: skip
    return replace(load(cwd, environ, cli=cli), is_interactive=True)


@pytest.mark.parametrize("model", [CLAUDE, OLDER_CLAUDE, GPT])
async def test_the_fork_reads_the_parents_cache_and_the_conversations_bytes_stay_as_they_were(
    model: str, tmp_path: Path
) -> None:
    """E5, F1, F4: at least 99 % of the parent's last request; the next turn goes on as if nothing was."""
    cwd = project(tmp_path / "work")
    settings = settings_in(cwd, model=model)
    async with Simulator() as sim:
        provider: Provider = (
            OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1")
            if model == GPT
            else AnthropicProvider(api_key="k", base_url=sim.url)
        )
        async with open_agent(settings, provider=provider) as ready:
            where = ready.memories[0].location.directory
            write = calls(call("Write", file_path=str(where / "lisbon.md"), content=HOME))
            sim.extend([*READS, "All read.", write, "Saved.", "You are welcome.", "Nothing."])
            await say(ready.agent, "Read everything. I live in Lisbon, by the way.")
            before = ready.agent.session.view
            await ready.background.wait(WORK)
            assert ready.agent.session.view == before
            events = await say(ready.agent, "thanks")
            await ready.background.wait(WORK)
            session = ready.agent.session
        await provider.close()
    parent, fork, second, after, last = sim.log[-5:]
    assert [one.refusal for one in sim.log if one.refusal] == []
    for now, then in ((fork, parent), (second, fork), (after, parent), (last, after)):
        assert now.usage.cache_read >= BAR * then.usage.prompt
    assert any(isinstance(one, Notice) and one.text.startswith("saved 1 memory: lisbon.md") for one in events)
    assert "The user lives in Lisbon." in (where / "lisbon.md").read_text()
    assert session.view.noted(EXTRACTION)[0].fact("saved") == 1
    if model != GPT:
        shared = chain_of(parent.body["messages"])
        assert chain_of(after.body["messages"])[: len(shared)] == shared
        assert chain_of(fork.body["messages"])[: len(shared)] == shared


@pytest.mark.parametrize(
    ("stated", "corrected", "question", "old", "new"),
    [
        ("I live in Lisbon.", "I live in Porto now.", "where do I live?", "Lisbon", "Porto"),
        ("我住在里斯本。", "我现在住在波尔图。", "我住在哪里？", "里斯本", "波尔图"),
    ],
)
async def test_without_a_model_what_was_stated_is_known_in_the_next_session_and_can_be_corrected(
    stated: str, corrected: str, question: str, old: str, new: str, tmp_path: Path
) -> None:
    """E10, M14c: in English and Chinese; of two homes the newer one counts, the other is in the history."""
    cwd = project(tmp_path / "work")
    assert (await talked(cwd, stated, question))[1] != "", "it may know in the same session already"
    (_, answer) = await talked(cwd, question)
    assert old in answer
    await talked(cwd, corrected)
    (_, answer) = await talked(cwd, question)
    assert new in answer
    assert old not in answer


async def talked(cwd: Path, *texts: str) -> tuple[list[str], str]:
    """A session with the embedded engine: what was told, and the last reply."""
    async with open_agent(settings_in(cwd)) as ready:
        events = await say(ready.agent, *texts)
    told = [one.text for one in ready.agent.session.notices()]
    return told, [one.message.text for one in events if isinstance(one, Reply)][-1]


@pytest.mark.slow
def test_the_program_waits_at_its_end_for_what_was_said_last_and_says_what_it_kept(
    sim: Sim, tmp_path: Path
) -> None:
    """E1, F5: `-p` only with the setting, and then it drains; the answer is there before that."""
    where = tmp_path / "memory"
    write = call("Write", file_path=str(where / "lisbon.md"), content=HOME)
    slow: Json = {"tool_calls": [write], "delay": 0.3}
    environ = sim.environ(NACRE_EXTRACT="true", NACRE_MEMORY_PATH_OVERRIDE=str(where))
    sim.script("Nice.", slow, "Saved.")
    done = nacre(tmp_path, "-p", "I live in Lisbon.", **environ)
    assert (done.returncode, done.stdout) == (0, "Nice.\n")
    assert not (where / "lisbon.md").exists()
    sim.script("Nice.", slow, "Saved.")
    done = nacre(tmp_path, "-p", "I live in Lisbon.", **environ, NACRE_EXTRACT_NON_INTERACTIVE="true")
    assert (done.returncode, done.stdout) == (0, "Nice.\n")
    assert "saved 1 memory: lisbon.md (undo: nacre memory undo " in done.stderr
    assert "The user lives in Lisbon." in (where / "lisbon.md").read_text()
    why = nacre(tmp_path, "memory", "why", "home", "--json", NACRE_MEMORY_PATH_OVERRIDE=str(where))
    told = json.loads(why.stdout)
    assert [one["text"] for one in told["words"]] == ["I live in Lisbon."]
    assert told["history"][0]["author"] == "extract"
    back = nacre(tmp_path, "memory", "undo", NACRE_MEMORY_PATH_OVERRIDE=str(where))
    assert back.returncode == 0, back.stderr
    assert not (where / "lisbon.md").exists()


def test_a_chat_that_is_left_tells_what_was_drawn_from_it(sim: Sim, tmp_path: Path) -> None:
    """E6, F5: the last turn counts, too."""
    where = tmp_path / "memory"
    write = call("Write", file_path=str(where / "lisbon.md"), content=HOME)
    environ = sim.environ(NACRE_EXTRACT="true", NACRE_MEMORY_PATH_OVERRIDE=str(where))
    sim.script("Nice.", {"tool_calls": [write], "delay": 0.3}, "Saved.")
    with begun(tmp_path, "chat", **environ) as chat:
        assert chat.stdin is not None
        chat.stdin.write("I live in Lisbon.\n")
        chat.stdin.close()
        chat.stdin = None
        _, said = chat.communicate(timeout=30)
    assert "saved 1 memory: lisbon.md" in said
    assert (where / "lisbon.md").exists()


@pytest.mark.slow
def test_a_provider_that_hangs_does_not_hold_somebody_who_leaves_twice(sim: Sim, tmp_path: Path) -> None:
    """F5: Ctrl-C while it drains leaves at once; memory is as it was."""
    where = tmp_path / "memory"
    environ = sim.environ(
        NACRE_EXTRACT="true", NACRE_EXTRACT_NON_INTERACTIVE="true", NACRE_MEMORY_PATH_OVERRIDE=str(where)
    )
    sim.script("Nice.", {"text": "never", "fault": {"kind": "hang", "after": 1}})
    with begun(tmp_path, "-p", "I live in Lisbon.", **environ) as program:
        eventually(lambda: len(sim.log()) == 2, "the fork's request")
        program.send_signal(signal.SIGINT)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=30)
    assert program.returncode is not None
    assert not list(where.glob("*.md"))
