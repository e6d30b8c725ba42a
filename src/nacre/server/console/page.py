"""One request of the console: its session, its space, the API behind it, and the answer as HTML."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from nacre.clock import Clock
from nacre.memory.files.location import Location
from nacre.server.console.access import BrowserSession, BrowserSessions, LoginLink
from nacre.server.console.rendering import address
from nacre.server.keys import ApiKey, KeyStore
from nacre.server.operation import (
    Answer,
    Call,
    Operation,
    ProblemError,
    parsed_body,
    read_body,
    require_role,
)
from nacre.server.spaces import DEFAULT_SPACE, Space, Spaces
from nacre.settings import Settings

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "nacre_theme"
MAX_FIELDS = 100
NOTICES = {
    "saved": "Saved.",
    "unchanged": "Nothing has changed.",
    "forgotten": "Forgotten. The history keeps it.",
    "undone": "Undone. Later changes stay.",
    "accepted": "Accepted.",
    "rejected": "Dropped.",
    "sent": "Sent.",
    "started": "Started. This page shows the result.",
}
"""What a page says after a change, by the word in its address."""
Perform: TypeAlias = Callable[[Operation, Call, Request], Awaitable[Answer]]
TenantSettings: TypeAlias = Callable[[ApiKey], Awaitable[Mapping[str, object]]]
"""Returns names and values of the settings of a key's tenant."""


@dataclass(frozen=True, kw_only=True)
class ConsoleParts:
    """What the pages work on: the parts of the server."""

    settings: Settings
    spaces: Spaces
    keys: KeyStore
    clock: Clock
    operations: Mapping[str, Operation]
    """By id; a server with a database has fewer."""
    perform: Perform
    has_home: bool
    tenant_settings: TenantSettings | None = None
    link: LoginLink | None = None


@dataclass(frozen=True, slots=True)
class PageLink:
    """An entry of the navigation."""

    path: str
    title: str
    operation: str
    """The operation that the page needs."""
    is_admin: bool = False


NAVIGATION = (
    PageLink("/", "Overview", "listMemories"),
    PageLink("/memories", "Memory", "listMemories"),
    PageLink("/review", "Review", "listProposals"),
    PageLink("/recall", "Recall", "recall"),
    PageLink("/sessions", "Sessions", "listRequests"),
    PageLink("/agents", "Agents", "listAgents"),
    PageLink("/dreams", "Dreams", "startJob"),
    PageLink("/history", "History", "listCommits"),
    PageLink("/settings", "Settings", "listJobs", is_admin=True),
    PageLink("/audit", "Audit log", "listAuditLog", is_admin=True),
)


@dataclass(kw_only=True)
class Page:
    """A request of a browser that has signed in."""

    request: Request
    parts: ConsoleParts
    templates: Environment
    session: BrowserSession
    sessions: BrowserSessions
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> ApiKey:
        return self.session.key

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def space_name(self) -> str:
        """The space in the address, else the first that the key may use."""
        return self.query.get("space") or self.form.get("space") or self.start_space

    start_space: str = DEFAULT_SPACE

    async def space(self) -> Space:
        return await self.parts.spaces.open(self.key, self.space_name)

    async def location(self) -> Location:
        return (await self.space()).memory.location

    def may(self, operation: str) -> bool:
        """Return whether the server has an operation and the key may use it."""
        found = self.parts.operations.get(operation)
        return (
            found is not None
            and self.key.allows(found.needs)
            and not (found.needs_all_spaces and self.key.spaces)
        )

    async def call(
        self,
        operation: str,
        *,
        path: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        if_match: str | None = None,
        **query: object,
    ) -> Any:
        """Return what the API answers; raises `ProblemError` as it does."""
        found = self.parts.operations.get(operation)
        if found is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "this server has no such page")
        require_role(self.key, found.needs, needs_all_spaces=found.needs_all_spaces)
        defaults = {one.name: one.schema.get("default") for one in found.parameters}
        call = Call(
            key=self.key,
            spaces=self.parts.spaces,
            space_name=self.space_name,
            path=dict(path or {}),
            query=defaults | query,
            body=parsed_body(found, dict(body or {})),
            if_match=if_match,
            clock=self.parts.clock,
        )
        answer = await self.parts.perform(found, call, self.request)
        return answer.content

    def address(self, path: str, **query: object) -> str:
        """Return the address of a page in the same space."""
        space = "" if self.space_name == self.start_space else self.space_name
        return address(path, space, **query)

    def redirect(self, path: str, **query: object) -> Response:
        return RedirectResponse(self.address(path, **query), HTTPStatus.SEE_OTHER)

    async def html(self, template: str, *, status: int = HTTPStatus.OK, **values: object) -> Response:
        """Return a page."""
        shown = {
            "page": self,
            "at": self.request.url.path.removeprefix("/console") or "/",
            "navigation": [
                one
                for one in NAVIGATION
                if self.may(one.operation) and (not one.is_admin or self.key.allows("admin"))
            ],
            "spaces": await self.parts.spaces.names(self.key),
            "u": self.address,
            "csrf": self.session.csrf,
            "can_write": self.key.allows("member"),
            "theme": theme_of(self.request),
            "notice": NOTICES.get(self.query.get("done", "")),
            "notice_commit": commit_of(self.query.get("commit", "")),
            "one_person": self.parts.link is not None,
            **values,
        }
        text = self.templates.get_template(template).render(shown)
        return HTMLResponse(text.encode(errors="replace"), status)


def theme_of(request: Request) -> str:
    """Return the theme that the browser has chosen."""
    theme = request.cookies.get(THEME_COOKIE, "auto")
    return theme if theme in THEMES else "auto"


def commit_of(text: str) -> str:
    """Return the id of a commit in an address; empty for anything else."""
    is_id = 4 <= len(text) <= 40 and all(sign in "0123456789abcdef" for sign in text)
    return text if is_id else ""


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a repeated field the last counts."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the form as the page does")
    body = await read_body(request)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the form is malformed; reload the page") from error
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def check_csrf(session: BrowserSession, form: Mapping[str, str]) -> None:
    """Raise `ProblemError` unless the form came from a page of this session."""
    if not hmac.compare_digest(form.get("csrf", "").encode(errors="replace"), session.csrf.encode()):
        raise ProblemError(HTTPStatus.FORBIDDEN, "this form belongs to another session; reload the page")
