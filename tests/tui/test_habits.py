"""Habits from other terminals: @paths, !commands, long pastes, modes, the own editor, the end of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from nacre.messages.blocks import Image
from nacre.testing import FrozenClock, ScriptedProvider, call, say
from nacre.tui.prompt import path_completions
from nacre.tui.terminal_title import RESTORE
from tests.app.test_pictures import PNG
from tests.tui.stage import staged


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @", ["@a.py", "@src/"]),
        ("@s", ["@src/"]),
        ("@src/", ["@src/b.py"]),
        ("@.h", ["@.hidden"]),
        ("a@b", []),
        ("@nowhere/", []),
        ("@a.py ", []),
        ("", []),
    ],
)
def test_paths_are_offered_after_an_at_sign(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "src").mkdir()
    for name in ("a.py", "src/b.py", ".hidden"):
        (tmp_path / name).touch()
    assert path_completions(text, tmp_path) == found


async def test_a_path_is_completed_in_a_message_and_sent(tmp_path: Path, provider: ScriptedProvider) -> None:
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "billing.py").touch()
    provider.script(say("Yes."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("look at @sr")
        await stage.pilot.press("enter")
        assert stage.app.prompt.text == "look at @src/"
        await stage.pilot.press("tab")
        assert stage.app.prompt.text == "look at @src/billing.py "
        await stage.pilot.press("enter")
        await stage.see("> look at @src/billing.py")


async def test_a_long_paste_is_folded_and_sent_whole(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("Long."))
    pasted = "\n".join(f"line {n}" for n in range(300))
    async with staged(tmp_path, provider) as stage:
        await stage.type("read ")
        await stage.paste(pasted)
        assert stage.app.prompt.text == "read [paste 1: 300 lines]"
        await stage.pilot.press("enter")
        await stage.until(lambda: bool(provider.requests), "it is sent")
        assert "line 299" in str(provider.requests[0].body)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\r", "\r\n"])
async def test_a_terminal_that_pastes_line_ends_as_enter_pastes_lines(
    tmp_path: Path, provider: ScriptedProvider, end: str
) -> None:
    provider.script(say("Long."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste(f"a{end}b{end}")
        assert stage.app.prompt.text == "a\nb\n"
        await stage.paste(end.join(f"line {n}" for n in range(5_000)))
        await stage.paste("x" * 3_000)
        assert stage.app.prompt.text == "a\nb\n[paste 1: 5,000 lines][paste 2: 3,000 characters]"
        await stage.pilot.press("enter")
        await stage.until(lambda: bool(provider.requests), "it is sent")
        assert "line 4998\\nline 4999" in str(provider.requests[0].body)


async def test_a_command_of_the_user_is_run_and_not_sent(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider) as stage:
        await stage.say("!echo here; exit 3")
        assert "> !echo here; exit 3\n here\n ! exit code 3" in stage.text
        await stage.paste("!sleep 60")
        await stage.pilot.press("enter")
        await stage.see("> !sleep 60")
        await stage.pilot.press("ctrl+c")
        await stage.see("! stopped")
    assert provider.requests == []


async def test_a_plan_is_proposed_accepted_and_carried_out(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Nothing is changed before; the model is told of the mode and of its end, not of its own plan."""
    work = tmp_path / "work"
    work.mkdir()
    write = call("Write", file_path=str(work / "one"), content="x\n")
    provider.script(write, say("Which name?"), say("Well.\n# Plan\nWrite one."), write, say("Done."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("/mode plan")
        assert "the model looks around and proposes a plan" in stage.text
        await stage.say("make a file")
        assert not (work / "one").exists() and "plan mode" in stage.text
        assert "Carry out" not in stage.text  # a question is no plan
        await stage.paste("one")
        await stage.pilot.press("enter")
        await stage.see("Carry out this plan?")
        await stage.pilot.press("a")
        await stage.see("Done.")
        assert (work / "one").exists()
        assert stage.ready.modes.mode == "accept edits"
        assert await stage.ready.plan.read() == "# Plan\nWrite one.\n"
    sent = str(provider.requests[-1].body)
    assert sent.count("Plan mode is on") == 1 and sent.count("Plan mode is off") == 1
    assert sent.count("Write one.") == 1 and "Carry out the plan." in sent


async def test_a_mode_that_changes_nothing_holds_where_everything_is_allowed_by_the_settings(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(call("Bash", command="touch here"), say("Refused."))
    async with staged(tmp_path, provider, NACRE_PERMISSIONS_DEFAULT_MODE="bypassPermissions") as stage:
        await stage.say("/mode read")
        await stage.say("go")
        assert "Refused." in stage.text
        assert not (tmp_path / "work" / "here").exists()
        await stage.say("/mode everything")
        assert "no mode 'everything'" in stage.text


async def test_the_mode_of_a_plan_stays_while_it_is_not_accepted(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("# Plan\nThis."), say("# Plan\nThat."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("/mode plan")
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Carry out this plan?")
        await stage.pilot.press("escape")
        await stage.paste("other")
        await stage.pilot.press("enter")
        await stage.see("Carry out this plan?")
        assert stage.ready.modes.mode == "plan"
        assert await stage.ready.plan.read() == ""
        await stage.pilot.press("enter")  # no is selected
    assert len(provider.requests) == 2


@pytest.mark.slow
async def test_shift_tab_goes_through_the_modes(tmp_path: Path, provider: ScriptedProvider) -> None:
    """Accept edits asks nothing about files, read only refuses without a question, ask asks."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("one", "two", "three"):
        provider.script(call("Write", file_path=str(work / name), content="x\n"), say(f"Tried {name}."))
    async with staged(tmp_path, provider) as stage:
        await stage.pilot.press("shift+tab")
        await stage.see("accept edits (Shift+Tab)")
        await stage.say("go")
        assert (work / "one").exists()
        await stage.pilot.press("shift+tab")
        await stage.see("plan (Shift+Tab)")
        await stage.pilot.press("shift+tab")
        await stage.see("read only (Shift+Tab)")
        await stage.say("go")
        assert not (work / "two").exists()
        await stage.pilot.press("shift+tab")
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Write needs your permission")


async def test_the_input_is_edited_in_the_own_editor(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A screen that is not a terminal cannot be suspended: the text stays, and the foot says why."""
    monkeypatch.setenv("EDITOR", "true")
    async with staged(tmp_path, provider) as stage:
        await stage.type("words")
        await stage.pilot.press("ctrl+g")
        await stage.see("this terminal cannot run an editor")
        assert stage.app.prompt.text == "words"


async def test_the_end_of_a_long_turn_rings(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    rung: list[bool] = []
    provider.script(say("Short."), say("Long."))
    async with staged(tmp_path, provider, clock=clock) as stage:
        monkeypatch.setattr(stage.app, "bell", lambda: rung.append(True))
        written: list[str] = []
        monkeypatch.setattr(stage.app._title, "_write", written.append)
        await stage.say("go")
        assert rung == []
        play = stage.app.talk.play

        async def slow(text: str | None, pictures: Sequence[Image] = ()) -> None:
            clock.advance(60)
            await play(text, pictures)

        monkeypatch.setattr(stage.app.talk, "play", slow)
        await stage.say("go")
        assert rung == [True]
        assert [one for one in written if one.startswith("\x1b]9;")] == ["\x1b]9;nacre waits for you\x07"]


async def test_the_title_says_what_the_chat_waits_for_and_is_given_back(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(call("Bash", command="touch a"), say("Done."))
    titles: list[str] = []
    async with staged(tmp_path, provider) as stage:
        stage.app._title._write = titles.append
        stage.app._title.restore()
        await stage.say("/context")
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Bash needs your permission")
        await stage.pilot.press("y")
        await stage.see("Done.")
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
    shown = [one.partition("\x1b]0;")[2].partition("\x07")[0] for one in titles]
    name = "nacre · work"
    assert shown[-5:] == [f"{name} · working", f"{name} · waits for you", f"{name} · working", name, ""]
    assert titles[-1].endswith(RESTORE)


async def test_a_line_with_a_number_sign_is_saved_and_not_sent(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with staged(tmp_path, provider) as stage:
        await stage.say("#deploys are on Tuesday")
        assert "saved project_deploys_tuesday.md; /memory undo takes it back" in stage.text
        await stage.say("/memory")
        assert "saved project_deploys_tuesday.md (undo:" in stage.text
    assert provider.requests == []


async def test_earlier_input_is_found_by_a_part_of_it(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("One."), say("Two."), say("Three."))
    async with staged(tmp_path, provider) as stage:
        for text in ("look at the billing", "run the tests", "look at the mail"):
            await stage.say(text)
        await stage.type("look")
        await stage.pilot.press("ctrl+r")
        await stage.see("Earlier input")
        await stage.pilot.press("down", "enter")
        assert stage.app.prompt.text == "look at the billing"
        await stage.pilot.press("ctrl+r", "x", "enter")
        assert stage.app.prompt.text == "look at the billing", "nothing was found"
        await stage.pilot.press("ctrl+r", "escape")
        assert stage.app.prompt.text == "look at the billing"


async def test_a_dropped_picture_is_a_label_and_goes_with_the_message(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """A file that is no picture stays a path, and the foot says why."""
    shot = tmp_path / "my shot.png"
    shot.write_bytes(PNG)
    (tmp_path / "odd.png").write_text("no picture")
    provider.script(say("A dot."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste(f"'{shot}'")
        assert stage.app.prompt.text == "[picture 1: my shot.png] "
        await stage.type("what is it?")
        await stage.pilot.press("enter")
        await stage.see("> [picture 1: my shot.png] what is it?")
        await stage.see("A dot.")
        await stage.paste(str(tmp_path / "odd.png"))
        await stage.see("cannot be sent")
        assert stage.app.prompt.text == f"{tmp_path}/odd.png "
    assert str(provider.requests[0].body()).count("image/png") == 1


async def test_a_picture_is_pasted_from_the_clipboard(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with staged(tmp_path, provider) as stage:
        await stage.pilot.press("ctrl+v")
        await stage.see("no picture in the clipboard")
        program = tmp_path / "wl-paste"
        program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/shot\n")
        program.chmod(0o755)
        (tmp_path / "shot").write_bytes(PNG)
        await stage.pilot.press("ctrl+v")
        await stage.see("[picture 1: clipboard]")
        assert len(stage.app.prompt.pictures_in(stage.app.prompt.text)) == 1
