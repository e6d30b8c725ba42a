"""Deferred tools through the official SDK: found, called, and still there after whatever happens (P12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.open_agent import OpenedAgent
from nacre.devtools.sim import Exchange
from nacre.devtools.sim.replies import parse_script
from nacre.layers.l4_compact.layer import undo_compaction
from nacre.loop.fork import FULL_ACCESS, ForkTask
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Compacted
from nacre.messages.tool_references import referenced_tools
from nacre.messages.wire import canonical
from nacre.session.compaction import CompactionRequest
from tests.stories.scenes import BAR, call, calls, results, say, shares_read
from tests.stories.session_world import SessionWorld, span

CREATE = "mcp__raw__create_issue"
LIST = "mcp__raw__list_issue"
RARE = {"Agent", "SendMessage", "TaskStop", "TeamTasks", "correct", "forget", "search_sessions"}
SEARCHED = calls(call("ToolSearch", query=f"select:{CREATE}"))
CALLED = calls(call(CREATE, project="a/b", title="Broken"))


@pytest.fixture
def world(tmp_path: Path) -> SessionWorld:
    """A project whose person has named a server of twenty tools."""
    made = SessionWorld(tmp_path / "work", seed=7)
    made.set_mcp("tracker")
    return made


def planned(world: SessionWorld, *replies: Json) -> None:
    world.planned += parse_script(list(replies))


def tools_in(one: Exchange) -> list[JsonObject]:
    tools = one.body["tools"]
    assert isinstance(tools, list)
    return [tool for tool in tools if isinstance(tool, dict)]


def deferred_in(one: Exchange) -> set[str]:
    return {str(tool["name"]) for tool in tools_in(one) if tool.get("defer_loading")}


def refusals(world: SessionWorld) -> list[str]:
    return [one.refusal.message for one in world.sim.log if one.refusal]


async def found_and_called(world: SessionWorld, ready: OpenedAgent) -> None:
    planned(world, SEARCHED, CALLED, "Created.")
    (search, created) = results(await say(ready.agent, "create an issue"))
    assert not search.is_error
    assert '"title": "Broken"' in created.text


@pytest.mark.parametrize("kind", ["bound", "kept", "stripped"])
async def test_a_tool_is_found_and_called_and_every_request_is_read_from_the_cache(
    kind: str, world: SessionWorld
) -> None:
    async with world.sim, world.opened(kind) as ready:
        planned(world, "Hello.")
        await say(ready.agent, "hello")
        await found_and_called(world, ready)
        planned(world, "You are welcome.")
        await say(ready.agent, "thanks")
    log = world.sim.log
    assert refusals(world) == []
    assert all(read >= BAR for read in shares_read(log)), shares_read(log)
    assert len({canonical([*tools_in(one)]) for one in log}) == 1
    named = deferred_in(log[0])
    assert named >= {CREATE, LIST, *RARE}
    assert named.isdisjoint(
        {"Read", "Edit", "Bash", "Grep", "Glob", "TaskList", "recall", "remember", "ToolSearch"}
    )
    # The definition is part of the prompt only from where it was found.
    assert log[2].usage.prompt - log[1].usage.prompt > 150


async def test_a_search_by_words_loads_the_tools_that_match_best(world: SessionWorld) -> None:
    async with world.sim, world.opened("bound") as ready:
        planned(world, calls(call("ToolSearch", query="create issues")), "Found.")
        await say(ready.agent, "which tools are there?")
        found = referenced_tools(ready.agent.session.view.items)
    assert found[0] == CREATE
    assert len(found) == 5


async def test_a_search_without_a_match_says_what_to_do(world: SessionWorld) -> None:
    async with world.sim, world.opened("bound") as ready:
        planned(world, calls(call("ToolSearch", query="weather")), "None.")
        (search,) = results(await say(ready.agent, "the weather?"))
    assert search.is_error
    assert "select:" in search.text


@pytest.mark.parametrize("kind", ["bound", "kept", "stripped"])
@pytest.mark.parametrize("is_partial", [False, True])
async def test_a_compaction_loads_again_what_was_found_and_its_undo_takes_that_back(
    kind: str, is_partial: bool, world: SessionWorld
) -> None:
    async with world.sim:
        async with world.opened(kind) as ready:
            await found_and_called(world, ready)
            await say(ready.agent, *("go on with the work" for _ in range(4)))
            request = CompactionRequest(span=span(ready, keeps=0.7)) if is_partial else CompactionRequest()
            done = await ready.compact.compact(request)
            assert isinstance(done.record, Compacted)
            assert done.record.extra["preCompactDiscoveredTools"] == [CREATE]
            assert referenced_tools(ready.agent.session.view.items) == [CREATE]
            # The simulated model can call only what it has seen: this needs no other search.
            planned(world, CALLED, "Created another one.")
            (created,) = results(await say(ready.agent, "another one"))
            assert "Broken" in created.text
            session_id = ready.agent.session.id
        async with world.opened(kind, session_id) as ready:
            planned(world, CALLED, "And another one.")
            await say(ready.agent, "after a restart")
            await undo_compaction(ready.agent.session)
        async with world.opened(kind, session_id) as ready:
            view = canonical([*ready.agent.session.view.messages]).decode()
            assert view.count('"tool_reference"') == 1
            assert view.count("create an issue") == 1
            planned(world, CALLED, "And one more.")
            await say(ready.agent, "after the undo")
    assert refusals(world) == []
    assert len({canonical([*tools_in(one)]) for one in world.sim.log if "tools" in one.body}) == 1


async def test_an_automatic_compaction_in_the_middle_of_a_turn_keeps_the_tools(world: SessionWorld) -> None:
    async with world.sim, world.opened("kept") as ready:
        await found_and_called(world, ready)
        await say(ready.agent, *("go on with the work" for _ in range(3)))
        ready.agent.session.window = ready.agent.session.tokens + 3_000
        read = calls(call("Read", file_path="module_0.py", limit=150))
        planned(world, read, read, CALLED, "Done.")
        events = await say(ready.agent, "read, then create")
        compactions = ready.agent.session.view.epochs.count("compact")
    assert compactions == 1
    assert "Broken" in results(events)[-1].text
    assert refusals(world) == []


async def test_after_a_search_is_taken_back_the_model_must_search_again(world: SessionWorld) -> None:
    async with world.sim, world.opened("bound") as ready:
        planned(world, "Hello.")
        await say(ready.agent, "hello")
        await found_and_called(world, ready)
        await ready.rewind.forget(ready.rewind.points()[-1])
        assert referenced_tools(ready.agent.session.view.items) == []
        await found_and_called(world, ready)
    assert refusals(world) == []


@pytest.mark.parametrize("kind", ["silent", "reasoning", "responses", "plain"])
async def test_a_model_without_support_gets_all_tools_and_a_line_for_each_reference(
    kind: str, world: SessionWorld
) -> None:
    async with world.sim:
        async with world.opened("bound") as ready:
            await found_and_called(world, ready)
            session_id = ready.agent.session.id
        async with world.opened(kind, session_id) as ready:
            planned(world, CALLED, "Created by another model.")
            (created,) = results(await say(ready.agent, "another one"))
            assert "Broken" in created.text
        other = canonical(world.sim.log[-1].body).decode()
        assert "defer_loading" not in other
        assert "tool_reference" not in other
        assert f"{CREATE} can be called." in other
        assert f'"name":"{LIST}"' in other
        async with world.opened("bound", session_id) as ready:
            planned(world, CALLED, "Back again.")
            await say(ready.agent, "and with the first model")
    assert refusals(world) == []


async def test_a_tool_whose_server_is_gone_does_not_block_the_session(world: SessionWorld) -> None:
    async with world.sim:
        async with world.opened("bound") as ready:
            await found_and_called(world, ready)
            session_id = ready.agent.session.id
        world.set_mcp(None)
        async with world.opened("bound", session_id) as ready:
            planned(world, "Without it, then.")
            await say(ready.agent, "go on")
    assert refusals(world) == []


@pytest.mark.parametrize(("setting", "names"), [("auto", RARE), (True, RARE), (False, set())])
async def test_own_tools_that_few_sessions_call_are_deferred(
    setting: bool | str, names: set[str], world: SessionWorld
) -> None:
    world.set_mcp(None)
    async with world.sim, world.opened("bound", settings={"tools.deferred": setting}) as ready:
        assert {one["name"] for one in ready.agent.session.base.deferred} == names
        assert ("ToolSearch" in ready.agent.tools) == bool(names)


@pytest.mark.parametrize(("setting", "is_late"), [("auto", False), (True, True)])
async def test_few_tools_of_a_server_are_deferred_only_if_the_setting_says_so(
    setting: bool | str, is_late: bool, world: SessionWorld
) -> None:
    world.set_mcp("usual")
    async with world.sim, world.opened("bound", settings={"tools.deferred": setting}) as ready:
        late = {str(one["name"]) for one in ready.agent.session.base.deferred}
        served = {name for name in ready.agent.tools if name.startswith("mcp__")}
    assert served and late == (RARE | served if is_late else RARE)


async def test_an_own_tool_is_loaded_called_and_kept_through_a_compaction(world: SessionWorld) -> None:
    """What the person wants forgotten is forgotten in the same turn."""
    world.set_mcp(None)
    async with world.sim, world.opened("bound") as ready:
        planned(world, calls(call("remember", text="Tea is served at four.")), "Saved.")
        await say(ready.agent, "remember that tea is served at four")
        planned(world, calls(call("ToolSearch", query="select:forget")))
        planned(world, calls(call("forget", query="tea")), "Gone.")
        (_, gone) = results(await say(ready.agent, "forget when tea is served"))
        assert "Forgot" in gone.text
        await say(ready.agent, *("go on with the work" for _ in range(4)))
        await ready.compact.compact(CompactionRequest())
        assert referenced_tools(ready.agent.session.view.items) == ["forget"]
        planned(world, calls(call("forget", query="tea")), "There is none.")
        (again,) = results(await say(ready.agent, "forget it again"))
        assert again.is_error and "ToolSearch" not in again.text
    assert refusals(world) == []
    assert all(read >= BAR for read in shares_read(world.sim.log[:5])), shares_read(world.sim.log)


@pytest.mark.parametrize(
    ("address", "setting", "count"),
    [
        ("https://gateway.example", "auto", 0),
        ("https://gateway.example", True, 27),
        ("https://notanthropic.com", "auto", 0),
        ("https://api.anthropic.com", "auto", 27),
    ],
)
async def test_behind_a_gateway_tools_are_deferred_only_if_the_setting_says_so(
    address: str, setting: bool | str, count: int, world: SessionWorld
) -> None:
    settings: JsonObject = {"tools.deferred": setting}
    async with world.sim, world.opened("bound", settings=settings, ANTHROPIC_BASE_URL=address) as ready:
        assert len(ready.agent.session.base.deferred) == count


async def test_a_rule_that_denies_the_search_sends_all_tools(world: SessionWorld) -> None:
    settings: JsonObject = {"permissions.deny": ["ToolSearch"]}
    async with world.sim, world.opened("bound", settings=settings) as ready:
        assert ready.agent.session.base.deferred == []
        assert CREATE in ready.agent.tools


async def test_the_size_of_the_base_is_that_of_the_tools_in_the_prompt(world: SessionWorld) -> None:
    sizes = {}
    async with world.sim:
        for setting in (False, "auto"):
            async with world.opened("bound", settings={"tools.deferred": setting}) as ready:
                planned(world, "Hello.")
                await say(ready.agent, "hello")
                session = ready.agent.session
                sizes[setting] = (session.base.tokens, session.calibration.base_tokens)
    estimated, measured = sizes[False]
    assert sizes["auto"][0] < estimated - 4_000
    assert sizes["auto"][1] < measured - 4_000


async def test_a_fork_sends_the_same_tools_and_reads_its_parents_cache(world: SessionWorld) -> None:
    async with world.sim, world.opened("bound") as ready:
        await found_and_called(world, ready)
        planned(world, "Seven.")
        await ready.forks(ForkTask(source="side", directive="How many issues?"))
    parent, fork = world.sim.log[-2:]
    assert canonical([*tools_in(fork)]) == canonical([*tools_in(parent)])
    assert fork.usage.cache_read >= BAR * (parent.usage.cache_read + parent.usage.cache_write)
    assert refusals(world) == []


async def test_a_fork_with_full_access_searches_itself(world: SessionWorld) -> None:
    async with world.sim, world.opened("bound") as ready:
        planned(world, "Hello.", SEARCHED, CALLED, "Created.")
        await say(ready.agent, "hello")
        task = ForkTask(source="side", directive="Create an issue.", access=FULL_ACCESS, max_rounds=5)
        done = await ready.forks(task)
        assert referenced_tools(ready.agent.session.view.items) == []
    assert done.text == "Created."
    assert "Broken" in canonical(world.sim.log[-1].body["messages"]).decode()
    assert refusals(world) == []


async def test_an_agent_searches_among_its_own_tools_and_keeps_its_mail(world: SessionWorld) -> None:
    hire = calls(call("Agent", description="file it", prompt="Create an issue."))
    async with world.sim, world.opened("bound") as ready:
        planned(world, calls(call("ToolSearch", query="select:Agent")))
        planned(world, hire, SEARCHED, CALLED, "Filed.", "Done.")
        await say(ready.agent, "let an agent create an issue")
    parent, child = world.sim.log[1:3]
    assert deferred_in(parent) - deferred_in(child) == {"SendMessage", "correct", "forget", "search_sessions"}
    assert CREATE in deferred_in(child)
    assert "Broken" in canonical(world.sim.log[4].body["messages"]).decode()
    assert refusals(world) == []
