"""Which tools the model is offered: those of the settings, without what a rule denies as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import Agent, Base, Session, tool
from nacre.app.open_agent import open_agent
from nacre.integrations.framework_session import Layers
from nacre.messages.events import Notice
from nacre.settings import load
from nacre.testing import ScriptedProvider, say


async def offered(tmp_path: Path, deny: str) -> set[str]:
    environ = {"NACRE_HOME": str(tmp_path / "home"), "NACRE_PERMISSIONS_DENY": deny}
    (tmp_path / "project").mkdir(exist_ok=True)
    provider = ScriptedProvider(otherwise=say("ok"))
    async with open_agent(load(tmp_path / "project", environ), provider=provider) as ready:
        await ready.agent.run("hi")
    return {str(one["name"]) for one in provider.requests[0].tools}


async def test_a_tool_that_is_denied_as_a_whole_is_not_sent(tmp_path: Path) -> None:
    usual = await offered(tmp_path, "[]")
    assert {"Bash", "Grep", "Glob", "Write", "remember"} <= usual
    assert await offered(tmp_path, '["Bash", "Write", "remember"]') == usual - {"Bash", "Write", "remember"}
    assert await offered(tmp_path, '["Bash(rm:*)", "Read(.env)"]') == usual


@tool
def look() -> str:
    """Look."""
    return ""


@tool
def other() -> str:
    """Look elsewhere."""
    return ""


async def test_a_session_with_other_tools_than_the_agents_says_so_once() -> None:
    provider = ScriptedProvider(otherwise=say("ok"))
    agent = Agent(provider=provider, session=Session(Base("m", "", [look])), tools=[other])
    lines = [
        event.text
        for prompt in ("hi", "again")
        async for event in agent.stream(prompt)
        if isinstance(event, Notice)
    ]
    assert lines == [
        "the model is shown look but the agent cannot run it; the model is not shown other; "
        "pass Agent the tools of the session's Base"
    ]
    provider = ScriptedProvider(otherwise=say("ok"))
    same = Agent(provider=provider, session=Session(Base("m", "", [look])), tools=[look])
    assert [event async for event in same.stream("hi") if isinstance(event, Notice)] == []


def test_wrong_values_are_refused_where_they_are_given() -> None:
    with pytest.raises(TypeError, match=r"results takes a pathlib\.Path, not str"):
        Layers(results="results")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a script holds texts"):
        ScriptedProvider([{"role": "assistant", "content": "x"}])  # type: ignore[list-item]
