"""What the chat looks like: start panel, changes, activity, themes, questions with reasons."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from nacre.messages.blocks import Text
from nacre.providers.scripted import Scripted
from nacre.testing import ScriptedProvider, call, say, together
from nacre.tui.dialogs import numbered_hunks
from nacre.tui.themes import NAMES, theme_for
from nacre.version import VERSION
from tests.tui.stage import staged


async def test_an_empty_session_shows_where_one_is_and_what_to_try(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("Hello."))
    async with staged(tmp_path, provider) as stage:
        shown = await stage.see("nothing is remembered here yet")
        assert f"nacre {VERSION}" in shown
        assert "claude-sonnet-5-5" in shown
        assert "remember that I prefer tabs" in shown
        await stage.say("hello")
        assert VERSION not in stage.text
        await stage.say("/clear")
        await stage.see(VERSION)
    async with staged(tmp_path, provider, session="latest") as stage:
        assert "Hello." in stage.text
        assert VERSION not in stage.text


@pytest.mark.slow
async def test_a_change_stands_in_the_conversation_with_its_line_numbers(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    file = work / "billing.py"
    file.write_text("a = 1\nb = 2\n")
    provider.script(
        call("Read", file_path=str(file)),
        call("Edit", file_path=str(file), old_string="b = 2", new_string="b = 3\nc = 4"),
        say("Done."),
    )
    async with staged(
        tmp_path, provider, size=(200, 24), NACRE_PERMISSIONS_DEFAULT_MODE="acceptEdits"
    ) as stage:
        await stage.say("change it")
        shown = stage.text
        assert "billing.py +2 −1" in shown
        assert "2 - b = 2\n" in shown
        assert "2 + b = 3\n" in shown
        assert "3 + c = 4\n" in shown


def test_a_hunk_of_a_diff_has_the_numbers_of_its_file() -> None:
    lines = ["@@ -4,2 +4,2 @@", " a", "-b", "+B", "@@ -20,1 +20,1 @@", " z", "… 3 more lines"]
    assert numbered_hunks(lines) == [
        ("4", " a"), ("5", "-b"), ("5", "+B"), ("", " ⋮"), ("20", " z"), ("", " … 3 more lines")
    ]  # fmt: skip


async def test_a_line_says_what_happens_now(tmp_path: Path, provider: ScriptedProvider) -> None:
    gate = anyio.Event()
    provider.script(Scripted(blocks=(Text("Half of it."),), gate=gate))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("writing")
        gate.set()
        await stage.until(lambda: stage.app.is_idle and "writing" not in stage.text, "the turn ends")


async def test_a_theme_is_chosen_and_kept(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider) as stage:
        for name, theme in NAMES.items():
            await stage.say(f"/theme {name}")
            assert stage.app.theme == theme
            assert theme_for({}, stage.app.talk.settings.home) == theme
        await stage.say("/theme nonsense")
        await stage.see("the theme is plain")


@pytest.mark.slow
async def test_a_no_with_a_reason_is_told_to_the_model(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(call("Bash", command="rm -f x"), say("As you wish."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Bash needs your permission (rm may change something)")
        assert "❯" in stage.text  # the input stays visible below the question
        await stage.pilot.press("b")
        await stage.type("use any other way")
        await stage.pilot.press("enter")
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        assert "the user said no: use any other way" in str(provider.requests[-1].body)


async def test_the_bars_of_context_have_the_colours_of_the_meter(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("Hello."))
    async with staged(tmp_path, provider, size=(100, 50)) as stage:
        await stage.say("hi")
        await stage.say("/context")
        strips = stage.app.screen._compositor.render_strips()
        rows = ["".join(segment.text for segment in strip) for strip in strips]
        styles = {
            row.split()[0]: {
                str(s.style.color.name) for s in strip if "█" in s.text and s.style and s.style.color
            }
            for row, strip in zip(rows, strips, strict=True)
            if "█" in row and "%" in row and "cache" not in row
        }
        assert len(styles["system"] | styles["user"] | styles["memory"]) == 3
        assert styles["system"] == styles["tools"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_question_covers_nothing_of_the_conversation(
    tmp_path: Path, provider: ScriptedProvider, size: tuple[int, int]
) -> None:
    provider.script(
        together(say("I need a file."), call("Write", file_path="new.txt", content="x\n")), say("Ok.")
    )
    async with staged(tmp_path, provider, size=size) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        shown = await stage.see("Write needs your permission")
        await stage.until(lambda: "I need a file." in stage.text, "what was said before is in sight")
        shown = stage.text
        assert shown.index("I need a file.") < shown.index("Write needs your permission")
        await stage.pilot.press("n")
        await stage.see("Ok.")
        await stage.until(lambda: stage.app.transcript.styles.margin.bottom == 0, "the room is given back")


async def test_a_long_output_is_shown_from_its_beginning(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("Hello."), say("There."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("hi")
        await stage.say("/context")
        await stage.until(lambda: "> /context" in stage.text, "its beginning is in sight")
        assert "model claude-sonnet-5-5" in stage.text
        await stage.say("on")  # a message goes to the end again
        assert "There." in stage.text and "> /context" not in stage.text
