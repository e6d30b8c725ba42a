"""The tools of an agent behind a guard, with its task list, rewind, notices and permission modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from nacre.agents.tools import AgentBinding, TeamTaskBinding
from nacre.context.plan import Plan
from nacre.context.skill_list import SkillRegistry
from nacre.layers.l2_microcompact.pin_tool import Pinboard
from nacre.layers.l7_mail.send_message import MailBinding
from nacre.messages.records import Noted
from nacre.session.rewind import Rewind
from nacre.session.session import Session
from nacre.tools.base import Tool
from nacre.tools.guard import Guard
from nacre.tools.policy import WILD, WRITTEN_OUT, Mode
from nacre.tools.rules import PermissionRule
from nacre.tools.tasks import TASKS, Task, TaskBoard, restored, stored
from nacre.tools.workspace import Workspace

if TYPE_CHECKING:
    from nacre.mcp_client import ServerInstructions


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBindings:
    """Objects that connect tools with a session, which is opened after the tools."""

    pins: Pinboard = field(default_factory=Pinboard)
    skills: SkillRegistry | None = None
    """None if skills are switched off."""
    agents: AgentBinding = field(default_factory=AgentBinding)
    mail: MailBinding = field(default_factory=MailBinding)
    team_tasks: TeamTaskBinding = field(default_factory=TeamTaskBinding)


class NoticeQueue:
    """Notices for the person: collected until a session exists, then forwarded."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._forward: Callable[[str], None] | None = None

    def add(self, line: str) -> None:
        if self._forward is not None:
            self._forward(line)
        elif line not in self._lines:
            self._lines.append(line)

    def take(self) -> tuple[str, ...]:
        """Return and clear the collected notices."""
        taken = self._lines
        self._lines = []
        return tuple(taken)

    def forward_to(self, notify: Callable[[str], None]) -> None:
        """Forward later notices; collected ones wait for `take`."""
        self._forward = notify


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of an agent and what belongs to them."""

    workspace: Workspace
    guard: Guard
    board: TaskBoard = field(default_factory=TaskBoard)
    tools: list[Tool] = field(default_factory=list)
    notices: NoticeQueue = field(default_factory=NoticeQueue)
    """Problems with tools, collected until a session takes them."""
    bindings: ToolBindings = field(default_factory=ToolBindings)
    server_instructions: tuple[ServerInstructions, ...] = ()
    """What MCP servers say about the use of their tools."""

    def open_to(self, folders: Iterable[Path]) -> None:
        """Allow tools to work in these folders without asking."""
        policy = self.guard.policy
        # Resolved, because the guard compares real paths.
        new = sorted({folder.resolve() for folder in folders} - set(policy.directories))
        self.guard.policy = replace(policy, directories=(*policy.directories, *new))

    def allow(self, place: Path, *, tools: Iterable[str], why: str) -> None:
        """Allow these tools a file or folder without asking; denied paths stay denied.

        The path is the real one: what a link inside leads to is judged by its own path.
        """
        # Escaped, because `[id]` is a name here and not a character class.
        pattern = f"//{WILD.sub(WRITTEN_OUT, str(place).lstrip('/'))}"
        self.guard.policy = self.guard.policy.with_rules(
            PermissionRule("allow", name, pattern, why) for name in tools
        )

    def belong_to(self, session: Session, folder: Path | None) -> Rewind:
        """Connect the task list, pins, skills and file backups with a session."""
        self.notices.forward_to(partial(session.notify, level="warning"))
        notes = session.view.noted(TASKS)
        self.board.tasks = restored(notes[-1].fact("tasks")).tasks if notes else ()

        async def keep(tasks: tuple[Task, ...]) -> None:
            note = Noted(
                id=session.clock.new_id(), at=session.clock.now(), kind=TASKS, facts={"tasks": stored(tasks)}
            )
            await session.transcript.append(note)

        self.board.changed = keep
        self.bindings.pins.belong_to(session.transcript, session.clock)
        if self.bindings.skills is not None:
            let_read = partial(self.allow, tools=["Read"], why="a skill that was loaded")
            self.bindings.skills.belong_to(session.transcript, session.clock, let_read)
        rewind = Rewind(session.transcript, session.clock, folder=folder)
        self.workspace.before_change = rewind.keep
        return rewind


PermissionMode: TypeAlias = Literal["ask", "accept edits", "plan", "read only"]
MODES: tuple[PermissionMode, ...] = ("ask", "accept edits", "plan", "read only")
"""What the model may do without a question: the modes of Shift+Tab and `/mode`."""
MEANS: dict[PermissionMode, str] = {
    "ask": "what the settings say: by default you are asked before each change",
    "accept edits": "files of the project are changed without a question",
    "plan": "the model looks around and proposes a plan; nothing is changed",
    "read only": "nothing is changed, and you are not asked",
}
REFUSALS: dict[PermissionMode, str] = {
    "plan": "the chat is in plan mode, so that nothing may be changed before the person accepts a plan",
    "read only": "the chat is in read only mode, so that nothing may be changed now",
}
GO = "Carry out the plan."
"""The message that follows when the person accepts a plan."""


class PermissionModes:
    """The mode of one session; every session begins with what its settings say."""

    def __init__(self, guard: Guard, plan: Plan) -> None:
        self._guard = guard
        self._plan = plan
        self._usual = guard.policy.mode
        self.mode: PermissionMode = "ask"

    def set(self, mode: PermissionMode) -> None:
        """Apply a mode from the next call on; the model is told of plan mode with the next message."""
        self.mode = mode
        self._plan.is_planning = mode == "plan"
        policies: dict[PermissionMode, Mode] = {"ask": self._usual, "accept edits": "acceptEdits"}
        self._guard.policy = replace(
            self._guard.policy, mode=policies.get(mode, "default"), read_only=REFUSALS.get(mode, "")
        )

    def next(self) -> PermissionMode:
        """Apply the mode that follows, and return it."""
        self.set(MODES[(MODES.index(self.mode) + 1) % len(MODES)])
        return self.mode

    async def accept(self, plan: str, mode: PermissionMode) -> None:
        """Keep a plan as that of the session, and leave plan mode."""
        await self._plan.accept(plan)
        self.set(mode)
