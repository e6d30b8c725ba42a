"""Lists to choose from: the model, how much it thinks, earlier sessions with a search and a preview."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.testing import FrozenClock, ScriptedProvider, say
from tests.tui.stage import staged

KEY = {"ANTHROPIC_API_KEY": "sk-test"}


async def test_the_model_is_chosen_from_a_list_that_says_what_it_costs(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.script(say("First."), say("Second."))
    async with staged(tmp_path, provider, **KEY) as stage:
        await stage.say("one")
        session = stage.ready.agent.session.id
        await stage.say("/model")
        await stage.see("Continue with another model")
        await stage.see("answers now")  # the current model is the highlighted one
        assert "● claude-sonnet-5-5" in stage.text and "gpt-6" not in stage.text  # no key for these
        await stage.type("haiku-5-5")
        await stage.see("tokens without the prompt cache")
        await stage.pilot.press("enter")
        await stage.see("claude-haiku-5-5 continues a conversation with claude-sonnet-5-5")
        await stage.until(lambda: stage.app.is_idle, "the session is open again")
        await stage.say("two")
        assert stage.ready.agent.session.id == session
        assert [one.model for one in provider.requests] == ["claude-sonnet-5-5", "claude-haiku-5-5"]
        assert "one" in str(provider.requests[1].body)
        await stage.say("/clear")
        assert stage.ready.agent.session.base.model == "claude-haiku-5-5"


@pytest.mark.parametrize(
    ("name", "says"),
    [("nosuch", "no provider is known for 'nosuch'"), ("gpt-6-luna", "needs a key or a server")],
)
async def test_a_model_that_cannot_answer_changes_nothing(
    tmp_path: Path, provider: ScriptedProvider, name: str, says: str
) -> None:
    provider.script(say("First."))
    async with staged(tmp_path, provider, **KEY) as stage:
        await stage.say("one")
        await stage.say(f"/model {name}")
        assert says in stage.text
        assert stage.ready.agent.session.base.model == "claude-sonnet-5-5"


@pytest.mark.moves_prefix(reason="/clear begins another conversation")
async def test_a_level_of_thinking_is_sent_from_the_next_message_on(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """It is kept over /clear, and said what it means for the cache and for refreshes."""
    provider.script(say("First."), say("Second."), say("Third."))
    async with staged(tmp_path, provider) as stage:
        await stage.say("one")
        await stage.say("/think")
        await stage.see("How much the model thinks")
        await stage.type("low")
        await stage.see("the next message is sent without the prompt cache")
        await stage.pilot.press("enter")
        await stage.see("thinking: low")
        assert "the cache is refreshed during pauses" in stage.text
        await stage.say("two")
        await stage.say("/clear")
        await stage.say("three")
        assert [one.thinking for one in provider.requests] == [None, "low", "low"]
        await stage.say("/think deep")
        assert "claude-sonnet-5-5 cannot be asked with thinking=deep; it takes off, low" in stage.text


@pytest.mark.slow
async def test_sessions_are_searched_by_what_was_said_and_previewed(tmp_path: Path) -> None:
    clock = FrozenClock()
    for question, answer in (("about herons", "They fish."), ("about boats", "They float near a weir.")):
        async with staged(tmp_path, ScriptedProvider().script(say(answer)), clock=clock) as stage:
            await stage.say(question)
        clock.advance(60)
    async with staged(tmp_path, ScriptedProvider(), clock=clock) as stage:
        await stage.pilot.press("f3")
        await stage.see("They float near a weir.")  # the preview of the newest
        await stage.type("fish")
        await stage.see("1 of 2")
        await stage.see("They fish.")
        await stage.pilot.press("enter")
        await stage.see("> about herons")


@pytest.mark.slow
async def test_every_list_works_by_keys_alone_and_without_colours(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR: what is selected is underlined or reversed, all colours are the terminal's, Escape closes."""
    monkeypatch.setenv("NO_COLOR", "1")
    provider.script(say("Yes."), say("# Plan\nDo it."))
    clock = FrozenClock()
    async with staged(tmp_path, ScriptedProvider().script(say("First.")), clock=clock) as stage:
        await stage.say("one")
    async with staged(tmp_path, provider, clock=clock, **KEY) as stage:
        await stage.say("#we deploy on Mondays")
        await stage.say("hello")
        await stage.say("/mode plan")
        lists = {
            "/model": "Continue with another model",
            "/think": "How much the model thinks",
            "/resume": "Go on with another session",
            "/rewind": "Go back to before a message",
            "/memories": "Memory · 1",
            "go": "Carry out this plan?",
        }
        for line, heading in lists.items():
            await stage.paste(line)
            await stage.pilot.press("enter")
            await stage.see(heading)
            await stage.pilot.pause()
            strips = stage.app.screen._compositor.render_strips()
            segments = [segment for strip in strips for segment in strip if segment.text.strip()]
            marked = [
                one.text for one in segments if one.style and (one.style.underline or one.style.reverse)
            ]
            assert [text for text in marked if len(text.strip()) > 1], line
            colours = {one.style.color.name for one in segments if one.style and one.style.color}
            assert colours <= {"default"}, line
            await stage.pilot.press("escape")
            await stage.until(lambda: len(stage.app.screen_stack) == 1, f"{line} is closed")
