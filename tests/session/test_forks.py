"""Forks of a session: what they may do, what they leave alone, and who ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.errors import Overloaded, ToolError
from nacre.loop.fork import ForkResult, ForkTask
from nacre.messages.events import ProviderEvent
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.cache_ttl import last_touched
from nacre.session.layer import Attachment, Layer
from nacre.session.meter import SIDE_QUERY
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, call, say, together
from nacre.tools.policy import Narrowing
from tests.stories.scenes import environment

pytestmark = pytest.mark.moves_prefix(reason="a fork's directive is not part of its parent's next request")
MODEL = "claude-sonnet-5-5"
OFF = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0", "NACRE_EXTRACT": "0", "NACRE_DREAM": "0"}
NOTES = ForkTask(source="session_memory", directive="Sum it up.")
READ = Usage(cache_read=90, input=10, output=1)


@asynccontextmanager
async def opened(
    tmp_path: Path,
    provider: ScriptedProvider,
    *,
    session: str = "new",
    ephemeral: bool = False,
    **environ: str,
) -> AsyncIterator[OpenedAgent]:
    """A session that has heard one reply."""
    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    settings = load(cwd, {**environment(cwd), **OFF, **environ}, cli={"model": MODEL})
    async with open_agent(
        settings, provider=provider, session=session, ephemeral=ephemeral, clock=FrozenClock()
    ) as ready:
        _ = [event async for event in ready.agent.stream("Hello")]
        yield ready


def purposes(ready: OpenedAgent) -> list[object]:
    return [note.fact("purpose") for note in ready.agent.session.view.noted(SIDE_QUERY)]


async def test_a_fork_writes_into_memory_through_its_owner_and_nowhere_else(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F2, F3, E5: index and history hold for what a fork writes, and it is no step of the conversation."""
    provider.script(say("Hello."))
    async with opened(tmp_path, provider) as ready:
        memory = ready.memories[0].location.directory
        topic = "---\nname: tea\ndescription: drinks tea\ntype: user\n---\n\nDrinks tea.\n"
        provider.script(
            together(
                call("Write", file_path=str(memory / "tea.md"), content=topic),
                call("Write", file_path="outside.txt", content="no"),
                call("Bash", command="touch outside.txt"),
                call("remember", text="no"),
            ),
            say("Saved."),
        )
        may = Narrowing(tools=frozenset({"Write", "Bash"}), writes_in=(memory,))
        forked = await ready.forks(
            ForkTask(source="extract_memories", directive="Save.", access=may, max_rounds=3)
        )
        assert forked.denials == 3
        assert "tea.md" in (memory / "MEMORY.md").read_text(encoding="utf-8")
        log = await ready.memories[0].log(limit=5)
        assert len(log) >= 1
        assert ready.toolset.workspace.seen(memory / "tea.md") is None
        assert ready.toolset.guard.denials == 0
        assert not list((tmp_path / "work").glob("outside*"))


async def test_a_fork_knows_what_the_parent_has_read_and_keeps_what_it_learns_to_itself(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F2: read-file state and the task list are copies."""
    provider.script(call("Read", file_path="a.txt"), say("Hello."))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n", encoding="utf-8")
    (tmp_path / "work" / "b.txt").write_text("two\n", encoding="utf-8")
    async with opened(tmp_path, provider) as ready:
        provider.script(
            together(
                call("Edit", file_path="a.txt", old_string="one", new_string="uno"),
                call("Read", file_path="b.txt"),
                call("TaskList", tasks=[{"title": "mine", "state": "pending"}]),
            ),
            say("Done."),
        )
        may = Narrowing(
            tools=frozenset({"Edit", "Read", "TaskList"}), writes_in=((tmp_path / "work").resolve(),)
        )
        await ready.forks(ForkTask(source="side", directive="Try.", access=may, max_rounds=2))
        workspace = ready.toolset.workspace
        assert (tmp_path / "work" / "a.txt").read_text(encoding="utf-8") == "uno\n"
        assert [path.name for path in workspace.recently_seen()] == ["a.txt"]
        assert ready.toolset.board.tasks == ()
        seen = workspace.seen((tmp_path / "work" / "a.txt").resolve())
        assert seen is not None
        assert seen.size == len("one\n")


async def test_a_fork_asks_in_its_own_name_and_the_parents_books_stay_as_they_are(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F1, F4: the same bytes but for the end; paid for at once, in the log at the next boundary."""
    provider.script(say("Hello."), together("Summed up.", usage=READ), say("Bye."))
    async with opened(tmp_path, provider) as ready:
        session = ready.agent.session
        answered, paid = session.answered, session.meter.requests
        forked = await ready.forks(NOTES)
        assert forked.first == READ
        assert (session.answered, session.meter.requests) == (answered, paid + 1)
        assert purposes(ready) == []
        _ = [event async for event in ready.agent.stream("Bye")]
        assert purposes(ready) == ["session_memory"]
    parent, fork, _after = provider.requests
    assert (fork.model, fork.tools, fork.thinking, fork.options, fork.betas) == (
        parent.model, parent.tools, parent.thinking, parent.options, parent.betas
    )  # fmt: skip
    note = session.view.noted(SIDE_QUERY)[0]
    facts = {name: note.fact(name) for name in ("purpose", "share", "request", "touched")}
    assert facts == {"purpose": "session_memory", "share": 0.9, "request": 1, "touched": True}


async def test_a_fork_that_read_the_prefix_keeps_it_warm_live_and_resumed_alike(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """C8b, T3: the provider keeps what a fork has read as long as what the session itself has read."""
    provider.script(
        say("Hello."), together("Summed up.", usage=READ), together("Not read.", usage=Usage(input=9))
    )
    async with opened(tmp_path, provider) as ready:
        session, clock = ready.agent.session, ready.agent.session.clock
        assert isinstance(clock, FrozenClock)
        clock.advance(100)
        await ready.forks(NOTES)
        read_at = clock.now()
        clock.advance(100)
        await ready.forks(NOTES)
        assert session.warmth.touched_at == read_at
        await ready.background.flush()
        assert last_touched(session.transcript.records) == read_at


async def test_a_failed_fork_raises_what_the_provider_raised_and_among_several_only_that_one_fails(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F5, C31b: the others of a fan go on."""
    provider.script(say("Hello."), Overloaded("busy"), Overloaded("busy"), say("Two."), say("Three."))
    async with opened(tmp_path, provider) as ready:
        with pytest.raises(Overloaded):
            await ready.forks(NOTES)
        first, *others = await ready.forks.fan_out([NOTES, NOTES, NOTES])
        assert isinstance(first, Overloaded)
        assert [one.text for one in others if isinstance(one, ForkResult)] == ["Two.", "Three."]
        assert await ready.forks.fan_out([]) == []


class Silent(ScriptedProvider):
    """Says nothing to a fork until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.may_begin = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.asked += 1
        if self.asked > 1:
            await self.may_begin.wait()
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event


async def test_the_rest_of_a_fan_waits_until_the_first_reply_has_begun_but_not_until_it_is_whole(
    tmp_path: Path,
) -> None:
    """C31b: two at once would both pay for the prefix; a reply that has begun means that it is written."""
    gate, provider = anyio.Event(), Silent()
    provider.script(say("Hello."), together("One.", gate=gate), say("Two."))
    async with opened(tmp_path, provider) as ready:
        task = asyncio.create_task(ready.forks.fan_out([NOTES, NOTES]))
        await asyncio.sleep(0.05)
        assert provider.asked == 2
        provider.may_begin.set()
        while provider.asked < 3:
            await asyncio.sleep(0)
        assert not task.done()
        gate.set()
        assert [one.text for one in await task if isinstance(one, ForkResult)] == ["One.", "Two."]


async def test_a_fan_that_is_cancelled_leaves_nothing_running(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Q2: also while the first has not begun."""
    provider.script(
        say("Hello."), together("never", gate=anyio.Event()), together("never", gate=anyio.Event())
    )
    async with opened(tmp_path, provider) as ready:
        task = asyncio.create_task(ready.forks.fan_out([NOTES, NOTES]))
        while provider.calls < 3:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("fork")]


async def test_a_tool_that_only_the_parent_has_says_so_to_a_fork_that_may_name_it(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F3, A2: definitions stay; what cannot be built for a fork is refused when called."""
    provider.script(say("Hello."), call("TaskList", tasks=[]), say("Then not."))
    async with opened(tmp_path, provider) as ready:
        ready.forks._make = lambda workspace: ()  # as if nobody could build it
        may = Narrowing(tools=frozenset({"TaskList"}))
        await ready.forks(ForkTask(source="side", directive="List.", access=may, max_rounds=2))
    assert "TaskList cannot be called from a fork." in str(provider.requests[-1].messages[-1])


async def test_background_forks_stop_at_a_cap_and_forks_of_a_turn_do_not(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """F5: what a turn needs to go on is never refused; what crosses a cap ends before its next request."""
    heavy = Usage(output=2_000)
    provider.script(
        together("Hello.", usage=Usage(output=10)),
        together(call("Read", file_path="a.txt"), usage=heavy),
        say("never"),
    )
    may = Narrowing(tools=frozenset({"Read"}))
    errand = ForkTask(source="extract_memories", directive="Look.", access=may, max_rounds=5)
    async with opened(tmp_path, provider, NACRE_SPEND_SESSION_TOKENS="1000") as ready:
        assert ready.background.start("extract", ready.forks(errand))
        await ready.background.wait("extract")
        assert [one.ending for one in ready.background.outcomes] == ["cancelled"]
        assert provider.calls == 2
        assert not ready.background.start("extract", ready.forks(errand))
        told = [one.text for one in ready.agent.session.notices()]
        assert len([line for line in told if "spend.sessionTokens (1,000)" in line]) == 1
        assert (await ready.forks(NOTES)).text == "never"
        assert ready.background.failures("extract") == 0


async def test_inside_a_fork_nobody_can_send_another(tmp_path: Path, provider: ScriptedProvider) -> None:
    """F6: not even with the parent's own forker."""
    provider.script(say("Hello."))
    async with opened(tmp_path, provider, ephemeral=True) as ready:
        tried: list[ToolError] = []

        def asked(request: object) -> object:
            return call("Read", file_path="a.txt")

        class Nested(Layer):
            def for_fork(self) -> Layer:
                return self

            async def filter(self, message: Said, view: View) -> tuple[Said, Sequence[Attachment]]:
                try:
                    await ready.forks(NOTES)
                except ToolError as error:
                    tried.append(error)
                return message, ()

        ready.agent.session.add_layers(Nested())
        provider.script(asked, say("Done."))  # type: ignore[arg-type]
        may = Narrowing(tools=frozenset({"Read"}))
        await ready.forks(ForkTask(source="side", directive="Try.", access=may, max_rounds=2))
        assert [str(one)[:25] for one in tried] == ["A fork cannot fork (side)"]
