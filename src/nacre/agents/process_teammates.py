"""Starts teammates in their own processes, and notices when one has ended (A3).

The task is sent ahead as a letter, so that it survives a crash. A teammate's output goes to a file in the
team's folder; its results go to the lead as letters.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nacre.agents.registry import OVER, AgentRegistry, AgentState, Status
from nacre.agents.teams import Teams
from nacre.agents.tools import AgentRequest
from nacre.errors import MailError, ToolError
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.layer import NOT_DELIVERED, TOO_MANY, TOO_OFTEN
from nacre.layers.l7_mail.letter import MAIN, Letter
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.process import is_alive, start_detached, start_time
from nacre.session.session import Session
from nacre.settings import Settings
from nacre.store import disk

POLL_SECONDS = 2.0
"""Poll interval where the system does not report the end of a process."""
END_SECONDS = 5.0
"""Time for teammates to leave the team when the session ends."""
ROOT = "NACRE_TEAM_ROOT"
DEPTH = "NACRE_TEAM_DEPTH"
"""Variables of a teammate's process: the session at the top, and the teammate's depth below it."""
REPORT = "report-"
"""Prefix of the id of a letter that reports the result of a turn."""
HELD = f"{REPORT}held-"
"""The same for a report that letters woke a teammate too often; the user gets a notice at once."""
GONE = "Its process ended by itself. What it printed last is in {log}; written to again, it is started again."


class ProcessTeammates:
    """The teammates of one session that run in their own processes."""

    def __init__(self, session: Session, settings: Settings, teams: Teams, registry: AgentRegistry) -> None:
        self._session = session
        self._settings = settings
        self._teams = teams
        self._registry = registry
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False
        self._ears: list[asyncio.Task[None]] = []
        registry.on_change.append(self._heed)
        for state in list(registry.states.values()):
            if self.has(state) and state.status not in OVER:
                self._watch(state)

    def has(self, state: AgentState) -> bool:
        """Whether an agent runs, or would run, in its own process."""
        is_apart = state.pid not in {0, os.getpid()} and is_alive(state.pid, state.process_start)
        return state.pattern == "teammate" and (is_apart or self._settings.agents.teammates == "process")

    async def start(self, order: AgentRequest, state: AgentState) -> None:
        """Start a process for a new teammate, whose prompt waits in its mailbox."""
        clock = self._session.clock
        letter = Letter(
            id=clock.new_id(),
            sender=self._teams.name if state.owner == MAIN else state.owner,
            to=state.name,
            text=order.prompt,
            summary=order.description,
            at=clock.now(),
        )
        try:
            await asyncio.to_thread(Mailbox(self._teams.inbox_path(state.team, state.name)).put, letter)
            await self._begin(state)
        except (MailError, OSError) as error:
            self._registry.change(state.name, status="failed", background=False)
            raise ToolError(f"{state.name} was not started: {error}") from error

    async def wake(self, state: AgentState) -> None:
        """Mark a teammate as running after a letter, and restart it if its process has ended."""
        if not is_alive(state.pid, state.process_start):
            await self._begin(state)
        state = self._registry.states[state.name]
        if not state.is_running:
            now = self._session.clock.now()
            self._registry.put(
                replace(state, status="running", run=state.run + 1, told=state.run, started=now)
            )

    def listen(self, inbox: Inbox, known: Callable[[], set[str]]) -> None:
        """Read reports to the lead as they come; the lead itself gets them with its next message."""
        self._ears.append(asyncio.create_task(self._received(inbox, known), name="reports of teammates"))

    async def _received(self, inbox: Inbox, known: Callable[[], set[str]]) -> None:
        seen: set[str] = set()
        with inbox.wakeup() as wakeup:
            while True:
                with suppress(MailError):
                    found = await asyncio.to_thread(inbox.waiting, known() | seen)
                    seen |= {letter.id for letter in found.letters}
                    for letter in found.letters:
                        if letter.id.startswith(REPORT):
                            self._reported(letter.sender)
                        if letter.id.startswith(HELD):
                            why = TOO_MANY if NOT_DELIVERED in letter.text else TOO_OFTEN
                            self._session.notify(why.format(name=letter.sender))
                await wakeup.wait()

    def _reported(self, name: str) -> None:
        """Mark a teammate as reported, because its letter to the lead is the report."""
        state = self._registry.states.get(name)
        if state is not None and name in self._watching and state.is_running:
            self._registry.put(replace(state, status="idle", told=state.run))

    async def close(self) -> None:
        """Stop the processes that this session started; they can be restarted under their names."""
        self._is_closed = True
        for ear in self._ears:
            ear.cancel()
        if self._ears:
            await asyncio.wait(self._ears)
        states = [self._registry.states[name] for name in self._watching]
        for state in states:
            _end(state)
        if self._watching:
            _, late = await asyncio.wait(self._watching.values(), timeout=END_SECONDS)
            for task in late:
                task.cancel()
        for state in states:
            self._registry.change(state.name, status="stopped", told=state.run)

    def _heed(self, state: AgentState) -> None:
        """End the process of a teammate that was stopped."""
        if state.name in self._watching and state.status in {"stopped", "completed"}:
            _end(state)

    async def _begin(self, state: AgentState) -> None:
        pid = await asyncio.to_thread(self._spawned, state)
        self._registry.change(state.name, pid=pid, process_start=start_time(pid))
        self._watch(self._registry.states[state.name])

    def _spawned(self, state: AgentState) -> int:
        command = [sys.executable, "-m", "nacre", "agents", "run", state.name]
        command += ["--team", state.team, "--type", state.type]
        if state.model != self._session.base.model:
            command += ["--model", state.model]
        above = {DEPTH: str(state.depth), ROOT: self._registry.root or self._session.id}
        environ = {**self._settings.environ, **_sent_here(self._settings), **above}
        log = self._log(state)
        disk.make_folder(log.parent)
        output = disk.open_regular(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            # Detached: it is watched like one that an earlier process started.
            return start_detached(command, cwd=self._settings.cwd, environ=environ, output=output)
        finally:
            os.close(output)

    def _log(self, state: AgentState) -> Path:
        return self._teams.inbox_path(state.team, state.name).parent.parent / f"{state.name}.log"

    def _watch(self, state: AgentState) -> None:
        task = asyncio.create_task(self._watched(state), name=f"process of {state.name}")
        self._watching[state.name] = task

    async def _watched(self, state: AgentState) -> None:
        await _gone(state.pid, state.process_start)
        _buried(state.pid)
        del self._watching[state.name]
        now = self._registry.states[state.name]
        if not self._is_closed and now.pid == state.pid and now.status not in OVER:
            gone = GONE.format(log=self._log(state))
            left = await asyncio.to_thread(self._has_left, state)
            status: Status = "completed" if left else "failed"
            told = now.run if left else now.run - 1
            self._registry.put(replace(now, status=status, result=gone, doing="", told=told, background=True))

    def _has_left(self, state: AgentState) -> bool:
        """Whether it has left the roster, which it does when it ends normally."""
        with suppress(MailError):
            return self._teams.find(state.name, state.team) is None
        return False


def _sent_here(settings: Settings) -> dict[str, str]:
    """Return environment variables that pass command line settings on to another process."""
    said = {"NACRE_HOME": str(settings.home), "NACRE_MAX_TURNS": str(settings.max_turns)}
    said |= {"NACRE_MODEL": settings.model} if settings.model else {}
    said |= {} if settings.memory.is_on else {"NACRE_DISABLE_AUTO_MEMORY": "1"}
    return said | ({"NACRE_SIMPLE": "1"} if settings.memory.simple else {})


def _buried(pid: int) -> None:
    """Reap an ended child process."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


async def _gone(pid: int, start: str) -> None:
    """Wait until a process has ended."""
    try:
        held = os.pidfd_open(pid)
    except (OSError, AttributeError):
        while is_alive(pid, start):  # noqa: ASYNC110  # no event for the end of another's process
            await asyncio.sleep(POLL_SECONDS)
        return
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    try:
        loop.add_reader(held, over.set)
        await over.wait()
    finally:
        loop.remove_reader(held)
        os.close(held)


def _end(state: AgentState) -> None:
    if is_alive(state.pid, state.process_start):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(state.pid, signal.SIGTERM)
