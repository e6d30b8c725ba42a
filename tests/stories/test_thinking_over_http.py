"""Thinking that the provider would no longer accept is dropped, over HTTP; refused thinking, once a turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nacre import Base, Session
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.devtools.sim import Exchange, Simulator
from nacre.errors import ThinkingMismatch
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.loop.fork import ForkTask
from nacre.messages.blocks import Json, JsonObject, Thinking
from nacre.messages.draft import ItemSpan
from nacre.messages.events import StartedOver
from nacre.messages.records import Replaced
from nacre.messages.view import View
from nacre.providers.anthropic import AnthropicProvider
from nacre.providers.base import Request, complete
from nacre.session.compaction import CompactionRequest
from nacre.session.layer import Layer
from nacre.settings import load
from nacre.tools.base import tool
from tests.cli.program import nacre
from tests.stories.processes import Sim
from tests.stories.scenes import call, calls, environment, quiet, say
from tests.stories.test_compact_cli import SUMMARY

MODEL = "claude-sonnet-5-5"
SKILL = "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n"
NOTES = ForkTask(source="session_memory", directive="Say what was done.")


def thought(text: str, *tool_calls: JsonObject) -> JsonObject:
    """A scripted reply with a thinking block."""
    return {"thinking": f"About {text}", **(calls(*tool_calls, text=text) if tool_calls else {"text": text})}


@asynccontextmanager
async def opened(
    sim: Simulator, cwd: Path, session: str = "new", **environ: str
) -> AsyncIterator[OpenedAgent]:
    """An agent on the simulator, in a new session or a resumed one."""
    provider = AnthropicProvider(api_key="k", base_url=sim.url)
    settings = load(cwd, {**environment(cwd), **environ}, cli={"model": MODEL})
    try:
        async with open_agent(settings, provider=provider, session=session) as ready:
            yield ready
    finally:
        await provider.close()


def refusals(sim: Simulator) -> list[str]:
    """The messages of requests that the simulator refused."""
    return [one.refusal.message for one in sim.log if one.refusal]


def has_thinking(request: Exchange | Request) -> bool:
    messages = request.messages if isinstance(request, Request) else request.body["messages"]
    return '"type": "thinking"' in json.dumps(messages)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["tools", "system", "skill"])
async def test_a_session_resumed_with_another_base_drops_thinking_once_and_goes_on(
    change: str, tmp_path: Path
) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator([thought("one"), thought("two"), thought("three"), thought("four")]) as sim:
        async with opened(sim, cwd) as ready:
            await say(ready.agent, "first")
            session_id = ready.agent.session.id
        environ = {"NACRE_AGENTS": "0"} if change == "tools" else {}
        if change == "skill":
            (cwd / ".claude" / "skills" / "greet").mkdir(parents=True)
            (cwd / ".claude" / "skills" / "greet" / "SKILL.md").write_text(SKILL, encoding="utf-8")
        async with opened(sim, cwd, session_id, **environ) as ready:
            session = ready.agent.session
            if change == "system":
                session.base = Base(
                    session.base.model,
                    [{"type": "text", "text": "You are brief."}],
                    session.base.tools,
                    opening=session.base.opening,
                )
            await say(ready.agent, "second", "third")
            dropped = [one for one in session.transcript.records if isinstance(one, Replaced)]
            assert [one.reason for one in dropped] == ["thinking"]
        # The drop is in the log: a later process with the same base does not drop anything.
        async with opened(sim, cwd, session_id, **environ) as ready:
            if change == "system":
                base = ready.agent.session.base
                ready.agent.session.base = Base(
                    base.model, [{"type": "text", "text": "You are brief."}], base.tools, opening=base.opening
                )
            await say(ready.agent, "fourth")
    assert refusals(sim) == []
    assert [has_thinking(one) for one in sim.log] == [False, False, True, True]


def test_the_program_goes_on_with_a_session_whose_tools_changed(sim: Sim, tmp_path: Path) -> None:
    given = sim.environ(NACRE_MODEL=MODEL, NACRE_NOTES="false")
    sim.script(thought("one"), thought("two"), thought("three"))
    assert nacre(tmp_path, "-p", "first", **given).returncode == 0
    for text, answer in (("second", "two"), ("third", "three")):
        done = nacre(tmp_path, "-p", text, "--continue", **given, NACRE_AGENTS="0")
        assert (done.returncode, done.stdout) == (0, f"{answer}\n"), done.stderr
    assert [one["status"] for one in sim.log()] == [200, 200, 200]


async def test_after_a_compaction_is_undone_the_next_turn_is_accepted(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    script: list[Json] = [thought(f"answer {n} " * 300) for n in range(4)]
    script += [SUMMARY, thought("five"), thought("six"), "seven"]
    async with Simulator(script) as sim, opened(sim, cwd) as ready:
        await say(ready.agent, "one", "two", "three", "four")
        await ready.compact.compact(CompactionRequest())
        await say(ready.agent, "five")
        assert await undo_compaction(ready.agent.session) is not None
        await say(ready.agent, "six", "seven")
    assert refusals(sim) == []


class OtherSystem(Layer):
    """Changes the system prompt of every request, of which the session knows nothing."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def finish_request(self, request: Request, view: View) -> Request:
        return replace(request, system=[{"type": "text", "text": self._text()}])


async def test_a_fork_on_a_refused_prefix_drops_thinking_in_its_own_copy(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator([thought("one"), "noted"]) as sim, opened(sim, cwd) as ready:
        await say(ready.agent, "first")
        ready.agent.session.add_layers(OtherSystem(lambda: "Be brief."))
        assert (await ready.forks(NOTES)).text == "noted"
        items = ready.agent.session.view.items
        assert any(isinstance(one.block, Thinking) for item in items for one in item.parts)
    assert len(refusals(sim)) == 1


async def test_a_fork_of_a_session_resumed_with_other_tools_is_not_refused(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    async with Simulator([thought("one"), "noted"]) as sim:
        async with opened(sim, cwd) as ready:
            await say(ready.agent, "first")
            session_id = ready.agent.session.id
        async with opened(sim, cwd, session_id, NACRE_AGENTS="0") as ready:
            assert (await ready.forks(NOTES)).text == "noted"
    assert refusals(sim) == []


async def test_refused_thinking_is_dropped_once_for_all_later_turns(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    script: list[Json] = [thought("one"), thought("two"), thought("three"), thought("four")]
    async with Simulator(script) as sim:
        async with opened(sim, cwd) as ready:
            await say(ready.agent, "first")
            ready.agent.session.add_layers(OtherSystem(lambda: "Be brief."))
            events = await say(ready.agent, "second")
            assert [one.reason for one in events if isinstance(one, StartedOver)]
            await say(ready.agent, "third")
            session_id = ready.agent.session.id
        async with opened(sim, cwd, session_id) as ready:
            ready.agent.session.add_layers(OtherSystem(lambda: "Be brief."))
            await say(ready.agent, "fourth")
    assert [one.status for one in sim.log] == [200, 400, 200, 200, 200]


async def test_a_summary_that_is_asked_for_again_without_the_oldest_rounds_has_no_thinking(
    tmp_path: Path,
) -> None:
    cwd = quiet(tmp_path / "work")
    script: list[Json] = [thought(f"answer {n} " * 300) for n in range(5)]
    too_long: JsonObject = {"text": "never", "fault": "prompt_too_long"}
    async with Simulator([*script, too_long, SUMMARY, "on"]) as sim, opened(sim, cwd) as ready:
        await say(ready.agent, "one", "two", "three", "four", "five")
        done = await ready.compact.compact(CompactionRequest())
        await say(ready.agent, "go on")
    assert done.kind == "full"
    assert [one.refusal.message[:18] for one in sim.log if one.refusal] == ["prompt is too long"]


async def test_a_summary_of_the_newest_messages_leaves_the_thinking_before_them(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    script: list[Json] = [thought(f"answer {n} " * 300) for n in range(6)]
    async with Simulator([*script, SUMMARY, "on"]) as sim, opened(sim, cwd) as ready:
        await say(ready.agent, "one", "two", "three", "four", "five", "six")
        items = ready.agent.session.view.items
        pivot = next(n for n, item in enumerate(items) if "four" in str(item.parts))
        await ready.compact.compact(CompactionRequest(span=ItemSpan(first=pivot)))
        await say(ready.agent, "go on")
    assert refusals(sim) == []
    before = sim.log[3].usage
    assert sim.log[-1].usage.cache_read >= before.cache_read, "as much as the fourth request had read"


async def test_a_second_refusal_in_one_turn_is_one_line_and_the_next_turn_recovers(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    script: list[Json] = [
        thought("one"),
        thought("look", call("Read", file_path="README.md")),
        thought("three"),
    ]
    async with Simulator(script) as sim, opened(sim, cwd) as ready:
        await say(ready.agent, "first")
        session = ready.agent.session
        moving = OtherSystem(lambda: f"Version {sum(not one.refusal for one in sim.log)}.")
        session.add_layers(moving)
        with pytest.raises(ThinkingMismatch, match="refused again") as caught:
            await say(ready.agent, "second")
        assert "\n" not in str(caught.value)
        session.remove_layer(moving)
        await say(ready.agent, "third")
    assert [one.status for one in sim.log] == [200, 400, 200, 400, 400, 200]


async def test_a_loop_of_ones_own_can_drop_thinking_and_prepare_again() -> None:
    @tool(read_only=True)
    async def look() -> str:
        """Looks."""
        return "nothing"

    async with Simulator([thought("one"), "two"]) as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        session = Session(Base(MODEL, "You are brief.", []))
        await session.add_user("first")
        await session.record(await complete(provider, await session.prepare()))
        resumed = Session(session.base, session.transcript.records)
        noticed = Session(Base(MODEL, "You are brief.", [look]), session.transcript.records)
        await noticed.add_user("second")
        assert not has_thinking(await noticed.prepare())
        resumed.add_layers(OtherSystem(lambda: "You are terse."))
        await resumed.add_user("second")
        with pytest.raises(ThinkingMismatch):
            await complete(provider, await resumed.prepare())
        assert await resumed.drop_thinking()
        reply = await complete(provider, await resumed.prepare())
        assert not await resumed.drop_thinking()
        await provider.close()
    assert reply.message.text == "two"
