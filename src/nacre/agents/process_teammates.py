"""Starts teammates in their own processes, and notices when one has ended (A3).

The task is sent ahead as a letter, so that it survives a crash. A teammate's output goes to a file in the
team's folder; its results go to the lead as letters.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from nacre.agents.registry import OVER, AgentRegistry, AgentState, Status
from nacre.agents.teams import Teams
from nacre.agents.tools import AgentRequest
from nacre.errors import MailError, ToolError
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.layer import NOT_DELIVERED, TOO_MANY, TOO_OFTEN
from nacre.layers.l7_mail.letter import MAIN, Letter
from nacre.layers.l7_mail.mailbox import Mailbox, MailboxContent, peek
from nacre.process import is_alive, start_detached, start_time
from nacre.session.background import AGENT_PURPOSE, Background
from nacre.session.session import Session
from nacre.session.spending import SharedSpend
from nacre.settings import Settings
from nacre.store import disk

POLL_SECONDS = 2.0
"""Poll interval where the system does not report the end of a process."""
RETRY_SECONDS = 30.0
"""The inbox of the lead is read again after this time, in case it could not be read when a letter came."""
END_SECONDS = 5.0
"""Time for teammates to leave the team when the session ends."""
ROOT = "NACRE_TEAM_ROOT"
DEPTH = "NACRE_TEAM_DEPTH"
OWNER = "NACRE_TEAM_OWNER"
"""Variables of a teammate's process: the session at the top, the depth below it, the session that starts
it."""
REPORT = "report-"
"""Prefix of the id of a letter that reports the result of a turn."""
FAILED = f"{REPORT}failed-"
"""The same for a report that a turn failed or came to the end of its rounds."""
HELD = f"{REPORT}held-"
"""The same for a report that letters woke a teammate too often; the user gets a notice at once."""
SPENT = f"{REPORT}spent-"
"""The same for a report that a spending limit stopped a teammate; its text says which."""
GONE = "Its process ended by itself. What it printed last is in {log}; written to again, it is started again."


class ProcessTeammates:
    """The teammates of one session that run in their own processes."""

    def __init__(
        self,
        session: Session,
        settings: Settings,
        teams: Teams,
        registry: AgentRegistry,
        background: Background,
    ) -> None:
        self._session = session
        self._background = background
        self._settings = settings
        self._teams = teams
        self._registry = registry
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False
        self._report_tasks: list[asyncio.Task[None]] = []
        self._heard: set[str] = set()
        """Ids of letters that `hear` has processed."""
        self._reported: dict[str, str] = {}
        """Id of the last letter to each teammate that has reported about all of them."""
        self._held: set[str] = set()
        """Teammates whose last report says that letters woke them too often."""
        registry.on_change.append(self._on_change)
        if background.spending is not None:
            background.spending.on_shared = self._on_shared
        for state in list(registry.states.values()):
            if self.has(state) and state.status not in OVER:
                self._watch(state)

    def has(self, state: AgentState) -> bool:
        """Whether an agent runs, or would run, in its own process."""
        is_apart = state.pid not in {0, os.getpid()} and is_alive(state.pid, state.process_start)
        return state.pattern == "teammate" and (is_apart or self._settings.agents.teammates == "process")

    async def start(self, order: AgentRequest, state: AgentState) -> None:
        """Start a process for a new teammate, whose prompt waits in its mailbox."""
        if (why := self._background.allows(AGENT_PURPOSE)) is not None:
            self._background.notify_once(why, state.name)
            self._registry.change(state.name, status="failed", background=False)
            raise ToolError(f"{state.name} was not started: {why}.")
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
        sent, _ = await asyncio.to_thread(self._letters, state.name)
        state = self._registry.states[state.name]
        # The report about the letter may have come before this call.
        is_reported = sent and sent[-1] == self._reported.get(state.name)
        if not state.is_running and not is_reported:
            now = self._session.clock.now()
            self._registry.put(
                replace(state, status="running", run=state.run + 1, told=state.run, started=now)
            )

    def listen(self, inbox: Inbox, known: Callable[[], set[str]]) -> None:
        """Read reports to the lead as they come; the lead itself gets them with its next message."""
        self._heard |= known()
        task = asyncio.create_task(self._read_reports(inbox), name="reports of teammates")
        self._report_tasks.append(task)

    async def _read_reports(self, inbox: Inbox) -> None:
        with inbox.wakeup() as wakeup:
            while True:
                has_more = False
                with suppress(MailError):
                    found = await asyncio.to_thread(inbox.waiting, frozenset(self._heard))
                    has_more = found.has_more
                    await self.hear(found.letters)
                if self._background.spending is not None:
                    await self._background.spending.settle()
                if not has_more:
                    await wakeup.wait(RETRY_SECONDS)

    async def hear(self, letters: Sequence[Letter]) -> None:
        """Update the state of teammates from letters to the lead, and notify the person; each letter counts
        once.

        Called by the reader of the inbox and by the lead's turn: a turn that is first moves the cursor, and
        the reader does not find the letter any more.
        """
        new = [letter for letter in letters if letter.id not in self._heard]
        self._heard |= {letter.id for letter in new}
        for letter in new:
            if not letter.id.startswith(REPORT):
                continue
            sent, senders = await asyncio.to_thread(self._letters, letter.sender)
            is_over = sent[-1] == letter.answers if letter.answers in sent else not senders
            if is_over or letter.id.startswith((FAILED, HELD, SPENT)):
                self._reported[letter.sender] = sent[-1] if sent else ""
                state = self._registry.states.get(letter.sender)
                if state and state.is_running and letter.sender in self._watching:
                    # The letter to the lead is the report.
                    self._registry.put(replace(state, status="idle", told=state.run))
            if letter.id.startswith(SPENT):
                self._background.notify_once(letter.text, letter.sender)
            if not letter.id.startswith(HELD):
                self._held.discard(letter.sender)
            elif letter.sender not in self._held:
                # One notice for agents that answer each other: the first that was stopped stops the others.
                if not self._held & senders:
                    why = TOO_MANY if NOT_DELIVERED in letter.text else TOO_OFTEN
                    self._session.notify(why.format(name=letter.sender))
                self._held.add(letter.sender)

    def _letters(self, name: str) -> tuple[list[str], set[str]]:
        """Return the ids of the letters to a teammate, and the senders of those that it has not received."""
        state = self._registry.states.get(name)
        found = MailboxContent()
        with suppress(MailError):
            found = peek(self._teams.inbox_path(state.team, name)) if state else found
        ids = [letter.id for letter in (*found.received, *found.waiting)]
        return ids, {letter.sender for letter in found.waiting}

    async def close(self) -> None:
        """Stop the processes that this session started; they can be restarted under their names."""
        self._is_closed = True
        for task in self._report_tasks:
            task.cancel()
        if self._report_tasks:
            await asyncio.wait(self._report_tasks)
        states = [self._registry.states[name] for name in self._watching]
        for state in states:
            _end(state)
        if self._watching:
            _, late = await asyncio.wait(self._watching.values(), timeout=END_SECONDS)
            for task in late:
                task.cancel()
        for state in states:
            self._registry.change(state.name, status="stopped", told=state.run)

    def _on_change(self, state: AgentState) -> None:
        """End the process of a teammate that was stopped."""
        if state.name in self._watching and state.status in {"stopped", "completed"}:
            _end(state)

    def _on_shared(self, shared: SharedSpend) -> None:
        """Show what teammates spent in their own processes."""
        for one in shared.processes.values():
            state = self._registry.states.get(one.name)
            if state is None or one.owner != self._session.id:
                continue
            tokens = one.meter.usage.total
            if (state.tokens, state.cost_usd) != (tokens, one.meter.usd):
                self._registry.change(state.name, tokens=tokens, cost_usd=one.meter.usd)

    async def _begin(self, state: AgentState) -> None:
        if self._background.spending is not None:
            self._background.spending.share()
            await self._background.spending.settle()
        pid = await asyncio.to_thread(self._spawn, state)
        self._registry.change(state.name, pid=pid, process_start=start_time(pid))
        self._watch(self._registry.states[state.name])

    def _spawn(self, state: AgentState) -> int:
        command = [sys.executable, "-P", "-m", "nacre", "agents", "run", state.name]
        command += ["--team", state.team, "--type", state.type]
        if state.model != self._session.base.model:
            command += ["--model", state.model]
        above = {
            DEPTH: str(state.depth),
            ROOT: self._registry.root or self._session.id,
            OWNER: self._session.id,
        }
        environ = {**self._settings.environ, **_variables(self._settings), **above}
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
        with suppress(ChildProcessError):
            os.waitpid(state.pid, os.WNOHANG)  # noqa: ASYNC222 - returns at once; reaps a child process
        del self._watching[state.name]
        now = self._registry.states[state.name]
        if not self._is_closed and now.pid == state.pid and now.status not in OVER:
            gone = GONE.format(log=self._log(state))
            # A teammate that ends normally leaves the roster first.
            has_left = False
            with suppress(MailError):
                has_left = await asyncio.to_thread(self._teams.find, state.name, state.team) is None
            status: Status = "completed" if has_left else "failed"
            told = now.run if has_left else now.run - 1
            self._registry.put(replace(now, status=status, result=gone, doing="", told=told, background=True))


def _variables(settings: Settings) -> dict[str, str]:
    """Return environment variables that pass command line settings on to another process."""
    variables = {"NACRE_HOME": str(settings.home), "NACRE_MAX_TURNS": str(settings.max_turns)}
    if settings.model:
        variables["NACRE_MODEL"] = settings.model
    if settings.thinking:
        variables["NACRE_THINKING"] = settings.thinking
    if not settings.memory.is_on:
        variables["NACRE_DISABLE_AUTO_MEMORY"] = "1"
    if settings.memory.simple:
        variables["NACRE_SIMPLE"] = "1"
    if settings.sandbox.enabled:
        variables["NACRE_SANDBOX_ENABLED"] = "1"
    # A program may have set rules that are in no file; a teammate may not do more than its lead.
    given = settings.permissions
    variables["NACRE_PERMISSIONS_DEFAULT_MODE"] = given.default_mode
    for name, rules in (("DENY", given.deny), ("ASK", given.ask)):
        if rules:
            variables[f"NACRE_PERMISSIONS_{name}"] = json.dumps([one.text for one in rules])
    for name, limit in asdict(settings.spend).items():
        if limit is not None:
            variables[f"NACRE_SPEND_{name.upper()}"] = str(limit)
    return variables


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
