"""Reasoning that is billed and then discarded takes no room in the window, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Script, Simulator, parse_script
from nacre.loop.round import message_record
from nacre.messages.blocks import Json, JsonObject, Text
from nacre.messages.events import TextDelta
from nacre.messages.records import Compacted
from nacre.messages.wire import canonical
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.openai import OpenAICompatibleProvider
from nacre.session.log_writer import SessionLogWriter
from nacre.session.read_session import read_view
from nacre.settings import load
from tests.stories.scenes import (
    CLAUDE,
    GPT,
    RESPONSES,
    call,
    calls,
    environment,
    project,
    quiet,
    say,
    talking_to,
)

REASONED: JsonObject = {"thinking": "Hm. " * 200, "text": "Yes.", "output_tokens": 25_000}


async def test_a_small_conversation_goes_on_after_a_reply_of_nearly_all_reasoning(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator(["Hello.", REASONED, "Three.", "Four."]) as sim:
        provider = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1")
        given = environment(cwd) | {"NACRE_MAX_CONTEXT_TOKENS": "40000"}
        async with open_agent(load(cwd, given, cli={"model": GPT}), provider=provider) as ready:
            session = ready.agent.session
            assert session.thresholds.window == 40_000
            await say(ready.agent, "one", "two")
            assert session.tokens == pytest.approx(sim.log[1].usage.prompt, rel=0.02)
            await say(ready.agent, "three", "four")
            assert not [one for one in session.transcript.records if isinstance(one, Compacted)]
            bill = sum(one.cost_usd or 0.0 for one in sim.log)
            assert session.meter.usage.output == sum(one.usage.output for one in sim.log) > 25_000
            assert session.meter.cost_usd == pytest.approx(bill)
            writer = session.writer
            assert isinstance(writer, SessionLogWriter)
            read = read_view(writer.path)
            assert read is not None
            assert read.view.count() == session.view.count(), "the log says so, too"
        await provider.close()
    assert len(sim.log) == 4, "no summary was asked for"


async def test_thinking_that_the_provider_strips_does_not_count(tmp_path: Path) -> None:
    """Older models are not shown the thinking of earlier turns: it takes no room there."""
    cwd = quiet(tmp_path / "work")
    thought: JsonObject = {"thinking": "Hm, what is it? " * 6_000, "text": "Yes."}
    look: JsonObject = {**thought, "tool_calls": [{"name": "Read", "input": {"file_path": "README.md"}}]}
    async with Simulator(["Hello.", look, thought, "Three.", "Four."]) as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        given = environment(cwd) | {"NACRE_MAX_CONTEXT_TOKENS": "70000"}
        async with open_agent(
            load(cwd, given, cli={"model": "claude-haiku-4-5"}), provider=provider
        ) as ready:
            session = ready.agent.session
            await say(ready.agent, "one", "two")
            assert session.tokens > session.base.tokens + 46_000, "within the turn it counts"
            asked = session.view.after(message_record("user", (Text("three"),), session.clock))
            expected = session.count_tokens(asked)
            await say(ready.agent, "three")
            assert expected == pytest.approx(sim.log[-1].usage.prompt, rel=0.05)
            assert session.tokens == pytest.approx(sim.log[-1].usage.prompt, rel=0.02)
            assert session.calibration.ratio == pytest.approx(1.0, rel=0.15)
            await say(ready.agent, "four")
            assert not [one for one in session.transcript.records if isinstance(one, Compacted)]
        await provider.close()
    assert len(sim.log) == 5, "no summary was asked for"


async def test_reasoning_items_survive_tool_rounds_a_resume_and_a_switch_of_models(tmp_path: Path) -> None:
    """The Responses API gets its reasoning back byte for byte; another provider gets none of it."""
    cwd = quiet(tmp_path / "work")
    read: JsonObject = {"thinking": "Look first.", **calls(call("Read", file_path="README.md"))}
    async with Simulator([read, {"thinking": "So.", "text": "Read."}, "On.", "Here.", "Back."]) as sim:
        async with talking_to(sim, RESPONSES, cwd) as ready:
            await say(ready.agent, "read it")
        async with talking_to(sim, RESPONSES, cwd, session="latest") as ready:
            await say(ready.agent, "and on")
        for model in (CLAUDE, RESPONSES):
            async with talking_to(sim, model, cwd, session="latest") as ready:
                await say(ready.agent, "still there?")
    assert [one.status for one in sim.log] == [200] * 5
    reasoning = [_reasoning(one.body.get("input")) for one in sim.log]
    assert [len(items) for items in reasoning] == [0, 1, 2, 0, 0], "the switch drops what no longer matches"
    assert reasoning[1] == reasoning[2][:1]
    assert "openai" not in canonical(sim.log[3].body["messages"]).decode()


async def test_reasoning_of_another_account_is_dropped_once_and_the_turn_goes_on(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator([{"thinking": "So.", "text": "Yes."}, "On."]) as sim:
        async with talking_to(sim, RESPONSES, cwd) as ready:
            await say(ready.agent, "well?")
        (log,) = (cwd / "home").rglob("*.jsonl")
        log.write_text(log.read_text().replace("gAAAAA.sim.", "gAAAAA.other."))
        async with talking_to(sim, RESPONSES, cwd, session="latest") as ready:
            await say(ready.agent, "and on")
    assert [one.status for one in sim.log] == [200, 400, 200]
    assert _reasoning(sim.log[2].body["input"]) == []


async def test_background_requests_take_replies_of_their_own(tmp_path: Path) -> None:
    """Extraction runs beside the conversation and leaves its script alone."""
    cwd = project(tmp_path / "work")
    script = Script(parse_script(["One.", "Two.", "Three."]), parse_script(["Nothing to save."]))
    settings = replace(load(cwd, environment(cwd), cli={"model": GPT}), is_interactive=True)
    for api in ("chat", "responses"):
        async with Simulator(script) as sim:
            provider = OpenAICompatibleProvider(api_key="k", base_url=f"{sim.url}/v1", api=api)  # type: ignore[arg-type]
            async with open_agent(settings, provider=provider) as ready:
                events = await say(ready.agent, "I always deploy on Fridays.", "and on", "and on")
            await provider.close()
            said = "".join(event.text for event in events if isinstance(event, TextDelta))
            assert said == "One.Two.Three."
            assert len(sim.log) > 3, "something ran beside it"


def _reasoning(items: Json) -> list[bytes]:
    given = items if isinstance(items, list) else []
    return [canonical(one) for one in given if isinstance(one, dict) and one.get("type") == "reasoning"]
