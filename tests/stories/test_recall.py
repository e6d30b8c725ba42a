"""A message gets the few memories that help, at its tail, once; nothing ever waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.app import layers as joining
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.app.recall_once import recall_once
from nacre.cli.chat.slash_memory import correct, forget
from nacre.context.recall import Recall, RecallOptions, RecallStats, Selector
from nacre.context.recalled import RECALLED
from nacre.loop.round import message_record
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.recall.base import RankedMemory, RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.usage import read_usage
from nacre.messages.blocks import ToolResult
from nacre.messages.events import Notice, ProviderEvent
from nacre.messages.records import Noted, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.meter import SIDE_QUERY
from nacre.settings import Settings, load
from nacre.testing import FrozenClock, ScriptedProvider, call, say
from nacre.tools.base import Tool, tool

HAND = MemoryChange(author="user", reason="by hand")
RELEASES_FILE = "project_releases_go_out_thursdays.md"
RELEASES = "Releases go out on Thursdays, because support is staffed on Fridays."


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    project = tmp_path / "project"
    project.mkdir()
    settings = load(project, {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home")})
    memory = await memory_of(settings)
    for text in (RELEASES, "The person drinks green tea.", "Backups of the orca database run at night."):
        await memory.save(MemoryDraft(body=text), HAND)
    return settings


async def memory_of(settings: Settings) -> Memory:
    return await Memory.open(settings.cwd, environ={"NACRE_HOME": str(settings.home)})


async def talk(ready: OpenedAgent, *texts: str) -> list[str]:
    """Some turns; what the person was told."""
    return [e.text for text in texts async for e in ready.agent.stream(text) if isinstance(e, Notice)]


def last(provider: ScriptedProvider, number: int = -1) -> str:
    return str(provider.requests[number].messages[-1]["content"])


async def test_a_memory_rides_with_the_words_it_helps_with_and_only_once(settings: Settings) -> None:
    """R1, R7, R8: behind the words, never again in the conversation; its bytes stay (the prefix net)."""
    provider = ScriptedProvider([say("Thursday."), say("Yes."), say("Tea.")])
    async with open_agent(settings, provider=provider) as ready:
        told = await talk(ready, "when do releases go out?", "and releases, which day again?", "which tea?")
        recalled = ready.recalled()
    assert RELEASES in last(provider, 0)
    assert RELEASES not in last(provider, 1)
    assert "green tea" in last(provider, 2)
    assert told[0].startswith("recalled 1 memory: project_releases_go_out")
    assert recalled is not None
    assert [one.ranked.entry.file for one in recalled.picks] == ["user_person_drinks_green_tea.md"]


@tool(read_only=True)
async def weather(city: str) -> str:
    """What the sky does."""
    return f"{city}: rain"


@pytest.mark.parametrize("tools", [[weather], lambda usual: [weather]], ids=["a list", "a function"])
async def test_an_agent_with_tools_of_its_own_recalls_and_is_told_that_it_saves_nothing(
    tools: list[Tool], settings: Settings
) -> None:
    """R1, M21: recall and the index need no tool; the manual speaks of none that is not there."""
    (settings.cwd / "CLAUDE.md").write_text("Answer in verse.")
    provider = ScriptedProvider([say("Thursday.")])
    async with open_agent(settings, provider=provider, tools=tools) as ready:
        told = await talk(ready, "when do releases go out?")
    request = provider.requests[0]
    assert [one["name"] for one in request.tools] == ["weather"]
    assert RELEASES in last(provider)
    assert told[0].startswith("recalled 1 memory: project_releases_go_out")
    assert "In this session it is read-only" in str(request.system)
    assert "`remember` saves" not in str(request.system)
    opening = str(request.messages[0]["content"])
    assert "It cannot be written in this session: read it only." in opening
    assert f"({RELEASES_FILE})" in opening and "Answer in verse." in opening


@pytest.mark.parametrize("name", ["remember", "Write"])
async def test_one_tool_that_saves_is_enough_to_be_told_how(name: str, settings: Settings) -> None:
    """M19: whether it is memory's own, or writes any file."""
    provider = ScriptedProvider([say("Thursday.")])
    chosen = lambda usual: [one for one in usual if one.name == name]  # noqa: E731
    async with open_agent(settings, provider=provider, tools=chosen) as ready:
        await talk(ready, "when do releases go out?")
    assert "`remember` saves" in str(provider.requests[0].system)


async def test_memory_is_switched_off_in_the_settings_whatever_the_tools(settings: Settings) -> None:
    """M2: as the docstring of `open_agent` says."""
    off = load(settings.cwd, settings.environ, cli={"disableAutoMemory": True})
    provider = ScriptedProvider([say("No idea.")])
    async with open_agent(off, provider=provider, tools=[weather]) as ready:
        await talk(ready, "when do releases go out?")
    assert "hursday" not in str(provider.requests[0].messages)
    assert "# Memory" not in str(provider.requests[0].system)


async def test_nothing_relevant_is_a_normal_answer(settings: Settings) -> None:
    """R9: a question about another world gets nothing."""
    provider = ScriptedProvider([say("Paris.")])
    async with open_agent(settings, provider=provider) as ready:
        assert await talk(ready, "what is the capital of France?") == []
    assert "From your memory" not in str(provider.requests)


async def test_a_session_that_is_resumed_knows_what_it_was_given(settings: Settings) -> None:
    """R7: found by walking the messages."""
    async with open_agent(settings, provider=ScriptedProvider([say("Thursday.")])) as ready:
        await talk(ready, "when do releases go out?")
    provider = ScriptedProvider([say("Thursday.")])
    async with open_agent(settings, provider=provider, session="latest") as ready:
        await talk(ready, "releases: when do they go out?")
        assert len(ready.agent.session.view.noted(RECALLED)) == 1
    assert RELEASES not in last(provider)


async def test_what_the_model_has_read_itself_is_not_given_again(settings: Settings) -> None:
    """R7: the five places go to new ones."""
    memory = await memory_of(settings)
    file = next(one.file for one in await memory.list() if "Releases" in one.body)
    read = call("Read", file_path=str(memory.location.directory / file))
    provider = ScriptedProvider([read, say("ok"), say("Thursday.")])
    async with open_agent(settings, provider=provider) as ready:
        await talk(ready, "hello", "when do releases go out?")
    assert "From your memory" not in str(provider.requests)


async def test_untrusted_and_local_only_memories_never_ride(settings: Settings) -> None:
    """M16b, M27, R10: found on request, with the reason in the explanation."""
    memory = await memory_of(settings)
    await memory.save(MemoryDraft(body="The zebra password is in the vault.", origin="untrusted"), HAND)
    await memory.save(MemoryDraft(body="The zebra salary is high.", local_only=True), HAND)
    provider = ScriptedProvider([say("no idea")])
    async with open_agent(settings, provider=provider) as ready:
        await talk(ready, "what about the zebra salary and the zebra password?")
        recalled = ready.recalled()
    assert "zebra" not in str(provider.requests[-1].messages[-1]).replace("the zebra", "")
    assert recalled is not None
    assert {one.why for one in recalled.left_out} >= {"untrusted", "local-only"}


async def test_a_selector_adds_what_words_do_not_show_beside_the_reply(settings: Settings) -> None:
    """R1, R5, R6: it rides behind the results; an invented name is dropped; what it cost is booked."""
    memory = await memory_of(settings)
    small = ScriptedProvider(
        [say('{"selected_memories": ["nothing.md", "user_person_drinks_green_tea.md"]}')]
    )
    asked = asyncio.Event()
    provider = ScriptedProvider([call("Glob", pattern="*"), say("done")])
    async with open_agent(settings, provider=provider) as ready:
        session = ready.agent.session
        recall = session.layer(Recall)
        assert recall is not None
        session.remove_layer(recall)
        index = LocalIndex(memory.location.directory, memory.location.cache)
        selector = Selector(provider=small, model="small", on_usage=lambda usage, model: asked.set())
        recaller = Recall(
            [index], ready.toolset.workspace, session.clock, options=RecallOptions(selector=selector)
        )
        session.add_layers(recaller)
        async for _ in ready.agent.stream("book the small room for tomorrow"):
            if not asked.is_set() and len(provider.requests) == 1:
                await asyncio.wait_for(asked.wait(), 10)
                await asyncio.sleep(0.05)
        await recaller.close()
    assert "From your memory" not in last(provider, 0)
    assert "green tea" in last(provider, 1)
    assert len(small.requests) == 1
    assert "tools" not in small.requests[0].body()


async def test_what_the_small_model_costs_is_on_the_meter_and_in_the_log(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: a session that is taken up again counts the same."""
    cost = Usage(input=700, output=20)
    small = ScriptedProvider([replace(say('{"selected_memories": []}'), usage=cost)])
    monkeypatch.setattr(joining, "build", lambda *_: small)
    named = load(
        settings.cwd,
        {
            "NACRE_HOME": str(settings.home),
            "ANTHROPIC_API_KEY": "any",
            "NACRE_SMALL_MODEL": "claude-haiku-4-5",
        },
    )
    provider = ScriptedProvider([call("Glob", pattern="*"), say("done")])
    async with open_agent(named, provider=provider) as ready:
        session = ready.agent.session
        async for _ in ready.agent.stream("book the small room for tomorrow"):
            if len(provider.requests) == 1:
                await ended("select memories")
        assert session.meter.requests == 3
        billed = [
            one.reply.usage for one in session.transcript.records if isinstance(one, Said) and one.reply
        ]
        assert session.meter.usage == sum((one for one in billed if one), cost)
        (note,) = [
            one for one in session.transcript.records if isinstance(one, Noted) and one.kind == SIDE_QUERY
        ]
    assert (note.fact("purpose"), note.fact("model")) == ("memdir_relevance", "claude-haiku-4-5")
    assert Usage.of_json(note.fact("usage")) == cost
    async with open_agent(named, provider=provider, session="latest") as again:
        assert again.agent.session.meter == session.meter


async def test_a_cancelled_turn_ends_the_question_to_the_small_model(settings: Settings) -> None:
    """R1: cancelled with the turn."""
    ended = asyncio.Event()

    class Hanging(ScriptedProvider):
        async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            try:
                await asyncio.Event().wait()
                yield  # type: ignore[misc]
            finally:
                ended.set()

    memory = await memory_of(settings)
    index = LocalIndex(memory.location.directory, memory.location.cache)
    index.refresh()
    async with open_agent(settings, provider=ScriptedProvider([say("never read to its end")])) as ready:
        session = ready.agent.session
        selector = Selector(provider=Hanging([]), model="small")
        recaller = Recall(
            [index], ready.toolset.workspace, session.clock, options=RecallOptions(selector=selector)
        )
        for one in session.layers:
            session.remove_layer(one)
        session.add_layers(recaller)
        turn = ready.agent.stream("which tea is it, and the orca backups?")
        await anext(turn)
        await asyncio.sleep(0.05)
        await turn.aclose()
        await ready.agent.cancel()
        await asyncio.wait_for(ended.wait(), selector.seconds / 2)  # by itself it would end after the whole
        await recaller.close()


class Slow:
    """An index that is still being built."""

    def __init__(self, inner: LocalIndex) -> None:
        self.gate = threading.Event()
        self._inner = inner

    def refresh(self) -> None:
        self.gate.wait(10)
        self._inner.refresh()

    def rank(self, query: RecallQuery, *, limit: int) -> list[RankedMemory]:
        return self._inner.rank(query, limit=limit)

    def everything(self) -> list[RankedMemory]:
        return self._inner.everything()

    def deepen(self, *, seconds: float) -> int:
        return self._inner.deepen(seconds=seconds)


async def test_an_index_that_is_not_ready_delays_nothing_and_its_picks_come_later(settings: Settings) -> None:
    """R1: the cap of 20 ms; what comes after it rides with the next message."""
    memory = await memory_of(settings)
    slow = Slow(LocalIndex(memory.location.directory, memory.location.cache))
    provider = ScriptedProvider([say("one"), say("two")])
    async with open_agent(settings, provider=provider) as ready:
        session = ready.agent.session
        recaller = Recall([slow], ready.toolset.workspace, session.clock)
        for one in session.layers:
            session.remove_layer(one)
        session.add_layers(recaller)
        await talk(ready, "when do releases go out?")
        assert RELEASES not in last(provider)
        slow.gate.set()
        await asyncio.sleep(0.2)
        await talk(ready, "go on with something else entirely")
        await recaller.close()
    assert RELEASES in last(provider)


async def test_late_picks_are_counted_told_and_looked_at_further_like_any_others(settings: Settings) -> None:
    """R1, R5, R10: once they ride, behind the results of the same turn."""
    memory = await memory_of(settings)
    slow = Slow(LocalIndex(memory.location.directory, memory.location.cache))
    small = ScriptedProvider([say('{"selected_memories": ["user_person_drinks_green_tea.md"]}')])
    provider = ScriptedProvider([call("Glob", pattern="*"), call("Glob", pattern="*"), say("done")])
    async with open_agent(settings, provider=provider) as ready:
        session = ready.agent.session
        counting = RecallStats([memory], session.id, session.clock)
        options = RecallOptions(stats=counting, selector=Selector(provider=small, model="small"))
        recaller = Recall([slow], ready.toolset.workspace, session.clock, options=options)
        for one in session.layers:
            session.remove_layer(one)
        session.add_layers(recaller)
        async for _ in ready.agent.stream("when do releases go out?"):
            if len(provider.requests) == 1 and not slow.gate.is_set():
                assert not read_usage(memory.location)
                slow.gate.set()
                await ended("late recall")
            if len(provider.requests) == 2:
                assert recaller.last is not None
                assert [one.ranked.entry.file for one in recaller.last.picks] == [RELEASES_FILE]
                await ended("select memories")
        await recaller.close()
    assert [RELEASES in last(provider, number) for number in range(3)] == [False, True, False]
    assert "green tea" in last(provider, 2)
    assert usage_of(memory) == {RELEASES_FILE: (1, 1, 0), "user_person_drinks_green_tea.md": (1, 1, 0)}


async def test_a_reply_that_was_given_before_a_late_pick_rode_does_not_cite_it(settings: Settings) -> None:
    """R1: what the model said by itself is nobody's merit."""
    memory = await memory_of(settings)
    slow = Slow(LocalIndex(memory.location.directory, memory.location.cache))
    provider = ScriptedProvider([say(RELEASES), say("hm")])
    async with open_agent(settings, provider=provider) as ready:
        session = ready.agent.session
        options = RecallOptions(stats=RecallStats([memory], session.id, session.clock))
        recaller = Recall([slow], ready.toolset.workspace, session.clock, options=options)
        for one in session.layers:
            session.remove_layer(one)
        session.add_layers(recaller)
        await talk(ready, "when do releases go out?")
        slow.gate.set()
        await ended("late recall")
        await talk(ready, "ok")
        await recaller.close()
    assert RELEASES in last(provider)
    assert usage_of(memory) == {RELEASES_FILE: (1, 1, 0)}


def usage_of(memory: Memory) -> dict[str, tuple[int, int, int]]:
    found = read_usage(memory.location).items()
    return {file: (one.offered, one.attached, one.cited) for file, one in found}


async def test_a_late_failure_is_told_and_stops_nothing(settings: Settings) -> None:
    """R6"""

    class Broken(Slow):
        def rank(self, query: RecallQuery, *, limit: int) -> list[RankedMemory]:
            raise OSError("the disk is gone")

    memory = await memory_of(settings)
    slow = Broken(LocalIndex(memory.location.directory, memory.location.cache))
    provider = ScriptedProvider([say("one"), call("Glob", pattern="*"), say("two")])
    async with open_agent(settings, provider=provider) as ready:
        recaller = Recall([slow], ready.toolset.workspace, ready.agent.session.clock)
        for one in ready.agent.session.layers:
            ready.agent.session.remove_layer(one)
        ready.agent.session.add_layers(recaller)
        await talk(ready, "when do releases go out?")
        slow.gate.set()
        await ended("late recall")
        assert not await recaller.attach(
            message_record("user", (ToolResult("x", ()),), ready.agent.session.clock), View()
        )
        assert recaller.last is not None
        assert recaller.last.problem == "recall failed: the disk is gone"
        await recaller.close()


async def ended(name: str) -> None:
    """Come back when no task of this name is under way."""
    async with asyncio.timeout(10):
        while any(task.get_name() == name for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)


async def test_recall_can_be_switched_off(settings: Settings) -> None:
    """Switch `recall`; and --no-memory by construction (M21)."""
    for variable in ({"NACRE_RECALL": "0"}, {"NACRE_DISABLE_AUTO_MEMORY": "1"}):
        off = load(settings.cwd, {"HOME": str(settings.home), "NACRE_HOME": str(settings.home), **variable})
        provider = ScriptedProvider([say("hm")])
        async with open_agent(off, provider=provider) as ready:
            await talk(ready, "when do releases go out?")
        assert RELEASES not in last(provider)


async def test_the_command_line_sees_what_a_turn_would_get(settings: Settings) -> None:
    """R10, R2"""
    recalled = await recall_once(settings, "when do releases go out?")
    assert [one.ranked.entry.body for one in recalled.picks] == [""]
    assert RELEASES in recalled.picks[0].text
    one_word = await recall_once(settings, "releases")
    assert [one.ranked.entry.file for one in one_word.picks] == [RELEASES_FILE]
    assert (await recall_once(settings, "?!")).skipped == "there is no word to look for"


async def test_a_memory_edited_between_two_messages_is_found_as_it_is_now(settings: Settings) -> None:
    """R9: only what changed is read again; a frozen clock is no excuse."""
    memory = await memory_of(settings)
    provider = ScriptedProvider([say("one"), say("two")])
    async with open_agent(settings, provider=provider, clock=FrozenClock()) as ready:
        await talk(ready, "hello there, how are you?")
        (memory.location.directory / "whales.md").write_text(
            "---\nname: Whales\ndescription: how many whales\n---\nThere are 12 whales in the bay.\n"
        )
        await talk(ready, "how many whales are in the bay?")
    assert "12 whales" in last(provider)


async def test_of_two_memories_that_disagree_the_newer_stands_first_and_both_are_named(
    settings: Settings,
) -> None:
    """R14: the ranking alone would often put the older first."""
    memory = await memory_of(settings)
    old = "---\nname: Standup time\ndescription: when the standup is\nmodified: 2026-01-05T09:00:00Z\n---\n"
    new = old.replace("Standup time", "Standup moved").replace("2026-01-05", "2026-10-05")
    directory = memory.location.directory
    (directory / "standup_old.md").write_text(f"{old}The daily standup of the team is at 9:30.\n")
    (directory / "standup_new.md").write_text(f"{new}The daily standup of the team is at 11:00.\n")
    recalled = await recall_once(settings, "when is the daily standup of the team?")
    assert [one.ranked.entry.file for one in recalled.picks] == ["standup_new.md", "standup_old.md"]
    assert recalled.picks[1].ranked.superseded_by == "standup_new.md"
    assert "A newer memory speaks of this, too: standup_new.md." in recalled.picks[1].text


async def test_two_memories_that_agree_are_not_said_to_disagree(settings: Settings) -> None:
    """R14: alike words tell that both speak of one thing, not that the older is wrong."""
    memory = await memory_of(settings)
    for day, words in ((5, "is heron"), (6, "has 2 disks")):
        head = f"---\nname: Build {day}\nmodified: 2026-10-0{day}T09:00:00Z\n---\n"
        (memory.location.directory / f"build_{day}.md").write_text(f"{head}The build server {words}.\n")
    recalled = await recall_once(settings, "what do you know of the build server?")
    assert [one.ranked.entry.file for one in recalled.picks] == ["build_6.md", "build_5.md"]
    assert recalled.picks[1].text.splitlines()[-4:] == [
        "A newer memory speaks of this, too: build_6.md. Where the two differ, go by the newer one.",
        "",
        "The build server is heron.",
        "</memory>",
    ]


async def test_what_is_gone_from_the_project_is_said_beside_the_memory(settings: Settings) -> None:
    """R12: what a memory names is looked up when it is attached."""
    memory = await memory_of(settings)
    (settings.cwd / "tools").mkdir()
    (settings.cwd / "tools" / "keep.py").write_text("def kept_function():\n    pass\n")
    text = "The zebra importer lives in `tools/zebra_import.py`, its helper in `tools/keep.py`."
    await memory.save(MemoryDraft(body=text), HAND)
    (pick,) = (await recall_once(settings, "where does the zebra importer live?")).picks
    assert pick.drift is not None
    assert [one.text for one in pick.drift.gone] == ["tools/zebra_import.py"]
    assert "tools/zebra_import.py" in pick.text.partition("</memory>")[0].rpartition("looked up")[2]


async def test_what_a_reply_had_in_view_can_be_corrected_and_forgotten_by_its_number(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Q6: by the person's own hand, undoable."""
    provider = ScriptedProvider([say("Thursday."), say("Tea.")])
    async with open_agent(settings, provider=provider) as ready:
        await forget(ready, "")
        await talk(ready, "when do releases go out?", "which tea does the person drink?")
        await forget(ready, "")
        await correct(ready, "1 Releases go out on Mondays.")
        await forget(ready, "2")
        await forget(ready, "9")
    told = capsys.readouterr().out
    assert told.startswith("no memory was attached to this conversation yet")
    assert "  2 user_person_drinks_green_tea.md" in told
    memory = await memory_of(settings)
    bodies = {entry.body.strip() for entry in await memory.list()}
    assert "Releases go out on Mondays." in bodies
    assert not any("tea" in body for body in bodies)
    assert [one.author for one in (await memory.log())[:2]] == ["user", "user"]
