"""LangChain's agents with nacre's middleware, over HTTP with LangChain's own client."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="LangChain is not installed: pip install 'nacre-memory[langchain]'")
pytest.importorskip("langchain_anthropic", reason="its client for Claude is not installed")

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from nacre.devtools.sim import SimClock, Simulator
from nacre.integrations.framework_session import Layers
from nacre.integrations.langchain import NacreMiddleware, _told
from nacre.layers.l2_microcompact.settings import MicrocompactSettings
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.testing import FrozenClock
from tests.integrations.net import moved_at, results

MODEL = "claude-sonnet-5-5"


@tool
async def look(topic: str, lines: int = 10) -> str:
    """Look something up."""
    return "\n".join(f"{topic} {n}: a fact worth knowing" for n in range(lines))


def call(topic: str, lines: int = 10) -> dict[str, Any]:
    return {"tool_calls": [{"name": "look", "input": {"topic": topic, "lines": lines}}]}


def anthropic(sim: Simulator) -> ChatAnthropic:
    return ChatAnthropic(  # type: ignore[call-arg]
        model_name=MODEL,
        api_key="none",  # type: ignore[arg-type]
        base_url=sim.url,
        max_retries=0,
        default_headers={"Connection": "close"},  # so that no socket outlives the simulator
    )


def agent(sim: Simulator, layers: Layers) -> Any:
    middleware = [NacreMiddleware(layers)]
    return create_agent(anthropic(sim), [look], system_prompt="You look things up.", middleware=middleware)


def sent(sim: Simulator, request: int) -> str:
    return json.dumps(sim.log[request].body["messages"])


async def test_long_results_are_on_disk_before_they_are_first_sent_and_can_be_read_back(
    tmp_path: Path,
) -> None:
    """C4, C6, C8: the model is pointed to the file, and the tool that reads it comes with the middleware."""
    told: list[str] = []
    async with Simulator([call("rivers", 1_000)]) as sim:
        work = agent(sim, Layers(results=tmp_path, on_notice=told.append))
        file = tmp_path / "toolu_00000001.txt"
        read = {"name": "Read", "input": {"file_path": str(file), "offset": 990, "limit": 2}}
        outside = {"name": "Read", "input": {"file_path": "/etc/hostname"}}
        sim.extend([{"tool_calls": [read, outside]}, "Done."])
        state = await work.ainvoke({"messages": [HumanMessage("Tell me about rivers.")]})
        assert moved_at(sim.log) == []
        pointer, back = results(sim.log[1].body)[0][0], results(sim.log[2].body)
    assert pointer.startswith("<persisted-output>")
    assert "rivers 989: a fact" in back[0][0]
    assert back[1] == (f"Only files in {tmp_path} can be read with this tool.", True)
    whole = state["messages"][2].content
    assert file.read_text() == whole == await look.ainvoke({"topic": "rivers", "lines": 1_000})
    assert told[0].startswith("look result of ")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["Cleared", "Compacted"])
async def test_a_long_task_stays_inside_its_window_and_moves_only_where_that_was_told(
    how: str, tmp_path: Path
) -> None:
    """C9, C12b, C26, C31: nothing moves but by a clear or a compaction; the person's words survive both."""
    told: list[str] = []
    layers = Layers(window=20_000, on_notice=told.append)
    if how == "Cleared":
        layers = replace(layers, results=tmp_path, clearable=frozenset({"look"}), compacts=False)
    script: list[Any] = [{"thinking": f"Hm, {n}.", **call(f"topic {n}", 120)} for n in range(24)]
    async with Simulator([*script, "Done."]) as sim:
        words = HumanMessage("Look at all of them, but never at topic 41.")
        state = await agent(sim, layers).ainvoke({"messages": [words]}, {"recursion_limit": 200})
        moved = moved_at(sim.log)
        assert 0 < len(moved) < 5
        assert [line.split()[0] for line in told] == [how] * len(moved)
        assert max(line.usage.prompt for line in sim.log) < 20_000
        assert "never at topic 41" in sent(sim, -1)
    assert len(state["messages"]) == 50
    assert state["messages"][2].content == await look.ainvoke({"topic": "topic 0", "lines": 120})


async def test_memories_ride_behind_the_persons_words_and_stay_there(tmp_path: Path) -> None:
    """R1, R7, M25: at the tail, once, the same bytes ever after; the agent's own state never sees them."""
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    body = "Deploys of the billing service go out on Tuesdays, never on Fridays."
    await memory.save(MemoryDraft(body=body), MemoryChange(author="user", reason="test"))
    told: list[str] = []
    async with Simulator([call("deploys"), "On Tuesdays.", "As I said."]) as sim:
        work = agent(sim, Layers(memory=memory, on_notice=told.append))
        state = await work.ainvoke(
            {"messages": [HumanMessage("When do deploys of the billing service go out?")]}
        )
        again = [*state["messages"], HumanMessage("And when do deploys of the billing service not go out?")]
        await work.ainvoke({"messages": again})
        assert moved_at(sim.log) == []
        assert [sent(sim, n).count("never on Fridays") for n in range(3)] == [1, 1, 1]
    assert len(told) == 1
    assert told[0].startswith("recalled ")
    assert all("Fridays" not in str(one.content) for one in state["messages"])


async def test_an_old_result_is_cleared_after_a_pause_because_that_costs_nothing(tmp_path: Path) -> None:
    """C9."""
    clock = FrozenClock()
    few = MicrocompactSettings(keep=1)
    layers = Layers(results=tmp_path, clearable=frozenset({"look"}), microcompact=few, clock=clock)
    script: list[Any] = [call("one", 100), call("two", 100), "Done.", "Done again."]
    async with Simulator(script, clock=SimClock()) as sim:
        work = agent(sim, layers)
        state = await work.ainvoke({"messages": [HumanMessage("Look at one and two.")]})
        clock.advance(3_600)
        await work.ainvoke({"messages": [*state["messages"], HumanMessage("Go on.")]})
        assert moved_at(sim.log) == [3]
        assert ("one 99: a fact" in sent(sim, 2), "one 99: a fact" in sent(sim, 3)) == (True, False)
        assert "two 99: a fact" in sent(sim, 3)


async def test_two_conversations_of_one_agent_do_not_mix(tmp_path: Path) -> None:
    async with Simulator(["Hello.", "Hello.", "Fine.", "Well."]) as sim:
        work = agent(sim, Layers(results=tmp_path))
        first = [HumanMessage("Hi there.")]
        one, two = [await work.ainvoke({"messages": first}) for _ in range(2)]
        await work.ainvoke({"messages": [*one["messages"], HumanMessage("How is one?")]})
        await work.ainvoke({"messages": [*two["messages"], HumanMessage("How is two?")]})
        assert "How is one?" not in sent(sim, 3)
        assert [len(line.body["messages"]) for line in sim.log] == [1, 1, 3, 3]  # type: ignore[arg-type]


async def test_rules_among_the_messages_stay_the_agents_rules_after_a_compaction() -> None:
    """C26: a system message is nothing that the person said, and nothing that is summed up."""
    told: list[str] = []
    rules = SystemMessage("Never look at topic 41.")
    script: list[Any] = [call(f"topic {n}", 300) for n in range(8)]
    async with Simulator([*script, "Done."]) as sim:
        model = anthropic(sim)
        middleware = [NacreMiddleware(Layers(window=20_000, on_notice=told.append))]
        work = create_agent(model, [look], middleware=middleware)
        await work.ainvoke({"messages": [rules, HumanMessage("Look.")]}, {"recursion_limit": 50})
        assert told[0].startswith("Compacted")
        assert [line.body.get("system") for line in sim.log] == [rules.content] * 9
        assert "topic 41" not in sent(sim, -1)


async def test_a_deep_agent_and_its_subagents_take_the_same_middleware(tmp_path: Path) -> None:
    """C4, C31: beside all that deepagents brings itself, nothing moves; its files and ours both hold."""
    deepagents = pytest.importorskip("deepagents", reason="deepagents is not installed")
    told: list[str] = []
    layers = Layers(results=tmp_path, on_notice=told.append)
    scout = {"name": "scout", "description": "Looks.", "system_prompt": "You look.", "tools": [look]}
    task = {"name": "task", "input": {"description": "Look.", "subagent_type": "scout"}}
    script: list[Any] = [call("one", 400), {"tool_calls": [task]}, call("two", 400), "Found.", "Done."]
    async with Simulator(script) as sim:
        work = deepagents.create_deep_agent(
            anthropic(sim),
            [look],
            middleware=[NacreMiddleware(layers)],
            subagents=[{**scout, "middleware": [NacreMiddleware(layers)]}],
        )
        await work.ainvoke({"messages": [HumanMessage("Look at both.")]})
        assert moved_at([sim.log[n] for n in (0, 1, 4)]) == []
        assert moved_at(sim.log[2:4]) == []
    assert [line.startswith("look result of ") for line in told] == [True, True]


@pytest.mark.parametrize("in_notebook", [False, True], ids=["no loop", "a loop of a notebook's"])
def test_an_agent_that_is_invoked_without_awaiting_gets_the_same(in_notebook: bool, tmp_path: Path) -> None:
    """LangChain's `invoke`; the model is a stand-in, because nothing serves it without a loop."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

    class Fake(GenericFakeChatModel):
        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

    calls: Any = [{"name": "look", "args": {"topic": "x"}, "id": "c1"}]
    model = Fake(messages=iter([AIMessage("", tool_calls=calls), AIMessage("Done.")]))

    @tool
    def look(topic: str) -> str:
        """Look something up."""
        return topic * 10_000

    work = create_agent(model, [look], middleware=[NacreMiddleware(Layers(results=tmp_path))])

    async def in_cell() -> Any:
        return work.invoke({"messages": [HumanMessage("Look.")]})

    state = asyncio.run(in_cell()) if in_notebook else work.invoke({"messages": [HumanMessage("Look.")]})
    assert isinstance(state["messages"][2], ToolMessage)
    assert (tmp_path / "c1.txt").read_text() == "x" * 10_000


def test_reasoning_that_is_not_sent_back_takes_no_room() -> None:
    counted = {
        "input_tokens": 1_000,
        "output_tokens": 900,
        "total_tokens": 1_900,
        "output_token_details": {"reasoning": 800},
    }
    plain = _told([AIMessage("Yes.", usage_metadata=counted)])  # type: ignore[arg-type]
    assert plain.usage is not None
    assert (plain.usage.output, plain.usage.context) == (900, 1_100)
    content = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Yes."}]
    kept = _told([AIMessage(content, usage_metadata=counted)])  # type: ignore[arg-type]
    assert kept.usage is not None
    assert kept.usage.context == 1_900
