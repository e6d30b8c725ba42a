"""Runs the full-screen chat until it ends, however it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass, replace

from nacre.tui.app import ChatApp
from nacre.tui.start import Start
from nacre.tui.themes import theme_for

ENDING = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128
"""Exit codes above this name a signal."""
HANGUP_SECONDS = 1.0
"""How often to check for a closed terminal, for a process that ignores SIGHUP."""
STANDARD_STREAMS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class ChatResult:
    """How the chat ended."""

    code: int
    last_words: tuple[str, ...] = ()
    """Results that were not shown."""
    farewell: str = ""
    """The session, its cost and how to resume it."""


def run_tui(start: Start) -> ChatResult:
    """Run the chat until the user leaves; raises an error that it could not handle."""
    # A collection of what was imported takes 100 ms, in which no key is shown.
    app = ChatApp(replace(start, on_loaded=gc.freeze))
    app.theme = theme_for(os.environ, start.settings.home)
    return asyncio.run(_held(app))


async def _held(app: ChatApp) -> ChatResult:
    loop = asyncio.get_running_loop()
    for number in ENDING:
        # An ignored signal, as with `nohup`, stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, _end, app, number)
    loop.add_signal_handler(signal.SIGINT, app.action_stop)
    watching = asyncio.create_task(_end_on_hangup(app), name="watch the terminal")
    try:
        await app.run_async()
    finally:
        watching.cancel()
        await app.abandon()
    if app.crash is not None:
        raise app.crash
    return ChatResult(app.return_code or 0, tuple(app.last_words), app.farewell)


async def _end_on_hangup(app: ChatApp) -> None:
    """End the chat when its terminal is closed, also if SIGHUP is ignored."""
    while not _is_closed(0):  # noqa: ASYNC110 - nothing reports it
        await asyncio.sleep(HANGUP_SECONDS)
    _end(app, signal.SIGHUP)


def _end(app: ChatApp, number: signal.Signals) -> None:
    """End in order; the null device replaces a closed terminal, so that nothing fails or waits."""
    closed = [stream for stream in STANDARD_STREAMS if _is_closed(stream)]
    if closed:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in closed:
            os.dup2(null, stream)
        os.close(null)
        if app._driver is not None:
            # Textual's writer has ended with an error, and its queue would fill up and block the event loop.
            setattr(app._driver, "write", lambda data: None)  # noqa: B010 - a method of one object
    app.end_by(SIGNALLED + number)


def _is_closed(stream: int) -> bool:
    """Return whether a stream is a terminal that was hung up."""
    poll = select.poll()
    poll.register(stream, 0)  # errors are always reported
    with suppress(OSError):
        return bool(poll.poll(0)) and not os.isatty(stream)
    return True
