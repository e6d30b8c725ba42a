"""Operations on sessions: list, read, search, and what the model saw at each request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from threading import Lock

from nacre.errors import SessionNotFound
from nacre.inspect.session_requests import SessionRequest as _Request
from nacre.inspect.session_requests import compared, reply_json, request_places, session_requests, usage_json
from nacre.memory.secrets import redact
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.messages.wire import render_blocks
from nacre.server.operation import CURSOR, MAX_DIGITS, Answer, Call, Operation, ProblemError, whole_number
from nacre.server.schema import (
    RequestBlocks,
    RequestList,
    SearchHits,
    SessionPage,
    SessionQuery,
    SessionRequest,
    SessionWhole,
)
from nacre.server.spaces import DEFAULT_SPACE, Space
from nacre.session.read_session import read_log, read_view
from nacre.store.sessions import Hit, LogQuery, Sessions, query, search_log
from nacre.store.summaries import SessionSummary

MAX_PAGE = 500
MAX_BLOCKS = 500
MAX_READ = 4
"""Sessions whose requests are kept in memory."""
OPAQUE = frozenset({"data", "id", "session", "signature", "tool_use_id"})
"""Fields that are no text: pictures, signatures and ids."""


def session_operations() -> list[Operation]:
    """Return the operations on the session logs of the key's person."""
    read = _RecentRequests()
    limit = whole_number("limit", "Maximum number of entries.", default=100, most=MAX_PAGE)
    return [
        Operation(method="GET", path="/sessions", id="listSessions", parameters=(limit, CURSOR),
                  summary="List sessions, newest first; of a project, or of all in the space `user`.",
                  handler=_list, answer=SessionPage),
        Operation(method="POST", path="/sessions/search", id="searchSessions", body=SessionQuery,
                  summary="Find lines of session logs.", handler=_find_lines, answer=SearchHits),
        Operation(method="GET", path="/sessions/{id}", id="getSession", handler=_show,
                  summary="Show what the model would see if a session continued.", answer=SessionWhole),
        Operation(method="GET", path="/sessions/{id}/requests/{n}", id="getRequest", handler=_show_request,
                  summary="Show what the model saw at the n-th request, and its reply.",
                  answer=SessionRequest),
        Operation(method="GET", path="/sessions/{id}/requests", id="listRequests",
                  handler=partial(_list_requests, read), answer=RequestList,
                  summary="List the requests of a session: tokens, price, cache, and what layers did."),
        Operation(method="GET", path="/sessions/{id}/requests/{n}/blocks", id="listBlocks",
                  handler=partial(_list_blocks, read), answer=RequestBlocks,
                  parameters=(whole_number("from", "The first block, counted from 1.", default=1, most=10**6),
                              whole_number("limit", "Maximum number of blocks.", default=MAX_BLOCKS,
                                           most=MAX_BLOCKS)),
                  summary="List the blocks of a request, what layers did to them, and what has changed."),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _SessionLogs:
    """What a call may read: the logs of the person's home in one space.

    The space `user` has all sessions, that of a project those of its directory, another one none. What a
    session says is shown without credentials and local-only memories, except to local clients (M27).
    """

    space: Space
    sessions: Sessions
    clean: Callable[[str], str]

    @classmethod
    async def of(cls, call: Call) -> _SessionLogs:
        space = await call.space()
        settings = await call.spaces.home(call.key)
        clean: Callable[[str], str] = str
        if not call.key.local:
            hidden = await call.spaces.local_only(call.key)
            clean = lambda text: hidden.without(redact(text))  # noqa: E731 - one of two functions
        return cls(space, Sessions(settings.home), clean)

    def list(self) -> Sequence[SessionSummary]:
        if self.space.root is None and self.space.name != DEFAULT_SPACE:
            return []
        return self.sessions.list(self.space.root)

    def find(self, wanted: str) -> Path:
        """Return the log of a session of the space, by its id or the beginning of it."""
        return self.summary(wanted).path

    def summary(self, wanted: str) -> SessionSummary:
        """Return what is known of a session of the space, by its id or the beginning of it."""
        found = [one for one in self.list() if wanted and one.session.startswith(wanted)]
        found = [one for one in found if one.session == wanted][:1] or found
        if len(found) != 1:
            number = "several sessions of this space begin" if found else "no session of this space begins"
            raise ProblemError(
                HTTPStatus.CONFLICT if found else HTTPStatus.NOT_FOUND,
                f"{number} with {wanted[:100]!r}; see GET /v1/sessions",
            )
        return found[0]

    def shown(self, content: JsonObject) -> JsonObject:
        return {name: _cleaned(value, self.clean) for name, value in content.items()}


async def _list(call: Call) -> Answer:
    logs = await _SessionLogs.of(call)

    def read() -> JsonObject:
        found = logs.list()
        begin = 0
        if after := call.query["cursor"]:
            begin = next((place for place, one in enumerate(found, 1) if one.session == after), len(found))
        page = found[begin : begin + call.query["limit"]]
        more = page[-1].session if page and begin + len(page) < len(found) else None
        return logs.shown({"sessions": [summary_json(one) for one in page], "next": more})

    return Answer(content=await asyncio.to_thread(read))


async def _find_lines(call: Call) -> Answer:
    logs = await _SessionLogs.of(call)

    def find() -> JsonObject:
        wanted = query(call.body.query)
        hits = (hit for one in logs.list() for hit in _search(one.path, wanted, logs.clean))
        return {
            "hits": [
                {"session": hit.session, "line": hit.line, "role": hit.role, "snippet": hit.snippet}
                for hit in islice(hits, call.body.limit)
            ]
        }

    return Answer(content=await asyncio.to_thread(find))


async def _show(call: Call) -> Answer:
    logs = await _SessionLogs.of(call)

    def read() -> JsonObject:
        path = logs.find(call.path["id"])
        found = read_view(path)
        loaded = read_log(path)
        if found is None or loaded is None:
            raise _too_large(path)
        return logs.shown({
            "session": path.stem,
            "tokens": found.view.count(),
            "requests": len(request_places(loaded.records)),
            "messages": [*found.view.messages],
        })  # fmt: skip

    return Answer(content=await asyncio.to_thread(read))


async def _show_request(call: Call) -> Answer:
    logs = await _SessionLogs.of(call)

    def read() -> JsonObject:
        return logs.shown(_request(logs.find(call.path["id"]), call.path["n"]))

    return Answer(content=await asyncio.to_thread(read))


async def _list_requests(recent: _RecentRequests, call: Call) -> Answer:
    logs = await _SessionLogs.of(call)

    def read() -> JsonObject:
        found = logs.summary(call.path["id"])
        listed = [one.as_json() for one in recent.read(found.path)]
        return logs.shown({"session": found.session, "title": found.title, "requests": [*listed]})

    return Answer(content=await asyncio.to_thread(read))


async def _list_blocks(recent: _RecentRequests, call: Call) -> Answer:
    logs = await _SessionLogs.of(call)

    def read() -> JsonObject:
        path = logs.find(call.path["id"])
        found = recent.read(path)
        number = _number(path, call.path["n"], len(found))
        request = found[number - 1]
        blocks = compared(request, found[number - 2] if number > 1 else None)
        first = call.query["from"] - 1
        shown = blocks[first : first + call.query["limit"]]
        marks: Sequence[JsonObject] = [
            {"place": n, "mark": one.mark, "state": one.state, "kind": one.kind, "tokens": one.tokens}
            for n, one in enumerate(blocks, 1)
            if one.mark or one.state != "same"
        ]
        return logs.shown({
            **request.as_json(),
            "session": path.stem,
            "requests": len(found),
            "total": len(blocks),
            "from": first + 1,
            "blocks": [one.as_json() for one in shown],
            "marked": [*marks],
            "reply": reply_json(request),
        })  # fmt: skip

    return Answer(content=await asyncio.to_thread(read))


class _RecentRequests:
    """The requests of the sessions that were read last; a log is read again only after it has changed."""

    def __init__(self) -> None:
        self._requests: OrderedDict[Path, tuple[tuple[int, int], Sequence[_Request]]] = OrderedDict()
        """Each with size and time of its log."""
        self._lock = Lock()

    def read(self, path: Path) -> Sequence[_Request]:
        found = path.stat()
        stamp = found.st_size, found.st_mtime_ns
        known = self._requests.get(path)
        if known is None or known[0] != stamp:
            loaded = read_log(path)
            if loaded is None:
                raise _too_large(path)
            known = stamp, session_requests(loaded.records)
            with self._lock:
                self._requests[path] = known
                while len(self._requests) > MAX_READ:
                    self._requests.popitem(last=False)
        return known[1]


def _search(log: Path, wanted: LogQuery, clean: Callable[[str], str]) -> Iterator[Hit]:
    with suppress(SessionNotFound):  # deleted since it was listed
        yield from search_log(log, wanted, clean=clean)


def _cleaned(value: Json, clean: Callable[[str], str]) -> Json:
    match value:
        case str():
            return clean(value)
        case list():
            return [_cleaned(one, clean) for one in value]
        case dict():
            return {
                name: one if name in OPAQUE and isinstance(one, str) else _cleaned(one, clean)
                for name, one in value.items()
            }
        case _:
            return value


def _too_large(path: Path) -> ProblemError:
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"session {path.stem} is too large")


def summary_json(one: SessionSummary) -> JsonObject:
    return {
        "session": one.session,
        "cwd": one.cwd,
        "started": one.started.isoformat() if one.started else None,
        "modified": one.modified.isoformat(),
        "messages": one.messages,
        "tokens": one.tokens,
        "compactions": one.compactions,
        "title": one.title,
        "bytes": one.bytes,
    }


def _number(path: Path, text: str, most: int) -> int:
    """Return the number of a request of a session; raises `ProblemError` if there is none."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:MAX_DIGITS]) <= most:
        raise ProblemError(
            HTTPStatus.NOT_FOUND, f"session {path.stem} has requests 1 to {most}, not {text[:40]!r}"
        )
    return int(text[:MAX_DIGITS])


def _request(path: Path, number: str) -> JsonObject:
    loaded = read_log(path)
    if loaded is None:
        raise _too_large(path)
    places = request_places(loaded.records)
    wanted = _number(path, number, len(places))
    place = places[wanted - 1]
    reply = loaded.records[place]
    assert isinstance(reply, Said), "request_places returns replies"
    view = View.of(loaded.records[:place])
    return {
        "session": path.stem,
        "request": wanted,
        "requests": len(places),
        "at": reply.at.isoformat(),
        "tokens": view.count(),
        "messages": [*view.messages],
        "reply": {"role": reply.role, "content": render_blocks(reply.blocks)},
        "usage": usage_json(reply.reply.usage if reply.reply else None),
    }
