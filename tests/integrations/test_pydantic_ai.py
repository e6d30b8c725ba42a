"""Pydantic AI's agents with nacre's capability, over HTTP with its own model classes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pydantic_ai", reason="Pydantic AI is not installed: pip install 'nacre-memory[pydantic-ai]'"
)

from anthropic import AsyncAnthropic
from pydantic_ai import Agent, BinaryContent, ModelRetry, UsageLimits
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.usage import RequestUsage

from nacre.devtools.sim import Simulator
from nacre.integrations.framework_session import Layers
from nacre.integrations.pydantic_ai import NacreCapability, _told
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from tests.integrations.net import moved_at, results

MODEL = "claude-sonnet-5-5"
SYSTEM, RULES = "You look things up.", "Answer in one line."


async def look(topic: str, lines: int = 10) -> str:
    """Look something up."""
    if topic == "nothing":
        raise ModelRetry("there is nothing by that name")
    return "\n".join(f"{topic} {n}: a fact worth knowing" for n in range(lines))


def call(topic: str, lines: int = 10) -> dict[str, Any]:
    return {"tool_calls": [{"name": "look", "input": {"topic": topic, "lines": lines}}]}


@asynccontextmanager
async def agent(sim: Simulator, layers: Layers) -> AsyncIterator[Agent[None, str]]:
    async with AsyncAnthropic(api_key="none", base_url=sim.url, max_retries=0) as client:
        model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
        yield Agent(
            model,
            system_prompt=SYSTEM,
            instructions=RULES,
            tools=[look],
            capabilities=[NacreCapability(layers)],
        )


def sent(sim: Simulator, request: int) -> str:
    return json.dumps(sim.log[request].body["messages"])


async def test_long_results_are_on_disk_before_they_are_first_sent_and_can_be_read_back(
    tmp_path: Path,
) -> None:
    """C4, C6, C8: the model is pointed to the file, and the tool that reads it comes with the capability."""
    told: list[str] = []
    layers = Layers(results=tmp_path, on_notice=told.append)
    file = tmp_path / "toolu_00000001.txt"
    read = {"name": "Read", "input": {"file_path": str(file), "offset": 990, "limit": 2}}
    outside = {"name": "Read", "input": {"file_path": "/etc/hostname"}}
    script: list[Any] = [call("rivers", 1_000), {"tool_calls": [read, outside]}, "Done."]
    async with Simulator(script) as sim, agent(sim, layers) as helper:
        run = await helper.run("Tell me about rivers.")
        assert moved_at(sim.log) == []
        pointer, back = results(sim.log[1].body)[0][0], results(sim.log[2].body)
    assert pointer.startswith("<persisted-output>")
    assert "rivers 989: a fact" in back[0][0]
    assert f"Only files in {tmp_path} can be read with this tool." in back[1][0]
    assert file.read_text() == await look("rivers", 1_000)
    assert "rivers 999: a fact" in str(run.all_messages())
    assert told[0].startswith("look result of ")


@pytest.mark.parametrize("how", ["Cleared", "Compacted"])
async def test_a_long_task_stays_inside_its_window_and_moves_only_where_that_was_told(
    how: str, tmp_path: Path
) -> None:
    """C9, C12b, C26, C31: nothing moves but by a clear or a compaction; words and system survive both."""
    told: list[str] = []
    layers = Layers(window=20_000, on_notice=told.append)
    if how == "Cleared":
        layers = replace(layers, results=tmp_path, clearable=frozenset({"look"}), compacts=False)
    script: list[Any] = [{"thinking": f"Hm, {n}.", **call(f"topic {n}", 120)} for n in range(24)]
    async with Simulator([*script[:12], "Half.", *script[12:], "Done."]) as sim, agent(sim, layers) as helper:
        words, limits = "Look at all of them, but never at topic 41.", UsageLimits(request_limit=100)
        first = await helper.run(words, usage_limits=limits)
        run = await helper.run("Go on.", message_history=first.all_messages(), usage_limits=limits)
        moved = moved_at(sim.log)
        assert 0 < len(moved) < 5
        assert [line.split()[0] for line in told] == [how] * len(moved)
        assert max(line.usage.prompt for line in sim.log) < 20_000
        assert "never at topic 41" in sent(sim, -1)
        assert all(
            SYSTEM in str(line.body["system"]) and RULES in str(line.body["system"]) for line in sim.log
        )
    assert len(run.all_messages()) == 52
    assert "topic 0 119: a fact" in str(run.all_messages()[2])


async def test_memories_ride_behind_the_persons_words_and_stay_there(tmp_path: Path) -> None:
    """R1, R7, M25: at the tail, once, the same bytes ever after; the run's messages never hold them."""
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    body = "Deploys of the billing service go out on Tuesdays, never on Fridays."
    await memory.save(MemoryDraft(body=body), MemoryChange(author="user", reason="test"))
    script: list[Any] = [call("deploys"), call("nothing"), "On Tuesdays.", "As I said."]
    async with Simulator(script) as sim, agent(sim, Layers(memory=memory)) as helper:
        run = await helper.run("When do deploys of the billing service go out?")
        await helper.run("And when do deploys of billing not go out?", message_history=run.all_messages())
        assert moved_at(sim.log) == []
        assert [sent(sim, n).count("never on Fridays") for n in range(4)] == [1, 1, 1, 1]
        assert "there is nothing by that name" in sent(sim, 2)
    assert "Fridays" not in str(run.all_messages())


async def test_words_beside_a_picture_bring_memories_and_survive_a_compaction(tmp_path: Path) -> None:
    """R1, C26: whoever shows a picture has said something, too."""
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    body = "Deploys of the billing service go out on Tuesdays, never on Fridays."
    await memory.save(MemoryDraft(body=body), MemoryChange(author="user", reason="test"))
    told: list[str] = []
    layers = Layers(memory=memory, window=20_000, on_notice=told.append)
    picture = BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    words = ["When do deploys of billing go out?", picture, "Not topic 41."]
    script: list[Any] = [call(f"topic {n}", 300) for n in range(8)]
    async with Simulator([*script, "Done."]) as sim, agent(sim, layers) as helper:
        await helper.run(words)
        assert [line.split()[0] for line in told] == ["recalled", "Compacted"]
        assert sent(sim, 0).count("never on Fridays") == 1
        assert "Not topic 41." in sent(sim, -1)


async def test_a_picture_beside_a_long_answer_is_still_shown(tmp_path: Path) -> None:
    """C4: what goes to disk are the words."""

    async def photograph(topic: str) -> list[Any]:
        """Words and a picture."""
        return [topic * 20_000, BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png")]

    shot = {"tool_calls": [{"name": "photograph", "input": {"topic": "x"}}]}
    async with Simulator([shot, "Done."]) as sim, agent(sim, Layers(results=tmp_path)) as helper:
        helper.tool_plain(photograph)
        await helper.run("Show me.")
        messages: Any = sim.log[-1].body["messages"]
        words, picture = messages[-1]["content"][0]["content"]
    assert words["text"].startswith("<persisted-output>")
    assert picture["source"]["media_type"] == "image/png"


def test_reasoning_that_is_not_sent_back_takes_no_room() -> None:
    usage = RequestUsage(input_tokens=1_000, output_tokens=900, details={"reasoning_tokens": 800})
    plain = _told(ModelResponse(parts=[TextPart("Yes.")], usage=usage)).usage
    assert plain is not None
    assert (plain.output, plain.context) == (900, 1_100)
    kept = _told(ModelResponse(parts=[ThinkingPart("hm"), TextPart("Yes.")], usage=usage)).usage
    assert kept is not None
    assert kept.context == 1_900
