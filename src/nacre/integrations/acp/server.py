"""The agent that a client talks to: greets it, and opens, lists and closes its sessions."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.interfaces import Agent, Client
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AcpMcpServer,
    AgentCapabilities,
    AuthenticateResponse,
    ClientCapabilities,
    CloseSessionResponse,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    SseMcpServer,
    TerminalAuthMethod,
)

from nacre.errors import NacreError
from nacre.formatting import shorten
from nacre.integrations.acp.prompt import PromptBlock
from nacre.integrations.acp.transport import INTERNAL_ERROR, INVALID_PARAMS, open_stdio
from nacre.messages.blocks import Json, JsonObject
from nacre.version import VERSION

if TYPE_CHECKING:
    from nacre.app.slash_commands import SlashCommands
    from nacre.integrations.acp.session import AcpSession
    from nacre.settings import Settings

McpServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
Load: TypeAlias = "Callable[[Path], Settings]"
Commands: TypeAlias = "Callable[[Settings], SlashCommands]"
SETUP = "nacre-init"
"""The one way to authenticate: `nacre init` in a terminal of the client."""
PAGE_SESSIONS = 50
"""Sessions in one answer to a list."""
CURSOR_CHARS = 9
SHOWN_CHARS = 120
"""Of a parameter in an error."""
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]+")


async def serve_acp(load: Load, commands: Commands) -> None:
    """Serve one client on stdin and stdout until it closes them.

    `load` returns the settings of a directory, `commands` the slash commands of a session.
    """
    _log_to_stderr()
    async with open_stdio() as transport, AcpAgent(load, commands) as agent:
        # The protocol's draft methods that are not here, such as session/fork, are refused by the SDK.
        connection = AgentSideConnection(
            cast("Agent", agent), transport, listening=False, use_unstable_protocol=True
        )
        try:
            await connection.listen()
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise asyncio.CancelledError  # the SDK returns instead
        finally:
            await asyncio.shield(connection.close())


class AcpAgent:
    """The methods of the protocol; the SDK calls them by their names."""

    def __init__(self, load: Load, commands: Commands) -> None:
        self._load = load
        self._commands = commands
        self._sessions: dict[str, AcpSession] = {}
        self._client: Client
        self._capabilities = ClientCapabilities()
        self._opening = asyncio.Lock()
        self._one_command = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> AcpAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(one.close() for one in sessions), return_exceptions=True)

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> InitializeResponse:
        self._capabilities = client_capabilities or ClientCapabilities()
        self._start(_preload())
        auth = self._capabilities.auth
        setup = TerminalAuthMethod(
            id=SETUP,
            type="terminal",
            name="Set up a model",
            description="Runs nacre init. Without a key the embedded engine answers.",
            args=["init"],
        )
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=Implementation(name="nacre", title="nacre", version=VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=[setup] if auth is not None and auth.terminal else [],
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Accept the known method: keys are read when a session is opened."""
        if method_id != SETUP:
            raise RequestError(INVALID_PARAMS, f"the only method is {SETUP}")
        return AuthenticateResponse()

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        session = await self._open(cwd, additional_directories, mcp_servers)
        self._start(session.greet())
        return NewSessionResponse(
            session_id=session.id, modes=session.modes(), config_options=session.options()
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[McpServer] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        session = await self._open(cwd, additional_directories, mcp_servers, _stored(session_id))
        await session.replay()
        self._start(session.greet())
        return LoadSessionResponse(modes=session.modes(), config_options=session.options())

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        session = await self._open(cwd, additional_directories, mcp_servers, _stored(session_id))
        self._start(session.greet())
        return ResumeSessionResponse(modes=session.modes(), config_options=session.options())

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """List the stored sessions of a directory, or of all, newest first."""
        from nacre.store.sessions import Sessions  # noqa: PLC0415 - most clients list nothing

        settings = self._settings(cwd or str(Path.cwd()))
        sessions = Sessions(settings.home)
        found = await asyncio.to_thread(sessions.list, settings.cwd if cwd else None)
        listed = [each for each in found if each.messages]
        start = _start_of_page(cursor)
        end = start + PAGE_SESSIONS
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=each.session,
                    cwd=each.cwd or str(settings.cwd),
                    title=each.title,
                    updated_at=each.modified.isoformat(),
                )
                for each in listed[start:end]
            ],
            next_cursor=str(end) if end < len(listed) else None,
        )

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        session = self._session(session_id)
        del self._sessions[session_id]
        await session.close()
        return CloseSessionResponse()

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **_: Any) -> PromptResponse:
        return PromptResponse(stop_reason=await self._session(session_id).prompt(prompt))

    async def cancel(self, session_id: str, **_: Any) -> None:
        if session_id in self._sessions:
            await self._sessions[session_id].cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        await self._session(session_id).set_mode(mode_id)
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        session = self._session(session_id)
        try:
            await session.set_option(config_id, str(value))
        except NacreError as error:
            raise RequestError(INVALID_PARAMS, str(error)) from error
        return SetSessionConfigOptionResponse(config_options=session.options())

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore notifications that only some clients send."""

    def _session(self, session_id: str) -> AcpSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(INVALID_PARAMS, f"no session {session_id} is open; open it with session/load")
        return session

    def _settings(self, cwd: str) -> Settings:
        if not _is_directory(cwd):
            raise RequestError(
                INVALID_PARAMS,
                f"cwd must be the absolute path of a directory, not {shorten(cwd, SHOWN_CHARS)!r}",
            )
        try:
            settings = self._load(Path(cwd))
            settings.require_sound()
        except (NacreError, OSError) as error:
            raise RequestError(INTERNAL_ERROR, str(error)) from error
        return settings

    async def _open(
        self,
        cwd: str,
        directories: Sequence[str] | None,
        servers: Sequence[McpServer] | None,
        known: str = "",
    ) -> AcpSession:
        """Open a session, or return one that this client has open already."""
        from nacre.integrations.acp.session import AcpSession, SessionStart  # noqa: PLC0415 - after the greeting

        files = self._capabilities.fs
        # The lock of a log would make a second session of one that is open in this process.
        # A new one waits for none, because the servers of one may take long to answer.
        async with self._opening if known else nullcontext():
            settings = await asyncio.to_thread(self._settings, cwd)
            if known in self._sessions:
                return self._sessions[known].at(settings.cwd)
            settings = with_servers(settings, servers or ())
            start = SessionStart(
                settings=settings,
                commands=self._commands,
                directories=tuple(_directory(one) for one in directories or ()),
                uses_editor_files=bool(files and files.read_text_file and files.write_text_file),
                one_command=self._one_command,
            )
            session = AcpSession(self._client, start)
            try:
                await session.open(known)
            except NacreError as error:
                raise RequestError(INTERNAL_ERROR, str(error)) from error
            self._sessions[session.id] = session
        return session

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that goes on after the answer to the current request."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _preload() -> None:
    """Import what opens a session, while the client reads the greeting."""

    def load() -> None:
        import nacre.integrations.acp.session  # noqa: F401, PLC0415 - see above

    await asyncio.to_thread(load)


def _stored(session_id: str) -> str:
    """Return the id of a stored session; the words that mean another one in the terminal are none."""
    from nacre.app.open_agent import LATEST, NEW  # noqa: PLC0415 - after the greeting

    if session_id in {"", NEW, LATEST}:
        raise RequestError(INVALID_PARAMS, f"no session {session_id!r}; session/list has the ids")
    return session_id


def _directory(text: str) -> Path:
    if not _is_directory(text):
        shown = shorten(text, SHOWN_CHARS)
        raise RequestError(
            INVALID_PARAMS, f"additionalDirectories must be absolute paths of directories, not {shown!r}"
        )
    return Path(text)


def _is_directory(text: str) -> bool:
    try:
        return Path(text).is_absolute() and Path(text).is_dir()
    except (OSError, ValueError):  # above it is one that cannot be read, or the name is too long
        return False


def _start_of_page(cursor: str | None) -> int:
    if not cursor:
        return 0
    if not cursor.isdecimal() or len(cursor) > CURSOR_CHARS:
        raise RequestError(INVALID_PARAMS, f"no cursor {shorten(cursor, SHOWN_CHARS)!r} was given out")
    return int(cursor)


def with_servers(settings: Settings, servers: Sequence[McpServer]) -> Settings:
    """Return settings with the client's MCP servers; one of the settings wins over one of the same name."""
    from dataclasses import replace  # noqa: PLC0415 - with what opens a session

    given: dict[str, Json] = {}
    for one in servers:
        entry: JsonObject
        match one:
            case McpServerStdio():
                env: JsonObject = {pair.name: pair.value for pair in one.env}
                entry = {"type": "stdio", "command": one.command, "args": [*one.args], "env": env}
            case HttpMcpServer():
                headers: JsonObject = {pair.name: pair.value for pair in one.headers}
                entry = {"type": "http", "url": one.url, "headers": headers}
            case _:
                raise RequestError(INVALID_PARAMS, f"server {one.name!r}: only stdio and http are supported")
        given[_BAD_NAME.sub("-", one.name)[:64] or "server"] = entry
    return replace(settings, mcp_servers={**given, **settings.mcp_servers}) if given else settings


class _OneLine(logging.Formatter):
    """A line without a traceback."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - its name in the standard library
        return f"{ei[0].__name__}: {ei[1]}" if ei and ei[0] else ""


def _log_to_stderr() -> None:
    """Log warnings of libraries to stderr, which clients keep as the agent's log."""
    handler = logging.StreamHandler(sys.stderr)
    is_debug = bool(os.environ.get("NACRE_DEBUG"))
    handler.setFormatter((logging.Formatter if is_debug else _OneLine)("nacre: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
