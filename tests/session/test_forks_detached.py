"""Forks that are sent for on purpose: what they may do, what they leave behind, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.errors import Overloaded, ToolError
from nacre.loop.fork import FORK, ForkResult
from nacre.loop.round import CUT_SHORT
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Event, Reply, ToolResultEvent
from nacre.messages.jsonl import LoadedLog, decode
from nacre.messages.pairing import INTERRUPTED
from nacre.messages.view import View
from nacre.session.log_writer import AgentLog, SessionLogWriter, agent_log_path
from nacre.session.meter import SIDE_QUERY
from nacre.settings import load
from nacre.store.lines import read_lines
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.base import tool
from nacre.tools.guard import PermissionAnswer, PermissionQuestion
from tests.stories.scenes import environment

pytestmark = pytest.mark.moves_prefix(reason="a fork's directive is not part of its parent's next request")
MODEL = "claude-sonnet-5-5"
OFF = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0", "NACRE_EXTRACT": "0", "NACRE_DREAM": "0"}
ASKS = {"NACRE_PERMISSIONS_DEFAULT_MODE": "default"}


@tool(name="Weave")
async def weave(thread: str) -> str:
    """A caller's own tool."""
    return f"woven: {thread}"


class Person:
    """Answers what a guard asks."""

    def __init__(self, *answers: PermissionAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[PermissionQuestion] = []

    async def __call__(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question)
        return self.answers.pop(0)


@asynccontextmanager
async def opened(
    tmp_path: Path,
    provider: ScriptedProvider,
    *,
    person: Person | None = None,
    session: str = "new",
    ephemeral: bool = False,
    **environ: str,
) -> AsyncIterator[OpenedAgent]:
    """A session that has heard one reply."""
    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    settings = load(cwd, {**environment(cwd), **OFF, **environ}, cli={"model": MODEL})
    async with open_agent(
        settings,
        provider=provider,
        session=session,
        ephemeral=ephemeral,
        tools=lambda usual: [*usual, weave],
        ask=person,
        clock=FrozenClock(),
    ) as ready:
        _ = [event async for event in ready.agent.stream("Hello")]
        yield ready


def results_of(message: JsonObject) -> list[JsonObject]:
    content = message["content"]
    assert isinstance(content, list)
    return [block for block in content if isinstance(block, dict)]


def log_for(ready: OpenedAgent) -> AgentLog:
    writer = ready.agent.session.writer
    assert isinstance(writer, SessionLogWriter)
    return AgentLog(agent_log_path(writer.folder, "a1"), writer.envelope, agent="a1")


def loaded(ready: OpenedAgent) -> LoadedLog:
    """The fork's log as it is on disk: nothing in it is odd, and no call is without an answer."""
    writer = ready.agent.session.writer
    assert isinstance(writer, SessionLogWriter)
    found = decode(read_lines(agent_log_path(writer.folder, "a1")), subagent=True)
    view = View.of(found.records)
    assert not [*found.problems, *view.problems, *view.open_calls]
    return found


async def test_a_fork_sent_on_purpose_may_do_what_its_parent_may_and_agents_it_may_not_send(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """A2: it writes where its parent would write without a question; the Agent tool is there and refused."""
    provider.script(say("Hello."))
    async with opened(tmp_path, provider) as ready:
        provider.script(
            together(
                call("Write", file_path="new.txt", content="made\n"),
                call("Bash", command="printf more > other.txt"),
                call("Agent", description="Go", prompt="Go."),
                call("Weave", thread="red"),
            ),
            say("Done."),
        )
        forked = await ready.forks.detached("Make two files.")
    assert (forked.source, forked.text, forked.denials, forked.stop_reason) == (
        "agent", "Done.", 0, "end_turn"
    )  # fmt: skip
    assert sorted(one.name for one in (tmp_path / "work").glob("*.txt")) == ["new.txt", "other.txt"]
    *_, refused, woven = results_of(provider.requests[-1].messages[-1])
    assert (refused["is_error"], "woven: red" in str(woven)) == (True, True)
    assert provider.requests[-1].tools == provider.requests[0].tools


async def test_the_person_is_asked_for_it_and_what_is_allowed_for_good_holds_for_both(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """A2, F3: one person, one set of rules; the question says who wants it."""
    person = Person("no", "always")
    provider.script(say("Hello."))
    async with opened(tmp_path, provider, person=person, **ASKS) as ready:
        provider.script(
            call("Bash", command="touch refused"),
            call("Bash", command="touch made"),
            say("Done."),
            call("Bash", command="touch made"),
            say("Fine."),
        )
        forked = await ready.forks.detached("Touch.")
        assert forked.denials == 1
        assert ready.toolset.guard.denials == 0
        _ = [event async for event in ready.agent.stream("Touch it, too.")]
    assert [one.reason.startswith("A fork of this conversation asks: ") for one in person.asked] == [True] * 2
    assert not (tmp_path / "work" / "refused").exists()
    assert (tmp_path / "work" / "made").exists()


async def test_where_nobody_can_be_asked_it_is_refused_like_its_parent(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F3: a fork widens nothing."""
    provider.script(say("Hello."), call("Bash", command="touch made"), say("Then not."))
    async with opened(tmp_path, provider, person=None, **ASKS) as ready:
        forked = await ready.forks.detached("Touch.")
    assert forked.denials == 1
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize("answers", [["no", "no", "no"], None])
async def test_what_the_person_refuses_to_read_a_fork_does_not_read_either(
    tmp_path: Path, provider: ScriptedProvider, answers: list[PermissionAnswer] | None
) -> None:
    """Each call is asked about again while a person is there, and refused where nobody is."""
    secret = tmp_path / "diary.txt"
    secret.write_text("the heron sleeps at noon\n")
    person = None if answers is None else Person(*answers)
    reads = [call("Read", file_path=str(secret)), call("Bash", command=f"cat {secret}")]
    provider.script(reads[0], say("Hello."), together(*reads), say("Then not."))
    async with opened(tmp_path, provider, person=person, **ASKS) as ready:
        forked = await ready.forks.detached("Read it.")
    assert forked.denials == 2
    assert person is None or len(person.asked) == 3
    assert "sleeps at noon" not in str([request.messages for request in provider.requests])


async def test_it_starts_from_what_was_said_when_it_was_sent_for(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """A1: whatever the parent says until it really begins."""
    provider.script(say("Hello."), say("Later."), say("Forked."))
    async with opened(tmp_path, provider) as ready:
        running = ready.forks.detached("Go.")
        _ = [event async for event in ready.agent.stream("Meanwhile")]
        await running
    assert "Meanwhile" in str(provider.requests[1].messages)
    assert "Meanwhile" not in str(provider.requests[2].messages)


async def test_everything_on_its_way_is_heard_and_what_it_costs_is_booked_under_agents(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F4, A7: for whoever shows what it is at."""
    provider.script(say("Hello."), call("Glob", pattern="*"), say("Done."))
    events: list[Event] = []
    async with opened(tmp_path, provider) as ready:
        await ready.forks.detached("Look.", heard=events.append)
        await ready.background.flush()
        notes = ready.agent.session.view.noted(SIDE_QUERY)
    assert [type(one) for one in events if isinstance(one, Reply | ToolResultEvent)] == [
        Reply,
        ToolResultEvent,
        Reply,
    ]
    assert [note.fact("purpose") for note in notes] == ["agent", "agent"]


async def test_one_that_goes_on_for_too_long_is_stopped_and_says_so(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F4: rounds are limited; its log is whole."""
    provider.script(say("Hello."), *[call("Glob", pattern="*")] * 3)
    async with opened(tmp_path, provider) as ready:
        with log_for(ready) as log:
            forked = await ready.forks.detached("Look.", max_rounds=3, write=log.write)
        assert (len(forked.replies), forked.stop_reason) == (3, "tool_use")
        loaded(ready)


async def test_one_that_has_ended_can_go_on_with_the_same_bytes_before(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """A1, F1: a letter to it is one message more; its log goes on, too."""
    provider.script(say("Hello."), call("Glob", pattern="*"), say("Done."), say("Also that."))
    async with opened(tmp_path, provider) as ready:
        with log_for(ready) as log:
            first = await ready.forks.detached("Look.", write=log.write)
        with log_for(ready) as log:
            second = await ready.forks.detached("Now the rest.", view=first, write=log.write)
        found = loaded(ready)
        assert len(second.view.noted(FORK)) == 1
    *_, before, after = provider.requests
    assert str(after.messages[-1]["content"]).count("Now the rest.") == 1
    assert len(after.messages) == len(before.messages) + 2
    said = [message for message in View.of(found.records).messages if message["role"] == "assistant"]
    assert len(said) == 3


async def test_a_fork_of_a_forks_history_is_refused_at_once(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F6: not only once a supervisor runs it, where nobody would hear of it."""
    provider.script(say("Hello."), say("Done."))
    async with opened(tmp_path, provider, ephemeral=True) as ready:
        forked = await ready.forks.detached("Go.")
        with pytest.raises(ToolError, match=r"A fork cannot fork \(agent\)"):
            _ = ready.forks.detached("Go on.", view=forked.view)


async def test_a_cancelled_turn_leaves_it_running(tmp_path: Path, provider: ScriptedProvider) -> None:
    """F5: it belongs to the background."""
    gate = anyio.Event()
    provider.script(say("Hello."), together("Done.", gate=gate))
    async with opened(tmp_path, provider) as ready:
        assert ready.background.start("agent 1", ready.forks.detached("Go."))
        while provider.calls < 2:
            await asyncio.sleep(0)
        ready.agent.session.cancel_turn()
        gate.set()
        assert await ready.background.wait("agent 1")
        assert [one.ending for one in ready.background.outcomes] == ["done"]


@pytest.mark.parametrize(
    ("step", "left"),
    [
        (together("Half of", gate=anyio.Event()), CUT_SHORT),
        (call("Bash", command="sleep 60"), INTERRUPTED),
    ],
    ids=["in a reply", "in a tool"],
)
async def test_wherever_it_is_cancelled_its_log_is_a_whole_conversation(
    step: object, left: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    """T6, Q2: and what runs for it ends with it."""
    provider.script(say("Hello."), call("Glob", pattern="*"), step)  # type: ignore[arg-type]
    calls: list[Event] = []
    async with opened(tmp_path, provider) as ready:
        with log_for(ready) as log:
            running = ready.forks.detached("Go.", write=log.write, heard=calls.append)
            assert ready.background.start("agent 1", running)
            while provider.calls < 3:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            assert await ready.background.cancel("agent 1")
        assert left in str(View.of(loaded(ready).records).messages[-1])
        assert [one.ending for one in ready.background.outcomes] == ["cancelled"]


async def test_what_the_provider_refuses_ends_it_with_a_whole_log(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F5, T6: the others who waited for it go on."""
    provider.script(say("Hello."), Overloaded("busy"), say("Second."))
    async with opened(tmp_path, provider) as ready:
        with log_for(ready) as log:
            failing = ready.forks.detached("One.", write=log.write)
            other = ready.forks.detached("Two.")
            outcomes = await asyncio.gather(failing, other, return_exceptions=True)
        assert isinstance(outcomes[0], Overloaded)
        assert isinstance(outcomes[1], ForkResult)
        assert outcomes[1].text == "Second."
        loaded(ready)
