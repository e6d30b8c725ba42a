"""Small windows over HTTP: sizes are measured, not guessed, and what fits is never refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.devtools.sim import Script, Simulator, parse_script
from nacre.devtools.sim.clock import SimClock
from nacre.errors import ContextOverflow, PromptTooLong
from nacre.loop.fork import ForkTask
from nacre.messages.blocks import Json
from nacre.messages.events import Notice
from nacre.messages.records import Compacted
from nacre.messages.wire import canonical
from nacre.session.compaction import CompactionRequest
from nacre.session.model_facts import ModelFactsCache
from nacre.settings import Settings, load
from tests.stories.scenes import environment, project, quiet, say

MODEL = "qwen2.5-coder-1.5b"


def four_bytes(part: Json) -> int:
    """What small models count: four bytes a token, also of tool definitions."""
    return -(-len(canonical(part)) // 4)


def settings_of(cwd: Path, sim: Simulator, **variables: str) -> Settings:
    """Settings for a model on this machine."""
    own = {"OPENAI_BASE_URL": f"{sim.url}/v1", **variables}
    given: Mapping[str, str] = {**environment(cwd), **own}
    return load(cwd, given, cli={"model": MODEL})


async def test_a_window_that_the_estimate_overflows_is_tried_and_measured(tmp_path: Path) -> None:
    """All tools take 5,800 tokens by the estimate and far fewer in truth; 6,200 are enough for them."""
    cwd = quiet(tmp_path / "work")
    async with Simulator(["One.", "Two.", "Three."], tokens=four_bytes) as sim:
        settings = settings_of(cwd, sim, NACRE_MAX_CONTEXT_TOKENS="6200", NACRE_PROFILE="full")
        async with open_agent(settings) as ready:
            session = ready.agent.session
            assert session.base.tokens > session.thresholds.blocking, "by the estimate nothing fits"
            await say(ready.agent, "hello", "again")
            real = sim.log[0].usage.prompt
            assert session.calibration.base_tokens == pytest.approx(real, rel=0.1)
        async with open_agent(settings) as ready:
            session = ready.agent.session
            assert session.calibration.is_measured, "another process knows the size of the base"
            assert session.calibration.base_tokens == pytest.approx(real, rel=0.1)
            await say(ready.agent, "hello")
    assert [one.status for one in sim.log] == [200] * 3


async def test_what_cannot_fit_by_any_measure_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator(["One."], tokens=four_bytes) as sim:
        settings = settings_of(cwd, sim, NACRE_MAX_CONTEXT_TOKENS="9500")
        async with open_agent(settings) as ready:
            with pytest.raises(ContextOverflow):
                await say(ready.agent, "long words " * 5_000)
    assert not sim.log


async def test_the_size_after_a_compaction_is_the_size_of_the_next_request(tmp_path: Path) -> None:
    """It was a quarter too high, because the base was only estimated again."""
    cwd = quiet(tmp_path / "work")
    texts = [f"{n} " + "some words of an answer " * 60 for n in range(8)]
    async with Simulator([*texts, "Fine."], tokens=four_bytes) as sim:
        settings = settings_of(cwd, sim, NACRE_MAX_CONTEXT_TOKENS="20000", NACRE_PROFILE="full")
        async with open_agent(settings) as ready:
            session = ready.agent.session
            await say(ready.agent, *(f"question {n} " + "with words " * 80 for n in range(8)))
            done = await ready.compact.compact(CompactionRequest(by_rule=True))
            told = done.after
            await say(ready.agent, "go on")
        assert told == pytest.approx(sim.log[-1].usage.prompt, rel=0.05)
        assert session.tokens == pytest.approx(sim.log[-1].usage.prompt, rel=0.05)


async def test_a_window_of_8k_holds_a_conversation_with_tools_and_compactions(tmp_path: Path) -> None:
    """The small profile: six tools and a short manual, 2,500 tokens at most by the server's count."""
    cwd = quiet(tmp_path / "work")
    (cwd / "long.txt").write_text("".join(f"line {n} of a long file\n" for n in range(3_000)))
    read: Json = {"tool_calls": [{"name": "Read", "input": {"file_path": "long.txt"}}]}
    run: Json = {"tool_calls": [{"name": "Bash", "input": {"command": "cat long.txt"}}]}
    script: list[Json] = []
    for n in range(14):
        script += [read if n % 2 else run, f"Answer {n}. " + "It has some words. " * 20]
    async with Simulator(script, tokens=four_bytes) as sim:
        settings = settings_of(cwd, sim, NACRE_MAX_CONTEXT_TOKENS="8192")
        async with open_agent(settings) as ready:
            session = ready.agent.session
            names = [str(tool["name"]) for tool in session.base.tools]
            assert names == ["Bash", "Edit", "Read", "Write", "recall", "remember"]
            events = await say(ready.agent, *(f"question {n}, please look" for n in range(14)))
            compactions = [one for one in session.transcript.records if isinstance(one, Compacted)]
        prompts = [one.usage.prompt for one in sim.log]
        bases = {canonical([one.body["tools"], one.body["messages"][:1]]) for one in sim.log}  # type: ignore[index, list-item]
    assert prompts[0] < 2_500, prompts
    assert max(prompts) < 8_192
    assert len(compactions) >= 2, "several turns and more than one compaction"
    assert len(bases) == 1, "the base has the same bytes in every request"
    assert not [one for one in events if isinstance(one, Notice) and one.level == "warning"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"NACRE_MAX_CONTEXT_TOKENS": "16384"}, "full"),
        ({"NACRE_MAX_CONTEXT_TOKENS": "16000"}, "small"),
        ({"NACRE_MAX_CONTEXT_TOKENS": "8192", "NACRE_PROFILE": "full"}, "full"),
        ({"NACRE_PROFILE": "small"}, "small"),
        ({}, "full"),
    ],
)
async def test_the_window_or_the_setting_chooses_the_profile(
    tmp_path: Path, variables: Mapping[str, str], expected: str
) -> None:
    """C3b: below 16,384 tokens the small one, unless the setting says otherwise."""
    cwd = quiet(tmp_path / "work")
    async with Simulator() as sim, open_agent(settings_of(cwd, sim, **variables)) as ready:
        names = {str(tool["name"]) for tool in ready.agent.session.base.tools}
    assert ("Grep" in names) == (expected == "full")
    assert len(names) == 6 or expected == "full"


async def test_a_window_learnt_from_a_refusal_is_known_to_the_next_session(tmp_path: Path) -> None:
    """llama.cpp names it in a field of its error."""
    cwd = quiet(tmp_path / "work")
    async with Simulator() as sim:
        settings = settings_of(cwd, sim)
        async with open_agent(settings) as ready:
            await ready.agent.session.add_user("hello")
            await ready.agent.session.fit(
                ready.agent.session.view, PromptTooLong("too long", tokens=9_000, limit=8_192)
            )
        async with open_agent(settings) as ready:
            assert ready.agent.session.window == 8_192
            assert len(ready.agent.session.base.tools) == 6
        async with open_agent(settings_of(cwd, sim, NACRE_MAX_CONTEXT_TOKENS="32768")) as ready:
            assert ready.agent.session.window == 32_768, "what the person sets decides"


async def test_forks_keep_to_the_persons_output_limit(tmp_path: Path) -> None:
    """A model that repeats itself would keep the only slot of a server for minutes."""
    cwd = quiet(tmp_path / "work")
    async with Simulator(["Hello.", "Notes.", "Summary."]) as sim:
        settings = settings_of(cwd, sim, NACRE_MAX_OUTPUT_TOKENS="600", NACRE_MAX_CONTEXT_TOKENS="32768")
        async with open_agent(settings) as ready:
            await say(ready.agent, "hello")
            await ready.forks(ForkTask(source="session_memory", directive="Note."))
            await ready.forks(ForkTask(source="compact", directive="Sum up."))
    assert [one.body["max_tokens"] for one in sim.log] == [600, 600, 2_000]


@pytest.mark.parametrize(
    ("variables", "seconds"), [({}, 20.0), ({"NACRE_BACKGROUND_QUIET_SECONDS": "0"}, 0.0)]
)
async def test_work_beside_a_model_on_this_machine_yields_unless_told_otherwise(
    tmp_path: Path, variables: Mapping[str, str], seconds: float
) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator() as sim, open_agent(settings_of(cwd, sim, **variables)) as ready:
        assert ready.background.quiet_seconds == seconds


async def test_a_message_does_not_wait_for_extraction_on_a_slow_server(tmp_path: Path) -> None:
    """It was sent in the instant a turn ended, and took the slot with the warm prefix."""
    cwd = project(tmp_path / "work")
    script = Script(
        parse_script(["One.", "Two."]), background=parse_script([{"text": "none", "delay": 30.0}] * 3)
    )
    async with Simulator(script, clock=SimClock(real=True)) as sim:
        settings = settings_of(cwd, sim, NACRE_BACKGROUND_QUIET_SECONDS="0.2", NACRE_DREAM="0")
        settings = replace(settings, is_interactive=True)
        known = ModelFactsCache(settings.home, MODEL, f"{sim.url}/v1")
        known.update(lambda facts: replace(facts, tool_calls="native"))  # so that no test of it comes first
        async with open_agent(settings) as ready:
            await say(ready.agent, "I live in Berlin and always deploy on Fridays.")
            assert len(sim.log) == 1, "nothing is asked in the instant a turn ends"
            await sim.arrivals(2)
            assert ready.background.running() == ("extract",)
            async with asyncio.timeout(10):
                await say(ready.agent, "And now?")
            assert ready.background.is_deferred("extract")
            await ready.background.drain(0.0)
