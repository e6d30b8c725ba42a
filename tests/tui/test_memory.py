"""Memory on the screen: listed, read, explained, edited, taken back, reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from textual import events

from nacre.memory.checks.review import Proposal, propose, waiting
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.testing import FrozenClock, ScriptedProvider
from nacre.tui.memory import SessionMemories, shown_memory, with_emphasis
from tests.tui.stage import Stage, staged


async def saved(stage: Stage, name: str, body: str) -> Memory:
    memory = stage.ready.memories[0]
    change = MemoryChange(author="user", reason=f"said so about {name}")
    await memory.save(MemoryDraft(name=name, description=f"about {name}", body=body, kind="project"), change)
    return memory


async def test_memories_are_listed_read_and_explained(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider, size=(100, 30)) as stage:
        await saved(stage, "deploys", "Deploy on Mondays.")
        await saved(stage, "tea", "Tea, not coffee.")
        await stage.pilot.press("f2")
        listed = await stage.see("about deploys")
        assert "about tea" in listed
        await stage.pilot.press("down")
        await stage.until(
            lambda: "Deploy on Mondays." in stage.text or "Tea, not coffee." in stage.text, "a text"
        )
        await stage.pilot.press("w")
        assert "said by: user" in await stage.see("said so about")
        await stage.pilot.press("escape")
        await stage.until(lambda: "said so about" not in stage.text, "the text is back")
        assert "about tea" in stage.text
        await stage.pilot.press("escape")
        await stage.until(lambda: "about tea" not in stage.text, "the list is closed")


async def test_each_undo_in_the_list_goes_one_further_back(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """M15: as on the command line; to take an undo back would bring what nobody asked for."""
    async with staged(tmp_path, provider, size=(100, 30)) as stage:
        await saved(stage, "deploys", "Deploy on Mondays.")
        await saved(stage, "tea", "Tea at four.")
        shelf = SessionMemories(stage.ready.memories, tmp_path, "s", FrozenClock())
        for left in (["project_deploys.md"], []):
            newest = await shelf.newest()
            assert newest is not None
            await shelf.take_back(*newest)
            assert [row.file for row in await shelf.entries()] == left
        assert await shelf.newest() is None


@pytest.mark.slow
async def test_an_edit_is_a_change_that_the_history_shows_and_takes_back(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """M15: every change stands in the history, and each can be undone."""
    async with staged(tmp_path, provider, size=(100, 30)) as stage:
        memory = await saved(stage, "deploys", "Deploy on Mondays.")
        await stage.say("/memories")
        await stage.see("Deploy on Mondays.")
        await stage.pilot.press("e")
        await stage.see("Ctrl+S save")
        await stage.pilot.press("ctrl+end")
        await stage.paste("Never on Fridays.")
        await stage.pilot.press("ctrl+s")
        await stage.see("kept; u takes it back")
        await stage.see("Never on Fridays.")
        await stage.pilot.press("h")
        history = await stage.see("Changes of project_deploys.md")
        assert "edited by hand" in history
        assert "said so about deploys" in history
        await stage.see("+Never on Fridays.")
        await stage.pilot.press("u")
        await stage.see("took back")
        await stage.pilot.press("escape")
        await stage.until(lambda: "Never on Fridays" not in stage.text, "the text as it was")
        assert (await memory.find("deploys")).body.strip() == "Deploy on Mondays."


@pytest.mark.slow
async def test_the_chosen_memory_stays_chosen_where_a_change_moves_it(
    tmp_path: Path, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """The newest comes first: a key must not forget another than the one that was just edited."""
    async with staged(tmp_path, provider, size=(100, 30), clock=clock) as stage:
        for name in ("茶", "deploys"):
            await saved(stage, name, f"Text of {name}.")
            clock.advance(60)
        await stage.pilot.press("f2")
        rows = (await stage.see("about 茶")).splitlines()
        columns = {
            cell_len(row[: row.index("about")]) for row in rows if "about" in row and "│ project" in row
        }
        assert len(columns) == 1  # Chinese letters take two cells each
        await stage.pilot.press("down", "e")
        await stage.see("Ctrl+S save")
        await stage.pilot.press("ctrl+end")
        await stage.paste("Green.")
        await stage.pilot.press("ctrl+s")
        await stage.see("kept; u takes it back")
        await stage.pilot.press("d")
        await stage.see("forgot project_茶.md")


async def test_what_was_forgotten_is_brought_back_by_a_key(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with staged(tmp_path, provider, size=(100, 30)) as stage:
        await saved(stage, "tea", "Tea, not coffee.")
        await stage.pilot.press("f2")
        await stage.see("Tea, not coffee.")
        await stage.pilot.press("d")
        await stage.see("there are no memories yet")
        await stage.pilot.press("u")
        await stage.see("Tea, not coffee.")


@pytest.mark.slow
async def test_an_edit_that_cannot_be_kept_stays_on_the_screen(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Nobody's words are lost because somebody else was faster."""
    async with staged(tmp_path, provider, size=(100, 30)) as stage:
        memory = await saved(stage, "tea", "Tea, not coffee.")
        await stage.pilot.press("f2")
        await stage.see("Tea, not coffee.")
        await stage.pilot.press("e")
        await stage.see("Ctrl+S save")
        await memory.correct("tea", "Coffee.", MemoryChange(author="user", reason="changed their mind"))
        await stage.paste("Mine. ")
        await stage.pilot.press("ctrl+s")
        await stage.until(lambda: "Ctrl+S save" not in stage.text, "an error")
        assert "Mine. " in stage.text
        await stage.pilot.press("escape")
        await stage.see("this is not kept yet")
        await stage.paste("And more. ")
        await stage.pilot.press(
            "ctrl+c"
        )  # a dialog is left by it as by Escape, and this is not what was given up
        assert "And more. " in await stage.see("this is not kept yet")
        await stage.pilot.press("escape")
        await stage.see("Coffee.")


async def test_proposals_are_accepted_and_rejected(
    tmp_path: Path, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """E7: what was proposed becomes a memory only on the person's word."""
    async with staged(tmp_path, provider, size=(100, 30)) as stage:
        memory = await saved(stage, "tea", "Tea.")
        for file in ("one.md", "two.md"):
            text = (
                f"---\nname: {file}\ndescription: of {file}\ntype: project\n---\nText of {file}.\n".encode()
            )
            one = Proposal(file=file, before=None, after=text, author="extract", reason="heard it")
            propose(memory.location, one, clock=clock)
        await stage.pilot.press("f2")
        await stage.see("about tea")
        await stage.pilot.press("r")
        await stage.see("+Text of one.md.")
        await stage.pilot.press("a")
        await stage.see("saved one.md")
        await stage.see("+Text of two.md.")
        await stage.pilot.press("x")
        await stage.see("there are no proposals to review")
        assert [each.file for each in await memory.list()].count("one.md") == 1
        assert waiting(memory.location) == []


async def test_a_session_without_memory_says_so(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider, NACRE_DISABLE_AUTO_MEMORY="1") as stage:
        await stage.pilot.press("f2")
        await stage.see("this session has no memory; `nacre doctor` says why")


async def test_memories_are_searched_by_their_text(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider, size=(120, 40)) as stage:
        await saved(stage, "tabs", "Tabs, not spaces.")
        await saved(stage, "deploys", "We deploy on Mondays, from heron.")
        await stage.pilot.press("f2")
        listed = await stage.see("Memory · 2")
        assert "project" in listed
        for key in ("slash", *"deploys"):  # all at once: none of them is a command
            stage.app.post_message(events.Key(key, "/" if key == "slash" else key))
        await stage.see("Memory · 1 of 2")
        await stage.pilot.press("ctrl+u")
        await stage.type("mondays heron")
        await stage.see("Memory · 1 of 2")
        assert "deploys" in stage.text and "not spaces" not in stage.text
        await stage.type("x")
        await stage.see("no memory has these words")
        await stage.pilot.press("backspace", "enter", "w")  # keys act on the list again
        await stage.see("said so about deploys")
        await stage.pilot.press("escape")
        await stage.see("Memory · 2")
        await stage.pilot.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1, "the browser is closed")


def test_a_memory_is_shown_with_nothing_said_twice() -> None:
    text = (
        "---\nname: Deploys\ndescription: We deploy on Mondays\nmetadata:\n  type: project\n---\n\n"
        "We deploy on Mondays.\n"
    )
    assert shown_memory("deploys.md", text) == "project\n\nWe deploy on Mondays."
    assert "About when" in shown_memory(
        "deploys.md", text.replace("We deploy on Mondays\n", "About when\n", 1)
    )


def test_a_memory_is_shown_without_the_signs_of_bold_words_and_code() -> None:
    line = with_emphasis("**Why:** `parse` is 2 ** 3 ** 4, <!-- [b]kept[/b] --> **")
    assert line.plain == "Why: parse is 2 ** 3 ** 4, <!-- [b]kept[/b] --> **"
    assert [line.plain[one.start : one.end] for one in line.spans] == ["Why:", "parse"]
