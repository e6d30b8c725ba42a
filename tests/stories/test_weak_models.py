"""Models that write tool calls as text, or cannot call tools at all, over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Script, Simulator, parse_script
from nacre.messages.blocks import Json
from nacre.messages.events import TextDelta
from nacre.session.model_facts import ModelFactsCache
from tests.cli.program import nacre
from tests.stories.scenes import project, quiet, results, say
from tests.stories.test_small_windows import MODEL, settings_of

FACT = "We deploy to staging only on Tuesdays, never on Fridays."
SAVE = json.dumps({"name": "remember", "arguments": {"text": FACT}})


async def test_a_memory_that_a_model_saves_in_text_is_saved(tmp_path: Path) -> None:
    """It wrote a correct call as its answer; nothing ran, and nothing was said about it."""
    cwd = quiet(tmp_path / "work")
    script = [f"```json\n{SAVE}\n```", "I see.", "Saved.", SAVE, "Saved again."]
    async with Simulator(script) as sim:
        settings = settings_of(cwd, sim)
        async with open_agent(settings) as ready:
            events = await say(ready.agent, f"Remember that {FACT}")
            assert [one.is_error for one in results(events)] == [False]
            assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "Saved."
            (entry,) = await ready.memories[0].list()
            assert FACT in entry.body
        assert ModelFactsCache(settings.home, MODEL, f"{sim.url}/v1").read().tool_calls == "text"
        async with open_agent(settings) as ready:
            events = await say(ready.agent, "Do it again.")
            assert len(results(events)) == 1
    assert len(sim.log) == 5, "the model was tested once"


async def test_the_request_that_tests_an_unknown_model_is_in_the_bill(tmp_path: Path) -> None:
    """Of a model elsewhere it is paid for like any other; also after a resumption."""
    cwd = quiet(tmp_path / "work")
    async with Simulator([SAVE, "I see.", "Saved."]) as sim:
        settings = settings_of(cwd, sim, NACRE_EXTRACT="0", NACRE_DREAM="0")
        async with open_agent(settings) as ready:
            events = await say(ready.agent, "Save it.")
            assert len(results(events)) == 1
            meter = ready.agent.session.meter
        async with open_agent(settings, session="latest") as ready:
            again = ready.agent.session.meter
    assert meter.requests == again.requests == len(sim.log) == 3
    usages = [one.usage for one in sim.log]
    assert meter.usage.prompt == again.usage.prompt == sum(one.prompt for one in usages)
    assert meter.usage.output == again.usage.output == sum(one.output for one in usages)
    assert meter.unpriced == again.unpriced == 3, "no table knows what it costs"


async def test_what_is_asked_to_be_remembered_is_saved_before_a_slow_model_is_asked(tmp_path: Path) -> None:
    """Extraction did not end within the time that the end of a session gives it, and the words were lost."""
    cwd = project(tmp_path / "work")
    async with Simulator(["Of course."]) as sim:
        slow = {"NACRE_BACKGROUND_QUIET_SECONDS": "60", "NACRE_DREAM": "0"}
        settings = replace(settings_of(cwd, sim, **slow), is_interactive=True)
        async with open_agent(settings) as ready:
            await say(ready.agent, f"Remember that {FACT}")
            (entry,) = await ready.memories[0].list()
            assert "only on Tuesdays" in entry.body
            await ready.background.drain(0.0)
    assert len(sim.log) == 1, "no model was asked for it"


async def test_the_guard_judges_a_call_in_text_like_any_other(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    touch = json.dumps({"name": "Bash", "arguments": {"command": "touch made.txt"}})
    async with Simulator([touch, "I see.", "It was refused."]) as sim:
        settings = settings_of(cwd, sim, NACRE_PERMISSIONS_DEFAULT_MODE="default")
        async with open_agent(settings) as ready:
            (result,) = results(await say(ready.agent, "Make a file."))
    assert result.is_error
    assert not (cwd / "made.txt").exists()


async def test_a_model_on_this_machine_is_tested_in_a_silence_after_the_first_turn(tmp_path: Path) -> None:
    cwd = project(tmp_path / "work")
    script = Script(parse_script(["Hello.", "I do not call anything."]))
    async with Simulator(script) as sim:
        quick = {"NACRE_BACKGROUND_QUIET_SECONDS": "0.1", "NACRE_EXTRACT": "0", "NACRE_DREAM": "0"}
        settings = replace(settings_of(cwd, sim, **quick), is_interactive=True)
        async with open_agent(settings) as ready:
            assert ready.forks.has_model
            await say(ready.agent, "hello")
            await sim.arrivals(2)
            await ready.background.wait("tool call test")
        assert "test of tool calls" in json.dumps(sim.log[1].body)
        async with open_agent(settings) as ready:
            names = {str(tool["name"]) for tool in ready.agent.session.base.tools}
            assert "Agent" not in names
            assert "recall" in names
            assert not ready.forks.has_model
            assert ready.compact.summarise is None
            assert ready.recall is not None
            assert any("calls no tools" in one.text for one in ready.agent.session.notices())


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"tool_calls": [{"name": "report_number", "input": {"number": 7}}]}, "the model calls tools"),
        ('{"name": "report_number", "arguments": {"number": 7}}', "writes tool calls as text"),
        ("Seven.", "calls no tools"),
    ],
)
async def test_doctor_tries_a_model_and_remembers_what_it_found(
    tmp_path: Path, reply: Json, expected: str
) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator([reply]) as sim:
        environ = {"OPENAI_BASE_URL": f"{sim.url}/v1", "NACRE_MODEL": MODEL}
        tried = await asyncio.to_thread(nacre, cwd, "doctor", "--try", **environ)
        known = await asyncio.to_thread(nacre, cwd, "doctor", **environ)
    assert expected in tried.stdout
    assert expected in known.stdout
    assert len(sim.log) == 1
