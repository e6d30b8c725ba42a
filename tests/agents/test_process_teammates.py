"""What the lead learns from the letters of teammates in processes, whichever of its readers is first."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nacre.agents import process_teammates
from nacre.agents.process_teammates import HELD, REPORT
from nacre.agents.team_roster import Roster
from nacre.agents.tools import AgentRequest
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.errors import MailError
from nacre.layers.l7_mail import mailbox
from nacre.layers.l7_mail.inbox import UnreadLetters
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.settings import load
from nacre.testing import ScriptedProvider, say
from tests.agents.test_team import MODEL, OFF, played, team_of
from tests.stories.scenes import environment

NOTICE = "was woken by messages 10 times without input from you"


@asynccontextmanager
async def lead_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> AsyncIterator[OpenedAgent]:
    """A lead whose teammates' processes do nothing until the block is left."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    idle = tmp_path / "idle"
    idle.write_text("#!/bin/sh\nexec sleep 60\n")
    idle.chmod(0o755)
    settings = load(
        cwd, {**environment(cwd), **OFF, "NACRE_AGENTS_TEAMMATES": "process"}, cli={"model": MODEL}
    )
    provider = ScriptedProvider([say("Hello."), *[say("Yes.")] * 5])
    async with open_agent(settings, provider=provider) as ready:
        await played(ready, "Hi")
        monkeypatch.setattr(sys, "executable", str(idle))  # the test writes their letters
        for name in names:
            order = AgentRequest(prompt="Wait.", name=name, team="crew")
            await ready.toolset.bindings.agents.require().answer(order)
            receive(ready, name)
        yield ready


def crew(ready: OpenedAgent) -> Roster:
    assert ready.mail is not None
    return ready.mail.teams.rosters["crew"]


def receive(ready: OpenedAgent, name: str) -> None:
    """Let a teammate receive its letters."""
    box = Mailbox(crew(ready).inbox_path(name))
    box.settle(box.waiting().position)


def letter_of(ready: OpenedAgent, sender: str, to: str, *, prefix: str = "", answers: str = "") -> Letter:
    clock = ready.agent.session.clock
    id_ = f"{prefix}{clock.new_id()}"
    return Letter(id=id_, sender=sender, to=to, text="Words.", answers=answers, at=clock.now())


def write(ready: OpenedAgent, sender: str, to: str, *, prefix: str = "", answers: str = "") -> str:
    letter = letter_of(ready, sender, to, prefix=prefix, answers=answers)
    Mailbox(crew(ready).inbox_path(to)).put(letter)
    return letter.id


def status(ready: OpenedAgent, name: str) -> str:
    return next(one.status for one in team_of(ready).states() if one.name == name)


def notices(ready: OpenedAgent) -> list[str]:
    return [one.text for one in ready.agent.session.notices() if NOTICE in one.text]


async def until_idle(ready: OpenedAgent, name: str) -> None:
    with anyio.fail_after(20):
        while status(ready, name) != "idle":  # another task reads the report
            await anyio.sleep(0.02)


async def test_a_report_that_the_leads_turn_reads_first_ends_the_run_and_notifies_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the teammate seems to run for ever, and a single prompt waits for it."""
    async with lead_of(tmp_path, monkeypatch, "mate") as ready:
        # The signal for the reader of the inbox is late.
        monkeypatch.setattr(mailbox, "notify", lambda folder: None)
        write(ready, "mate", "main", prefix=HELD)
        assert status(ready, "mate") == "running"
        events = await played(ready, "And?")
        told = [str(event) for event in events if NOTICE in str(event)] + notices(ready)
        assert len(told) == 1
        assert status(ready, "mate") == "idle"


async def test_the_notice_comes_once_if_both_readers_see_the_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lead_of(tmp_path, monkeypatch, "mate") as ready:
        write(ready, "mate", "main", prefix=HELD)
        await until_idle(ready, "mate")
        assert len(notices(ready)) == 1
        events = await played(ready, "And?")
        assert not [event for event in events if NOTICE in str(event)]
        assert notices(ready) == []


async def test_a_report_behind_more_letters_than_are_read_at_once_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lead_of(tmp_path, monkeypatch, "mate") as ready:
        with monkeypatch.context() as late:
            late.setattr(mailbox, "notify", lambda folder: None)  # one signal for all of them
            for _ in range(60):
                write(ready, "friend", "main")
        write(ready, "mate", "main", prefix=HELD)
        await until_idle(ready, "mate")
        assert len(notices(ready)) == 1


async def test_an_inbox_that_could_not_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that holds its lock for long takes no report from the lead."""
    failed: list[str] = []
    waiting = Mailbox.waiting

    def fails_once(self: Mailbox, known: Container[str] = ()) -> UnreadLetters:
        if self.path.stem == "main" and not failed:
            failed.append("once")
            raise MailError("locked")
        return waiting(self, known)

    monkeypatch.setattr(process_teammates, "RETRY_SECONDS", 0.1)
    async with lead_of(tmp_path, monkeypatch, "mate") as ready:
        await anyio.sleep(0.2)  # the first look at the empty inbox is over
        monkeypatch.setattr(Mailbox, "waiting", fails_once)  # no lock is held for that long in a test
        write(ready, "mate", "main", prefix=HELD)
        await until_idle(ready, "mate")
        assert failed
        assert len(notices(ready)) == 1


async def test_teammates_that_answer_each_other_get_one_notice_and_others_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lead_of(tmp_path, monkeypatch, "ping", "pong", "solo") as ready:
        write(ready, "pong", "ping")
        write(ready, "ping", "main", prefix=HELD)
        await until_idle(ready, "ping")
        write(ready, "ping", "pong")
        write(ready, "pong", "main", prefix=HELD)
        await until_idle(ready, "pong")
        assert [line.split()[0] for line in notices(ready)] == ["ping"]
        write(ready, "friend", "solo")
        write(ready, "solo", "main", prefix=HELD)
        await until_idle(ready, "solo")
        assert [line.split()[0] for line in notices(ready)] == ["solo"]
        # One that works again is stopped again with a notice.
        receive(ready, "pong")
        write(ready, "pong", "main", prefix=REPORT)
        write(ready, "friend", "pong")
        write(ready, "pong", "main", prefix=HELD)
        with anyio.fail_after(20):
            while not (told := notices(ready)):
                await anyio.sleep(0.02)
        assert [line.split()[0] for line in told] == ["pong"]


@pytest.mark.parametrize("is_received", [True, False])
async def test_a_teammate_that_has_letters_left_goes_on_after_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_received: bool
) -> None:
    """A single prompt waits for the answer to a letter that came with the last words of a turn."""
    async with lead_of(tmp_path, monkeypatch, "mate") as ready:
        first = write(ready, "main", "mate")
        second = write(ready, "main", "mate")
        if is_received:  # the next turn has begun before the lead reads the report about this one
            receive(ready, "mate")
        write(ready, "mate", "main", prefix=REPORT, answers=first)
        await played(ready, "And?")  # reads the report
        assert status(ready, "mate") == "running"
        receive(ready, "mate")
        write(ready, "mate", "main", prefix=REPORT, answers=second)
        await until_idle(ready, "mate")


async def test_a_report_that_comes_before_the_wake_is_marked_does_not_leave_the_teammate_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lead_of(tmp_path, monkeypatch, "mate") as ready:
        write(ready, "mate", "main", prefix=REPORT)
        await until_idle(ready, "mate")
        waking = ready.mail.waking if ready.mail else None
        assert waking is not None and waking.elsewhere is not None
        sent = write(ready, "main", "mate")
        receive(ready, "mate")
        await waking.elsewhere.hear([letter_of(ready, "mate", "main", prefix=REPORT, answers=sent)])
        await waking.wake("mate")
        assert status(ready, "mate") == "idle"
        write(ready, "main", "mate")
        await waking.wake("mate")
        assert status(ready, "mate") == "running"
