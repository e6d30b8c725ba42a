"""Notes and memories come from one request in a pause, which also renews the provider's cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nacre.app.chat_session import keep_cache_warm
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.devtools.sim import Simulator
from nacre.layers.l3_notes.policy import NotesSettings
from nacre.layers.l3_notes.template import TEMPLATE, sections
from nacre.layers.l5_extract.layer import CURSOR, EXTRACTION
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Notice
from nacre.providers.anthropic import AnthropicProvider
from nacre.session.meter import SIDE_QUERY
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider
from nacre.testing import say as scripted
from tests.stories.scenes import BAR, CLAUDE, call, calls, environment, project, say

HOME = "---\nname: Home\ndescription: Lives in Lisbon\ntype: user\n---\n\nThe user lives in Lisbon.\n"
LAST_LINE = sections(TEMPLATE.text, TEMPLATE)[-1].description
SOON = NotesSettings(first_tokens=500, growth_tokens=200)


def settings_in(cwd: Path, **environ: str) -> Settings:
    given = {**environment(cwd), "NACRE_NOTES": "true", "NACRE_DREAM": "false", **environ}
    found = load(cwd, given, cli={"model": CLAUDE})
    return replace(found, is_interactive=True, notes=SOON)


def both_tasks(where: Path, notes: Path) -> JsonObject:
    """A reply that updates the notes and saves a memory."""
    lines = f"{LAST_LINE}\n- heard where the user lives"
    return calls(
        call("Edit", file_path=str(notes), old_string=LAST_LINE, new_string=lines),
        call("Write", file_path=str(where / "home.md"), content=HOME),
    )


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


def notes_file(ready: OpenedAgent) -> Path:
    folder = ready.agent.session.folder
    assert folder is not None
    return folder.resolve() / "session-memory" / "summary.md"


async def test_in_a_pause_one_request_writes_notes_and_memories_and_renews_the_cache(tmp_path: Path) -> None:
    """C14, E1, C8b: nothing beside the conversation is sent before the pause, and no refresh is needed."""
    cwd = project(tmp_path / "work")
    settings = settings_in(cwd, NACRE_BACKGROUND_IDLE_SECONDS="0.3")
    async with Simulator() as sim:
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        async with (
            open_agent(settings, provider=provider) as ready,
            keep_cache_warm(ready.agent, settings),
        ):
            where = ready.memories[0].location.directory
            sim.extend(["Nice. " * 500, both_tasks(where, notes_file(ready)), "You are welcome."])
            await say(ready.agent, "I live in Lisbon. " + "And so on. " * 400)
            assert len(sim.log) == 1
            touched_at = ready.agent.session.warmth.touched_at
            await until(lambda: (where / "home.md").exists())
            await until(lambda: not ready.background.running())
            assert len(sim.log) == 2, "no request only says that it is done"
            assert ready.agent.session.warmth.touched_at != touched_at
            events = await say(ready.agent, "thanks")
            session = ready.agent.session
        await provider.close()
    parent, fork, after = sim.log[:3]
    assert [one.refusal for one in sim.log if one.refusal] == []
    assert fork.usage.cache_read >= BAR * parent.usage.prompt
    assert after.usage.cache_read >= BAR * parent.usage.prompt
    assert "- heard where the user lives" in notes_file(ready).read_text()
    assert "The user lives in Lisbon." in (where / "home.md").read_text()
    assert any(isinstance(one, Notice) and "saved 1 memory: home.md" in one.text for one in events)
    side = session.view.noted(SIDE_QUERY)[0]
    assert side.fact("purpose") == "notes_and_memories"
    run = session.view.noted(EXTRACTION)[0]
    assert (run.fact("saved"), run.fact("rounds")) == (1, 1)


async def test_what_is_asked_to_be_remembered_is_saved_at_once_by_rule(tmp_path: Path) -> None:
    """E10: the model is asked in the next pause, which may not come."""
    cwd = project(tmp_path / "work")
    settings = settings_in(cwd, NACRE_BACKGROUND_IDLE_SECONDS="600")
    async with Simulator() as sim:
        sim.extend(["Fine.", "Nothing to keep."])
        provider = AnthropicProvider(api_key="k", base_url=sim.url)
        async with open_agent(settings, provider=provider) as ready:
            where = ready.memories[0].location.directory
            await say(ready.agent, "Remember that we deploy only on Tuesdays, never on Fridays.")
            saved = [one for one in where.glob("*.md") if "only on Tuesdays" in one.read_text()]
            assert saved and len(sim.log) == 1
        await provider.close()
    assert len(sim.log) == 2, "at the end of the session"


async def test_a_session_that_must_end_at_once_extracts_by_rule(tmp_path: Path) -> None:
    """E4: an interrupt leaves no time for a model; the cursor stays for a resumed session."""
    cwd = project(tmp_path / "work")
    settings = settings_in(cwd, NACRE_BACKGROUND_IDLE_SECONDS="600")
    provider = ScriptedProvider([scripted("Fine.")])
    async with open_agent(settings, provider=provider) as ready:
        await say(ready.agent, "We release on Thursdays, never on Fridays.")
        await ready.background.drain(5.0)
        assert ready.agent.session.view.last_noted(CURSOR) is None
    texts = [one.read_text() for one in cwd.glob("home/projects/*/memory/*.md")]
    assert any("release on Thursdays" in one for one in texts)
    assert provider.calls == 1
