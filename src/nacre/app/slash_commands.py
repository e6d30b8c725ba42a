"""Runs slash commands where there is no terminal: what they print is returned instead."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from nacre.app.endings import Ending
from nacre.errors import NacreError
from nacre.formatting import printable

if TYPE_CHECKING:
    from nacre.app.open_agent import OpenedAgent

T = TypeVar("T")
Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
RunSlash: TypeAlias = "Callable[[str, OpenedAgent, Run, Callable[[OpenedAgent], None]], Ending]"
"""Runs a line: the session, a function that runs a coroutine there, a function that continues the turn."""


@dataclass(frozen=True, slots=True)
class SlashCommands:
    """The available commands and the function that runs them."""

    commands: Mapping[str, str]
    """Each with its help line."""
    run: RunSlash
    at_once: frozenset[str] = frozenset()
    """Those that may run while a turn works."""


class PrintedText(NamedTuple):
    """What a command printed to one of its streams."""

    text: str
    is_error: bool


class SlashResult(NamedTuple):
    """What a command did."""

    ending: Ending
    printed: Sequence[PrintedText]
    is_again: bool
    """Whether the turn continues."""


class _Output(io.TextIOBase):
    """A stream whose text goes to a list, in the order in which both streams were written."""

    def __init__(self, printed: list[PrintedText], *, is_error: bool = False) -> None:
        self._printed = printed
        self._is_error = is_error

    def write(self, text: str) -> int:
        before = ""
        if self._printed and self._printed[-1].is_error == self._is_error:
            before = self._printed.pop().text
        self._printed.append(PrintedText(before + text, self._is_error))
        return len(text)


class SlashRunner:
    """Runs the commands of one conversation, in a thread because they wait for the session's event loop."""

    def __init__(self, one_command: asyncio.Lock | None = None) -> None:
        """`one_command` is shared by all conversations of a process: commands print to the same streams."""
        self._one_command = one_command or asyncio.Lock()
        self._under_way: Future[Any] | None = None

    async def run(
        self, slash: SlashCommands, line: str, ready: OpenedAgent, *, is_stoppable: bool = True
    ) -> SlashResult:
        """Run a line that begins with a slash; an error is printed text, too."""
        loop = asyncio.get_running_loop()
        again: list[OpenedAgent] = []
        printed: list[PrintedText] = []

        def run(work: Coroutine[Any, Any, T]) -> T:
            under_way = asyncio.run_coroutine_threadsafe(work, loop)
            if is_stoppable:
                self._under_way = under_way
            try:
                return under_way.result()
            except CancelledError:
                raise KeyboardInterrupt from None  # as commands know it from a terminal
            finally:
                if is_stoppable:
                    self._under_way = None

        def act() -> Ending:
            with redirect_stdout(_Output(printed)), redirect_stderr(_Output(printed, is_error=True)):
                try:
                    return slash.run(line, ready, run, again.append)
                except KeyboardInterrupt:
                    print("stopped")  # noqa: T201 - captured, as everything that commands print
                    return None

        try:
            async with self._one_command:
                ending = await asyncio.to_thread(act)
        except NacreError as error:
            return SlashResult(
                None, (*printed, PrintedText(printable(str(error)), is_error=True)), is_again=False
            )
        return SlashResult(ending, tuple(printed), bool(again))

    def stop(self) -> bool:
        """Stop what a command waits for; returns False if nothing runs."""
        return self._under_way is not None and self._under_way.cancel()
