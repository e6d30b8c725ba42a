"""One operation of the HTTP API: its path, its types, who may call it, and the function that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from nacre.asgi import read_refused
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import NacreError
from nacre.memory.checks.local_only import LocalOnlyEntries
from nacre.memory.format.entry import MemoryChange, Origin, one_line
from nacre.server.keys import ApiKey, Role
from nacre.server.spaces import Space, Spaces

MAX_DIGITS = 10
MAX_BODY_BYTES = 1_048_576
BODY_SECONDS = 30.0
"""Time for a whole body."""


class Body(BaseModel):
    """A request body; unknown fields are refused, because a typing error must not be ignored."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class ProblemError(NacreError):
    """Raised to answer with a status and one line that says what to do (RFC 9457)."""

    def __init__(
        self, status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})
        self.more = more


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter."""

    name: str
    description: str
    schema: Mapping[str, object]
    convert: Callable[[str], Any] = str


def whole_number(name: str, description: str, *, default: int, most: int) -> Parameter:
    """Return a parameter for a number from 1 to `most`."""

    def convert(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS or not 1 <= int(text) <= most:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"{name} is a number from 1 to {most:,}")
        return int(text)

    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter(name=name, description=description, schema=schema, convert=convert)


def yes_or_no(name: str, description: str) -> Parameter:
    """Return a parameter that is `true` or `false`, which is the default."""

    def convert(text: str) -> bool:
        if text not in {"true", "false"}:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"{name} is true or false")
        return text == "true"

    schema = {"type": "boolean", "default": False}
    return Parameter(name=name, description=description, schema=schema, convert=convert)


def short_text(name: str, description: str, *, most: int) -> Parameter:
    """Return a parameter for a text of at most `most` characters."""

    def convert(text: str) -> str:
        if len(text) > most:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"{name} has at most {most:,} characters")
        return text

    schema = {"type": "string", "maxLength": most, "default": ""}
    return Parameter(name=name, description=description, schema=schema, convert=convert)


def one_of(name: str, description: str, values: Sequence[str]) -> Parameter:
    """Return a parameter that is one of some words; empty by default."""

    def convert(text: str) -> str:
        if text not in {"", *values}:
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"{name} is one of {', '.join(values)}")
        return text

    schema = {"type": "string", "enum": ["", *values], "default": ""}
    return Parameter(name=name, description=description, schema=schema, convert=convert)


CURSOR = Parameter(
    name="cursor",
    description="Where the next page begins: `next` of the page before.",
    schema={"type": "string"},
)


@dataclass(slots=True, kw_only=True)
class Call:
    """One authenticated request."""

    key: ApiKey
    spaces: Spaces
    space_name: str
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any = None
    if_match: str | None = None
    clock: Clock = SYSTEM_CLOCK
    commit: str = ""
    """The commit that the call made, for the audit log."""

    async def space(self) -> Space:
        """Return the space that the client named."""
        return await self.spaces.open(self.key, self.space_name)

    async def hidden(self, space: Space) -> LocalOnlyEntries:
        """Return the memories of a space that the client may not see."""
        return await space.hidden(self.key)

    def change(self, reason: str, *, origin: Origin | None = "user") -> MemoryChange:
        """Return a change in the name of the key's user, or of an agent that writes with it (M15)."""
        given = str(self.query.get("reason") or getattr(self.body, "reason", ""))
        return MemoryChange(
            author="agent" if origin == "agent" else "user",
            reason=f"{one_line(given) or reason} over HTTP by {self.key.user} (key {self.key.id})",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A JSON document with a status and headers."""

    content: object
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


def require_role(key: ApiKey, role: Role, *, needs_all_spaces: bool = False) -> None:
    """Raise `ProblemError` if a key may not do what needs this role, or all spaces."""
    if not key.allows(role):
        raise ProblemError(HTTPStatus.FORBIDDEN, f"this needs a key of the role {role}; this is a {key.role}")
    if needs_all_spaces and key.spaces:
        raise ProblemError(
            HTTPStatus.FORBIDDEN, "this needs a key for all spaces; this key is for some of them"
        )


async def read_body(request: Request) -> bytes:
    """Return the body of a request; raises `ProblemError` if it is too large or too slow."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BODY_BYTES:
                    await read_refused(request.receive)
                    raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a body has at most 1 MiB")
                parts.append(part)
    except TimeoutError:
        raise ProblemError(
            HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {BODY_SECONDS:g} s"
        ) from None
    return b"".join(parts)


def parsed_body(operation: Operation, given: object) -> BaseModel | None:
    """Return the body of an operation, from JSON in bytes or from values; raises `ProblemError`."""
    if operation.body is None:
        return None
    try:
        if isinstance(given, bytes):
            return operation.body.model_validate_json(given or b"{}")
        return operation.body.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "body"
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"{place}: {first['msg']}") from error


Handler: TypeAlias = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An entry of the API's table, from which routes and the OpenAPI document are made."""

    method: str
    path: str
    id: str
    summary: str
    handler: Handler
    answer: type[BaseModel]
    body: type[Body] | None = None
    parameters: Sequence[Parameter] = ()
    needs: Role = "reader"
    has_space: bool = True
    needs_all_spaces: bool = False
    """A key for some spaces may not call it: the answer is about all of them."""
    status: HTTPStatus = HTTPStatus.OK

    @property
    def writes(self) -> bool:
        return self.method != "GET" and self.needs != "reader"
