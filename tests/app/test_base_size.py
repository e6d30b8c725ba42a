"""System prompt and tools of a session with default settings stay small: every request carries them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nacre.agents.team_roster import Roster, member_here
from nacre.app.open_agent import open_agent
from nacre.app.teammate import open_teammate
from nacre.devtools.sim import Simulator
from nacre.messages.tokens import estimate_text
from nacre.providers.anthropic import AnthropicProvider
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider, say

MAX_BASE = 4_000
"""With a model that supports deferred tools (P12)."""
MAX_BASE_UNDEFERRED = 6_200
"""With all definitions in the prompt."""
TOOLS = {"Bash", "Edit", "Glob", "Grep", "Read", "TaskList", "Write", "recall", "remember"}
RARE = {"Agent", "SendMessage", "TaskStop", "TeamTasks", "correct", "forget", "search_sessions"}


def default_settings(tmp_path: Path, model: str) -> Settings:
    project = tmp_path / "work"
    project.mkdir()
    return load(project, {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home")}, cli={"model": model})


@pytest.mark.parametrize(
    ("model", "limit", "deferred"),
    [
        ("claude-opus-5-5", MAX_BASE, RARE),
        ("claude-sonnet-4-6", MAX_BASE, RARE),
        ("claude-haiku-4-5", MAX_BASE, RARE),
        ("claude-3-5-haiku", MAX_BASE_UNDEFERRED, set()),
        ("gpt-6-sol", MAX_BASE_UNDEFERRED, set()),
        ("a-local-model", MAX_BASE_UNDEFERRED, set()),
    ],
)
async def test_the_base_of_a_default_session_is_small(
    tmp_path: Path, model: str, limit: int, deferred: set[str]
) -> None:
    settings = default_settings(tmp_path, model)
    async with open_agent(settings, provider=ScriptedProvider([say("hello")])) as ready:
        base = ready.agent.session.base
    names = {str(one["name"]) for one in base.tools}
    assert {str(one["name"]) for one in base.deferred} == deferred
    assert names == TOOLS | RARE | ({"ToolSearch"} if deferred else set())
    assert base.tokens <= limit


async def test_the_simulated_provider_counts_the_same(tmp_path: Path) -> None:
    """A first request is the base, what the session knows at its start, and a word."""
    settings = default_settings(tmp_path, "claude-opus-5-5")
    async with Simulator(["Hello."]) as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        async with open_agent(settings, provider=provider) as ready:
            async for _ in ready.agent.stream("hi"):
                pass
            opening = estimate_text(ready.agent.session.base.opening)
        await provider.close()
    prompt = sim.log[0].usage.prompt
    assert prompt - opening <= MAX_BASE
    assert prompt - opening == pytest.approx(ready.agent.session.base.tokens, abs=50)


async def test_a_teammate_has_its_mail_and_tasks_loaded(tmp_path: Path) -> None:
    """P12: in a process of its own it writes letters and takes tasks all the time."""
    settings = default_settings(tmp_path, "anthropic:claude-opus-5-5")
    settings = replace(settings, environ={**settings.environ, "ANTHROPIC_API_KEY": "k"})
    Roster(settings.home, "crew").create(member_here("main"))
    async with open_teammate(settings, "ann", "crew", kind="general") as mate:
        base = mate.ready.agent.session.base
    assert {str(one["name"]) for one in base.deferred} == RARE - {"SendMessage", "TeamTasks"}
