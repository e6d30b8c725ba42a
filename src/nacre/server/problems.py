"""Errors of the HTTP API as problem documents (RFC 9457), in one line that says what to do."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from nacre.errors import MailError, NacreError, SessionNotFound, StoreError, TranscriptError, VersionConflict
from nacre.server.operation import ProblemError
from nacre.server.spaces import UnknownSpaceError

MAX_DETAIL_CHARS = 600
_LOG = logging.getLogger("nacre.server")
PROBLEM_TYPE = "about:blank"


def json_response(
    content: object,
    status: int = HTTPStatus.OK,
    *,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    """Return an answer in JSON; half of a surrogate pair, as file names and logs may contain, becomes `?`."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(errors="replace"), int(status), headers=headers, media_type=media_type)


def problem(
    status: HTTPStatus | int,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> Response:
    """Return an error as a problem document."""
    status = HTTPStatus(status)
    line = " ".join(detail.split())[:MAX_DETAIL_CHARS]
    content = {
        "type": PROBLEM_TYPE, "title": status.phrase, "status": int(status), "detail": line, **(more or {}),
    }  # fmt: skip
    return json_response(content, status, headers=headers, media_type="application/problem+json")


def problem_of(error: NacreError) -> Response:
    """Return the answer for an exception of nacre."""
    match error:
        case ProblemError():
            return problem(error.status, str(error), headers=error.headers, more=error.more)
        case UnknownSpaceError() | SessionNotFound():
            return problem(HTTPStatus.NOT_FOUND, str(error))
        case VersionConflict() | TranscriptError():
            return problem(HTTPStatus.CONFLICT, str(error))
        case StoreError() if isinstance(error.__cause__, OSError):
            # Such as a full disk, or a lock that another process holds: the request was right.
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), headers={"Retry-After": "5"})
        case StoreError() | MailError():
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        case _:
            return problem(HTTPStatus.BAD_REQUEST, str(error))


def failed(operation: str, error: Exception) -> Response:
    """Log a defect without its message, which may contain a memory's text, and answer."""
    where = [f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_tb(error.__traceback__)]
    _LOG.error(
        json.dumps(
            {
                "event": "failed",
                "operation": operation,
                "error": type(error).__name__,
                "where": where[-8:],
            }
        )
    )
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the server failed; its log says where")
