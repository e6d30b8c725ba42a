"""Teammates in processes of their own: letters through mailboxes, across kill -9 of either side (A5)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from nacre.agents.registry import AgentState
from nacre.agents.team_roster import Roster, member_here
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.clock import SYSTEM_CLOCK
from nacre.devtools.sim import ScriptedReply, Simulator
from nacre.layers.l7_mail.layer import MAX_DELIVERIES, MAX_WAKES
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox, peek
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Notice
from nacre.messages.jsonl import decode
from nacre.messages.view import View
from nacre.session.settings import SpendSettings
from nacre.settings import load
from tests.cli.program import begin, ended, nacre, world
from tests.stories.processes import Sim, begun, eventually, is_running, said, until
from tests.stories.scenes import call, calls

DIES = """
import os, signal, sys
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.cli.main import main

moment = sys.argv.pop(1)
settle, waiting = Mailbox.settle, Mailbox.waiting

def settled(self, place):
    if moment == "settle" and self.path.stem == "ann" and place.offset > 200:
        os.kill(os.getpid(), signal.SIGKILL)
    settle(self, place)

Mailbox.settle = settled
sys.exit(main())
"""
"""The program, killed at the moment when a letter is recorded and its cursor has not moved."""


def home(cwd: Path) -> Path:
    return cwd / "home"


@pytest.fixture
def roster(tmp_path: Path) -> Roster:
    """A team that this very process leads."""
    team = Roster(home(tmp_path), "crew")
    team.create(member_here("main"))
    return team


def write(roster: Roster, to: str, text: str, *, sender: str = "main") -> Letter:
    at, id_ = SYSTEM_CLOCK.now(), SYSTEM_CLOCK.new_id()
    letter = Letter(id=id_, sender=sender, to=to, text=text, summary=text[:40], at=at)
    Mailbox(roster.inbox_path(to)).put(letter)
    return letter


def reports(roster: Roster) -> list[str]:
    return [letter.text for letter in Mailbox(roster.inbox_path("main")).waiting().letters]


@contextmanager
def ann(
    cwd: Path, sim: Sim, *program: str, more: tuple[str, ...] = (), **environ: str
) -> Iterator[subprocess.Popen[str]]:
    """The teammate, until the block is left."""
    process = begin(
        [sys.executable, *(program or ("-m", "nacre")), "agents", "run", "ann", "--team", "crew", *more],
        cwd, world(cwd, **sim.environ(**environ)), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def log_of(roster: Roster, cwd: Path) -> Path:
    member = roster.member("ann")
    assert member is not None
    (path,) = (home(cwd) / "projects").rglob(f"{member.session}.jsonl")
    return path


def shown(path: Path) -> list[str]:
    """The letters that stand in a log, by what its notes say."""
    records = decode(iter(path.read_bytes().splitlines()), session_id=path.stem).records
    return [str(one) for note in View.of(records).noted("mail") for one in note.fact("ids")]  # type: ignore[union-attr]


def test_a_teammate_works_for_each_letter_and_ends_when_a_person_asks(
    tmp_path: Path, sim: Sim, roster: Roster
) -> None:
    """A3, A4: it waits, works, reports, and leaves its team in order."""
    first = write(roster, "ann", "Say one.")
    sim.extend("One.", "Two.")
    with ann(tmp_path, sim) as process:
        eventually(lambda: reports(roster) == ["One."], "a report")
        second = write(roster, "ann", "Say two.")
        eventually(lambda: reports(roster) == ["One.", "Two."], "another report")
        path = log_of(roster, tmp_path)
        done = nacre(tmp_path, "agents", "stop", "ann", "--team", "crew")
        assert (done.returncode, done.stdout) == (0, "ann has stopped\n")
        assert process.wait(30) == 0
    assert [each.name for each in roster.members()] == ["main"]
    assert shown(path) == [first.id, second.id]
    assert "assistant: Two." in said(path)[-2:]


@pytest.mark.slow
def test_letters_wake_a_teammate_ten_times_until_a_person_says_something(
    tmp_path: Path, sim: Sim, roster: Roster
) -> None:
    """A letter that does not wake it waits, is told to the lead, and is delivered with the next wake."""
    sim.extend(*["Done."] * 40)

    def wakes(count: int) -> None:
        for _ in range(count):
            before = len(reports(roster))
            write(roster, "ann", "Again.", sender="bob")
            eventually(lambda: len(reports(roster)) > before, "a report")  # noqa: B023

    write(roster, "ann", "Begin.")
    with ann(tmp_path, sim) as process:
        eventually(lambda: len(reports(roster)) == 1, "a report")
        wakes(10)
        assert reports(roster) == ["Done."] * 11, "what it begins with, and ten letters"
        wakes(2)
        held = "ann: it was woken 10 times without input from the user"
        assert [text.startswith(held) for text in reports(roster)[11:]] == [True, True]
        assert len(sim.log()) == 11, "nothing was asked for letters that do not wake"

        done = nacre(tmp_path, "agents", "send", "ann", "Go on.", "--team", "crew")
        assert done.returncode == 0
        eventually(lambda: reports(roster)[13:] == ["Done."], "a person's letter wakes it")
        delivered = json.dumps(sim.log()[-1]["body"]["messages"][-1])
        assert delivered.count("Again.") >= 2 and "Go on." in delivered

        wakes(9)
        wakes(1)
        assert reports(roster)[-1].startswith(held)
        roster.heard_person()
        wakes(1)
        assert reports(roster)[-1] == "Done."
        process.terminate()
        printed = process.communicate(timeout=30)[0]
    assert printed.count("ann was woken by messages 10 times without input from you") == 2


@pytest.mark.parametrize(
    ("options", "asked"),
    [((), "claude-opus-5-5"), (("--model", "claude-sonnet-5-5"), "claude-sonnet-5-5"),
     (("--model", "small"), "claude-haiku-5-5")],
)  # fmt: skip
def test_a_teammate_has_the_rounds_of_its_kind_and_its_model_unless_another_is_named(
    tmp_path: Path, sim: Sim, roster: Roster, options: tuple[str, ...], asked: str
) -> None:
    """Spawning: as in the session's own process; the lead hears of a turn that came to no end."""
    kinds = tmp_path / ".claude" / "agents"
    kinds.mkdir(parents=True)
    fields = "name: careful\ndescription: a kind\nmodel: claude-opus-5-5\nmaxTurns: 1"
    (kinds / "careful.md").write_text(f"---\n{fields}\n---\nDo it.\n")
    write(roster, "ann", "Look around.")
    sim.extend(calls(call("Bash", command="true")), "One round too many.")
    with ann(tmp_path, sim, "-m", "nacre", more=("--type", "careful", *options)):
        eventually(lambda: reports(roster) != [], "a report")
    assert reports(roster) == ["It came to the end of its rounds (1) before it was done."]
    assert [one["body"]["model"] for one in sim.log()] == [asked]


@pytest.mark.slow
def test_killed_between_delivery_and_settle_nothing_is_lost_and_nothing_comes_twice(
    tmp_path: Path, sim: Sim, roster: Roster
) -> None:
    """A5: kill -9 of the receiver with the letter recorded and the cursor not moved; then a restart."""
    first = write(roster, "ann", "Say one.")
    (tmp_path / "dies.py").write_text(DIES)
    with ann(tmp_path, sim, str(tmp_path / "dies.py"), "settle") as process:
        assert process.wait(30) == -signal.SIGKILL
    path = log_of(roster, tmp_path)
    assert shown(path) == [first.id]
    box = Mailbox(roster.inbox_path("ann"))
    assert [letter.id for letter in box.waiting().letters] == [first.id], "not settled"
    assert not roster.is_alive(roster.members()[1])
    second = write(roster, "ann", "Say two.")
    sim.extend("One.", "Two.")
    with ann(tmp_path, sim):
        eventually(lambda: reports(roster) == ["One.", "Two."], "both reports, each once")
        assert log_of(roster, tmp_path) == path
    assert shown(path) == [first.id, second.id]
    eventually(lambda: Mailbox(roster.inbox_path("ann")).waiting().letters == (), "settled")


def test_killed_in_mid_turn_it_goes_on_and_a_polite_signal_leaves_a_whole_log(
    tmp_path: Path, sim: Sim, roster: Roster
) -> None:
    """A5, Q2: first kill -9 while a command runs, then SIGTERM; the place is free and the tasks are back."""
    roster.tasks.add("mend the roof")
    write(roster, "ann", "Wait for long.")
    sim.extend(calls(call("TeamTasks", action="claim")), calls(call("Bash", command="touch begun; sleep 60")))
    with ann(tmp_path, sim) as process:
        eventually((tmp_path / "begun").exists, "it is at work")
        process.kill()
        process.wait(30)
    path = log_of(roster, tmp_path)
    sim.extend(calls(call("Bash", command="touch again; sleep 60")))
    with ann(tmp_path, sim) as process:
        eventually((tmp_path / "again").exists, "it goes on")
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM
    assert roster.member("ann") is None
    assert [task.state for task in roster.tasks.list().tasks] == ["pending"]
    assert len(shown(path)) == 1
    said(path)


def test_a_name_that_is_held_is_refused_in_one_line(tmp_path: Path, sim: Sim, roster: Roster) -> None:
    """A6: so are an unknown team, an unknown kind and a name that is no name."""
    roster.join(member_here("ann"))
    for args, why in (
        (("ann", "--team", "crew"), "is taken in team crew"),
        (("ann", "--team", "other"), "there is no team 'other'; there is crew"),
        (("bob", "--team", "crew", "--type", "wizard"), "there is no kind of agent named 'wizard'"),
        (("../bob", "--team", "crew"), "cannot be an agent's name"),
        (("bob",), "--team"),
    ):
        done = nacre(tmp_path, "agents", "run", *args, **sim.environ())
        assert done.returncode != 0
        assert why in done.stderr
        assert done.stderr.count("\n") == 1


def test_who_begins_without_a_lead_is_told_that_nobody_reads_its_reports(
    tmp_path: Path, sim: Sim, roster: Roster
) -> None:
    """A6: a team outlives the session that began it."""
    lead = roster.member("main")
    assert lead is not None
    roster.leave(lead)
    with ann(tmp_path, sim) as process:
        until(process.stdout, lambda line: "crew has no lead now; reports of ann wait" in line)
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "joined", "refusal"),
    [
        ({"NACRE_AGENTS_MAX_DEPTH": "2"}, ["main", "lvl1", "lvl2"], "no more than 2 deep"),
        (
            {"NACRE_AGENTS_MAX_DEPTH": "9", "NACRE_AGENTS_MAX_AT_ONCE": "2"},
            ["main", "lvl1", "lvl2"],
            "2 agents are at work, which is the most",
        ),
    ],
)
async def test_limits_on_agents_hold_across_the_processes_of_teammates(
    tmp_path: Path, limit: dict[str, str], joined: list[str], refusal: str
) -> None:
    """Each teammate starts the next one in a process of its own, until one of them is refused."""
    answers: list[str] = []

    async def chain(body: JsonObject) -> ScriptedReply:
        messages = body["messages"]
        assert isinstance(messages, list)
        if "tool_result" in str(messages[-1]):
            answers.append(str(messages[-1]))
            return ScriptedReply(content=({"type": "text", "text": "Done."},))
        level = max(map(int, re.findall(r"LEVEL (\d)", str(messages))))
        order = {"description": "go on", "prompt": f"LEVEL {level + 1}", "name": f"lvl{level}"}
        start: JsonObject = {"type": "tool_use", "name": "Agent", "input": {**order, "team_name": "crew"}}
        return ScriptedReply(content=(start,))

    async with Simulator(source=chain) as sim:
        environ = {**Sim(sim.url).environ(), **limit, "NACRE_AGENTS_TEAMMATES": "process"}
        settings = load(tmp_path, world(tmp_path, **environ))
        async with open_agent(settings) as ready:
            with anyio.fail_after(60):
                async for _ in ready.agent.stream("LEVEL 1"):
                    pass
                while not any(refusal in one for one in answers) and len(answers) < len(joined) + 1:
                    await anyio.sleep(0.05)  # the teammates work in processes of their own
            assert refusal in answers[-1]
            assert [one.name for one in Roster(settings.home, "crew").members()] == joined


@pytest.mark.slow
async def test_an_agent_that_a_teammate_started_reports_to_it_and_a_single_prompt_ends(
    tmp_path: Path,
) -> None:
    """The report reaches who waits for it, through two processes, and then the person."""
    team: JsonObject = {"description": "go on", "team_name": "crew"}

    async def answer(body: JsonObject) -> ScriptedReply:
        messages = body["messages"]
        assert isinstance(messages, list)
        said, last = str(messages), str(messages[-1])
        has_word = "pearl" in said
        if "Say the word" in said and "Ask below" not in said:
            text = "The word is pearl."
        elif "tool_result" in last or has_word:
            text = "Heard: pearl." if has_word else "Wait."
        else:
            order = {"prompt": "Ask below.", "name": "middle"}
            if "Ask below" in said:
                order = {"prompt": "Say the word.", "name": "bottom"}
            start: JsonObject = {"type": "tool_use", "name": "Agent", "input": {**team, **order}}
            return ScriptedReply(content=(start,))
        return ScriptedReply(content=({"type": "text", "text": text},))

    async with Simulator(source=answer) as sim:
        environ = {**Sim(sim.url).environ(), "NACRE_NOTES": "0", "NACRE_AGENTS_TEAMMATES": "process"}
        environ["NACRE_TOOLS_DEFERRED"] = "0"
        done = await anyio.to_thread.run_sync(partial(nacre, tmp_path, "-p", "Find out.", **environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Heard: pearl.\n"


@pytest.mark.slow
async def test_a_teammate_is_woken_by_letters_in_a_team_that_it_leads(tmp_path: Path, roster: Roster) -> None:
    """Its inbox there is as good as the one in the team that it is a member of."""
    order: JsonObject = {"description": "wait", "prompt": "Be bob.", "name": "bob", "team_name": "own"}
    start: JsonObject = {"type": "tool_use", "name": "Agent", "input": order}

    async def answer(body: JsonObject) -> ScriptedReply:
        messages = body["messages"]
        assert isinstance(messages, list)
        said, last = str(messages), str(messages[-1])
        if "Start bob." in said and "tool_result" not in said:
            return ScriptedReply(content=(start,))
        text = "Noted." if "Start bob." in said else "Twice." if "Again." in last else "Once."
        return ScriptedReply(content=({"type": "text", "text": text},))

    def play(sim: Sim) -> None:
        write(roster, "ann", "Start bob.")
        with ann(tmp_path, sim, NACRE_AGENTS_TEAMMATES="process", NACRE_TOOLS_DEFERRED="0"):
            own = Roster(home(tmp_path), "own")
            eventually(lambda: "Once." in _words(own, "ann"), "a first report")
            eventually(lambda: len(reports(roster)) == 2, "ann was told and has reported")
            write(own, "bob", "Again.", sender="ann")
            eventually(lambda: len(reports(roster)) == 3, "ann was woken")

    async with Simulator(source=answer) as sim:
        await anyio.to_thread.run_sync(partial(play, Sim(sim.url)))


def _words(roster: Roster, name: str) -> list[str]:
    found = peek(roster.inbox_path(name))
    return [letter.text for letter in (*found.received, *found.waiting)]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in-process", "process"])
async def test_two_teammates_told_to_answer_each_other_for_ever_stop_with_one_notice(
    tmp_path: Path, where: str
) -> None:
    """Letters reach each of them so often at most, in one process and in processes of their own."""
    limits = (
        "was woken by messages 10 times without input from you",
        "received messages 30 times without input from you",  # if they answer while the other one works
    )
    asked = {"ping": 0, "pong": 0}
    orders = [
        {"description": "play", "prompt": f"Be {name}.", "name": name, "team_name": "crew"} for name in asked
    ]
    start: list[JsonObject] = [{"type": "tool_use", "name": "Agent", "input": {**one}} for one in orders]

    async def answer(body: JsonObject) -> ScriptedReply:
        messages = body["messages"]
        assert isinstance(messages, list)
        said, last = str(messages), str(messages[-1])
        name = next((one for one in asked if f"Be {one}." in said and "Let them play" not in said), "")
        if not name:
            wants_start = "tool_result" not in last
            return ScriptedReply(content=tuple(start) if wants_start else ({"type": "text", "text": "Go."},))
        other = next(one for one in asked if one != name)
        if "there is no agent" in last:
            await anyio.sleep(0.5)  # the other one's process begins
        else:
            asked[name] += 1
        # A letter that comes with a tool result is answered, too.
        is_written_to = f'from="{other}"' in last
        has_sent = "tool_result" in last and "there is no agent" not in last and not is_written_to
        send: JsonObject = {"to": other, "message": "Answer me."}
        call: JsonObject = {"type": "tool_use", "name": "SendMessage", "input": send}
        return ScriptedReply(content=({"type": "text", "text": "Sent."} if has_sent else call,))

    async with Simulator(source=answer) as sim:
        environ = {**Sim(sim.url).environ(), "NACRE_NOTES": "0", "NACRE_AGENTS_TEAMMATES": where}
        environ["NACRE_TOOLS_DEFERRED"] = "0"
        settings = load(tmp_path, world(tmp_path, **environ))
        async with open_agent(settings) as ready:
            told: list[str] = []
            with anyio.fail_after(120):
                events = [event async for event in ready.agent.stream("Let them play.")]
                told += [one.text for one in events if isinstance(one, Notice)]
                before = -1
                while before != sum(asked.values()) or not any(
                    one in line for one in limits for line in told
                ):
                    before = sum(asked.values())
                    await anyio.sleep(1.5)
                    told += [one.text for one in ready.agent.session.notices()]
        assert sum(one in line for one in limits for line in told) == 1, told
        assert max(asked.values()) >= 10
        # The first request, one for each delivery, and the last one of each turn.
        assert sum(asked.values()) <= 2 * (1 + MAX_DELIVERIES + 1 + MAX_WAKES)


@pytest.mark.slow
async def test_processes_of_teammates_count_towards_the_limits_of_the_session_at_the_top(
    tmp_path: Path,
) -> None:
    """F5: two teammates that never end share one limit; one notice, and their cost is shown as theirs."""
    orders = [{"description": "work", "prompt": f"Be {name}.", "name": name} for name in ("ann", "bob")]
    start: list[JsonObject] = [
        {"type": "tool_use", "name": "Agent", "input": {**one, "team_name": "crew"}} for one in orders
    ]
    look: JsonObject = {"type": "tool_use", "name": "Glob", "input": {"pattern": "*.nothing"}}

    async def answer(body: JsonObject) -> ScriptedReply:
        messages = body["messages"]
        assert isinstance(messages, list)
        if "Let them work" not in str(messages):
            return ScriptedReply(content=(look,))
        is_started = "tool_result" in str(messages[-1])
        return ScriptedReply(content=({"type": "text", "text": "Go."},) if is_started else tuple(start))

    limit = 150_000
    async with Simulator(source=answer) as sim:
        environ = {**Sim(sim.url).environ(), "NACRE_NOTES": "0", "NACRE_AGENTS_TEAMMATES": "process"}
        settings = load(tmp_path, world(tmp_path, **environ))
        # As a program sets it, which no file says.
        settings = replace(settings, spend=SpendSettings(session_tokens=limit))
        async with open_agent(settings) as ready:
            told: list[str] = []
            with anyio.fail_after(60):
                async for _ in ready.agent.stream("Let them work."):
                    pass
                while not {"ann", "bob"} <= {one.name for one in team_at_rest(ready)}:
                    await anyio.sleep(0.1)
                    told += [one.text for one in ready.agent.session.notices()]
            spending = ready.background.spending
            assert spending is not None
            await spending.settle()
            assert limit <= spending.total.tokens < limit + 60_000, "a request of each may be on its way"
            assert sum("spend.sessionTokens (150,000)" in line for line in told) == 1, told
            states = {one.name: one for one in ready.team.states()}  # type: ignore[union-attr]
            session = ready.agent.session
            own = session.meter
    listed = json.loads(nacre(tmp_path, "agents", "list", "--json", **environ).stdout)["agents"]
    shown = {one["name"]: one["tokens"] for one in listed}
    assert shown == {name: one.tokens for name, one in states.items()}
    assert all(tokens > 10_000 for tokens in shown.values())
    assert all(one["cost_usd"] > 0 for one in listed)
    context = json.loads(nacre(tmp_path, "context", session.id, "--json", **environ).stdout)
    assert context["teammates"]["tokens"] == sum(shown.values())
    assert context["cache"]["requests"] == own.requests, "what the session asked itself"
    chat = [sys.executable, "-m", "nacre", "chat", "--resume", session.id]
    cost = ended(chat, tmp_path, world(tmp_path, **environ), given="/cost\n/exit\n").stdout
    assert re.search(r"teammates \(\d+ requests\) +\$\d+\.\d", cost), cost
    assert "session and teammates" in cost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "named"),
    [
        (SpendSettings(turn_tokens=90_000), "spend.turnTokens (90,000)"),
        (SpendSettings(day_tokens=90_000), "spend.dayTokens (90,000)"),
        (SpendSettings(agent_tokens=60_000), "spend.agentTokens (60,000), the limit of one agent"),
        (SpendSettings(turn_usd=0.1, turn_tokens=None), "spend.turnUsd ($0.10)"),
    ],
)
async def test_every_limit_stops_a_teammate_in_a_process_and_says_what_it_stopped(
    tmp_path: Path, limits: SpendSettings, named: str
) -> None:
    """F5: turn, day and one agent; the session is next to this."""
    order: JsonObject = {"description": "work", "prompt": "Be ann.", "name": "ann", "team_name": "crew"}
    start: JsonObject = {"type": "tool_use", "name": "Agent", "input": order}
    look: JsonObject = {"type": "tool_use", "name": "Glob", "input": {"pattern": "*.nothing"}}
    asked = 0

    async def answer(body: JsonObject) -> ScriptedReply:
        nonlocal asked
        messages = body["messages"]
        assert isinstance(messages, list)
        if "Let her work" not in str(messages):
            asked += 1
            return ScriptedReply(content=(look,))
        is_started = "tool_result" in str(messages[-1])
        return ScriptedReply(content=({"type": "text", "text": "Go."} if is_started else start,))

    async with Simulator(source=answer) as sim:
        environ = {**Sim(sim.url).environ(), "NACRE_NOTES": "0", "NACRE_AGENTS_TEAMMATES": "process"}
        environ["NACRE_TOOLS_DEFERRED"] = "0"
        settings = replace(load(tmp_path, world(tmp_path, **environ)), spend=limits)
        async with open_agent(settings) as ready:
            told: list[str] = []
            with anyio.fail_after(60):
                events = [event async for event in ready.agent.stream("Let her work.")]
                told += [one.text for one in events if isinstance(one, Notice)]
                while not any("spend." in line for line in told):
                    await anyio.sleep(0.1)
                    told += [one.text for one in ready.agent.session.notices()]
                before = asked
                await anyio.sleep(1)
            assert asked == before > 0, "nothing is asked any more"
            assert [named in line and "(stopped: ann)" in line for line in told if "spend." in line] == [True]


def team_at_rest(ready: OpenedAgent) -> list[AgentState]:
    """The teammates that spent something and wait."""
    assert ready.team is not None
    return [one for one in ready.team.states() if one.tokens and one.status == "idle"]


@pytest.mark.slow
def test_a_lead_starts_a_process_hears_of_its_work_and_of_its_death(tmp_path: Path, sim: Sim) -> None:
    """Spawning: `agents.teammates: process`; the report is a letter, a death is told once; no orphans."""
    home(tmp_path).mkdir(exist_ok=True)
    (home(tmp_path) / "settings.json").write_text(json.dumps({"agents": {"teammates": "process"}}))
    wanted = {"description": "wait", "prompt": "You say one word.", "name": "ann", "team_name": "crew"}
    start: JsonObject = {"name": "Agent", "input": {**wanted}}
    sim.extend(calls(start), "Started.")
    with begun(tmp_path, "chat", **sim.environ()) as process:
        assert process.stdin is not None
        process.stdin.write("Start ann.\n")
        until(process.stdout, lambda line: "Started." in line)
        roster = Roster(home(tmp_path), "crew")
        eventually(lambda: roster.member("ann") is not None, "ann has joined")
        member = roster.member("ann")
        assert member is not None
        assert member.pid not in {process.pid, os.getpid()}
        sim.extend("Word.")
        eventually(lambda: len(Mailbox(roster.inbox_path("main")).waiting().letters) == 1, "a report")
        os.kill(member.pid, signal.SIGKILL)
        sim.extend("I see.")
        process.stdin.write("And?\n")
        until(process.stdout, lambda line: "I see." in line)
        process.stdin.write("/exit\n")
        process.wait(30)
    told = json.dumps(sim.log()[-1]["body"]["messages"][-1])
    assert "Word." in told
    assert not is_running(member.pid)
