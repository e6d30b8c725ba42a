"""Builds the tools of a session behind their guard, with those of MCP servers, and the permission policy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from nacre.agents.tools import team_tasks_tool, team_tools
from nacre.agents.toolset import NoticeQueue, ToolBindings, Toolset, toolset_of
from nacre.app.startup_context import StartupContext
from nacre.context.skill_list import SkillRegistry, skill_tool
from nacre.context.skills import SkillFolder
from nacre.errors import ConfigError, StoreError
from nacre.layers.l2_microcompact.pin_tool import pin_tool
from nacre.layers.l7_mail.send_message import send_message_tool
from nacre.mcp_client import Servers, parse_servers
from nacre.mcp_client.base import McpTool
from nacre.messages.blocks import Json, JsonObject, ToolResult
from nacre.settings import Settings
from nacre.settings.values import ListEntry
from nacre.store import disk
from nacre.store.locks import one_writer
from nacre.tools import default_tools
from nacre.tools.base import Tool
from nacre.tools.bash import BashSettings
from nacre.tools.guard import Ask, Guard
from nacre.tools.policy import PermissionPolicy
from nacre.tools.rules import Effect, PermissionRule, parse_rule
from nacre.tools.tasks import TaskBoard, task_list_tool
from nacre.tools.web_fetch import web_fetch_tool
from nacre.tools.workspace import Workspace


async def build_toolset(
    settings: Settings, stack: AsyncExitStack, *, ask: Ask | None = None, keeps: bool = True
) -> Toolset:
    """Return the tools, guard and task list of a session; closing the stack stops what was started."""
    workspace = Workspace(settings.cwd)
    stack.push_async_callback(workspace.close)
    learned = LearnedPermissions(settings.home, settings.project_root)
    notices = NoticeQueue()
    learn = _learn_or_report(learned.add, notices.add) if keeps else None
    guard = Guard(session_policy(settings, learned), workspace, ask=ask, learn=learn)
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
    """Return nacre's own tools; the one for skills only if there are skills."""
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
    """Return a function that saves a permission; one that cannot be saved is reported and valid this time."""

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
    """Return the folders of skills, nearest first: the working directory up to the root, then the home."""
    root = settings.project_root
    cwd = settings.cwd
    tree = Path(os.path.realpath(root))
    inner = [one for one in (cwd, *cwd.parents) if one != root and one.is_relative_to(root)]
    project = (SkillFolder(folder / ".claude" / "skills", tree) for folder in (*inner, root))
    return (*project, SkillFolder(settings.home / "skills"))


def with_memory(toolset: Toolset, startup: StartupContext) -> list[Tool]:
    """Return the tools with those of memory, and allow access to its directory without a question."""
    if startup.memory is not None:
        startup.own(toolset.workspace)
        directory = startup.memory.location.directory
        pattern = f"//{str(directory).lstrip('/')}/**"
        rules = [
            PermissionRule("allow", "Read", pattern, "memory"),
            PermissionRule("allow", "Edit", pattern, "memory"),
        ]
        toolset.guard.policy = toolset.guard.policy.with_rules(rules)
    return [*toolset.tools, *toolset.guard.wrap(startup.tools)]


def mcp_tools(servers: Servers) -> list[Tool]:
    """Return one tool for each that the servers offered at their start, sorted by name."""
    return [_tool(servers, offered) for offered in servers.tools]


def _tool(servers: Servers, offered: McpTool) -> Tool:
    async def call(arguments: JsonObject) -> ToolResult:
        outcome = await servers.call(offered.wire_name, arguments)
        # The caller knows the id of the call and fills it in.
        return ToolResult("", outcome.parts, outcome.is_error)

    return Tool(
        name=offered.wire_name,
        description=offered.description,
        input_schema=offered.input_schema,
        call=call,
        read_only=offered.read_only,
        max_seconds=None,
    )


FILE = "permissions.json"


class LearnedPermissions:
    """Permissions that the person gave permanently in one project.

    They are in nacre's home, not in the project: a repository must not bring its own permissions.
    """

    def __init__(self, home: Path, project: Path) -> None:
        self._path = home / FILE
        self._project = str(project)

    def rules(self) -> tuple[PermissionRule, ...]:
        return tuple(
            parse_rule(text, "allow", str(self._path)) for text in self._read().get(self._project, [])
        )

    def add(self, rule: PermissionRule) -> None:
        """Save a rule; raises `ConfigError` and changes nothing if the file cannot be read."""
        try:
            with one_writer(self._path):
                saved = self._read()
                texts = saved.get(self._project, [])
                if rule.text in texts:
                    return
                saved[self._project] = [*texts, rule.text]
                text = json.dumps(saved, indent=2, sort_keys=True) + "\n"
                disk.replace_file(self._path, text.encode(), temp_name=f".{FILE}.tmp")
        except StoreError as error:
            raise ConfigError(str(error)) from error
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"{self._path}: cannot be written ({why}); check its permissions") from error

    def _read(self) -> dict[str, list[str]]:
        try:
            value = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{self._path}: cannot be read ({error}); correct it or move it away"
            ) from error
        if not _is_listing(value):
            raise ConfigError(
                f"{self._path}: must hold a list of rules for each project; correct it or move it away"
            )
        return dict(value)


def _is_listing(value: Json) -> bool:
    """Whether the file has a list of rules for each project; other content would be lost by a write."""
    return isinstance(value, dict) and all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in value.values()
    )


def session_policy(settings: Settings, learned: LearnedPermissions) -> PermissionPolicy:
    """Return the policy from the settings and the saved permissions."""
    given = settings.permissions
    return PermissionPolicy(
        root=settings.project_root,
        rules=(
            *_rules("deny", given.deny),
            *_rules("ask", given.ask),
            *_rules("allow", given.allow),
            *learned.rules(),
        ),
        mode=given.default_mode,
        directories=tuple(_directory(each, settings.project_root) for each in given.additional_directories),
    )


def _rules(effect: Effect, listed: tuple[ListEntry, ...]) -> list[PermissionRule]:
    return [parse_rule(each.text, effect, each.origin) for each in listed]


def _directory(listed: ListEntry, root: Path) -> Path:
    return Path(os.path.realpath(root / Path(listed.text).expanduser()))
