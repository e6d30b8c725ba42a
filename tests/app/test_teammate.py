"""Teams of a session: who joins, waits at a bell, ends when asked, and what stays behind (A3, A4, A6)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nacre.agents.mail_room import socket_path
from nacre.agents.run import RunningAgent
from nacre.agents.team_roster import Roster
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.layers.l7_mail import uds
from nacre.layers.l7_mail.letter import Kind, Letter
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.events import Event, ToolResultEvent
from nacre.providers.base import Request
from nacre.providers.scripted import Scripted
from nacre.settings import load
from nacre.testing import Cast, ScriptedProvider, call, say, together
from tests.stories.scenes import environment

MODEL = "claude-sonnet-5-5"
OFF = {"NACRE_NOTES": "0", "NACRE_COMPACT_PREPARE": "0", "NACRE_EXTRACT": "0", "NACRE_DREAM": "0"}
SAFETY_SECONDS = 30.0


def order(prompt: str, **more: Json) -> Scripted:
    return call("Agent", description="a task", prompt=prompt, **more)


@asynccontextmanager
async def opened(
    tmp_path: Path,
    provider: object,
    *,
    session: str = "new",
    ephemeral: bool = False,
    interactive: bool = False,
    **environ: str,
) -> AsyncIterator[OpenedAgent]:
    cwd = tmp_path / "work"
    cwd.mkdir(exist_ok=True)
    settings = load(cwd, {**environment(cwd), **OFF, **environ}, cli={"model": MODEL})
    settings = replace(settings, is_interactive=interactive)
    async with open_agent(settings, provider=provider, session=session, ephemeral=ephemeral) as ready:  # type: ignore[arg-type]
        yield ready


async def played(ready: OpenedAgent, text: str) -> list[Event]:
    with anyio.fail_after(SAFETY_SECONDS):
        return [event async for event in ready.agent.stream(text)]


async def until(is_so: Callable[[], object], what: str) -> None:
    with anyio.fail_after(SAFETY_SECONDS):
        while not is_so():  # what is waited for happens in files
            await asyncio.sleep(0.01)
    assert is_so(), what


def results(events: list[Event]) -> list[str]:
    return [event.result.text for event in events if isinstance(event, ToolResultEvent)]


def status(ready: OpenedAgent, name: str) -> str:
    assert ready.team is not None
    return ready.team.shared.registry.states[name].status


def letter(ready: OpenedAgent, to: str, text: str, *, sender: str = "friend", kind: Kind = "text") -> Letter:
    clock = ready.agent.session.clock
    return Letter(
        id=clock.new_id(), sender=sender, to=to, text=text, summary=text[:20], at=clock.now(), kind=kind
    )


def _inbox(ready: OpenedAgent, name: str = "main") -> Path:
    folder: Path = ready.agent.session.writer.folder  # type: ignore[attr-defined]
    return folder / "inboxes" / f"{name}.jsonl"


def roster_of(tmp_path: Path, team: str = "crew") -> Roster:
    return Roster(tmp_path / "work" / "home", team)


async def test_a_teammate_joins_waits_and_works_for_each_letter(tmp_path: Path) -> None:
    """A3, A6: the roster knows lead and member; a letter from another process wakes it at its bell."""
    main = ScriptedProvider([order("Be helpful.", name="ann", team_name="crew"), say("Ann is there.")])
    ann = ScriptedProvider([say("Ready."), call("TeamTasks", action="claim"), say("I have it.")])
    async with opened(tmp_path, Cast(main, {"Be helpful.": ann})) as ready:
        await played(ready, "Start ann.")
        await until(lambda: status(ready, "ann") == "idle", "ann waits")
        roster = roster_of(tmp_path)
        assert (roster.lead(), [each.name for each in roster.members()]) == ("main", ["main", "ann"])
        roster.tasks.add("paint the fence")
        Mailbox(roster.inbox_path("ann")).put(letter(ready, "ann", "Take a task.", sender="main"))
        await until(lambda: ann.left == 0 and status(ready, "ann") == "idle", "ann has worked")
        assert [(task.owner, task.state) for task in roster.tasks.list().tasks] == [("ann", "in_progress")]
        assert "Take a task." in str(ann.requests[1].messages[-1])
        assert Mailbox(roster.inbox_path("ann")).waiting().letters == ()
    assert roster.members() == ()
    assert [(task.owner, task.state) for task in roster.tasks.list().tasks] == [("", "pending")]


async def test_a_session_that_goes_on_leads_again_where_somebody_counts_on_it(tmp_path: Path) -> None:
    """A6: it left in order, and a member that runs elsewhere has written meanwhile."""
    start = [order(f"Be in {team}.", name=f"{team}-1", team_name=team) for team in ("crew", "quiet")]
    parts = {f"Be in {team}.": ScriptedProvider([say("Ready.")]) for team in ("crew", "quiet")}
    main = ScriptedProvider([start[0], start[1], say("There."), say("I see.")])
    async with opened(tmp_path, Cast(main, parts)) as ready:
        await played(ready, "Start both.")
        assert [each.name for each in roster_of(tmp_path, "quiet").members()] == ["main", "quiet-1"]
        session, wrote = ready.agent.session.id, letter(ready, "main", "The fence is done.", sender="bob")
    roster = roster_of(tmp_path)
    assert roster.members() == ()
    Mailbox(roster.inbox_path("main")).put(wrote)
    async with opened(tmp_path, Cast(main), session=session) as ready:
        await played(ready, "Any news?")
        assert [each.name for each in roster.members()] == ["main"]
    assert "The fence is done." in str(main.requests[-1].messages[-1])
    assert roster_of(tmp_path, "quiet").members() == ()


async def test_teammates_of_one_reply_join_side_by_side(tmp_path: Path) -> None:
    """A6: one of them begins the team, and those without a name get different ones."""
    orders = [order(f"Be number {n}.", team_name="crew") for n in range(3)]
    main = ScriptedProvider([together(*orders), say("There.")])
    parts = {f"Be number {n}.": ScriptedProvider([say("Ready.")]) for n in range(3)}
    async with opened(tmp_path, Cast(main, parts)) as ready:
        events = await played(ready, "Start them.")
        names = [each.name for each in roster_of(tmp_path).members()]
    assert names == ["main", "general-1", "general-2", "general-3"]
    assert all("works in the background now" in text for text in results(events))


async def test_teammates_of_one_reply_join_while_one_that_has_ended_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: letting go takes time, and a name that is being given out is nobody else's meanwhile."""
    close = RunningAgent.close

    async def slowly(member: RunningAgent) -> None:
        await asyncio.sleep(0.05)  # as a provider of its own, or a tool that still runs, may take
        await close(member)

    monkeypatch.setattr(RunningAgent, "close", slowly)
    monkeypatch.setattr("nacre.agents.team.KEPT_OPEN", 1)  # ten would have to be played before
    done = [order(f"Be done {n}.", name=f"done-{n}") for n in range(3)]
    mates = [order(f"Be number {n}.", team_name="crew") for n in range(3)]
    main = ScriptedProvider([together(*done), together(*mates), say("There.")])
    prompts = [*(f"Be done {n}." for n in range(3)), *(f"Be number {n}." for n in range(3))]
    parts = {prompt: ScriptedProvider([say("Ready.")]) for prompt in prompts}
    async with opened(tmp_path, Cast(main, parts)) as ready:
        events = await played(ready, "Start them.")
        names = [each.name for each in roster_of(tmp_path).members()]
    assert names == ["main", "general-1", "general-2", "general-3"]
    assert all("works in the background now" in text for text in results(events)[3:])


async def test_a_teammate_that_agrees_to_shut_down_ends_after_its_turn(tmp_path: Path) -> None:
    """A4: its model is asked; a refusal leaves it there."""
    main = ScriptedProvider([
        order("Be helpful.", name="ann", team_name="crew"), say("There."),
        call("SendMessage", to="ann", message={"type": "shutdown_request", "reason": "done"}), say("Asked."),
        call("SendMessage", to="ann", message={"type": "shutdown_request"}), say("Asked again."),
    ])  # fmt: skip

    def answers(approve: bool) -> Callable[[Request], Scripted]:
        def answer(request: Request) -> Scripted:
            text = str(request.messages[-1])
            asked = text.rpartition('"request_id": "')[2].partition('"')[0]
            message: JsonObject = {"type": "shutdown_response", "request_id": asked, "approve": approve}
            return call("SendMessage", to="main", message=message | ({} if approve else {"reason": "busy"}))

        return answer

    ann = ScriptedProvider([say("Ready."), answers(False), say("I go on."), answers(True), say("Bye.")])
    async with opened(tmp_path, Cast(main, {"Be helpful.": ann})) as ready:
        await played(ready, "Start ann.")
        await until(lambda: status(ready, "ann") == "idle", "ann waits")
        await played(ready, "End ann.")
        await until(lambda: ann.left == 2 and status(ready, "ann") == "idle", "ann has refused")
        assert roster_of(tmp_path).member("ann") is not None
        await played(ready, "End ann.")
        await until(lambda: status(ready, "ann") == "completed", "ann has ended")
        await until(lambda: roster_of(tmp_path).member("ann") is None, "ann has left")
    assert "ann will not shut down" in str(main.requests[-2].messages)


async def test_a_persons_wish_ends_an_agent_without_asking_it(tmp_path: Path) -> None:
    """A4: as `nacre agents stop` asks, at work or not; whoever asked gets an answer."""
    gate = anyio.Event()
    main = ScriptedProvider([order("Be slow.", name="bob", run_in_background=True), say("There.")])
    bob = ScriptedProvider([together("never said", gate=gate)])
    answers: list[Letter] = []

    async def accept(one: Letter) -> None:
        answers.append(one)

    async with opened(tmp_path, Cast(main, {"Be slow.": bob})) as ready:
        await played(ready, "Start bob.")
        await until(lambda: bob.calls == 1, "bob is at work")
        desk = tmp_path / "desk"
        desk.mkdir(mode=0o700)
        async with uds.serve(desk / "a", accept):
            wish = letter(ready, "bob", "Stop.", sender=f"uds:{desk}/a", kind="shutdown_request")
            Mailbox(_inbox(ready, "bob")).put(wish)
            await until(lambda: status(ready, "bob") == "stopped", "bob has ended")
            await until(lambda: answers, "an answer")
    assert [(one.kind, one.approves, one.answers) for one in answers] == [
        ("shutdown_response", True, wish.id)
    ]
    assert bob.calls == 1


async def test_a_session_without_a_place_on_disk_has_no_team_but_letters(tmp_path: Path) -> None:
    """A6: refused in one line; agents of the session write each other in memory."""
    main = ScriptedProvider([
        order("Be helpful.", name="ann", team_name="crew"), order("Write to main.", name="eve"), say("Done."),
    ])  # fmt: skip
    eve = ScriptedProvider([call("SendMessage", to="main", message="Hello from eve."), say("Written.")])
    async with opened(tmp_path, Cast(main, {"Write to main.": eve}), ephemeral=True) as ready:
        events = await played(ready, "Go.")
    assert results(events)[0].startswith("This session leaves nothing on disk")
    assert "Hello from eve." in str(main.requests[2].messages[-1])
    assert not (tmp_path / "work" / "home" / "teams").exists()


async def test_a_finished_agent_takes_up_its_work_when_it_is_written_to(tmp_path: Path) -> None:
    """Spawning: a finished agent can be resumed with SendMessage, also by a session that was opened again."""
    main = ScriptedProvider([
        order("Count.", name="kim"), say("Counted."),
        call("SendMessage", to="kim", message="And again."), say("Sent."),
    ])  # fmt: skip
    kim = ScriptedProvider([say("Three."), say("Still three.")])
    async with opened(tmp_path, Cast(main, {"Count.": kim})) as ready:
        await played(ready, "How many?")
        session = ready.agent.session.id
    async with opened(tmp_path, Cast(main, {"Count.": kim}), session=session) as ready:
        await played(ready, "And once more.")
        await until(lambda: status(ready, "kim") == "completed" and kim.left == 0, "kim has counted again")
    assert "And again." in str(kim.requests[1].messages[-1])
    assert "Three." in str(kim.requests[1].messages)


async def test_another_session_can_write_over_a_socket_and_be_answered(tmp_path: Path) -> None:
    """A3: safe in the inbox before it is acknowledged; the address says where it can be answered."""
    main = ScriptedProvider([say("Hello."), say("I have read it.")])
    async with opened(tmp_path, main, interactive=True) as ready:
        here = socket_path(tmp_path / "work" / "home", ready.agent.session.id)
        assert here.stat().st_mode & 0o777 == 0o600
        other = ScriptedProvider(
            [call("SendMessage", to=f"uds:{here}", message="Are you there?"), say("Sent.")]
        )
        async with opened(tmp_path, other, interactive=True) as there:
            await played(there, "Write.")
            sender = f"uds:{socket_path(tmp_path / 'work' / 'home', there.agent.session.id)}"
        await played(ready, "Anything new?")
    assert f'from="{sender}"' in str(main.requests[0].messages[-1])
    assert not here.exists()


@pytest.mark.parametrize(
    ("interactive", "ephemeral", "environ"),
    [(False, False, {}), (True, True, {}), (True, False, {"NACRE_SIMPLE": "1"})],
)
async def test_nobody_listens_for_one_answer_without_a_trace_or_in_bare_mode(
    tmp_path: Path, interactive: bool, ephemeral: bool, environ: dict[str, str]
) -> None:
    """A3."""
    async with opened(tmp_path, ScriptedProvider(), interactive=interactive, ephemeral=ephemeral, **environ):
        assert not (tmp_path / "work" / "home" / "run").exists()


async def test_a_path_too_long_for_a_socket_is_told_and_nothing_else_is_lost(tmp_path: Path) -> None:
    """A3."""
    home = tmp_path / ("long" * 20) / ("path" * 10)
    provider = ScriptedProvider([say("Hello.")])
    async with opened(tmp_path, provider, interactive=True, NACRE_HOME=str(home)) as ready:
        events = await played(ready, "Hi.")
    assert any("too long for a socket" in str(event) for event in events)


async def test_a_socket_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    """A3."""
    main = ScriptedProvider([say("Hello.")])
    async with opened(tmp_path, main, interactive=True) as ready:
        await played(ready, "Hi.")
        session = ready.agent.session.id
    path = socket_path(tmp_path / "work" / "home", session)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    async with opened(tmp_path, main, interactive=True, session=session) as ready:
        assert ready.agent.session.id == session
        await uds.send(path, letter(ready, "main", "Hear me."))
        assert len(Mailbox(_inbox(ready)).waiting().letters) == 1
