"""The chat on a whole screen, keys in and text out: turns, calls, questions, commands, sessions, leaving."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from nacre.messages.blocks import Text, ToolCall
from nacre.providers.scripted import Scripted
from nacre.session.background import IN_BACKGROUND
from nacre.store.input_history import read_typed
from nacre.testing import Cast, FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.guard import PermissionQuestion
from nacre.tools.rules import PermissionRule
from nacre.tui.pieces import NoticeLine, ReplyText
from nacre.tui.transcript import LEAST_LAID_OUT
from tests.tui.stage import staged

REPLY = "Found **it**:\n\n- one\n- two\n\n```python\nx = 1\n```\n"


@pytest.mark.slow
@pytest.mark.parametrize(("size", "name"), [((80, 24), "turn_80x24"), ((120, 40), "turn_120x40")])
async def test_a_turn_streams_markdown_and_shows_calls_on_one_line_that_opens(
    tmp_path: Path, provider: ScriptedProvider, size: tuple[int, int], name: str
) -> None:
    """Q2: words as they come, a call folded; Ctrl+O unfolds it with all it was given and gave."""
    provider.script(together(say("Looking."), call("Bash", command="echo found; echo more")), say(REPLY))
    async with staged(tmp_path, provider, size=size) as stage:
        await stage.say("look for it")
        assert "└ found\n     more\n" in stage.text
        stage.matches(name)
        await stage.pilot.press("ctrl+o")
        opened = await stage.see("command: echo found; echo more")
        assert "\n     found\n     more\n" in opened


async def test_words_are_on_the_screen_before_the_reply_is_whole(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    gate = anyio.Event()
    provider.script(Scripted(blocks=(Text("Half of it is here."),), gate=gate))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        assert "working" in await stage.see("Half of it is here.")
        gate.set()
        await stage.until(lambda: stage.app.is_idle, "the turn ends")


@pytest.mark.slow
async def test_a_question_is_a_dialog_that_begins_on_no_and_is_answered_by_a_key(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Doors ask and decide nothing: once lets this call go ahead, no is told to the model."""
    (tmp_path / "work").mkdir()
    target = tmp_path / "work" / "notes.txt"
    for path in ("notes.txt", "other.txt"):
        provider.script(
            call("Write", file_path=str(tmp_path / "work" / path), content="new line\n"), say("Well.")
        )
    async with staged(tmp_path, provider) as stage:
        await stage.paste("write")
        await stage.pilot.press("enter")
        asked = await stage.see("Write needs your permission")
        assert "1 + new line" in asked
        await stage.pilot.press("y")
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        assert target.read_text() == "new line\n"
        await stage.paste("again")
        await stage.pilot.press("enter")
        await stage.see("Write needs your permission")
        await stage.pilot.press("enter")  # No has the focus
        await stage.until(lambda: stage.app.is_idle, "the turn ends")
        assert not (tmp_path / "work" / "other.txt").exists()
        assert "the user said no" in stage.text


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
async def test_a_question_about_much_leaves_the_answers_in_sight(
    tmp_path: Path, provider: ScriptedProvider, size: tuple[int, int]
) -> None:
    """What always would mean, too; the rest is scrolled to."""
    lines = "\n".join(f"line {number}" for number in range(40))
    provider.script(call("Write", file_path=str(tmp_path / "work" / "a.txt"), content=lines), say("Well."))
    async with staged(tmp_path, provider, size=size) as stage:
        await stage.paste("write")
        await stage.pilot.press("enter")
        asked = await stage.see("No (n)")
        assert "always would allow Write(/a.txt)" in asked
        assert "+ line 39" not in asked
        await stage.until(lambda: "waits for you" in str(stage.app.meter.content), "who waits for whom")
        await stage.pilot.press(*["pagedown"] * 20)
        assert "No (n)" in await stage.see("+ line 39")
        await stage.pilot.press("n")
        await stage.see("Well.")


async def test_keys_that_were_meant_for_a_message_do_not_say_yes(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(call("Bash", command="rm -f x"), say("Well."))
    async with staged(tmp_path, provider) as stage:
        stage.app._settle_seconds = 60.0
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Bash needs your permission")
        await stage.pilot.press("y", "enter")
        assert "Bash needs your permission" in stage.text


@pytest.mark.slow
async def test_ctrl_c_stops_a_turn_and_its_question_and_the_next_message_works(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Q2: what was said ahead comes back into the input."""
    provider.script(call("Bash", command="rm -f x"), say("Here I am."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Bash needs your permission")
        await stage.pilot.press("ctrl+c", "ctrl+c")
        await stage.see("stopped; what was said so far is kept")
        assert "needs your permission" not in stage.text
        await stage.say("hello")
        assert "Here I am." in stage.text
        await stage.pilot.press("ctrl+c")
        await stage.see("Ctrl-D or /exit leaves")


async def test_the_second_ctrl_c_in_a_row_leaves(tmp_path: Path, provider: ScriptedProvider) -> None:
    """One that empties the input or comes much later is a first one."""
    clock = FrozenClock()
    async with staged(tmp_path, provider, clock=clock) as stage:
        await stage.pilot.press("ctrl+c")
        clock.advance(60)
        await stage.pilot.press("ctrl+c")
        await stage.paste("half a line")
        await stage.pilot.press("ctrl+c")
        await stage.see("Ctrl+Z brings it back; Ctrl-C again")
        await stage.pilot.press("ctrl+c")
        await stage.until(lambda: stage.app.return_code is not None, "the end")
    assert stage.app.return_code == 0


async def test_what_was_typed_before_there_was_a_screen_is_sent(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Until then the terminal makes a line's end of Enter, which is Ctrl+J here."""
    provider.script(say("Heard."))
    async with staged(tmp_path, provider) as stage:
        assert not stage.app.prompt.is_early
        stage.app.prompt.is_early = True
        await stage.paste("hi")
        await stage.pilot.press("ctrl+j")
        await stage.see("Heard.")


async def test_a_vendors_package_is_waited_for_with_the_screen_alive(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """It takes a second to load; meanwhile what was said stands there, and can be stopped."""
    provider.script(say("Loaded."))
    async with staged(tmp_path, provider) as stage:
        loading = anyio.Event()
        stage.app.talk._loading = asyncio.create_task(loading.wait())
        await stage.paste("go")
        await stage.pilot.press("enter")
        assert "working" in await stage.see("> go")
        await stage.pilot.press("ctrl+c")
        await stage.see("stopped before anything was sent")
        loading.set()
        await stage.say("go on")
        assert "Loaded." in stage.text


async def test_what_is_said_during_a_turn_comes_next(tmp_path: Path, provider: ScriptedProvider) -> None:
    gate = anyio.Event()
    provider.script(Scripted(blocks=(Text("First."),), gate=gate), say("Second."))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("one")
        await stage.pilot.press("enter")
        await stage.see("First.")
        await stage.paste("two")
        await stage.pilot.press("enter")
        await stage.see("1 to come")
        gate.set()
        await stage.see("Second.")


async def test_a_long_result_names_the_file_it_was_kept_in(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Layer 1: the pointer's path stands at the call."""
    provider.script(call("Bash", command="seq 1 20000"), say("Long."))
    async with staged(tmp_path, provider, size=(160, 24)) as stage:
        await stage.say("count")
        assert "tokens kept in " in stage.text
        assert "tool-results" in stage.text.replace("\n", "")
        assert "offload" in stage.text.splitlines()[-2]


@pytest.mark.slow
async def test_a_slash_offers_the_commands_and_tab_completes(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with staged(tmp_path, provider) as stage:
        await stage.type("/co")
        await stage.see("/confirm")
        stage.matches("completion")
        await stage.pilot.press("down", "tab")
        assert stage.app.prompt.text == "/cost "
        await stage.pilot.press("enter")
        await stage.see("cache hit rate")
        assert "nacre:" not in stage.text
        await stage.say("/nonsense")
        assert "! no command /nonsense; /help lists them" in stage.text


async def test_a_failure_is_one_line_and_retry_asks_again(tmp_path: Path, provider: ScriptedProvider) -> None:
    from nacre.errors import Overloaded

    provider.script(Overloaded("busy; try later"), say("Now."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("go")
        assert "! busy; try later (what you said is kept; /retry asks again)" in stage.text.replace(
            "\n ", " "
        )
        await stage.say("/retry")
        assert "Now." in stage.text


@pytest.mark.slow
async def test_several_lines_are_typed_sent_and_brought_back(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Ctrl+J begins a line; the next session knows what was typed, as one message."""
    provider.script(say("Two lines."))
    async with staged(tmp_path, provider) as stage:
        await stage.type("one\ntwo")
        await stage.pilot.press("enter")
        await stage.see("Two lines.")
        assert " > one\n two" in stage.text
        await stage.pilot.press("up")
        assert stage.app.prompt.text == "one\ntwo"
        await stage.pilot.press("up", "down", "down")
        await stage.pilot.press("ctrl+c")
        await stage.say("/exit")
        home = stage.app.talk.settings.home
    assert stage.app.return_code == 0
    assert read_typed(home) == ["one\ntwo", "/exit"]


@pytest.mark.slow
async def test_another_session_is_chosen_from_a_list_and_shows_what_was_said(
    tmp_path: Path, provider: ScriptedProvider, clock: FrozenClock
) -> None:
    """The session that is left is let go only once the other is open."""
    provider.script(call("Bash", command="echo once"), say("The first answer."))
    async with staged(tmp_path, provider, clock=clock) as stage:
        await stage.say("the first question")
        first = stage.ready.agent.session.id
    async with staged(tmp_path, ScriptedProvider(), clock=clock) as stage:
        await stage.say("/resume")
        listed = await stage.see("Go on with another session")
        assert "the first question" in listed
        await stage.pilot.press("enter")
        shown = await stage.see("The first answer.")
        assert "> the first question" in shown
        assert "▸ Bash echo once\n   └ once" in shown
        assert stage.ready.agent.session.id == first


@pytest.mark.slow
async def test_an_agent_in_the_background_is_watched_and_ended_in_the_dialog(tmp_path: Path) -> None:
    """A4, Q2: the pill says that it works, the dialog ends it, the conversation goes on."""
    child = ScriptedProvider().script(Scripted(blocks=(Text("never"),), gate=anyio.Event()))
    order = call("Agent", description="count", prompt="count the files", run_in_background=True)
    provider = Cast(ScriptedProvider().script(order, say("Sent.")), {"count the files": child})
    async with staged(tmp_path, provider) as stage:
        await stage.say("go")
        await stage.see("F4")
        await stage.pilot.press("f4")
        listed = await stage.see("Work in the background")
        (state,) = stage.ready.team.states() if stage.ready.team else ()
        assert state.is_running
        assert state.name in listed
        await stage.pilot.press("k")
        await stage.see("was stopped; the model hears of it")
        (state,) = stage.ready.team.states() if stage.ready.team else ()
        assert state.status == "stopped"
        await stage.pilot.press("escape")
        await stage.see("Sent.")


@pytest.mark.slow
async def test_a_list_that_moves_does_not_let_a_key_end_something_else(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with staged(tmp_path, provider) as stage:
        saved, dreamt = anyio.Event(), anyio.Event()
        stage.ready.background.start("extract", saved.wait())
        stage.ready.background.start("dream", dreamt.wait())
        await stage.pilot.press("f4")
        await stage.see("dreaming…")
        await stage.pilot.press("down")
        saved.set()
        await stage.see("extract done")
        await stage.pilot.press("k")
        await stage.see("dream was stopped")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
async def test_the_terminals_own_colours_are_used(
    tmp_path: Path, provider: ScriptedProvider, theme: str
) -> None:
    """Light or dark, words stand in the terminal's foreground, and all of a reply on its background."""
    provider.script(say(f"Plain words.\n\n{REPLY}\n> quoted `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
    async with staged(tmp_path, provider, theme=theme, size=(80, 40)) as stage:
        await stage.say("go")
        assert "\n 1  2\n" in stage.text
        strips = stage.app.screen._compositor.render_strips()[: stage.app.transcript.size.height]
        styles = [(s.text, s.style) for strip in strips for s in strip if s.style]
        assert {style.bgcolor.name for _, style in styles if style.bgcolor} == {"default"}
        assert [style.color.name for text, style in styles if "Plain words." in text and style.color] == [
            "default"
        ]


@pytest.mark.slow
async def test_without_colours_everything_is_legible_and_what_is_chosen_stands_out(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR: the terminal's own foreground on its own background, and marks instead of colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    provider.script(call("Bash", command="rm -f x"), say("Well."))
    async with staged(tmp_path, provider) as stage:

        def styles() -> dict[str, str]:
            strips = stage.app.screen._compositor.render_strips()
            return {s.text.strip(): str(s.style) for strip in strips for s in strip if s.text.strip()}

        await stage.type("/co")
        assert {style.removeprefix("bold ").removeprefix("dim ") for style in styles().values()} <= {
            "default on default",
            "underline default on default",
        }
        chosen = [text for text, style in styles().items() if "underline" in style]
        assert chosen == ["/context", "context usage, and what each layer saved"]
        await stage.pilot.press("ctrl+c")
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Bash needs your permission")
        assert {text for text, style in styles().items() if "reverse" in style} == {"No (n)"}
        await stage.pilot.press("n")


async def test_a_narrow_terminal_cuts_what_matters_least(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("Enough room for words that are wrapped."))
    async with staged(tmp_path, provider, size=(40, 12)) as stage:
        await stage.say("go")
        stage.matches("narrow")
        assert all(len(line) <= 40 for line in stage.text.splitlines())


async def test_words_of_a_model_cannot_repaint_the_terminal_nor_speak_markup(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(
        Scripted(
            blocks=(
                Text("\x1b[2Jno [red]markup[/red]"),
                ToolCall("", "Bash", {"command": "echo '[bold]\x1b]0;x\x07'"}),
            )
        ),
        say("ok"),
    )
    async with staged(tmp_path, provider) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Bash needs your permission (an invisible character: U+001B)")
        await stage.pilot.press("y")
        await stage.see("ok")
        assert "[2Jno [red]markup[/red]" in stage.text
        assert "[bold]" in stage.text
        assert "\x1b" not in stage.text


@pytest.mark.slow
async def test_f5_confirms_the_unverified_memory_that_was_saved_last(tmp_path: Path) -> None:
    """M16b: the key does what the notice offers."""
    script = [
        call("Read", file_path="page.txt"),
        call("remember", text="Releases are signed with the blue key."),
        say("saved"),
    ]
    async with staged(tmp_path, ScriptedProvider(script)) as stage:
        (tmp_path / "work" / "page.txt").write_text("Some notes.\n", encoding="utf-8")
        await stage.paste("go on")
        await stage.pilot.press("enter")
        await stage.see("unverified")
        await stage.until(lambda: stage.app.is_idle, "the end of the turn")
        memory = stage.ready.memories[0]
        assert [one.origin for one in await memory.list()] == ["unverified"]
        await stage.pilot.press("f5")
        await stage.see("confirmed project_releases")
        assert [one.origin for one in await memory.list()] == ["user"]


@pytest.mark.slow
async def test_leaving_waits_with_a_countdown_that_ctrl_c_cuts_short(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F5: what is being saved is waited for, and nobody is kept against their will."""
    async with staged(tmp_path, provider) as stage:
        saving = anyio.Event()
        stage.ready.background.start("extract", saving.wait(), grace=60.0, label="saving memories")
        await stage.see("saving… F4")
        await stage.pilot.press("ctrl+d")
        await stage.see("saving memories: 60 s at most")
        await stage.pilot.press("ctrl+c")
        await stage.until(lambda: stage.app.return_code is not None, "the end")
    assert stage.app.return_code == 0


@pytest.mark.slow
async def test_an_agent_beside_the_conversation_does_not_ask_into_a_line_that_is_being_typed(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """What is typed was meant for the message, and must not say yes to anything."""
    question = PermissionQuestion(
        tool="Bash",
        arguments={},
        reason="reader asks: unknown",
        preview="rm x",
        rule=PermissionRule("allow", "Bash"),
    )
    async with staged(tmp_path, provider) as stage:
        await stage.paste("half a thought")
        token = IN_BACKGROUND.set(True)
        asking = asyncio.create_task(stage.app._ask(question))
        IN_BACKGROUND.reset(token)
        await stage.see("you are asked once your line is sent or empty")
        assert "needs your permission" not in stage.text
        await stage.pilot.press("ctrl+c")
        await stage.see("Bash needs your permission (reader asks: unknown)")
        await stage.pilot.press("a")
        assert await asking == "always"


async def test_a_turn_that_the_end_of_the_program_cuts_short_is_no_error(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """A signal says how the program ended, also while words are still on their way to the screen."""
    provider.script(Scripted(blocks=(Text("Half of it."),), gate=anyio.Event()))
    async with staged(tmp_path, provider) as stage:
        await stage.paste("go")
        await stage.pilot.press("enter")
        await stage.see("Half of it.")
        await stage.app.transcript.add(NoticeLine("waits until the words have ended"))
        await stage.app.transcript.add(ReplyText("\n\nThe other half."))
        finishing = asyncio.create_task(stage.app.transcript._finish())
        stage.app.end_by(143)
        await finishing
    assert stage.app.crash is None
    assert stage.app.return_code == 143
    assert read_typed(stage.app.talk.settings.home) == ["go"]


async def test_a_new_session_begins_on_an_empty_screen(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("An answer."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("a question")
        first = stage.ready.agent.session.id
        await stage.say("/clear")
        assert f"the old one stays: /resume {first[:8]}" in stage.text
        assert "An answer." not in stage.text
        assert stage.ready.agent.session.id != first


async def test_the_meter_follows_what_a_command_takes_out(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("Read."))
    async with staged(tmp_path, provider) as stage:
        empty = stage.text.splitlines()[-2]
        await stage.say("heron " * 4_000)
        assert stage.text.splitlines()[-2] != empty
        await stage.say("/rewind 1")
        await stage.until(
            lambda: stage.text.splitlines()[-2].split("%")[0] == empty.split("%")[0], "it is empty"
        )


@pytest.mark.slow
async def test_the_plan_is_edited_on_the_screen(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider) as stage:
        await stage.say("/plan edit")
        await stage.see("The plan of this session")
        await stage.paste("-First this,\nthen that.")
        await stage.pilot.press("up", "home", "ctrl+d")  # deletes, and does not leave with what was written
        await stage.see("│ First this,")
        await stage.pilot.press("ctrl+s")
        await stage.see("the plan is set")
        assert await stage.ready.plan.read() == "First this,\nthen that.\n"


@pytest.mark.slow
async def test_whoever_has_scrolled_up_stays_there_while_more_comes(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("\n\n".join(f"Paragraph {number}." for number in range(40))), say("The newest."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("go")
        assert "Paragraph 39." in stage.text
        await stage.pilot.press("pageup", "pageup")
        await stage.until(lambda: "Paragraph 39." not in stage.text, "an earlier page")
        stage.app._later(NoticeLine("something beside"))
        await stage.pilot.pause(0.1)
        assert "something beside" not in stage.text
        await stage.pilot.press("pagedown", "pagedown", "pagedown")
        await stage.see("something beside")
        stage.app._later(NoticeLine("and at the end one stays"))
        await stage.see("and at the end one stays")
        await stage.pilot.press("pageup", "pageup")
        await stage.say("more")
        assert "The newest." in stage.text


@pytest.mark.slow
async def test_a_long_conversation_is_laid_out_in_part_and_scrolled_through_as_a_whole(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Every word that streams has all of the layout made anew: that must not grow with the conversation."""
    async with staged(tmp_path, provider) as stage:
        transcript = stage.app.transcript
        await transcript.show_earlier([NoticeLine(f"line {number}.") for number in range(150)])
        assert len([child for child in transcript.children if child.display]) == LEAST_LAID_OUT
        seen = {line.strip(" ·▁▂▃▄▅▆▇") for line in (await stage.see("line 149.")).splitlines()}
        for _ in range(40):
            await stage.pilot.press("pageup")
            seen |= {line.strip(" ·▁▂▃▄▅▆▇") for line in stage.text.splitlines()}
        assert {f"line {number}." for number in range(150)} <= seen
        provider.script(say("The newest."))
        await stage.say("go")
        await stage.see("The newest.")
