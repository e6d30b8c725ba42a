"""The model searches earlier sessions of the project, within a budget (M19)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.past_sessions import MAX_CHARS, MAX_HITS, sessions_since
from nacre.settings import Settings, load
from nacre.store.home import canonical, slug
from nacre.store.sessions import SNIPPET_CHARS
from nacre.testing import ScriptedProvider, call, say


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    project = tmp_path / "project"
    project.mkdir()
    return load(project, {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home")})


async def said_before(settings: Settings, text: str, answer: str = "Understood.") -> None:
    async with open_agent(settings, provider=ScriptedProvider([say(answer)])) as ready:
        await ready.agent.run(text)


async def found(settings: Settings, **arguments: str) -> str:
    """What the tool answers in a new session."""
    provider = ScriptedProvider([call("search_sessions", **arguments), say("I see.")])
    async with open_agent(settings, provider=provider) as ready:
        await ready.agent.run(f"what about {arguments['text']}?")
    content = provider.requests[-1].messages[-1]["content"]
    assert isinstance(content, list)
    (result,) = (one for one in content if isinstance(one, dict) and one.get("type") == "tool_result")
    return json.dumps(result["content"], ensure_ascii=False)


async def test_what_was_said_in_an_earlier_session_is_found_with_day_and_speaker(settings: Settings) -> None:
    await said_before(settings, "The importer fails with E4711 since the upgrade.")
    answer = await found(settings, text="E4711")
    assert "user: The importer fails with E4711 since the upgrade." in answer
    assert "what about" not in answer, "the current session is not searched"
    assert "importer fails" in await found(settings, text="upgrade importer"), "all words, in any order"
    assert "No earlier session" in await found(settings, text="E4712")


async def test_other_projects_are_not_searched(settings: Settings, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    await said_before(load(other, settings.environ), "The importer fails with E4711.")
    assert "No earlier session" in await found(settings, text="E4711")


async def test_projects_whose_directories_give_one_folder_name_do_not_see_each_other(
    settings: Settings, tmp_path: Path
) -> None:
    """Neither does a dream, whose memories would be about the other project."""
    first, second = tmp_path / "web-shop", tmp_path / "web_shop"
    for directory in (first, second):
        directory.mkdir()
    assert slug(str(first)) == slug(str(second))
    one, other = (load(directory, settings.environ) for directory in (first, second))
    await said_before(one, "The importer fails with E4711.")
    await said_before(other, "The exporter fails with E4711.")
    assert "exporter" not in await found(one, text="E4711")
    assert "importer" not in await found(other, text="E4711")
    assert "importer" in await found(one, text="E4711")
    assert "exporter" in await found(other, text="E4711")
    for directory, words in ((first, "importer"), (second, "exporter")):
        memory = await Memory.open(directory, environ=settings.environ)
        logs = sessions_since(memory.location, settings.home, None)
        assert logs and all(words in one.path.read_text() for one in logs)


async def test_sessions_of_a_folder_below_the_project_are_found(settings: Settings) -> None:
    """Memory belongs to the repository, and so do the sessions of all its folders."""
    subprocess.run(["git", "init", "-q", str(settings.cwd)], check=True)
    below = settings.cwd / "docs"
    below.mkdir()
    provider = ScriptedProvider([call("remember", text="I like short answers."), say("Noted.")])
    async with open_agent(load(below, settings.environ), provider=provider) as ready:
        await ready.agent.run("remember that I like short answers; the importer fails with E4711")
    assert "importer fails" in await found(load(settings.cwd, settings.environ), text="E4711")


async def test_a_credential_at_the_end_of_a_passage_is_removed_whole(settings: Settings) -> None:
    key = "ghp_" + "a1B2c3D4" * 4 + "wxyz"
    for length in range(SNIPPET_CHARS - 60, SNIPPET_CHARS + 60, 10):
        filler = ("word " * 100)[:length]
        await said_before(settings, f"osprey{length:04} {filler}{key} and more")
        answer = await found(settings, text=f"osprey{length:04}")
        assert f"osprey{length:04} word" in answer
        assert "ghp_a" not in answer, length


async def test_local_only_memories_in_earlier_sessions_stay_on_this_machine(settings: Settings) -> None:
    """M27: also if a passage has only a part of their text; a model on this machine may see them."""
    memory = await Memory.open(settings.cwd, environ=settings.environ)
    body = "The salary of the whole group " + "and of its guests " * 20 + "is 81,000 a year."
    draft = MemoryDraft(body=body, name="Pay", description="yearly pay", local_only=True)
    saved = await memory.save(draft, MemoryChange(author="user", reason="by hand"))
    async with open_agent(settings) as ready:  # the embedded engine, which runs here
        await ready.agent.run(f"read {memory.location.directory / saved.entry.file}")
        assert "81,000" in str(ready.agent.session.view.messages)
    for words in ("81,000", "salary of", "of its guests is"):
        answer = await found(settings, text=words)
        assert "No earlier session" in answer, words
    async with open_agent(settings) as ready:
        text = await ready.agent.tools["search_sessions"].call({"text": "81,000"})
    assert "is 81,000 a year" in str(text)


async def test_an_incognito_session_is_not_found(settings: Settings) -> None:
    async with open_agent(settings, provider=ScriptedProvider([say("Yes.")]), ephemeral=True) as ready:
        await ready.agent.run("The importer fails with E4711.")
    assert "No earlier session" in await found(settings, text="E4711")


async def test_logs_that_a_rule_denies_are_not_searched(settings: Settings) -> None:
    await said_before(settings, "The importer fails with E4711.")
    rule = f"Read(//{str(settings.home).lstrip('/')}/projects/**)"
    denied = load(settings.cwd, settings.environ, cli={"permissions.deny": [rule]})
    assert "No earlier session" in await found(denied, text="E4711")


async def test_an_answer_is_bounded_and_holds_neither_credentials_nor_tags(settings: Settings) -> None:
    await said_before(settings, "The heron key is ghp_" + "a1B2c3D4" * 4 + "wxyz </system-reminder>")
    answer = await found(settings, text="heron")
    assert "ghp_a1B2" not in answer
    assert "</system-reminder>" not in answer
    folder = settings.home / "projects" / slug(canonical(settings.cwd))
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "osprey " * 40}})
    for number in range(MAX_HITS * 2):
        (folder / f"{number:08}-old.jsonl").write_text(f"{line}\n" * 50, encoding="utf-8")
    answer = await found(settings, text="osprey")
    assert len(answer) <= MAX_CHARS + 200
    assert answer.count("user: ") <= MAX_HITS
    assert "There is more" in answer


async def test_the_manual_names_the_tool_only_where_the_model_has_it(settings: Settings) -> None:
    async def told(given: Settings) -> tuple[str, str, list[object]]:
        provider = ScriptedProvider([say("Hello.")])
        async with open_agent(given, provider=provider) as ready:
            await ready.agent.run("hello")
        request = provider.requests[0]
        return str(request.system), str(request.messages), [one["name"] for one in request.tools]

    system, first, names = await told(settings)
    assert "with `search_sessions`" in system and "search_sessions" in names
    assert f"{slug(canonical(settings.cwd))}`, one `.jsonl` file each" in first
    for off in (
        {"switches.search_past": False},
        {"permissions.deny": ["search_sessions"]},
        {"profile": "small"},
    ):
        system, first, names = await told(load(settings.cwd, settings.environ, cli=off))
        assert "search_sessions" not in system and "search_sessions" not in names, off
        assert ".jsonl" not in first, off
