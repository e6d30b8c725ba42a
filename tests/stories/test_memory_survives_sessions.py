"""What is remembered in one session is there in the next, and the system prompt is the same everywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.memory.files.location import user_location
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.events import ToolResultEvent
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider, call, say


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return in_project(tmp_path, "one")


def in_project(tmp_path: Path, name: str) -> Settings:
    project = tmp_path / name
    project.mkdir(exist_ok=True)
    return load(project, {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home")})


async def play(
    settings: Settings, provider: ScriptedProvider, text: str, *, session: str = "new"
) -> list[str]:
    """One turn; what the tools answered."""
    async with open_agent(settings, provider=provider, session=session) as ready:
        return [
            event.result.text
            async for event in ready.agent.stream(text)
            if isinstance(event, ToolResultEvent)
        ]


def opening(provider: ScriptedProvider) -> str:
    content = provider.requests[-1].messages[0]["content"]
    assert isinstance(content, list)
    return str(content[0]["text"])  # type: ignore[index,call-overload]


async def test_a_memory_of_one_session_is_in_the_index_of_the_next(settings: Settings) -> None:
    """M10, M14, M19: saved in that turn, loaded ahead of the next conversation."""
    first = ScriptedProvider([call("remember", text="Deploys happen on Tuesday.", type="project"), say("ok")])
    [saved] = await play(settings, first, "remember that deploys happen on Tuesday")
    assert "project_deploys_happen_tuesday.md" in saved
    assert "deploys_happen_on_tuesday" not in opening(first)
    second = ScriptedProvider([call("recall", query="deploys"), say("Tuesday.")])
    [found] = await play(settings, second, "when do we deploy?")
    assert "Deploys happen on Tuesday." in found
    assert "project_deploys_happen_tuesday.md" in opening(second)


async def test_the_system_prompt_is_the_same_for_every_project(settings: Settings, tmp_path: Path) -> None:
    """M19: what varies rides in the first message, so that the cached system prefix is shared."""
    providers = [ScriptedProvider([say("hi")]) for _ in range(2)]
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "CLAUDE.md").write_text("Always answer in rhymes.")
    await play(settings, providers[0], "hello")
    await play(in_project(tmp_path, "two"), providers[1], "hello")
    assert providers[0].requests[0].system == providers[1].requests[0].system
    assert providers[0].requests[0].tools == providers[1].requests[0].tools
    assert "Always answer in rhymes." in opening(providers[1])
    assert "Always answer in rhymes." not in opening(providers[0])


async def test_what_is_saved_in_mid_session_moves_no_byte_already_sent(settings: Settings) -> None:
    """M25: the message ahead of the conversation is frozen; a resumed session sends the same bytes."""
    provider = ScriptedProvider(
        [call("remember", text="The demo is on Friday."), say("kept"), say("again"), say("still here")]
    )
    async with open_agent(settings, provider=provider) as ready:
        for text in ("remember the demo", "and now?"):
            async for _ in ready.agent.stream(text):
                pass
    await play(settings, provider, "and after resuming?", session="latest")
    assert provider.calls == 4  # the prefix net compares all four


async def test_what_holds_everywhere_stands_before_what_holds_here(settings: Settings) -> None:
    """M7b: the person's own memory is loaded before the project's index."""
    own = await Memory.at(user_location(settings.home), settings.cwd)
    await own.save(
        MemoryDraft(body="I am left-handed.", kind="user"), MemoryChange(author="user", reason="by hand")
    )
    provider = ScriptedProvider([call("remember", text="Project fact here."), say("ok"), say("hi")])
    await play(settings, provider, "remember a fact")
    other = ScriptedProvider([say("hi")])
    await play(settings, other, "hello")
    text = opening(other)
    assert 0 < text.index("user_left_handed.md") < text.index("project_fact.md")


async def test_without_memory_nothing_is_read_and_nothing_written(tmp_path: Path) -> None:
    """M7, M21: `--no-memory` gives the same as an empty memory, by construction."""
    project = tmp_path / "one"
    project.mkdir()
    environ = {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home"), "NACRE_DISABLE_AUTO_MEMORY": "1"}
    provider = ScriptedProvider([say("hi")])
    await play(load(project, environ), provider, "hello")
    assert "remember" not in {tool["name"] for tool in provider.requests[0].tools}
    assert not list((tmp_path / "home").rglob("memory"))


async def test_an_edit_of_the_memory_folder_by_a_tool_is_a_transaction(settings: Settings) -> None:
    """Owned roots: Write into the directory gets its line in the index and a commit by the agent."""
    memory = await Memory.open(settings.cwd, environ=dict(settings.environ))
    path = memory.location.directory / "tea.md"
    text = "---\nname: Tea\ndescription: Likes green tea\ntype: user\n---\n\nGreen tea, no sugar.\n"
    provider = ScriptedProvider([call("Write", file_path=str(path), content=text), say("ok")])
    [result] = await play(settings, provider, "write it down")
    assert "Created" in result
    assert "(tea.md)" in (memory.location.directory / "MEMORY.md").read_text()
    newest = (await memory.log())[0]
    assert (newest.author, newest.files) == ("agent", ("MEMORY.md", "tea.md"))


async def test_two_sessions_may_remember_at_the_same_time(settings: Settings) -> None:
    """M15: nothing is lost between two writers."""

    async def one(number: int) -> None:
        provider = ScriptedProvider([call("remember", text=f"Fact number {number} is kept."), say("ok")])
        await play(settings, provider, "remember")

    await asyncio.gather(*(one(number) for number in range(4)))
    memory = await Memory.open(settings.cwd, environ=dict(settings.environ))
    assert len(await memory.list()) == 4
