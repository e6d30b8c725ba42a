"""The connection to one server for a whole session, which reconnects when the server has died."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
import anyio.abc
import mcp_types as types
from mcp import Client, ClientSession, MCPError
from mcp.client import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from pydantic import TypeAdapter, ValidationError

from nacre.clock import Clock
from nacre.errors import ToolError
from nacre.mcp_client.base import (
    CallOutcome,
    McpLimits,
    ServerConfig,
    StdioServerConfig,
    error_outcome,
    one_line,
)
from nacre.mcp_client.translate import ToolListing, list_tools, to_outcome
from nacre.mcp_client.transports import HttpTransport, StdioTransport
from nacre.messages.blocks import JsonObject
from nacre.version import VERSION

FIRST_WAIT_SECONDS = 1.0
"""Before the second restart in a row; the first is immediate."""
LONGEST_WAIT_SECONDS = 60.0
"""A server that keeps failing is restarted once a minute at most."""
SHOWN_NAMES = 5
"""How many tools a notice names; the others are counted."""


class Connection:
    """Reaches one server; `listing` is that of the start of the session and never changes."""

    def __init__(
        self, server: ServerConfig, limits: McpLimits, *, clock: Clock, on_notice: Callable[[str], None]
    ) -> None:
        self.name = server.name
        self.listing: ToolListing | None = None
        self._server = server
        self._limits = limits
        self._clock = clock
        self._on_notice = on_notice
        self._offered: frozenset[str] = frozenset()
        """The tools of the server now, which may differ from the listing."""
        self._failures = 0
        self._not_before = 0.0
        self._choosing = asyncio.Lock()
        self._sessions: list[McpSession] = []
        self._is_closed = False

    async def start(self) -> None:
        """Connect; on failure there is one notice and the server has no tools."""
        try:
            self.listing = await self._new_session().listing()
        except McpSessionError as error:
            self._on_notice(f"MCP server {self.name} {error}")
            return
        self._offered = frozenset(offer.name for offer in self.listing.offers)
        for line in self.listing.left_out:
            self._on_notice(line)

    async def call(self, tool: str, arguments: JsonObject) -> CallOutcome:
        """Call a tool, after a reconnect if the server has died."""
        try:
            session = await self._live_session()
            if tool not in self._offered:
                return error_outcome(f"MCP server {self.name} no longer offers {tool}.")
            outcome = await session.call(tool, arguments)
        except McpSessionError as error:
            return error_outcome(f"MCP server {self.name} is down: it {error}.")
        if session.ended is None and not session.is_suspect:
            self._failures = 0
            self._not_before = 0.0
        return outcome

    def stop(self) -> list[asyncio.Task[None]]:
        """Begin to end all sessions; they have ended when the returned tasks are done."""
        self._is_closed = True
        for session in self._sessions:
            session.stop("was closed", at_once=self.listing is None)
        return [session.task for session in self._sessions]

    def kill(self) -> None:
        """Kill the server at once."""
        for session in self._sessions:
            session.kill()

    async def _live_session(self) -> McpSession:
        # One at a time: ten calls that find the server dead must not start it ten times.
        async with self._choosing:
            session = self._sessions[-1]
            if session.is_suspect and session.ended is None:
                if await session.is_answering():
                    session.is_suspect = False
                else:
                    session.stop("no longer answered", at_once=True)
            if session.is_over:
                session = self._restart(session)
            listing = await session.listing()
            if session.is_new:
                session.is_new = False
                self._compare(listing)
            return session

    def _restart(self, dead: McpSession) -> McpSession:
        now = self._clock.seconds()
        why = dead.ended or dead.why
        if self._is_closed:
            raise McpSessionError("was closed")
        if now < self._not_before:
            raise McpSessionError(f"{why}; it can be tried again in {self._not_before - now:.0f} s")
        self._not_before = now + min(FIRST_WAIT_SECONDS * 2**self._failures, LONGEST_WAIT_SECONDS)
        self._failures += 1
        return self._new_session()

    def _new_session(self) -> McpSession:
        # A dead one may still be cleaning up; it stays in the list so that closing can wait for it.
        self._sessions = [session for session in self._sessions if not session.task.done()]
        session = McpSession(self._server, self._limits, on_notice=self._on_notice, on_listing=self._compare)
        self._sessions.append(session)
        return session

    def _compare(self, now: ToolListing) -> None:
        """Report changed tools; the session keeps the definitions of its start (C31b)."""
        offered = frozenset(offer.name for offer in now.offers)
        added = offered - self._offered
        removed = self._offered - offered
        self._offered = offered
        listed = frozenset(offer.name for offer in self.listing.offers) if self.listing else frozenset()
        if added - listed:
            names = _names(added - listed)
            self._on_notice(f"MCP server {self.name} now offers {names}; usable from the next session on")
        if added & listed:
            self._on_notice(f"MCP server {self.name} offers {_names(added & listed)} again")
        if removed & listed:
            self._on_notice(f"MCP server {self.name} no longer offers {_names(removed & listed)}")


def _names(tools: frozenset[str]) -> str:
    names = sorted(tools)
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(one_line(name, chars=64) for name in names[:SHOWN_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown


CLOSE_SECONDS = 2.0
"""How long a remote server may take to close the session."""
SETTLE_SECONDS = 0.2
"""A server that changes ten tools notifies ten times; one new listing is enough."""

Transport: TypeAlias = StdioTransport | HttpTransport
_CALL_RESULT = TypeAdapter[types.CallToolResult | types.InputRequiredResult](
    types.CallToolResult | types.InputRequiredResult
)

# The SDK logs tracebacks of a server's mistakes; without a handler they appear on the user's terminal.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class McpSessionError(ToolError):
    """Raised when a session has ended or cannot start; the message is the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class _PendingCall:
    """A call that is not answered yet."""

    tool: str
    arguments: JsonObject
    answer: asyncio.Future[CallOutcome]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class McpSession:
    """One session with a server; `ended` is None while it lives, then the reason of its end."""

    def __init__(
        self,
        server: ServerConfig,
        limits: McpLimits,
        *,
        on_notice: Callable[[str], None],
        on_listing: Callable[[ToolListing], None],
    ) -> None:
        self._server = server
        self._limits = limits
        self._on_listing = on_listing
        self._transport: Transport = (
            StdioTransport(server, limits, on_notice=on_notice)
            if isinstance(server, StdioServerConfig)
            else HttpTransport(server, limits)
        )
        self._session: ClientSession | None = None
        self._calls: anyio.abc.TaskGroup | None = None
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._changed = anyio.Event()
        self.why: str | None = None
        self._pending: set[_PendingCall] = set()
        self._listed: asyncio.Future[ToolListing] = asyncio.get_running_loop().create_future()
        self.ended: str | None = None
        self.is_new = True
        """Its listing was not compared with the first one yet."""
        self.is_suspect = False
        """A call was not answered: the server is probed before the next one."""
        self.task = asyncio.create_task(self._live(), name=f"mcp {server.name}")

    @property
    def is_over(self) -> bool:
        """Whether it has ended or is about to end."""
        return self._over.is_set() or self.ended is not None

    async def listing(self) -> ToolListing:
        """Wait for the tool listing; `McpSessionError` if the start fails or takes too long."""
        waiting: set[asyncio.Future[ToolListing] | asyncio.Task[None]] = {self._listed, self.task}
        await asyncio.wait(waiting, timeout=self._limits.start_seconds, return_when="FIRST_COMPLETED")
        if not self._listed.done():
            words = self._transport.last_words
            self.stop(f"did not answer within {self._limits.start_seconds:g} s{words}", at_once=True)
            raise McpSessionError(self.ended or self.why)
        if (error := self._listed.exception()) is not None:
            raise error
        return self._listed.result()

    async def call(self, tool: str, arguments: JsonObject) -> CallOutcome:
        """Call a tool; cancellation notifies the server and returns at once."""
        if self._calls is None or self.is_over:
            raise McpSessionError(self.ended or self.why or self._transport.end)
        pending = _PendingCall(tool, arguments, asyncio.get_running_loop().create_future())
        self._pending.add(pending)
        self._calls.start_soon(self._answer, pending)
        try:
            return await pending.answer
        except asyncio.CancelledError:
            pending.scope.cancel()
            raise
        finally:
            self._pending.discard(pending)

    async def is_answering(self) -> bool:
        """Return whether the server still answers a request."""
        probe = asyncio.get_running_loop().create_future()
        if self._calls is None or self.is_over:
            return False
        self._calls.start_soon(self._probe, probe)
        await asyncio.wait({probe, self.task}, return_when="FIRST_COMPLETED")
        return probe.done() and bool(probe.result())

    def stop(self, why: str, *, at_once: bool = False) -> None:
        """Begin to end the session; `task` is done when it has ended."""
        self.why = self.why or why
        self._over.set()
        if at_once:
            self._scope.cancel()
        else:
            self._scope.deadline = anyio.current_time() + CLOSE_SECONDS

    def kill(self) -> None:
        """Kill the server process at once, if there is one."""
        self._scope.cancel()
        self._transport.kill()

    async def _live(self) -> None:
        try:
            with self._scope:
                # Without a cache, so that a changed listing is seen.
                connecting = Client(
                    self._transport.open(),
                    cache=None,
                    message_handler=self._on_message,
                    client_info=types.Implementation(name="nacre", version=VERSION),
                )
                async with connecting as client, anyio.create_task_group() as calls:
                    listing = await list_tools(client.session, self._server.name, self._limits)
                    self._session = client.session
                    self._calls = calls
                    if not self._listed.done():
                        self._listed.set_result(listing)
                    calls.start_soon(self._watch)
                    calls.start_soon(self._listen, client)
                    calls.start_soon(self._relist, client.session)
                    await self._over.wait()
                    calls.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001  # a background task: its failure is the reason others read
            self.why = self.why or _reason(error, self._transport)
        finally:
            self._settle()

    def _settle(self) -> None:
        """Answer all waiting callers with the reason of the end."""
        self._calls = None
        self.ended = self.why or self._transport.end
        if not self._listed.done():
            self._listed.set_exception(McpSessionError(self.ended))
            self._listed.exception()  # retrieved, so that asyncio does not warn
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_result(error_outcome(f"MCP server {self._server.name} {self.ended}."))

    async def _watch(self) -> None:
        await self._transport.gone.wait()
        self._over.set()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes, as newer servers require; notifications also arrive at `_on_message`."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with contextlib.suppress(ListenNotSupportedError, SubscriptionLost, MCPError):
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self._changed.set()

    async def _relist(self, session: ClientSession) -> None:
        while True:
            await self._changed.wait()
            await anyio.sleep(SETTLE_SECONDS)
            self._changed = anyio.Event()
            with (
                contextlib.suppress(MCPError, ValidationError),
                anyio.move_on_after(self._limits.start_seconds),
            ):
                self._on_listing(await list_tools(session, self._server.name, self._limits))

    async def _probe(self, answered: asyncio.Future[bool]) -> None:
        is_answered = False
        try:
            with anyio.move_on_after(self._limits.probe_seconds):
                await self._require_session().list_tools()
                is_answered = True
        except (MCPError, ValidationError) as error:
            # An error is an answer too, unless the server has lost the session.
            is_answered = not (isinstance(error, MCPError) and _is_lost(error))
        finally:
            answered.set_result(is_answered)

    async def _answer(self, pending: _PendingCall) -> None:
        """Run one call; without an outcome the end of the session answers it."""
        outcome: CallOutcome | None = None
        try:
            with pending.scope:
                outcome = await self._ask(pending)
        except MCPError as error:
            outcome = self._refusal(error)
        except Exception as error:  # noqa: BLE001  # a tool call: any failure is its answer
            outcome = error_outcome(f"MCP server {self._server.name}: {_words(error)}")
        if pending.scope.cancelled_caught:
            self.is_suspect = True
            outcome = error_outcome(
                f"MCP server {self._server.name} gave no sign of life for {self._limits.call_seconds:g} s; "
                f"the call of {pending.tool} was cancelled."
            )
        if outcome is not None and not pending.answer.done():
            pending.answer.set_result(outcome)

    async def _ask(self, pending: _PendingCall) -> CallOutcome:
        started = anyio.current_time()
        limits = self._limits

        async def extend(progress: float, total: float | None, message: str | None) -> None:
            pending.scope.deadline = min(
                anyio.current_time() + limits.call_seconds, started + limits.max_call_seconds
            )

        pending.scope.deadline = started + limits.call_seconds
        # Not `call_tool`, which throws a result away when it does not match the schema that announced it.
        result = await self._require_session().send_request(
            types.CallToolRequest(
                params=types.CallToolRequestParams(name=pending.tool, arguments=dict(pending.arguments))
            ),
            _CALL_RESULT,
            progress_callback=extend,
        )
        if isinstance(result, types.InputRequiredResult):
            return error_outcome(f"{pending.tool} asks the user for more input, which is not supported.")
        return to_outcome(result, max_tokens=limits.result_tokens)

    def _refusal(self, error: MCPError) -> CallOutcome | None:
        if _is_lost(error):
            if isinstance(self._transport, StdioTransport):
                # The process is ending: its exit code and error output say more than this error.
                self._over.set()
                return None
            self.is_suspect = True
        status = self._transport.last_words if isinstance(self._transport, HttpTransport) else ""
        return error_outcome(
            f"MCP server {self._server.name} refused the call: {one_line(error.message)}{status}"
        )

    def _require_session(self) -> ClientSession:
        if self._session is None:
            raise McpSessionError("is not connected")
        return self._session


def _is_lost(error: MCPError) -> bool:
    """Return whether the connection is closed or the server has lost the session."""
    forgotten = error.code == types.INVALID_REQUEST and "session" in error.message.lower()
    return error.code == types.CONNECTION_CLOSED or forgotten


def _reason(error: BaseException, transport: Transport) -> str:
    """Return why a session failed, from the most specific source."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError) and _is_lost(error):
        return transport.end
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot be started: {error.strerror}: {one_line(str(error.filename))}"
    return f"cannot be used: {_words(error)}{transport.last_words}"


def _words(error: BaseException) -> str:
    return one_line(str(error)) or type(error).__name__
