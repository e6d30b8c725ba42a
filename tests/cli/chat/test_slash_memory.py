"""`/memory`: all that a conversation did to memory, whoever did it, and the last of it taken back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.cli.chat.slash_memory import saved_here
from nacre.providers.embedded.provider import EmbeddedProvider
from nacre.settings import Settings, load


def settings_in(cwd: Path, **cli: str) -> Settings:
    environ = {"HOME": str(cwd), "NACRE_HOME": str(cwd / "home"), "NACRE_NOTES": "false", **cli}
    return replace(load(cwd, environ), is_interactive=True)


async def say(ready: OpenedAgent, text: str) -> None:
    async for _ in ready.agent.stream(text):
        pass


async def test_what_was_remembered_corrected_and_drawn_is_all_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """E6, M15: by the session in the history, newest first, and not what another conversation saved."""
    settings = settings_in(tmp_path)
    async with open_agent(settings, provider=EmbeddedProvider()) as ready:
        await say(ready, "remember that the lamp is on")
    async with open_agent(settings, provider=EmbeddedProvider()) as ready:
        await saved_here(ready, "")
        assert capsys.readouterr().out.startswith("nothing was saved from this conversation yet")
        await say(ready, "remember: deploys are on Tuesday")
        await say(ready, "actually it is Friday, not Tuesday")
        await say(ready, "By the way, I live in Lisbon.")
        await saved_here(ready, "")
        told = capsys.readouterr().out.splitlines()
        assert [line.partition(" (undo: nacre memory undo ")[0] for line in told] == [
            "saved, as drawn from the conversation: user_home.md",
            "corrected project_deploys_tuesday.md",
            "saved project_deploys_tuesday.md",
        ]


async def test_undo_takes_back_the_last_and_then_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """E6, M15: also where nothing is drawn from the conversation."""
    settings = settings_in(tmp_path, NACRE_EXTRACT_MODE="off")
    async with open_agent(settings, provider=EmbeddedProvider()) as ready:
        await saved_here(ready, "undo")
        assert "none is drawn from it (see extract.mode)" in capsys.readouterr().out
        await say(ready, "remember: deploys are on Tuesday")
        await say(ready, "actually it is Friday, not Tuesday")
        for left in (["deploys are on Tuesday\n"], []):
            await saved_here(ready, "undo")
            assert "took back project_deploys_tuesday.md" in capsys.readouterr().out
            assert [entry.body for entry in await ready.memories[0].list()] == left
        await saved_here(ready, "")
        assert capsys.readouterr().out.startswith("nothing was saved")
