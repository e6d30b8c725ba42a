"""What an agent works with: its tools behind a guard, the tools of MCP servers, a task list, the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from nacre.agents.knowing import Known
from nacre.agents.mcp_tools import mcp_tools
from nacre.agents.permissions import Learned, policy_of
from nacre.agents.rewind import Rewind
from nacre.agents.session import Session
from nacre.agents.skill_tool import SkillDesk, skill_tool
from nacre.agents.skills import skill_places
from nacre.agents.team_tools import Desk, team_tools
from nacre.errors import ConfigError
from nacre.layers.l2_microcompact.tools import Pinboard, pin_tool
from nacre.layers.l4_compact.tools import Scissors, snip_tool
from nacre.layers.l7_mail.task_tools import TaskDesk, team_tasks_tool
from nacre.layers.l7_mail.tools import PostDesk, send_message_tool
from nacre.mcp_client import Servers, parse_servers
from nacre.messages.records import Noted
from nacre.settings import Settings
from nacre.tools import default_tools
from nacre.tools.base import Tool
from nacre.tools.bash import BashSettings
from nacre.tools.guard import Ask, Guard
from nacre.tools.policy import WILD, WRITTEN_OUT
from nacre.tools.rules import Rule
from nacre.tools.tasks import Task, TaskBoard, restored, stored, task_list_tool
from nacre.tools.web_fetch import web_fetch_tool
from nacre.tools.workspace import Workspace

TASKS = "tasks"
"""The kind of note that holds the task list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desks:
    """Where tools put what belongs to a session; each is bound to one later, because tools come first."""

    pins: Pinboard = field(default_factory=Pinboard)
    scissors: Scissors = field(default_factory=Scissors)
    skills: SkillDesk | None = None
    crew: Desk = field(default_factory=Desk)
    post: PostDesk = field(default_factory=PostDesk)
    team_tasks: TaskDesk = field(default_factory=TaskDesk)


@dataclass(frozen=True, slots=True)
class Hands:
    """Tools and all that belongs to them."""

    workspace: Workspace
    guard: Guard
    board: TaskBoard = field(default_factory=TaskBoard)
    tools: list[Tool] = field(default_factory=list)
    notices: Notices = field(default_factory=lambda: Notices())
    """Problems with tools: collected until a session takes them."""
    pins: Pinboard = field(default_factory=Pinboard)
    scissors: Scissors = field(default_factory=Scissors)
    skills: SkillDesk | None = None
    """None where they are switched off."""
    crew: Desk = field(default_factory=Desk)
    """Where orders for other agents go."""
    post: PostDesk = field(default_factory=PostDesk)
    """Where letters to other agents go."""
    team_tasks: TaskDesk = field(default_factory=TaskDesk)

    def with_memory(self, known: Known) -> list[Tool]:
        """The tools with those of memory, whose directory may be read and changed without a question."""
        if known.memory is not None:
            known.own(self.workspace)
            directory = known.memory.location.directory
            pattern = f"//{str(directory).lstrip('/')}/**"
            rules = [Rule("allow", "Read", pattern, "memory"), Rule("allow", "Edit", pattern, "memory")]
            self.guard.policy = self.guard.policy.with_rules(rules)
        return [*self.tools, *self.guard.stand_before(known.tools)]

    def open_to(self, folders: Iterable[Path]) -> None:
        """Let tools work in these folders without a question, as part of the session's own business."""
        policy = self.guard.policy
        # Where they really are, because that is what the guard compares.
        new = sorted({folder.resolve() for folder in folders} - set(policy.directories))
        self.guard.policy = replace(policy, directories=(*policy.directories, *new))

    def allow(self, place: Path, *, tools: Iterable[str], why: str) -> None:
        """Let these tools have a file, or all in a folder, without a question; what is denied stays so.

        The place is the real one: a link planted there leads to what is judged by itself.
        """
        # The very place is meant: `[id]` is a name here and no set of letters.
        pattern = f"//{WILD.sub(WRITTEN_OUT, str(place).lstrip('/'))}"
        self.guard.policy = self.guard.policy.with_rules(Rule("allow", name, pattern, why) for name in tools)

    def belong_to(self, session: Session, folder: Path | None) -> Rewind:
        """Tie the task list and the files before a change to a session, whose log then holds them."""
        self.notices.forward_to(partial(session.notify, level="warning"))
        notes = session.view.noted(TASKS)
        self.board.tasks = restored(notes[-1].fact("tasks")).tasks if notes else ()

        async def keep(tasks: tuple[Task, ...]) -> None:
            note = Noted(
                id=session.clock.new_id(), at=session.clock.now(), kind=TASKS, facts={"tasks": stored(tasks)}
            )
            await session.transcript.append(note)

        self.board.changed = keep
        self.pins.belong_to(session.transcript, session.clock)
        if self.skills is not None:
            let_read = partial(self.allow, tools=["Read"], why="a skill that was loaded")
            self.skills.belong_to(session.transcript, session.clock, let_read)
        rewind = Rewind(session.transcript, session.clock, folder=folder)
        self.workspace.before_change = rewind.keep
        return rewind


async def take_up(
    settings: Settings, stack: AsyncExitStack, *, ask: Ask | None = None, keeps: bool = True
) -> Hands:
    """Get everything ready; what was started ends with the stack."""
    workspace = Workspace(settings.cwd)
    stack.push_async_callback(workspace.close)
    learned = Learned(settings.home, settings.project_root)
    notices = Notices()
    learn = _learn_or_report(learned.add, notices.add) if keeps else None
    guard = Guard(policy_of(settings, learned), workspace, ask=ask, learn=learn)
    places = skill_places(settings)
    skills = SkillDesk(places, on_notice=notices.add) if settings.switches.skills else None
    board, desks = TaskBoard(), Desks(skills=skills)
    tools = own_tools(settings, workspace, board, desks)
    if settings.mcp_servers:
        configured = parse_servers(settings.mcp_servers, environ=settings.environ)
        servers = Servers(configured, on_notice=notices.add)
        await stack.enter_async_context(servers)
        tools += mcp_tools(servers)
    return hands_of(workspace, guard, board, desks, guard.stand_before(tools), notices)


def hands_of(
    workspace: Workspace,
    guard: Guard,
    board: TaskBoard,
    desks: Desks,
    tools: list[Tool],
    notices: Notices | None = None,
) -> Hands:
    """Tools that were built for these desks, with them."""
    pins, scissors, skills, crew = desks.pins, desks.scissors, desks.skills, desks.crew
    post, tasks = desks.post, desks.team_tasks
    return Hands(
        workspace, guard, board, tools, notices or Notices(), pins, scissors, skills, crew, post, tasks
    )


def own_tools(
    settings: Settings, workspace: Workspace, board: TaskBoard, desks: Desks | None = None
) -> list[Tool]:
    """The tools every session has, without those of MCP servers; one for skills where there are any."""
    desks = desks or Desks()
    tools = [*default_tools(workspace, bash=_bash(settings)), task_list_tool(board)]
    if settings.microcompact.pin_tool:
        tools.append(pin_tool(desks.pins))
    if settings.switches.snip:
        tools.append(snip_tool(desks.scissors))
    if settings.switches.skills:
        skills = desks.skills or SkillDesk(skill_places(settings))
        tools += [skill_tool(skills)] if skills.look() else []
    if settings.switches.agents:
        tools += [
            *team_tools(desks.crew),
            send_message_tool(desks.post),
            team_tasks_tool(desks.team_tasks),
        ]
    return [*tools, web_fetch_tool()] if settings.switches.web_fetch else tools


class Notices:
    """Lines for the person: collected until a session takes them, then passed on at once."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._forward: Callable[[str], None] | None = None

    def add(self, line: str) -> None:
        if self._forward is not None:
            self._forward(line)
        elif line not in self._lines:
            self._lines.append(line)

    def take(self) -> tuple[str, ...]:
        """What was collected, once."""
        taken, self._lines = self._lines, []
        return tuple(taken)

    def forward_to(self, notify: Callable[[str], None]) -> None:
        """Pass later lines on; what was collected waits for `take`."""
        self._forward = notify


def _learn_or_report(learn: Callable[[Rule], None], report: Callable[[str], None]) -> Callable[[Rule], None]:
    """A permission that cannot be saved holds for the session and is reported."""

    def try_learn(rule: Rule) -> None:
        try:
            learn(rule)
        except ConfigError as error:
            report(f"{rule.text} is allowed in this session only: {error}")

    return try_learn


def _bash(settings: Settings) -> BashSettings:
    usual, given = BashSettings(), settings.tools
    return BashSettings(
        seconds=given.timeout_seconds or usual.seconds,
        max_seconds=given.max_timeout_seconds or usual.max_seconds,
    )
