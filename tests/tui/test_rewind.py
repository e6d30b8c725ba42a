"""Go back in a conversation, and leave it: what the screen shows and what returns to the input."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.chat_session import OpenedChat
from nacre.app.slash_commands import SlashCommands
from nacre.cli.output import print_error
from nacre.testing import ScriptedProvider, say
from nacre.tui import app as tui_app
from nacre.tui.app import ChatApp
from nacre.tui.talk import Talk
from tests.tui.stage import staged


@pytest.mark.slow
async def test_a_rewind_is_chosen_cleans_the_screen_and_gives_the_message_back(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("Reply one."), say("Reply two."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("first message")
        await stage.say("second message")
        await stage.paste("/rewind")
        await stage.pilot.press("enter")
        await stage.see("Go back to before a message")
        await stage.pilot.press("enter")
        shown = await stage.see("the conversation was rewound to before: second message")
        assert "Reply one." in shown
        assert "Reply two." not in shown
        assert stage.app.prompt.text == "second message"


async def test_a_rewind_keeps_what_is_being_typed(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("Reply one."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("first message")
        await stage.type("new words")
        await stage.app._obey("/rewind 1")
        assert stage.app.prompt.text == "new words"


@pytest.mark.slow
async def test_a_resumed_session_does_not_show_what_was_rewound(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("Reply one."), say("Reply two."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("first message")
        await stage.say("second message")
        await stage.say("/rewind 2")
        session = stage.ready.agent.session.id
    async with staged(tmp_path, provider, session=session) as stage:
        assert "Reply one." in stage.text
        assert "Reply two." not in stage.text


async def test_a_key_before_the_session_is_open_acts_once_it_is(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session opens only after F4 was pressed: a real one opens too fast to press a key before."""
    enter = Talk._enter

    async def late(self: Talk, session: str | None) -> OpenedChat:
        opened = await enter(self, session)
        tui_app_of(self).simulate_key("f4")
        return opened

    apps: list[ChatApp] = []
    build = ChatApp.__init__
    monkeypatch.setattr(
        ChatApp, "__init__", lambda self, *a, **k: (apps.append(self), build(self, *a, **k))[1]
    )

    def tui_app_of(_: Talk) -> ChatApp:
        return apps[-1]

    monkeypatch.setattr(Talk, "_enter", late)
    async with staged(tmp_path, provider) as stage:
        await stage.see("Work in the background")


async def test_the_hint_on_how_to_leave_goes_away(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a tenth of the time that a person has to read it."""
    monkeypatch.setattr(tui_app, "AGAIN_SECONDS", 0.3)
    async with staged(tmp_path, provider) as stage:
        await stage.paste("words")
        await stage.pilot.press("ctrl+c")
        await stage.see("Ctrl+Z brings it back")
        await stage.until(lambda: "brings it back" not in stage.text, "the hint goes away")


async def test_a_copy_is_confirmed(tmp_path: Path, provider: ScriptedProvider) -> None:
    provider.script(say("Copy me."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("go")
        stage.app.screen.text_select_all()  # type: ignore[no-untyped-call]
        await stage.pilot.press("ctrl+c")
        await stage.see("copied ")
        assert "Copy me." in stage.app.clipboard


async def test_leaving_names_the_session_its_cost_and_how_to_resume(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("Bye."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("hello")
        session = stage.ready.agent.session.id[:8]
        stage.app.action_leave()
        await stage.until(lambda: bool(stage.app.farewell), "the session is closed")
    assert stage.app.farewell.startswith(f"session {session} · $")
    assert stage.app.farewell.endswith(f"nacre --resume {session}")


async def test_leaving_an_empty_session_says_nothing(tmp_path: Path, provider: ScriptedProvider) -> None:
    async with staged(tmp_path, provider) as stage:
        await stage.app.talk.leave()
    assert stage.app.farewell == ""


async def test_errors_of_a_command_stand_where_they_were_printed(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """A compaction reports first that the summary failed, and then what was done instead."""

    def run(line: str, *_: object) -> None:
        print("begins")
        print_error("the summary failed")
        print("done without a model")

    async with staged(tmp_path, provider) as stage:
        talk = stage.app.talk
        talk.slash = SlashCommands({}, run)
        await stage.say("/compact")
        shown = stage.text
    assert shown.index("begins") < shown.index("! the summary failed") < shown.index("done without a model")
