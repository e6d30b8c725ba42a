"""Connect nacre's tools, resources and prompt to the MCP SDK; every error is one line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import mcp_types as types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from nacre import prompts
from nacre.errors import NacreError
from nacre.integrations.mcp_server.answers import in_scope
from nacre.integrations.mcp_server.base import (
    CALLER,
    CLIENT,
    Answer,
    Caller,
    Offered,
    ServerOptions,
    in_one_line,
)
from nacre.integrations.mcp_server.greeting import HANDSHAKES, INSTRUCTIONS, NAME, TITLE
from nacre.integrations.mcp_server.mail_tools import MailTools
from nacre.integrations.mcp_server.memory_changes import memory_changes
from nacre.integrations.mcp_server.memory_tools import memory_tools, read_memory
from nacre.integrations.mcp_server.project import Project, Projects
from nacre.integrations.mcp_server.session_tools import session_tools
from nacre.integrations.mcp_server.shared import SharedStore
from nacre.memory.format.index import INDEX_FILE
from nacre.messages.blocks import ToolResult
from nacre.messages.untrusted_text import one_line
from nacre.tools.base import result_schema
from nacre.version import VERSION

ABOUT_PROJECT = prompts.load(__package__, "about_project")
ABOUT_EMPTY = prompts.load(__package__, "about_project_empty")
ABOUT = "about_project"
ABOUT_TITLE = "What do you know about this project?"
ABOUT_SAID = "The index of this project's memory, with a request to summarise it."
MARKDOWN = "text/markdown"
ROOTS_SECONDS = 2.0
"""How long to wait for the roots of a client that declares them."""
MAX_ROOTS = 64
CLIENT_CHARS = 40
"""Maximum length of a client's name, which appears in commits and mail."""

STDIO = "stdio"
"""Key of the only client on stdin and stdout."""

Context: TypeAlias = ServerRequestContext[Any, Any]


class McpServer:
    """A server: its tools, open projects and the roots of its clients."""

    def __init__(self, options: ServerOptions, shared: SharedStore | None = None) -> None:
        """With a shared store the memories are those of the key of each request."""
        self.projects = shared.projects(options) if shared else Projects(options)
        self._on_write = options.on_write
        self._mail = MailTools(self.projects)
        mail = [shared.mail_tool()] if shared else self._mail.tools()
        offered = [*memory_tools(self.projects), *session_tools(self.projects)]
        offered += [] if options.read_only else [*memory_changes(self.projects), *mail]
        self.offered = {one.tool.name: one for one in offered}
        self._roots: dict[str, tuple[Path, ...]] = {}
        self._clients: dict[str, ServerSession] = {}
        self._beginning: asyncio.Task[None] | None = None
        self._bus = InMemorySubscriptionBus()

    def server(self) -> Server[None]:
        """Return an SDK server for any transport."""
        # Without a handler the SDK's log would print tracebacks to stderr.
        logging.getLogger().addHandler(logging.NullHandler())
        server = _ChangeNotifier(
            NAME,
            version=VERSION,
            title=TITLE,
            instructions=INSTRUCTIONS,
            lifespan=self._open,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        server.add_notification_handler(
            "notifications/roots/list_changed", types.NotificationParams, self._roots_changed
        )
        return server

    @asynccontextmanager
    async def _open(self, _: Server[None]) -> AsyncIterator[None]:
        watching = asyncio.create_task(
            watch_changes(self.projects.directories, self._notify_changed), name="watch memories"
        )
        try:
            yield None
        finally:
            ending = [one for one in (watching, self._beginning) if one is not None]
            for one in ending:
                one.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await self._mail.close()
            await self.projects.close()

    async def _list_tools(self, ctx: Context, _: object) -> types.ListToolsResult:
        # Usually the first request: meanwhile the project is opened and indexed.
        self._begin(self.caller(ctx))
        return types.ListToolsResult(tools=[_described(one) for one in self.offered.values()])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        offered = self.offered.get(params.name)
        if offered is None:
            known = ", ".join(self.offered)
            return _failed(f"there is no tool {params.name[:CLIENT_CHARS]!r}; there are {known}")
        caller = self.caller(ctx)
        CALLER.set(caller)
        said: ToolResult | str | None = None
        try:
            said = await offered.tool.call(params.arguments or {})
        except NacreError as error:
            return _failed(str(error))
        except Exception as error:  # noqa: BLE001 - a tool call: the client reads what went wrong
            return _failed(f"{params.name} failed: {type(error).__name__}: {error}")
        finally:
            if self._on_write is not None and not offered.tool.read_only:
                change = str(said.data.get("change") or "") if isinstance(said, Answer) else None
                await self._on_write(caller.request, params.name, change)
        assert isinstance(said, Answer), "the tools of this server return answers"
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=said.text)], structured_content=said.data
        )

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with self._called(ctx):
            page = await listed(await self.projects.one(), params.cursor if params else None)
        found = [
            types.Resource(
                uri=one.uri,
                name=one.name,
                description=one.description or None,
                mime_type=MARKDOWN,
                size=one.bytes,
            )
            for one in page.items
        ]
        return types.ListResourcesResult(resources=found, next_cursor=page.cursor)

    async def _list_templates(self, ctx: Context, _: object) -> types.ListResourceTemplatesResult:
        one = types.ResourceTemplate(
            uri_template=f"{BASE}{{name}}",
            name="memory",
            description="A memory by its file name; MEMORY.md is the index.",
            mime_type=MARKDOWN,
        )
        return types.ListResourceTemplatesResult(resource_templates=[one])

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if not uri.startswith(BASE):
            raise MCPError(types.INVALID_PARAMS, in_one_line(f"{uri!r} is none of {BASE}…"))
        with self._called(ctx):
            text = await read(await self.projects.one(), uri)
        contents = types.TextResourceContents(uri=params.uri, text=text, mime_type=MARKDOWN)
        return types.ReadResourceResult(contents=[contents])

    async def _list_prompts(self, ctx: Context, _: object) -> types.ListPromptsResult:
        one = types.Prompt(name=ABOUT, title=ABOUT_TITLE, description=ABOUT_SAID)
        return types.ListPromptsResult(prompts=[one])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != ABOUT:
            raise MCPError(types.INVALID_PARAMS, f"there is one prompt here: {ABOUT}")
        with self._called(ctx):
            index = (await (await self.projects.one()).told_index()).strip()
        text = prompts.render(ABOUT_PROJECT, index=index) if index else ABOUT_EMPTY
        said = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=ABOUT_TITLE, messages=[said])

    @contextmanager
    def _called(self, ctx: Context) -> Iterator[None]:
        """Convert an error of a request that is no tool call into a protocol error."""
        CALLER.set(self.caller(ctx))
        try:
            yield
        except NacreError as error:
            raise MCPError(types.INVALID_PARAMS, in_one_line(str(error))) from None
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - as in a tool call: the client reads what went wrong
            why = f"{type(error).__name__}: {error}"
            raise MCPError(types.INTERNAL_ERROR, in_one_line(why)) from None

    def _begin(self, caller: Caller) -> None:
        """Open the client's first project in the background; an error will recur when it is needed."""

        async def opened() -> None:
            CALLER.set(caller)
            with suppress(Exception):
                await self.projects.one()

        # Over HTTP a client can be asked for its roots only during a request.
        if self._beginning is None and caller.key == STDIO:
            self._beginning = asyncio.create_task(opened(), name="open the first project")

    async def _notify_changed(self) -> None:
        await self._bus.publish(ResourcesListChanged())
        for key, session in list(self._clients.items()):
            try:
                await session.send_notification(types.ResourceListChangedNotification())
            except Exception:  # noqa: BLE001 - a background task: this client is gone
                self._clients.pop(key, None)

    def caller(self, ctx: Context) -> Caller:
        """Return the caller from the connection's data."""
        known = ctx.session.client_params
        client = _word(known.client_info.name) if known else ""
        headers = getattr(ctx.request, "headers", None) or {}
        key = str(headers.get("mcp-session-id") or (f"http {client}" if headers else STDIO))
        request: Mapping[str, Any] = getattr(ctx.request, "scope", None) or {}
        client = request.get(CLIENT, "") or client
        if ctx.protocol_version in HANDSHAKES:
            self._clients[key] = ctx.session

        async def roots() -> Sequence[Path]:
            if key not in self._roots:
                self._roots[key] = await _asked_roots(ctx)
            return self._roots[key]

        return Caller(key=key, client=client or "client", roots=roots, request=request)

    async def _roots_changed(self, ctx: Context, _: object) -> None:
        self._roots.pop(self.caller(ctx).key, None)


class _ChangeNotifier(Server[None]):
    """Notifies clients of changed resources, on every transport."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


def _described(one: Offered) -> types.Tool:
    hints = types.ToolAnnotations(
        title=one.title,
        read_only_hint=one.tool.read_only,
        destructive_hint=False,
        idempotent_hint=one.idempotent,
        open_world_hint=False,
    )
    return types.Tool(
        name=one.tool.name,
        title=one.title,
        description=one.tool.description,
        input_schema=one.tool.input_schema,
        output_schema=result_schema(one.answers) if one.answers else None,
        annotations=hints,
    )


def _failed(why: str) -> types.CallToolResult:
    text = types.TextContent(type="text", text=in_one_line(why))
    return types.CallToolResult(content=[text], is_error=True)


async def _asked_roots(ctx: Context) -> tuple[Path, ...]:
    """Return the directories a client works in; empty if it has none or does not answer."""
    abilities = ctx.session.client_capabilities
    if abilities is None or abilities.roots is None or not ctx.session.can_send_request:
        return ()
    scope = None if ctx.request_id is None else ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        answer = await ctx.session.send_request(
            types.ListRootsRequest(),
            types.ListRootsResult,
            request_read_timeout_seconds=ROOTS_SECONDS,
            metadata=scope,
        )
    except (MCPError, ValueError):
        return ()
    found = (_directory(str(root.uri)) for root in answer.roots[:MAX_ROOTS])
    return tuple(one for one in found if one is not None)


def _directory(uri: str) -> Path | None:
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    path = Path(unquote(parts.path))
    return path if path.is_absolute() and path.is_dir() else None


def _word(name: str) -> str:
    """Return the client's name, usable in mail and commits."""
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "-" for sign in name)
    return plain.strip("-_.")[:CLIENT_CHARS]


LOOK_SECONDS = 2.0
"""Seconds between two checks for changes: one system call per open project."""


async def watch_changes(
    directories: Callable[[], Iterable[Path]],
    tell: Callable[[], Awaitable[None]],
    *,
    seconds: float = LOOK_SECONDS,
) -> None:
    """Call back while running whenever a file was added, removed or replaced in one of the directories.

    A memory is written by replacing its file, which changes the time of the folder.
    """
    known: dict[Path, int] = {}
    while True:
        now = {one: _stamp(one) for one in directories()}
        if any(known.get(one, stamp) != stamp for one, stamp in now.items()):
            await tell()
        known = now
        await asyncio.sleep(seconds)


def _stamp(directory: Path) -> int:
    try:
        return directory.stat().st_mtime_ns
    except OSError:
        return 0


BASE = "nacre://memory/"
PAGE = 200
"""Resources per page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One resource in a listing."""

    uri: str
    name: str
    description: str
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of resources and the cursor of the next one, if any."""

    items: tuple[Described, ...] = ()
    cursor: str | None = None


async def listed(project: Project, after: str | None = None) -> ListPage:
    """List resources after a cursor: indexes first, then memories by name.

    Unconfirmed memories are not listed: the listing would contain their text (M16b).
    """
    if not project.settings.memory.is_on:
        return ListPage()
    found: dict[str, Described] = {}
    for whose in project.scopes():
        if project.place(whose).directory.is_dir():
            index = in_scope(whose, INDEX_FILE)
            found[f"0{index}"] = _described_resources(
                index, f"The index of the {whose}'s memory", "One line a memory."
            )
            for entry in await project.entries(whose):
                if entry.is_trusted:
                    name = in_scope(whose, entry.file)
                    found[f"1{name}"] = _described_resources(
                        name, entry.title, entry.description, size=entry.bytes
                    )
    keys = sorted(key for key in found if after is None or key > after)
    cursor = keys[PAGE - 1] if len(keys) > PAGE else None
    return ListPage(tuple(found[key] for key in keys[:PAGE]), cursor)


async def read(project: Project, uri: str) -> str:
    """Return the content behind a URI of `listed`; raises `StoreError` if there is none."""
    return (await read_memory(project, name_of(uri))).text


def name_of(uri: str) -> str:
    """Return the name of a memory as the tools accept it."""
    return unquote(uri.removeprefix(BASE))


def _described_resources(name: str, title: str, description: str, *, size: int | None = None) -> Described:
    return Described(
        uri=BASE + quote(name, safe="/:"), name=one_line(title), description=one_line(description), bytes=size
    )
