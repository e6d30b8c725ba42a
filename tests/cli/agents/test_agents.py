"""`nacre agents`: who works, letters to them, and their end, through the real program."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nacre.agents.registry import AgentState, own_process, write_state
from nacre.agents.team_roster import Roster, TeamMember, member_here
from nacre.clock import SYSTEM_CLOCK
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox, peek
from nacre.layers.l7_mail.uds import send, serve
from nacre.messages.blocks import Text
from nacre.messages.records import Said
from nacre.process import is_alive, start_time
from nacre.session.log_writer import start
from tests.cli.program import nacre, world


def session(cwd: Path) -> Path:
    """A session of this directory in which something was said; its folder."""

    async def made() -> Path:
        opened = start(cwd / "home", cwd)
        said = Said(id=SYSTEM_CLOCK.new_id(), at=SYSTEM_CLOCK.now(), role="user", blocks=(Text("Hello."),))
        await opened.writer.write([said])
        await opened.writer.close()
        return opened.writer.folder

    return asyncio.run(made())


def working(name: str, number: int = 1, **more: object) -> AgentState:
    """An agent that works in the process of this test."""
    pid, begun = own_process()
    state = AgentState(
        id=f"{number:08d}abc",
        name=name,
        type="explore",
        description="look at the loom",
        doing="Reading loom.py",
        tokens=12_345,
        cost_usd=0.25,
        started=SYSTEM_CLOCK.now() - timedelta(minutes=5),
        pid=pid,
        process_start=begun,
    )
    return replace(state, **more)  # type: ignore[arg-type]


def team(cwd: Path, *names: str) -> Roster:
    """A team led by `lead`, whose members run in the process of this test."""
    roster = Roster(cwd / "home", "weavers")
    roster.create(member_here("lead", cwd=str(cwd)))
    for name in names:
        roster.join(member_here(name, agent_type="explore", cwd=str(cwd)))
    return roster


@contextmanager
def child(roster: Roster, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A member that is a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        roster.join(replace(member_here(name), pid=process.pid, start=start_time(process.pid)))
        yield process
    finally:
        process.kill()
        process.wait()


def letter(text: str, number: int = 1) -> Letter:
    return Letter(id=str(number), sender="main", to="bob", text=text, summary=text, at=datetime.now(UTC))


def test_agents_and_teams_are_listed_with_what_they_do(tmp_path: Path) -> None:
    """Agents that work or ended lately; teams with their people, letters and tasks."""
    folder = session(tmp_path)
    write_state(folder, working("explorer"))
    write_state(folder, working("dead", 2, pid=999_999_999, doing="Reading x"))
    long_ago = SYSTEM_CLOCK.now() - timedelta(days=3)
    write_state(folder, working("old", 3, status="completed", started=long_ago))
    roster = team(tmp_path, "bob")
    roster.tasks.add("weave")
    Mailbox(roster.inbox_path("bob")).put(letter("Look."))
    shown = nacre(tmp_path, "agents", "list")
    assert shown.returncode == 0, shown.stderr
    rows = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert f"explorer 00000001 explore running 5 min 12.3k $0.2500 {folder.name[:8]} Reading loom.py" in rows
    assert f"dead 00000002 explore stopped 5 min 12.3k $0.2500 {folder.name[:8]} look at the loom" in rows
    assert not any(row.startswith("old ") for row in rows)
    assert "team weavers: 1 open, 0 in progress, 0 done" in rows
    assert "lead lead alive now -" in rows
    assert "bob explore alive now 1 letter waiting" in rows


def test_the_list_as_json_is_one_document(tmp_path: Path) -> None:
    folder = session(tmp_path)
    write_state(folder, working("explorer"))
    team(tmp_path, "bob")
    told = json.loads(nacre(tmp_path, "agents", "list", "--json").stdout)
    (one,) = told["agents"]
    assert (one["name"], one["status"], one["doing"], one["tokens"], one["cost_usd"], one["session"]) == (
        "explorer", "running", "Reading loom.py", 12_345, 0.25, folder.name,
    )  # fmt: skip
    (weavers,) = told["teams"]
    assert [(each["name"], each["alive"], each["waiting"]) for each in weavers["members"]] == [
        ("lead", True, 0),
        ("bob", True, 0),
    ]
    assert weavers["tasks"] == {"pending": 0, "in_progress": 0, "completed": 0}


def test_agents_of_other_directories_are_listed_when_asked_for(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    write_state(session(there), working("explorer"))
    homes = {"NACRE_HOME": str(there / "home")}
    nothing = nacre(here, "agents", "list", **homes)
    assert nothing.returncode == 0
    assert "--all looks in every directory" in nothing.stdout
    assert "explorer" in nacre(here, "agents", "list", "--all", **homes).stdout


def test_a_letter_reaches_the_inbox_of_an_agent_and_is_shown_without_being_taken(tmp_path: Path) -> None:
    """A3: by name or the beginning of an id; from stdin as well."""
    folder = session(tmp_path)
    write_state(folder, working("explorer"))
    sent = nacre(tmp_path, "agents", "send", "explorer", "Look at the loom.\nThen stop.")
    assert (sent.returncode, sent.stderr) == (0, "")
    assert sent.stdout.startswith("sent to explorer (00000001 of session")
    piped = subprocess.run(
        [sys.executable, "-m", "nacre", "agents", "send", "00000001", "-", "--summary", "more"],
        cwd=tmp_path, env=world(tmp_path), input="And \x1b[31mthis.", text=True, check=False,
    )  # fmt: skip
    assert piped.returncode == 0
    box = Mailbox(folder / "inboxes" / "explorer.jsonl")
    assert [(each.sender, each.summary) for each in box.waiting().letters] == [
        ("other:terminal", "Look at the loom."),
        ("other:terminal", "more"),
    ]
    shown = nacre(tmp_path, "agents", "inbox", "explorer").stdout
    assert "waiting · other:terminal · now: Look at the loom.\n  Look at the loom.\n  Then stop.\n" in shown
    assert "\x1b" not in shown
    assert len(box.waiting().letters) == 2
    box.settle(box.waiting().position)
    assert "No message waits for explorer" in nacre(tmp_path, "agents", "inbox", "explorer").stdout
    told = json.loads(nacre(tmp_path, "agents", "inbox", "explorer", "--all", "--json").stdout)
    assert [(each["summary"], each["waiting"]) for each in told] == [
        ("Look at the loom.", False),
        ("more", False),
    ]


def test_a_team_is_written_to_one_by_one_or_as_a_whole(tmp_path: Path) -> None:
    """A3: `*` is every member but the sender; a member that is gone finds its letter later."""
    roster = team(tmp_path, "bob")
    roster.join(TeamMember(name="gone", pid=999_999_999, start="x", host=member_here("x").host))
    all_of_them = nacre(tmp_path, "agents", "send", "*", "Stop.", "--team", "weavers", "--from", "bob")
    assert all_of_them.stdout == "sent to lead, gone (team weavers)\n", all_of_them.stderr
    one = nacre(tmp_path, "agents", "send", "gone", "Really.", "--from", "bob")
    assert one.returncode == 0
    assert "gone is not running; the message waits" in one.stderr
    waiting = peek(roster.inbox_path("gone")).waiting
    assert [(each.sender, each.text) for each in waiting] == [("bob", "Stop."), ("bob", "Really.")]


def test_a_session_that_listens_at_a_socket_is_written_to(tmp_path: Path) -> None:
    """A3: `uds:` and a path."""
    folder = tmp_path / "sockets"
    folder.mkdir(mode=0o700)

    async def listened() -> list[Letter]:
        came: list[Letter] = []

        async def accept(one: Letter) -> None:
            came.append(one)

        async with serve(folder / "a", accept):
            done = await asyncio.to_thread(nacre, tmp_path, "agents", "send", f"uds:{folder / 'a'}", "Hello.")
            assert done.returncode == 0, done.stderr
        return came

    assert [(each.sender, each.text) for each in asyncio.run(listened())] == [("other:terminal", "Hello.")]


def test_who_is_not_there_or_not_clear_is_said_in_one_line(tmp_path: Path) -> None:
    one, two = session(tmp_path), session(tmp_path)
    write_state(one, working("explorer"))
    write_state(two, working("explorer", 2))
    for args, code, words in (
        (("send", "explorer", "hi"), 1, "'explorer' can mean 2: 0000000"),
        (("send", "explorre", "hi"), 1, "did you mean explorer?"),
        (("send", "bob", "hi", "--team", "weavers"), 1, "there is no team 'weavers'; a chat begins one"),
        (("send", "*", "hi"), 2, "name it with --team"),
        (("send", "explorer", " "), 2, "is empty"),
        (("send", "ftp:x", "hi"), 1, "is no address"),
        (("send", "00000002", "hi", "--from", "person"), 1, "reserved"),
        (("inbox", "main"), 1, "'main' can mean 2: session"),
        (("stop", "nobody-4"), 1, "there is no agent"),
        (("stop", "00000002", "--now"), 1, "runs inside its session"),
        (("stop", one.name), 1, "leave it with Ctrl-D"),
    ):
        done = nacre(tmp_path, "agents", *args)
        assert done.returncode == code, (args, done)
        assert words in done.stderr, (args, done.stderr)
        assert done.stderr.count("\n") == 1


def test_where_nobody_is_the_list_of_all_agents_is_named(tmp_path: Path) -> None:
    done = nacre(tmp_path, "agents", "send", "nobody", "hi")
    assert done.returncode == 1
    assert done.stderr == (
        "nacre: there is no agent 'nobody' here; `nacre agents list --all` shows those of every directory\n"
    )


def test_the_beginning_of_a_sessions_id_means_the_session_itself(tmp_path: Path) -> None:
    """So does `main` where there is one session; whether it is open nobody here knows, so nothing is said."""
    folder = session(tmp_path)
    for number, name in enumerate((folder.name[:8], "main"), 1):
        done = nacre(tmp_path, "agents", "send", name, "Look here.")
        assert (done.returncode, done.stderr) == (0, "")
        assert len(peek(folder / "inboxes" / "main.jsonl").waiting) == number


def answering(tmp_path: Path, roster: Roster, *, yes: bool) -> subprocess.CompletedProcess[str]:
    """Ask bob to stop while he answers; who says yes leaves."""
    box = Mailbox(roster.inbox_path("bob"))

    async def bob() -> None:
        with box.wakeup() as wakeup:
            while not (found := box.waiting()).letters:
                await wakeup.wait(5)
        (asked,) = found.letters
        assert (asked.kind, asked.sender[:4]) == ("shutdown_request", "uds:")
        answer = Letter(
            id="answer", sender="bob", to=asked.sender, text="The loom is open." * (not yes), at=asked.at,
            kind="shutdown_response", approves=yes, answers=asked.id,
        )  # fmt: skip
        await send(asked.sender.removeprefix("uds:"), answer)
        if yes:
            member = roster.member("bob")
            assert member is not None
            roster.leave(member)

    async def both() -> subprocess.CompletedProcess[str]:
        done, _ = await asyncio.gather(asyncio.to_thread(nacre, tmp_path, "agents", "stop", "bob"), bob())
        return done

    return asyncio.run(both())


def test_an_agent_is_asked_to_stop_and_what_it_answers_is_said(tmp_path: Path) -> None:
    """A4: it may refuse with a reason, and goes on then."""
    roster = team(tmp_path, "bob")
    refused = answering(tmp_path, roster, yes=False)
    assert (refused.returncode, refused.stderr) == (1, "nacre: bob goes on: The loom is open.\n")
    box = Mailbox(roster.inbox_path("bob"))
    box.settle(box.waiting().position)
    stopped = answering(tmp_path, roster, yes=True)
    assert (stopped.returncode, stopped.stdout) == (0, "bob has stopped\n")


def test_an_agent_that_does_not_work_need_not_be_stopped(tmp_path: Path) -> None:
    write_state(session(tmp_path), working("explorer", status="completed"))
    done = nacre(tmp_path, "agents", "stop", "explorer")
    assert (done.returncode, done.stdout) == (0, "explorer is not running\n")


def test_the_process_of_a_teammate_is_ended_at_once_and_no_other(tmp_path: Path) -> None:
    """A number that was given out again, a shared process and the lead's own are left alone."""
    roster = team(tmp_path, "bob")
    with child(roster, "eve") as process:
        eve = roster.member("eve")
        assert eve is not None
        done = nacre(tmp_path, "agents", "stop", "eve", "--now")
        assert (done.returncode, done.stdout) == (0, "eve has stopped\n"), done.stderr
        assert process.wait(5) != 0
    with child(roster, "ada") as process:
        ada = roster.member("ada")
        assert ada is not None
        roster.leave(ada)
        roster.join(replace(ada, name="liar", start=""))
        lying = nacre(tmp_path, "agents", "stop", "liar", "--now")
        assert "cannot tell process" in lying.stderr
        roster.join(replace(ada, name="late", start="another"))
        assert nacre(tmp_path, "agents", "stop", "late", "--now").stdout == "late is not running\n"
        for name in ("lead", "bob"):
            refused = nacre(tmp_path, "agents", "stop", name, "--now")
            assert refused.returncode == 1
            assert "shares its process" in refused.stderr
        assert process.poll() is None
    assert is_alive(os.getpid())


def test_types_are_listed_with_where_they_come_from(tmp_path: Path) -> None:
    """M26: built in, the person's, the project's; what is wrong with a file is said."""
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    (folder / "weaver.md").write_text(
        "---\nname: weaver\ndescription: Weaves.\ntools: Read, Grep\nmodel: small\n---\n\nWeave.\n"
    )
    (folder / "broken.md").write_text("nothing\n")
    shown = nacre(tmp_path, "agents", "types")
    rows = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert f"weaver small 2 {folder / 'weaver.md'} Weaves." in rows
    assert any(row.startswith("general inherit all built in") for row in rows)
    assert "broken.md: needs a frontmatter" in shown.stderr
    told = {each["type"]: each for each in json.loads(nacre(tmp_path, "agents", "types", "--json").stdout)}
    assert (told["weaver"]["tools"], told["weaver"]["origin"]) == (
        ["Grep", "Read"],
        str(folder / "weaver.md"),
    )
    assert told["general"]["origin"] is None
