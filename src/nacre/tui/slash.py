"""Run slash commands in a thread; their output goes into the transcript."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from nacre.app.chat_session import Ending
from nacre.app.open_agent import OpenedAgent
from nacre.tui.pieces import NoticeLine

T = TypeVar("T")
ERROR_BEGINS = "nacre: "
"""Prefix of errors on the command line, which is redundant on the screen."""
Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
Obey: TypeAlias = Callable[[str, OpenedAgent, Run, Callable[[OpenedAgent], None]], Ending]
"""Runs a line: the session, a function that runs a coroutine there, a function that continues the turn."""


@dataclass(frozen=True, slots=True)
class Slash:
    """The available commands and the function that runs them."""

    commands: Mapping[str, str]
    """Each with its help line."""
    obey: Obey


@dataclass(frozen=True, slots=True)
class Obeyed:
    """The result of a line."""

    ending: Ending
    lines: tuple[NoticeLine, ...]
    goes_on: bool
    """Whether to continue the conversation without a new message."""


class Obeying:
    """Runs one line at a time in a thread, because commands wait for the session's event loop."""

    def __init__(self, slash: Slash) -> None:
        self._slash = slash
        self._under_way: Future[Any] | None = None

    async def obey(self, line: str, ready: OpenedAgent) -> Obeyed:
        loop = asyncio.get_running_loop()
        again: list[OpenedAgent] = []

        def run(work: Coroutine[Any, Any, T]) -> T:
            self._under_way = under_way = asyncio.run_coroutine_threadsafe(work, loop)
            try:
                return under_way.result()
            except CancelledError:
                raise KeyboardInterrupt from None  # as commands know it from a terminal
            finally:
                self._under_way = None

        def act() -> tuple[Ending, tuple[NoticeLine, ...]]:
            out = io.StringIO()
            err = io.StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                ending = self._ended(line, ready, run, again.append)
            return ending, (*_told(out, "info"), *_told(err, "error"))

        ending, lines = await asyncio.to_thread(act)
        return Obeyed(ending, lines, goes_on=bool(again))

    def _ended(self, line: str, ready: OpenedAgent, run: Run, go_on: Callable[[OpenedAgent], None]) -> Ending:
        try:
            return self._slash.obey(line, ready, run, go_on)
        except KeyboardInterrupt:
            print("stopped")  # noqa: T201 - into the conversation, as all that commands say
            return None

    def stop(self) -> bool:
        """Stop what a command waits for; returns False if nothing runs."""
        return self._under_way is not None and self._under_way.cancel()


def _told(said: io.StringIO, level: str) -> list[NoticeLine]:
    text = said.getvalue().rstrip()
    if not text:
        return []
    if level == "error":
        return [NoticeLine(line.removeprefix(ERROR_BEGINS), "error") for line in text.splitlines()]
    return [NoticeLine(text, "plain")]
