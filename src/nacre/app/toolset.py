"""What an agent works with: its tools behind a guard, the tools of MCP servers, a task list, the way back."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from nacre.agents.tools import team_tasks_tool, team_tools
from nacre.agents.toolset import NoticeQueue, ToolBindings, Toolset, toolset_of
from nacre.app.mcp_tools import mcp_tools
from nacre.app.permissions import Learned, policy_of
from nacre.app.startup_context import StartupContext
from nacre.context.skill_list import SkillRegistry, skill_tool
from nacre.context.skills import SkillFolder
from nacre.errors import ConfigError
from nacre.layers.l2_microcompact.pin_tool import pin_tool
from nacre.layers.l7_mail.send_message import send_message_tool
from nacre.mcp_client import Servers, parse_servers
from nacre.settings import Settings
from nacre.tools import default_tools
from nacre.tools.base import Tool
from nacre.tools.bash import BashSettings
from nacre.tools.guard import Ask, Guard
from nacre.tools.rules import PermissionRule
from nacre.tools.tasks import TaskBoard, task_list_tool
from nacre.tools.web_fetch import web_fetch_tool
from nacre.tools.workspace import Workspace


async def build_toolset(
    settings: Settings, stack: AsyncExitStack, *, ask: Ask | None = None, keeps: bool = True
) -> Toolset:
    """Get everything ready; what was started ends with the stack."""
    workspace = Workspace(settings.cwd)
    stack.push_async_callback(workspace.close)
    learned = Learned(settings.home, settings.project_root)
    notices = NoticeQueue()
    learn = _learn_or_report(learned.add, notices.add) if keeps else None
    guard = Guard(policy_of(settings, learned), workspace, ask=ask, learn=learn)
    places = skill_places(settings)
    skills = SkillRegistry(places, on_notice=notices.add) if settings.switches.skills else None
    board = TaskBoard()
    desks = ToolBindings(skills=skills)
    tools = own_tools(settings, workspace, board, desks)
    if settings.mcp_servers:
        configured = parse_servers(settings.mcp_servers, environ=settings.environ)
        servers = Servers(configured, on_notice=notices.add)
        await stack.enter_async_context(servers)
        tools += mcp_tools(servers)
    return toolset_of(workspace, guard, board, desks, guard.wrap(tools), notices)


def own_tools(
    settings: Settings, workspace: Workspace, board: TaskBoard, desks: ToolBindings | None = None
) -> list[Tool]:
    """The tools every session has, without those of MCP servers; one for skills where there are any."""
    desks = desks or ToolBindings()
    tools = [*default_tools(workspace, bash=_bash(settings)), task_list_tool(board)]
    if settings.microcompact.pin_tool:
        tools.append(pin_tool(desks.pins))
    if settings.switches.skills:
        skills = desks.skills or SkillRegistry(skill_places(settings))
        tools += [skill_tool(skills)] if skills.look() else []
    if settings.switches.agents:
        tools += [
            *team_tools(desks.crew),
            send_message_tool(desks.post),
            team_tasks_tool(desks.team_tasks),
        ]
    return [*tools, web_fetch_tool()] if settings.switches.web_fetch else tools


def _learn_or_report(
    learn: Callable[[PermissionRule], None], report: Callable[[str], None]
) -> Callable[[PermissionRule], None]:
    """A permission that cannot be saved holds for the session and is reported."""

    def try_learn(rule: PermissionRule) -> None:
        try:
            learn(rule)
        except ConfigError as error:
            report(f"{rule.text} is allowed in this session only: {error}")

    return try_learn


def _bash(settings: Settings) -> BashSettings:
    usual = BashSettings()
    given = settings.tools
    return BashSettings(
        seconds=given.timeout_seconds or usual.seconds,
        max_seconds=given.max_timeout_seconds or usual.max_seconds,
    )


def skill_places(settings: Settings) -> tuple[SkillFolder, ...]:
    """Where skills are looked for, the nearest first: from the working directory up to the root, the home."""
    root = settings.project_root
    cwd = settings.cwd
    tree = Path(os.path.realpath(root))
    inner = [one for one in (cwd, *cwd.parents) if one != root and one.is_relative_to(root)]
    project = (SkillFolder(folder / ".claude" / "skills", tree) for folder in (*inner, root))
    return (*project, SkillFolder(settings.home / "skills"))


def with_memory(toolset: Toolset, known: StartupContext) -> list[Tool]:
    """The tools with those of memory, whose directory may be read and changed without a question."""
    if known.memory is not None:
        known.own(toolset.workspace)
        directory = known.memory.location.directory
        pattern = f"//{str(directory).lstrip('/')}/**"
        rules = [
            PermissionRule("allow", "Read", pattern, "memory"),
            PermissionRule("allow", "Edit", pattern, "memory"),
        ]
        toolset.guard.policy = toolset.guard.policy.with_rules(rules)
    return [*toolset.tools, *toolset.guard.wrap(known.tools)]
