"""The OpenAI Agents SDK with nacre's session and filter, over HTTP with OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="the SDK is not installed: pip install 'nacre-memory[openai-agents]'")

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, Session, function_tool
from agents.memory import SessionSettings
from agents.run import CallModelData, ModelInputData
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI

from nacre.devtools.sim import Simulator
from nacre.errors import TranscriptError
from nacre.integrations.framework_session import Layers
from nacre.integrations.openai_agents import NacreFilter, NacreSession, reader
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.store.session_log import SessionLog
from tests.integrations.net import moved_at
from tests.scale import scaled

MODEL = "gpt-6-sol"


@function_tool
async def look(topic: str, lines: int = 10) -> str:
    """Look something up."""
    return "\n".join(f"{topic} {n}: a fact worth knowing" for n in range(lines))


def call(topic: str, lines: int = 10) -> dict[str, Any]:
    return {"tool_calls": [{"name": "look", "input": {"topic": topic, "lines": lines}}]}


def config(layers: Layers | None) -> RunConfig:
    return RunConfig(tracing_disabled=True, call_model_input_filter=NacreFilter(layers) if layers else None)


@asynccontextmanager
async def agent(sim: Simulator, results: Path | None = None) -> AsyncIterator[Agent[Any]]:
    async with AsyncOpenAI(api_key="none", base_url=f"{sim.url}/v1", max_retries=0) as client:
        model = OpenAIChatCompletionsModel(MODEL, client)
        tools = [look, *([reader(results)] if results else [])]
        yield Agent("helper", instructions="You look things up.", model=model, tools=tools)


def sent(sim: Simulator, request: int) -> str:
    return json.dumps(sim.log[request].body["messages"])


async def test_a_conversation_goes_on_in_another_process_byte_for_byte(tmp_path: Path) -> None:
    """T1, C31: whatever the SDK keeps comes back as it was, so that the next request begins with the last."""
    async with Simulator([call("rivers"), "Here.", "Again."]) as sim, agent(sim) as helper:
        first = NacreSession("user-42", cwd=tmp_path, home=tmp_path)
        assert isinstance(first, Session)
        await Runner.run(helper, "Tell me about rivers.", session=first, run_config=config(None))
        second = NacreSession("user-42", cwd=tmp_path, home=tmp_path)
        assert await second.get_items() == await first.get_items()
        await Runner.run(helper, "Tell me more.", session=second, run_config=config(None))
        assert moved_at(sim.log) == []
        assert "rivers 9: a fact" in sent(sim, 2)
    assert first.path == next(tmp_path.glob("projects/*/user-42.jsonl"))


async def test_a_long_task_stays_inside_its_window_and_moves_only_where_that_was_told(tmp_path: Path) -> None:
    """C9, C26, C31: over two runs and through the session, nothing moves but by a clear or a compaction."""
    told: list[str] = []
    results = tmp_path / "results"
    layers = Layers(
        results=results,
        window=20_000,
        clearable=frozenset({"look"}),
        compacts=False,
        on_notice=told.append,
    )
    script: list[Any] = [call(f"topic {n}", 120) for n in range(24)]
    session = NacreSession("long", cwd=tmp_path, home=tmp_path)
    run = config(layers)
    async with (
        Simulator([*script[:12], "Half.", *script[12:], "Done."]) as sim,
        agent(sim, results) as helper,
    ):
        await Runner.run(helper, "Look, but never at 41.", session=session, run_config=run, max_turns=50)
        await Runner.run(helper, "Go on with the rest.", session=session, run_config=run, max_turns=50)
        moved = moved_at(sim.log)
        assert 0 < len(moved) < 8
        assert [line.split()[0] for line in told] == ["Cleared"] * len(moved)
        assert max(line.usage.prompt for line in sim.log) < 20_000
        assert "never at 41" in sent(sim, -1)
    items = await session.get_items()
    assert len(items) == 2 + 48 + 2
    assert len(str(dict(items[2])["output"])) > 3_000  # type: ignore[call-overload]


async def test_long_results_are_on_disk_before_they_are_first_sent_and_can_be_read_back(
    tmp_path: Path,
) -> None:
    """C4, C8: the session keeps the result whole, the model is sent a pointer."""
    results = tmp_path / "results"
    session = NacreSession("s", cwd=tmp_path, home=tmp_path)
    async with Simulator([call("rivers", 1_000)]) as sim, agent(sim, results) as helper:
        sim.extend(["Done."])
        await Runner.run(helper, "Rivers?", session=session, run_config=config(Layers(results=results)))
        file = next(results.glob("*.txt"))
        read = {"name": "Read", "input": {"file_path": str(file), "offset": 990, "limit": 1}}
        outside = {"name": "Read", "input": {"file_path": "/etc/hostname"}}
        sim.extend([{"tool_calls": [read, outside]}, "Done."])
        await Runner.run(helper, "Read on.", session=session, run_config=config(Layers(results=results)))
        assert moved_at(sim.log) == []
        messages: Any = sim.log[-1].body["messages"]
        pointer = next(one["content"] for one in messages if one["role"] == "tool")
        assert pointer.startswith("<persisted-output>")
        assert "rivers 989: a fact" in messages[-2]["content"]
        assert messages[-1]["content"] == f"Error: Only files in {results} can be read with this tool."


async def test_memories_ride_behind_the_persons_words_and_stay_there(tmp_path: Path) -> None:
    """R1, R7, M25: at the tail, once; the session itself never holds them."""
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    body = "Deploys of the billing service go out on Tuesdays, never on Fridays."
    await memory.save(MemoryDraft(body=body), MemoryChange(author="user", reason="test"))
    session, run = NacreSession("s", cwd=tmp_path, home=tmp_path), config(Layers(memory=memory))
    async with Simulator([call("deploys"), "On Tuesdays.", "As I said."]) as sim, agent(sim) as helper:
        for words in (
            "When do deploys of the billing service go out?",
            "When do deploys of billing not go out?",
        ):
            await Runner.run(helper, words, session=session, run_config=run)
        assert moved_at(sim.log) == []
        assert [sent(sim, n).count("never on Fridays") for n in range(3)] == [1, 1, 1]
    assert "Fridays" not in str(await session.get_items())


async def test_writers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    """T9: web servers open the same session many times."""
    sessions = [NacreSession("s", cwd=tmp_path, home=tmp_path) for _ in range(6)]
    await asyncio.gather(
        *(one.add_items([{"role": "user", "content": str(n)}]) for n, one in enumerate(sessions))
    )
    assert sorted(str(dict(item)["content"]) for item in await sessions[0].get_items()) == list("012345")  # type: ignore[call-overload]


async def test_a_log_that_somebody_else_begins_meanwhile_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T9: patched, because two processes meet between a look and an action too rarely to wait for."""
    mine, other = (NacreSession("s", cwd=tmp_path, home=tmp_path) for _ in range(2))
    create_at = SessionLog.create_at

    def late(path: Path, *, home: Path) -> SessionLog:
        if not path.exists():
            create_at(path, home=home).close()
        return create_at(path, home=home)

    monkeypatch.setattr(SessionLog, "create_at", late)
    await mine.add_items([{"role": "user", "content": "mine"}])
    assert await other.get_items() == [{"role": "user", "content": "mine"}]


@pytest.mark.parametrize("session_id", ["user:42", "anna@example.com", "a/b", "../a", "Zoë", "x" * 300, "."])
async def test_any_id_that_an_app_has_names_a_conversation(session_id: str, tmp_path: Path) -> None:
    """M6: addresses and numbers with colons are usual ids; each has a log of its own, in its folder."""
    session, alike = (
        NacreSession(one, cwd=tmp_path, home=tmp_path) for one in (session_id, session_id + ":")
    )
    await session.add_items([{"role": "user", "content": "Hi."}])
    assert (session.session_id, len(await session.get_items())) == (session_id, 1)
    assert await alike.get_items() == []
    assert session.path == next(tmp_path.glob("projects/*/*.jsonl"))


async def test_what_was_never_said_leaves_no_log(tmp_path: Path) -> None:
    session = NacreSession("s", cwd=tmp_path, home=tmp_path)
    assert (await session.pop_item(), await session.get_items()) == (None, [])
    await session.clear_session()
    assert not session.path.exists()
    with pytest.raises(TranscriptError, match="cannot be a session id"):
        NacreSession("", cwd=tmp_path, home=tmp_path)


async def test_a_sessions_own_limit_holds_where_none_is_asked_for(tmp_path: Path) -> None:
    """As in the SDK's own sessions."""
    session = NacreSession("s", cwd=tmp_path, home=tmp_path, session_settings=SessionSettings(limit=2))
    await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])
    assert [len(await session.get_items(limit)) for limit in (None, 1, 4, 0)] == [2, 1, 4, 0]


async def test_long_answers_in_parts_shrink_and_words_beside_a_picture_are_heard(tmp_path: Path) -> None:
    """C4, R1: MCP's tools answer in parts; whoever shows a picture has said something, too."""
    memory = await Memory.open(tmp_path, environ={"NACRE_HOME": str(tmp_path / "home")})
    body = "Deploys of the billing service go out on Tuesdays, never on Fridays."
    await memory.save(MemoryDraft(body=body), MemoryChange(author="user", reason="test"))
    filter_ = NacreFilter(Layers(results=tmp_path / "results", memory=memory))
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    asked = [{"type": "input_text", "text": "When do deploys of billing go out?"}, picture]
    answers = [{"type": "input_text", "text": "x" * 100_000}, picture]
    items: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": asked},
    ]
    calls: list[Any] = [
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": answers},
    ]

    async def sent(given: list[Any]) -> list[Any]:
        data = CallModelData(ModelInputData(input=given, instructions=None), Agent("helper"), None)
        return (await filter_(data)).input

    first = await sent(items)
    assert first[:2] == items
    assert "never on Fridays" in first[2]["content"]
    *before, call, result = await sent(items + calls)
    assert (before, call) == (first, calls[0])
    assert result["output"][0]["text"].startswith("<persisted-output>")
    assert result["output"][1] == picture


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ITEM: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "developer"]), "content": WORDS}),
    st.fixed_dictionaries(
        {
            "type": st.just("message"),
            "role": st.just("assistant"),
            "id": WORDS,
            "content": st.lists(
                st.fixed_dictionaries({"type": st.just("output_text"), "text": WORDS}), max_size=2
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("function_call"),
            "call_id": WORDS,
            "name": WORDS,
            "arguments": st.sampled_from(["{}", '{"a": 1}', '{"a":1}', "[1]", "not JSON", ""]),
        }
    ),
    st.fixed_dictionaries({"type": st.just("function_call_output"), "call_id": WORDS, "output": WORDS}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "id": WORDS, "summary": st.just([])}),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(ITEM, max_size=4)),
        st.tuples(st.sampled_from(["pop", "pop", "clear"]), st.just([])),
    ),
    max_size=8,
)
TOO_DEEP = {"type": "function_call", "call_id": "c", "name": "n", "arguments": "[" * 100_000}


@settings(max_examples=scaled(30))
@given(steps=STEPS)
@example(steps=[("add", [TOO_DEEP])])
async def test_it_behaves_like_a_list(
    steps: list[tuple[str, list[Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The SDK's own protocol: what was added comes back, to the order of its keys; popped is popped."""
    top = tmp_path_factory.mktemp("top")
    kept: list[Any] = []
    for step, items in steps:
        session = NacreSession("s", cwd=top, home=top)
        if step == "add":
            await session.add_items(items)
            kept += items
        elif step == "pop":
            assert await session.pop_item() == (kept.pop() if kept else None)
        else:
            await session.clear_session()
            kept = []
        assert json.dumps(await session.get_items()) == json.dumps(kept)
    assert await NacreSession("s", cwd=top, home=top).get_items(2) == kept[-2:]
