"""A switch that changes in a settings file acts at the next turn; what cannot change then is said."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.l4_compact.layer import Compact
from nacre.messages.blocks import ToolResult
from nacre.messages.events import Event, Notice, ToolResultEvent
from nacre.settings import load
from nacre.testing import ScriptedProvider, call, say
from tests.stories.scenes import environment, quiet

LONG = "seq 1 6000"


@pytest.fixture
async def ready(tmp_path: Path, provider: ScriptedProvider) -> AsyncIterator[OpenedAgent]:
    settings = load(quiet(tmp_path / "work"), environment(tmp_path / "work"))
    async with open_agent(settings, provider=provider) as opened:
        yield opened


def switch(tmp_path: Path, **switches: object) -> None:
    path = tmp_path / "work" / "home" / "settings.json"
    off = dict.fromkeys(("notes", "compact_prepare", "extract", "dream"), False)
    path.write_text(json.dumps({"switches": {**off, **switches}}), encoding="utf-8")


async def turn(ready: OpenedAgent, text: str) -> list[Event]:
    return [event async for event in ready.agent.stream(text)]


def notices(events: list[Event]) -> list[str]:
    return [one.text for one in events if isinstance(one, Notice)]


def result(ready: OpenedAgent) -> str:
    """The last tool result as the model sees it."""
    blocks = [part.block for item in ready.agent.session.view.items for part in item.parts]
    return [one for one in blocks if isinstance(one, ToolResult)][-1].text


async def test_offload_goes_off_and_on_between_turns(
    tmp_path: Path, ready: OpenedAgent, provider: ScriptedProvider
) -> None:
    run = (call("Bash", command=LONG), say("done"))
    provider.script(*run, *run, *run)
    await turn(ready, "one")
    assert "<persisted-output>" in result(ready)
    switch(tmp_path, offload=False)
    events = await turn(ready, "two")
    assert "switches.offload is off from this turn on." in notices(events)
    assert any(isinstance(one, ToolResultEvent) for one in events)
    assert "<persisted-output>" not in result(ready)
    switch(tmp_path, offload=True)
    assert "switches.offload is on from this turn on." in notices(await turn(ready, "three"))
    assert "<persisted-output>" in result(ready)


async def test_automatic_compaction_goes_off(
    tmp_path: Path, ready: OpenedAgent, provider: ScriptedProvider
) -> None:
    provider.script("one", "two", "three")
    compact = ready.agent.session.layer(Compact)
    assert compact is not None
    await turn(ready, "one")
    assert compact.is_automatic
    switch(tmp_path, compact=False)
    assert notices(await turn(ready, "two")) == ["switches.compact is off from this turn on."]
    assert not compact.is_automatic
    assert notices(await turn(ready, "three")) == [], "said once"


async def test_tools_stay_and_the_person_is_told_when_they_will_change(
    tmp_path: Path, ready: OpenedAgent, provider: ScriptedProvider
) -> None:
    """C31b: other tools would cost the whole cache."""
    provider.script("one", "two")
    await turn(ready, "one")
    tools = ready.agent.session.base.tools
    switch(tmp_path, agents=False)
    line = notices(await turn(ready, "two"))[0]
    assert line.startswith("switches.agents changed; it takes effect when this session is opened again")
    assert ready.agent.session.base.tools == tools


async def test_a_file_that_cannot_be_read_changes_nothing(
    tmp_path: Path, ready: OpenedAgent, provider: ScriptedProvider
) -> None:
    provider.script("one", "two", "three")
    await turn(ready, "one")
    path = tmp_path / "work" / "home" / "settings.json"
    path.write_text("{", encoding="utf-8")
    (line,) = notices(await turn(ready, "two"))
    assert line.startswith("The settings changed and cannot be used: ")
    assert "\n" not in line
    switch(tmp_path, recall=False)
    assert any("switches.recall" in line for line in notices(await turn(ready, "three")))
