"""Run the full-screen chat and restore the terminal, however it ends."""

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
"""White and bright white in COLORFGBG."""
SIGNALLED = 128
"""Exit codes above this name a signal."""


@dataclass(frozen=True, slots=True)
class ChatResult:
    """How the chat ended."""

    code: int
    last_words: tuple[str, ...] = ()
    """Results that were not shown."""


def run_tui(start: Start) -> ChatResult:
    """Run the chat until the user leaves; raises an error that it could not handle."""
    app = ChatApp(start)
    app.theme = theme_for(os.environ)
    return asyncio.run(_held(app))


def theme_for(environ: Mapping[str, str]) -> str:
    """Return the theme for the terminal's background."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "ansi-light" if background in LIGHT_BACKGROUNDS else "ansi-dark"


async def _held(app: ChatApp) -> ChatResult:
    loop = asyncio.get_running_loop()
    for number in ENDING:
        # An ignored signal, as with `nohup`, stays ignored.
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
