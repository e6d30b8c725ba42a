"""The console as an ASGI application: routes, sign-in, headers of every answer, errors as pages (W1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from nacre.asgi import App, Receive, Scope, Send
from nacre.errors import NacreError
from nacre.server.console import (
    administration_pages,
    live,
    memory_pages,
    overview,
    recall_pages,
    session_pages,
)
from nacre.server.console.access import BrowserSessions
from nacre.server.console.page import (
    THEME_COOKIE,
    THEMES,
    ConsoleParts,
    Page,
    check_csrf,
    read_form,
    theme_of,
)
from nacre.server.console.rendering import PREFIX, STATIC, environment, said, static_file
from nacre.server.operation import ProblemError
from nacre.server.problems import failed, problem_of
from nacre.server.spaces import DEFAULT_SPACE

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
YEAR_SECONDS = 31_536_000
View: TypeAlias = Callable[[Page], Awaitable[Response]]


def build_console(parts: ConsoleParts) -> App:
    """Return the application for all paths below `/console`."""
    return _Console(parts)


class _Console:
    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._sessions = BrowserSessions(parts.keys, parts.clock)
        self._templates = environment(parts.clock)
        self._routes = [
            Route(PREFIX + path, endpoint=view, methods=[method])
            for method, path, view in (
                *overview.ROUTES,
                *memory_pages.ROUTES,
                *recall_pages.ROUTES,
                *session_pages.ROUTES,
                *administration_pages.ROUTES,
                *live.ROUTES,
            )
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            response = Response(status_code=HTTPStatus.BAD_REQUEST)
        except Exception as error:  # noqa: BLE001 - the top of a request: the browser gets an answer
            response = failed("console", error)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path.removeprefix(PREFIX)
        if path.startswith("/static/"):
            return self._static(path.removeprefix("/static/"))
        try:
            match request.method, path:
                case "GET", "":
                    return RedirectResponse(f"{PREFIX}/", HTTPStatus.PERMANENT_REDIRECT)
                case "GET", "/enter":
                    return await self._enter(request)
                case "GET" | "POST", "/login":
                    return await self._login(request)
                case "POST", "/theme":
                    return await self._theme(request)
                case _:
                    return await self._page(request)
        except NacreError as error:
            return self._error(request, error)

    async def _page(self, request: Request) -> Response:
        session = await self._sessions.find(request.cookies.get(_cookie_name(request), ""))
        if session is None:
            if request.method != "GET":
                raise ProblemError(HTTPStatus.FORBIDDEN, "you are not signed in; sign in and repeat it")
            wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            after = {"next": wanted} if wanted != f"{PREFIX}/" else {}
            where = f"{PREFIX}/login" + (f"?{urlencode(after)}" if after else "")
            return RedirectResponse(where, HTTPStatus.SEE_OTHER)
        form = await read_form(request) if request.method == "POST" else {}
        if request.method == "POST":
            check_csrf(session, form)
            if request.url.path == f"{PREFIX}/logout":
                self._sessions.end(request.cookies.get(_cookie_name(request), ""))
                return RedirectResponse(f"{PREFIX}/login", HTTPStatus.SEE_OTHER)
        page = Page(
            request=request, parts=self._parts, templates=self._templates, session=session,
            sessions=self._sessions,  form=form,
        )  # fmt: skip
        page.start_space = await self._start_space(page)
        try:
            return await self._routed(page)
        except NacreError as error:
            if request.headers.get("x-part"):  # a part of a page, asked for by its script
                return problem_of(error)
            status = problem_of(error).status_code
            return await page.html("error.html", status=status, title=_phrase(status), detail=said(error))

    async def _routed(self, page: Page) -> Response:
        allowed = set[str]()
        for route in self._routes:
            match, found = route.matches(page.request.scope)
            if match is Match.FULL:
                page.request.scope.update(found)
                view: View = route.endpoint
                return await view(page)
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            raise ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, "this page cannot be used like that")
        raise ProblemError(HTTPStatus.NOT_FOUND, "there is no such page")

    async def _start_space(self, page: Page) -> str:
        """Return the space of a page whose address names none: of this directory's project, if known."""
        names = await self._parts.spaces.names(page.key)
        if self._parts.link is not None:
            root = self._parts.settings.project_root
            mine = [one for one in (f"project:{root.name}", f"project:{root}") if one in names]
            if mine:
                return mine[0]
        return DEFAULT_SPACE if DEFAULT_SPACE in names or not names else names[0]

    async def _enter(self, request: Request) -> Response:
        """Sign in with the link that the command printed."""
        link = self._parts.link
        key = link.take(request.query_params.get("token", "")) if link else None
        if key is not None:
            return self._signed_in(request, self._sessions.begin(key), f"{PREFIX}/")
        if await self._sessions.find(request.cookies.get(_cookie_name(request), "")) is not None:
            return RedirectResponse(f"{PREFIX}/", HTTPStatus.SEE_OTHER)
        return self._login_page(
            request, "This link was used before. Start `nacre console` again for a new one."
        )

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            return self._login_page(request)
        form = await read_form(request)
        cookie = await self._sessions.sign_in(form.get("key", ""))
        if cookie is None:
            return self._login_page(request, "This key is unknown, revoked or expired.")
        wanted = form.get("next", "")
        is_ours = wanted.startswith(f"{PREFIX}/") and "\\" not in wanted and "//" not in wanted
        return self._signed_in(request, cookie, wanted if is_ours else f"{PREFIX}/")

    def _signed_in(self, request: Request, cookie: str, where: str) -> Response:
        response = RedirectResponse(where, HTTPStatus.SEE_OTHER)
        response.set_cookie(
            _cookie_name(request), cookie, path=PREFIX, httponly=True, samesite="lax",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return response

    def _login_page(self, request: Request, error: str = "") -> Response:
        text = self._templates.get_template("login.html").render(
            theme=theme_of(request),
            error=error,
            next=request.query_params.get("next", ""),
            one_person=self._parts.link is not None,
        )
        return HTMLResponse(text, HTTPStatus.FORBIDDEN if error else HTTPStatus.OK)

    async def _theme(self, request: Request) -> Response:
        """Remember the theme; it is no secret and changes nothing, so it needs no session."""
        form = await read_form(request)
        theme = form.get("theme", "auto")
        back = request.headers.get("referer", "").partition("://")[2].partition("/")[2]
        where = f"/{back}" if back.startswith(PREFIX[1:]) else f"{PREFIX}/"
        response = RedirectResponse(where, HTTPStatus.SEE_OTHER)
        response.set_cookie(
            THEME_COOKIE, theme if theme in THEMES else "auto", path=PREFIX, max_age=YEAR_SECONDS,
            samesite="lax",
        )  # fmt: skip
        return response

    def _static(self, name: str) -> Response:
        if name not in STATIC:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        caching = {"cache-control": f"max-age={YEAR_SECONDS}, immutable"}
        return Response(static_file(name)[0], media_type=STATIC[name], headers=caching)

    def _error(self, request: Request, error: NacreError) -> Response:
        """Return the page of an error before sign-in."""
        status = problem_of(error).status_code
        text = self._templates.get_template("login.html").render(
            theme=theme_of(request), error=str(error), next="", one_person=self._parts.link is not None
        )
        return HTMLResponse(text, status)


def _cookie_name(request: Request) -> str:
    """Return the name of the cookie: browsers share cookies between the ports of a host."""
    return f"nacre_console_{request.url.port or 443}"


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase
