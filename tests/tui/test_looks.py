"""What the chat looks like: start panel, changes, activity, themes, questions with reasons."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from rich.segment import Segment
from textual import events

from nacre.messages.blocks import Text
from nacre.messages.events import Waiting
from nacre.providers.scripted import Scripted
from nacre.testing import ScriptedProvider, call, say, together
from nacre.tui.dialogs import numbered_hunks
from nacre.tui.events import piece_of
from nacre.tui.themes import NAMES, theme_for
from nacre.version import VERSION
from tests.tui.stage import Stage, staged


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
        for key in "byarn":  # all at once: the y is no yes
            stage.app.post_message(events.Key(key, key))
        await stage.until(lambda: "because yarn" in stage.text, "the reason")
        await stage.type(" any other way")
        await stage.pilot.press("enter")
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        assert "the user said no: yarn any other way" in str(provider.requests[-1].body)


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


def segments(stage: Stage) -> list[Segment]:
    return [one for strip in stage.app.screen._compositor.render_strips() for one in strip]


@pytest.mark.parametrize("no_color", [None, "1"])
async def test_high_contrast_is_opaque_and_nothing_in_it_is_dim(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, no_color: str | None
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    provider.script(
        call("Bash", command="seq 1 9"), say("> quoted\n\nplain\n\n```python\nx = 1  # one\n```\n")
    )
    async with staged(tmp_path, provider, theme=NAMES["contrast"], size=(80, 40)) as stage:
        await stage.see("nothing is remembered")
        await stage.say("hello")
        await stage.say("/cost")
        await stage.see("quoted")
        for keys in ((), ("f2",), ("escape", "f3"), ("escape", "f4"), ("escape", "slash")):
            await stage.pilot.press(*keys)
            await stage.pilot.pause()
            drawn = [one.style for one in segments(stage) if one.style is not None]
            assert not [one for one in drawn if one.dim]
            if not no_color:
                assert all(one.bgcolor and one.bgcolor.triplet for one in drawn)


@pytest.mark.parametrize(("colours", "is_tinted"), [("truecolor", True), ("", False)])
async def test_changed_lines_have_a_background_where_the_terminal_has_24_bit_colours(
    tmp_path: Path,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    colours: str,
    is_tinted: bool,
) -> None:
    monkeypatch.setenv("COLORTERM", colours)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    provider.script(call("Write", file_path=str(tmp_path / "work" / "a.txt"), content="herons"), say("Done."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("write")
        await stage.pilot.press("enter")
        await stage.see("Write needs your permission")
        await stage.see("herons")
        (line,) = [one for one in segments(stage) if "herons" in one.text]
        assert line.style is not None
        ground = line.style.bgcolor
        assert (ground is not None and ground.triplet is not None) == is_tinted
        cursor = [one for one in segments(stage) if one.text == "S" and one.style and one.style.reverse]
        assert not cursor, "the input looks as if it had the keys"
        await stage.pilot.press("n")


async def test_a_low_and_narrow_terminal_shows_the_input_below_the_menu_and_the_cost(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with staged(tmp_path, provider, size=(40, 12)) as stage:
        assert "$0.0000" in await stage.see("$0.0000")
        await stage.type("/")
        shown = await stage.see("/help")
        assert "❯ /" in shown


async def test_commands_and_keys_stand_out_in_the_help(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider, size=(100, 60)) as stage:
        await stage.say("/help")
        await stage.see("Ctrl-C     stops")
        names = [one.text for one in segments(stage) if one.style and one.style.color and one.text.strip()]
        assert {"/context", "/theme", "Ctrl+J", "F2 F3 F4"} <= set(names)


async def test_an_empty_list_is_a_small_dialog(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider, size=(100, 40)) as stage:
        for key, words in (
            ("f2", "no memories yet"),
            ("f3", "nothing to choose"),
            ("f4", "nothing is running"),
        ):
            await stage.pilot.press(key)
            await stage.see(words)
            assert stage.app.screen.query_one(".dialog").outer_size.height <= 10
            await stage.pilot.press("escape")


async def test_a_repeated_request_is_one_line_however_often(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with staged(tmp_path, provider) as stage:
        for seconds in (1, 2, 4):
            shown = piece_of(Waiting(seconds, "overloaded"))
            assert shown is not None
            await stage.app.transcript.add(shown)
        await stage.see("trying again in 4 s")
        assert stage.text.count("overloaded") == 1
