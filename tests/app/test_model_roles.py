"""A role that another model plays: bounded text, no shared prefix; the same errand, the same guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app.model_layers import CheaperModel, Side, model_for_role, writer_for_role
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.app.recall_once import small_model_of
from nacre.errors import AuthError, ToolError
from nacre.loop.fork import ForkTask, branch
from nacre.messages.tokens import estimate_json
from nacre.providers.choose import choose
from nacre.session.meter import SIDE_QUERY
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider, call, say
from nacre.tools.policy import Narrowing
from tests.stories.scenes import environment

MAIN, OTHER = "claude-sonnet-5-5", "claude-haiku-4-5"


def settings_in(folder: Path) -> Settings:
    folder.mkdir(exist_ok=True)
    off = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0"}
    return load(folder, {**environment(folder), **off, "ANTHROPIC_API_KEY": "k"}, cli={"model": MAIN})


@asynccontextmanager
async def opened(tmp_path: Path, provider: ScriptedProvider | None = None) -> AsyncIterator[OpenedAgent]:
    provider = provider or ScriptedProvider([say("It is green.")])
    async with open_agent(settings_in(tmp_path / "work"), provider=provider, ephemeral=True) as ready:
        _ = [event async for event in ready.agent.stream("What colour is the parser?")]
        yield ready


async def test_another_model_gets_the_conversation_as_text_and_only_the_tools_it_may_call(
    tmp_path: Path,
) -> None:
    """F7, F3: its own bounded prompt; what it does is guarded and booked like a fork's."""
    other = ScriptedProvider([call("Read", file_path="a.txt"), say("Green, it says.")])
    async with opened(tmp_path) as ready:
        (tmp_path / "work" / "a.txt").write_text("the parser is green\n", encoding="utf-8")
        may = Narrowing(tools=frozenset({"Read"}))
        side = Side(ready.forks, other, OTHER)
        done = await side(ForkTask(source="session_memory", directive="Check it.", access=may, max_rounds=2))
        await ready.background.flush()
        notes = ready.agent.session.view.noted(SIDE_QUERY)
    first, second = other.requests
    assert (first.model, first.system, [one["name"] for one in first.tools]) == (OTHER, [], ["Read"])
    assert len(first.messages) == 1
    words = str(first.messages[0])
    assert "What colour is the parser?" in words
    assert "It is green." in words
    assert words.index("It is green.") < words.index("Check it.")
    assert "the parser is green" in str(second.messages[-1])
    assert (done.text, done.source, len(done.replies)) == ("Green, it says.", "session_memory", 2)
    assert [(note.fact("model"), note.fact("touched")) for note in notes] == [(OTHER, False)] * 2


async def test_a_side_agent_cannot_be_sent_from_a_fork(tmp_path: Path) -> None:
    """F6: nor from what a fork left behind."""
    async with opened(tmp_path) as ready:
        history = await branch(ready.agent.session.view, ForkTask(source="side", directive="x"))
        errand = ForkTask(source="side", directive="y", view=history.view)
        with pytest.raises(ToolError, match="cannot fork"):
            await ready.forks.side(errand, ScriptedProvider(), OTHER)


async def test_who_plays_a_role_follows_from_the_model_that_is_named_for_it(tmp_path: Path) -> None:
    """F7: none or the same one is a fork; the embedded engine leaves it to rules."""
    settings = settings_in(tmp_path / "work")
    async with opened(tmp_path) as ready:
        assert model_for_role(None, ready.forks, settings) is ready.forks
        assert model_for_role(MAIN, ready.forks, settings) is ready.forks
        assert model_for_role("embedded", ready.forks, settings) is None
        other = model_for_role(OTHER, ready.forks, settings)
        assert isinstance(other, Side)
        assert other.model == OTHER


async def test_a_conversation_that_stays_on_the_machine_is_told_to_no_side_agent_elsewhere(
    tmp_path: Path,
) -> None:
    """M27: a name in the settings is no leave to send what a model here was told."""
    async with opened(tmp_path) as ready:
        ready.agent.session.telemetry.hides_words = True  # as it is where the session's model is here
        assert model_for_role(OTHER, ready.forks, settings_in(tmp_path / "work")) is ready.forks
        assert any("stays here" in one.text for one in ready.agent.session.notices())


def task_of(ready: OpenedAgent, **given: str) -> ForkTask:
    return ForkTask(source="session_memory", directive="Check it.", view=ready.agent.session.view, **given)  # type: ignore[arg-type]


async def test_a_small_model_writes_notes_and_memories_where_that_costs_less(tmp_path: Path) -> None:
    """F7: it gets what is new; a role with a model of its own is not compared."""
    settings = replace(settings_in(tmp_path / "work"), small_model="claude-haiku-5-5")
    small, main = ScriptedProvider([say("Noted.")] * 2), ScriptedProvider([say("It is green.")] * 3)
    async with opened(tmp_path, main) as ready:
        named = writer_for_role(OTHER, ready.forks, settings, small_model="claude-haiku-5-5")
        assert isinstance(named, Side) and named.model == OTHER
        assert writer_for_role(None, ready.forks, settings) is ready.forks
        found = writer_for_role(None, ready.forks, settings, small_model="claude-haiku-5-5")
        assert isinstance(found, CheaperModel) and found.side.model == "claude-haiku-5-5"
        seen = ready.agent.session.view.items[-1].record_id
        _ = [event async for event in ready.agent.stream("And the lexer?")]
        await CheaperModel(Side(ready.forks, small, "claude-haiku-5-5"))(task_of(ready, seen_to=seen))
        dear = CheaperModel(Side(ready.forks, small, "claude-opus-5-5"))
        await dear(task_of(ready))
    (asked,) = small.requests
    assert "And the lexer?" in str(asked.messages) and "What colour" not in str(asked.messages)
    assert len(main.requests) == 3, "a dearer model is not asked"


async def test_what_another_model_reads_stays_below_its_price_step(tmp_path: Path) -> None:
    """F7: beyond 100,000 tokens haiku-5-5 costs five times as much."""
    small = ScriptedProvider([say("Noted.")])
    async with opened(tmp_path, ScriptedProvider([say("ok " * 60_000)] * 4)) as ready:
        for _ in range(3):
            _ = [event async for event in ready.agent.stream("More?")]
        assert ready.agent.session.view.estimate > 150_000
        await ready.forks.side(task_of(ready), small, "claude-haiku-5-5")
    (asked,) = small.requests
    assert 40_000 < sum(map(estimate_json, asked.messages)) < 100_000


async def test_forks_write_where_the_vendor_refuses_the_small_model(tmp_path: Path) -> None:
    """F7: a key may not be allowed to use it; it is asked once, and the person hears about it."""
    refusing = ScriptedProvider([AuthError("not with this key")])
    main = ScriptedProvider([say("It is green.")] * 3)
    async with opened(tmp_path, main) as ready:
        writer = CheaperModel(Side(ready.forks, refusing, "claude-haiku-5-5"))
        for _ in range(2):
            await writer(task_of(ready))
        (line,) = [one.text for one in ready.agent.session.notices() if "claude-haiku-5-5" in one.text]
    assert len(refusing.requests) == 1 and len(main.requests) == 3
    assert "not with this key" in line and "smallModel" in line


@pytest.mark.parametrize(
    ("model", "environ", "expected"),
    [
        ("claude-opus-5-5", {"ANTHROPIC_API_KEY": "k"}, "claude-haiku-5-5"),
        ("gpt-6.1-sol", {"OPENAI_API_KEY": "k"}, "gpt-6-luna"),
        ("claude-opus-5-5", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, None),
        ("gpt-6.1-sol", {"OPENAI_BASE_URL": "http://127.0.0.1:9"}, None),
        ("embedded", {}, None),
    ],
    ids=["anthropic", "openai", "another server", "a local server", "no model"],
)
def test_without_a_setting_the_small_model_is_that_of_the_vendor(
    tmp_path: Path, model: str, environ: dict[str, str], expected: str | None
) -> None:
    """F7: what another server serves is not known, nor what a program's own provider does."""
    settings = load(tmp_path, {"HOME": str(tmp_path), **environ}, cli={"model": model})
    assert small_model_of(settings, choose(model, settings.environ)) == expected
    assert small_model_of(settings, None) is None
    named = replace(settings, small_model="mine")
    assert small_model_of(named, choose(model, settings.environ)) == "mine"
