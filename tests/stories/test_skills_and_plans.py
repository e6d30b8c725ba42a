"""Skills and a plan in sessions: told at the tail, through compactions and resumptions (C21)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.app.open_agent import NEW, OpenedAgent, open_agent
from nacre.context.skill_list import SKILL, SKILLS
from nacre.inspect.context_usage import contents
from nacre.messages.blocks import ToolResult
from nacre.messages.events import Event, Notice, ToolResultEvent
from nacre.messages.tokens import estimate_text
from nacre.session.compaction import CompactionRequest
from nacre.session.restoration import SOURCE_TOKENS
from nacre.settings import Settings, load
from nacre.store.sessions import Sessions
from nacre.testing import ScriptedProvider, call, say

BY_RULE = CompactionRequest(by_rule=True)
DEPLOY = "---\nname: deploy\ndescription: How this project is deployed.\n---\n\nAsk for the green light.\n"
HOUSE = "---\nname: house\ndescription: How I like things written.\n---\n\nShort sentences. See style.md.\n"
LONG = "A long stretch of talk that fills the view. " * 400
LONGER = LONG * 8


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    home = tmp_path / "home"
    home.mkdir()
    off = dict.fromkeys(("notes", "compact_prepare", "extract", "dream", "recall"), False)
    (home / "settings.json").write_text(json.dumps({"switches": off}), encoding="utf-8")
    return folder


@pytest.fixture
def skilled(project: Path) -> Path:
    write(project / ".claude" / "skills" / "deploy", DEPLOY)
    mine = project.parent / "home" / "skills" / "house"
    write(mine, HOUSE)
    (mine / "style.md").write_text("No adverbs.")
    return project


def write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text)


def settings_of(project: Path, **environ: str) -> Settings:
    home = project.parent / "home"
    return load(project, {"HOME": str(project.parent), "NACRE_HOME": str(home), **environ})


@asynccontextmanager
async def at_work(
    project: Path, provider: ScriptedProvider, session: str = NEW, *, ephemeral: bool = False
) -> AsyncIterator[OpenedAgent]:
    async with open_agent(
        settings_of(project), provider=provider, session=session, ephemeral=ephemeral
    ) as ready:
        yield ready


async def turn(ready: OpenedAgent, text: str) -> list[Event]:
    return [event async for event in ready.agent.stream(text)]


def results(events: list[Event]) -> list[ToolResult]:
    return [event.result for event in events if isinstance(event, ToolResultEvent)]


def tail(provider: ScriptedProvider) -> str:
    return str(provider.requests[-1].messages[-1]["content"])


def sent(provider: ScriptedProvider) -> str:
    return str(provider.requests[-1].messages)


def tool_names(provider: ScriptedProvider) -> set[object]:
    return {one["name"] for one in provider.requests[-1].tools}


async def test_skills_are_listed_once_loaded_whole_and_their_files_can_be_read(skilled: Path) -> None:
    """The project's and the person's own; nobody is there to ask, and none of it needs a question."""
    style = skilled.parent / "home" / "skills" / "house" / "style.md"
    provider = ScriptedProvider(
        [
            call("Read", file_path=str(style)),
            call("Skill", skill="house"),
            call("Read", file_path=str(style)),
            say("done"),
            say("again"),
        ]
    )
    async with at_work(skilled, provider) as ready:
        first, loaded, read = results(await turn(ready, "write something"))
        assert first.is_error  # as long as the skill is not loaded, its folder is like any other
        assert "Short sentences." in loaded.text and str(style.parent) in loaded.text
        assert "No adverbs." in read.text
        assert "- deploy: How this project is deployed.\\n- house: How I like" in str(
            provider.requests[0].messages[-1]
        )
        await turn(ready, "go on")
        assert sent(provider).count("How this project is deployed.") == 1
    again = ScriptedProvider([call("Read", file_path=str(style)), say("x")])
    async with at_work(skilled, again, "latest") as ready:
        (read,) = results(await turn(ready, "and on"))
        assert "No adverbs." in read.text
    assert sent(again).count("How this project is deployed.") == 1


async def test_a_session_without_skills_has_neither_tool_nor_list(project: Path) -> None:
    """C31b: its bytes are what they were before there were skills, also when some come while it runs."""
    provider, without = ScriptedProvider([say("one"), say("two")]), ScriptedProvider([say("one")])
    async with at_work(project, provider) as ready:
        await turn(ready, "hello")
        assert "Skill" not in tool_names(provider)
        write(project / ".claude" / "skills" / "deploy", DEPLOY)
        await turn(ready, "go on")
        assert "deploy" not in sent(provider)
        assert not ready.agent.session.view.noted(SKILLS)
    async with open_agent(settings_of(project, NACRE_SKILLS="false"), provider=without) as ready:
        await turn(ready, "hello")
    assert "Skill" not in tool_names(without)
    assert "deploy" not in sent(without)


async def test_what_changes_is_told_in_the_session_and_to_one_that_is_resumed(skilled: Path) -> None:
    await played_once(skilled)
    write(skilled / ".claude" / "skills" / "review", "---\ndescription: How we review.\n---\nx")
    provider = ScriptedProvider([say("two"), say("three"), say("four")])
    async with at_work(skilled, provider, "latest") as ready:
        await turn(ready, "go on")
        assert "- review: How we review." in tail(provider)
        assert "How this project is deployed" not in tail(provider)
        (skilled / ".claude" / "skills" / "deploy" / "SKILL.md").unlink()
        told = [event.text for event in await turn(ready, "on") if isinstance(event, Notice)]
        assert "No longer there: deploy." in tail(provider)
        assert told == ["skills changed: deploy is gone"]
        await turn(ready, "and on")
        assert "skills" not in tail(provider)


async def played_once(project: Path) -> None:
    async with at_work(project, ScriptedProvider([say("one")])) as ready:
        await turn(ready, "hello")


async def test_a_hostile_skill_is_one_line_at_the_start(skilled: Path) -> None:
    write(skilled / ".claude" / "skills" / "bad", "---\nname: ../../etc\ndescription: d\n---\nx")
    async with at_work(skilled, ScriptedProvider([say("one")])) as ready:
        assert [line for line in ready.notices if "'../../etc' is no name for it" in line]
        assert not [one for one in await turn(ready, "hello") if isinstance(one, Notice)]


@pytest.mark.moves_prefix(reason="compaction")
async def test_what_was_loaded_comes_back_from_disk_after_every_compaction(skilled: Path) -> None:
    """C21: as it is then, the newest first, each within its bound; also in another process."""
    skill = skilled / ".claude" / "skills" / "deploy"
    provider = ScriptedProvider(
        [call("Skill", skill="deploy"), call("Skill", skill="house"), say("ok"), say(LONGER), say("on")]
    )
    async with at_work(skilled, provider) as ready:
        for text in ("deploy it", "and then?"):
            await turn(ready, text)
        write(skill, DEPLOY + "And tell Ada.\n" + "One more line of it.\n" * 3_000)
        done = await ready.compact.compact(BY_RULE)
        blocks = [block.text for block in done.record.summary if hasattr(block, "text")]
        (deploy,) = (text for text in blocks if "And tell Ada." in text)
        (house,) = (text for text in blocks if "Short sentences." in text)
        assert blocks.index(house) < blocks.index(deploy)
        assert 0.8 * SOURCE_TOKENS < estimate_text(deploy) <= SOURCE_TOKENS
        assert str(skill) in deploy and "on disk" in deploy
        assert sum("How I like things written" in text for text in blocks) == 1
        await turn(ready, "go on")
        assert sent(provider).count("How I like things written") == 1
    (skill / "SKILL.md").unlink()
    again = ScriptedProvider([say(LONG), say("done")])
    async with at_work(skilled, again, "latest") as ready:
        assert [note.fact("name") for note in ready.agent.session.view.noted(SKILL)] == ["deploy", "house"]
        await turn(ready, LONG)
        assert "No longer there: deploy." in str(again.requests[0].messages[-1])
        await ready.compact.compact(BY_RULE)
        await turn(ready, "and on")
    assert "The skill deploy was loaded in this session, and its file is no longer there." in sent(again)
    assert "Short sentences." in sent(again)


@pytest.mark.moves_prefix(reason="compaction")
async def test_a_list_for_which_there_was_no_room_is_told_with_the_next_message(skilled: Path) -> None:
    provider = ScriptedProvider([say("one"), say(LONG), say("on"), say("end")])
    async with at_work(skilled, provider) as ready:
        for text in ("hello", "words " * 400):
            await turn(ready, text)
        many = "---\ndescription: " + "d" * 390 + "\n---\nx"
        for number in range(40):
            write(skilled / ".claude" / "skills" / f"s{number}", many)
        done = await ready.compact.compact(BY_RULE)
        assert "- s39" not in str(done.record.summary)
        await turn(ready, "go on")
        assert "- s39" in tail(provider)
        await turn(ready, "on")
        assert "- s39" not in tail(provider)


@pytest.mark.moves_prefix(reason="compaction")
async def test_a_plan_is_shown_when_it_changes_and_comes_back(project: Path) -> None:
    """Skills and plans: in the session, after a compaction, and to who resumes; never twice the same."""
    provider = ScriptedProvider([say("one"), say(LONG), say("three"), say("four")])
    async with at_work(project, provider) as ready:
        await ready.plan.write("1. Look.")
        await turn(ready, "hello")
        assert "1. Look." in tail(provider)
        await turn(ready, LONG)
        assert "1. Look." not in tail(provider)
        await ready.plan.write("1. Look.\n2. Mend.")
        done = await ready.compact.compact(BY_RULE)
        assert "2. Mend." in str(done.record.summary)
        await turn(ready, "go on")
        assert sent(provider).count("2. Mend.") == 1
        path = ready.plan.path
    assert path is not None
    again = ScriptedProvider([say("five"), say("six")])
    async with at_work(project, again, "latest") as ready:
        assert ready.plan.path == path
        await turn(ready, "and on")
        assert "Mend" not in tail(again)
        path.write_text("3. Rest.\n")
        await turn(ready, "and on")
        assert "3. Rest." in tail(again)


async def test_the_model_keeps_the_plan_up_to_date_without_a_question(project: Path) -> None:
    """One file is open to it, and nothing else beside the log; what it wrote it is not shown."""
    provider = ScriptedProvider()
    async with at_work(project, provider) as ready:
        path = ready.plan.path
        assert path is not None
        await ready.plan.write("1. Look.")
        provider.script(
            call("Read", file_path=str(path)),
            call("Edit", file_path=str(path), old_string="Look", new_string="Listen"),
            call("Write", file_path=str(path.with_name("other.md")), content="x"),
            say("done"),
            say("two"),
        )
        events = await turn(ready, "listen instead")
        assert [one.is_error for one in results(events)] == [False, False, True]
        assert path.read_text() == "1. Listen.\n"
        assert [one.text for one in events if isinstance(one, Notice)] == [
            "the model changed the plan; /plan shows it"
        ]
        await turn(ready, "go on")
        assert sent(provider).count("as it is now") == 1
        assert "Listen" not in tail(provider)


async def test_a_link_in_the_place_of_the_plan_opens_nothing(project: Path) -> None:
    secret = project.parent / "secret.txt"
    secret.write_text("SECRET")
    await played_once(project)
    (log,) = (project.parent / "home").glob("projects/*/*.jsonl")
    path = log.with_suffix("") / "plan.md"
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(secret)
    provider = ScriptedProvider([call("Read", file_path=str(path)), say("done")])
    async with at_work(project, provider, "latest") as ready:
        (read,) = results(await turn(ready, "go on"))
    assert read.is_error
    assert "SECRET" not in sent(provider)


async def test_a_plan_of_an_unkept_session_leaves_no_trace(project: Path) -> None:
    home = project.parent / "home"
    before = sorted(home.rglob("*"))
    provider = ScriptedProvider([say("one")])
    async with at_work(project, provider, ephemeral=True) as ready:
        await ready.plan.write("1. Look.")
        await turn(ready, "hello")
    assert "1. Look." in tail(provider)
    assert sorted(home.rglob("*")) == before


async def test_context_says_what_skills_and_plan_take(skilled: Path) -> None:
    """C34: of a session, and of one that would begin now."""
    async with at_work(skilled, ScriptedProvider([say("one")])) as ready:
        await ready.plan.write("1. Look.")
        await turn(ready, "hello")
    settings = settings_of(skilled)
    found = await contents(settings, Sessions(settings.home).latest(skilled))
    assert found.parts["skills"] > 20
    assert found.parts["plan"] > 20
    there = (await contents(settings, None)).parts["tools"]
    off = (await contents(settings_of(skilled, NACRE_SKILLS="false"), None)).parts["tools"]
    assert there > off


async def test_a_branch_of_a_session_that_is_open_elsewhere_has_its_plan(project: Path) -> None:
    """T8b: the plan lies in a folder that the branch does not share."""
    async with at_work(project, ScriptedProvider([say("one")])) as ready:
        await ready.plan.write("1. Look.")
        await turn(ready, "hello")
        await asyncio.sleep(0)
        provider = ScriptedProvider([say("two")])
        async with at_work(project, provider, ready.agent.session.id) as other:
            assert other.plan.path != ready.plan.path
            await turn(other, "go on")
            assert await other.plan.read() == "1. Look.\n"
    assert sent(provider).count("1. Look.") == 1
