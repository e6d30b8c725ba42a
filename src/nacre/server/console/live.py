"""Server-sent events: the page hears that memories, sessions or agents have changed, and reloads its part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from starlette.responses import Response, StreamingResponse

from nacre.errors import NacreError
from nacre.server.console.page import Page
from nacre.store.history import History

POLL_SECONDS = 1.0
STREAM_SECONDS = 300.0
"""The browser connects again by itself, and its session is checked again."""
RETRY_MS = 1_000
MAX_STREAMS = 64
"""Streams at once; more are refused, so that other requests are answered."""
_STREAMS: set[asyncio.Event] = set()
"""One for each open stream; set when the process is about to end."""


def stop_streams() -> None:
    """End all streams, so that the server need not wait for them."""
    for one in _STREAMS:
        one.set()


async def events(page: Page) -> Response:
    """Send a line whenever something has changed."""
    if len(_STREAMS) >= MAX_STREAMS:
        return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE)
    location = await page.location()
    home = page.parts.settings.home if page.parts.has_home and page.may("listSessions") else None

    def memory() -> str:
        folders = location.directory, location.cache / "review"
        return " ".join([str(History(location.history).newest), *map(_stamp, folders)])

    watched: dict[str, Callable[[], str]] = {"memory": memory}
    if home is not None:
        watched["sessions"] = lambda: _newest(home / "projects", "*/*.jsonl")
    if page.parts.has_home and page.may("listAgents"):
        watched["agents"] = lambda: "|".join(
            (
                _newest(page.parts.settings.home / "projects", "*/*/agents/*"),
                _newest(page.parts.settings.home / "teams", "*/*"),
                _newest(page.parts.settings.home / "teams", "*/*/*"),
            )
        )
    return StreamingResponse(_stream(page, watched), media_type="text/event-stream")


async def _stream(page: Page, watched: dict[str, Callable[[], str]]) -> AsyncIterator[str]:
    stopped = asyncio.Event()
    _STREAMS.add(stopped)
    try:
        yield f"retry: {RETRY_MS}\n\n"
        known = await asyncio.to_thread(_look, watched)
        yield "event: ready\ndata: ready\n\n"
        clock = page.parts.clock
        until = clock.seconds() + STREAM_SECONDS
        while clock.seconds() < until and not stopped.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), POLL_SECONDS)
            with suppress(NacreError):
                await page.space()  # a change by another process is brought to this one's copy
            now = await asyncio.to_thread(_look, watched)
            changed = [name for name, stamp in now.items() if stamp != known[name]]
            known = now
            yield "".join(f"event: changed\ndata: {name}\n\n" for name in changed) or ": \n\n"
    finally:
        _STREAMS.discard(stopped)


def _look(watched: dict[str, Callable[[], str]]) -> dict[str, str]:
    found = {}
    for name, look in watched.items():
        try:
            found[name] = look()
        except (OSError, NacreError):
            found[name] = ""
    return found


def _stamp(path: Path) -> str:
    try:
        return str(path.stat().st_mtime_ns)
    except OSError:
        return ""


def _newest(folder: Path, pattern: str) -> str:
    """Return number and newest time of the files in a folder."""
    times = [_stamp(one) for one in folder.glob(pattern)]
    return f"{len(times)} {max(times, default='')}"


ROUTES = (("GET", "/events", events),)
