"""Show changes of background agents in a chat without disturbing the input line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from nacre.agents.registry import AgentState
from nacre.app.session_text import ended_line, waiting_line
from nacre.cli.chat.render import TurnPrinter
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.messages.events import Notice

TICK_SECONDS = 1.0
"""Seconds between two updates of the elapsed time."""


class Beside:
    """Receives every change of an agent, in the thread of the session."""

    def __init__(
        self,
        states: Callable[[], Sequence[AgentState]],
        above: Callable[[str], bool],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`above` shows a line above the input line and returns whether it could."""
        self.printer: TurnPrinter | None = None
        """Printer of the current turn; None between turns."""
        self._states = states
        self._above = above
        self._clock = clock
        self._running: set[str] = set()
        self._untold: list[str] = []

    def changed(self, state: AgentState) -> None:
        """Show a temporary line while an agent runs, and a permanent one when it has ended."""
        if state.is_running:
            self._running.add(state.name)
        elif state.name in self._running:
            self._running.discard(state.name)
            if state.background:
                self._tell(ended_line(state))
        self._pass_on(self.printer)

    @asynccontextmanager
    async def shown(self, printer: TurnPrinter) -> AsyncIterator[None]:
        """During a turn its printer shows the changes and the waiting time."""
        self.printer = printer
        ticking = asyncio.create_task(self._tick(printer), name="whom a turn waits for")
        try:
            yield
        finally:
            self.printer = None
            ticking.cancel()
            await asyncio.wait({ticking})

    def untold(self) -> list[str]:
        """Return lines that could not be shown."""
        lines = self._untold
        self._untold = []
        return lines

    async def _tick(self, printer: TurnPrinter) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if any(each.is_running and not each.background for each in self._states()):
                self._pass_on(printer)

    def _pass_on(self, printer: TurnPrinter | None) -> None:
        if printer is not None:
            printer.passing(waiting_line(self._states(), self._clock.now()))

    def _tell(self, line: str) -> None:
        if self.printer is not None:
            self.printer.show(Notice(line))
        elif not self._above(f"· {line}"):
            self._untold.append(line)
