"""Builds the tools of a session behind their guard, with those of MCP servers, and the permission policy."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nacre.agents.tools import AGENT, STOP, team_tasks_tool, team_tools
from nacre.agents.tools import NAME as TEAM_TASKS
from nacre.agents.toolset import NoticeQueue, ToolBindings, Toolset
from nacre.app.sandbox import missing_directories, real_directories, session_sandbox
from nacre.app.startup_context import StartupContext
from nacre.cache.models import profile
from nacre.context.skill_list import SkillRegistry, skill_tool
from nacre.context.skills import SkillFolder
from nacre.errors import ConfigError, StoreError
from nacre.layers.l2_microcompact.pin_tool import pin_tool
from nacre.layers.l7_mail.send_message import NAME as SEND
from nacre.layers.l7_mail.send_message import send_message_tool
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.tokens import estimate_json
from nacre.settings import Settings
from nacre.settings.values import ListEntry
from nacre.store import disk
from nacre.store.locks import one_writer
from nacre.tools import default_tools
from nacre.tools.base import Tool
from nacre.tools.bash import BashSettings
from nacre.tools.guard import Ask, Guard
from nacre.tools.output import ToolOutput
from nacre.tools.policy import PermissionPolicy
from nacre.tools.read import ReadSettings
from nacre.tools.rules import Effect, PermissionRule, parse_rule
from nacre.tools.tasks import TaskBoard, task_list_tool
from nacre.tools.tool_search import SEARCH, tool_search_tool
from nacre.tools.workspace import Workspace

if TYPE_CHECKING:
    from nacre.mcp_client import ServerInstructions, Servers


FROM_SERVERS = "mcp__"
"""Prefix of the names of tools that MCP servers offer."""
MCP_PIECE_CHARS = 1_048_576
"""How much of a server's text is encoded at once."""


async def build_toolset(
    settings: Settings, stack: AsyncExitStack, *, ask: Ask | None = None, keeps: bool = True
) -> Toolset:
    """Return the tools, guard and task list of a session; closing the stack stops what was started."""
    workspace = Workspace(settings.cwd)
    stack.push_async_callback(workspace.close)
    learned = LearnedPermissions(settings.home, settings.project_root)
    notices = NoticeQueue()

    def learn(rule: PermissionRule) -> None:
        try:
            learned.add(rule)
        except ConfigError as error:
            notices.add(f"{rule.text} is allowed in this session only: {error}")

    if settings.sandbox.enabled:
        problem = await asyncio.to_thread(session_sandbox(settings).problem, settings.cwd)
        if problem:
            notices.add(f"Bash is refused because the sandbox is on and does not work: {problem}")
        if absent := missing_directories(settings):
            notices.add(absent)
    policy = session_policy(settings, learned)
    guard = Guard(policy, workspace, ask=ask, learn=learn if keeps else None)
    places = skill_places(settings)
    skills = SkillRegistry(places, on_notice=notices.add) if settings.switches.skills else None
    board = TaskBoard()
    bindings = ToolBindings(skills=skills)
    tools = own_tools(settings, workspace, board, bindings)
    instructions: tuple[ServerInstructions, ...] = ()
    if settings.mcp_servers:
        from nacre.mcp_client import Servers, parse_servers  # noqa: PLC0415 - few projects name servers

        configured = parse_servers(settings.mcp_servers, environ=settings.environ)
        servers = Servers(configured, on_notice=notices.add)
        await stack.enter_async_context(servers)
        tools += mcp_tools(servers, workspace)
        instructions = servers.instructions()
    is_small = settings.profile == "small"
    offered = [one for one in tools if _is_offered(one.name, policy, is_small=is_small)]
    return Toolset(workspace, guard, board, guard.wrap(offered), notices, bindings, instructions)


SMALL_TOOLS = frozenset({"Bash", "Edit", "Read", "Write", "recall", "remember"})
"""The tools for a small window; those of MCP servers, which the user has chosen, are added."""


def _is_offered(name: str, policy: PermissionPolicy, *, is_small: bool) -> bool:
    """Whether a tool is sent to the model."""
    is_known = not is_small or name in SMALL_TOOLS or name.startswith(FROM_SERVERS)
    return is_known and not policy.denies(name)


def own_tools(
    settings: Settings, workspace: Workspace, board: TaskBoard, bindings: ToolBindings | None = None
) -> list[Tool]:
    """Return nacre's own tools; the one for skills only if there are skills."""
    bindings = bindings or ToolBindings()
    usual = BashSettings()
    bash = BashSettings(
        seconds=settings.tools.timeout_seconds or usual.seconds,
        max_seconds=settings.tools.max_timeout_seconds or usual.max_seconds,
        sandbox=session_sandbox(settings) if settings.sandbox.enabled else None,
    )
    given = settings.tools.read_page_chars
    standard = ReadSettings()
    read = ReadSettings(
        tokens=settings.tools.read_tokens or standard.tokens,
        page_chars=standard.page_chars if given is None else given,
    )
    tools = [*default_tools(workspace, bash=bash, read=read), task_list_tool(board)]
    if settings.microcompact.pin_tool:
        tools.append(pin_tool(bindings.pins))
    if settings.switches.skills:
        skills = bindings.skills or SkillRegistry(skill_places(settings))
        tools += [skill_tool(skills)] if skills.look() else []
    if settings.switches.agents:
        tools += [
            *team_tools(bindings.agents),
            send_message_tool(bindings.mail),
            team_tasks_tool(bindings.team_tasks),
        ]
    if settings.switches.web_fetch:
        from nacre.tools.web_fetch import web_fetch_tool  # noqa: PLC0415 - off by default

        tools.append(web_fetch_tool(workspace=workspace))
    return mark_rare(tools)


def skill_places(settings: Settings) -> tuple[SkillFolder, ...]:
    """Return the folders of skills, nearest first: the working directory up to the root, then the home."""
    root = settings.project_root
    cwd = settings.cwd
    tree = Path(os.path.realpath(root))
    inner = [one for one in (cwd, *cwd.parents) if one != root and one.is_relative_to(root)]
    refusal = settings.reading_refusal
    project = (SkillFolder(folder / ".claude" / "skills", tree, refusal) for folder in (*inner, root))
    return (*project, SkillFolder(settings.home / "skills"))


def with_memory(toolset: Toolset, startup: StartupContext, *, is_small: bool = False) -> list[Tool]:
    """Return the tools with those of memory, and allow access to its directory without a question.

    `is_small` leaves out those that a small window has no room for.
    """
    if startup.memory is not None:
        startup.own(toolset.workspace)
        directory = startup.memory.location.directory
        pattern = f"//{str(directory).lstrip('/')}/**"
        rules = [
            PermissionRule("allow", "Read", pattern, "memory"),
            PermissionRule("allow", "Edit", pattern, "memory"),
        ]
        toolset.guard.policy = toolset.guard.policy.with_rules(rules)
    policy = toolset.guard.policy
    return [
        *toolset.tools,
        *toolset.guard.wrap(
            one for one in mark_rare(startup.tools) if _is_offered(one.name, policy, is_small=is_small)
        ),
    ]


RARE = frozenset({AGENT, STOP, SEND, TEAM_TASKS, "correct", "forget", "search_sessions"})
"""Own tools that few sessions call."""
MIN_SERVER_TOKENS = 2_000
"""Estimated tokens of the tools of MCP servers from which on they are deferred, too.

In 20 requests a definition costs about three times its size: one cache write and 19 reads. A search is one
more request, which reads the whole context: 40,000 cached tokens cost as much as 4,000 others. Tools that
somebody chose are called in most sessions, so most sessions pay for a search.
"""
MIN_SAVED_TOKENS = 500
"""Estimated tokens that deferral must save in a request; of rare tools, few sessions pay for a search."""


def mark_rare(tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools, those that few sessions call marked as deferred."""
    return [replace(one, deferred=True) if one.name in RARE else one for one in tools]


def keep_loaded(tools: Iterable[Tool], names: frozenset[str]) -> list[Tool]:
    """Return the tools, these names not deferred."""
    return [replace(one, deferred=False) if one.name in names else one for one in tools]


def with_deferred(
    tools: Sequence[Tool], model: str, settings: Settings, guard: Guard | None = None
) -> list[Tool]:
    """Return the tools and ToolSearch, which loads deferred ones (P12); none is deferred if it does not pay.

    Deferred are tools that are marked, and those of MCP servers.
    """
    wanted = settings.tools.deferred
    servers = [one for one in tools if one.name.startswith(FROM_SERVERS)]
    are_servers_late = wanted is True or _tokens(servers) >= MIN_SERVER_TOKENS
    late = [
        replace(one, deferred=True)
        for one in tools
        if one.deferred or (are_servers_late and one.name.startswith(FROM_SERVERS))
    ]
    plain = [replace(one, deferred=False) if one.deferred else one for one in tools]
    is_taken = any(one.name == SEARCH for one in tools)
    is_denied = guard is not None and guard.policy.denies(SEARCH)
    if not wanted or not late or not profile(model).tool_search or is_taken or is_denied:
        return plain
    search = tool_search_tool(late)
    saved = _tokens(late) - _tokens([search])
    if wanted == "auto" and (saved < MIN_SAVED_TOKENS or _is_behind_gateway(settings)):
        return plain
    names = {one.name for one in late}
    others = [one for one in plain if one.name not in names]
    return [*others, *late, *(guard.wrap([search]) if guard else [search])]


def _tokens(tools: Iterable[Tool]) -> int:
    """Return the estimated size of the definitions."""
    return sum(estimate_json(one.definition) for one in tools)


def _is_behind_gateway(settings: Settings) -> bool:
    """Whether requests to Anthropic go elsewhere first, where `defer_loading` may be refused."""
    host = urlsplit(settings.environ.get("ANTHROPIC_BASE_URL") or "").hostname
    return host is not None and not f".{host}".endswith(".anthropic.com")


def mcp_tools(servers: Servers, workspace: Workspace) -> list[Tool]:
    """Return one tool for each that the servers offered at their start, sorted by name."""

    async def call(name: str, arguments: JsonObject) -> ToolResult:
        outcome = await servers.call(name, arguments)
        if outcome.whole and workspace.opens_output is not None:
            with ToolOutput(workspace.opens_output, head=0, max_bytes=0) as output:
                for start in range(0, len(outcome.whole), MCP_PIECE_CHARS):
                    piece = outcome.whole[start : start + MCP_PIECE_CHARS]
                    output.feed(piece.encode(errors="surrogatepass"))
                output.feed(b"")
                await output.finish()
            note = Text(output.note(outcome.left_out))
            return ToolResult("", (*outcome.parts[:-1], note), outcome.is_error)
        # The caller knows the id of the call and fills it in.
        return ToolResult("", outcome.parts, outcome.is_error)

    return [
        Tool(
            name=offered.wire_name,
            description=offered.description,
            input_schema=offered.input_schema,
            call=partial(call, offered.wire_name),
            read_only=offered.read_only,
            max_seconds=None,
        )
        for offered in servers.tools
    ]


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
        # Other content would be lost by a write.
        is_valid = isinstance(value, dict) and all(
            isinstance(texts, list) and all(isinstance(text, str) for text in texts)
            for texts in value.values()
        )
        if not is_valid:
            raise ConfigError(
                f"{self._path}: must hold a list of rules for each project; correct it or move it away"
            )
        return dict(value)


def session_policy(settings: Settings, learned: LearnedPermissions) -> PermissionPolicy:
    """Return the policy from the settings and the saved permissions."""
    given = settings.permissions
    root = settings.project_root
    lists: tuple[tuple[Effect, tuple[ListEntry, ...]], ...] = (
        ("deny", given.deny),
        ("ask", given.ask),
        ("allow", given.allow),
    )
    rules = [parse_rule(one.text, effect, one.origin) for effect, listed in lists for one in listed]
    return PermissionPolicy(
        root=root,
        rules=(*rules, *learned.rules()),
        mode=given.default_mode,
        directories=real_directories(root, given.additional_directories),
    )
