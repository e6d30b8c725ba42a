"""The HTTP API as an ASGI application: authentication, limits, dispatch, errors, audit (S7, S9)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import product
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from nacre.asgi import App, Receive, Scope, Send, bearer_token, header_values, read_refused
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError
from nacre.loopback import ConnectionLimit
from nacre.messages.blocks import JsonObject
from nacre.server.administration import SendMail, administration_operations, send_on_disk, sender_name
from nacre.server.audit_log import AuditLog
from nacre.server.console.access import LoginLink
from nacre.server.console.app import build_console
from nacre.server.console.page import ConsoleParts, TenantSettings
from nacre.server.console.rendering import PREFIX as CONSOLE_PATH
from nacre.server.jobs import Jobs, LocalJobs, work_by_rule
from nacre.server.keys import ApiKey, KeyStore, Role, authenticate
from nacre.server.limits import IdempotencyKeys, LocalIdempotencyKeys, RateLimit, RememberedAnswer
from nacre.server.memories import memory_operations
from nacre.server.metrics import CONTENT_TYPE, Metrics
from nacre.server.openapi import openapi_document
from nacre.server.operation import (
    Answer,
    Call,
    Operation,
    ProblemError,
    parsed_body,
    read_body,
    require_role,
)
from nacre.server.problems import failed, json_response, problem, problem_of
from nacre.server.sessions import session_operations
from nacre.server.spaces import DEFAULT_SPACE, Spaces
from nacre.server.sync import sync_operations
from nacre.settings import Settings
from nacre.version import VERSION

PREFIX = "/v1"
MCP_PATH = "/mcp"
KEY = "nacre.key"
"""Entry of the ASGI scope of a request to `/mcp`: its key."""
CLIENT_NAME = "nacre.client"
"""As `CLIENT` of the MCP server, which signs changes and letters with it."""
REQUEST_SECONDS = 60.0
"""Time for an answer; a change that takes longer is still completed, and recorded."""
MAX_IDEMPOTENCY_CHARS = 200
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
_LOG = logging.getLogger("nacre.server")


RecordMcpWrite: TypeAlias = Callable[[Mapping[str, Any], str, str | None], Awaitable[None]]
"""Takes the ASGI scope of a request, the tool that writes, and the commit: empty if nothing changed, None if
the call failed."""
MakeMcp: TypeAlias = Callable[[bool, bool, RecordMcpWrite], Starlette]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """What the API works on; files or a database are behind it."""

    settings: Settings
    spaces: Spaces
    keys: KeyStore
    audit: AuditLog
    clock: Clock = SYSTEM_CLOCK
    hosts: frozenset[str] = frozenset()
    """Values of the header Host that are answered, against pages that rebind a name; empty for any."""
    connections: ConnectionLimit | None = None
    """Connections of clients with a key are not dropped for those of others."""
    jobs: Jobs | None = None
    """Background jobs; None runs them in the process, by rule."""
    mail: SendMail | None = None
    """What sends letters; None sends them to the agents of the settings' home."""
    repeated: IdempotencyKeys | None = None
    """Answers to writes that a client repeats; None keeps them in this process."""
    check: Callable[[], Awaitable[object]] | None = None
    """Raises `NacreError` while the store cannot be used; None looks for the keys."""
    tenant_settings: TenantSettings | None = None
    """What a database has as settings of a key's tenant."""
    has_home: bool = True
    """Whether agents run on this machine, below the settings' home."""
    link: LoginLink | None = None
    """Signs one browser in to the console without a key."""
    mcp: MakeMcp | None = None
    """Returns the application at `/mcp` for clients that may write or not, and that are local or not."""


def all_operations(
    settings: Settings, audit: AuditLog, jobs: Jobs, mail: SendMail | None = None
) -> list[Operation]:
    """Return every operation of the API."""
    return [
        *memory_operations(),
        *session_operations(),
        *sync_operations(),
        *administration_operations(settings, audit, jobs, mail or send_on_disk(settings)),
    ]


def build_api(parts: ServerParts) -> App:
    """Return the application."""
    return _Api(parts)


class _Api:
    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self._rate = RateLimit(parts.clock)
        self._repeated = parts.repeated or LocalIdempotencyKeys(parts.clock)
        self._metrics = Metrics()
        self._jobs = parts.jobs or LocalJobs(work_by_rule(parts.settings), parts.clock)
        self._running: set[asyncio.Task[Any]] = set()
        self._mcp: dict[tuple[bool, bool], Starlette] = {}
        self.operations = all_operations(parts.settings, parts.audit, self._jobs, parts.mail)
        self._app = self._application()
        self._console = build_console(
            ConsoleParts(
                settings=parts.settings,
                spaces=parts.spaces,
                keys=parts.keys,
                clock=parts.clock,
                operations={one.id: one for one in self.operations},
                perform=self.perform,
                has_home=parts.has_home,
                tenant_settings=parts.tenant_settings,
                link=parts.link,
            )
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (refusal := self._refusal(scope)) is not None:
            await read_refused(receive)
            await refusal(scope, receive, send)
        elif scope["path"] == CONSOLE_PATH or scope["path"].startswith(f"{CONSOLE_PATH}/"):
            await self._console(scope, receive, send)
        elif scope["path"] == MCP_PATH:
            await self._serve_mcp(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _application(self) -> Starlette:
        document = openapi_document(self.operations, PREFIX)

        async def described() -> Response:
            return json_response(document)

        by_path: dict[str, dict[str, Operation]] = {}
        for one in self.operations:
            by_path.setdefault(one.path, {})[one.method] = one
        # Literal paths before those with parameters: /memories/search is not the memory named "search". Of
        # these the longest first, because a file may be in a folder.
        ordered = sorted(
            by_path.items(), key=lambda item: (len(_PATH_PARAMETER.findall(item[0])), -len(item[0]))
        )
        routes: list[BaseRoute] = [
            Route("/healthz", _health),
            Route("/readyz", self._ready),
            Route("/openapi.json", self._with_key("reader", described)),
            Route("/metrics", self._with_key("admin", self._figures)),
            *(
                Route(
                    PREFIX + path.replace("{file}", "{file:path}"),
                    self._endpoint(methods),
                    methods=["GET", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"],
                )
                for path, methods in ordered
            ),
        ]
        handlers: dict[Any, Any] = {404: _no_route, 405: _no_method}
        app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for can_write, local in product((False, True), repeat=2) if self._parts.mcp else ():
                assert self._parts.mcp is not None, "checked just now"
                app = self._parts.mcp(can_write, local, self._record_mcp)
                await stack.enter_async_context(app.router.lifespan_context(app))
                self._mcp[can_write, local] = app
            yield
            if self._running:
                await asyncio.wait(self._running, timeout=REQUEST_SECONDS)
            await self._jobs.close()
        await self._parts.spaces.close()

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a page in a browser, or to a name that was rebound to this address."""
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        hosts = {one.decode("latin-1").lower() for one in header_values(headers, b"host")}
        allowed = self._parts.hosts
        if len(hosts) != 1 or (allowed and not hosts <= allowed):
            return problem(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its own address only")
        origins = {one.decode("latin-1").lower() for one in header_values(headers, b"origin")}
        if {one.partition("://")[2] for one in origins} - hosts:
            return problem(HTTPStatus.FORBIDDEN, "pages of other origins may not use this server")
        return None

    async def _serve_mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        began = self._parts.clock.seconds()
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            key = await self._authenticated(request, "reader", needs_all_spaces=True)
            app = self._mcp.get((key.allows("member"), key.local))
            if app is None:
                raise ProblemError(HTTPStatus.NOT_FOUND, "this server was started without the MCP SDK")
            scope[KEY] = key
            if not self._parts.has_home:
                scope[CLIENT_NAME] = sender_name(key.user)
        except NacreError as error:
            response = problem_of(error)
            status = HTTPStatus(response.status_code)
            await read_refused(receive)
            await response(scope, receive, send)
        else:
            status = HTTPStatus.OK
            await app(scope, receive, send)
        finally:
            self._metrics.count("mcp", int(status), self._parts.clock.seconds() - began)

    async def _ready(self, _: Request) -> Response:
        try:
            await (self._parts.check or self._parts.keys.list)()
        except NacreError as error:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return json_response({"status": "ready", "version": VERSION})

    async def _figures(self) -> Response:
        gauges = {**await self._jobs.gauges(), **self._parts.spaces.gauges()}
        return PlainTextResponse(self._metrics.text(gauges), media_type=CONTENT_TYPE)

    def _with_key(self, role: Role, answer: Callable[[], Awaitable[Response]]) -> Any:
        async def endpoint(request: Request) -> Response:
            try:
                await self._authenticated(request, role)
                return await answer()
            except NacreError as error:
                return problem_of(error)

        return endpoint

    def _endpoint(self, methods: dict[str, Operation]) -> Any:
        async def endpoint(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            operation = methods.get(method)
            if operation is None:
                return _not_allowed(request, methods)
            began = self._parts.clock.seconds()
            self._metrics.in_progress += 1
            try:
                response = await self._answered(operation, request)
            except ClientDisconnect:
                response = Response(status_code=HTTPStatus.BAD_REQUEST)
            except NacreError as error:
                response = problem_of(error)
            except Exception as error:  # noqa: BLE001 - the top of a request: the client gets an answer
                response = failed(operation.id, error)
            finally:
                self._metrics.in_progress -= 1
            seconds = self._parts.clock.seconds() - began
            self._metrics.count(operation.id, response.status_code, seconds)
            entry = {"event": "request", "operation": operation.id, "status": response.status_code}
            _LOG.info(json.dumps({**entry, "ms": round(seconds * 1000, 1), "address": _address(request)}))
            return response

        return endpoint

    async def _answered(self, operation: Operation, request: Request) -> Response:
        try:
            key = await self._authenticated(
                request, operation.needs, needs_all_spaces=operation.needs_all_spaces
            )
        except ProblemError:
            await read_refused(request.receive)  # so that the client reads the answer, not a reset
            raise
        body = await read_body(request)
        repeat = request.headers.get("idempotency-key") if operation.writes else None
        fingerprint = hashlib.sha256(
            f"{request.method} {request.url.path}?{request.url.query}\n".encode() + body
        ).hexdigest()
        if repeat is not None and (known := await self._repetition(key, repeat, fingerprint)) is not None:
            return known
        performed = self._performed(operation, request, key, body)
        if repeat is not None:
            performed = self._remembered(performed, key, repeat, fingerprint)
        task = asyncio.create_task(performed)
        # A client that leaves, and the end of the server, do not interrupt a change.
        self._running.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait({task}, timeout=REQUEST_SECONDS)
        if not done:
            raise ProblemError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"no answer within {REQUEST_SECONDS:g} s; a change may still be made: repeat it with its "
                "Idempotency-Key",
            )
        return task.result()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # a request whose client has left may fail, too

    async def _repetition(self, key: ApiKey, repeat: str, fingerprint: str) -> Response | None:
        """Return the answer to a repeated write; None for the first."""
        if not 0 < len(repeat) <= MAX_IDEMPOTENCY_CHARS:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, f"Idempotency-Key has 1 to {MAX_IDEMPOTENCY_CHARS} characters"
            )
        known = await self._repeated.begin(key, repeat, fingerprint)
        if known is None:
            return None
        if known.fingerprint != fingerprint:
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "this Idempotency-Key was used for another request; choose a new one",
            )
        if not known.status:
            raise ProblemError(
                HTTPStatus.CONFLICT,
                "the first request with this Idempotency-Key is in progress; repeat it for its answer",
                headers={"Retry-After": "1"},
            )
        return Response(known.content, known.status, headers=dict(known.headers))

    async def _remembered(
        self, performed: Coroutine[Any, Any, Response], key: ApiKey, repeat: str, fingerprint: str
    ) -> Response:
        """Keep the answer to a write; one that failed changed nothing and may be repeated."""
        try:
            response = await performed
        except BaseException:
            await self._repeated.forget(key, repeat)
            raise
        headers = tuple((name, value) for name, value in response.headers.items() if name != "content-length")
        now = self._parts.clock.seconds()
        answer = RememberedAnswer(fingerprint, now, response.status_code, headers, bytes(response.body))
        try:
            await self._repeated.finish(key, repeat, answer)
        except NacreError as error:
            _LOG.error(json.dumps({"event": "answer not kept", "error": str(error)}))
        return response

    async def _authenticated(self, request: Request, role: Role, *, needs_all_spaces: bool = False) -> ApiKey:
        token = bearer_token(request.scope["headers"])
        key = await authenticate(self._parts.keys, token, clock=self._parts.clock)
        if key is None:
            raise ProblemError(
                HTTPStatus.UNAUTHORIZED,
                "send a key that `nacre keys create` printed: Authorization: Bearer nacre_…",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if self._parts.connections is not None and request.client is not None:
            self._parts.connections.keep((request.client.host, request.client.port))
        if wait := self._rate.wait_seconds(key.id):
            seconds = math.ceil(wait)
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many requests with this key; try again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )
        require_role(key, role, needs_all_spaces=needs_all_spaces)
        return key

    async def _performed(self, operation: Operation, request: Request, key: ApiKey, body: bytes) -> Response:
        call = Call(
            key=key,
            spaces=self._parts.spaces,
            space_name=request.query_params.get("space", DEFAULT_SPACE),
            path=request.path_params,
            query=_query(operation, request),
            body=parsed_body(operation, body),
            if_match=request.headers.get("if-match"),
            clock=self._parts.clock,
        )
        answer = await self._recorded(operation, call, request)
        return json_response(answer.content, answer.status, headers=answer.headers)

    async def perform(self, operation: Operation, call: Call, request: Request) -> Answer:
        """Do for a page of the console what a client of the API could ask for; a change is completed."""
        if wait := self._rate.wait_seconds(call.key.id):
            seconds = math.ceil(wait)
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS, f"too many requests with this key; try again in {seconds} s"
            )
        if not operation.writes:
            return await operation.handler(call)
        task = asyncio.create_task(self._recorded(operation, call, request))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _recorded(self, operation: Operation, call: Call, request: Request) -> Answer:
        try:
            answer = await operation.handler(call)
        except NacreError as error:
            await self._record(operation, request, call, problem_of(error).status_code)
            raise
        await self._record(operation, request, call, int(answer.status))
        return answer

    async def _record(self, operation: Operation, request: Request, call: Call, status: int) -> None:
        """Append a write to the audit log."""
        if operation.writes:
            await self._append({
                **self._entry(call.key, request, status),
                "operation": operation.id,
                "space": call.space_name if operation.has_space else None,
                "commit": call.commit or None,
            })  # fmt: skip

    async def _record_mcp(self, scope: Mapping[str, Any], tool: str, commit: str | None) -> None:
        """Append a write over MCP to the audit log."""
        request = Request({**scope})
        status = HTTPStatus.UNPROCESSABLE_ENTITY if commit is None else HTTPStatus.OK
        await self._append({
            **self._entry(scope[KEY], request, status),
            "operation": tool,
            "space": request.query_params.get("space"),
            "commit": commit or None,
        })  # fmt: skip

    def _entry(self, key: ApiKey, request: Request, status: int) -> JsonObject:
        return {
            "id": secrets.token_hex(8),
            "at": self._parts.clock.now().isoformat(),
            "tenant": key.tenant,
            "user": key.user,
            "key": key.id,
            "address": _address(request),
            "path": request.url.path,
            "status": int(status),
        }

    async def _append(self, entry: JsonObject) -> None:
        try:
            await self._parts.audit.append(entry)
        except NacreError as error:
            # The change is made, and its commit names the key: the client must not repeat it.
            _LOG.error(json.dumps({"event": "audit log not written", "error": str(error)}))


def _query(operation: Operation, request: Request) -> dict[str, Any]:
    known = {one.name for one in operation.parameters} | ({"space"} if operation.has_space else set())
    if unknown := sorted(set(request.query_params) - known):
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"there is no parameter {unknown[0][:40]!r} here")
    found: dict[str, Any] = {}
    for one in operation.parameters:
        given = request.query_params.get(one.name)
        found[one.name] = one.schema.get("default") if given is None else one.convert(given)
    return found


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _health(_: Request) -> Response:
    return json_response({"status": "ok", "version": VERSION})


async def _no_route(request: Request, _: Exception) -> Response:
    return problem(HTTPStatus.NOT_FOUND, f"there is no {request.url.path[:100]}; see GET /openapi.json")


async def _no_method(request: Request, error: Exception) -> Response:
    headers = error.headers if isinstance(error, HTTPException) else None
    detail = f"{request.url.path[:100]} has no {request.method}"
    return problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers=headers)


def _not_allowed(request: Request, methods: Collection[str]) -> Response:
    allowed = ", ".join(sorted(methods))
    detail = f"{request.url.path[:100]} has no {request.method}, only {allowed}"
    return problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed})
