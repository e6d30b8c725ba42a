"""Opens the screen, and leaves the terminal as it was, however the conversation ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from nacre.tui.app import ChatApp
from nacre.tui.talk import Start

ENDING = (signal.SIGTERM, signal.SIGHUP)
LIGHT_BACKGROUNDS = frozenset({"7", "15"})
"""White and bright white, as terminals that set COLORFGBG number them."""
SIGNALLED = 128
"""Above this, exit codes name a signal."""


@dataclass(frozen=True, slots=True)
class ChatResult:
    """How a conversation ended."""

    code: int
    last_words: tuple[str, ...] = ()
    """What came of it that nobody has seen."""


def run_tui(start: Start) -> ChatResult:
    """Hold a conversation on the whole screen until the person leaves; raises what it could not cope with."""
    app = ChatApp(start)
    app.theme = theme_for(os.environ)
    return asyncio.run(_held(app))


def theme_for(environ: Mapping[str, str]) -> str:
    """The terminal's own colours; where it says that it is light, with darker marks."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "ansi-light" if background in LIGHT_BACKGROUNDS else "ansi-dark"


async def _held(app: ChatApp) -> ChatResult:
    loop = asyncio.get_running_loop()
    for number in ENDING:
        # Whoever had it ignored, as `nohup` does, meant that.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, app.end_by, SIGNALLED + number)
    loop.add_signal_handler(signal.SIGINT, app.action_stop)
    try:
        await app.run_async()
    finally:
        await app.abandon()
    if app.crash is not None:
        raise app.crash
    return ChatResult(app.return_code or 0, tuple(app.last_words))
