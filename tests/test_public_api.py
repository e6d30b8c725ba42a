"""The public API as a newcomer meets it: `from nacre import …` and nothing else."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from pathlib import Path

import pytest

import nacre
from nacre import (
    Agent,
    Base,
    Compact,
    Layer,
    Memory,
    Microcompact,
    NacreError,
    Notes,
    Offload,
    Recall,
    RunResult,
    Session,
    TextDelta,
    ToolCallEvent,
    ToolError,
    ToolResultEvent,
    TurnDone,
    open_agent,
    open_memory,
    tool,
)
from nacre.testing import ScriptedProvider, call, say

ROOT = Path(__file__).parents[1]
FIRST_PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "examples").glob("*.py"))]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "NACRE_MODEL"):
        monkeypatch.delenv(name, raising=False)


def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"{city}: rain"


@tool(read_only=True)
async def tides(port: str) -> str:
    """Return the tides at a port."""
    return f"{port}: high at noon"


def test_the_public_names_are_these() -> None:
    names = (
        "Agent open_agent RunResult Memory open_memory Entry Session Base Layer Offload Microcompact Notes "
        "Compact Recall Extract tool Tool ToolError Provider TextDelta ToolCallEvent ToolResultEvent "
        "TurnDone Notice NacreError"
    )
    assert set(nacre.__all__) == set(names.split())
    for name in nacre.__all__:
        assert getattr(nacre, name).__name__ == name


async def test_run_returns_a_result_and_continues_the_conversation() -> None:
    script = ScriptedProvider().script(call("weather", city="Bergen"), say("Take an umbrella."), say("Yes."))
    agent = Agent("any-model", instructions="Be brief.", tools=[weather, tides], provider=script)
    result = await agent.run("Do I need an umbrella in Bergen?")
    assert isinstance(result, RunResult)
    assert (result.output, result.outcome, result.cost_usd) == ("Take an umbrella.", "answered", None)
    assert result.usage.output > 0
    assert [message.role for message in result.messages] == ["user", "assistant", "user", "assistant"]
    assert script.requests[0].system[0]["text"] == "Be brief."
    again = await agent.run("Really?")
    assert again.output == "Yes."
    assert len(again.messages) == 6
    assert "Bergen: rain" in str(script.requests[2].messages)


async def test_stream_yields_the_events_of_a_turn() -> None:
    script = ScriptedProvider().script(call("tides", port="Brest"), say("At noon."))
    events = [event async for event in Agent(tools=[tides], provider=script).stream("When is high water?")]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "At noon."
    assert [event.call.name for event in events if isinstance(event, ToolCallEvent)] == ["tides"]
    assert [event.result.text for event in events if isinstance(event, ToolResultEvent)] == [
        "Brest: high at noon"
    ]
    assert isinstance(events[-1], TurnDone)


@pytest.mark.slow
def test_run_sync_works_again_and_again() -> None:
    agent = Agent(
        tools=[weather], provider=ScriptedProvider().script(call("weather", city="Oslo"), say("1"), say("2"))
    )
    assert [agent.run_sync("One?").output, agent.run_sync("Two?").output] == ["1", "2"]
    del agent
    gc.collect()


async def test_run_sync_inside_a_loop_says_what_to_write() -> None:
    with pytest.raises(RuntimeError, match=r"await agent\.run"):
        Agent(provider=ScriptedProvider()).run_sync("Hi")


async def test_an_agent_without_a_key_is_answered_by_the_embedded_engine(tmp_path: Path) -> None:
    async with Agent("embedded", memory=Memory(tmp_path / "memory")) as agent:
        await agent.run("remember that I prefer tabs")
    async with Agent("embedded", memory=Memory(tmp_path / "memory")) as agent:
        result = await agent.run("what do you know about tabs?")
    assert "I prefer tabs" in result.output
    assert Agent().session.base.model == "embedded"


@pytest.mark.parametrize(
    ("model", "environ", "told"),
    [
        ("anthropic:claude-sonnet-5-5", {}, "needs a key: set ANTHROPIC_API_KEY"),
        ("openai:gpt-6-luna", {}, "set OPENAI_API_KEY or OPENAI_BASE_URL"),
        ("cohere:command", {}, "no provider is known for 'cohere:command'; write anthropic:MODEL"),
    ],
)
def test_a_model_that_cannot_answer_is_refused_in_one_line(
    model: str, environ: dict[str, str], told: str
) -> None:
    with pytest.raises(NacreError) as refused:
        Agent(model)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_package_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.setattr("nacre.providers.choose.find_spec", lambda name: None)
    with pytest.raises(NacreError, match=r"needs the anthropic package: .*install"):
        Agent("anthropic:claude-sonnet-5-5")


@pytest.mark.parametrize(
    "model", ["anthropic:claude-sonnet-5-5", "anthropic/claude-sonnet-5-5", "claude-sonnet-5-5"]
)
def test_a_model_is_named_with_or_without_its_provider(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    agent = Agent(model)
    assert (agent.session.base.model, agent.provider.name) == ("claude-sonnet-5-5", "anthropic")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": ScriptedProvider()}, "write provider="),
        ({"tools": weather}, r"write tools=\[weather\]"),
        ({"tools": ["weather"]}, "not a str"),
        ({"tools": [weather, weather]}, "two tools are named weather"),
        ({"tools": [lambda: 1]}, "needs a docstring"),
        ({"session": Session(Base("m")), "instructions": "Be brief."}, "a session has its own"),
        ({"instructions": None}, "instructions takes a text, not NoneType"),
        ({"memory": True}, "memory takes a Memory or a directory, not bool"),
        ({"provider": "openai"}, "provider takes a provider object"),
        ({"provider": ScriptedProvider}, "provider takes a provider object"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(given: dict[str, object], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        Agent(**{"provider": ScriptedProvider(), **given})  # type: ignore[arg-type]


async def test_a_prompt_and_a_memory_of_another_type_are_refused_in_one_line(tmp_path: Path) -> None:
    agent = Agent(provider=ScriptedProvider(), memory=tmp_path / "notes")
    assert agent.memory is not None and agent.memory.location.directory == tmp_path / "notes"
    with pytest.raises(TypeError, match="a prompt is a text, not int"):
        await agent.run(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="save takes a text or a MemoryDraft, not dict"):
        await agent.memory.save({"text": "x"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Memory takes a directory, not NoneType"):
        Memory(None)  # type: ignore[arg-type]
    with pytest.raises(NacreError, match="no memory scope 'zzz'; use one of project, team, user"):
        await open_memory(scope="zzz")  # type: ignore[arg-type]


async def test_a_save_can_be_undone_from_python(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "notes")
    await memory.save("The office is in Bergen.")
    forgotten, commit = await memory.forget("office")
    assert await memory.list() == []
    await memory.undo(commit)
    assert [one.file for one in await memory.list()] == [forgotten.file]
    await memory.undo()
    assert await memory.list() == []


async def test_functions_that_are_not_async_are_tools_and_do_not_block() -> None:
    async def ticks() -> int:
        count = 0
        while not done.is_set():
            await asyncio.sleep(0.01)
            count += 1
        return count

    def slow(seconds: float) -> str:
        """Wait."""
        import time

        time.sleep(seconds)
        return "waited"

    done = asyncio.Event()
    ticking = asyncio.create_task(ticks())
    script = ScriptedProvider().script(call("slow", seconds=0.3), call("slow", seconds="soon"), say("Done."))
    result = await Agent(tools=[slow], provider=script).run("Wait.")
    done.set()
    assert await ticking > 3
    assert result.output == "Done."
    assert "seconds: expected a number, got 'soon'" in str(script.requests[2].messages)


async def test_tool_errors_reach_the_model() -> None:
    def fails(city: str) -> str:
        """Fail."""
        raise ToolError(f"No such city: {city}.")

    script = ScriptedProvider().script(call("fails", city="Atlantis"), say("Sorry."))
    await Agent(tools=[fails], provider=script).run("Weather in Atlantis?")
    assert "No such city: Atlantis." in str(script.requests[1].messages)


@pytest.mark.slow
async def test_long_results_go_to_a_file_that_the_model_can_read() -> None:
    def log() -> str:
        """Return a long log."""
        return "\n".join(f"line {n}" for n in range(5_000))

    def asks_for_the_file(request: object) -> object:
        found = re.search(r"(/\S+/nacre-\w+/\S+\.txt)", str(request.messages))  # type: ignore[attr-defined]
        assert found
        return call("Read", file_path=found[1], offset=4_000, limit=1)

    script = ScriptedProvider().script(
        call("log"), asks_for_the_file, call("Read", file_path="/etc/passwd"), say("OK")
    )
    agent = Agent(tools=[log], provider=script)
    await agent.run("What is in line 4,000?")
    texts = [str(request.messages) for request in script.requests]
    assert len(texts[1]) < 10_000
    assert "line 3999" in texts[2]
    assert "Only files in" in texts[3]
    found = re.search(r"(/\S+/nacre-\w+)/", texts[1])
    assert found is not None
    folder = Path(found[1])
    assert folder.is_dir()
    del agent
    gc.collect()
    assert not folder.exists()


async def test_a_memory_is_recalled_and_can_be_changed_by_the_model(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    await memory.save("The build server is heron, in the basement.")
    script = ScriptedProvider().script(call("remember", text="Deploys are on Tuesday."), say("heron"))
    async with Agent("m", memory=memory, provider=script) as agent:
        await agent.run("Which server do we build on?")
    assert "heron" in str(script.requests[0].messages)
    assert {entry.body.strip() for entry in await memory.list()} == {
        "The build server is heron, in the basement.",
        "Deploys are on Tuesday.",
    }


async def test_a_memory_at_a_path_lasts_and_has_a_history(tmp_path: Path) -> None:
    memory = Memory("notes/memory")
    saved = await memory.save("Ada prefers tabs.")
    assert (tmp_path / "notes" / "memory" / saved.entry.file).is_file()
    again = Memory(str(tmp_path / "notes" / "memory"))
    assert "tabs" in (await again.recall("Does Ada prefer tabs or spaces?")).text
    assert len(await again.log()) == 1
    await again.forget("Ada prefers tabs")
    assert await memory.list() == []


@pytest.mark.parametrize("path", ["/", "~", "/etc"])
def test_a_memory_needs_a_folder_of_its_own(path: str) -> None:
    with pytest.raises(NacreError, match="cannot hold a memory"):
        Memory(path)


async def test_a_session_of_ones_own_with_layers_of_ones_own(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    await memory.save("Degrees are Celsius.")
    layers = [Offload(tmp_path / "results"), Microcompact(), Recall(memory), Notes(), Compact()]
    session = Session(Base("any-model", "You know the weather.", [tides]), layers=layers)
    script = ScriptedProvider().script(say("Low."))
    agent = Agent(session=session, provider=script, tools=[tides])
    assert (await agent.run("Which degrees do we use, Celsius?")).output == "Low."
    assert "Degrees are Celsius." in str(script.requests[0].messages)


async def test_a_layer_belongs_to_one_session_and_is_added_once() -> None:
    compact = Compact()
    session = Session(Base("any-model"), layers=[compact])
    assert compact.session is session
    with pytest.raises(ValueError, match=r"^this Compact is a layer of this session already"):
        session.add_layers(compact)
    with pytest.raises(ValueError, match=r"^this Compact belongs to another session; create a new Compact"):
        Session(Base("any-model"), layers=[compact])
    with pytest.raises(TypeError, match="a layer is an instance of a subclass of `Layer`"):
        Session(Base("any-model"), layers=[Compact])  # type: ignore[list-item]
    assert session.layers == (compact,)


def test_two_classes_of_layers_cannot_declare_one_kind_of_note() -> None:
    with pytest.raises(TypeError, match=r"Mine and .*\.Notes both declare the log notes of kind 'notes'"):
        type("Mine", (Layer,), {"log_kinds": {"notes": "last"}})


async def test_open_agent_and_open_memory_take_settings_as_a_mapping() -> None:
    script = ScriptedProvider().script(say("Hello."))
    async with open_agent(
        {"disableAutoMemory": True}, provider=script, tools=[weather], ephemeral=True
    ) as opened:
        assert (await opened.agent.run("Hi")).output == "Hello."
        assert opened.memories == ()
    with pytest.raises(NacreError, match="no setting named 'modle'"):
        await open_memory({"modle": "m"})
    with pytest.raises(TypeError, match="ephemeral"):
        async with open_agent(provider=script, session="latest", ephemeral=True):
            pass


@pytest.mark.parametrize("page", FIRST_PAGES, ids=lambda page: page.name)
def test_first_pages_and_examples_import_only_public_modules(page: Path) -> None:
    modules = re.findall(r"^\s*(?:from|import) (nacre[\w.]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    allowed = re.compile(r"nacre|nacre\.testing|nacre\.integrations(\.\w+)?")
    assert [name for name in modules if not allowed.fullmatch(name)] == []
